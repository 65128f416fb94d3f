/* How the tool talks: errors, notices and progress, all on stderr. Colour only where a person
 * looks (a terminal, no NO_COLOR, TERM not dumb). */
#ifndef PIANO_TOOL_UTIL_SAY_H
#define PIANO_TOOL_UTIL_SAY_H

#include <stdbool.h>
#include <stdio.h>

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

/* "piano: WHAT" and, when not NULL, "  try: HINT" on the next line. Returns EXIT_FAILED so that a
 * command may `return say_error(...)`. */
int say_error(const char *hint, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The same for a command line that makes no sense; points to --help; returns EXIT_USAGE. */
int say_usage(const char *command, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A line of talk ("piano: ..."). */
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* HEAR is told every line of talk before it is printed, and may say (false) that it need not be; NULL: no more. */
void say_listen(bool (*hear)(void *ctx, const char *text), void *ctx);

/* One line that is rewritten in place, from the moment on when the work has taken so long that a
 * person would wonder; nothing at all unless stderr is a terminal. */
void say_progress(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Work that was announced goes on: shows the line if it is time now. */
void say_progress_again(void);
/* Takes the line away; the next one begins to wait anew. */
void say_progress_done(void);

bool say_colour(FILE *stream);

/* Copies SRC to DST with control characters and terminal escapes made visible (`\x1b`), invalid
 * UTF-8 and direction-changing characters included. Returns DST. */
const char *say_safe(char *dst, size_t size, const char *src);

#endif
