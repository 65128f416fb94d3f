/* The output of the program while the terminal shows our screen. */
#ifndef PIANO_TOOL_TOP_OUTPUT_H
#define PIANO_TOOL_TOP_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

enum { OUTPUT_BYTES = 1 << 16 };

struct output {
    int fd; /* -1: closed, or none */
    size_t len;
    char text[OUTPUT_BYTES + 1]; /* the last bytes */
};

/* Reads what is there. */
void output_read(struct output *o);
/* Line AT from the end, from 0; NULL: there are fewer. SAFE of SIZE. */
const char *output_line(const struct output *o, size_t at, char *safe, size_t size);
/* Prints the last lines on stderr: they were written behind the screen. */
void output_say_last(const struct output *o);

#endif
