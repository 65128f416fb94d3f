/* `piano report --heap --json`; docs/json.md describes every key. Estimates are rounded to whole
 * bytes and objects; unknown values are null. */
#include "tool/report/heap.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tool/util/json.h"
#include "tool/util/paths.h"

static void put_number(struct buf *b, const char *key, double value)
{
    buf_printf(b, "\"%s\":%lld,", key, (long long)heap_whole(value));
}

/* Writes a time of CLOCK_MONOTONIC as time since the start. */
static void put_moment(struct buf *b, const char *key, const struct recording *rec, uint64_t at_ns)
{
    uint64_t start = rec->header.start_mono_ns;
    if (at_ns >= start)
        json_put_count(b, key, at_ns - start);
    else
        buf_printf(b, "\"%s\":null,", key);
}

static void put_interval(struct buf *b, const char *key, double low, double high)
{
    buf_printf(b, "\"%s\":[%lld,%lld],", key, (long long)heap_whole(low),
               (long long)heap_whole(high));
}

static void put_sum(struct buf *b, const struct recording *rec, const struct recording_sum *s)
{
    double low, high;
    int64_t median = recording_median_life(s);
    put_number(b, "live_bytes", s->live_bytes);
    recording_live_interval(rec, s, &low, &high);
    put_interval(b, "live_bytes_ci95", low, high);
    put_number(b, "live_objects", s->live_objects);
    put_number(b, "allocated_bytes", s->allocated_bytes);
    recording_allocated_interval(rec, s, &low, &high);
    put_interval(b, "allocated_bytes_ci95", low, high);
    put_number(b, "allocated_objects", s->allocated_objects);
    put_number(b, "freed_bytes", s->freed_bytes);
    put_number(b, "untracked_bytes", s->untracked_bytes);
    put_number(b, "freed_objects", s->freed_objects);
    put_number(b, "churn_bytes", recording_churn(s));
    json_put_count(b, "samples", s->samples);
    json_put_count(b, "freed_samples", s->freed_samples);
    json_put_count(b, "live_samples", s->live_samples);
    if (s->live_samples) {
        json_put_count(b, "size_min", s->size_min);
        json_put_count(b, "size_max", s->size_max);
        put_moment(b, "oldest_ns", rec, s->oldest_ns);
        put_moment(b, "newest_ns", rec, s->newest_ns);
    } else {
        buf_puts(b, "\"size_min\":null,\"size_max\":null,\"oldest_ns\":null,\"newest_ns\":null,");
    }
    if (median >= 0)
        buf_printf(b, "\"median_lifetime_ns\":%lld,", (long long)median);
    else
        buf_puts(b, "\"median_lifetime_ns\":null,");
    buf_puts(b, "\"lifetimes\":[");
    for (int i = 0; i < PIANO_LIFETIMES; i++)
        buf_printf(b, "%s%llu", i ? "," : "", (unsigned long long)s->lifetimes[i]);
    buf_puts(b, "],");
}

static void put_peak(struct buf *b, const struct recording *rec, const struct recording_sum *s)
{
    double low, high;
    put_number(b, "peak_bytes", s->peak_bytes);
    recording_peak_interval(rec, s, &low, &high);
    put_interval(b, "peak_bytes_ci95", low, high);
    put_number(b, "peak_objects", s->peak_objects);
}

/* ---- sites and places ---- */

void heap_put_frames(struct buf *b, const struct profile *heap, uint32_t stack,
                     const struct symbol_frame **frames)
{
    size_t count = profile_frames(heap, stack, frames);
    buf_puts(b, "\"stack\":[");
    for (size_t i = 0; i < count; i++) {
        const struct symbol_frame *f = frames[i];
        buf_puts(b, i ? ",{" : "{");
        json_put_text(b, "function", f->function);
        json_put_text(b, "module", f->module);
        json_put_text(b, "file", f->file);
        if (f->line)
            buf_printf(b, "\"line\":%u,", f->line);
        else
            buf_puts(b, "\"line\":null,");
        buf_printf(b, "\"inlined\":%s,\"python\":%s}", f->inlined ? "true" : "false",
                   f->python ? "true" : "false");
    }
    buf_puts(b, "]");
}

struct order {
    double figure;
    uint32_t index;
};

static int compare_order(const void *a, const void *b)
{
    const struct order *x = a, *y = b;
    if (x->figure > y->figure || x->figure < y->figure)
        return x->figure > y->figure ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

static struct order *stacks_by(const struct profile *heap, enum heap_by by, size_t *count)
{
    struct order *list = calloc(heap->rec.stack_count + 1, sizeof(*list));
    *count = 0;
    for (uint32_t i = 0; list && i < heap->rec.stack_count; i++)
        if (profile_has_site(heap, i))
            list[(*count)++] = (struct order){heap_figure(&heap->rec.stacks[i].sum, by), i};
    if (list && *count)
        qsort(list, *count, sizeof(*list), compare_order);
    return list;
}

static int put_sites(struct buf *b, FILE *out, const struct profile *heap, enum heap_by by,
                     size_t top)
{
    const struct symbol_frame **frames = calloc(PROFILE_MAX_FRAMES, sizeof(*frames));
    size_t count = 0;
    struct order *list = stacks_by(heap, by, &count);
    int err = frames && list ? 0 : -ENOMEM;
    count = top && count > top ? top : count;
    buf_puts(b, "\"sites\":[");
    for (size_t i = 0; i < count && err == 0; i++) {
        const struct recording_stack *s = &heap->rec.stacks[list[i].index];
        buf_puts(b, i ? ",\n{" : "\n{");
        put_sum(b, &heap->rec, &s->sum);
        put_peak(b, &heap->rec, &s->sum);
        json_put_text(b, "kind", s->flags & PIANO_STACK_MMAP ? "mmap" : "malloc");
        buf_printf(b, "\"truncated\":%s,",
                   s->flags & (PIANO_STACK_LOST | PIANO_STACK_FULL) ? "true" : "false");
        json_put_count(b, "site_frame", heap->stacks[list[i].index].site_frame);
        heap_put_frames(b, heap, list[i].index, frames);
        buf_putc(b, '}');
        err = buf_flush(b, out, false);
    }
    buf_puts(b, "\n],\n");
    free(list);
    free(frames);
    return err;
}

static int put_places(struct buf *b, FILE *out, const struct profile *heap, enum heap_by by,
                      size_t top)
{
    struct order *list = calloc(heap->site_count + 1, sizeof(*list));
    size_t count = heap->site_count;
    int err = list ? 0 : -ENOMEM;
    for (uint32_t i = 0; list && i < count; i++)
        list[i] = (struct order){heap_figure(&heap->sites[i].sum, by), i};
    if (list && count)
        qsort(list, count, sizeof(*list), compare_order);
    count = top && count > top ? top : count;
    buf_puts(b, "\"places\":[");
    for (size_t i = 0; i < count && err == 0; i++) {
        const struct heap_site *site = &heap->sites[list[i].index];
        buf_puts(b, i ? ",\n{" : "\n{");
        json_put_text(b, "function", site->function);
        json_put_text(b, "module", site->module);
        json_put_text(b, "file", site->file);
        if (site->line)
            buf_printf(b, "\"line\":%u,", site->line);
        else
            buf_puts(b, "\"line\":null,");
        json_put_text(b, "caller", site->caller);
        put_sum(b, &heap->rec, &site->sum);
        put_peak(b, &heap->rec, &site->sum);
        json_put_text(b, "kind", site->mmap ? "mmap" : "malloc");
        buf_printf(b, "\"stacks\":%u}", site->stacks);
        err = buf_flush(b, out, false);
    }
    buf_puts(b, "\n],\n");
    free(list);
    return err;
}

/* ---- the rest ---- */

static void put_snapshots(struct buf *b, const struct recording *rec)
{
    static const char *const kinds[] = {"other", "timer", "asked", "called"};
    buf_puts(b, "\"snapshots\":[");
    for (size_t i = 0; i < rec->snapshot_count; i++) {
        const struct recording_snapshot *s = &rec->snapshots[i];
        buf_puts(b, i ? ",\n{" : "\n{");
        json_put_count(b, "number", s->number);
        put_moment(b, "at_ns", rec, s->at_ns);
        json_put_text(b, "kind", kinds[s->kind < 4 ? s->kind : 0]);
        put_number(b, "live_bytes", s->live_bytes);
        put_number(b, "allocated_bytes", s->allocated_bytes);
        if (s->resident_bytes)
            json_put_count(b, "resident_bytes", s->resident_bytes);
        else
            buf_puts(b, "\"resident_bytes\":null,");
        buf_printf(b, "\"stacks\":%zu}", s->count);
    }
    buf_puts(b, "],\n");
}

static void put_health(struct buf *b, const struct piano__heap_stats *s)
{
    buf_puts(b, "\"stack_health\":{");
    json_put_count(b, "walked", s->walked);
    json_put_count(b, "lost", s->walked_lost);
    json_put_count(b, "full", s->walked_full);
    json_put_count(b, "by_frame_pointer", s->walked_by_fp);
    if (s->walked == 0) {
        buf_puts(b, "\"truncated_share\":null,\"mean_depth\":null,\"confidence\":null},\n");
        return;
    }
    double cut = ((double)s->walked_lost + (double)s->walked_full) / (double)s->walked;
    buf_printf(b, "\"truncated_share\":%.6f,\"mean_depth\":%.3f,\"confidence\":\"%s\"},\n", cut,
               (double)s->walked_frames / (double)s->walked,
               cut < 0.05    ? "high"
               : cut <= 0.20 ? "medium"
                             : "low");
}

static void put_dropped(struct buf *b, const struct recording *rec)
{
    const struct piano__heap_stats *s = &rec->header.stats;
    buf_printf(b,
               "\"dropped\":{\"live\":%llu,\"stacks\":%llu,\"memory\":%llu,\"busy\":%llu,"
               "\"stale\":%llu,\"map_partial\":%llu},\n",
               (unsigned long long)s->dropped_live, (unsigned long long)s->dropped_stacks,
               (unsigned long long)s->dropped_memory, (unsigned long long)s->dropped_busy,
               (unsigned long long)s->stale, (unsigned long long)s->map_partial);
    buf_printf(b,
               "\"stats\":{\"stacks\":%llu,\"collisions\":%llu,\"filter_passes\":%llu,"
               "\"filter_misses\":%llu,\"threads\":%llu,\"map_calls\":%llu},\n",
               (unsigned long long)s->stacks, (unsigned long long)s->collisions,
               (unsigned long long)s->filter_passes, (unsigned long long)s->filter_misses,
               (unsigned long long)s->threads, (unsigned long long)s->map_calls);
}

void heap_put_missing(struct buf *b, const struct recording *rec)
{
    size_t listed = rec->gap_count < RECORDING_GAPS ? rec->gap_count : RECORDING_GAPS;
    buf_puts(b, "\"missing\":{");
    json_put_count(b, "gaps", rec->gap_count);
    json_put_count(b, "unknown_chunks", rec->unknown_chunks);
    json_put_count(b, "unfinished_chunks", rec->unfinished_chunks);
    json_put_count(b, "partial_snapshots", rec->partial_snapshots);
    json_put_count(b, "bad_numbers", rec->bad_numbers);
    json_put_count(b, "samples_without_stack", rec->orphans);
    buf_puts(b, "\"list\":[");
    for (size_t i = 0; i < listed; i++) {
        buf_printf(b, "%s{\"byte\":%llu,", i ? "," : "", (unsigned long long)rec->gaps[i].from);
        buf_puts(b, "\"what\":");
        json_put_string(b, rec->gaps[i].what);
        buf_putc(b, '}');
    }
    buf_puts(b, "]}");
}

void heap_put_run(struct buf *b, const struct recording *rec)
{
    static const char *const ends[] = {"running", "exited", "killed", "unknown"};
    const struct piano__rec_header *h = &rec->header;
    char *stem = strdup(paths_base(rec->path)), *dot = stem ? strstr(stem, ".rec") : NULL;
    if (dot && dot > stem && dot[4] == '\0')
        *dot = '\0';
    buf_puts(b, "\"run\":{");
    json_put_text(b, "id", stem);
    json_put_text(b, "path", rec->path);
    json_put_text(b, "kind", "recording");
    json_put_text(b, "program", *h->program ? h->program : NULL);
    buf_puts(b, "\"command\":[");
    size_t len = sizeof(h->command) - 1;
    while (len > 0 && h->command[len - 1] == '\0')
        len--;
    for (size_t at = 0; at < len; at += strlen(h->command + at) + 1) {
        buf_puts(b, at ? "," : "");
        json_put_string(b, h->command + at);
    }
    buf_puts(b, "],");
    json_put_count(b, "pid", h->pid);
    json_put_count(b, "parent_pid", h->parent);
    json_put_count(b, "timestamp_ms", h->start_real_ns / 1000000);
    if (rec->duration_ns >= 0)
        json_put_count(b, "wall_ns", (uint64_t)rec->duration_ns);
    else
        buf_puts(b, "\"wall_ns\":null,");
    buf_printf(b, "\"wall_at_least\":%s,", rec->duration_atleast ? "true" : "false");
    json_put_text(b, "end", ends[rec->end]);
    if (rec->end == RECORDING_EXITED && rec->status >= 0)
        buf_printf(b, "\"exit_status\":%d,", rec->status);
    else
        buf_puts(b, "\"exit_status\":null,");
    if (rec->end == RECORDING_KILLED)
        buf_printf(b, "\"signal\":%d,", rec->status);
    else
        buf_puts(b, "\"signal\":null,");
    json_put_count(b, "rate", h->rate);
    buf_printf(b, "\"rates\":[%llu,%llu],", (unsigned long long)rec->rate_low,
               (unsigned long long)rec->rate_high);
    buf_printf(b, "\"maps\":%s,\"child\":%s,\"format_version\":%u}",
               h->flags & PIANO_REC_HAS_MAPS ? "true" : "false",
               h->flags & PIANO_REC_CHILD ? "true" : "false", h->version);
    free(stem);
}

int heap_report_json(FILE *out, const struct profile *heap, const struct heap_options *h,
                     const struct report_options *o)
{
    const struct recording *rec = &heap->rec;
    enum heap_by by = h->mode == HEAP_AT_PEAK ? HEAP_PEAK : h->by;
    struct buf b = {0};
    int err = 0;
    buf_putc(&b, '{');
    put_sum(&b, rec, &rec->total);
    put_number(&b, "peak_bytes", rec->header.peak_bytes);
    put_number(&b, "peak_objects", rec->header.peak_objects);
    if (rec->header.peak_bytes > 0)
        put_moment(&b, "peak_at_ns", rec, rec->header.peak_ns);
    else
        buf_puts(&b, "\"peak_at_ns\":null,");
    if (heap_resident(rec) > 0)
        json_put_count(&b, "resident_bytes_max", heap_resident(rec));
    else
        buf_puts(&b, "\"resident_bytes_max\":null,");
    buf_putc(&b, '\n');
    err = put_sites(&b, out, heap, by, o->top);
    if (err == 0)
        err = put_places(&b, out, heap, by, o->top);
    put_snapshots(&b, rec);
    put_health(&b, &rec->header.stats);
    put_dropped(&b, rec);
    heap_put_missing(&b, rec);
    buf_puts(&b, ",\n");
    if (err == 0 && h->mode == HEAP_TREE) {
        heap_put_tree(&b, heap, h->by, &err);
        buf_puts(&b, ",\n");
    }
    if (err == 0 && h->growth)
        heap_put_growth(&b, heap, h->growth);
    heap_put_run(&b, rec);
    buf_puts(&b, "}\n");
    if (err == 0)
        err = buf_flush(&b, out, true);
    buf_free(&b);
    return err;
}
