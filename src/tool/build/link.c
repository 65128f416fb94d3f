/* The link step.
 *
 * The inputs show whether a link needs the runtime: instrumented code refers to `__piano_register`,
 * and that name is in plain bytes in every such object, archive, LTO object, bitcode file and
 * library. So the files are searched for it. A false match only adds an unused library.
 *
 * libpiano.so is put before all other inputs. So its malloc is found before that of another
 * allocator (which it then wraps), and a later -Bstatic or --as-needed does not affect it. A run
 * path for it is added after the user's own.
 *
 * A static program, and one that defines malloc itself, cannot be interposed: there the linker
 * redirects the calls with --wrap. */
#include "tool/build/link.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool/util/buf.h"
#include "tool/util/file.h"
#include "tool/util/paths.h"
#include "tool/util/preload.h"

static const char MARK[] = "__piano_register";
static const char THIN[] = "!<thin>\n";

static bool file_has_mark(const char *path, bool members);

/* A thin archive contains only the names of its members, one per line, each ended by a slash and
 * relative to the archive's directory. */
static bool thin_has_mark(const struct file_map *v, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *end = v->data + v->len;
    bool found = false;
    for (const char *p = v->data; !found && (p = memmem(p, (size_t)(end - p), "/\n", 2)); p += 2) {
        const char *from = memrchr(v->data, '\n', (size_t)(p - v->data));
        struct buf member = {0};
        if (!from)
            continue;
        if (slash && from[1] != '/')
            buf_put(&member, path, (size_t)(slash - path) + 1);
        buf_put(&member, from + 1, (size_t)(p - from - 1));
        found = !member.failed && file_has_mark(member.data, false);
        buf_free(&member);
    }
    return found;
}

static bool file_has_mark(const char *path, bool members)
{
    struct file_map v;
    if (file_map(&v, path) != 0 || !v.data)
        return false;
    bool found = memmem(v.data, v.len, MARK, sizeof MARK - 1) != NULL;
    if (!found && members && v.len > sizeof THIN && memcmp(v.data, THIN, sizeof THIN - 1) == 0)
        found = thin_has_mark(&v, path);
    file_unmap(&v);
    return found;
}

static const char *joined_value(const struct args *a, const struct arg *arg)
{
    return arg->words == 2 ? a->words.items[arg->at + 1] : a->words.items[arg->at] + 2;
}

static bool dir_lib_has_mark(const char *dir, const char *name)
{
    bool found = false;
    for (size_t i = 0; i < 2 && !found; i++) {
        struct buf path = {0};
        if (name[0] == ':')
            buf_printf(&path, "%s/%s", dir, name + 1);
        else if (i == 0)
            buf_printf(&path, "%s/lib%s.so", dir, name);
        else
            buf_printf(&path, "%s/lib%s.a", dir, name);
        found = !path.failed && file_has_mark(path.data, true);
        buf_free(&path);
    }
    return found;
}

/* -lNAME, searched only in the -L directories: libraries elsewhere were not built here. */
static bool lib_has_mark(const struct args *a, const char *name)
{
    for (size_t i = 0; i < a->count; i++) {
        const struct arg *arg = &a->list[i];
        if (arg->role == ARG_LINK && strncmp(a->words.items[arg->at], "-L", 2) == 0 &&
            dir_lib_has_mark(joined_value(a, arg), name))
            return true;
    }
    return false;
}

/* -Wl,--whole-archive,libgame.a,--no-whole-archive */
static bool list_has_mark(const char *list)
{
    char *copy = strdup(list);
    char *rest = copy;
    bool found = false;
    for (char *word; !found && rest && (word = strsep(&rest, ","));)
        found = *word && *word != '-' && file_has_mark(word, true);
    free(copy);
    return found;
}

static bool arg_has_mark(const struct args *a, const struct arg *arg)
{
    const char *word = a->words.items[arg->at];
    if (arg->role == ARG_INPUT)
        return file_has_mark(word, true);
    if (arg->role != ARG_LINK)
        return false;
    if (strncmp(word, "-l", 2) == 0)
        return lib_has_mark(a, joined_value(a, arg));
    if (strncmp(word, "-Wl,", 4) == 0)
        return list_has_mark(word + 4);
    return strcmp(word, "-Xlinker") == 0 && list_has_mark(a->words.items[arg->at + 1]);
}

bool link_has_instrumented(const struct args *a)
{
    for (size_t i = 0; i < a->count; i++) {
        if (arg_has_mark(a, &a->list[i]))
            return true;
    }
    return false;
}

/* Without the memalign family, its hooks are never called, and have nothing to call. */
static void add_wraps(struct words *out, const char *lib, bool with_memalign)
{
    static const char *const names[] = {"malloc",       "calloc", "realloc",
                                        "reallocarray", "free",   "pthread_create"};
    static const char *const aligned[] = {"posix_memalign", "aligned_alloc", "memalign", "valloc",
                                          "pvalloc"};
    char *object = paths_join(lib, "piano_wrap.o");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        words_addf(out, "-Wl,--wrap=%s", names[i]);
    for (size_t i = 0; i < sizeof aligned / sizeof aligned[0]; i++)
        words_addf(out, with_memalign ? "-Wl,--wrap=%s" : "-Wl,--defsym=__real_%s=0", aligned[i]);
    if (object && access(object, R_OK) == 0)
        words_add(out, object);
    free(object);
}

static void add_language_reset(struct words *out)
{
    /* An -x of the user may still apply. */
    words_add(out, "-x");
    words_add(out, "none");
}

void link_command(char *const base[], size_t command, const char *lib, enum link_kind kind,
                  struct words *out)
{
    bool is_static = kind == LINK_STATIC_RUNTIME || kind == LINK_STATIC_NO_MEMALIGN;
    if (kind == LINK_STUB) {
        for (size_t i = 0; base[i]; i++)
            words_add(out, base[i]);
        add_language_reset(out);
        words_addf(out, "%s/piano_stub.o", lib);
        return;
    }
    for (size_t i = 0; base[i]; i++) {
        if (i == command && !is_static) {
            words_add(out, "-Wl,--push-state,--no-as-needed");
            words_addf(out, "%s/libpiano.so", lib);
            words_add(out, "-Wl,--pop-state");
        }
        words_add(out, base[i]);
    }
    if (kind != LINK_SHARED_RUNTIME) {
        add_language_reset(out);
        add_wraps(out, lib, kind != LINK_STATIC_NO_MEMALIGN);
    }
    if (is_static) {
        words_addf(out, "%s/libpiano.a", lib);
        words_add(out, "-ldl"); /* part of libc since glibc 2.34 */
        words_add(out, "-lpthread");
        return;
    }
    char *run_path = preload_run_path(lib);
    words_add(out, "-Xlinker");
    words_add(out, "-rpath");
    words_add(out, "-Xlinker");
    words_add(out, run_path ? run_path : lib);
    free(run_path);
}

static bool table_defines(const struct file_map *v, const Elf64_Shdr *table,
                          const Elf64_Shdr *names)
{
    const Elf64_Sym *syms = (const Elf64_Sym *)(v->data + table->sh_offset);
    const char *strings = v->data + names->sh_offset;
    for (size_t i = 0; i < table->sh_size / sizeof *syms; i++) {
        if (syms[i].st_shndx == SHN_UNDEF || syms[i].st_name + sizeof "malloc" > names->sh_size)
            continue;
        if (memcmp(strings + syms[i].st_name, "malloc", sizeof "malloc") == 0)
            return true;
    }
    return false;
}

static bool inside(const struct file_map *v, const Elf64_Shdr *s)
{
    return s->sh_offset <= v->len && s->sh_size <= v->len - s->sh_offset;
}

/* Checks .symtab and .dynsym. */
static bool view_defines_malloc(const struct file_map *v)
{
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)v->data;
    if (v->len < sizeof *head || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 ||
        head->e_ident[EI_CLASS] != ELFCLASS64 || head->e_shentsize != sizeof(Elf64_Shdr) ||
        head->e_shoff > v->len || head->e_shnum > (v->len - head->e_shoff) / sizeof(Elf64_Shdr))
        return false;
    const Elf64_Shdr *sections = (const Elf64_Shdr *)(v->data + head->e_shoff);
    for (size_t i = 0; i < head->e_shnum; i++) {
        const Elf64_Shdr *s = &sections[i];
        if ((s->sh_type == SHT_SYMTAB || s->sh_type == SHT_DYNSYM) && s->sh_link < head->e_shnum &&
            inside(v, s) && inside(v, &sections[s->sh_link]) &&
            table_defines(v, s, &sections[s->sh_link]))
            return true;
    }
    return false;
}

bool link_defines_malloc(const char *path)
{
    struct file_map v;
    if (file_map(&v, path) != 0 || !v.data)
        return false;
    bool found = view_defines_malloc(&v);
    file_unmap(&v);
    return found;
}

void link_add_personality(struct words *out)
{
    words_add(out, "-Wl,--push-state,--as-needed");
    words_add(out, "-lstdc++");
    words_add(out, "-Wl,--pop-state");
}

static bool view_holds(const struct file_map *v, const char *word)
{
    return memmem(v->data, v->len, word, strlen(word));
}

bool link_lacks_personality(const char *path)
{
    struct file_map v;
    if (file_map(&v, path) != 0 || !v.data)
        return false;
    bool lacks = view_holds(&v, "__gxx_personality") && !view_holds(&v, "libstdc++.so") &&
                 !view_holds(&v, "libc++");
    file_unmap(&v);
    return lacks;
}

/* The path of the loader in an executable, NUL-terminated; NULL in a library. */
static const char *interpreter(const struct file_map *v)
{
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)v->data;
    if (v->len < sizeof *head || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 ||
        head->e_phoff > v->len || head->e_phnum > (v->len - head->e_phoff) / sizeof(Elf64_Phdr))
        return NULL;
    const Elf64_Phdr *parts = (const Elf64_Phdr *)(v->data + head->e_phoff);
    for (size_t i = 0; i < head->e_phnum; i++) {
        const Elf64_Phdr *p = &parts[i];
        if (p->p_type == PT_INTERP && p->p_offset < v->len && p->p_filesz > 0 &&
            p->p_filesz <= v->len - p->p_offset && v->data[p->p_offset + p->p_filesz - 1] == '\0')
            return v->data + p->p_offset;
    }
    return NULL;
}

/* An executable is recognised by its loader, a library by the name of its C library: that of glibc
 * has a version. */
bool link_is_musl(const char *path)
{
    static const char libc[] = "\0libc.so";
    struct file_map v;
    if (file_map(&v, path) != 0 || !v.data)
        return false;
    const char *loader = interpreter(&v);
    bool found = loader ? strstr(loader, "ld-musl") != NULL
                        : view_holds(&v, "libc.musl-") ||
                              memmem(v.data, v.len, libc, sizeof libc); /* including its NUL */
    file_unmap(&v);
    return found;
}
