/* `piano report --heap --growth`: the sites that hold more memory at one snapshot than at another. */
#include "tool/report/heap.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "tool/util/sheet.h"
#include "tool/util/units.h"

enum { GROWTH_TOP = 15 };

static void moment_text(char *text, size_t size, const struct profile *heap,
                        const struct heap_growth *g, const struct recording_snapshot *s)
{
    char at[UNITS_LEN];
    uint64_t start = heap->rec.header.start_mono_ns;
    units_time(at,
               s->at_ns > start && s->at_ns - start < INT64_MAX ? (int64_t)(s->at_ns - start) : 0);
    if (s == &g->end)
        snprintf(text, size, "the end (after %s)", at);
    else if (s == &g->start)
        snprintf(text, size, "the start");
    else
        snprintf(text, size, "snapshot %u (after %s)", s->number, at);
}

enum { SLOPE_LEN = UNITS_LEN + 8 };

static const char *slope_text(char *text, double per_second)
{
    char bytes[UNITS_LEN];
    bool slow = fabs(per_second) < 1024;
    units_bytes_signed(bytes, figure_whole(slow ? per_second * 60 : per_second));
    snprintf(text, SLOPE_LEN, "%s/%s", bytes, slow ? "min" : "s");
    return text;
}

struct view {
    const struct profile *heap;
    const struct heap_growth *growth;
};

static void columns(struct sheet *s, const void *ctx, const void *of)
{
    const struct view *v = ctx;
    const struct heap_growth_row *row = of;
    const struct heap_site *site = &v->heap->sites[row->site];
    const char *trend = heap_trend(v->growth, row);
    int64_t from = figure_whole(row->from), to = figure_whole(row->to);
    char slope[SLOPE_LEN], place[700];
    char *name = s->table ? profile_safe_name(site->function, site->mmap) : NULL;
    char *callers = s->table ? heap_callers_text(v->heap, site, row->leader) : NULL;
    SHEET(s, TEXT, "function", "Site", .text = site->function, .shown = name);
    SHEET(s, TEXT, "caller", "Called by", .text = site->caller, .shown = callers, .optional = -3,
          .place = 2);
    heap_put_callers(s, v->heap, row->leader);
    SHEET(s, TEXT, "file", "Place", .text = site->file, .optional = -4, .place = 1,
          .shown = s->table ? heap_place(place, sizeof(place), site->file, site->line) : NULL);
    SHEET(s, COUNT, "line", NULL, .count = site->line);
    SHEET(s, TEXT, "kind", NULL, .text = site->mmap ? "mmap" : "malloc");
    if (s->json)
        json_add_range(s->json, "live_bytes", from, to);
    SHEET(s, BYTES, NULL, "From", .number = from, .optional = 1);
    SHEET(s, BYTES, NULL, "To", .number = to);
    SHEET(s, BYTES_SIGNED, "delta_bytes", "Delta", .number = figure_whole(row->to - row->from));
    SHEET(s, BYTES, "delta_ci95", "+-", .number = figure_whole(heap_growth_half_width(row)),
          .optional = 2, .shown = row->variance > 0 ? NULL : "");
    SHEET(s, REAL, NULL, "Trend", .unknown = !trend, .optional = -2,
          .shown = trend && s->table ? slope_text(slope, row->per_second) : NULL);
    SHEET(s, TEXT, "trend", "", .text = trend, .optional = -1);
    SHEET(s, REAL, "bytes_per_second", NULL, .real = row->per_second, .decimals = 3,
          .unknown = !trend);
    SHEET(s, REAL, "correlation", NULL, .real = row->correlation, .decimals = 4, .unknown = !trend);
    free(name);
    free(callers);
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
                   figure_bytes(text, fullest->live_bytes), fullest->number, fullest->number);
}

int heap_print_growth(FILE *out, const struct profile *heap, const struct heap_growth *g,
                      const struct report_options *o)
{
    const struct view v = {heap, g};
    struct table t = {.cells = NULL};
    char from[96], to[96], text[UNITS_LEN];
    size_t top = o->all ? g->count : o->top ? o->top : GROWTH_TOP;
    size_t shown = g->count < top ? g->count : top;
    int err = 0;
    moment_text(from, sizeof(from), heap, g, g->from);
    moment_text(to, sizeof(to), heap, g, g->to);
    fprintf(out, "\n%sFrom %s to %s%s: live %s", o->colour ? "\x1b[1m" : "", from, to,
            o->colour ? "\x1b[0m" : "",
            units_bytes_signed(text, figure_whole(g->to->live_bytes - g->from->live_bytes)));
    if (heap->rec.range.given)
        fprintf(out, ", allocated %s",
                units_bytes(text, figure_whole(g->to->allocated_bytes - g->from->allocated_bytes)));
    size_t taken = g->points - (g->from == &g->end || g->to == &g->end) - (g->from == &g->start);
    if (taken < heap->rec.snapshot_count)
        fprintf(out, ", %zu of %zu snapshots\n", taken, heap->rec.snapshot_count);
    else
        fprintf(out, ", %zu snapshot%s\n", taken, taken == 1 ? "" : "s");
    print_fullest(out, &heap->rec, g, o);
    for (size_t i = 0; i < shown; i++)
        sheet_table(&t, columns, &v, &g->rows[i]);
    if (err == 0 && g->count > 0)
        err = table_print(&t, out, o->width, o->colour);
    else if (err == 0)
        fputs("no live memory was sampled at either\n", out);
    if (err == 0 && shown < g->count)
        report_dim(out, o->colour, "%zu more site%s%s", g->count - shown,
                   g->count - shown == 1 ? "" : "s", o->top ? "" : ": --all");
    if (err == 0 && g->count > 0 && g->points < GROWTH_TREND_POINTS)
        report_dim(out, o->colour, "a trend needs %d snapshots: piano record --snapshot-every S",
                   GROWTH_TREND_POINTS);
    table_release(&t);
    return err;
}

/* ---- JSON ---- */

static void put_moment(struct json_writer *w, const char *key, const struct profile *heap,
                       const struct heap_growth *g, const struct recording_snapshot *s)
{
    uint64_t start = heap->rec.header.start_mono_ns;
    json_add_object(w, key);
    json_add_known(w, "snapshot", s != &g->end && s != &g->start, s->number);
    json_add_count(w, "at_ns", s->at_ns > start ? s->at_ns - start : 0);
    json_add_number(w, "live_bytes", figure_whole(s->live_bytes));
    json_close(w);
}

void heap_add_growth(struct json_writer *w, const struct profile *heap, const struct heap_growth *g)
{
    const struct view v = {heap, g};
    json_add_object(w, "growth");
    put_moment(w, "from", heap, g, g->from);
    put_moment(w, "to", heap, g, g->to);
    json_add_count(w, "snapshots", g->points);
    json_add_number(w, "allocated_bytes",
                    figure_whole(g->to->allocated_bytes - g->from->allocated_bytes));
    json_add_array(w, "sites");
    for (size_t i = 0; i < g->count; i++)
        sheet_put_row(w, columns, &v, &g->rows[i]);
    json_close(w);
    json_close(w);
}
