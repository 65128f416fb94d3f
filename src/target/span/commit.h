/* Lines of a thread, on their way to the run file. */
#ifndef PIANO_TARGET_SPAN_COMMIT_H
#define PIANO_TARGET_SPAN_COMMIT_H

#include <stdbool.h>

#include "common/lines.h"
#include "target/span/thread.h"

/* Around every change of a block's lines and of the tallies that go into them. False: the exiting thread of the program has taken
 * the block, and nothing may be changed. */
bool piano__commit_begin(struct piano__thread *t);
void piano__commit_end(struct piano__thread *t);

typedef void piano__line_body(struct piano__text *text, struct piano__thread *t, const void *what);

/* Appends the line that BODY writes to the thread's text, making room when there is none; its length. CLEARS: PIANO_CLEAR_*, the tallies
 * that are void from the moment it is there. */
uint32_t piano__commit_line(struct piano__thread *t, piano__line_body *body, const void *what,
                            uint32_t clears, int64_t now);
/* Empties the thread's text into the run file. */
void piano__commit_flush(struct piano__thread *t, int64_t now);

#endif
