/* Polls of a program that still runs: the same machine as for a complete recording, which gets the
 * events as they are written, and whose figures can be forgotten from time to time. So the red
 * flags of the last second come from the code that makes those of the report. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/profile/polls.h"

int polls_live_start(struct polls *p, struct profile *profile, const struct recording *rec)
{
    *p = (struct polls){.profile = profile,
                        .rec = rec,
                        .start_ns = rec->header.start_mono_ns,
                        .is_live = true,
                        .longest_max = 1};
    p->longest = calloc(p->longest_max + 1, sizeof(*p->longest));
    return p->longest ? 0 : -ENOMEM;
}

/* What was open may have ended, and what was woken may have been polled, unseen. */
static void lose_track(struct polls *p)
{
    p->is_partial = true;
    for (size_t i = 0; i < p->track_count; i++)
        polls_cut(p, &p->tracks[i]);
    for (size_t i = 0; i < p->task_count; i++)
        p->tasks[i].wake_ns = 0;
}

int polls_live_go(struct polls *p, bool is_partial)
{
    struct recording_event e;
    int err = polls_start_tracks(p);
    if (is_partial)
        lose_track(p);
    struct recording_walk *walk = err ? NULL : recording_walk_new(p->rec);
    if (!walk)
        return -ENOMEM;
    while (err == 0 && recording_walk_next(walk, &e))
        err = polls_take(p, &e);
    recording_walk_free(walk);
    return err;
}

static void forget_group(struct polls_group *g)
{
    samples_release(&g->durations);
    samples_release(&g->wakes);
    *g = (struct polls_group){.kind = g->kind, .key = g->key, .name = g->name};
}

static void forget_track(struct polls_track *t)
{
    t->polls = t->busy_ns = t->parks = t->parked_ns = t->park_max_ns = 0;
    t->starved_ns = t->starved_max_ns = t->park_cpu_ns = 0;
    t->busy_time = t->park_time = (struct polls_time){.off_ns = 0};
    memset(t->parked_by, 0, sizeof(t->parked_by));
}

void polls_live_forget(struct polls *p)
{
    for (size_t i = 0; i < p->group_count; i++)
        forget_group(&p->groups[i]);
    for (size_t i = 0; i < p->track_count; i++)
        forget_track(&p->tracks[i]);
    samples_release(&p->wakes);
    samples_release(&p->spawns);
    p->wakes = p->spawns = (struct samples){.count = 0};
    p->longest_count = 0;
    p->polls = p->open = p->long_polls = p->very_long = 0;
    p->wake_count = p->late = p->latest_ns = p->cut = 0;
    p->is_partial = false;
}

bool polls_live_open(const struct polls *p, uint64_t at_ns, struct poll *poll)
{
    const struct poll *oldest = NULL;
    for (size_t i = 0; i < p->track_count; i++)
        if (p->tracks[i].depth > 0 &&
            (!oldest || p->tracks[i].stack[0].begin_ns < oldest->begin_ns))
            oldest = &p->tracks[i].stack[0];
    if (!oldest || at_ns <= oldest->begin_ns)
        return false;
    *poll = *oldest;
    poll->end_ns = at_ns;
    poll->open = true;
    return true;
}
