/* Errors, notices and progress, all on stderr. Colour only on a terminal, without NO_COLOR and
 * unless TERM is dumb. */
#ifndef PIANO_TOOL_UTIL_SAY_H
#define PIANO_TOOL_UTIL_SAY_H

#include <stdbool.h>
#include <stdio.h>

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

/* Prints "piano: WHAT" and, if HINT is not NULL, "  try: HINT" on the next line. Returns
 * EXIT_FAILED, so that a command can `return say_error(...)`. */
int say_error(const char *hint, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The same for a usage error; points to --help; returns EXIT_USAGE. */
int say_usage(const char *command, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Prints a notice, "piano: ...". */
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Calls HEAR with every notice before it is printed. HEAR returns false to suppress it. NULL
 * removes the listener. */
void say_listen(bool (*hear)(void *ctx, const char *text), void *ctx);

/* A status line, rewritten in place. It appears only after the work has taken a while, and only if
 * stderr is a terminal. */
void say_progress(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Shows no status line from now on (IS_NEVER), because the terminal is a screen. */
void say_progress_never(bool is_never);
/* The work continues: shows the line if its delay has passed. */
void say_progress_again(void);
/* Removes the line. The next one waits for the delay again. */
void say_progress_done(void);

bool say_colour(FILE *stream);

/* Copies SRC to DST and makes control characters, terminal escapes (`\x1b`), invalid UTF-8 and
 * characters that change the direction visible. Returns DST. */
const char *say_safe(char *dst, size_t size, const char *src);

#endif
