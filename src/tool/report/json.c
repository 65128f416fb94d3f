/* Shared by the JSON reports. Numbers are written as integers, unknown values as null. The text
 * is flushed in parts, so that a million frames need little memory. */
#include "tool/report/report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/load/estimates.h"
#include "tool/report/heap.h"
#include "tool/util/json.h"
#include "tool/util/paths.h"

/* Writes the name of a run in the runs directory: its file name without the extension. */
static void put_stem(struct buf *b, const char *path)
{
    char *stem = strdup(paths_base(path));
    char *dot = stem ? strrchr(stem, '.') : NULL;
    if (dot && dot > stem)
        *dot = '\0';
    json_put_text(b, "id", stem);
    free(stem);
}

void report_put_run(struct buf *b, const struct run *run)
{
    buf_puts(b, "\"run\":{");
    put_stem(b, run->path);
    json_put_text(b, "run_id", run->run_id);
    json_put_text(b, "path", run->path);
    json_put_text(b, "recording", run->companion);
    json_put_text(b, "program", run->program);
    json_put_text(b, "clock", run->clock);
    buf_printf(b, "\"timestamp_ms\":%lld,\"format_version\":%d,\"wall_ns\":",
               (long long)run->timestamp_ms, run->format);
    if (run->wall_ns >= 0)
        buf_printf(b, "%lld", (long long)run->wall_ns);
    else
        buf_puts(b, "null");
    buf_printf(b, ",\"corrected\":%s,\"clean_exit\":", run->uncorrected ? "false" : "true");
    buf_puts(b, run->ended ? "true" : run->by_piano ? "false" : "null");
    buf_printf(b,
               ",\"recovered\":%s,\"truncated\":%s,\"unreadable_lines\":%llu,\"saturated\":%llu}",
               run->recovered ? "true" : "false", run->truncated ? "true" : "false",
               (unsigned long long)run->bad_lines, (unsigned long long)run->saturated);
    buf_puts(b, ",\"dropped\":{");
    for (int k = 0; k < RUN_DROP_KINDS; k++)
        buf_printf(b, "%s\"%s\":%lld", k ? "," : "", run_drop_names[k], (long long)run->dropped[k]);
    buf_putc(b, '}');
}

void report_put_known(struct buf *b, const char *key, bool known, int64_t value)
{
    if (known)
        buf_printf(b, "\"%s\":%lld", key, (long long)value);
    else
        buf_printf(b, "\"%s\":null", key);
}

/* Writes the 95 % interval of NS, HALF to either side; its lower end is at least zero. */
static void put_interval(struct buf *b, const char *key, int64_t ns, int64_t half)
{
    int64_t from = saturating_add(ns, -half), to = saturating_add(ns, half);
    buf_printf(b, ",\"%s\":[%lld,%lld]", key, (long long)(from < 0 && ns >= 0 ? 0 : from),
               (long long)to);
}

void report_put_budget(struct buf *b, const struct run *run)
{
    if (run->budget_ns > 0)
        buf_printf(b, "\"budget_ns\":%lld,\n", (long long)run->budget_ns);
    else
        buf_puts(b, "\"budget_ns\":null,\n");
}

void report_put_tally(struct buf *b, const struct run *run, uint32_t fn, const struct tally *sum)
{
    const struct run_fn *f = &run->fns[fn];
    json_put_text(b, "name", f->name);
    json_put_text(b, "file", f->file);
    if (f->line > 0)
        buf_printf(b, "\"line\":%lld,", (long long)f->line);
    else
        buf_puts(b, "\"line\":null,");
    buf_printf(b, "\"calls\":%lld,\"self_ns\":%lld,\"total_ns\":", (long long)sum->calls,
               (long long)sum->self_ns);
    if (sum->has_total)
        buf_printf(b, "%lld", (long long)sum->total_ns);
    else
        buf_puts(b, "null");
    put_interval(b, "self_ci95", sum->self_ns, estimates_self_half(sum));
    if (sum->has_total)
        put_interval(b, "total_ci95", sum->total_ns, estimates_total_half(sum));
    else
        buf_puts(b, ",\"total_ci95\":null");
    buf_printf(
        b,
        ",\"alloc_count\":%lld,\"alloc_bytes\":%lld,\"free_count\":%lld,"
        "\"free_bytes\":%lld,\"timed_calls\":%lld,\"sampled\":%s,\"estimated\":%s,\"disputed\":%s",
        (long long)sum->alloc_count, (long long)sum->alloc_bytes, (long long)sum->free_count,
        (long long)sum->free_bytes, (long long)sum->timed,
        run_is_sampled(run, fn, sum) ? "true" : "false",
        run_is_estimated(run, fn, sum) ? "true" : "false", sum->disputed ? "true" : "false");
    buf_putc(b, ',');
    report_put_known(b, "cpu_self_ns", sum->has_cpu, tally_self_cpu(sum));
    buf_putc(b, ',');
    report_put_known(b, "runq_self_ns", sum->has_cpu, sum->runq_ns);
}

/* ---- recordings ---- */

void report_put_source(struct json_writer *w, const struct recording *rec)
{
    static const char *const sources[] = {"none", "cpu-clock", "cycles", "timers"};
    const struct piano__trace *t = &rec->header.trace;
    json_add_text(w, "source", sources[t->cpu_source < 4 ? t->cpu_source : 0]);
    json_add_count(w, "hz", t->cpu_hz);
}

void report_put_stack(struct json_writer *w, const struct profile *p, uint32_t stack,
                      const struct symbol_frame **frames)
{
    size_t count = profile_frames(p, stack, frames);
    json_add_array(w, "stack");
    for (size_t i = 0; i < count; i++) {
        const struct symbol_frame *f = frames[i];
        json_add_object(w, NULL);
        json_add_text(w, "function", f->function);
        json_add_text(w, "module", f->module);
        json_add_text(w, "file", f->file);
        json_add_known(w, "line", f->line > 0, f->line);
        json_add_flag(w, "inlined", f->inlined);
        json_add_flag(w, "python", f->python);
        json_close(w);
    }
    json_close(w);
}

void report_put_missing(struct json_writer *w, const struct recording *rec)
{
    size_t listed = rec->gap_count < RECORDING_GAPS ? rec->gap_count : RECORDING_GAPS;
    json_line(w);
    json_add_object(w, "missing");
    json_add_count(w, "gaps", rec->gap_count);
    json_add_count(w, "unknown_chunks", rec->unknown_chunks);
    json_add_count(w, "unfinished_chunks", rec->unfinished_chunks);
    json_add_count(w, "partial_snapshots", rec->partial_snapshots);
    json_add_count(w, "bad_numbers", rec->bad_numbers);
    json_add_count(w, "samples_without_stack", rec->orphans);
    json_add_array(w, "list");
    for (size_t i = 0; i < listed; i++) {
        json_add_object(w, NULL);
        json_add_count(w, "byte", rec->gaps[i].from);
        json_add_text(w, "what", rec->gaps[i].what);
        json_close(w);
    }
    json_close(w);
    json_close(w);
}

static void put_command(struct json_writer *w, const struct piano__rec_header *h)
{
    size_t len = sizeof(h->command) - 1;
    while (len > 0 && h->command[len - 1] == '\0')
        len--;
    json_add_array(w, "command");
    for (size_t at = 0; at < len; at += strlen(h->command + at) + 1)
        json_add_text(w, NULL, h->command + at);
    json_close(w);
}

void report_put_recording(struct json_writer *w, const struct recording *rec)
{
    static const char *const ends[] = {"running", "exited", "killed", "unknown"};
    const struct piano__rec_header *h = &rec->header;
    char *stem = strdup(paths_base(rec->path)), *dot = stem ? strstr(stem, ".rec") : NULL;
    if (dot && dot > stem && dot[4] == '\0')
        *dot = '\0';
    json_line(w);
    json_add_object(w, "run");
    json_add_text(w, "id", stem);
    json_add_text(w, "path", rec->path);
    json_add_text(w, "kind", "recording");
    json_add_text(w, "program", *h->program ? h->program : NULL);
    put_command(w, h);
    json_add_count(w, "pid", h->pid);
    json_add_count(w, "parent_pid", h->parent);
    json_add_count(w, "timestamp_ms", h->start_real_ns / 1000000);
    json_add_known(w, "wall_ns", rec->duration_ns >= 0, rec->duration_ns);
    json_add_flag(w, "wall_at_least", rec->duration_atleast);
    json_add_text(w, "end", ends[rec->end]);
    json_add_known(w, "exit_status", rec->end == RECORDING_EXITED && rec->status >= 0, rec->status);
    json_add_known(w, "signal", rec->end == RECORDING_KILLED, rec->status);
    json_add_count(w, "rate", h->rate);
    json_add_array(w, "rates");
    json_add_count(w, NULL, rec->rate_low);
    json_add_count(w, NULL, rec->rate_high);
    json_close(w);
    json_add_flag(w, "maps", h->flags & PIANO_REC_HAS_MAPS);
    json_add_flag(w, "child", h->flags & PIANO_REC_CHILD);
    json_add_count(w, "format_version", h->version);
    json_close(w);
    free(stem);
}
