/* The link step: adds the runtime to outputs with instrumented code. */
#ifndef PIANO_TOOL_BUILD_LINK_H
#define PIANO_TOOL_BUILD_LINK_H

#include <stdbool.h>

#include "tool/build/args.h"

enum link_kind {
    LINK_SHARED_RUNTIME,
    LINK_STATIC_RUNTIME,
    LINK_STATIC_NO_MEMALIGN, /* the same, without a reference to the memalign family */
    LINK_STUB,               /* guards do nothing */
    LINK_OWN_ALLOCATOR, /* shared runtime, and the program's own malloc is wrapped by the linker */
};

/* Is there instrumented code in an object, archive or library among the inputs? */
bool link_has_instrumented(const struct args *a);

/* Writes the link command BASE, whose first COMMAND words name the compiler, with the runtime in
 * LIB added, to OUT. */
void link_command(char *const base[], size_t command, const char *lib, enum link_kind kind,
                  struct words *out);

/* Adds the library with C++'s personality routine, only if it is needed. */
void link_add_personality(struct words *out);
/* Does the shared library at PATH refer to that routine without naming a library that has it? */
bool link_lacks_personality(const char *path);

/* Does the executable at PATH contain its own allocator? */
bool link_defines_malloc(const char *path);

/* Is the executable or shared library at PATH for musl's loader? */
bool link_is_musl(const char *path);

#endif
