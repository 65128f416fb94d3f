/* Frames: which calls are frames, and the lines that go into the run file. */
#ifndef PIANO_TARGET_SPAN_FRAME_H
#define PIANO_TARGET_SPAN_FRAME_H

#include "common/lines.h"
#include "target/span/thread.h"

/* Bytes of frame lines a thread may write before the rate limit begins to matter. */
enum { PIANO_FIRST_BYTES = 4 << 20, PIANO_FIRST_DEEP = 8000 };

/* Puts SLOT on the list of what happened since the last line. */
void piano__frame_touch(struct piano__thread *t, struct piano__slot *slot);
/* Moves counted calls into the tally; afterwards `left` may be changed. */
void piano__frame_settle(struct piano__thread *t, struct piano__slot *slot);

/* The call in ENTRY (on top of the stack) may be a frame: if so, marks it and sets aside what was there. */
void piano__frame_begin(struct piano__thread *t, struct piano__entry *entry);
/* ENTRY, marked as a frame, has ended: WALL ticks, corrected. */
void piano__frame_end(struct piano__thread *t, struct piano__entry *entry, int64_t wall);
/* The function can no longer be a frame: it is timed by sample from here on. */
void piano__frame_demote(struct piano__thread *t, struct piano__slot *slot);

/* The line that introduces a thread. */
void piano__frame_announce(struct piano__thread *t, int64_t now);
/* Writes everything of a thread that ends: what is left outside of frames, and its text. */
void piano__frame_finish(struct piano__thread *t, int64_t now);

/* Finishes a move of a tally that was interrupted (repair.c). */
void piano__frame_repair_move(struct piano__thread *t);
/* The lists of T are whole again: finishes what a line has committed (repair.c). */
void piano__frame_repair(struct piano__thread *t);

#endif
