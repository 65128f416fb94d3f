/* Looks for libclang where distributions and users install it. Its name differs: libclang-14.so.13
 * and libclang-19.so.19 in Debian, libclang.so.19.1 in Fedora, libclang.so in a private build. So
 * this reads the directories and derives the version from the paths; libclang.c tries them in
 * turn. */
#include "tool/build/libclang_find.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>

#include "tool/util/paths.h"
#include "tool/util/vec.h"

static const char *const places[] = {
    "/usr/lib/llvm-*/lib", "/usr/lib/*-linux-gnu",    "/usr/lib64/llvm*/lib*",
    "/usr/lib64",          "/usr/lib/llvm*/lib*",     "/usr/lib",
    "/usr/local/lib",      "/usr/local/llvm*/lib",    "/usr/local/lib64",
    "/opt/llvm*/lib",      "/usr/local/opt/llvm*/lib"};

bool libclang_is_name(const char *name)
{
    static const char prefix[] = "libclang";
    if (strncmp(name, prefix, sizeof(prefix) - 1) != 0)
        return false;
    name += sizeof(prefix) - 1;
    if (*name == '-') {
        if (!isdigit((unsigned char)*++name))
            return false;
        name += strspn(name, "0123456789.");
        if (name[-1] == '.')
            name--;
    }
    if (strncmp(name, ".so", 3) != 0)
        return false;
    name += 3;
    return !*name || (*name == '.' && strspn(name, "0123456789.") == strlen(name));
}

/* The number after the last MARK in PATH that has one. */
static unsigned number_after(const char *path, const char *mark)
{
    unsigned found = 0;
    for (const char *at = strstr(path, mark); at; at = strstr(at + 1, mark)) {
        const char *digits = at + strlen(mark);
        if (isdigit((unsigned char)*digits))
            found = (unsigned)strtoul(digits, NULL, 10);
    }
    return found;
}

unsigned libclang_path_version(const char *path)
{
    static const char *const marks[] = {"/llvm-", "/llvm", "/libclang-", "/libclang.so."};
    unsigned highest = 0;
    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
        unsigned version = number_after(path, marks[i]);
        if (version > highest)
            highest = version;
    }
    return highest;
}

/* Takes ownership of PATH. Several names of one file count once. */
static int add(struct libclang_files *f, char *path)
{
    if (!path)
        return -ENOMEM;
    for (size_t i = 0; i < f->count; i++) {
        if (strcmp(f->list[i].path, path) == 0) {
            free(path);
            return 0;
        }
    }
    if (VEC_ROOM(f->list, f->count, f->cap) != 0) {
        free(path);
        return -ENOMEM;
    }
    f->list[f->count++] = (struct libclang_file){path, 0};
    return 0;
}

static int add_name(struct libclang_files *f, const char *dir, const char *name)
{
    char *path = paths_join(dir, name);
    if (!path)
        return -ENOMEM;
    char *real = realpath(path, NULL);
    unsigned version = libclang_path_version(path);
    size_t before = f->count;
    int err = real ? add(f, real) : 0;
    if (err == 0 && f->count > before) {
        unsigned own = libclang_path_version(f->list[before].path);
        f->list[before].version = own > version ? own : version;
    }
    free(path);
    return err;
}

static int look_in(struct libclang_files *f, const char *dir)
{
    DIR *d = opendir(dir);
    int err = 0;
    if (!d)
        return 0;
    for (struct dirent *e = readdir(d); e && err == 0; e = readdir(d)) {
        if (libclang_is_name(e->d_name))
            err = add_name(f, dir, e->d_name);
    }
    closedir(d);
    return err;
}

static int look_in_list(struct libclang_files *f, const char *dirs)
{
    char *copy = strdup(dirs), *rest = NULL;
    int err = copy ? 0 : -ENOMEM;
    for (char *dir = copy ? strtok_r(copy, ":;", &rest) : NULL; dir && err == 0;
         dir = strtok_r(NULL, ":;", &rest))
        err = look_in(f, dir);
    free(copy);
    return err;
}

static int look_in_pattern(struct libclang_files *f, const char *pattern)
{
    glob_t found;
    int err = 0;
    if (glob(pattern, 0, NULL, &found) != 0)
        return 0;
    for (size_t i = 0; i < found.gl_pathc && err == 0; i++)
        err = look_in(f, found.gl_pathv[i]);
    globfree(&found);
    return err;
}

/* Insertion sort: it is stable, and there are only a few files. */
static void sort(struct libclang_files *f)
{
    for (size_t i = 1; i < f->count; i++) {
        struct libclang_file moved = f->list[i];
        size_t at = i;
        for (; at > 0 && f->list[at - 1].version < moved.version; at--)
            f->list[at] = f->list[at - 1];
        f->list[at] = moved;
    }
}

int libclang_find(struct libclang_files *f)
{
    const char *dirs = getenv("LD_LIBRARY_PATH");
    int err = dirs ? look_in_list(f, dirs) : 0;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]) && err == 0; i++)
        err = look_in_pattern(f, places[i]);
    sort(f);
    return err;
}

void libclang_files_free(struct libclang_files *f)
{
    for (size_t i = 0; i < f->count; i++)
        free(f->list[i].path);
    free(f->list);
    *f = (struct libclang_files){0};
}
