/* Reads /proc/PID/maps, and from memory the headers and dynamic symbols of what is mapped. Nothing
 * in there is trusted: every size has a limit, and reads that fail end the search. */
#include "tool/attach/modules.h"

#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool/attach/remote.h"
#include "tool/util/vec.h"

enum {
    MOST_HEADERS = 64,
    MOST_DYNAMIC = 512,
    MOST_SYMBOLS = 1 << 20,
    MOST_STRINGS = 64 << 20,
    MOST_BUCKETS = 1 << 20,
};

struct line {
    uint64_t start, end, offset, inode;
    char rights[8];
    char *path;
};

static bool parse(char *text, struct line *l)
{
    unsigned long long start, end, offset, inode;
    int at = 0;
    if (sscanf(text, "%llx-%llx %7s %llx %*x:%*x %llu %n", &start, &end, l->rights, &offset, &inode,
               &at) < 5 ||
        at == 0)
        return false;
    *l = (struct line){start, end, offset, inode, "", text + at};
    sscanf(text, "%*s %7s", l->rights);
    l->path[strcspn(l->path, "\n")] = '\0';
    return *l->path == '/' || strcmp(l->path, "[vdso]") == 0;
}

static bool is_start(pid_t pid, const struct line *l)
{
    char magic[SELFMAG];
    return l->offset == 0 && l->rights[0] == 'r' &&
           remote_read(pid, l->start, magic, sizeof magic) && memcmp(magic, ELFMAG, SELFMAG) == 0;
}

static int add_line(struct modules *m, pid_t pid, const struct line *l)
{
    const struct module *before = m->count > 0 ? &m->list[m->count - 1] : NULL;
    bool goes_on = before && strcmp(before->path, l->path) == 0 && l->start >= before->end;
    if (!goes_on || l->offset == 0) {
        if (!is_start(pid, l))
            return 0;
        if (VEC_DOUBLE(m->list, m->count) != 0 || !m->list)
            return -ENOMEM;
        char *path = strdup(l->path);
        if (!path)
            return -ENOMEM;
        m->list[m->count++] = (struct module){.path = path, .start = l->start};
    }
    struct module *last = m->list ? &m->list[m->count - 1] : NULL;
    if (!last)
        return 0;
    last->end = l->end;
    if (l->rights[2] == 'x') {
        last->code_start = l->start;
        last->code_end = l->end;
    }
    return 0;
}

/* Reads the program headers. Returns their number. */
static size_t read_headers(const struct module *m, pid_t pid, Elf64_Ehdr *e,
                           Elf64_Phdr headers[MOST_HEADERS])
{
    if (!remote_read(pid, m->start, e, sizeof *e) || e->e_ident[EI_CLASS] != ELFCLASS64 ||
        e->e_phentsize != sizeof *headers || e->e_phnum > MOST_HEADERS ||
        e->e_phoff > m->end - m->start ||
        !remote_read(pid, m->start + e->e_phoff, headers, e->e_phnum * sizeof *headers))
        return 0;
    return e->e_phnum;
}

static void find_bias(struct module *m, pid_t pid)
{
    Elf64_Ehdr e;
    Elf64_Phdr headers[MOST_HEADERS];
    size_t count = read_headers(m, pid, &e, headers);
    for (size_t i = 0; i < count; i++) {
        if (headers[i].p_type == PT_LOAD) {
            m->bias = m->start - (headers[i].p_vaddr & ~(uint64_t)4095);
            m->entry = m->bias + e.e_entry;
            return;
        }
    }
}

/* The program itself contains the entry point that the kernel passed to it. */
static void find_program(struct modules *m, pid_t pid)
{
    char path[64];
    uint64_t pair[2];
    snprintf(path, sizeof path, "/proc/%d/auxv", (int)pid);
    FILE *f = fopen(path, "re");
    while (f && fread(pair, sizeof pair, 1, f) == 1 && pair[0] != AT_NULL) {
        struct module *found = pair[0] == AT_ENTRY ? modules_at(m, pair[1]) : NULL;
        if (found)
            found->is_program = true;
    }
    if (f)
        fclose(f);
}

int modules_read(struct modules *m, pid_t pid)
{
    char path[64];
    char *text = NULL;
    size_t size = 0;
    struct line line;
    int err = 0;
    *m = (struct modules){0};
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    FILE *f = fopen(path, "re");
    if (!f)
        return errno == ENOENT ? -ESRCH : -errno;
    while (err == 0 && getline(&text, &size, f) > 0) {
        if (parse(text, &line))
            err = add_line(m, pid, &line);
    }
    free(text);
    fclose(f);
    for (size_t i = 0; i < m->count; i++)
        find_bias(&m->list[i], pid);
    find_program(m, pid);
    return err;
}

void modules_release(struct modules *m)
{
    for (size_t i = 0; i < m->count; i++) {
        free(m->list[i].path);
        free(m->list[i].symbols);
        free(m->list[i].strings);
    }
    free(m->list);
    *m = (struct modules){0};
}

struct module *modules_at(const struct modules *m, uint64_t address)
{
    for (size_t i = 0; i < m->count; i++) {
        if (address >= m->list[i].start && address < m->list[i].end)
            return &m->list[i];
    }
    return NULL;
}

struct module *modules_named(const struct modules *m, const char *base)
{
    size_t len = strlen(base);
    for (size_t i = 0; i < m->count; i++) {
        const char *slash = strrchr(m->list[i].path, '/');
        const char *name = slash ? slash + 1 : m->list[i].path;
        if (strncmp(name, base, len) == 0 && strchr(".- ", name[len]))
            return &m->list[i];
    }
    return NULL;
}

/* Symbols -------------------------------------------------------------------------------------- */

struct tables {
    uint64_t symbols, strings, strings_size, hash, old_hash;
};

static uint64_t absolute(const struct module *m, uint64_t value)
{
    return value < m->start ? value + m->bias : value; /* the loader relocates them in most */
}

static bool read_dynamic(const struct module *m, pid_t pid, struct tables *t)
{
    Elf64_Ehdr e;
    Elf64_Phdr headers[MOST_HEADERS];
    Elf64_Dyn d;
    size_t count = read_headers(m, pid, &e, headers);
    *t = (struct tables){0};
    for (size_t i = 0; i < count; i++) {
        if (headers[i].p_type != PT_DYNAMIC)
            continue;
        uint64_t at = m->bias + headers[i].p_vaddr;
        for (int n = 0; n < MOST_DYNAMIC; n++, at += sizeof d) {
            if (!remote_read(pid, at, &d, sizeof d) || d.d_tag == DT_NULL)
                break;
            if (d.d_tag == DT_SYMTAB)
                t->symbols = absolute(m, d.d_un.d_ptr);
            else if (d.d_tag == DT_STRTAB)
                t->strings = absolute(m, d.d_un.d_ptr);
            else if (d.d_tag == DT_STRSZ)
                t->strings_size = d.d_un.d_val;
            else if (d.d_tag == DT_GNU_HASH)
                t->hash = absolute(m, d.d_un.d_ptr);
            else if (d.d_tag == DT_HASH)
                t->old_hash = absolute(m, d.d_un.d_ptr);
        }
    }
    return t->symbols && t->strings && t->strings_size <= MOST_STRINGS && (t->hash || t->old_hash);
}

/* The number of symbols is one more than the last one in the hash table. */
static size_t count_symbols(pid_t pid, const struct tables *t)
{
    uint32_t head[4]; /* buckets, first symbol, words of the filter, shift */
    uint32_t old[2];
    if (t->old_hash && remote_read(pid, t->old_hash, old, sizeof old))
        return old[1];
    if (!t->hash || !remote_read(pid, t->hash, head, sizeof head) || head[0] > MOST_BUCKETS)
        return 0;
    uint32_t *buckets = malloc(head[0] * sizeof *buckets + 1);
    uint64_t at = t->hash + sizeof head + (uint64_t)head[2] * 8;
    uint32_t last = 0;
    if (buckets && remote_read(pid, at, buckets, head[0] * sizeof *buckets)) {
        for (uint32_t i = 0; i < head[0]; i++)
            last = buckets[i] > last ? buckets[i] : last;
    }
    free(buckets);
    at += (uint64_t)head[0] * 4;
    uint32_t word = 0;
    while (last >= head[1] && last < MOST_SYMBOLS && !(word & 1) &&
           remote_read(pid, at + (uint64_t)(last - head[1]) * 4, &word, sizeof word))
        last++;
    return last;
}

static void take_symbols(struct module *m, const Elf64_Sym *all, size_t count, size_t strings_size)
{
    m->symbols = calloc(count, sizeof *m->symbols);
    for (size_t i = 0; m->symbols && i < count; i++) {
        unsigned type = ELF64_ST_TYPE(all[i].st_info);
        if (all[i].st_shndx == SHN_UNDEF || all[i].st_name >= strings_size ||
            (type != STT_FUNC && type != STT_GNU_IFUNC))
            continue;
        m->symbols[m->symbol_count++] =
            (struct modules_symbol){m->strings + all[i].st_name, m->bias + all[i].st_value,
                                    m->bias + all[i].st_value + all[i].st_size};
    }
}

static void read_symbols(struct module *m, pid_t pid)
{
    struct tables t;
    m->is_read = true;
    if (!read_dynamic(m, pid, &t))
        return;
    size_t count = count_symbols(pid, &t);
    Elf64_Sym *all = count > 0 && count <= MOST_SYMBOLS ? malloc(count * sizeof *all) : NULL;
    m->strings = malloc(t.strings_size + 1);
    if (all && m->strings && remote_read(pid, t.symbols, all, count * sizeof *all) &&
        remote_read(pid, t.strings, m->strings, t.strings_size)) {
        m->strings[t.strings_size] = '\0';
        take_symbols(m, all, count, t.strings_size);
    }
    free(all);
}

const struct modules_symbol *module_find(struct module *module, pid_t pid, const char *name)
{
    if (!module->is_read)
        read_symbols(module, pid);
    for (size_t i = 0; i < module->symbol_count; i++) {
        if (strcmp(module->symbols[i].name, name) == 0)
            return &module->symbols[i];
    }
    return NULL;
}

bool module_is_in(struct module *module, pid_t pid, uint64_t address, const char *const *names)
{
    if (!module->is_read)
        read_symbols(module, pid);
    for (size_t i = 0; i < module->symbol_count; i++) {
        const struct modules_symbol *s = &module->symbols[i];
        if (address < s->start || address >= s->end)
            continue;
        for (const char *const *name = names; *name; name++) {
            if (strcmp(s->name, *name) == 0)
                return true;
        }
    }
    return false;
}
