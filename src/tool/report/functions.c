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
#include "tool/util/json.h"
#include "tool/util/say.h"
#include "tool/util/table.h"
#include "tool/util/units.h"

enum { GROUP_LINES = 5, NAME_WIDTH = 8, UNLIMITED = 500, COVERED_PERCENT = 90, HIDDEN_WAITS = 3 };

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
    bool total, percentiles, allocs, places, sampled, intervals, worst, worst_frame;
    bool cpu, wait, by_cpu, marks;
    int64_t self_sum, cpu_sum, timed, calls_sampled;
};

static struct shape shape_of(const struct run *run, const struct report_row *rows, size_t count,
                             bool percentiles, const struct report_options *o)
{
    struct shape s = {.places = o->places, .cpu = o->rank == REPORT_BY_CPU};
    for (size_t i = 0; i < count; i++) {
        const struct tally *sum = &rows[i].sum;
        s.total |= sum->seen && sum->has_total && !run->uncorrected; /* there is no raw total */
        s.allocs |= sum->alloc_count > 0;
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

static void add_columns(struct table *t, const struct shape *s)
{
    table_column(t, "Function", TABLE_LEFT, 0);
    table_column(t, "Calls", TABLE_RIGHT, 0);
    table_column(t, "Self", TABLE_RIGHT, 0);
    if (s->intervals)
        table_column(t, "\u00b1", TABLE_RIGHT, 1);
    table_column(t, "%", TABLE_RIGHT, 2);
    if (s->cpu)
        table_column(t, "CPU", TABLE_RIGHT, 0);
    if (s->wait)
        table_column(t, "Wait", TABLE_RIGHT, 0);
    if (s->total)
        table_column(t, "Total", TABLE_RIGHT, 3);
    if (s->percentiles) {
        table_column(t, "p50", TABLE_RIGHT, -4);
        table_column(t, "p99", TABLE_RIGHT, -1);
    }
    if (s->worst)
        table_column(t, "Worst", TABLE_RIGHT, 4);
    if (s->worst && s->worst_frame)
        table_column(t, "Frame", TABLE_RIGHT, 5);
    if (s->allocs) {
        table_column(t, "Allocs", TABLE_RIGHT, -2);
        table_column(t, "Bytes", TABLE_RIGHT, -3);
    }
    if (s->places)
        table_column(t, "Place", TABLE_LEFT, 0);
    if (s->marks)
        table_column(t, "", TABLE_LEFT, 0);
}

/* A time of a function. A negative one cannot be separated from the cost of the probes in its
 * callees. */
static void time_cell(struct table *t, int64_t ns, bool known, const char *mark)
{
    char text[UNITS_LEN], marked[UNITS_LEN + 1];
    snprintf(marked, sizeof(marked), "%s%s", mark, units_time(text, ns));
    table_cell(t, known && ns >= 0 ? marked : "-");
}

/* Half of the 95 % interval, if it is large enough to show. */
static void interval_cell(struct table *t, const struct tally *sum)
{
    char text[UNITS_LEN];
    bool is_shown = sum->self_ns >= 0 && estimates_matter(sum);
    table_cell(t, is_shown ? units_time(text, estimates_self_half(sum)) : "");
}

static bool has_residue(const struct run *run, const struct report_row *row, const struct shape *s)
{
    const struct run_fn *f = &run->fns[row->fn];
    bool of_frames = s->percentiles && f->frames.count > 0 && (f->p50_ns < 0 || f->p99_ns < 0);
    return row->sum.self_ns < 0 || (s->total && row->sum.has_total && row->sum.total_ns < 0) ||
           of_frames;
}

/* Its share of the figure that ranks the table. */
static void share_cell(struct table *t, const struct tally *sum, const struct shape *s)
{
    char text[UNITS_LEN];
    int64_t mine = s->by_cpu ? tally_self_cpu(sum) : sum->self_ns;
    int64_t all = s->by_cpu ? s->cpu_sum : s->self_sum;
    double part = all > 0 && mine > 0 ? (double)mine / (double)all : 0.0;
    table_cell(t, sum->self_ns >= 0 ? units_percent(text, part) : "-");
}

static int add_row(struct table *t, const struct run *run, const struct report_row *row,
                   const struct shape *s)
{
    char text[UNITS_LEN], place[512];
    const struct run_fn *f = &run->fns[row->fn];
    const struct tally *sum = &row->sum;
    char *name = run_fn_name(run, row->fn);
    if (!name)
        return -ENOMEM;
    table_cell(t, name);
    free(name);
    table_cell(t, units_count(text, sum->calls));
    time_cell(t, sum->self_ns, true, run_is_estimated(run, row->fn, sum) ? "~" : "");
    if (s->intervals)
        interval_cell(t, sum);
    share_cell(t, sum, s);
    if (s->cpu)
        time_cell(t, tally_self_cpu(sum), sum->has_cpu, "");
    if (s->wait)
        time_cell(t, sum->self_ns - tally_self_cpu(sum), sum->has_cpu, "");
    if (s->total)
        time_cell(t, sum->total_ns, sum->has_total, "");
    if (s->percentiles) {
        time_cell(t, f->p50_ns, f->frames.count > 0, "");
        time_cell(t, f->p99_ns, f->frames.count > 0, "");
    }
    if (s->worst)
        time_cell(t, f->worst_ns, f->worst_ns >= 0, "");
    if (s->worst && s->worst_frame)
        table_cell(t, f->worst_frame < 0 ? "-" : units_count(text, f->worst_frame + 1));
    if (s->allocs) {
        table_cell(t, units_count(text, sum->alloc_count));
        table_cell(t, units_bytes(text, sum->alloc_bytes));
    }
    if (s->places)
        table_cell(t, f->place ? say_safe(place, sizeof(place), f->place) : "-");
    if (s->marks)
        table_cell(t, tally_has_wait(sum, s->self_sum) && tally_waits(sum) ? "<- waits" : "");
    return 0;
}

static bool is_shown(const struct table *t, const char *title)
{
    for (size_t i = 0; i < t->column_count; i++)
        if (!t->columns[i].gone && strcmp(t->columns[i].title, title) == 0)
            return true;
    return false;
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
        report_dim(out, colour, "- too small to tell beside the calls it makes (docs/timing.md)");
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
    int err = 0;
    s.by_cpu = report_sort(rows, count, o->rank);
    add_columns(&t, &s);
    for (size_t i = 0; i < shown && err == 0; i++) {
        err = add_row(&t, run, &rows[i], &s);
        residue |= has_residue(run, &rows[i], &s);
    }
    if (err == 0)
        err = table_print(&t, out, o->width, o->colour);
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
        report_footer(out, run, o);
    free(rows);
    return err;
}

/* The sum over the frames with a known CPU time. */
static void put_cpu(struct buf *b, const struct run_group *g)
{
    bool cpu = g->cpu_frames > 0, runq = cpu && !g->no_runq;
    int64_t blocked = saturating_add(g->cpu_wall_ns, -saturating_add(g->cpu_ns, g->runq_ns));
    buf_printf(b, ",\"cpu_frames\":%lld,", (long long)g->cpu_frames);
    report_put_known(b, "cpu_ns", cpu, g->cpu_ns);
    buf_putc(b, ',');
    report_put_known(b, "runq_ns", runq, g->runq_ns);
    buf_putc(b, ',');
    report_put_known(b, "blocked_ns", runq, blocked > 0 ? blocked : 0);
}

static void put_group(struct buf *b, const struct run *run, const struct run_group *g, bool named)
{
    buf_putc(b, '{');
    if (named) {
        buf_puts(b, "\"root\":");
        if (g->root != RUN_NO_ROOT)
            json_put_string(b, run->fns[g->root].name);
        else
            buf_puts(b, "null");
        buf_printf(b, ",\"kind\":\"%s\",\"caller\":", g->turn ? "turn" : "call");
        if (g->turn && g->caller != RUN_NO_FN)
            json_put_string(b, run->fns[g->caller].name);
        else
            buf_puts(b, "null");
        buf_puts(b, ",\"between_ns\":");
        if (g->turn)
            buf_printf(b, "%lld,", (long long)g->between_sum);
        else
            buf_puts(b, "null,");
    }
    buf_printf(b, "\"count\":%lld,", (long long)g->count);
    if (g->count > 0)
        buf_printf(b, "\"avg_ns\":%lld,\"p50_ns\":%lld,\"p99_ns\":%lld,\"max_ns\":%lld,",
                   (long long)(g->wall_sum / g->count), (long long)g->p50_ns, (long long)g->p99_ns,
                   (long long)g->wall_max);
    else
        buf_puts(b, "\"avg_ns\":null,\"p50_ns\":null,\"p99_ns\":null,\"max_ns\":null,");
    buf_printf(b, "\"spikes\":%lld,\"spikes_waited\":%lld,\"merged\":%lld", (long long)g->spikes,
               (long long)g->spikes_runq, (long long)g->merged);
    put_cpu(b, g);
}

static void put_frames_summary(struct buf *b, const struct run *run)
{
    buf_puts(b, "\"frames\":");
    put_group(b, run, &run->all, false);
    buf_printf(b, ",\"functions_merged\":%s",
               run->all.merged == 0  ? "null"
               : !run->merged_selves ? "\"none\""
               : run->unlisted       ? "\"part\""
                                     : "\"all\"");
    buf_printf(b, ",\"wall_estimated\":%s,\"by_root\":[", run->wall_estimated ? "true" : "false");
    for (size_t i = 0; i < run->group_count; i++) {
        buf_puts(b, i ? "," : "");
        put_group(b, run, &run->groups[i], true);
        buf_putc(b, '}');
    }
    buf_puts(b, "]}");
}

static void put_worst(struct buf *b, const char *key, int64_t value)
{
    if (value >= 0)
        buf_printf(b, ",\"%s\":%lld", key, (long long)value);
    else
        buf_printf(b, ",\"%s\":null", key);
}

int report_functions_json(FILE *out, const struct run *run, const struct report_options *o)
{
    struct buf b = {0};
    struct report_row *rows = NULL;
    size_t count = 0;
    int err = collect(run, o->all, &rows, &count);
    if (err == 0)
        report_sort(rows, count, o->rank);
    if (o->top && count > o->top)
        count = o->top;
    buf_puts(&b, "{\"functions\":[");
    for (size_t i = 0; i < count && err == 0; i++) {
        const struct run_fn *f = &run->fns[rows[i].fn];
        buf_puts(&b, i ? ",\n{" : "\n{");
        report_put_tally(&b, run, rows[i].fn, &rows[i].sum);
        if (f->frames.count)
            buf_printf(&b, ",\"p50_ns\":%lld,\"p99_ns\":%lld", (long long)f->p50_ns,
                       (long long)f->p99_ns);
        else
            buf_puts(&b, ",\"p50_ns\":null,\"p99_ns\":null");
        buf_printf(&b, ",\"frames\":%llu", (unsigned long long)f->frames.count);
        put_worst(&b, "worst_ns", f->worst_ns);
        put_worst(&b, "worst_frame", f->worst_frame);
        buf_putc(&b, '}');
        err = buf_flush(&b, out, false);
    }
    buf_puts(&b, "\n],\n");
    put_frames_summary(&b, run);
    buf_puts(&b, ",\n");
    report_put_budget(&b, run);
    report_put_run(&b, run);
    buf_puts(&b, "}\n");
    if (err == 0)
        err = buf_flush(&b, out, true);
    buf_free(&b);
    free(rows);
    return err;
}
