/* Where the pass over the events enters and leaves the range of time that was asked for. */
#include "tool/profile/polls.h"

/* Parks that began before the range count from its start on. */
static void enter_range(struct polls *p)
{
    uint64_t at_ns = p->range.from_ns;
    p->is_in = true;
    for (size_t i = 0; i < p->rec->events.track_count; i++) {
        struct polls_track *t = &p->tracks[i];
        if (!t->parked)
            continue;
        t->park_mark = polls_until(p, t, at_ns);
        t->park_queued = polls_queued_until(p, at_ns);
        t->moved_ns = at_ns - t->park_ns;
        t->park_ns = at_ns;
    }
    for (size_t i = 0; i < p->series[POLLS_QUEUES].count; i++)
        polls_series_carry(&p->series[POLLS_QUEUES].list[i], at_ns);
    polls_series_carry(&p->alive, at_ns);
}

/* Parks that last longer than the range count up to its end. */
static void leave_range(struct polls *p)
{
    p->is_past = true;
    p->queued_stop = polls_queued_until(p, p->range.to_ns);
    for (size_t i = 0; i < p->rec->events.track_count; i++)
        if (p->tracks[i].parked)
            p->tracks[i].stop = polls_until(p, &p->tracks[i], p->range.to_ns);
}

void polls_pass_edges(struct polls *p, uint64_t at_ns)
{
    if (!p->range.given)
        return;
    if (!p->is_in && at_ns >= p->range.from_ns)
        enter_range(p);
    if (!p->is_past && at_ns >= p->range.to_ns)
        leave_range(p);
}
