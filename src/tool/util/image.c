/* Finds the file that a word on the command line means, and checks that libpiano.so can be loaded
 * into it.
 *
 * The loader silently ignores LD_PRELOAD for programs that gain privileges, and a static program
 * has no loader. Such a program would run and leave no recording. So it is not started, and the
 * reason is printed. For a script, the interpreter is checked. A file that cannot be read, or of a
 * format that only the kernel may know (binfmt_misc), is accepted; if it leaves no recording, that
 * is reported at the end. */
#include "tool/util/image.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "tool/util/buf.h"
#include "tool/util/file.h"
#include "tool/util/say.h"

#if defined(__x86_64__)
enum { OUR_MACHINE = EM_X86_64 };
#elif defined(__aarch64__)
enum { OUR_MACHINE = EM_AARCH64 };
#endif

enum {
    MAX_SCRIPTS = 5,     /* a script may run another script; the kernel stops here */
    SCRIPT_LINE = 256,   /* bytes that the kernel reads of the first line */
    MAX_SEGMENTS = 1024, /* no program has more */
};

/* The library is needed for CPU samples: then hints must not suggest --cpu, which otherwise loads
 * nothing. */
static bool is_for_cpu;

static const char *static_hint(void)
{
    return is_for_cpu ? "piano build, which needs its source but no loader"
                      : "piano build, which needs its source but no loader; or piano record "
                        "--cpu, which loads nothing";
}

/* Could execve run FILE? Returns 0 or negative errno. */
static int runnable(const char *file)
{
    struct stat st;
    if (stat(file, &st) != 0)
        return -errno;
    if (S_ISDIR(st.st_mode))
        return -EISDIR;
    if (!S_ISREG(st.st_mode) || faccessat(AT_FDCWD, file, X_OK, AT_EACCESS) != 0)
        return -EACCES;
    return 0;
}

/* Searches PATH like execvp. A file that is not executable does not end the search, but is the
 * error if nothing else is found. */
static char *search(const char *word, int *err)
{
    const char *dirs = getenv("PATH");
    *err = -ENOENT;
    for (const char *at = dirs ? dirs : "/bin:/usr/bin"; at; at = strchr(at, ':')) {
        at += *at == ':';
        size_t len = strcspn(at, ":");
        struct buf file = {0};
        buf_put(&file, len ? at : ".", len ? len : 1);
        buf_printf(&file, "/%s", word);
        int bad = file.failed ? -ENOMEM : runnable(file.data);
        if (bad == 0) {
            *err = 0;
            return file.data;
        }
        /* A directory without search permission says nothing about the program. */
        if (bad == -EACCES && faccessat(AT_FDCWD, file.data, F_OK, AT_EACCESS) == 0)
            *err = bad;
        buf_free(&file);
    }
    return NULL;
}

static char *say_missing(const char *word, int err)
{
    char safe[PATH_MAX];
    char hint[PATH_MAX + 64] = "";
    bool bare = !strchr(word, '/');
    say_safe(safe, sizeof safe, word);
    if (bare && err == -ENOENT) {
        if (runnable(word) == 0)
            snprintf(hint, sizeof hint, "piano record -- ./%s", safe);
        say_error(*hint ? hint : "its path, as in ./NAME; or install it",
                  "there is no program `%s` in PATH", safe);
        return NULL;
    }
    if (err == -EACCES)
        snprintf(hint, sizeof hint, "ls -l %s; chmod +x if it is a program", safe);
    else if (err == -EISDIR)
        snprintf(hint, sizeof hint, "a program in it: piano record -- %s/NAME", safe);
    say_error(*hint ? hint : NULL, "cannot run %s: %s", safe, strerror(-err));
    return NULL;
}

/* Does running FILE grant other privileges? Then the loader ignores LD_PRELOAD. Returns the reason
 * or NULL. */
static const char *gained_rights(int fd)
{
    struct stat st;
    struct statvfs fs;
    char caps[256];
    if (fstat(fd, &st) != 0 || prctl(PR_GET_NO_NEW_PRIVS, 0L, 0L, 0L, 0L) == 1)
        return NULL;
    if (fstatvfs(fd, &fs) == 0 && (fs.f_flag & ST_NOSUID))
        return NULL;
    if ((st.st_mode & S_ISUID) && st.st_uid != getuid())
        return "is setuid";
    if ((st.st_mode & S_ISGID) && (st.st_mode & S_IXGRP) && st.st_gid != getgid())
        return "is setgid";
    if (getuid() != 0 && fgetxattr(fd, "security.capability", caps, sizeof caps) > 0)
        return "has file capabilities";
    return NULL;
}

static const char *machine_name(uint16_t machine)
{
    static const struct {
        uint16_t machine;
        const char *name;
    } names[] = {{EM_386, "32-bit x86"},  {EM_X86_64, "x86-64"}, {EM_ARM, "32-bit ARM"},
                 {EM_AARCH64, "aarch64"}, {EM_RISCV, "RISC-V"},  {EM_PPC64, "POWER"},
                 {EM_S390, "s390"},       {EM_MIPS, "MIPS"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (names[i].machine == machine)
            return names[i].name;
    }
    return "another kind of machine";
}

/* Copies the path of the program's loader to LOADER. Returns 1 if found, 0 if it has none, negative
 * errno if the file is invalid. */
static int find_loader(int fd, const Elf64_Ehdr *e, char *loader, size_t size)
{
    if (e->e_phentsize != sizeof(Elf64_Phdr) || e->e_phnum > MAX_SEGMENTS)
        return -ENOEXEC;
    for (size_t i = 0; i < e->e_phnum; i++) {
        Elf64_Phdr p;
        off_t at = (off_t)(e->e_phoff + i * sizeof p);
        if (pread(fd, &p, sizeof p, at) != (ssize_t)sizeof p)
            return -ENOEXEC;
        if (p.p_type != PT_INTERP)
            continue;
        size_t len = p.p_filesz < size ? p.p_filesz : size - 1;
        ssize_t got = pread(fd, loader, len, (off_t)p.p_offset);
        if (got <= 0)
            return -ENOEXEC;
        loader[got] = '\0';
        return 1;
    }
    return 0;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* `/lib64/ld-linux-x86-64.so.2 PROGRAM`: the loader has no loader itself, but it does preload
 * libraries. */
static bool is_loader(const char *path)
{
    char *real = realpath(path, NULL);
    const char *name = base_name(real ? real : path);
    bool is = strncmp(name, "ld-linux", 8) == 0 || strncmp(name, "ld-2.", 5) == 0;
    free(real);
    return is;
}

static bool check_loader(const char *path, const char *safe, int found, const char *loader)
{
    char safe_loader[PATH_MAX];
    say_safe(safe_loader, sizeof safe_loader, found > 0 ? loader : "");
    if (found == 0 && !is_loader(path)) {
        say_error(static_hint(), "%s is statically linked, so nothing can be loaded into it", safe);
    } else if (found > 0 && strncmp(base_name(loader), "ld-musl", 7) == 0) {
        say_error(is_for_cpu ? "piano build; or a version of it made for glibc"
                             : "piano record --cpu, which loads nothing; piano build; or a version "
                               "of it made for glibc",
                  "%s is linked with musl (its loader is %s), and libpiano.so with glibc: the one "
                  "cannot be loaded into the other",
                  safe, safe_loader);
    } else if (found > 0 && access(loader, F_OK) != 0) {
        say_error("the package with that loader", "cannot run %s: its loader %s: %s", safe,
                  safe_loader, strerror(errno));
    } else {
        return true;
    }
    return false;
}

static bool check_elf(const char *path, int fd, const Elf64_Ehdr *e)
{
    char safe[PATH_MAX];
    char hint[PATH_MAX + 128];
    char loader[PATH_MAX] = "";
    say_safe(safe, sizeof safe, path);
    if (e->e_ident[EI_CLASS] != ELFCLASS64) {
        say_error("a 64-bit version of it", "%s is a 32-bit program (%s), and libpiano.so is not",
                  safe, machine_name(e->e_machine));
        return false;
    }
    if (e->e_machine != OUR_MACHINE) {
        say_error("a version of it for this machine, or piano on the other",
                  "%s is for %s, and libpiano.so is for %s", safe, machine_name(e->e_machine),
                  machine_name(OUR_MACHINE));
        return false;
    }
    int found = find_loader(fd, e, loader, sizeof loader);
    if (found < 0 || (e->e_type != ET_EXEC && e->e_type != ET_DYN)) {
        say_error(NULL, "%s is not a program (a damaged file, or an object file?)", safe);
        return false;
    }
    if (!check_loader(path, safe, found, loader))
        return false;
    const char *rights = gained_rights(fd);
    if (!rights)
        return true;
    snprintf(
        hint, sizeof hint,
        "a copy, which has no such rights: cp %s /tmp; or run it as its owner; or piano record "
        "--cpu as root",
        safe);
    say_error(hint, "%s %s, so the loader lets nothing be loaded into it", safe, rights);
    return false;
}

/* The interpreter in the first line LINE of a script, of LEN bytes, cut out in place; NULL when
 * there is none. */
static char *interpreter(char *line, size_t len)
{
    line[len] = '\0';
    line[strcspn(line, "\n")] = '\0';
    char *name = line + 2 + strspn(line + 2, " \t");
    name[strcspn(name, " \t")] = '\0';
    return *name ? name : NULL;
}

static bool check_file(const char *path, int depth);

static bool check_script(const char *path, const char *by, int depth)
{
    char safe[PATH_MAX];
    char safe_by[SCRIPT_LINE * 4];
    int err = runnable(by);
    if (err == 0)
        return depth >= MAX_SCRIPTS || check_file(by, depth + 1);
    say_error("its first line", "cannot run %s: it is a script for %s: %s",
              say_safe(safe, sizeof safe, path), say_safe(safe_by, sizeof safe_by, by),
              strerror(-err));
    return false;
}

static bool check_file(const char *path, int depth)
{
    union {
        Elf64_Ehdr elf;
        char line[SCRIPT_LINE + 1];
    } head = {.line = ""};
    int fd = file_open(path, O_RDONLY);
    if (fd < 0)
        return true;
    bool good = true;
    ssize_t len = pread(fd, head.line, SCRIPT_LINE, 0);
    if (len >= (ssize_t)sizeof head.elf && memcmp(head.elf.e_ident, ELFMAG, SELFMAG) == 0) {
        good = check_elf(path, fd, &head.elf);
    } else if (len > 2 && memcmp(head.line, "#!", 2) == 0) {
        const char *by = interpreter(head.line, (size_t)len);
        good = !by || check_script(path, by, depth);
    }
    close(fd);
    return good;
}

enum image_starter image_starter(const char *path, char *text, size_t size)
{
    union {
        Elf64_Ehdr elf;
        char line[SCRIPT_LINE + 1];
    } head = {.line = ""};
    enum image_starter kind = IMAGE_ALONE;
    int fd = file_open(path, O_RDONLY);
    ssize_t len = fd >= 0 ? pread(fd, head.line, SCRIPT_LINE, 0) : 0;
    if (len >= (ssize_t)sizeof head.elf && memcmp(head.elf.e_ident, ELFMAG, SELFMAG) == 0) {
        if (head.elf.e_ident[EI_CLASS] == ELFCLASS64 && find_loader(fd, &head.elf, text, size) > 0)
            kind = IMAGE_LOADER;
    } else if (len > 2 && memcmp(head.line, "#!", 2) == 0) {
        const char *by = interpreter(head.line, (size_t)len);
        kind = by ? IMAGE_SCRIPT : IMAGE_ALONE;
        snprintf(text, size, "%s", by ? by : "");
    }
    if (fd >= 0)
        close(fd);
    return kind;
}

bool image_gains_rights(const char *path)
{
    int fd = file_open(path, O_RDONLY);
    bool gains = fd >= 0 && gained_rights(fd);
    if (fd >= 0)
        close(fd);
    return gains;
}

bool image_can_load(const char *path)
{
    is_for_cpu = true;
    return check_file(path, 0);
}

char *image_find(const char *word, bool is_loaded)
{
    int err = -ENOENT;
    char *path = NULL;
    if (strchr(word, '/')) {
        err = runnable(word);
        path = err == 0 ? strdup(word) : NULL;
    } else if (*word) {
        path = search(word, &err);
    }
    if (!path)
        return say_missing(word, err);
    if (!is_loaded || check_file(path, 0))
        return path;
    free(path);
    return NULL;
}
