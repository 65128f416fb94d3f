/* libclang depends on a hundred megabytes of LLVM. Loading and relocating them takes ten times as
 * long as everything else in a short `piano report`. Of all commands only `build` reads source
 * code. So libclang is loaded on first use, and users who only read reports do not need it. It is
 * never unloaded, because LLVM does not survive that. */
#include "tool/build/libclang.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool/build/libclang_find.h"

enum { OLDEST = 11 };

/* Names for the loader, in case it knows directories that libclang_find() does not. The number is
 * the ABI version: LLVM 13 to 17 share one. */
static const char *const names[] = {"libclang.so.13", "libclang.so.1", "libclang.so"};

static struct libclang functions;
static bool tried, loaded;
static char error[512];

/* Keeps the first reason: that of the newest version. */
static bool fail(const char *path, const char *why)
{
    if (!error[0] && why && strncmp(why, path, strlen(path)) == 0)
        snprintf(error, sizeof(error), "%s", why); /* dlerror() starts with the path */
    else if (!error[0])
        snprintf(error, sizeof(error), "%s: %s", path, why ? why : "cannot be loaded");
    return false;
}

static bool find_functions(void *library)
{
#define FIND(name)                                                                                 \
    functions.name = (__typeof__(functions.name))dlsym(library, "clang_" #name);                   \
    if (!functions.name)                                                                           \
        return false;
    LIBCLANG_FUNCTIONS(FIND)
#undef FIND
    return true;
}

/* Parses "Debian clang version 14.0.6"; 0 if it has no version. */
static int version(void)
{
    CXString text = functions.getClangVersion();
    const char *words = functions.getCString(text);
    const char *at = words ? strstr(words, "version ") : NULL;
    int number = at ? atoi(at + strlen("version ")) : 0;
    functions.disposeString(text);
    return number;
}

/* An unsuitable library is not unloaded: LLVM does not survive that. */
static bool load_one(const char *path)
{
    char why[64];
    void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    if (!library || !find_functions(library))
        return fail(path, dlerror());
    int found = version();
    if (found == 0 || found >= OLDEST)
        return true;
    snprintf(why, sizeof(why), "is version %d, and piano needs %d or newer", found, OLDEST);
    return fail(path, why);
}

static bool load(void)
{
    struct libclang_files files = {0};
    const char *chosen = getenv("PIANO_LIBCLANG");
    bool good = false;
    if (chosen && *chosen)
        return load_one(chosen);
    libclang_find(&files); /* if memory ran out, use the files found before */
    for (size_t i = 0; i < files.count && !good; i++)
        good = load_one(files.list[i].path);
    libclang_files_free(&files);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !good; i++)
        good = load_one(names[i]);
    return good;
}

const struct libclang *libclang(void)
{
    if (!tried) {
        tried = true;
        loaded = load();
    }
    return loaded ? &functions : NULL;
}

const char *libclang_error(void)
{
    return error;
}

int libclang_version(void)
{
    return libclang() ? version() : 0;
}
