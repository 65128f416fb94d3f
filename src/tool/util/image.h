/* The program to record: finds its file and checks that a library can be loaded into it. */
#ifndef PIANO_TOOL_UTIL_IMAGE_H
#define PIANO_TOOL_UTIL_IMAGE_H

#include <stdbool.h>
#include <stddef.h>

/* Returns the file that execvp would run for WORD, malloc'd. NULL when there is none or, with
 * IS_LOADED, when no library can be loaded into it. Prints the error. */
char *image_find(const char *word, bool is_loaded);

/* Can a library be loaded into PATH, for CPU samples? Prints the reason if not. */
bool image_can_load(const char *path);

/* Does running PATH grant privileges? The kernel then closes the events that were prepared to
 * sample it. */
bool image_gains_rights(const char *path);

/* How the kernel starts a file. */
enum image_starter { IMAGE_ALONE, IMAGE_LOADER, IMAGE_SCRIPT };

/* Copies the path of the loader or the interpreter of PATH to TEXT. */
enum image_starter image_starter(const char *path, char *text, size_t size);

#endif
