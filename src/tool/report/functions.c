/* `piano report`: the functions of a run by self time. If functions wait, they are ranked by
 * self time on the CPU (waits.c).
 *
 * A column appears only if the run has data for it: p50 and p99 need frames, Allocs and Bytes
 * need at least one allocation, Total needs a writer that recorded it. Unknown values are `-`,
 * never a guess. */
#include "tool/report/report.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tool/load/estimates.h"
#include "tool/util/say.h"
#include "tool/util/sheet.h"
#include "tool/util/units.h"

enum {
    GROUP_LINES = 5,
    NAME_WIDTH = 8,
    UNLIMITED = 500,
    COVERED_PERCENT = 90,
    HIDDEN_WAITS = 3,
    PROBES_PERCENT = 5
};

void report_heading(FILE *out, bool colour, const char *text)
{
    fprintf(out, "\n%s%s%s\n", colour ? "\x1b[1m" : "", text, colour ? "\x1b[0m" : "");
}

void report_dim(FILE *out, bool colour, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fputs(colour ? "\x1b[2m" : "", out);
    vfprintf(out, fmt, ap);
    fputs(colour ? "\x1b[0m\n" : "\n", out);
    va_end(ap);
}

const char *report_time(char *text, int64_t ns)
{
    return units_time(text, ns > 0 ? ns : 0);
}

struct shape { /* which columns a table has */
    const struct run *run;
    bool total, percentiles, allocs, places, sampled, intervals, worst, worst_frame;
    bool cpu, wait, by_cpu, marks;
    int64_t self_sum, cpu_sum, timed, calls_sampled;
};

static struct shape shape_of(const struct run *run, const struct report_row *rows, size_t count,
                             bool percentiles, const struct report_options *o)
{
    struct shape s = {.run = run, .places = o->places, .cpu = o->rank == REPORT_BY_CPU};
    for (size_t i = 0; i < count; i++) {
        const struct tally *sum = &rows[i].sum;
        s.total |= sum->seen && sum->has_total && !run->uncorrected; /* there is no raw total */
        s.allocs |= sum->alloc_count > 0 || run->dropped[RUN_DROP_ALLOCATORS] > 0;
        s.percentiles |= percentiles && run->fns[rows[i].fn].frames.count > 0;
        const struct run_fn *f = &run->fns[rows[i].fn];
        s.worst |= percentiles && !run->uncorrected && f->worst_ns >= 0 && sum->calls > 1;
        s.worst_frame |= f->worst_frame >= 0;
        s.self_sum = saturating_add(s.self_sum, sum->self_ns > 0 ? sum->self_ns : 0);
        s.cpu_sum = saturating_add(s.cpu_sum, tally_self_cpu(sum));
        s.intervals |= estimates_matter(sum);
        if (run_is_sampled(run, rows[i].fn, sum)) {
            s.sampled = true;
            s.timed = saturating_add(s.timed, sum->timed);
            s.calls_sampled = saturating_add(s.calls_sampled, sum->calls);
        }
    }
    for (size_t i = 0; i < count; i++) {
        bool wait = tally_has_wait(&rows[i].sum, s.self_sum);
        s.wait |= wait;
        s.marks |= wait && tally_waits(&rows[i].sum);
    }
    return s;
}

/* A time that is negative after the correction cannot be separated from the cost of the probes in
 * the callees of the function. JSON has it as it is. */
static const char *residue_mark(int64_t ns)
{
    return ns < 0 ? "-" : NULL;
}

/* The share of SUM in the figure that ranks the table. */
static double share_of(const struct tally *sum, const struct shape *s)
{
    int64_t mine = s->by_cpu ? tally_self_cpu(sum) : sum->self_ns;
    int64_t all = s->by_cpu ? s->cpu_sum : s->self_sum;
    return all > 0 && mine > 0 ? (double)mine / (double)all : 0.0;
}

/* The 95 % interval of NS, HALF to either side; its lower end is at least zero. */
static void put_interval(struct json_writer *w, const char *key, int64_t ns, int64_t half)
{
    int64_t from = saturating_add(ns, -half);
    json_add_range(w, key, from < 0 && ns >= 0 ? 0 : from, saturating_add(ns, half));
}

static void put_intervals(struct json_writer *w, const struct tally *sum)
{
    put_interval(w, "self_ci95", sum->self_ns, estimates_self_half(sum));
    if (sum->has_total)
        put_interval(w, "total_ci95", sum->total_ns, estimates_total_half(sum));
    else
        json_add_null(w, "total_ci95");
    if (sum->has_cpu)
        put_interval(w, "cpu_self_ci95", tally_self_cpu(sum), estimates_cpu_half(sum));
    else
        json_add_null(w, "cpu_self_ci95");
}

/* Columns of the functions of a run, a thread or a frame. */
static void columns(struct sheet *s, const void *ctx, const void *of)
{
    const struct shape *v = ctx;
    const struct report_row *row = of;
    const struct tally *sum = &row->sum;
    const struct run_fn *f = &v->run->fns[row->fn];
    bool estimated = run_is_estimated(v->run, row->fn, sum), places = v->places;
    bool no_allocs = v->run->dropped[RUN_DROP_ALLOCATORS] > 0;
    /* A freed block has a size: 0 bytes mean that the allocator has no function that knows it. */
    bool no_sizes = sum->free_count > 0 && sum->free_bytes == 0;
    int64_t cpu = tally_self_cpu(sum), self = sum->self_ns;
    char *name = s->table ? run_fn_name(v->run, row->fn) : NULL;
    SHEET(s, TEXT, "name", "Function", .text = f->name, .shown = name);
    free(name);
    SHEET(s, TEXT, "file", NULL, .text = f->file);
    SHEET(s, COUNT, "line", NULL, .number = f->line, .unknown = f->line <= 0);
    SHEET(s, COUNT, "calls", "Calls", .number = sum->calls);
    SHEET(s, TIME, "self_ns", "Self", .number = self, .mark = estimated ? "~" : NULL,
          .shown = residue_mark(self));
    if (v->intervals)
        SHEET(s, TIME, NULL, "\u00b1", .number = estimates_self_half(sum), .optional = 1,
              .shown = self >= 0 && estimates_matter(sum) ? NULL : "");
    SHEET(s, SHARE, NULL, "%", .real = share_of(sum, v), .optional = 2,
          .shown = residue_mark(self));
    SHEET(s, TIME, "total_ns", v->total ? "Total" : NULL, .number = sum->total_ns,
          .unknown = !sum->has_total, .shown = residue_mark(sum->total_ns), .optional = 3,
          .place = 1);
    if (s->json)
        put_intervals(s->json, sum);
    SHEET(s, COUNT, "alloc_count", v->allocs ? "Allocs" : NULL, .number = sum->alloc_count,
          .unknown = no_allocs, .optional = -2, .place = 3);
    SHEET(s, BYTES, "alloc_bytes", v->allocs ? "Bytes" : NULL, .number = sum->alloc_bytes,
          .unknown = no_allocs, .optional = -3, .place = 3);
    SHEET(s, COUNT, "free_count", NULL, .number = sum->free_count, .unknown = no_allocs);
    SHEET(s, BYTES, "free_bytes", NULL, .number = sum->free_bytes,
          .unknown = no_allocs || no_sizes);
    SHEET(s, COUNT, "timed_calls", NULL, .number = sum->timed);
    SHEET(s, FLAG, "sampled", NULL, .count = run_is_sampled(v->run, row->fn, sum));
    SHEET(s, FLAG, "estimated", NULL, .count = estimated);
    SHEET(s, FLAG, "disputed", NULL, .count = sum->disputed);
    SHEET(s, TIME, "cpu_self_ns", v->cpu ? "CPU" : NULL, .number = cpu, .unknown = !sum->has_cpu,
          .shown = residue_mark(cpu));
    SHEET(s, TIME, "runq_self_ns", NULL, .number = sum->runq_ns, .unknown = !sum->has_cpu);
    SHEET(s, TIME, NULL, v->wait ? "Wait" : NULL, .number = self - cpu, .unknown = !sum->has_cpu,
          .shown = residue_mark(self - cpu));
    SHEET(s, TEXT, NULL, places ? "Place" : NULL, .text = f->place, .place = 3);
    SHEET(s, TEXT, NULL, v->marks ? "" : NULL, .place = 3,
          .shown = tally_has_wait(sum, v->self_sum) && tally_waits(sum) ? "<- waits" : "");
}

/* These and the figures of the function in the whole run. */
static void run_columns(struct sheet *s, const void *ctx, const void *of)
{
    const struct shape *v = ctx;
    const struct run_fn *f = &v->run->fns[((const struct report_row *)of)->fn];
    bool frame = v->worst && v->worst_frame, unknown = f->frames.count == 0;
    char number[UNITS_LEN];
    columns(s, ctx, of);
    SHEET(s, TIME, "p50_ns", v->percentiles ? "p50" : NULL, .number = f->p50_ns, .unknown = unknown,
          .shown = residue_mark(f->p50_ns), .optional = -4, .place = 2);
    SHEET(s, TIME, "p99_ns", v->percentiles ? "p99" : NULL, .number = f->p99_ns, .unknown = unknown,
          .shown = residue_mark(f->p99_ns), .optional = -1, .place = 2);
    SHEET(s, COUNT, "frames", NULL, .count = f->frames.count);
    SHEET(s, TIME, "worst_ns", v->worst ? "Worst" : NULL, .number = f->worst_ns,
          .unknown = f->worst_ns < 0, .optional = 4, .place = 2);
    SHEET(s, COUNT, "worst_frame", frame ? "Frame" : NULL, .number = f->worst_frame,
          .unknown = f->worst_frame < 0, .optional = 5, .place = 2,
          .shown = f->worst_frame < 0 ? NULL : units_count(number, f->worst_frame + 1));
}

void report_put_function(struct json_writer *w, const struct run *run, uint32_t fn,
                         const struct tally *sum)
{
    const struct shape s = {.run = run};
    const struct report_row row = {fn, *sum};
    sheet_put(w, columns, &s, &row);
}

/* Whether a printed time of ROW is negative. */
static bool has_residue(const struct report_row *row, const struct shape *s)
{
    const struct run_fn *f = &s->run->fns[row->fn];
    bool of_frames = s->percentiles && f->frames.count > 0 && (f->p50_ns < 0 || f->p99_ns < 0);
    return row->sum.self_ns < 0 || (s->total && row->sum.has_total && row->sum.total_ns < 0) ||
           of_frames;
}

static bool is_shown(const struct table *t, const char *title)
{
    for (size_t i = 0; i < t->column_count; i++)
        if (!t->columns[i].gone && strcmp(t->columns[i].title, title) == 0)
            return true;
    return false;
}

/* Says what measuring cost, if it was much, and why it is not less. */
static void footnote_probes(FILE *out, const struct run *run, bool colour)
{
    double self = 0, probes = (double)run_probes(run);
    for (size_t i = 0; i < run->fn_count; i++)
        self += run->fns[i].sum.self_ns > 0 ? (double)run->fns[i].sum.self_ns : 0;
    double percent = probes > 0 ? 100 * probes / (probes + self) : 0;
    if (percent >= PROBES_PERCENT)
        report_dim(out, colour,
                   "measuring took %.0f %% of the time, which is subtracted: functions whose cost "
                   "varies are timed more often",
                   percent);
}

/* Explains the marks and titles used in the printed table. */
static void footnotes(FILE *out, const struct run *run, const struct table *t,
                      const struct shape *s, bool residue, bool colour)
{
    if (is_shown(t, "p99"))
        report_dim(out, colour, "p50, p99: self time per frame%s",
                   run->merged_selves ? ", to within 6 %" : "");
    if (is_shown(t, "Worst"))
        report_dim(out, colour, "Worst: its longest single call, with callees%s",
                   is_shown(t, "Frame") ? "; Frame: the frame it was in" : "");
    if (s->wait)
        report_dim(out, colour, "Wait: part of Self off the CPU; %s",
                   s->by_cpu ? "rows are ranked by the rest (--wall: by Self)"
                             : "rows are ranked with it (--cpu-time: without)");
    if (s->sampled)
        report_dim(out, colour, "~ estimate: %lld of %lld calls were timed", (long long)s->timed,
                   (long long)s->calls_sampled);
    if (is_shown(t, "\u00b1"))
        report_dim(out, colour, "\u00b1 the 95 %% interval of the self time");
    if (residue)
        report_dim(out, colour,
                   "- below timing resolution beside the calls it makes (docs/timing.md)");
}

/* In a table ranked by CPU time, the function that waits most may be below the rows shown. */
static void hidden_waits(FILE *out, const struct run *run, const struct report_row *rows,
                         size_t count, int64_t self_sum)
{
    char text[UNITS_LEN];
    for (size_t i = 0, said = 0; i < count && said < HIDDEN_WAITS; i++) {
        const struct tally *sum = &rows[i].sum;
        if (!tally_waits(sum) || sum->wait_ns < self_sum / 10)
            continue;
        char *name = run_fn_name(run, rows[i].fn);
        fprintf(out, "%s waited for %s\n", name ? name : "?", units_time(text, sum->wait_ns));
        free(name);
        said++;
    }
}

int report_rows(FILE *out, const struct run *run, struct report_row *rows, size_t count,
                bool percentiles, const struct report_options *o)
{
    struct shape s = shape_of(run, rows, count, percentiles, o);
    struct table t = {.cells = NULL};
    size_t top = o->all ? count : o->top ? o->top : REPORT_TOP;
    size_t shown = count < top ? count : top;
    bool residue = false;
    s.by_cpu = report_sort(rows, count, o->rank);
    for (size_t i = 0; i < shown; i++) {
        sheet_table(&t, run_columns, &s, &rows[i]);
        residue |= has_residue(&rows[i], &s);
    }
    int err = table_print(&t, out, o->width, o->colour);
    if (err == 0 && shown < count && !o->top)
        report_dim(out, o->colour, "%zu more function%s: --all", count - shown,
                   count - shown == 1 ? "" : "s");
    if (err == 0)
        footnotes(out, run, &t, &s, residue, o->colour);
    if (err == 0 && s.by_cpu)
        hidden_waits(out, run, rows + shown, count - shown, s.self_sum);
    table_release(&t);
    return err;
}

/* The functions to show: called ones, or all with --all. */
static int collect(const struct run *run, bool all, struct report_row **out, size_t *count)
{
    struct report_row *rows = calloc(run->fn_count + 1, sizeof(*rows));
    if (!rows)
        return -ENOMEM;
    *count = 0;
    for (uint32_t i = 0; i < run->fn_count; i++) {
        const struct run_fn *f = &run->fns[i];
        bool busy = f->sum.calls > 0 || f->sum.self_ns > 0 || f->sum.alloc_count > 0;
        if (!f->alias && (busy || all))
            rows[(*count)++] = (struct report_row){i, f->sum};
    }
    *out = rows;
    return 0;
}

/* " of update" or " (turns from poll_events)"; prints nothing if there is no ROOM for part of
 * the name. */
static void footer_kind(FILE *out, const char *name, const struct run_group *g, size_t room)
{
    char cut[512];
    if (!name || room < NAME_WIDTH)
        return;
    table_shorten(cut, sizeof(cut), name, room);
    fprintf(out, g->turn ? " (turns from %s)" : " of %s", cut);
}

/* If the line is too long for the terminal, omits the definition of a spike first, then shortens
 * the name. */
static void footer_line(FILE *out, const struct run *run, const struct run_group *g,
                        const struct report_options *o)
{
    char what[UNITS_LEN + 16] = " (>2x median)", budget[UNITS_LEN];
    if (run->budget_ns > 0)
        snprintf(what, sizeof(what), " (>%s budget)", units_time(budget, run->budget_ns));
    char avg[UNITS_LEN], p99[UNITS_LEN], figures[4 * UNITS_LEN], why[64] = "";
    char *name = g->root != RUN_NO_ROOT ? run_fn_name(run, g->root) : NULL;
    units_time(avg, g->count ? g->wall_sum / g->count : 0);
    units_time(p99, g->p99_ns);
    const char *hot = o->colour && g->spikes ? "\x1b[33m" : "", *off = *hot ? "\x1b[0m" : "";
    int head = fprintf(out, "%lld frame%s", (long long)g->count, g->count == 1 ? "" : "s");
    int tail = snprintf(figures, sizeof(figures), " | %s avg | %s p99 | %s%lld spike%s%s", avg, p99,
                        hot, (long long)g->spikes, g->spikes == 1 ? "" : "s", off);
    if (g->spikes_runq > 0)
        snprintf(why, sizeof(why), ", %lld of them waited for a CPU", (long long)g->spikes_runq);
    size_t fixed = (size_t)head + (size_t)tail - strlen(hot) - strlen(off) + strlen(why) +
                   strlen(g->turn ? " (turns from )" : " of ");
    bool explain = !o->width || fixed + (name ? table_width(name) : 0) + strlen(what) <= o->width;
    size_t room = !o->width || explain ? UNLIMITED : o->width > fixed ? o->width - fixed : 0;
    footer_kind(out, name, g, room);
    fprintf(out, "%s%s%s\n", figures, explain ? what : "", why);
    free(name);
}

/* Whether the run spent much of its time in functions that were not chosen. */
static bool is_partial(const struct run *run)
{
    return run->ended && run->wall_ns > 0 && run->main_ns > 0 &&
           (double)run->main_ns < (double)run->wall_ns * COVERED_PERCENT / 100;
}

static void coverage_line(FILE *out, const struct run *run)
{
    char ran[UNITS_LEN], wall[UNITS_LEN];
    fprintf(out, "the chosen functions ran for %s of %s (%.0f %%)%s\n",
            units_time(ran, run->main_ns), units_time(wall, run->wall_ns),
            (double)run->main_ns / (double)run->wall_ns * 100,
            run->thread_count > 1 ? " on the main thread" : "");
}

void report_footer(FILE *out, const struct run *run, const struct report_options *o)
{
    size_t lines = o->all || run->group_count <= GROUP_LINES ? run->group_count : GROUP_LINES;
    bool partial = is_partial(run);
    if (run->group_count == 0 && !partial)
        return;
    fputc('\n', out);
    if (partial)
        coverage_line(out, run);
    for (size_t i = 0; i < lines; i++)
        footer_line(out, run, &run->groups[i], o);
    if (lines < run->group_count)
        report_dim(out, o->colour, "%zu more kinds of frame: --all", run->group_count - lines);
}

int report_functions(FILE *out, const struct run *run, const struct report_options *o)
{
    struct report_row *rows = NULL;
    size_t count = 0;
    int err = collect(run, o->all, &rows, &count);
    if (err == 0 && count == 0)
        fputs("No instrumented function was called.\n", out);
    else if (err == 0)
        err = report_rows(out, run, rows, count, true, o);
    if (err == 0)
        footnote_probes(out, run, o->colour);
    if (err == 0)
        report_footer(out, run, o);
    free(rows);
    return err;
}

/* ---- JSON ---- */

static const char *fn_name(const struct run *run, uint32_t fn, bool known)
{
    return known ? run->fns[fn].name : NULL;
}

/* Which frames G has, if it is one of several kinds. */
static void put_kind(struct json_writer *w, const struct run *run, const struct run_group *g)
{
    json_add_text(w, "root", fn_name(run, g->root, g->root != RUN_NO_ROOT));
    json_add_text(w, "kind", g->turn ? "turn" : "call");
    json_add_text(w, "caller", fn_name(run, g->caller, g->turn && g->caller != RUN_NO_FN));
    json_add_known(w, "between_ns", g->turn, g->between_sum);
}

static void put_group(struct json_writer *w, const struct run_group *g)
{
    /* The sums of CPU time cover the frames in which it is known. */
    bool any = g->count > 0, cpu = g->cpu_frames > 0, runq = cpu && !g->no_runq;
    int64_t blocked = saturating_add(g->cpu_wall_ns, -saturating_add(g->cpu_ns, g->runq_ns));
    json_add_number(w, "count", g->count);
    json_add_known(w, "avg_ns", any, any ? g->wall_sum / g->count : 0);
    json_add_known(w, "p50_ns", any, g->p50_ns);
    json_add_known(w, "p99_ns", any, g->p99_ns);
    json_add_known(w, "max_ns", any, g->wall_max);
    json_add_number(w, "spikes", g->spikes);
    json_add_number(w, "spikes_waited", g->spikes_runq);
    json_add_number(w, "merged", g->merged);
    json_add_number(w, "cpu_frames", g->cpu_frames);
    json_add_known(w, "cpu_ns", cpu, g->cpu_ns);
    json_add_known(w, "runq_ns", runq, g->runq_ns);
    json_add_known(w, "blocked_ns", runq, blocked > 0 ? blocked : 0);
}

static void put_frames_summary(struct json_writer *w, const struct run *run)
{
    json_line(w);
    json_add_object(w, "frames");
    put_group(w, &run->all);
    json_add_text(w, "functions_merged",
                  run->all.merged == 0  ? NULL
                  : !run->merged_selves ? "none"
                  : run->unlisted       ? "part"
                                        : "all");
    json_add_flag(w, "wall_estimated", run->wall_estimated);
    json_add_array(w, "by_root");
    for (size_t i = 0; i < run->group_count; i++) {
        json_add_object(w, NULL);
        put_kind(w, run, &run->groups[i]);
        put_group(w, &run->groups[i]);
        json_close(w);
    }
    json_close(w);
    json_close(w);
}

int report_functions_json(FILE *out, const struct run *run, const struct report_options *o)
{
    struct json_writer w = {.out = out};
    const struct shape s = {.run = run};
    struct report_row *rows = NULL;
    size_t count = 0;
    json_keep_error(&w, collect(run, o->all, &rows, &count));
    if (w.err == 0)
        report_sort(rows, count, o->rank);
    if (o->top && count > o->top)
        count = o->top;
    json_add_object(&w, NULL);
    json_add_array(&w, "functions");
    for (size_t i = 0; i < count && w.err == 0; i++)
        sheet_put_row(&w, run_columns, &s, &rows[i]);
    json_line(&w);
    json_close(&w);
    put_frames_summary(&w, run);
    report_put_budget(&w, run);
    report_put_run(&w, run);
    free(rows);
    return json_finish(&w);
}
