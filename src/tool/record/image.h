/* The program to be recorded: which file it is, and whether anything can be loaded into it. */
#ifndef PIANO_TOOL_RECORD_IMAGE_H
#define PIANO_TOOL_RECORD_IMAGE_H

#include <stdbool.h>
#include <stddef.h>

/* The file that execvp would run for WORD, malloc'd. NULL when there is none or, if it IS_LOADED with a library, when it
 * cannot be; then what is wrong was said. */
char *image_find(const char *word, bool is_loaded);

/* Whether a library can be loaded into PATH, for CPU samples; if not, why was said. */
bool image_can_load(const char *path);

/* Does whoever runs PATH gain rights by it? The kernel then ends what was prepared to sample it. */
bool image_gains_rights(const char *path);

/* What the kernel starts a file with. */
enum image_starter { IMAGE_ALONE, IMAGE_LOADER, IMAGE_SCRIPT };

/* The path of the loader or the interpreter of PATH to TEXT. */
enum image_starter image_starter(const char *path, char *text, size_t size);

#endif
