/* Chooses which calls are frames and writes their lines to the run file. */
#ifndef PIANO_TARGET_SPAN_FRAME_H
#define PIANO_TARGET_SPAN_FRAME_H

#include "common/lines.h"
#include "target/span/thread.h"

/* Bytes of frame lines, and number of deep lines, that a thread may write before rate limits
 * apply. */
enum { PIANO_FIRST_BYTES = 4 << 20, PIANO_FIRST_DEEP = 8000 };

/* Adds SLOT to the list of functions active since the last line. */
void piano__frame_touch(struct piano__thread *t, struct piano__slot *slot);
/* Moves counted calls into the tally. Afterwards `left` may be changed. */
void piano__frame_settle(struct piano__thread *t, struct piano__slot *slot);

/* Marks the call in ENTRY, at the top of the stack, if it is a frame, and sets the current tallies
 * aside. */
void piano__frame_begin(struct piano__thread *t, struct piano__entry *entry);
/* Ends ENTRY, marked as a frame, after WALL corrected ticks. */
void piano__frame_end(struct piano__thread *t, struct piano__entry *entry, int64_t wall);
/* Announces that the function is no longer a frame because it is sampled from now on. */
void piano__frame_demote(struct piano__thread *t, struct piano__slot *slot);

/* Writes the line that introduces a thread. */
void piano__frame_announce(struct piano__thread *t, int64_t now);
/* Writes everything left of a thread that ends: time outside frames, merged frames and buffered
 * text. */
void piano__frame_finish(struct piano__thread *t, int64_t now);

/* Finishes an interrupted move of a tally (repair.c). */
void piano__frame_repair_move(struct piano__thread *t);
/* Finishes clearing what a line has committed (repair.c). The lists of T must be intact. */
void piano__frame_repair(struct piano__thread *t);

#endif
