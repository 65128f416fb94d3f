/* Compares two recordings by every instrument that both have. The rules of each instrument are
 * in its own file. This file chooses the instruments, their order, and what fails a build. Pairs
 * of heap-only recordings keep the old output. */
#include "tool/report/recordings_diff.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tool/load/own.h"
#include "tool/profile/compare.h"
#include "tool/profile/notices.h"
#include "tool/util/json_writer.h"
#include "tool/util/say.h"
#include "tool/util/units.h"

/* ---- reading ---- */

/* The instruments of each recording. A file that does not name them is a heap recording. */
static int find_common(struct recordings_diff *d, const char *const paths[2], const char *process,
                       unsigned found[2], struct run_error *error)
{
    for (int s = 0; s < 2; s++) {
        int err = profile_peek_all(&d->profiles[s], paths[s], process, error);
        if (err)
            return err;
        bool is_hidden = own_is_hidden(&d->profiles[s].rec.header);
        heap_notice_hidden(&d->profiles[s]);
        found[s] =
            d->profiles[s].instruments || is_hidden ? d->profiles[s].instruments : PROFILE_HEAP;
    }
    return 0;
}

static void put_instruments(struct buf *b, unsigned found)
{
    static const char *const names[] = {"heap", "CPU", "events"};
    const char *before = "";
    for (int i = 0; i < 3; i++)
        if (found & 1u << i) {
            buf_printf(b, "%s%s", before, names[i]);
            before = ", ";
        }
}

static int nothing_common(const char *const paths[2], const unsigned found[2],
                          struct run_error *error)
{
    char safe[2][200];
    struct buf of[2] = {{0}, {0}};
    for (int s = 0; s < 2; s++) {
        put_instruments(&of[s], found[s]);
        say_safe(safe[s], sizeof(safe[s]), paths[s]);
    }
    snprintf(error->text, sizeof(error->text),
             "%s has %s, %s has %s: there is nothing in common to compare", safe[0],
             of[0].data ? of[0].data : "?", safe[1], of[1].data ? of[1].data : "?");
    snprintf(error->hint, sizeof(error->hint), "piano record, with the same flags for both");
    for (int s = 0; s < 2; s++)
        buf_free(&of[s]);
    return -ENOENT;
}

static int load(struct recordings_diff *d, int s, unsigned common, const struct heap_skip *skip,
                struct run_error *error)
{
    struct profile *p = &d->profiles[s];
    int err = profile_read(p, error);
    if (err == 0 && common & PROFILE_HEAP) {
        err = profile_make_sites(p, skip, error);
        if (err == 0)
            heap_notices(p);
    }
    if (err == 0 && common & PROFILE_CPU) {
        err = cpu_make(&d->cpus[s], p, error);
        if (err == 0)
            cpu_notices(&d->cpus[s]);
    }
    if (err == 0 && common & PROFILE_EVENTS) {
        err = polls_make(&d->polls[s], p, 1, error);
        if (err == 0)
            polls_notices(&d->polls[s]);
    }
    return err;
}

static int compare(struct recordings_diff *d, unsigned common, const char *const labels[2])
{
    const struct profile *h = d->profiles;
    d->has_cpu =
        common & PROFILE_CPU && d->cpus[0].rec->cpu_samples + d->cpus[1].rec->cpu_samples > 0;
    d->has_polls = common & PROFILE_EVENTS && d->polls[0].polls + d->polls[1].polls > 0;
    bool alone = !d->has_cpu && !d->has_polls;
    d->has_heap =
        common & PROFILE_HEAP && (alone || h[0].rec.total.samples + h[1].rec.total.samples > 0);
    int err = d->has_heap ? profile_share_wrappers(d->profiles) : 0;
    if (err == 0 && d->has_heap)
        err = heap_diff_make(&d->heap, h, labels);
    if (err == 0 && (d->has_cpu || (d->has_polls && d->has_heap)))
        err = cpu_diff_make(&d->functions, d->has_cpu ? d->cpus : NULL, d->has_heap ? h : NULL,
                            labels);
    if (err == 0 && d->has_polls)
        err = polls_diff_make(&d->tasks, d->polls, labels);
    return err;
}

static int set_range(struct recordings_diff *d, unsigned *common, const struct range_asked *range,
                     struct run_error *error)
{
    if (*common == PROFILE_HEAP) {
        snprintf(error->text, sizeof(error->text),
                 "memory is only known at snapshots: it cannot be compared for a range of time");
        snprintf(error->hint, sizeof(error->hint),
                 "piano report --heap --from TIME --to TIME, for each");
        return -ENOENT;
    }
    *common &= ~(unsigned)PROFILE_HEAP;
    for (int s = 0; s < 2; s++)
        d->profiles[s].rec.asked = *range;
    return 0;
}

int recordings_diff_make(struct recordings_diff *d, const char *const paths[2],
                         const char *const labels[2], const struct recordings_diff_wish *wish,
                         struct run_error *error)
{
    unsigned found[2] = {0, 0};
    *d = (struct recordings_diff){.has_cpu = false};
    int err = find_common(d, paths, wish->process, found, error);
    unsigned common = found[0] & found[1];
    if (err == 0 && common == 0)
        err = nothing_common(paths, found, error);
    if (err == 0 && (wish->range->from.given || wish->range->to.given))
        err = set_range(d, &common, wish->range, error);
    for (int s = 0; s < 2 && err == 0; s++)
        err = load(d, s, common, wish->skip, error);
    if (err == 0)
        err = compare(d, common, labels);
    if (err == 0 && !d->has_cpu && !d->has_heap && !d->has_polls) {
        snprintf(error->text, sizeof(error->text),
                 "neither recording has a sample or a poll: there is nothing to compare");
        err = -ENOENT;
    }
    if (err)
        recordings_diff_release(d);
    else
        heap_diff_notices(&d->profiles[0].rec, &d->profiles[1].rec);
    return err;
}

void recordings_diff_release(struct recordings_diff *d)
{
    heap_diff_release(&d->heap);
    cpu_diff_release(&d->functions);
    polls_diff_release(&d->tasks);
    for (int s = 0; s < 2; s++) {
        cpu_release(&d->cpus[s]);
        polls_release(&d->polls[s]);
        profile_close(&d->profiles[s]);
    }
    *d = (struct recordings_diff){.has_cpu = false};
}

/* ---- text ---- */

static void heading(FILE *out, const char *text, bool first, const struct report_options *o)
{
    fprintf(out, "%s%s%s%s\n", first ? "" : "\n", o->colour ? "\x1b[1m" : "", text,
            o->colour ? "\x1b[0m" : "");
}

/* The range of time of side S, in nanoseconds since its start. */
static void range_of(const struct recordings_diff *d, int s, uint64_t *from, uint64_t *to)
{
    const struct recording *rec = &d->profiles[s].rec;
    uint64_t end = rec->range.to_ns < rec->end_ns ? rec->range.to_ns : rec->end_ns;
    *from = rec->range.from_ns - rec->header.start_mono_ns;
    *to = end - rec->header.start_mono_ns;
}

static void print_ranges(FILE *out, const struct recordings_diff *d)
{
    uint64_t from[2], to[2];
    char text[4][UNITS_LEN];
    for (int s = 0; s < 2; s++) {
        range_of(d, s, &from[s], &to[s]);
        units_time(text[2 * s], (int64_t)from[s]);
        units_time(text[2 * s + 1], (int64_t)to[s]);
    }
    fprintf(out, "from %s to %s", text[0], text[1]);
    if (from[0] != from[1] || to[0] != to[1])
        fprintf(out, " | from %s to %s", text[2], text[3]);
    fputs("\n\n", out);
}

int recordings_diff_print(FILE *out, const struct recordings_diff *d,
                          const struct report_options *o)
{
    bool several = d->has_cpu + d->has_heap + d->has_polls > 1;
    int err = 0;
    if (d->profiles[0].rec.range.given)
        print_ranges(out, d);
    if (d->has_cpu) {
        if (several)
            heading(out, "CPU time by function", true, o);
        err = cpu_diff_print(out, &d->functions, o);
    }
    if (d->has_heap && err == 0) {
        if (several)
            heading(out, "Memory by site", !d->has_cpu, o);
        err = heap_diff_print(out, &d->heap, o);
    }
    if (d->has_polls && err == 0) {
        if (several)
            heading(out, "Polls by task", false, o);
        err = polls_diff_print(out, &d->tasks, o);
    }
    return err;
}

/* ---- JSON ---- */

void recordings_diff_put_paths(struct json_writer *w, const struct recording *a,
                               const struct recording *b)
{
    const struct recording *sides[2] = {a, b};
    json_line(w);
    json_add_array(w, "programs");
    for (int s = 0; s < 2; s++)
        json_add_text(w, NULL, sides[s]->header.program);
    json_close(w);
    json_line(w);
    json_add_array(w, "runs");
    for (int s = 0; s < 2; s++) {
        json_add_array(w, NULL);
        json_add_text(w, NULL, sides[s]->path);
        json_close(w);
    }
    json_close(w);
}

static void put_ranges(struct json_writer *w, const struct recordings_diff *d)
{
    json_line(w);
    if (!d->profiles[0].rec.range.given) {
        json_add_null(w, "ranges");
        return;
    }
    json_add_array(w, "ranges");
    for (int s = 0; s < 2; s++) {
        uint64_t from, to;
        range_of(d, s, &from, &to);
        json_add_array(w, NULL);
        json_add_count(w, NULL, from);
        json_add_count(w, NULL, to);
        json_close(w);
    }
    json_close(w);
}

int recordings_diff_json(FILE *out, const struct recordings_diff *d, double fail_above)
{
    struct json_writer w = {.out = out};
    if (!d->has_cpu && !d->has_polls)
        return heap_diff_json(out, &d->heap, fail_above);
    json_add_object(&w, NULL);
    json_add_text(&w, "kind", "recording");
    if (d->functions.rows) {
        cpu_diff_put(&w, &d->functions, fail_above);
    } else {
        json_add_array(&w, "functions");
        json_close(&w);
    }
    if (d->has_heap)
        heap_diff_put(&w, &d->heap, fail_above);
    if (d->has_polls)
        polls_diff_put(&w, &d->tasks, fail_above);
    recordings_diff_put_paths(&w, &d->profiles[0].rec, &d->profiles[1].rec);
    put_ranges(&w, d);
    return json_finish(&w);
}

/* ---- what fails a build ---- */

static void say_grown(const char *who, const char *what, double by, double percent)
{
    char grown[UNITS_LEN];
    units_percent_signed(grown, by / 100.0);
    say("%s: %s %s, above %g%%", who, what, isfinite(by) ? grown : "from nothing", percent);
}

static bool judge_functions(const struct cpu_diff *d, double percent)
{
    bool failed = false;
    for (size_t i = 0; i <= d->count; i++) {
        const struct cpu_change *c = i < d->count ? &d->rows[i] : &d->total;
        char safe[300];
        if (!cpu_diff_grew(d, c, percent))
            continue;
        say_grown(say_safe(safe, sizeof(safe), c->function),
                  i < d->count ? "self CPU time" : "CPU time", compare_percent(c->self_ns),
                  percent);
        failed = true;
    }
    return failed;
}

static bool judge_sites(const struct heap_diff *d, double percent)
{
    bool failed = false;
    for (size_t i = 0; i <= d->count; i++) {
        const struct heap_change *c = i < d->count ? &d->rows[i] : &d->total;
        char function[200], caller[200] = "", who[420];
        double v[2];
        for (int f = 0; f < HEAP_DIFFS; f++) {
            if (!heap_diff_grew(d, c, (enum heap_diff_figure)f, percent))
                continue;
            snprintf(who, sizeof(who), "%s%s%s", say_safe(function, sizeof(function), c->function),
                     c->caller ? " < " : "",
                     c->caller ? say_safe(caller, sizeof(caller), c->caller) : "");
            heap_diff_values(c, (enum heap_diff_figure)f, v);
            say_grown(who, heap_diff_names[f], compare_percent(v), percent);
            failed = true;
        }
    }
    return failed;
}

static bool judge_tasks(const struct polls_diff *d, double percent)
{
    bool failed = false;
    for (size_t i = 0; i < d->count; i++)
        for (int f = 0; f < POLLS_DIFFS; f++) {
            const struct polls_change *c = &d->rows[i];
            char safe[300], what[32];
            if (!polls_diff_grew(d, c, (enum polls_diff_figure)f, percent))
                continue;
            snprintf(what, sizeof(what), "%s of its polls", polls_diff_names[f]);
            say_grown(say_safe(safe, sizeof(safe), c->name), what, compare_percent(c->ns[f]),
                      percent);
            failed = true;
        }
    return failed;
}

bool recordings_diff_judge(const struct recordings_diff *d, double percent)
{
    bool failed = d->has_cpu && judge_functions(&d->functions, percent);
    failed |= d->has_heap && judge_sites(&d->heap, percent);
    failed |= d->has_polls && judge_tasks(&d->tasks, percent);
    return failed;
}
