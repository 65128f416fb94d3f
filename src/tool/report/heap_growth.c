/* `piano report --heap --growth`: which sites hold more memory at one snapshot than at another,
 * and whether that is a trend.
 *
 * The trend is a least-squares line through the live bytes of a site at all snapshots between
 * the two. The correlation with time shows how well they fit the line. One line alone would
 * report growth for a ramp that has ended, so the later half gets its own line.
 *
 * Blocks that are live at both moments cancel out in the difference. Its variance is that of the
 * blocks allocated and freed in between. */
#include "tool/report/heap.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tool/util/json.h"
#include "tool/util/say.h"
#include "tool/util/table.h"
#include "tool/util/units.h"

enum { GROWTH_TOP = 15, TREND_POINTS = 4, LATE_POINTS = 3 };

static const double clear_trend = 0.8; /* a trend needs at least this correlation */
static const double settled = 0.25;    /* part of the change or slope: less is flat */
static const double two_sided_95 = 1.959964;

/* ---- which two moments ---- */

/* The final state of the recording, as one more snapshot. */
static int make_end(struct heap_growth *g, const struct recording *rec)
{
    g->end = (struct recording_snapshot){.at_ns = rec->end_ns,
                                         .live_bytes = rec->total.live_bytes,
                                         .allocated_bytes = rec->total.allocated_bytes};
    g->end.entries = calloc(rec->stack_count + 1, sizeof(*g->end.entries));
    if (!g->end.entries)
        return -ENOMEM;
    for (uint32_t i = 0; i < rec->stack_count; i++) {
        const struct recording_sum *s = &rec->stacks[i].sum;
        if (s->samples > 0)
            g->end.entries[g->end.count++] =
                (struct recording_entry){.stack = i,
                                         .live_samples = (uint32_t)s->live_samples,
                                         .live_bytes = s->live_bytes,
                                         .live_objects = s->live_objects,
                                         .live_variance = s->live_variance,
                                         .allocated_bytes = s->allocated_bytes};
    }
    return 0;
}

static const struct recording_snapshot *find(const struct recording *rec, long number)
{
    for (size_t i = 0; i < rec->snapshot_count; i++)
        if ((long)rec->snapshots[i].number == number)
            return &rec->snapshots[i];
    return NULL;
}

static int not_there(const struct recording *rec, long number, struct run_error *error)
{
    char safe[300];
    say_safe(safe, sizeof(safe), rec->path);
    if (rec->snapshot_count == 0)
        snprintf(error->text, sizeof(error->text), "%s: there are no snapshots in it", safe);
    else
        snprintf(error->text, sizeof(error->text),
                 "%s: there is no snapshot %ld; there are %u to %u", safe, number,
                 rec->snapshots[0].number, rec->snapshots[rec->snapshot_count - 1].number);
    snprintf(error->hint, sizeof(error->hint),
             "piano record --snapshot-every 1, or piano snapshot PID while it runs");
    return -ENOENT;
}

static int choose(struct heap_growth *g, const struct recording *rec, const struct heap_options *h,
                  struct run_error *error)
{
    size_t n = rec->snapshot_count;
    long from = h->from, to = h->to;
    if (n == 0)
        return not_there(rec, from, error);
    if (from == HEAP_NOT_GIVEN)
        from = (long)rec->snapshots[0].number;
    if (to == HEAP_NOT_GIVEN)
        to = n > 1 ? (long)rec->snapshots[n - 1].number : HEAP_TO_END;
    g->from = from == HEAP_TO_END ? &g->end : find(rec, from);
    g->to = to == HEAP_TO_END ? &g->end : find(rec, to);
    if (!g->from || !g->to)
        return not_there(rec, g->from ? to : from, error);
    return 0;
}

/* All snapshots of the window, by time. Includes the end if it is one of the bounds. */
static int make_window(struct heap_growth *g, const struct recording *rec)
{
    uint64_t first = g->from->at_ns, last = g->to->at_ns, middle;
    if (first > last) {
        first = g->to->at_ns;
        last = g->from->at_ns;
    }
    g->window = calloc(rec->snapshot_count + 1, sizeof(*g->window));
    if (!g->window)
        return -ENOMEM;
    for (size_t i = 0; i < rec->snapshot_count; i++)
        if (rec->snapshots[i].at_ns >= first && rec->snapshots[i].at_ns <= last)
            g->window[g->points++] = &rec->snapshots[i];
    if (g->from == &g->end || g->to == &g->end)
        g->window[g->points++] = &g->end;
    middle = first + (last - first) / 2;
    while (g->late < g->points && g->window[g->late]->at_ns < middle)
        g->late++;
    if (g->late + LATE_POINTS > g->points)
        g->late = g->points > LATE_POINTS ? g->points - LATE_POINTS : 0;
    return 0;
}

/* ---- the rows ---- */

/* Sums over time for one site, and over the times of the snapshots themselves. */
struct line {
    double sum, square, product; /* y, y^2, t*y */
};

struct times {
    double count, sum, square;
};

struct trend {
    struct line whole, late;
    double low, high; /* minimum and maximum of the later half */
    uint32_t seen;    /* number of snapshots of the later half with this site */
};

static double seconds(const struct heap *heap, const struct recording_snapshot *s)
{
    return ((double)s->at_ns - (double)heap->rec.header.start_mono_ns) / 1e9;
}

static void add_point(struct line *l, double t, double y)
{
    l->sum += y;
    l->square += y * y;
    l->product += y * t;
}

/* Adds the values of S. It only touches sites that are in S, so many snapshots of few sites are
 * cheap. */
static void add_moment(const struct heap *heap, struct trend *trends,
                       const struct recording_snapshot *s, bool late, double *live)
{
    double t = seconds(heap, s);
    for (size_t i = 0; i < s->count; i++)
        if (heap->stacks[s->entries[i].stack].pcs)
            live[heap->stacks[s->entries[i].stack].site] += s->entries[i].live_bytes;
    for (size_t i = 0; i < s->count; i++) {
        uint32_t site = heap->stacks[s->entries[i].stack].site;
        struct trend *trend = &trends[site];
        if (live[site] <= 0)
            continue;
        add_point(&trend->whole, t, live[site]);
        if (late) {
            add_point(&trend->late, t, live[site]);
            trend->low = trend->seen ? fmin(trend->low, live[site]) : live[site];
            trend->high = fmax(trend->high, live[site]);
            trend->seen++;
        }
        live[site] = 0;
    }
}

static struct times times_of(const struct heap *heap, const struct heap_growth *g, size_t from)
{
    struct times times = {.count = (double)(g->points - from)};
    for (size_t i = from; i < g->points; i++) {
        double t = seconds(heap, g->window[i]);
        times.sum += t;
        times.square += t * t;
    }
    return times;
}

/* Returns the slope. Sets CORRELATION, if given, to how well the points fit the line. */
static double fit(const struct line *l, const struct times *times, double *correlation)
{
    double n = times->count;
    double spread = n > 0 ? times->square - times->sum * times->sum / n : 0;
    if (spread <= 0)
        return 0;
    double together = l->product - times->sum * l->sum / n;
    double own = l->square - l->sum * l->sum / n;
    if (correlation && own > l->square * 1e-12)
        *correlation = together / sqrt(spread * own);
    return together / spread;
}

static void fit_lines(struct heap_growth *g, const struct heap *heap, const struct trend *trends)
{
    struct times whole = times_of(heap, g, 0), late = times_of(heap, g, g->late);
    for (size_t i = 0; i < heap->site_count; i++) {
        struct heap_growth_row *row = &g->rows[i];
        const struct trend *t = &trends[i];
        row->per_second = fit(&t->whole, &whole, &row->correlation);
        row->late_per_second = fit(&t->late, &late, NULL);
        row->late_range = t->high - (t->seen < g->points - g->late ? 0 : t->low);
    }
}

/* A snapshot may have several entries for one stack. */
static void add_entries(struct recording_entry *sums, const struct recording_snapshot *s)
{
    for (size_t i = 0; i < s->count; i++) {
        const struct recording_entry *e = &s->entries[i];
        sums[e->stack].live_bytes += e->live_bytes;
        sums[e->stack].live_variance += e->live_variance;
        sums[e->stack].allocated_bytes += e->allocated_bytes;
    }
}

static int add_changes(struct heap_growth *g, const struct heap *heap)
{
    const struct recording *rec = &heap->rec;
    bool backwards = g->from->at_ns > g->to->at_ns;
    struct recording_entry *from = calloc(rec->stack_count + 1, sizeof(*from));
    struct recording_entry *to = calloc(rec->stack_count + 1, sizeof(*to));
    int err = from && to ? 0 : -ENOMEM;
    if (err == 0) {
        add_entries(from, g->from);
        add_entries(to, g->to);
    }
    for (uint32_t i = 0; err == 0 && i < rec->stack_count; i++) {
        struct heap_growth_row *row = &g->rows[heap->stacks[i].site];
        if (!heap->stacks[i].pcs)
            continue;
        row->from += from[i].live_bytes;
        row->to += to[i].live_bytes;
        row->variance += backwards ? recording_change_variance(rec, &to[i], &from[i])
                                   : recording_change_variance(rec, &from[i], &to[i]);
    }
    free(from);
    free(to);
    return err;
}

static int compare_rows(const void *a, const void *b)
{
    const struct heap_growth_row *x = a, *y = b;
    double dx = x->to - x->from, dy = y->to - y->from;
    if (dx > dy || dx < dy)
        return dx > dy ? -1 : 1;
    if (x->to > y->to || x->to < y->to)
        return x->to > y->to ? -1 : 1;
    return (x->site > y->site) - (x->site < y->site);
}

static int make_rows(struct heap_growth *g, const struct heap *heap)
{
    size_t n = heap->site_count + 1;
    struct trend *trends = calloc(n, sizeof(*trends));
    double *live = calloc(n, sizeof(*live));
    g->rows = calloc(n, sizeof(*g->rows));
    int err = trends && live && g->rows ? add_changes(g, heap) : -ENOMEM;
    if (err == 0) {
        for (uint32_t i = 0; i < heap->site_count; i++)
            g->rows[i].site = i;
        for (size_t i = 0; i < g->points; i++)
            add_moment(heap, trends, g->window[i], i >= g->late, live);
        fit_lines(g, heap, trends);
        for (size_t i = 0; i < heap->site_count; i++)
            if (g->rows[i].from > 0 || g->rows[i].to > 0)
                g->rows[g->count++] = g->rows[i];
        qsort(g->rows, g->count, sizeof(*g->rows), compare_rows);
    }
    free(trends);
    free(live);
    return err;
}

int heap_growth_make(struct heap_growth *g, const struct heap *heap, const struct heap_options *h,
                     struct run_error *error)
{
    *g = (struct heap_growth){.points = 0};
    *error = (struct run_error){.text = ""};
    int err = make_end(g, &heap->rec);
    if (err == 0)
        err = choose(g, &heap->rec, h, error);
    if (err == 0)
        err = make_window(g, &heap->rec);
    if (err == 0)
        err = make_rows(g, heap);
    if (err && !error->text[0])
        snprintf(error->text, sizeof(error->text), "not enough memory");
    if (err)
        heap_growth_release(g);
    return err;
}

void heap_growth_release(struct heap_growth *g)
{
    free(g->rows);
    free(g->window);
    free(g->end.entries);
    *g = (struct heap_growth){.rows = NULL};
}

static double half_width(const struct heap_growth_row *row)
{
    return two_sided_95 * sqrt(row->variance);
}

const char *heap_trend(const struct heap_growth *g, const struct heap_growth_row *row)
{
    double change = row->to - row->from, sign = change > 0 ? 1 : -1;
    double late = row->late_per_second * sign, whole = row->per_second * sign;
    bool is_clear = row->correlation * sign >= clear_trend;
    if (g->points < TREND_POINTS)
        return NULL;
    if (!(row->correlation > 0 || row->correlation < 0))
        return "flat";
    if (fabs(change) <= half_width(row) || fabs(change) < 0.5)
        return "varies";
    if (row->late_range <= settled * fabs(change) ||
        (is_clear && fabs(late) < settled * fabs(whole)))
        return change > 0 ? "grew, then flat" : "shrank, then flat";
    if (!is_clear || late < 0)
        return "varies";
    return change > 0 ? "grows" : "shrinks";
}

/* ---- text ---- */

static void moment_text(char *text, size_t size, const struct heap *heap,
                        const struct heap_growth *g, const struct recording_snapshot *s)
{
    char at[UNITS_LEN];
    uint64_t start = heap->rec.header.start_mono_ns;
    units_time(at,
               s->at_ns > start && s->at_ns - start < INT64_MAX ? (int64_t)(s->at_ns - start) : 0);
    if (s == &g->end)
        snprintf(text, size, "the end (after %s)", at);
    else
        snprintf(text, size, "snapshot %u (after %s)", s->number, at);
}

enum { SLOPE_LEN = UNITS_LEN + 8 };

static const char *slope_text(char *text, double per_second)
{
    char bytes[UNITS_LEN];
    bool slow = fabs(per_second) < 1024;
    units_bytes_signed(bytes, heap_whole(slow ? per_second * 60 : per_second));
    snprintf(text, SLOPE_LEN, "%s/%s", bytes, slow ? "min" : "s");
    return text;
}

static int add_row(struct table *t, const struct heap *heap, const struct heap_growth *g,
                   const struct heap_growth_row *row)
{
    const struct heap_site *site = &heap->sites[row->site];
    char text[SLOPE_LEN], place[700];
    char *name = heap_name(site->function, site->mmap), *callers = heap_callers(heap, site);
    const char *trend = heap_trend(g, row);
    int err = name && callers ? 0 : -ENOMEM;
    if (err == 0) {
        table_cell(t, name);
        table_cell(t, heap_bytes(text, row->from));
        table_cell(t, heap_bytes(text, row->to));
        table_cell(t, units_bytes_signed(text, heap_whole(row->to - row->from)));
        table_cell(t, row->variance > 0 ? heap_bytes(text, half_width(row)) : "");
        table_cell(t, trend ? slope_text(text, row->per_second) : "-");
        table_cell(t, trend ? trend : "-");
        table_cell(t, heap_place(place, sizeof(place), site->file, site->line));
        table_cell(t, callers);
    }
    free(name);
    free(callers);
    return err;
}

/* A program that exits frees its memory. A snapshot taken during that hides all growth. */
static void print_fullest(FILE *out, const struct recording *rec, const struct heap_growth *g,
                          const struct report_options *o)
{
    const struct recording_snapshot *fullest = NULL;
    char text[UNITS_LEN];
    for (size_t i = 0; i < rec->snapshot_count; i++) {
        const struct recording_snapshot *s = &rec->snapshots[i];
        bool within = s->at_ns > g->from->at_ns && s->at_ns < g->to->at_ns;
        if (within && (!fullest || s->live_bytes > fullest->live_bytes))
            fullest = s;
    }
    if (fullest && fullest->live_bytes > 2 * g->to->live_bytes)
        report_dim(out, o->colour, "%s were live at snapshot %u, before most was freed: --to %u",
                   heap_bytes(text, fullest->live_bytes), fullest->number, fullest->number);
}

int heap_print_growth(FILE *out, const struct heap *heap, const struct heap_growth *g,
                      const struct report_options *o)
{
    struct table t = {.cells = NULL};
    char from[96], to[96], text[UNITS_LEN];
    size_t top = o->all ? g->count : o->top ? o->top : GROWTH_TOP;
    size_t shown = g->count < top ? g->count : top;
    int err = 0;
    moment_text(from, sizeof(from), heap, g, g->from);
    moment_text(to, sizeof(to), heap, g, g->to);
    fprintf(out, "\n%sFrom %s to %s%s: live %s", o->colour ? "\x1b[1m" : "", from, to,
            o->colour ? "\x1b[0m" : "",
            units_bytes_signed(text, heap_whole(g->to->live_bytes - g->from->live_bytes)));
    size_t taken = g->points - (g->from == &g->end || g->to == &g->end);
    if (taken < heap->rec.snapshot_count)
        fprintf(out, ", %zu of %zu snapshots\n", taken, heap->rec.snapshot_count);
    else
        fprintf(out, ", %zu snapshot%s\n", taken, taken == 1 ? "" : "s");
    print_fullest(out, &heap->rec, g, o);
    table_column(&t, "Site", TABLE_LEFT, 0);
    table_column(&t, "From", TABLE_RIGHT, 1);
    table_column(&t, "To", TABLE_RIGHT, 0);
    table_column(&t, "Delta", TABLE_RIGHT, 0);
    table_column(&t, "+-", TABLE_RIGHT, 2);
    table_column(&t, "Trend", TABLE_RIGHT, -2);
    table_column(&t, "", TABLE_LEFT, -1);
    table_column(&t, "Place", TABLE_LEFT, -4);
    table_column(&t, "Called by", TABLE_LEFT, -3);
    for (size_t i = 0; i < shown && err == 0; i++)
        err = add_row(&t, heap, g, &g->rows[i]);
    if (err == 0 && g->count > 0)
        err = table_print(&t, out, o->width, o->colour);
    else if (err == 0)
        fputs("nothing was live at either, as far as was sampled\n", out);
    if (err == 0 && shown < g->count)
        report_dim(out, o->colour, "%zu more site%s%s", g->count - shown,
                   g->count - shown == 1 ? "" : "s", o->top ? "" : ": --all");
    if (err == 0 && g->count > 0 && g->points < TREND_POINTS)
        report_dim(out, o->colour, "a trend needs %d snapshots: piano record --snapshot-every S",
                   TREND_POINTS);
    table_release(&t);
    return err;
}

/* ---- JSON ---- */

static void put_moment(struct buf *b, const char *key, const struct heap *heap,
                       const struct heap_growth *g, const struct recording_snapshot *s)
{
    buf_printf(b, "\"%s\":{\"snapshot\":", key);
    if (s == &g->end)
        buf_puts(b, "null");
    else
        buf_printf(b, "%u", s->number);
    uint64_t start = heap->rec.header.start_mono_ns;
    buf_printf(b, ",\"at_ns\":%llu,\"live_bytes\":%lld},",
               (unsigned long long)(s->at_ns > start ? s->at_ns - start : 0),
               (long long)heap_whole(s->live_bytes));
}

void heap_put_growth(struct buf *b, const struct heap *heap, const struct heap_growth *g)
{
    buf_puts(b, "\"growth\":{");
    put_moment(b, "from", heap, g, g->from);
    put_moment(b, "to", heap, g, g->to);
    buf_printf(b, "\"snapshots\":%zu,\"sites\":[", g->points);
    for (size_t i = 0; i < g->count; i++) {
        const struct heap_growth_row *row = &g->rows[i];
        const struct heap_site *site = &heap->sites[row->site];
        const char *trend = heap_trend(g, row);
        buf_puts(b, i ? ",\n{\"function\":" : "\n{\"function\":");
        json_put_string(b, site->function);
        buf_puts(b, ",\"caller\":");
        if (site->caller)
            json_put_string(b, site->caller);
        else
            buf_puts(b, "null");
        buf_puts(b, ",\"file\":");
        if (site->file)
            json_put_string(b, site->file);
        else
            buf_puts(b, "null");
        buf_printf(b,
                   ",\"line\":%u,\"kind\":\"%s\",\"live_bytes\":[%lld,%lld],"
                   "\"delta_bytes\":%lld,\"delta_ci95\":%lld,\"trend\":",
                   site->line, site->mmap ? "mmap" : "malloc", (long long)heap_whole(row->from),
                   (long long)heap_whole(row->to), (long long)heap_whole(row->to - row->from),
                   (long long)heap_whole(half_width(row)));
        if (trend)
            buf_printf(b, "\"%s\",\"bytes_per_second\":%.3f,\"correlation\":%.4f}", trend,
                       row->per_second, row->correlation);
        else
            buf_puts(b, "null,\"bytes_per_second\":null,\"correlation\":null}");
    }
    buf_puts(b, "]},\n");
}
