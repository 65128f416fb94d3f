/* The link step: the runtime goes into what holds instrumented code. */
#ifndef PIANO_TOOL_BUILD_LINK_H
#define PIANO_TOOL_BUILD_LINK_H

#include <stdbool.h>

#include "tool/build/args.h"

enum link_kind {
    LINK_SHARED_RUNTIME,
    LINK_STATIC_RUNTIME,
    LINK_OWN_ALLOCATOR, /* shared runtime, and the program's own malloc is wrapped at link time */
};

/* Does an object, archive or library among the inputs hold instrumented code? */
bool link_has_instrumented(const struct args *a);

/* BASE, a link command whose first COMMAND words name the compiler, with the runtime in LIB added. */
void link_command(char *const base[], size_t command, const char *lib, enum link_kind kind,
                  struct words *out);

/* Adds the library with C++'s personality routine, for those that refer to it. */
void link_add_personality(struct words *out);
/* Does the shared library at PATH refer to that routine without naming a library that has it? */
bool link_lacks_personality(const char *path);

/* Has the executable at PATH an allocator of its own in it? */
bool link_defines_malloc(const char *path);

/* Is the executable or shared library at PATH one for musl's loader? */
bool link_is_musl(const char *path);

#endif
