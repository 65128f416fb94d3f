/* Reads the ELF headers of a program that is about to be started; see exec_image.h. The file may
 * contain anything. */
#include "tool/build/exec_image.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__x86_64__)
enum { MACHINE = EM_X86_64 };
#elif defined(__aarch64__)
enum { MACHINE = EM_AARCH64 };
#else
enum { MACHINE = EM_NONE };
#endif

enum { MAX_SEGMENTS = 64, MAX_DYNAMIC = 512, NAME_BYTES = 64, LINE_BYTES = 256, MAX_SCRIPTS = 4 };

struct image {
    int fd;
    Elf64_Phdr segments[MAX_SEGMENTS];
    size_t count;
};

static bool read_at(int fd, void *to, size_t len, uint64_t at)
{
    return at <= INT64_MAX && pread(fd, to, len, (off_t)at) == (ssize_t)len;
}

/* Reads up to LEN - 1 bytes of text. */
static void read_text(int fd, char *to, size_t len, uint64_t at)
{
    ssize_t got = at <= INT64_MAX ? pread(fd, to, len - 1, (off_t)at) : 0;
    to[got > 0 ? got : 0] = '\0';
}

static const Elf64_Phdr *find_segment(const struct image *m, uint32_t type)
{
    for (size_t i = 0; i < m->count; i++) {
        if (m->segments[i].p_type == type)
            return &m->segments[i];
    }
    return NULL;
}

/* Returns the place in the file of address AT; 0 if it is in none of the segments. */
static uint64_t place_of(const struct image *m, uint64_t at)
{
    for (size_t i = 0; i < m->count; i++) {
        const Elf64_Phdr *p = &m->segments[i];
        if (p->p_type == PT_LOAD && at >= p->p_vaddr && at - p->p_vaddr < p->p_filesz)
            return p->p_offset + (at - p->p_vaddr);
    }
    return 0;
}

/* libasan.so.6, libtsan.so.0, libclang_rt.asan-x86_64.so; not libubsan, which may come later. */
static bool is_sanitizer(const char *name)
{
    static const char *const parts[] = {"asan", "tsan", "lsan", "msan"};
    if (strncmp(name, "lib", 3) != 0 || strncmp(name, "libubsan", 8) == 0)
        return false;
    name += strncmp(name, "libclang_rt.", 12) == 0 ? 12 : 3;
    name += strncmp(name, "hw", 2) == 0 ? 2 : 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        size_t len = strlen(parts[i]);
        if (strncmp(name, parts[i], len) == 0 && (name[len] == '.' || name[len] == '-'))
            return true;
    }
    return false;
}

static bool needs_sanitizer(const struct image *m)
{
    Elf64_Dyn dynamic[MAX_DYNAMIC];
    const Elf64_Phdr *p = find_segment(m, PT_DYNAMIC);
    size_t count = p ? p->p_filesz / sizeof dynamic[0] : 0;
    uint64_t strings = 0;
    count = count < MAX_DYNAMIC ? count : MAX_DYNAMIC;
    if (count == 0 || !read_at(m->fd, dynamic, count * sizeof dynamic[0], p->p_offset))
        return false;
    for (size_t i = 0; i < count; i++) {
        if (dynamic[i].d_tag == DT_STRTAB)
            strings = place_of(m, dynamic[i].d_un.d_ptr);
    }
    for (size_t i = 0; i < count && strings > 0; i++) {
        char name[NAME_BYTES];
        if (dynamic[i].d_tag != DT_NEEDED || dynamic[i].d_un.d_val > INT32_MAX)
            continue;
        read_text(m->fd, name, sizeof name, strings + dynamic[i].d_un.d_val);
        if (is_sanitizer(name))
            return true;
    }
    return false;
}

/* musl's loader cannot load a library for glibc. */
static bool has_other_loader(const struct image *m)
{
    char name[LINE_BYTES];
    const Elf64_Phdr *p = find_segment(m, PT_INTERP);
    if (!p)
        return false;
    read_text(m->fd, name, sizeof name, p->p_offset);
    return strstr(name, "/ld-musl-") != NULL;
}

static bool elf_takes_library(int fd, const Elf64_Ehdr *header)
{
    struct image m = {.fd = fd, .count = header->e_phnum};
    if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_machine != MACHINE)
        return false;
    if (header->e_phentsize != sizeof m.segments[0] || m.count > MAX_SEGMENTS ||
        !read_at(fd, m.segments, m.count * sizeof m.segments[0], header->e_phoff))
        return true;
    return !has_other_loader(&m) && !needs_sanitizer(&m);
}

/* Moves the interpreter in LINE, the first line of a script, to its begin; false if there is
 * none. */
static bool find_interpreter(char *line)
{
    char *name = line + 2 + strspn(line + 2, " \t");
    size_t len = strcspn(name, " \t\r\n");
    memmove(line, name, len);
    line[len] = '\0';
    return line[0] == '/';
}

/* Opens PATH without blocking. */
static int open_image(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return -1;
    return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

static bool takes_library(const char *path)
{
    char name[LINE_BYTES];
    for (int depth = 0; depth < MAX_SCRIPTS; depth++) {
        union {
            Elf64_Ehdr elf;
            char line[LINE_BYTES];
        } head = {.line = ""};
        int fd = open_image(path);
        if (fd < 0)
            return true;
        read_text(fd, head.line, sizeof head.line, 0);
        bool is_elf = memcmp(head.elf.e_ident, ELFMAG, SELFMAG) == 0;
        bool takes = !is_elf || elf_takes_library(fd, &head.elf);
        close(fd);
        if (is_elf || strncmp(head.line, "#!", 2) != 0 || !find_interpreter(head.line))
            return takes;
        memcpy(name, head.line, sizeof name);
        path = name;
    }
    return true;
}

bool exec_image_takes_library(const char *path)
{
    int saved = errno;
    bool takes = takes_library(path);
    errno = saved;
    return takes;
}
