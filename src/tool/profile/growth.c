/* Which sites hold more memory at one snapshot than at another, and whether that is a trend.
 *
 * The trend is a least-squares line through the live bytes of a site at all snapshots between
 * the two. The correlation with time shows how well they fit the line. One line alone would
 * report growth for a ramp that has ended, so the later half gets its own line.
 *
 * Blocks that are live at both moments cancel out in the difference. Its variance is that of the
 * blocks allocated and freed in between. */
#include "tool/profile/growth.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tool/util/order.h"
#include "tool/util/say.h"
#include "tool/util/units.h"

enum { LATE_POINTS = 3 };

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
    g->start = (struct recording_snapshot){.at_ns = rec->header.start_mono_ns};
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

/* The snapshot nearest to AT_NS; the start and the end of the recording are snapshots too. */
static const struct recording_snapshot *nearest(const struct heap_growth *g,
                                                const struct recording *rec, uint64_t at_ns)
{
    const struct recording_snapshot *best = &g->start;
    for (size_t i = 0; i <= rec->snapshot_count; i++) {
        const struct recording_snapshot *s = i < rec->snapshot_count ? &rec->snapshots[i] : &g->end;
        if (fabs((double)s->at_ns - (double)at_ns) < fabs((double)best->at_ns - (double)at_ns))
            best = s;
    }
    return best;
}

static int choose_by_time(struct heap_growth *g, const struct recording *rec,
                          struct run_error *error)
{
    char safe[300], at[UNITS_LEN];
    g->from = nearest(g, rec, rec->range.from_ns);
    g->to = nearest(g, rec, rec->range.to_ns);
    if (g->from != g->to)
        return 0;
    uint64_t since = g->from->at_ns - rec->header.start_mono_ns;
    snprintf(
        error->text, sizeof(error->text),
        "%s: the state of the heap nearest to both ends of the range is that at %s: its growth "
        "within the range is not known",
        say_safe(safe, sizeof(safe), rec->path), units_time(at, (int64_t)since));
    snprintf(error->hint, sizeof(error->hint), "a longer range; piano record --snapshot-every 0.1");
    return -ENOENT;
}

static int choose(struct heap_growth *g, const struct recording *rec, long from, long to,
                  struct run_error *error)
{
    size_t n = rec->snapshot_count;
    if (rec->range.given)
        return choose_by_time(g, rec, error);
    if (n == 0)
        return not_there(rec, from, error);
    if (from == GROWTH_NOT_GIVEN)
        from = (long)rec->snapshots[0].number;
    if (to == GROWTH_NOT_GIVEN)
        to = n > 1 ? (long)rec->snapshots[n - 1].number : GROWTH_TO_END;
    g->from = from == GROWTH_TO_END ? &g->end : find(rec, from);
    g->to = to == GROWTH_TO_END ? &g->end : find(rec, to);
    if (!g->from || !g->to)
        return not_there(rec, g->from ? to : from, error);
    return 0;
}

/* All snapshots of the window, by time. Includes the end if it is one of the bounds. */
static int make_window(struct heap_growth *g, const struct recording *rec)
{
    bool backwards = g->from->at_ns > g->to->at_ns;
    uint64_t first = backwards ? g->to->at_ns : g->from->at_ns;
    uint64_t last = backwards ? g->from->at_ns : g->to->at_ns, middle = first + (last - first) / 2;
    g->window = calloc(rec->snapshot_count + 2, sizeof(*g->window));
    if (!g->window)
        return -ENOMEM;
    for (size_t i = 0; i < rec->snapshot_count; i++)
        if (rec->snapshots[i].at_ns >= first && rec->snapshots[i].at_ns <= last)
            g->window[g->points++] = &rec->snapshots[i];
    if (g->from == &g->end || g->to == &g->end)
        g->window[g->points++] = &g->end;
    if (g->from == &g->start) {
        memmove(&g->window[1], g->window, g->points++ * sizeof(*g->window));
        g->window[0] = &g->start;
    }
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

static double seconds(const struct profile *p, const struct recording_snapshot *s)
{
    return ((double)s->at_ns - (double)p->rec.header.start_mono_ns) / 1e9;
}

static void add_point(struct line *l, double t, double y)
{
    l->sum += y;
    l->square += y * y;
    l->product += y * t;
}

/* Adds the values of S. It only touches sites that are in S, so many snapshots of few sites are
 * cheap. */
static void add_moment(const struct profile *p, struct trend *trends,
                       const struct recording_snapshot *s, bool late, double *live)
{
    double t = seconds(p, s);
    for (size_t i = 0; i < s->count; i++)
        if (profile_has_site(p, s->entries[i].stack))
            live[p->stacks[s->entries[i].stack].site] += s->entries[i].live_bytes;
    for (size_t i = 0; i < s->count; i++) {
        uint32_t site = p->stacks[s->entries[i].stack].site;
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

static struct times times_of(const struct profile *p, const struct heap_growth *g, size_t from)
{
    struct times times = {.count = (double)(g->points - from)};
    for (size_t i = from; i < g->points; i++) {
        double t = seconds(p, g->window[i]);
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

static void fit_lines(struct heap_growth *g, const struct profile *p, const struct trend *trends)
{
    struct times whole = times_of(p, g, 0), late = times_of(p, g, g->late);
    for (size_t i = 0; i < p->site_count; i++) {
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

/* Live bytes by stack at both moments. */
struct change {
    const struct recording_entry *from, *to;
};

static double change_of_stack(const void *change, const struct profile *p, uint32_t stack)
{
    const struct change *c = change;
    (void)p;
    return c->to[stack].live_bytes - c->from[stack].live_bytes;
}

static int add_changes(struct heap_growth *g, const struct profile *p)
{
    const struct recording *rec = &p->rec;
    bool backwards = g->from->at_ns > g->to->at_ns;
    struct recording_entry *from = calloc(rec->stack_count + 1, sizeof(*from));
    struct recording_entry *to = calloc(rec->stack_count + 1, sizeof(*to));
    int err = from && to ? 0 : -ENOMEM;
    if (err == 0) {
        add_entries(from, g->from);
        add_entries(to, g->to);
    }
    for (uint32_t i = 0; err == 0 && i < rec->stack_count; i++) {
        struct heap_growth_row *row = &g->rows[p->stacks[i].site];
        if (!profile_has_site(p, i))
            continue;
        row->from += from[i].live_bytes;
        row->to += to[i].live_bytes;
        row->variance += backwards ? recording_change_variance(rec, &to[i], &from[i])
                                   : recording_change_variance(rec, &from[i], &to[i]);
    }
    for (size_t i = 0; err == 0 && i < p->site_count; i++)
        g->rows[i].leader =
            heap_leader_by(p, &p->sites[i], change_of_stack, &(const struct change){from, to});
    free(from);
    free(to);
    return err;
}

static int compare_rows(const void *a, const void *b)
{
    const struct heap_growth_row *x = a, *y = b;
    return ORDER(y->to - y->from, x->to - x->from)
        ?: ORDER(y->to, x->to) ?: ORDER(x->site, y->site);
}

static int make_rows(struct heap_growth *g, const struct profile *p)
{
    size_t n = p->site_count + 1;
    struct trend *trends = calloc(n, sizeof(*trends));
    double *live = calloc(n, sizeof(*live));
    g->rows = calloc(n, sizeof(*g->rows));
    int err = trends && live && g->rows ? add_changes(g, p) : -ENOMEM;
    if (err == 0) {
        for (uint32_t i = 0; i < p->site_count; i++)
            g->rows[i].site = i;
        for (size_t i = 0; i < g->points; i++)
            add_moment(p, trends, g->window[i], i >= g->late, live);
        fit_lines(g, p, trends);
        for (size_t i = 0; i < p->site_count; i++)
            if (g->rows[i].from > 0 || g->rows[i].to > 0)
                g->rows[g->count++] = g->rows[i];
        qsort(g->rows, g->count, sizeof(*g->rows), compare_rows);
    }
    free(trends);
    free(live);
    return err;
}

int heap_growth_make(struct heap_growth *g, const struct profile *p, long from, long to,
                     struct run_error *error)
{
    *g = (struct heap_growth){.points = 0};
    *error = (struct run_error){.text = ""};
    int err = make_end(g, &p->rec);
    if (err == 0)
        err = choose(g, &p->rec, from, to, error);
    if (err == 0)
        err = make_window(g, &p->rec);
    if (err == 0)
        err = make_rows(g, p);
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

double heap_growth_half_width(const struct heap_growth_row *row)
{
    return two_sided_95 * sqrt(row->variance);
}

const char *heap_trend(const struct heap_growth *g, const struct heap_growth_row *row)
{
    double change = row->to - row->from, sign = change > 0 ? 1 : -1;
    double late = row->late_per_second * sign, whole = row->per_second * sign;
    bool is_clear = row->correlation * sign >= clear_trend;
    if (g->points < GROWTH_TREND_POINTS)
        return NULL;
    if (!(row->correlation > 0 || row->correlation < 0))
        return "flat";
    if (fabs(change) <= heap_growth_half_width(row) || fabs(change) < 0.5)
        return "varies";
    if (row->late_range <= settled * fabs(change) ||
        (is_clear && fabs(late) < settled * fabs(whole)))
        return change > 0 ? "grew, then flat" : "shrank, then flat";
    if (!is_clear || late < 0)
        return "varies";
    return change > 0 ? "grows" : "shrinks";
}
