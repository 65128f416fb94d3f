/* libclang comes with a hundred megabytes of LLVM, and to load and relocate them takes ten times as
 * long as all else that a short `piano report` does. Of all commands only `build` reads source
 * code: so it is loaded where it is used, and who only reads reports can do without. It stays to
 * the end: LLVM does not like to be unloaded. */
#include "tool/build/libclang.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>

/* As Debian calls it, and as LLVM itself does. The number behind `.so` is that of its interface. */
static const char *const names[] = {"libclang-14.so.13", "libclang.so.13"};

static struct libclang functions;
static bool tried, loaded;
static char error[256];

/* The first reason counts: that of the name it should have. */
static bool fail(void)
{
    const char *why = dlerror();
    if (!error[0])
        snprintf(error, sizeof(error), "%s", why ? why : "cannot be loaded");
    return false;
}

static void *open_library(void)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        void *library = dlopen(names[i], RTLD_LAZY | RTLD_LOCAL);
        if (library)
            return library;
        fail();
    }
    return NULL;
}

static bool load(void)
{
    void *library = open_library();
    if (!library)
        return false;
#define FIND(name)                                                                                 \
    functions.name = (__typeof__(functions.name))dlsym(library, "clang_" #name);                   \
    if (!functions.name)                                                                           \
        return fail();
    LIBCLANG_FUNCTIONS(FIND)
#undef FIND
    return true;
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
