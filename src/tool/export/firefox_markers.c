#include "tool/export/firefox_markers.h"

#include <errno.h>
#include <stdlib.h>

#include "tool/load/companion.h"
#include "tool/util/order.h"
#include "tool/util/vec.h"

static void add(struct markers *m, const struct marker *marker)
{
    if (m->count == MARKERS_MOST) {
        m->left_out++;
        return;
    }
    if (VEC_ROOM(m->list, m->count, m->cap) != 0) {
        m->err = -ENOMEM;
        return;
    }
    m->list[m->count++] = *marker;
}

/* ---- events ---- */

static uint32_t pid_of(const struct polls *p, uint32_t track)
{
    const struct recording_process *process = recording_track_process(p->rec, track);
    return process ? process->pid : p->rec->header.pid;
}

static void on_poll(void *ctx, const struct polls *p, const struct poll *poll)
{
    add(ctx, &(struct marker){.pid = pid_of(p, poll->track),
                              .tid = p->tracks[poll->track].tid,
                              .kind = MARKER_POLL,
                              .name = p->groups[poll->group].name,
                              .begin_ns = poll->begin_ns,
                              .end_ns = poll->end_ns,
                              .number = poll->task});
}

static void on_park(void *ctx, const struct polls *p, uint32_t track, uint64_t to_ns)
{
    const struct polls_track *t = &p->tracks[track];
    bool known = t->park_kind > 0 && t->park_kind < PIANO_PARKS;
    add(ctx, &(struct marker){.pid = pid_of(p, track),
                              .tid = t->tid,
                              .kind = MARKER_PARK,
                              .name = known ? polls_park_names[t->park_kind] : "park",
                              .begin_ns = t->park_ns,
                              .end_ns = to_ns});
}

static void on_event(void *ctx, const struct polls *p, const struct recording_event *e)
{
    if (e->code != PIANO_EVENT_MARK)
        return;
    const char *name = recording_name_of(p->rec, e->mark.name);
    add(ctx, &(struct marker){.pid = pid_of(p, e->track),
                              .tid = p->tracks[e->track].tid,
                              .kind = MARKER_MARK,
                              .name = name ? name : "(no name)",
                              .begin_ns = e->at_ns,
                              .end_ns = e->at_ns});
}

/* ---- times off the CPU ---- */

static void add_waits(struct markers *m, const struct recording *rec)
{
    for (size_t i = 0; i < rec->sample_count && m->err == 0; i++) {
        struct recording_sample s;
        if (rec->samples[i].kind == PIANO_SAMPLE_CPU || !recording_clip(rec, &rec->samples[i], &s))
            continue;
        bool preempted = s.flags & PIANO_SAMPLE_PREEMPTED;
        uint64_t to = s.value ? s.at_ns + s.value : rec->end_ns; /* it did not come back */
        add(m, &(struct marker){.pid = s.pid,
                                .tid = s.tid,
                                .kind = preempted ? MARKER_PREEMPTED : MARKER_BLOCKED,
                                .name = preempted ? "waiting for a CPU" : "blocked",
                                .begin_ns = s.at_ns,
                                .end_ns = to > s.at_ns ? to : s.at_ns,
                                .stack = s.stack});
    }
}

/* ---- frames ---- */

static void add_frames(struct markers *m, const struct export_source *s)
{
    const struct run *run = s->run;
    for (size_t i = 0; i < run->frame_count && m->err == 0; i++) {
        const struct run_frame *f = &run->frames[i];
        struct companion_span at;
        if (!companion_frame(run, f, &at) || !range_has(&s->profile->rec.range, at.begin_ns))
            continue;
        add(m, &(struct marker){.pid = s->profile->rec.header.pid,
                                .tid = at.tid,
                                .kind = MARKER_FRAME,
                                .name = f->root < run->fn_count ? run->fns[f->root].name : "frame",
                                .begin_ns = at.begin_ns,
                                .end_ns = at.end_ns,
                                .number = i,
                                .spike = f->spike});
    }
}

/* ---- all ---- */

static int compare(const void *a, const void *b)
{
    const struct marker *x = a, *y = b;
    return ORDER(x->pid, y->pid) ?: ORDER(x->tid, y->tid) ?: ORDER(x->begin_ns, y->begin_ns)
        ?: ORDER(y->end_ns, x->end_ns) ?: ORDER(x->kind, y->kind);
}

int markers_make(struct markers *m, const struct export_source *s)
{
    const struct polls_listener listener = {on_poll, on_park, on_event, m};
    *m = (struct markers){.start_ns = s->polls->start_ns};
    int err = polls_go(s->polls, &listener);
    if (s->cpu)
        add_waits(m, &s->profile->rec);
    if (s->run)
        add_frames(m, s);
    if (m->count)
        qsort(m->list, m->count, sizeof(*m->list), compare);
    return err ? err : m->err;
}

void markers_release(struct markers *m)
{
    free(m->list);
    *m = (struct markers){.list = NULL};
}

/* The first marker of the thread PID, TID or a later one. */
static size_t bound(const struct markers *m, uint32_t pid, uint64_t tid)
{
    size_t low = 0, high = m->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct marker *x = &m->list[middle];
        if (x->pid < pid || (x->pid == pid && x->tid < tid))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

size_t markers_of(const struct markers *m, uint32_t pid, uint32_t tid, size_t *end)
{
    *end = bound(m, pid, (uint64_t)tid + 1);
    return bound(m, pid, tid);
}
