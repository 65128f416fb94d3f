/* The watcher starts when the first function is sampled. Until then all calls are timed, so their
 * self time is known without it. The reader compares the looks with what was measured while the
 * watcher ran, so it needs the rest separately: each function's self time up to the moment when the
 * thread notices that the watcher runs, including open calls. */
#include "target/span/unwatched.h"

#include "target/span/frame.h"

static void add(struct piano__thread *t, struct piano__slot *slot, int64_t ticks)
{
    if (ticks <= 0)
        return;
    if (!slot->in_now)
        piano__frame_touch(t, slot);
    slot->now.unwatched += ticks;
}

/* Innermost first: the time of an open call contains that of the open calls below it. */
static void add_open_calls(struct piano__thread *t, int64_t now)
{
    int64_t below = 0;
    for (uint32_t i = t->depth; i > 0; i--) {
        const struct piano__entry *e = &piano__entries(t)[i - 1];
        int64_t total = now - e->start - (t->overhead - e->overhead) / 256;
        int64_t own = total - (t->attributed - e->attributed) - below;
        add(t, &piano__slots(t)[e->slot], own);
        below += own > 0 ? own : 0;
    }
}

void piano__unwatched_end(struct piano__thread *t, int64_t now)
{
    t->watched = 1;
    uint32_t known = piano__head_id((uint32_t)t->real_limit);
    for (uint32_t i = 0; i < known; i++) {
        struct piano__slot *s = &piano__slots(t)[i];
        add(t, s, s->unwatched);
        s->unwatched = 0;
    }
    add_open_calls(t, now);
}
