/* Files with code, and their call frame information.
 *
 * A file is looked up by the name that the kernel gave for a mapping: first below the root
 * directory of the process, then as it is. It is accepted only if its inode is that of the mapping.
 * Only regular files are opened, and never in a way that could block. The needed parts are copied,
 * because a mapping of a file that is truncated meanwhile would raise SIGBUS. The contents are not
 * trusted: piano__cfi_find checks the tables, this file checks the headers.
 *
 * The [vdso] is not a file, but the tool has the same one in its own process. */
#include "tool/unwind/code.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool/symbol/debugfile.h"
#include "tool/unwind/machine.h"
#include "tool/unwind/tables.h"
#include "tool/util/file.h"
#include "tool/util/vec.h"

enum {
    MAX_HEADERS = 256,
    MAX_OPEN = 200,
    MAX_NOTES = 64 * 1024,
    MAX_VDSO = 1 << 20,
    PAGE = 4096,
    RELATIVE_32 = 0x1b, /* DW_EH_PE_pcrel | DW_EH_PE_sdata4 */
};
static const uint64_t MAX_TABLES = (uint64_t)512 << 20;

void codes_init(struct codes *c)
{
    *c = (struct codes){.max_open = MAX_OPEN};
}

void codes_release(struct codes *c)
{
    for (size_t i = 0; i < c->count; i++) {
        struct code *code = c->list[i];
        if (code->fd >= 0)
            close(code->fd);
        free(code->tables);
        free(code->path);
        free(code);
    }
    free(c->list);
    *c = (struct codes){0};
}

struct code *codes_get(struct codes *c, const char *path, uint64_t inode)
{
    for (size_t i = 0; i < c->count; i++) {
        if (c->list[i]->inode == inode && strcmp(c->list[i]->path, path) == 0)
            return c->list[i];
    }
    if (VEC_ROOM(c->list, c->count, c->capacity) != 0)
        return NULL;
    struct code *code = calloc(1, sizeof *code);
    char *copy = code ? strdup(path) : NULL;
    if (!copy) {
        free(code);
        return NULL;
    }
    code->path = copy;
    code->inode = inode;
    code->fd = -1;
    c->list[c->count++] = code;
    return code;
}

/* Copies the vdso of this process into a memory file. */
static int open_vdso(void)
{
    const char *start = (const char *)getauxval(AT_SYSINFO_EHDR);
    int fd = -1;
    if (!start)
        return -ENOENT;
    const Elf64_Ehdr *e = (const Elf64_Ehdr *)start;
    size_t size = e->e_shoff + (size_t)e->e_shnum * e->e_shentsize;
    if (size > MAX_VDSO || (fd = memfd_create("vdso", MFD_CLOEXEC)) < 0)
        return -ENOENT;
    if (write(fd, start, size) == (ssize_t)size)
        return fd;
    close(fd);
    return -EIO;
}

/* Returns FD if it is the file with INODE (0: any). Otherwise closes it. */
static int checked(int fd, uint64_t inode)
{
    struct stat st;
    if (fd < 0 || inode == 0 || (fstat(fd, &st) == 0 && st.st_ino == inode))
        return fd;
    close(fd);
    return -ESTALE;
}

static int open_file(const struct code *code, pid_t pid)
{
    char path[PATH_MAX];
    if (strcmp(code->path, "[vdso]") == 0)
        return open_vdso();
    if (code->path[0] != '/')
        return -ENOENT;
    int len = snprintf(path, sizeof path, "/proc/%d/root%s", (int)pid, code->path);
    int fd =
        pid > 0 && len < (int)sizeof path ? checked(file_open(path, O_RDONLY), code->inode) : -1;
    return fd >= 0 ? fd : checked(file_open(code->path, O_RDONLY), code->inode);
}

static bool read_at(int fd, void *to, size_t size, uint64_t at)
{
    return at <= INT64_MAX && pread(fd, to, size, (off_t)at) == (ssize_t)size;
}

/* Reads the program headers, malloc'd. NULL when this is not a program or library for this
 * machine. */
static Elf64_Phdr *read_headers(int fd, Elf64_Ehdr *e)
{
    if (!read_at(fd, e, sizeof *e, 0) || memcmp(e->e_ident, ELFMAG, SELFMAG) != 0 ||
        e->e_ident[EI_CLASS] != ELFCLASS64 || e->e_machine != UNWIND_MACHINE ||
        e->e_phentsize != sizeof(Elf64_Phdr) || e->e_phnum == 0 || e->e_phnum > MAX_HEADERS)
        return NULL;
    size_t size = e->e_phnum * sizeof(Elf64_Phdr);
    Elf64_Phdr *headers = malloc(size);
    if (headers && !read_at(fd, headers, size, e->e_phoff)) {
        free(headers);
        headers = NULL;
    }
    return headers;
}

static void read_id(struct code *code, int fd, const Elf64_Phdr *h)
{
    unsigned char *notes = h->p_filesz <= MAX_NOTES ? malloc(h->p_filesz + 1) : NULL;
    size_t size = notes && read_at(fd, notes, h->p_filesz, h->p_offset) ? h->p_filesz : 0;
    for (size_t at = 0; size - at >= sizeof(Elf64_Nhdr);) {
        Elf64_Nhdr n;
        memcpy(&n, notes + at, sizeof n);
        size_t name = ((size_t)n.n_namesz + 3) & ~(size_t)3;
        size_t whole = sizeof n + name + (((size_t)n.n_descsz + 3) & ~(size_t)3);
        if (whole > size - at)
            break;
        if (n.n_type == NT_GNU_BUILD_ID && n.n_namesz == 4 && n.n_descsz <= CODE_ID &&
            memcmp(notes + at + sizeof n, "GNU", 4) == 0) {
            memcpy(code->build_id, notes + at + sizeof n + name, n.n_descsz);
            code->build_id_len = n.n_descsz;
            break;
        }
        at += whole;
    }
    free(notes);
}

/* Where the tables begin whose .eh_frame_hdr is at FRAMES. Most linkers put .eh_frame_hdr first;
 * gold puts it after .eh_frame. */
static uint64_t first_table(int fd, const Elf64_Phdr *segment, uint64_t frames)
{
    unsigned char head[8]; /* version, three encodings, offset from here to .eh_frame */
    int32_t to;
    if (!read_at(fd, head, sizeof head, segment->p_offset + (frames - segment->p_vaddr)) ||
        head[0] != 1 || head[1] != RELATIVE_32)
        return frames;
    memcpy(&to, head + 4, sizeof to);
    uint64_t start = frames + 4 + (uint64_t)(int64_t)to;
    return start >= segment->p_vaddr && start < frames ? start : frames;
}

/* Reads from the first table to the end of the segment. The rest of the segment holds the program's
 * constants. */
static void read_tables(struct code *code, int fd, const Elf64_Phdr *segment, uint64_t frames)
{
    uint64_t start = first_table(fd, segment, frames);
    uint64_t skip = start - segment->p_vaddr;
    uint64_t size = segment->p_filesz - skip;
    struct stat st;
    if (size > MAX_TABLES || fstat(fd, &st) != 0 || size > (uint64_t)st.st_size)
        return;
    code->tables = malloc(size);
    if (!code->tables || !read_at(fd, code->tables, size, segment->p_offset + skip))
        return;
    code->cfi = (struct piano__cfi){.bytes = code->tables,
                                    .size = size,
                                    .address = start,
                                    .header = frames,
                                    .machine = UNWIND_MACHINE};
}

static void take_segment(struct code *code, const Elf64_Phdr *h)
{
    if (code->end == 0 || h->p_vaddr < code->start)
        code->start = h->p_vaddr & ~(uint64_t)(PAGE - 1);
    if (h->p_vaddr + h->p_memsz > code->end)
        code->end = h->p_vaddr + h->p_memsz;
    if ((h->p_flags & PF_X) && code->segment_count < CODE_SEGMENTS)
        code->segments[code->segment_count++] =
            (struct code_segment){h->p_offset, h->p_vaddr, h->p_filesz};
}

static bool is_sane(const Elf64_Phdr *h)
{
    return h->p_vaddr < (uint64_t)1 << 62 && h->p_memsz < (uint64_t)1 << 62 &&
           h->p_offset < (uint64_t)1 << 62 && h->p_filesz <= h->p_memsz;
}

static bool read_file(struct code *code, int fd)
{
    Elf64_Ehdr e;
    Elf64_Phdr *headers = read_headers(fd, &e);
    uint64_t frames = 0;
    if (!headers)
        return false;
    code->entry = e.e_entry;
    for (size_t i = 0; i < e.e_phnum; i++) {
        const Elf64_Phdr *h = &headers[i];
        if (!is_sane(h))
            continue;
        if (h->p_type == PT_LOAD)
            take_segment(code, h);
        else if (h->p_type == PT_GNU_EH_FRAME)
            frames = h->p_vaddr;
        else if (h->p_type == PT_NOTE && code->build_id_len == 0)
            read_id(code, fd, h);
    }
    for (size_t i = 0; frames > 0 && i < e.e_phnum; i++) {
        const Elf64_Phdr *h = &headers[i];
        if (h->p_type == PT_LOAD && is_sane(h) && frames - h->p_vaddr < h->p_filesz &&
            !code->tables)
            read_tables(code, fd, h, frames);
    }
    if (frames == 0)
        code->tables = tables_make(fd, &e, &code->cfi);
    free(headers);
    return code->end > code->start;
}

bool codes_read(struct codes *c, struct code *code, pid_t pid)
{
    if (code->is_read)
        return code->is_good;
    code->is_read = true;
    int fd = open_file(code, pid);
    if (fd < 0)
        return false;
    code->is_good = read_file(code, fd);
    if (code->is_good && c->open < c->max_open) {
        code->fd = fd;
        c->open++;
    } else {
        close(fd);
    }
    return code->is_good;
}

bool code_bytes(const struct code *code, uint64_t at, void *to, size_t len)
{
    for (size_t i = 0; code->fd >= 0 && i < code->segment_count; i++) {
        const struct code_segment *s = &code->segments[i];
        if (at - s->address < s->size && s->size - (at - s->address) >= len)
            return read_at(code->fd, to, len, s->offset + (at - s->address));
    }
    return false;
}

uint64_t code_bias(const struct code *code, uint64_t start, uint64_t offset)
{
    for (size_t i = 0; i < code->segment_count; i++) {
        const struct code_segment *s = &code->segments[i];
        uint64_t first = s->offset & ~(uint64_t)(PAGE - 1);
        if (offset >= first && offset < s->offset + s->size)
            return start - offset + s->offset - s->address;
    }
    return start - offset;
}
