/* The output of the program while the terminal shows our screen. */
#ifndef PIANO_TOOL_TOP_CAPTURED_H
#define PIANO_TOOL_TOP_CAPTURED_H

#include <stdbool.h>
#include <stddef.h>

enum { CAPTURED_BYTES = 1 << 16 };

struct captured {
    int fd; /* -1: closed, or none */
    size_t len;
    char text[CAPTURED_BYTES + 1]; /* the last bytes */
};

/* Reads what is there. */
void captured_read(struct captured *o);
/* Line AT from the end, from 0; NULL: there are fewer. SAFE of SIZE. */
const char *captured_line(const struct captured *o, size_t at, char *safe, size_t size);
/* Prints the last lines on stderr: they were written behind the screen. */
void captured_say_last(const struct captured *o);

#endif
