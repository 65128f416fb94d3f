/* Commits the lines of a thread and writes them to the run file. */
#ifndef PIANO_TARGET_SPAN_COMMIT_H
#define PIANO_TARGET_SPAN_COMMIT_H

#include <stdbool.h>

#include "common/lines.h"
#include "target/span/thread.h"

/* Must enclose every change of a block's lines and of the tallies in them. Returns false if the
 * exiting thread has taken the block; then nothing may be changed. */
bool piano__commit_begin(struct piano__thread *t);
void piano__commit_end(struct piano__thread *t);

typedef void piano__line_body(struct piano__text *text, struct piano__thread *t, const void *what);

/* Appends the line that BODY writes to the thread's text, flushing it if there is no room. Returns
 * the length, or 0 if the line does not fit. CLEARS (PIANO_CLEAR_*) names the tallies that the
 * commit voids. */
uint32_t piano__commit_line(struct piano__thread *t, piano__line_body *body, const void *what,
                            uint32_t clears, int64_t now);
/* Writes the thread's text to the run file and empties it. */
void piano__commit_flush(struct piano__thread *t, int64_t now);

#endif
