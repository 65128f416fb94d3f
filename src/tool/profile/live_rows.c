/* The rows of a picture: figures of a reading, copied from where the reports take them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/profile/cpu.h"
#include "tool/profile/growth.h"
#include "tool/profile/live.h"
#include "tool/profile/polls.h"
#include "tool/util/buf.h"
#include "tool/util/order.h"
#include "tool/util/vec.h"

static const char *copy(struct live_picture *to, const char *text)
{
    return text ? strings_puts(&to->texts, text) : NULL;
}

static size_t limited(size_t count)
{
    return count < LIVE_ROWS ? count : LIVE_ROWS;
}

/* ---- functions ---- */

static uint64_t key_of(const struct cpu_row *row)
{
    const char *const names[] = {row->function, row->module}; /* equal texts are one pointer */
    return map_hash(names, sizeof(names));
}

int live_functions(struct live_picture *to, const struct cpu_flat *now, const struct cpu_flat *all)
{
    struct map of = {.slots = NULL};
    int err = 0;
    for (uint32_t i = 0; now && i < now->count && err == 0; i++)
        if (map_find(&of, key_of(&now->rows[i])) == MAP_NONE)
            err = map_put(&of, key_of(&now->rows[i]), i);
    to->functions = calloc(limited(all->count) + 1, sizeof(*to->functions));
    err = to->functions ? err : -ENOMEM;
    for (size_t i = 0; i < limited(all->count) && err == 0; i++) {
        const struct cpu_row *row = &all->rows[i];
        uint32_t at = now ? map_find(&of, key_of(row)) : MAP_NONE;
        const struct cpu_row none = {.self_ns = 0}, *new = at == MAP_NONE ? &none : &now->rows[at];
        to->functions[to->function_count++] =
            (struct live_function){.function = copy(to, row->function),
                                   .module = copy(to, row->module),
                                   .now = {new->self_ns, new->off_ns},
                                   .all = {row->self_ns, row->off_ns},
                                   .total_now_ns = new->total_ns,
                                   .total_ns = row->total_ns,
                                   .samples = row->self_samples};
    }
    map_release(&of);
    return err;
}

/* ---- sites ---- */

static uint64_t hash_text(const char *text)
{
    return text ? map_hash(text, strlen(text)) : 0;
}

static uint64_t key_of_site(const struct heap_site *s)
{
    const uint64_t parts[] = {hash_text(s->function), hash_text(s->caller), hash_text(s->file),
                              s->line, s->mmap};
    return map_hash(parts, sizeof(parts));
}

/* The figures of a site at the last reading; zeros if it is new. NULL: out of memory. */
static struct live_was *was(struct live_before *before, const struct heap_site *s)
{
    uint64_t key = key_of_site(s);
    uint32_t at = map_find(&before->of, key);
    if (at != MAP_NONE)
        return &before->list[at];
    at = (uint32_t)before->count;
    if (VEC_ROOM(before->list, before->count, before->cap) != 0 ||
        map_put(&before->of, key, at) != 0)
        return NULL;
    before->list[before->count] = (struct live_was){.live_bytes = 0};
    return &before->list[before->count++];
}

static int compare_sites(const void *a, const void *b)
{
    const struct live_site *x = a, *y = b;
    return ORDER(y->live_bytes, x->live_bytes) ?: ORDER(y->allocated_bytes, x->allocated_bytes)
        ?: strcmp(x->function, y->function);
}

/* The trend of each site, by its number; NULL: too few snapshots, or out of memory. */
static const char **trends_of(const struct profile *p)
{
    struct heap_growth g;
    struct run_error error;
    const char **trends = calloc(p->site_count + 1, sizeof(*trends));
    if (p->rec.snapshot_count == 0 || !trends ||
        heap_growth_make(&g, p, GROWTH_NOT_GIVEN, GROWTH_TO_END, &error) != 0)
        return trends;
    for (size_t i = 0; i < g.count; i++)
        trends[g.rows[i].site] = heap_trend(&g, &g.rows[i]);
    heap_growth_release(&g);
    return trends;
}

static int put_site(struct live_picture *to, const struct heap_site *s, const char *trend,
                    struct live_before *before)
{
    struct live_was *last = was(before, s);
    if (!last)
        return -ENOMEM;
    double span = to->span_s, grown = s->sum.live_bytes - last->live_bytes;
    double more = s->sum.allocated_bytes - last->allocated_bytes;
    to->sites[to->site_count++] = (struct live_site){.function = copy(to, s->function),
                                                     .caller = copy(to, s->caller),
                                                     .file = copy(to, s->file),
                                                     .line = s->line,
                                                     .mmap = s->mmap,
                                                     .live_bytes = s->sum.live_bytes,
                                                     .live_objects = s->sum.live_objects,
                                                     .allocated_bytes = s->sum.allocated_bytes,
                                                     .growth = span > 0 ? grown / span : 0,
                                                     .allocated = span > 0 ? more / span : 0,
                                                     .trend = trend};
    *last = (struct live_was){s->sum.live_bytes, s->sum.allocated_bytes};
    return 0;
}

int live_sites(struct live_picture *to, struct profile *p, struct live_before *before)
{
    const char **trends = trends_of(p);
    to->sites = calloc(p->site_count + 1, sizeof(*to->sites));
    int err = to->sites && trends ? 0 : -ENOMEM;
    for (size_t i = 0; i < p->site_count && err == 0; i++)
        err = put_site(to, &p->sites[i], trends[i], before);
    if (to->sites && to->site_count)
        qsort(to->sites, to->site_count, sizeof(*to->sites), compare_sites);
    to->site_count = limited(to->site_count);
    free(trends);
    return err;
}

/* ---- threads ---- */

static struct live_thread *thread_of(struct live_picture *to, const struct recording *rec,
                                     struct map *of, uint32_t pid, uint32_t tid)
{
    uint64_t key = (uint64_t)pid << 32 | tid;
    uint32_t at = map_find(of, key);
    if (at != MAP_NONE)
        return &to->threads[at];
    if (VEC_DOUBLE(to->threads, to->thread_count) != 0 ||
        map_put(of, key, (uint32_t)to->thread_count) != 0)
        return NULL;
    const struct recording_thread *t = recording_thread_of(rec, tid);
    to->threads[to->thread_count] =
        (struct live_thread){.name = copy(to, t ? t->name : ""), .pid = pid, .tid = tid};
    return &to->threads[to->thread_count++];
}

int live_threads(struct live_picture *to, const struct cpu *c, const struct recording_seen *seen)
{
    struct map of = {.slots = NULL};
    struct live_thread *t;
    int err = 0;
    for (size_t i = 0; seen && i < seen->threads.count && err == 0; i++) {
        const struct recording_seen_sum *s = &seen->threads.list[i];
        t = thread_of(to, c->rec, &of, (uint32_t)(s->key >> 32), (uint32_t)s->key);
        if (t)
            t->all = (struct live_times){s->sum.cpu_ns, s->sum.off_ns};
        err = t ? 0 : -ENOMEM;
    }
    for (size_t i = 0; i < c->thread_count && err == 0; i++) {
        const struct cpu_part *p = &c->threads[i];
        t = thread_of(to, c->rec, &of, p->pid, p->tid);
        if (t)
            *(seen ? &t->now : &t->all) = (struct live_times){p->cpu_ns, p->off_ns};
        err = t ? 0 : -ENOMEM;
    }
    for (size_t i = 0; i < c->rec->thread_count && err == 0; i++)
        err = thread_of(to, c->rec, &of, c->rec->threads[i].pid, c->rec->threads[i].tid) ? 0
                                                                                         : -ENOMEM;
    map_release(&of);
    return err;
}

/* ---- polls ---- */

/* The stacks of a poll on the CPU, then off it. */
static const char *stacks_of(struct live_picture *to, struct polls *p, const struct poll *poll)
{
    static const unsigned kinds[] = {PIANO_SAMPLE_CPU, PIANO_SAMPLE_OFF};
    static const char *const titles[] = {"on the CPU", "off the CPU"};
    struct buf b = {0};
    for (int k = 0; k < 2; k++) {
        size_t count = 0;
        struct stretch_stack *list = polls_stacks(p, poll, kinds[k], &count);
        if (list && count) {
            buf_printf(&b, "%s, the heaviest of %zu stack%s:\n", titles[k], count,
                       count == 1 ? "" : "s");
            live_put_stack(&b, p->profile, list[0].stack);
        }
        free(list);
    }
    const char *text = b.failed || !b.data ? NULL : copy(to, b.data);
    buf_free(&b);
    return text;
}

static void put_longest(struct live_picture *to, struct polls *p)
{
    char thread[200];
    for (size_t i = 0; i < p->longest_count && i < LIVE_LONGEST; i++) {
        const struct poll *poll = &p->longest[i];
        uint64_t at = poll->begin_ns > p->start_ns ? poll->begin_ns - p->start_ns : 0;
        polls_thread_name(thread, sizeof(thread), p, poll->track);
        to->longest[to->longest_count++] = (struct live_poll){
            .name = copy(to, p->groups[poll->group].name),
            .thread = copy(to, thread),
            .at_ns = at,
            .duration_ns = polls_duration(poll),
            .on_cpu = polls_on_cpu(p, &poll->time, (uint64_t)polls_duration(poll)),
            .open = poll->open,
            .stacks = stacks_of(to, p, poll)};
    }
}

static void put_group(struct live_picture *to, const struct polls *p, struct polls_group *g)
{
    to->groups[to->group_count++] =
        (struct live_group){.name = copy(to, g->name),
                            .polls = g->polls,
                            .long_polls = g->long_polls,
                            .max_ns = g->max_ns,
                            .total_ns = g->total_ns,
                            .p50_ns = samples_percentile(&g->durations, 0.50),
                            .p99_ns = samples_percentile(&g->durations, 0.99),
                            .on_cpu = polls_on_cpu(p, &g->time, g->total_ns)};
}

int live_polls(struct live_picture *to, struct polls *p)
{
    struct polls_flags flags = {.list = NULL};
    size_t count = 0;
    uint32_t *sorted = polls_sorted(p, &count);
    int err = sorted ? polls_flags_make(&flags, p) : -ENOMEM;
    to->groups = calloc(limited(count) + 1, sizeof(*to->groups));
    to->longest = calloc(LIVE_LONGEST + 1, sizeof(*to->longest));
    to->flags = calloc(flags.count + 1, sizeof(*to->flags));
    if (!to->groups || !to->longest || !to->flags)
        err = -ENOMEM;
    for (size_t i = 0; i < limited(count) && err == 0; i++)
        put_group(to, p, &p->groups[sorted[i]]);
    for (size_t i = 0; i < flags.count && err == 0; i++)
        to->flags[to->flag_count++] = copy(to, flags.list[i].text);
    if (err == 0)
        put_longest(to, p);
    to->has_polls = err == 0;
    to->polls = p->polls;
    polls_flags_release(&flags);
    free(sorted);
    return err;
}

int live_polls_again(struct live_picture *to, const struct live_picture *from)
{
    if (!from->has_polls)
        return 0;
    to->groups = calloc(from->group_count + 1, sizeof(*to->groups));
    to->longest = calloc(from->longest_count + 1, sizeof(*to->longest));
    to->flags = calloc(from->flag_count + 1, sizeof(*to->flags));
    if (!to->groups || !to->longest || !to->flags)
        return -ENOMEM;
    for (size_t i = 0; i < from->group_count; i++) {
        to->groups[i] = from->groups[i];
        to->groups[i].name = copy(to, from->groups[i].name);
    }
    for (size_t i = 0; i < from->longest_count; i++) {
        to->longest[i] = from->longest[i];
        to->longest[i].name = copy(to, from->longest[i].name);
        to->longest[i].thread = copy(to, from->longest[i].thread);
        to->longest[i].stacks = copy(to, from->longest[i].stacks);
    }
    for (size_t i = 0; i < from->flag_count; i++)
        to->flags[i] = copy(to, from->flags[i]);
    to->group_count = from->group_count;
    to->longest_count = from->longest_count;
    to->flag_count = from->flag_count;
    to->has_polls = true;
    to->polls = from->polls;
    to->polls_at_ns = from->polls_at_ns;
    return 0;
}
