/* The threads of the pass over the events: their names, samples, and the waits of their loops. */
#include "tool/profile/polls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Programs use epoll and piano_park in a loop only, so one wait is enough. Other waits occur outside
 * of loops too. */
static uint64_t least_parks(int kind)
{
    return kind == PIANO_PARK_EPOLL || kind == PIANO_PARK_API ? 1 : POLLS_LOOP_PARKS;
}

/* The kind of wait that the loop of a thread returns to: the most frequent wait for input,
 * otherwise the most frequent other wait. */
static int loop_of(const struct recording_track *t)
{
    static const int input[] = {PIANO_PARK_EPOLL, PIANO_PARK_POLL, PIANO_PARK_SELECT,
                                PIANO_PARK_URING, PIANO_PARK_API};
    static const int other[] = {PIANO_PARK_CONDITION, PIANO_PARK_SEMAPHORE};
    int best = -1;
    if (t->polls > 0)
        return -1;
    for (size_t i = 0; i < sizeof(input) / sizeof(*input); i++)
        if (t->parks[input[i]] >= least_parks(input[i]) &&
            (best < 0 || t->parks[input[i]] > t->parks[best]))
            best = input[i];
    for (size_t i = 0; best < 0 && i < sizeof(other) / sizeof(*other); i++)
        if (t->parks[other[i]] >= least_parks(other[i]) &&
            (i == 0 || t->parks[other[i]] > t->parks[other[0]]))
            best = other[i];
    return best;
}

/* Threads of a recording that grows get their names and loops later. */
static void update_track(struct polls *p, size_t i)
{
    struct polls_track *t = &p->tracks[i];
    const struct recording_thread *thread = recording_thread_of(p->rec, t->tid);
    if (t->loop < 0)
        t->loop = loop_of(&p->rec->events.tracks[i]);
    if (thread)
        memcpy(t->name, thread->name, sizeof(t->name));
}

int polls_start_tracks(struct polls *p)
{
    const struct recording *rec = p->rec;
    size_t count = rec->events.track_count;
    struct polls_track *more = realloc(p->tracks, (count + 1) * sizeof(*more));
    if (!more)
        return -ENOMEM;
    p->tracks = more;
    for (size_t i = 0; i < p->track_count; i++)
        update_track(p, i);
    for (size_t i = p->track_count; i < count; i++) {
        struct polls_track *t = &p->tracks[i];
        *t = (struct polls_track){.tid = rec->events.tracks[i].tid, .loop = -1};
        update_track(p, i);
        t->sample = recording_samples_of(rec, t->tid, 0, &t->sample_end);
        for (size_t k = t->sample_end; k > t->sample && t->last_ns == 0; k--)
            t->last_ns =
                rec->samples[k - 1].at_ns +
                (rec->samples[k - 1].kind == PIANO_SAMPLE_OFF ? rec->samples[k - 1].value : 0);
    }
    p->track_count = count;
    return 0;
}
