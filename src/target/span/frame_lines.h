/* The text of the lines that frame.c writes. Each function writes a line of T to TEXT. Its comment
 * names the type of WHAT. */
#ifndef PIANO_TARGET_SPAN_FRAME_LINES_H
#define PIANO_TARGET_SPAN_FRAME_LINES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/lines.h"
#include "target/span/onoff.h"
#include "target/span/thread.h"

struct piano__frame_line {
    uint64_t number;
    int64_t start;
    int64_t wall;
    int64_t took; /* by the clock, uncorrected */
    int64_t over; /* 1/256 ticks: thread's overhead when the frame began */
    uint32_t root;
    int32_t depth;
    int32_t under; /* function, -1 = none */
    int32_t outer; /* depth of the enclosing frame, -1 = none */
    struct piano__onoff onoff;
    bool with_kept;
};

/* LINK is a slot's number + 1, as in the lists of a thread. */
static inline struct piano__slot *piano__slot_at(struct piano__thread *t, uint32_t link)
{
    return &piano__slots(t)[link - 1];
}

static inline uint32_t piano__slot_id(struct piano__thread *t, const struct piano__slot *slot)
{
    return (uint32_t)(slot - piano__slots(t));
}

/* A frame with the tallies in `now`: struct piano__frame_line. */
void piano__put_frame(struct piano__text *text, struct piano__thread *t, const void *what);
/* The tallies in `kept`: NULL. */
void piano__put_kept(struct piano__text *text, struct piano__thread *t, const void *what);
/* A function whose calls are no frames any more: struct piano__slot. */
void piano__put_demoted(struct piano__text *text, struct piano__thread *t, const void *what);
/* The thread: the tick of its end, int64_t; -1 while it runs. */
void piano__put_thread(struct piano__text *text, struct piano__thread *t, const void *what);

#endif
