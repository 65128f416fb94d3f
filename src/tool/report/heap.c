/* `piano report --heap`: a summary in a few lines, then sites by live, allocated and short-lived
 * memory. docs/json.md describes every key of the JSON. Estimates are rounded to whole bytes and
 * objects there. */
#include "tool/report/heap.h"

#include <errno.h>
#include <stdlib.h>

#include "tool/report/processes.h"
#include "tool/util/order.h"
#include "tool/util/sheet.h"
#include "tool/util/units.h"

enum { HEAP_TOP = 10, SOON_BUCKET = 10 };

struct view {
    const struct profile *heap;
    enum figure by;                     /* the figure that ranks the table */
    double all;                         /* its sum */
    const struct symbol_frame **frames; /* PROFILE_MAX_FRAMES, for the stacks in JSON */
};

/* ---- columns ---- */

/* Positions in the table; the names of sites come first. */
enum { AT_FIGURE = 1, AT_SHARE, AT_DETAILS, AT_OTHER, AT_PLACE, AT_CALLERS };

typedef void interval(const struct recording *rec, const struct recording_sum *sum, double *low,
                      double *high);

/* Half of the 95 % interval of the figure; 0: it is exact. */
static double half_width(const struct view *v, const struct recording_sum *sum)
{
    interval *of = v->by == FIGURE_LIVE   ? recording_live_interval
                   : v->by == FIGURE_PEAK ? recording_peak_interval
                                          : recording_allocated_interval;
    double low, high;
    of(&v->heap->rec, sum, &low, &high);
    return high - figure_value(sum, v->by);
}

static void put_interval(struct json_writer *w, const char *key, interval *of,
                         const struct recording *rec, const struct recording_sum *sum)
{
    double low, high;
    of(rec, sum, &low, &high);
    json_add_range(w, key, figure_whole(low), figure_whole(high));
}

static void put_whole_peak(struct json_writer *w, const struct recording *rec)
{
    double low, high;
    recording_whole_peak_interval(rec, &low, &high);
    json_add_range(w, "peak_bytes_ci95", figure_whole(low), figure_whole(high));
}

/* Adds a time of CLOCK_MONOTONIC as time since the start. */
static void put_moment(struct json_writer *w, const char *key, const struct recording *rec,
                       bool known, uint64_t at_ns)
{
    uint64_t start = rec->header.start_mono_ns;
    json_add_known_count(w, key, known && at_ns >= start, at_ns - start);
}

/* Members of a sum that are in no table. */
static void put_details(struct json_writer *w, const struct recording *rec,
                        const struct recording_sum *sum)
{
    bool live = sum->live_samples > 0;
    json_add_count(w, "samples", sum->samples);
    json_add_count(w, "freed_samples", sum->freed_samples);
    json_add_count(w, "live_samples", sum->live_samples);
    json_add_known_count(w, "size_min", live, sum->size_min);
    json_add_known_count(w, "size_max", live, sum->size_max);
    put_moment(w, "oldest_ns", rec, live, sum->oldest_ns);
    put_moment(w, "newest_ns", rec, live, sum->newest_ns);
}

/* The columns that depend on what the table is ranked by. */
static void ranked_columns(struct sheet *s, const struct view *v, const struct recording_sum *sum)
{
    double value = figure_value(sum, v->by);
    uint64_t freed = recording_freed_within(sum, PIANO_LIFETIMES - 1);
    uint64_t soon = recording_freed_within(sum, SOON_BUCKET);
    SHEET(s, SHARE, NULL, "%", .real = v->all > 0 ? value / v->all : 0, .optional = 2,
          .place = AT_SHARE);
    if (v->by == FIGURE_CHURN) {
        SHEET(s, SHARE, NULL, "<1ms", .real = (double)soon / (double)(freed ? freed : 1),
              .place = AT_DETAILS);
        return;
    }
    double half = half_width(v, sum);
    SHEET(s, BYTES, NULL, "+-", .number = figure_whole(half), .shown = half > 0 ? NULL : "",
          .optional = 3, .place = AT_SHARE);
}

static void sum_columns(struct sheet *s, const void *ctx, const void *of)
{
    const struct view *v = ctx;
    const struct recording *rec = &v->heap->rec;
    const struct recording_sum *sum = of;
    bool live = v->by == FIGURE_LIVE, allocated = v->by == FIGURE_ALLOCATED,
         churn = v->by == FIGURE_CHURN;
    int64_t median = recording_median_life(sum);
    SHEET(s, BYTES, "live_bytes", churn ? NULL : "Live", .number = figure_whole(sum->live_bytes),
          .place = live ? AT_FIGURE : AT_OTHER, .optional = live ? 0 : -5);
    if (s->json)
        put_interval(s->json, "live_bytes_ci95", recording_live_interval, rec, sum);
    SHEET(s, COUNT, "live_objects", live ? "Objects" : NULL,
          .number = figure_whole(sum->live_objects), .place = AT_DETAILS, .optional = -4);
    SHEET(s, BYTES, "allocated_bytes", live || allocated ? "Allocated" : NULL,
          .number = figure_whole(sum->allocated_bytes), .place = allocated ? AT_FIGURE : AT_OTHER,
          .optional = allocated ? 0 : -5);
    if (s->json)
        put_interval(s->json, "allocated_bytes_ci95", recording_allocated_interval, rec, sum);
    SHEET(s, COUNT, "allocated_objects", allocated ? "Objects" : NULL,
          .number = figure_whole(sum->allocated_objects), .place = AT_DETAILS, .optional = -4);
    SHEET(s, BYTES, "freed_bytes", churn ? "Freed" : NULL, .number = figure_whole(sum->freed_bytes),
          .place = AT_DETAILS, .optional = -4);
    SHEET(s, BYTES, "untracked_bytes", NULL, .number = figure_whole(sum->untracked_bytes));
    SHEET(s, COUNT, "freed_objects", NULL, .number = figure_whole(sum->freed_objects));
    SHEET(s, BYTES, "churn_bytes", churn ? "Churn" : NULL,
          .number = figure_whole(recording_churn(sum)), .place = AT_FIGURE);
    if (s->json)
        put_details(s->json, rec, sum);
    if (s->table)
        ranked_columns(s, v, sum);
    SHEET(s, TIME, "median_lifetime_ns", churn ? "Median life" : NULL, .number = median,
          .unknown = median < 0, .place = AT_DETAILS, .optional = -1);
    if (!s->json)
        return;
    json_add_array(s->json, "lifetimes");
    for (int i = 0; i < PIANO_LIFETIMES; i++)
        json_add_count(s->json, NULL, sum->lifetimes[i]);
    json_close(s->json);
}

static void peak_columns(struct sheet *s, const struct view *v, const struct recording_sum *sum)
{
    bool peak = v->by == FIGURE_PEAK;
    bool known = recording_is_one_heap(&v->heap->rec);
    SHEET(s, BYTES, "peak_bytes", peak ? "At peak" : NULL, .number = figure_whole(sum->peak_bytes),
          .unknown = !known, .place = AT_FIGURE);
    if (s->json && known)
        put_interval(s->json, "peak_bytes_ci95", recording_peak_interval, &v->heap->rec, sum);
    else if (s->json)
        json_add_null(s->json, "peak_bytes_ci95");
    SHEET(s, COUNT, "peak_objects", peak ? "Objects" : NULL,
          .number = figure_whole(sum->peak_objects), .unknown = !known, .place = AT_DETAILS,
          .optional = -4);
}

/* The row is the number of a site. */
static void site_columns(struct sheet *s, const void *ctx, const void *of)
{
    const struct view *v = ctx;
    const struct heap_site *site = &v->heap->sites[*(const uint32_t *)of];
    char place[700] = "";
    char *name = s->table ? profile_safe_name(site->function, site->mmap) : NULL;
    uint32_t leader = heap_leader(v->heap, site, v->by);
    char *callers = s->table ? heap_callers_text(v->heap, site, leader) : NULL;
    SHEET(s, TEXT, "function", "Site", .text = site->function, .shown = name);
    SHEET(s, TEXT, "module", NULL, .text = site->module);
    SHEET(s, TEXT, "file", "Place", .text = site->file, .place = AT_PLACE, .optional = -3,
          .shown = s->table ? heap_place(place, sizeof(place), site->file, site->line) : NULL);
    SHEET(s, COUNT, "line", NULL, .count = site->line, .unknown = site->line == 0);
    SHEET(s, TEXT, "caller", "Called by", .text = site->caller, .shown = callers,
          .place = AT_CALLERS, .optional = -2);
    heap_put_callers(s, v->heap, leader);
    sum_columns(s, v, &site->sum);
    peak_columns(s, v, &site->sum);
    SHEET(s, TEXT, "kind", NULL, .text = site->mmap ? "mmap" : "malloc");
    SHEET(s, COUNT, "stacks", NULL, .count = site->stacks);
    free(name);
    free(callers);
}

/* ---- tables ---- */

static void print_heading(FILE *out, enum figure by, const struct recording *rec,
                          const struct report_options *o)
{
    const char *texts[FIGURES_OF_HEAP] = {
        rec->end == RECORDING_RUNNING ? "Who holds memory now" : "Who held memory at the end",
        "Who asked for memory, over the whole run", "Who held memory at the peak",
        "Who asked for memory and freed it within about 1 ms"};
    report_heading(out, o->colour, texts[by]);
}

static int print_table(FILE *out, const struct profile *heap, enum figure by,
                       const struct report_options *o)
{
    struct view v = {.heap = heap, .by = by};
    struct table t = {.cells = NULL};
    size_t count = 0;
    uint32_t *sites = heap_sorted(heap, by, &count);
    size_t top = o->all ? count : o->top ? o->top : HEAP_TOP, shown = count < top ? count : top;
    double rest = 0;
    char text[UNITS_LEN];
    int err = sites ? 0 : -ENOMEM;
    for (size_t i = 0; i < heap->site_count; i++)
        v.all += figure_value(&heap->sites[i].sum, by);
    print_heading(out, by, &heap->rec, o);
    if (err == 0 && count == 0) {
        fputs("no samples\n", out);
        free(sites);
        return 0;
    }
    for (size_t i = 0; i < shown && err == 0; i++)
        sheet_table(&t, site_columns, &v, &sites[i]);
    for (size_t i = shown; err == 0 && i < count; i++)
        rest += figure_value(&heap->sites[sites[i]].sum, by);
    if (err == 0)
        err = table_print(&t, out, o->width, o->colour);
    if (err == 0 && shown < count)
        report_dim(out, o->colour, "%zu more site%s with %s%s", count - shown,
                   count - shown == 1 ? "" : "s", figure_bytes(text, rest),
                   o->top ? "" : ": --all");
    table_release(&t);
    free(sites);
    return err;
}

static int print_tables(FILE *out, const struct profile *heap, const struct heap_options *h,
                        const struct report_options *o)
{
    static const enum figure usual[] = {FIGURE_LIVE, FIGURE_ALLOCATED, FIGURE_CHURN};
    if (h->mode == HEAP_AT_PEAK)
        return print_table(out, heap, FIGURE_PEAK, o);
    int err = 0;
    if (!h->by_given && h->by == FIGURE_LIVE && heap_is_past_peak(heap))
        err = print_table(out, heap, FIGURE_PEAK, o);
    if (err == 0)
        err = print_table(out, heap, h->by, o);
    for (size_t i = 0; i < 3 && err == 0; i++)
        if (usual[i] != h->by)
            err = print_table(out, heap, usual[i], o);
    return err;
}

int heap_report(FILE *out, const struct profile *heap, const struct heap_options *h,
                const struct report_options *o)
{
    int err = 0;
    heap_print_answer(out, heap, o);
    switch (h->mode) {
    case HEAP_TREE:
        err = heap_print_tree(out, heap, h->by, o);
        break;
    case HEAP_LEAKS:
        err = heap_print_leaks(out, heap, o);
        break;
    case HEAP_GROWTH:
        err = heap_print_growth(out, heap, h->growth, o);
        break;
    default:
        err = print_tables(out, heap, h, o);
    }
    if (err == 0) {
        if (!heap->rec.range.given)
            heap_print_past_peak(out, heap, h, o);
        if (h->mode != HEAP_TREE && h->mode != HEAP_LEAKS)
            heap_print_wrappers(out, heap, o);
    }
    return err;
}

/* ---- JSON ---- */

/* Sites, or stacks with a site, by their figure, at most TOP if that is not 0; NULL: no memory. */
static struct order_ranked *sorted(const struct view *v, bool stacks, size_t top, size_t *count)
{
    size_t all = stacks ? v->heap->rec.stack_count : v->heap->site_count;
    struct order_ranked *list = calloc(all + 1, sizeof(*list));
    *count = 0;
    for (uint32_t i = 0; list && i < all; i++) {
        const struct recording_sum *sum =
            stacks ? &v->heap->rec.stacks[i].sum : &v->heap->sites[i].sum;
        if (!stacks || profile_has_site(v->heap, i))
            list[(*count)++] = (struct order_ranked){figure_value(sum, v->by), i};
    }
    if (list && *count)
        qsort(list, *count, sizeof(*list), order_ranked);
    *count = top && *count > top ? top : *count;
    return list;
}

/* The columns of a stack, which are in no table. The row is its number. */
static void stack_columns(struct sheet *s, const void *ctx, const void *of)
{
    const struct view *v = ctx;
    uint32_t index = *(const uint32_t *)of;
    const struct recording_stack *stack = &v->heap->rec.stacks[index];
    bool cut = stack->flags & (PIANO_STACK_LOST | PIANO_STACK_FULL);
    sum_columns(s, v, &stack->sum);
    peak_columns(s, v, &stack->sum);
    SHEET(s, TEXT, "kind", NULL, .text = stack->flags & PIANO_STACK_MMAP ? "mmap" : "malloc");
    SHEET(s, FLAG, "truncated", NULL, .count = cut);
    SHEET(s, COUNT, "site_frame", NULL, .count = v->heap->stacks[index].site_frame);
    report_put_stack(s->json, v->heap, index, v->frames);
}

static void put_rows(struct json_writer *w, const struct view *v, const char *key, bool stacks,
                     size_t top)
{
    size_t count = 0;
    struct order_ranked *list = sorted(v, stacks, top, &count);
    json_keep_error(w, list ? 0 : -ENOMEM);
    json_line(w);
    json_add_array(w, key);
    for (size_t i = 0; list && i < count && w->err == 0; i++)
        sheet_put_row(w, stacks ? stack_columns : site_columns, v, &list[i].index);
    json_line(w);
    json_close(w);
    free(list);
}

static void put_snapshots(struct json_writer *w, const struct recording *rec)
{
    static const char *const kinds[] = {"other", "timer", "asked", "called"};
    json_line(w);
    json_add_array(w, "snapshots");
    for (size_t i = 0; i < rec->snapshot_count; i++) {
        const struct recording_snapshot *s = &rec->snapshots[i];
        json_add_row(w);
        json_add_count(w, "number", s->number);
        put_moment(w, "at_ns", rec, true, s->at_ns);
        json_add_text(w, "kind", kinds[s->kind < 4 ? s->kind : 0]);
        json_add_number(w, "live_bytes", figure_whole(s->live_bytes));
        json_add_number(w, "allocated_bytes", figure_whole(s->allocated_bytes));
        json_add_known_count(w, "resident_bytes", s->resident_bytes > 0, s->resident_bytes);
        json_add_count(w, "stacks", s->count);
        json_close(w);
    }
    json_close(w);
}

/* Functions that the recording shows to be wrappers. */
static void put_wrappers(struct json_writer *w, const struct profile *heap)
{
    json_line(w);
    json_add_array(w, "wrappers_found");
    for (size_t i = 0; i < heap->found.count; i++)
        json_add_text(w, NULL, heap->found.names[i]);
    json_close(w);
}

static void put_health(struct json_writer *w, const struct piano__heap_stats *s)
{
    json_line(w);
    json_add_object(w, "stack_health");
    json_add_count(w, "walked", s->walked);
    json_add_count(w, "lost", s->walked_lost);
    json_add_count(w, "full", s->walked_full);
    json_add_count(w, "by_frame_pointer", s->walked_by_fp);
    if (s->walked > 0) {
        json_add_real(w, "truncated_share", 6, heap_cut_share(s));
        json_add_real(w, "mean_depth", 3, (double)s->walked_frames / (double)s->walked);
        json_add_text(w, "confidence", heap_confidence(s));
    } else {
        json_add_null(w, "truncated_share");
        json_add_null(w, "mean_depth");
        json_add_null(w, "confidence");
    }
    json_close(w);
}

static void put_stats(struct json_writer *w, const struct piano__heap_stats *s)
{
    json_line(w);
    json_add_object(w, "dropped");
    json_add_count(w, "live", s->dropped_live);
    json_add_count(w, "stacks", s->dropped_stacks);
    json_add_count(w, "memory", s->dropped_memory);
    json_add_count(w, "busy", s->dropped_busy);
    json_add_count(w, "stale", s->stale);
    json_add_count(w, "map_partial", s->map_partial);
    json_close(w);
    json_line(w);
    json_add_object(w, "stats");
    json_add_count(w, "stacks", s->stacks);
    json_add_count(w, "collisions", s->collisions);
    json_add_count(w, "filter_passes", s->filter_passes);
    json_add_count(w, "filter_misses", s->filter_misses);
    json_add_count(w, "threads", s->threads);
    json_add_count(w, "map_calls", s->map_calls);
    json_close(w);
}

/* Sums, sites and the peak are those of the whole recording: they are not known for a range. */
static void put_unknown(struct json_writer *w)
{
    static const char *const sums[] = {
        "live_bytes",      "live_bytes_ci95",      "live_objects",
        "allocated_bytes", "allocated_bytes_ci95", "allocated_objects",
        "freed_bytes",     "freed_objects",        "samples",
        "peak_bytes",      "peak_objects",         "peak_at_ns"};
    for (size_t i = 0; i < sizeof(sums) / sizeof(*sums); i++)
        json_add_null(w, sums[i]);
    json_add_array(w, "sites");
    json_close(w);
    json_add_array(w, "places");
    json_close(w);
}

static void put_whole(struct json_writer *w, const struct view *v, const struct report_options *o)
{
    const struct recording *rec = &v->heap->rec;
    sheet_put(w, sum_columns, v, &rec->total);
    bool known = recording_is_one_heap(rec);
    json_add_known(w, "peak_bytes", known, figure_whole(rec->header.peak_bytes));
    if (known)
        put_whole_peak(w, rec);
    else
        json_add_null(w, "peak_bytes_ci95");
    json_add_known(w, "peak_objects", known, figure_whole(rec->header.peak_objects));
    put_moment(w, "peak_at_ns", rec, rec->header.peak_bytes > 0, rec->header.peak_ns);
    json_add_known_count(w, "resident_bytes_max", heap_resident(rec) > 0, heap_resident(rec));
    put_rows(w, v, "sites", true, o->top);
    put_rows(w, v, "places", false, o->top);
}

int heap_report_json(FILE *out, const struct profile *heap, const struct heap_options *h,
                     const struct report_options *o)
{
    const struct recording *rec = &heap->rec;
    const struct view v = {.heap = heap,
                           .by = h->mode == HEAP_AT_PEAK ? FIGURE_PEAK : h->by,
                           .frames = calloc(PROFILE_MAX_FRAMES, sizeof(*v.frames))};
    struct json_writer w = {.out = out, .err = v.frames ? 0 : -ENOMEM};
    json_add_object(&w, NULL);
    if (rec->range.given && h->mode == HEAP_GROWTH) /* a page shows the whole memory */
        put_unknown(&w);
    else
        put_whole(&w, &v, o);
    put_snapshots(&w, rec);
    put_health(&w, &rec->header.stats);
    put_wrappers(&w, heap);
    put_stats(&w, &rec->header.stats);
    report_put_missing(&w, rec);
    if (h->mode == HEAP_TREE)
        report_put_tree(&w, heap, h->by);
    json_line(&w);
    if (h->growth)
        heap_add_growth(&w, heap, h->growth);
    if (rec->family)
        processes_put(&w, heap, NULL);
    report_put_recording(&w, rec);
    free(v.frames);
    return json_finish(&w);
}
