/* Tells whether a program can be started with the library of the exec hook preloaded. */
#ifndef PIANO_TOOL_BUILD_EXEC_IMAGE_H
#define PIANO_TOOL_BUILD_EXEC_IMAGE_H

#include <stdbool.h>

/* Returns false for a program that is linked to the runtime of a sanitizer, which must be the first
 * library, and for a program of another machine or loader. A script counts as its interpreter. True
 * in any doubt. May be called in a child of vfork: allocates nothing. */
bool exec_image_takes_library(const char *path);

#endif
