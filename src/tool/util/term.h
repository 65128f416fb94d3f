/* The terminal as a full screen: raw keys, and lines that are rewritten in place.
 *
 * Plain sequences and not ncursesw: a table of lines needs seven sequences, which every terminal
 * with an alternate screen has. The library would be one more dependency of the tool, reads a
 * database of terminals, and keeps state that a crash handler cannot restore.
 *
 * The terminal is restored when the screen is closed, when the process is stopped or crashes, and
 * at exit. */
#ifndef PIANO_TOOL_UTIL_TERM_H
#define PIANO_TOOL_UTIL_TERM_H

#include <stdbool.h>
#include <stddef.h>

enum term_style { TERM_PLAIN, TERM_BOLD, TERM_DIM, TERM_REVERSE, TERM_RED, TERM_STYLES };

/* Keys other than characters. */
enum term_key {
    TERM_NONE = 0,
    TERM_ENTER = '\n',
    TERM_ESCAPE = 0x1b,
    TERM_ERASE = 0x7f,
    TERM_UP = 0x100,
    TERM_DOWN,
    TERM_LEFT,
    TERM_RIGHT,
    TERM_PAGE_UP,
    TERM_PAGE_DOWN,
    TERM_HOME,
    TERM_END,
    TERM_F1, /* to F10 */
    TERM_F10 = TERM_F1 + 9,
    TERM_GONE, /* the terminal was closed */
};

/* Can FD and stdout be a screen: terminals, and TERM is neither empty nor `dumb`? */
bool term_possible(int fd);
/* Opens the screen on terminal FD, which gives the keys. 0 or negative errno. */
int term_open(int fd);
void term_close(void);
/* Closes the screen and stops the process like Ctrl-Z; opens it again when it goes on. */
void term_suspend(void);

/* The size may have changed: the next lines are all written. */
void term_resize(size_t *rows, size_t *columns);
/* Puts TEXT on line ROW, from 0; cut to the width. Make it safe to show first. */
void term_line(size_t row, enum term_style style, const char *text);
/* Writes the lines that differ from those on the screen. False: the terminal is gone. */
bool term_draw(void);

/* The next key, if there is one; TERM_NONE: none. */
int term_key(void);

#endif
