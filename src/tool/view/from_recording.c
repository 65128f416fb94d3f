/* Converts a recording to tables: its p, samples and events, as far as present. Also compares
 * two recordings. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/load/coverage.h"
#include "tool/profile/processes.h"
#include "tool/util/order.h"
#include "tool/load/own.h"
#include "tool/util/paths.h"
#include "tool/util/say.h"
#include "tool/util/units.h"
#include "tool/util/vec.h"
#include "tool/view/packer.h"

/* ---- stacks ---- */

static int stacks_start(struct packer_stacks *s, struct profile *p)
{
    *s = (struct packer_stacks){.profile = p};
    s->nodes = malloc((p->rec.stack_count + 1) * sizeof(*s->nodes));
    if (!s->nodes)
        return -ENOMEM;
    memset(s->nodes, 0xff, (p->rec.stack_count + 1) * sizeof(*s->nodes));
    return 0;
}

static void stacks_release(struct packer_stacks *s)
{
    free(s->nodes);
    *s = (struct packer_stacks){.profile = NULL};
}

uint32_t packer_node(struct packer *k, struct packer_stacks *s, uint32_t stack)
{
    if (s->nodes[stack] == PACK_NONE)
        s->nodes[stack] = trie_stack(&k->trie, &k->texts, s->profile, stack);
    return s->nodes[stack];
}

/* ---- samples ---- */

static void put_sample(struct packer *k, struct packer_stacks *s, struct pack_table *t,
                       const struct recording_sample *sample)
{
    bool cpu = sample->kind == PIANO_SAMPLE_CPU;
    int kind = cpu ? 0 : sample->flags & PIANO_SAMPLE_PREEMPTED ? 2 : 1;
    uint32_t lane = lanes_of(&k->lanes, sample->tid);
    column_put(&t->columns[0], packer_moment(k, sample->at_ns));
    column_put(&t->columns[1], lane);
    column_put(&t->columns[2], packer_node(k, s, sample->stack));
    column_put(&t->columns[3], kind);
    column_put(&t->columns[4],
               sample->value < (uint64_t)INT64_MAX ? (int64_t)sample->value : INT64_MAX);
    SCHEMA_WRITES(samples, 5);
}

static int add_samples(struct packer *k, struct packer_stacks *s)
{
    const struct recording *rec = &s->profile->rec;
    if (rec->sample_count == 0)
        return 0;
    struct pack_table *t = pack_add(&k->pack, SCHEMA_samples);
    uint32_t *order = recording_samples_by_time(rec);
    if (!t || !order) {
        free(order);
        return -ENOMEM;
    }
    say_progress("placing %zu samples", rec->sample_count);
    for (size_t i = 0; i < rec->sample_count; i++) {
        struct recording_sample part;
        if (recording_clip(rec, &rec->samples[order[i]], &part))
            put_sample(k, s, t, &part);
    }
    free(order);
    return k->trie.failed ? -ENOMEM : 0;
}

/* ---- metadata ---- */

static void add_about(struct packer_about *about, const struct recording *rec)
{
    const struct piano__rec_header *h = &rec->header;
    if (about->name.len == 0)
        buf_puts(&about->name, paths_base(rec->path));
    if (about->program.len == 0)
        buf_puts(&about->program, h->program);
    size_t len = sizeof(h->command) - 1;
    while (len > 0 && h->command[len - 1] == '\0')
        len--;
    for (size_t at = 0; about->command.len == 0 && at < len;) {
        struct buf line = {0};
        for (; at < len; at += strlen(h->command + at) + 1)
            buf_printf(&line, "%s%s", at ? " " : "", h->command + at);
        about->command = line;
    }
    about->pid = about->pid ? about->pid : h->pid;
    if (about->started_ms == 0)
        about->started_ms = (int64_t)(h->start_real_ns / 1000000);
}

static void add_dropped(struct packer *k, const struct recording *rec)
{
    const struct piano__heap_stats *s = &rec->header.stats;
    const struct piano__trace *t = &rec->header.trace;
    packer_dropped(k, "heap_live", s->dropped_live);
    packer_dropped(k, "heap_stacks", s->dropped_stacks);
    packer_dropped(k, "heap_memory", s->dropped_memory);
    packer_dropped(k, "heap_busy", s->dropped_busy);
    packer_dropped(k, "events_memory", t->dropped_memory);
    packer_dropped(k, "events_busy", t->dropped_busy);
    packer_dropped(k, "events_names", t->dropped_names);
    packer_dropped(k, "events_recycled_chunks", t->recycled);
    packer_dropped(k, "samples_lost", t->samples_lost);
    packer_dropped(k, "places_unreadable", rec->gap_count);
}

/* The time of the last known activity. */
static int64_t end_of(const struct packer *k, const struct polls *p)
{
    const struct recording *rec = p->rec;
    uint64_t end = p->end_ns;
    for (size_t i = 0; i < rec->sample_count; i++)
        end = rec->samples[i].at_ns > end ? rec->samples[i].at_ns : end;
    if (rec->duration_ns >= 0 && rec->header.start_mono_ns + (uint64_t)rec->duration_ns > end)
        end = rec->header.start_mono_ns + (uint64_t)rec->duration_ns;
    return packer_moment(k, end);
}

static void add_threads(struct packer *k, const struct recording *rec)
{
    uint32_t lane = lanes_of(&k->lanes, rec->header.pid);
    if (lane < k->lanes.count)
        k->lanes.list[lane].is_main = true;
}

/* Names the threads that have a lane: a thread without activity needs none. */
static void name_threads(struct packer *k, const struct recording *rec)
{
    for (uint32_t i = 0; i < k->lanes.count; i++)
        if (k->lanes.list[i].key <= UINT32_MAX) {
            const struct recording_thread *t =
                recording_thread_of(rec, (uint32_t)k->lanes.list[i].key);
            lanes_name(&k->lanes, &k->texts, i, t ? t->name : NULL);
        }
}

static uint32_t process_of(const struct recording *rec, uint32_t tid)
{
    const struct recording_thread *t = recording_thread_of(rec, tid);
    for (uint32_t i = 0; i < rec->events.track_count && !(t && t->pid); i++) {
        const struct recording_process *p = recording_track_process(rec, i);
        if (p && rec->events.tracks[i].tid == tid)
            return p->pid;
    }
    return t ? t->pid : 0;
}

/* Groups the threads of several processes: the process that did most comes first. */
static int place_threads(struct packer *k, const struct polls *p)
{
    struct processes list;
    if (!processes_are_several(p->rec))
        return 0;
    int err = processes_make(&list, p->profile, p);
    for (uint32_t i = 0; i < k->lanes.count && err == 0; i++) {
        struct lane *lane = &k->lanes.list[i];
        uint32_t pid = lane->key <= UINT32_MAX ? process_of(p->rec, (uint32_t)lane->key) : 0;
        size_t at = 0;
        while (at < list.count && list.list[at].pid != pid)
            at++;
        lane->place = (uint32_t)at;
        if (at == list.count)
            continue;
        lane->pid = pid;
        lane->is_main = lane->key == pid;
        if (list.list[at].name)
            lane->process = texts_of(&k->texts, list.list[at].name);
    }
    if (err == 0)
        processes_release(&list);
    return err;
}

/* ---- one recording ---- */

static int add_parts(struct packer *k, struct polls *p, unsigned found)
{
    struct packer_stacks s;
    char covered[80];
    int err = stacks_start(&s, p->profile);
    if (err == 0 && found & PROFILE_HEAP) {
        k->kinds |= PACKER_HEAP;
        err = packer_add_heap(k, &s);
    }
    if (err == 0 && found & PROFILE_CPU) {
        k->kinds |= PACKER_CPU;
        if (*coverage_text(covered, sizeof(covered), &p->rec->header.trace))
            packer_notice(k, "%s of CPU time", covered);
        err = k->digest.cpu(k->digest.to, p->profile);
        if (err == 0)
            err = add_samples(k, &s);
    }
    if (err == 0 && found & PROFILE_EVENTS) {
        k->kinds |= PACKER_EVENTS;
        err = packer_add_events(k, p);
        if (err == 0)
            err = k->digest.polls(k->digest.to, p);
    }
    stacks_release(&s);
    return err;
}

static void notice_range(struct packer *k, const struct recording *rec)
{
    char from[UNITS_LEN], to[UNITS_LEN];
    uint64_t start = rec->header.start_mono_ns;
    packer_notice(k,
                  "samples, waits and polls are those from %s to %s; memory is that of the whole "
                  "recording",
                  units_time(from, (int64_t)(rec->range.from_ns - start)),
                  units_time(to, (int64_t)(rec->range.to_ns - start)));
}

int packer_add_recording(struct packer *k, const char *path, struct run_error *error)
{
    struct profile profile;
    struct polls p;
    int err = profile_peek_all(&profile, path, k->process, error);
    if (err)
        return err;
    profile.rec.asked = k->range;
    if (k->names)
        profile_share(&profile, k->names);
    err = profile_read(&profile, error);
    if (err)
        return err;
    err = polls_start(&p, &profile, POLLS_TOP, error);
    if (err) {
        profile_close(&profile);
        return err;
    }
    unsigned found = profile.instruments;
    if (profile.rec.range.given)
        notice_range(k, &profile.rec);
    if (k->base_ns == 0)
        k->base_ns = p.start_ns;
    add_about(&k->about, p.rec);
    add_dropped(k, p.rec);
    add_threads(k, p.rec);
    heap_notice_hidden(&profile);
    err = add_parts(k, &p, found || own_is_hidden(&p.rec->header) ? found : PROFILE_HEAP);
    if (err == 0) {
        name_threads(k, p.rec);
        err = place_threads(k, &p);
        polls_notices(&p);
        profile_notice_symbols(&profile);
        int64_t end = end_of(k, &p);
        k->about.duration_ns = end > k->about.duration_ns ? end : k->about.duration_ns;
    }
    polls_release(&p);
    profile_close(&profile);
    texts_forget(&k->texts);
    say_progress_done();
    return err ? packer_no_memory(error, path) : 0;
}

int packer_join(struct packer *k, const char *recording, struct run_error *error)
{
    struct recording rec;
    int err = recording_peek(&rec, recording, error);
    if (err)
        return err;
    k->base_ns = rec.header.start_mono_ns ? rec.header.start_mono_ns : 1;
    k->about.started_ms = (int64_t)(rec.header.start_real_ns / 1000000);
    k->joined =
        (struct packer_joined){.pid = rec.header.pid,
                               .from_ms = k->about.started_ms,
                               .to_ms = rec.duration_ns >= 0 && !rec.duration_atleast
                                            ? k->about.started_ms + rec.duration_ns / 1000000
                                            : INT64_MAX};
    recording_unload(&rec);
    return 0;
}

/* ---- two recordings ---- */

/* Sums of both sides by node: three figures, for A and B. */
struct sums {
    struct map row_of; /* by node */
    struct node_sums {
        uint32_t node, site;
        double figures[3][2];
    } * rows;
    size_t count, cap;
};

static struct node_sums *row_of(struct sums *s, uint32_t node)
{
    uint32_t at = map_find(&s->row_of, node);
    if (at != MAP_NONE)
        return &s->rows[at];
    if (VEC_ROOM(s->rows, s->count, s->cap) != 0 ||
        map_put(&s->row_of, node, (uint32_t)s->count) != 0)
        return NULL;
    s->rows[s->count] = (struct node_sums){.node = node, .site = node};
    return &s->rows[s->count++];
}

static int add_side(struct packer *k, struct sums *sums, struct profile *p, int side)
{
    for (uint32_t i = 0; i < p->rec.stack_count; i++) {
        const struct recording_sum *sum = &p->rec.stacks[i].sum;
        if (sum->samples == 0 && sum->live_samples == 0 && sum->cpu_samples == 0)
            continue;
        uint32_t node = trie_stack(&k->trie, &k->texts, p, i);
        struct node_sums *row = node == PACK_NONE ? NULL : row_of(sums, node);
        if (!row)
            return -ENOMEM;
        if (sum->samples > 0 || sum->live_samples > 0)
            row->site = trie_outwards(&k->trie, node, p->stacks[i].site_frame);
        row->figures[0][side] += (double)sum->cpu_ns;
        row->figures[1][side] += sum->allocated_bytes;
        row->figures[2][side] += sum->live_bytes;
    }
    return 0;
}

static int put_sums(struct packer *k, const struct sums *sums)
{
    struct pack_table *t = pack_add(&k->pack, SCHEMA_diff);
    for (size_t i = 0; t && i < sums->count; i++) {
        column_put(&t->columns[0], sums->rows[i].node);
        for (int f = 0; f < 3; f++)
            for (int side = 0; side < 2; side++)
                column_put_f64(&t->columns[1 + 2 * f + side], sums->rows[i].figures[f][side]);
        column_put(&t->columns[7], sums->rows[i].site);
        SCHEMA_WRITES(diff, 8);
    }
    return t ? 0 : -ENOMEM;
}

/* app-old and app-new are two builds of one program: their functions are matched as if both files
 * had the name of the first. */
static void name_alike(struct trie *t, const struct profile profiles[2])
{
    const char *one = profile_program(&profiles[0]), *other = profile_program(&profiles[1]);
    bool differ = *one && *other && strcmp(one, other) != 0;
    t->program = differ ? other : NULL;
    t->program_as = differ ? one : NULL;
}

int packer_add_other_recording(struct packer *k, const char *path, const char *other,
                               struct run_error *error)
{
    const char *const paths[2] = {path, other};
    struct profile profiles[2] = {{.pc_count = 0}, {.pc_count = 0}};
    struct sums sums = {.rows = NULL};
    int err = 0, memory = 0;
    for (int i = 0; i < 2 && err == 0; i++) {
        err = profile_open_range(&profiles[i], paths[i], k->process, &k->range, error);
        err = err ? err : profile_make_sites(&profiles[i], NULL, error);
    }
    if (err == 0) {
        k->compared = true;
        add_about(&k->other, &profiles[1].rec);
        k->other.duration_ns = profiles[1].rec.duration_ns;
        heap_notices(&profiles[1]);
        if (k->kinds & PACKER_HEAP)
            memory =
                profile_share_wrappers(profiles) ?: k->digest.heap_diff(k->digest.to, profiles);
        memory = memory ? memory : add_side(k, &sums, &profiles[0], 0);
        name_alike(&k->trie, profiles);
        memory = memory ? memory : add_side(k, &sums, &profiles[1], 1);
        k->trie.program = k->trie.program_as = NULL;
        memory = memory ? memory : put_sums(k, &sums);
        err = memory ? packer_no_memory(error, other) : 0;
    }
    for (int i = 0; i < 2; i++)
        if (profiles[i].symbols)
            profile_close(&profiles[i]);
    texts_forget(&k->texts);
    map_release(&sums.row_of);
    free(sums.rows);
    return err;
}
