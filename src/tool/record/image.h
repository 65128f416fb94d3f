/* The program to be recorded: which file it is, and whether anything can be loaded into it. */
#ifndef PIANO_TOOL_RECORD_IMAGE_H
#define PIANO_TOOL_RECORD_IMAGE_H

/* The file that execvp would run for WORD, malloc'd. NULL when there is none or when it cannot be recorded; then
 * what is wrong was said. */
char *image_find(const char *word);

#endif
