/* Distinguishes sources from the products of the user's own in-tree build.
 *
 * The mirror (mirror.c) must not contain objects that the user's build made: make would consider
 * them up to date, and nothing would be compiled under piano. But a project may also contain
 * binaries (a vendored library, a test file). The rules, in order:
 *   1. A file that git tracks is part of the project, whatever it is.
 *   2. ELF and bitcode objects, executables, precompiled headers and libtool's files are products.
 *   3. Shared objects and archives are products if git is used and does not track them; without
 *      git, if they are newer than every C, C++ or Rust source of the project.
 * Rule 3 prefers to keep files: make rebuilds an archive that is kept by mistake, because its
 * objects are missing; but a vendored archive that is omitted by mistake breaks the build.
 *
 * Omitted directories: version control, our own state, libtool's and Python's, and build
 * directories of CMake and Meson. */
#include "tool/build/stale.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool/util/child.h"
#include "tool/util/buf.h"
#include "tool/util/file.h"
#include "tool/util/order.h"

static void split_paths(struct stale_tracked *t, size_t len)
{
    size_t count = 0;
    for (size_t i = 0; i < len; i++)
        count += t->text[i] == '\0';
    t->paths = calloc(count + 1, sizeof *t->paths);
    if (!t->paths)
        return;
    for (char *p = t->text; t->count < count; p += strlen(p) + 1)
        t->paths[t->count++] = p;
    qsort(t->paths, t->count, sizeof *t->paths, order_text);
    t->known = true;
}

void stale_tracked_load(struct stale_tracked *t, const char *root, const char *scratch)
{
    extern char **environ;
    char git[] = "git", flag[] = "ls-files", zero[] = "-z";
    char *argv[] = {git, flag, zero, NULL};
    *t = (struct stale_tracked){0};
    int out = open(scratch, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    int none = open("/dev/null", O_RDWR | O_CLOEXEC);
    struct child_plan plan = {.argv = argv, .envp = environ, .dir = root};
    plan.in = plan.err = none;
    plan.out = out;
    struct child_result result;
    struct buf text = {0};
    if (out >= 0 && none >= 0 && child_run(&plan, &result) == 0 && result.status == 0 &&
        buf_read_own_file(&text, scratch) == 0 && text.len > 0) {
        t->text = text.data;
        split_paths(t, text.len);
    } else {
        buf_free(&text);
    }
    if (out >= 0)
        close(out);
    if (none >= 0)
        close(none);
    unlink(scratch);
}

void stale_tracked_release(struct stale_tracked *t)
{
    free(t->text);
    free(t->paths);
    *t = (struct stale_tracked){0};
}

static bool is_tracked(const struct stale_tracked *t, const char *rel)
{
    return t->known && bsearch(&rel, t->paths, t->count, sizeof *t->paths, order_text);
}

static bool has(const char *dir, const char *name)
{
    char path[4096];
    int len = snprintf(path, sizeof path, "%s/%s", dir, name);
    return len > 0 && (size_t)len < sizeof path && access(path, F_OK) == 0;
}

bool stale_is_dir(const char *path, const char *name)
{
    static const char *const names[] = {".git",  ".hg",   ".svn",       ".piano",
                                        ".libs", "_libs", "CMakeFiles", "__pycache__"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i]) == 0)
            return true;
    }
    /* The last one is cargo's. */
    return has(path, "CMakeCache.txt") || has(path, "meson-private") ||
           has(path, ".rustc_info.json");
}

static bool ends_with(const char *name, const char *tail)
{
    size_t len = strlen(name);
    size_t tail_len = strlen(tail);
    return len > tail_len && strcmp(name + len - tail_len, tail) == 0;
}

bool stale_is_source(const char *name)
{
    static const char *const tails[] = {".c",   ".h",   ".cc", ".cpp", ".cxx", ".c++", ".C", ".H",
                                        ".hpp", ".hxx", ".hh", ".inl", ".ipp", ".tcc", ".rs"};
    for (size_t i = 0; i < sizeof tails / sizeof tails[0]; i++) {
        if (ends_with(name, tails[i]))
            return true;
    }
    return false;
}

static enum stale_kind elf_kind(const unsigned char *head, size_t len, const char *name)
{
    Elf64_Half type = 0;
    if (len < EI_NIDENT + sizeof type)
        return STALE_NO;
    memcpy(&type, head + EI_NIDENT, sizeof type);
    if (type == ET_REL || type == ET_EXEC)
        return STALE_PRODUCT;
    if (type != ET_DYN)
        return STALE_NO;
    /* Position-independent executables are ET_DYN too; the name is a sufficient distinction. */
    return strstr(name, ".so") ? STALE_LIBRARY : STALE_PRODUCT;
}

enum stale_kind stale_kind(const char *path, const char *name)
{
    static const char *const tails[] = {".lo", ".gch", ".pch", ".gcda", ".gcno"};
    if (strcmp(name, "CMakeCache.txt") == 0)
        return STALE_PRODUCT;
    for (size_t i = 0; i < sizeof tails / sizeof tails[0]; i++) {
        if (ends_with(name, tails[i]))
            return STALE_PRODUCT;
    }
    if (stale_is_source(name))
        return STALE_NO;
    unsigned char head[128] = {0};
    int fd = file_open(path, O_RDONLY);
    ssize_t len = fd < 0 ? -1 : read(fd, head, sizeof head - 1);
    if (fd >= 0)
        close(fd);
    if (len < 8)
        return STALE_NO;
    if (ends_with(name, ".la"))
        return strstr((const char *)head, "libtool") ? STALE_PRODUCT : STALE_NO;
    if (memcmp(head, ELFMAG, SELFMAG) == 0)
        return elf_kind(head, (size_t)len, name);
    if (memcmp(head, "BC\xc0\xde", 4) == 0 && ends_with(name, ".o"))
        return STALE_PRODUCT;
    return memcmp(head, "!<arch>\n", 8) == 0 || memcmp(head, "!<thin>\n", 8) == 0 ? STALE_LIBRARY
                                                                                  : STALE_NO;
}

static bool is_newer(struct timespec a, struct timespec b)
{
    return a.tv_sec != b.tv_sec ? a.tv_sec > b.tv_sec : a.tv_nsec > b.tv_nsec;
}

bool stale_leaves_out(enum stale_kind kind, const struct stale_tracked *t, const char *rel,
                      struct timespec mtime, struct timespec newest_source)
{
    if (kind == STALE_NO || is_tracked(t, rel))
        return false;
    return kind == STALE_PRODUCT || t->known || is_newer(mtime, newest_source);
}
