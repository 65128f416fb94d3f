/* `piano report --polls`: problems, polls by task, the longest polls with their stacks, threads.
 * docs/json.md describes every key of the JSON. Times count from the start of the recording. */
#include "tool/report/polls.h"

#include <errno.h>
#include <stdlib.h>

#include "tool/load/coverage.h"
#include "tool/report/processes.h"
#include "tool/util/order.h"
#include "tool/util/say.h"
#include "tool/util/units.h"

enum { THREADS_SHOWN = 16 };

/* ---- columns ---- */

void polls_put_moment(struct json_writer *w, const char *key, const struct polls *p, uint64_t at_ns)
{
    json_add_known_count(w, key, at_ns >= p->start_ns, at_ns - p->start_ns);
}

static void put_percentiles(struct json_writer *w, struct samples *s, uint64_t max)
{
    json_add_known(w, "p50_ns", s->count > 0, samples_percentile(s, 0.50));
    json_add_known(w, "p99_ns", s->count > 0, samples_percentile(s, 0.99));
    json_add_known_count(w, "max_ns", s->count > 0, max);
}

void polls_thread_columns(struct sheet *s, const struct polls *p, uint32_t track, const char *key,
                          const char *title)
{
    const struct polls_track *t = &p->tracks[track];
    char name[200];
    polls_thread_name(name, sizeof(name), p, track);
    SHEET(s, TEXT, key, title, .text = name, .shown = name);
    SHEET(s, COUNT, "tid", title ? "Tid" : NULL, .count = t->tid, .optional = 3);
    const struct recording_process *process = recording_track_process(p->rec, track);
    if (process)
        SHEET(s, COUNT, "pid", NULL, .count = process->pid);
    SHEET(s, COUNT, "worker", NULL, .count = t->worker, .unknown = !t->is_worker);
}

void polls_time_columns(struct sheet *s, const struct polls *p, const struct polls_time *time,
                        uint64_t total_ns, const char *title)
{
    double on_cpu = polls_on_cpu(p, time, total_ns);
    SHEET(s, SHARE, "on_cpu", title, .real = on_cpu, .unknown = on_cpu < 0);
    SHEET(s, COUNT, "samples", NULL, .count = time->cpu_samples);
    SHEET(s, TIME, "cpu_ns", NULL, .count = time->cpu_ns);
    SHEET(s, TIME, "off_cpu_ns", NULL, .count = time->off_ns, .unknown = !p->exact);
    SHEET(s, TIME, "run_queue_ns", NULL, .count = time->preempted_ns, .unknown = !p->exact);
    SHEET(s, TIME, "waited_ns", NULL, .count = time->waited_ns);
}

/* The row is the number of a group. */
static void task_columns(struct sheet *s, const void *ctx, const void *of)
{
    static const char *const kinds[] = {"task", "place", "callback", "loop", "unnamed"};
    const struct polls *p = ctx;
    struct polls_group *g = &p->groups[*(const uint32_t *)of];
    SHEET(s, TEXT, "name", "Task", .text = g->name);
    SHEET(s, TEXT, "kind", NULL, .text = kinds[g->kind]);
    SHEET(s, COUNT, "polls", "Polls", .count = g->polls);
    SHEET(s, TIME, "p50_ns", "p50", .number = samples_percentile(&g->durations, 0.50));
    SHEET(s, TIME, "p99_ns", "p99", .number = samples_percentile(&g->durations, 0.99));
    SHEET(s, TIME, "max_ns", "Max", .count = g->max_ns);
    SHEET(s, TIME, "total_ns", "Total", .count = g->total_ns, .optional = 1);
    polls_time_columns(s, p, &g->time, g->total_ns, "On CPU");
    SHEET(s, COUNT, "open", NULL, .count = g->open);
    SHEET(s, COUNT, "nested", NULL, .count = g->nested);
    SHEET(s, COUNT, "long", NULL, .count = g->long_polls);
    SHEET(s, COUNT, "very_long", NULL, .count = g->very_long);
    SHEET(s, COUNT, "spawned", NULL, .count = g->spawned);
    SHEET(s, COUNT, "ended", NULL, .count = g->ended);
    SHEET(s, COUNT, "woken", NULL, .count = g->woken);
    SHEET(s, COUNT, "late", NULL, .count = g->late);
    SHEET(s, TIME, NULL, "Wake p99", .number = samples_percentile(&g->wakes, 0.99),
          .unknown = g->woken == 0, .optional = 2);
    if (!s->json)
        return;
    json_add_object(s->json, "wake");
    put_percentiles(s->json, &g->wakes, g->latest_ns);
    json_close(s->json);
}

static void put_parked_by(struct json_writer *w, const struct polls_track *t)
{
    json_add_object(w, "parked_by");
    for (size_t kind = 0; kind < PIANO_PARKS; kind++)
        if (t->parked_by[kind] > 0)
            json_add_count(w, polls_park_names[kind], t->parked_by[kind]);
    json_close(w);
}

/* The row is the number of a track. */
static void thread_columns(struct sheet *s, const void *ctx, const void *of)
{
    const struct polls *p = ctx;
    uint32_t track = *(const uint32_t *)of;
    const struct polls_track *t = &p->tracks[track];
    polls_thread_columns(s, p, track, "name", "Thread");
    SHEET(s, TEXT, "loop", NULL, .text = t->loop >= 0 ? polls_park_names[t->loop] : NULL);
    SHEET(s, COUNT, "events", NULL,
          .count = p->range.given ? t->events : p->rec->events.tracks[track].events);
    SHEET(s, COUNT, "polls", "Polls", .count = t->polls);
    SHEET(s, TIME, "busy_ns", "In polls", .count = t->busy_ns);
    SHEET(s, COUNT, "parks", "Parks", .count = t->parks);
    SHEET(s, TIME, "parked_ns", "Parked", .count = t->parked_ns);
    if (s->json)
        put_parked_by(s->json, t);
    SHEET(s, TIME, "longest_park_ns", NULL, .count = t->park_max_ns);
    SHEET(s, TIME, "park_cpu_ns", "CPU in parks", .count = t->park_cpu_ns, .unknown = !p->exact,
          .optional = 2);
    SHEET(s, TIME, "park_run_queue_ns", "Run queue", .count = t->park_time.preempted_ns,
          .unknown = !p->exact, .optional = 2);
    SHEET(s, TIME, "starved_ns", NULL, .count = t->starved_ns, .unknown = !t->is_worker);
}

/* ---- text ---- */

static void print_answer(FILE *out, const struct polls *p)
{
    const struct recording *rec = p->rec;
    char covered[80];
    uint64_t events = p->range.given ? p->events : rec->events.count;
    heap_print_program(out, rec);
    fprintf(out, " | %llu event%s on %zu thread%s | %llu poll%s", (unsigned long long)events,
            units_plural(events), rec->events.track_count, units_plural(rec->events.track_count),
            (unsigned long long)p->polls, units_plural(p->polls));
    if (rec->cpu_samples)
        fprintf(out, " | %llu CPU sample%s", (unsigned long long)rec->cpu_samples,
                units_plural(rec->cpu_samples));
    if (*coverage_text(covered, sizeof(covered), &rec->header.trace))
        fprintf(out, " | %s", covered);
    if (rec->off_samples)
        fprintf(out, " | %llu switch%s", (unsigned long long)rec->off_samples,
                rec->off_samples == 1 ? "" : "es");
    fputc('\n', out);
}

void polls_print_covers(FILE *out, const struct polls *p)
{
    char text[UNITS_LEN], all[UNITS_LEN];
    uint64_t ns;
    if (polls_covers(p, &ns))
        fprintf(out, "covers the last %s of %s: older events were overwritten\n",
                units_time(text, (int64_t)ns), units_time(all, (int64_t)(p->end_ns - p->start_ns)));
}

static void print_flags(FILE *out, const struct polls_flags *flags, const struct report_options *o)
{
    report_heading(out, o->colour, "Red flags");
    if (flags->count == 0)
        fputs("none\n", out);
    for (size_t i = 0; i < flags->count; i++)
        fprintf(out, "%s!%s %s\n", o->colour ? "\x1b[31m" : "", o->colour ? "\x1b[0m" : "",
                flags->list[i].text);
}

static int print_tasks(FILE *out, struct polls *p, const struct report_options *o)
{
    struct table t = {.cells = NULL};
    size_t count = 0;
    uint32_t *sorted = polls_sorted(p, &count);
    size_t top = o->all ? count : o->top ? o->top : REPORT_TOP, shown = count < top ? count : top;
    if (!sorted)
        return -ENOMEM;
    report_heading(out, o->colour, "Polls by task");
    if (count == 0)
        fputs("none: no thread reported polls or returned repeatedly to the same wait\n", out);
    for (size_t i = 0; i < shown; i++)
        sheet_table(&t, task_columns, p, &sorted[i]);
    int err = count ? table_print(&t, out, o->width, o->colour) : 0;
    if (err == 0 && shown < count)
        report_dim(out, o->colour, "%zu more%s", count - shown, o->top ? "" : ": --all");
    table_release(&t);
    free(sorted);
    return err;
}

struct ranked {
    uint64_t busy_ns;
    uint32_t track;
};

static int compare(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    return ORDER(y->busy_ns, x->busy_ns) ?: ORDER(x->track, y->track);
}

/* Prints what the threads were parked for, if there is more than one kind. */
static void print_parked_by(FILE *out, const struct polls *p, const struct report_options *o)
{
    char text[256] = "", time[UNITS_LEN];
    size_t used = 0, kinds = 0;
    for (size_t kind = 0; kind < PIANO_PARKS; kind++) {
        uint64_t ns = 0;
        for (uint32_t i = 0; i < p->rec->events.track_count; i++)
            ns += p->tracks[i].parked_by[kind];
        if (ns > 0 && used < sizeof(text))
            used +=
                (size_t)snprintf(text + used, sizeof(text) - used, "%s%s %s", kinds++ ? ", " : "",
                                 polls_park_names[kind], units_time(time, (int64_t)ns));
    }
    if (kinds > 1)
        report_dim(out, o->colour, "parked, all threads: %s", text);
}

static int print_threads(FILE *out, const struct polls *p, const struct report_options *o)
{
    size_t count = p->rec->events.track_count;
    struct ranked *list = calloc(count + 1, sizeof(*list));
    size_t shown = o->all || count < THREADS_SHOWN ? count : THREADS_SHOWN;
    struct table t = {.cells = NULL};
    if (!list)
        return -ENOMEM;
    for (uint32_t i = 0; i < count; i++)
        list[i] = (struct ranked){p->tracks[i].busy_ns, i};
    if (count)
        qsort(list, count, sizeof(*list), compare);
    report_heading(out, o->colour, "Threads");
    for (size_t i = 0; i < shown; i++)
        sheet_table(&t, thread_columns, p, &list[i].track);
    int err = count ? table_print(&t, out, o->width, o->colour) : 0;
    if (err == 0 && shown < count)
        report_dim(out, o->colour, "%zu more threads: --all", count - shown);
    if (err == 0)
        print_parked_by(out, p, o);
    table_release(&t);
    free(list);
    return err;
}

int polls_report(FILE *out, struct polls *p, const struct report_options *o)
{
    struct polls_flags flags;
    int err = polls_flags_make(&flags, p);
    if (err == 0) {
        print_answer(out, p);
        polls_print_covers(out, p);
        print_flags(out, &flags, o);
        err = print_tasks(out, p, o);
    }
    if (err == 0)
        err = polls_print_longest(out, p, o);
    if (err == 0)
        err = print_threads(out, p, o);
    polls_flags_release(&flags);
    say_progress_done();
    return err;
}

/* ---- JSON ---- */

static void put_flags(struct json_writer *w, const struct polls_flags *flags)
{
    json_add_array(w, "flags");
    for (size_t i = 0; i < flags->count; i++) {
        const struct polls_flag *f = &flags->list[i];
        json_add_row(w);
        json_add_text(w, "kind", polls_flag_names[f->kind]);
        json_add_text(w, "text", f->text);
        json_add_text(w, "subject", f->subject);
        json_add_count(w, "count", f->count);
        json_add_known_count(w, "worst_ns", f->worst_ns > 0, f->worst_ns);
        json_close(w);
    }
    json_close(w);
}

static void put_tasks(struct json_writer *w, struct polls *p, size_t top)
{
    size_t count = 0;
    uint32_t *sorted = polls_sorted(p, &count);
    json_keep_error(w, sorted ? 0 : -ENOMEM);
    count = top && count > top ? top : count;
    json_line(w);
    json_add_array(w, "tasks");
    for (size_t i = 0; i < count && w->err == 0; i++)
        sheet_put_row(w, task_columns, p, &sorted[i]);
    json_close(w);
    free(sorted);
}

static void put_threads(struct json_writer *w, const struct polls *p)
{
    json_line(w);
    json_add_array(w, "threads");
    for (uint32_t i = 0; i < p->rec->events.track_count; i++)
        sheet_put_row(w, thread_columns, p, &i);
    json_close(w);
    json_line(w);
    json_add_array(w, "workers");
    for (size_t i = 0; i < p->worker_count; i++) {
        const struct polls_worker *k = &p->workers[i];
        json_add_row(w);
        json_add_count(w, "worker", k->worker);
        json_add_text(w, "name", recording_name_of(p->rec, k->name));
        json_add_count(w, "tid", p->tracks[k->track].tid);
        polls_put_moment(w, "start_ns", p, k->from_ns);
        json_add_known_count(w, "end_ns", k->to_ns > 0, k->to_ns - p->start_ns);
        json_close(w);
    }
    json_close(w);
}

static void put_quarters(struct json_writer *w, const struct polls_series *s)
{
    json_add_array(w, "quarters");
    for (int q = 0; q < POLLS_QUARTERS; q++)
        if (s->covered[q] > 0)
            json_add_real(w, NULL, 3, polls_series_mean(s, q));
        else
            json_add_null(w, NULL);
    json_close(w);
}

struct series_kind {
    const char *key;    /* of the list */
    const char *number; /* key of the number of a series; NULL: it has a name */
    bool values, quarters;
};

#define SERIES_KIND(kind, key, number, values, quarters) [kind] = {key, number, values, quarters},
static const struct series_kind series_kinds[] = {POLLS_SERIES_LIST(SERIES_KIND)};

static void put_series(struct json_writer *w, const struct polls *p, enum polls_series_kind kind)
{
    const struct series_kind *k = &series_kinds[kind];
    json_line(w);
    json_add_array(w, k->key);
    for (size_t i = 0; i < p->series[kind].count; i++) {
        const struct polls_series *s = &p->series[kind].list[i];
        json_add_row(w);
        if (k->number)
            json_add_count(w, k->number, recording_own_id(p->rec, s->key));
        else
            json_add_text(w, "name", recording_name_of(p->rec, s->key));
        json_add_count(w, "count", s->count);
        if (k->values) {
            json_add_number(w, "first", s->first);
            json_add_number(w, "last", s->value);
            json_add_number(w, "min", s->min);
            json_add_number(w, "max", s->max);
        }
        if (k->quarters)
            put_quarters(w, s);
        json_close(w);
    }
    json_close(w);
}

static void put_latencies(struct json_writer *w, struct polls *p)
{
    json_line(w);
    json_add_count(w, "polls", p->polls);
    json_add_object(w, "wakes");
    json_add_count(w, "count", p->wake_count);
    json_add_count(w, "late", p->late);
    put_percentiles(w, &p->wakes, p->latest_ns);
    json_close(w);
    json_add_object(w, "spawn_to_poll");
    json_add_count(w, "count", p->spawns.count);
    put_percentiles(w, &p->spawns, (uint64_t)samples_percentile(&p->spawns, 1.0));
    json_close(w);
}

/* The time in which all events are there; null if it is not known when it begins. */
static void put_covers(struct json_writer *w, const struct polls *p)
{
    uint64_t from = p->rec->events.complete_ns;
    json_add_object(w, "covers");
    json_add_known_count(w, "from_ns", from != UINT64_MAX,
                         from > p->start_ns ? from - p->start_ns : 0);
    polls_put_moment(w, "to_ns", p, p->end_ns);
    json_add_flag(w, "all", p->rec->header.trace.recycled == 0);
    json_close(w);
}

static void put_summary(struct json_writer *w, const struct polls *p)
{
    const struct piano__trace *t = &p->rec->header.trace;
    json_add_object(w, "events");
    json_add_count(w, "count", p->range.given ? p->events : p->rec->events.count);
    json_add_count(w, "unknown", p->rec->events.unknown);
    json_add_count(w, "unreadable_fields", p->rec->events.bad);
    json_add_count(w, "stray_ends", p->stray_ends);
    json_add_count(w, "cut", p->cut);
    json_add_count(w, "too_deep", p->too_deep);
    json_add_count(w, "untracked", p->untracked);
    json_add_text(w, "clock", p->rec->events.clock.counter ? "counter" : "monotonic");
    json_add_flag(w, "rough_clock", p->rec->events.clock.rough);
    json_close(w);
    json_add_object(w, "cpu");
    report_put_source(w, p->rec);
    json_add_count(w, "samples", p->rec->cpu_samples);
    json_add_count(w, "switches", p->rec->off_samples);
    json_add_count(w, "lost", t->samples_lost);
    json_add_count(w, "given_up", p->rec->header.samples_given_up);
    json_close(w);
    json_add_object(w, "dropped");
    json_add_count(w, "memory", t->dropped_memory);
    json_add_count(w, "busy", t->dropped_busy);
    json_add_count(w, "names", t->dropped_names);
    json_add_count(w, "recycled_chunks", t->recycled);
    json_add_count(w, "overwritten", t->overwritten);
    json_add_count(w, "definitions_in_ring", t->definitions_in_ring);
    json_close(w);
    put_covers(w, p);
}

int polls_report_json(FILE *out, struct polls *p, const struct report_options *o)
{
    struct polls_flags flags;
    struct json_writer w = {.out = out};
    json_keep_error(&w, polls_flags_make(&flags, p));
    json_add_object(&w, NULL);
    put_flags(&w, &flags);
    put_tasks(&w, p, o->top);
    polls_put_longest(&w, p);
    put_threads(&w, p);
    for (int kind = 0; kind < POLLS_SERIES_KINDS; kind++)
        put_series(&w, p, (enum polls_series_kind)kind);
    put_latencies(&w, p);
    put_summary(&w, p);
    report_put_missing(&w, p->rec);
    if (p->rec->family)
        processes_put(&w, p->profile, p);
    report_put_recording(&w, p->rec);
    polls_flags_release(&flags);
    say_progress_done();
    return json_finish(&w);
}
