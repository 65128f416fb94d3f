/* `piano report --heap --growth`: the sites that hold more memory at one snapshot than at another. */
#include "tool/report/heap.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "tool/util/json.h"
#include "tool/util/table.h"
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

static int add_row(struct table *t, const struct profile *heap, const struct heap_growth *g,
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
        table_cell(t, row->variance > 0 ? heap_bytes(text, heap_growth_half_width(row)) : "");
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

int heap_print_growth(FILE *out, const struct profile *heap, const struct heap_growth *g,
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
    if (err == 0 && g->count > 0 && g->points < GROWTH_TREND_POINTS)
        report_dim(out, o->colour, "a trend needs %d snapshots: piano record --snapshot-every S",
                   GROWTH_TREND_POINTS);
    table_release(&t);
    return err;
}

/* ---- JSON ---- */

static void put_moment(struct buf *b, const char *key, const struct profile *heap,
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

void heap_put_growth(struct buf *b, const struct profile *heap, const struct heap_growth *g)
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
                   (long long)heap_whole(heap_growth_half_width(row)));
        if (trend)
            buf_printf(b, "\"%s\",\"bytes_per_second\":%.3f,\"correlation\":%.4f}", trend,
                       row->per_second, row->correlation);
        else
            buf_puts(b, "null,\"bytes_per_second\":null,\"correlation\":null}");
    }
    buf_puts(b, "]},\n");
}
