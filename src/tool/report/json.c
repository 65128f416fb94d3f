/* Parts that JSON reports share. Numbers are written as integers, unknown values as null. */
#include "tool/report/heap.h"

#include <stdlib.h>
#include <string.h>

#include "tool/load/own.h"
#include "tool/load/coverage.h"
#include "tool/util/paths.h"

/* The name of a run in the runs directory: its file name without the extension. */
static void put_stem(struct json_writer *w, const char *path)
{
    char *stem = strdup(paths_base(path));
    char *dot = stem ? strrchr(stem, '.') : NULL;
    if (dot && dot > stem)
        *dot = '\0';
    json_add_text(w, "id", stem);
    free(stem);
}

/* In a run or recording from START to END. */
static void put_range(struct json_writer *w, const struct range *r, uint64_t start, uint64_t end)
{
    uint64_t to = r->to_ns < end ? r->to_ns : end;
    if (!r->given) {
        json_add_null(w, "range");
        return;
    }
    json_add_object(w, "range");
    json_add_count(w, "from_ns", r->from_ns - start);
    json_add_count(w, "to_ns", to - start);
    json_close(w);
}

void report_put_run(struct json_writer *w, const struct run *run)
{
    json_line(w);
    json_add_object(w, "run");
    put_stem(w, run->path);
    json_add_text(w, "run_id", run->run_id);
    json_add_text(w, "path", run->path);
    json_add_text(w, "recording", run->companion);
    json_add_text(w, "program", run->program);
    json_add_text(w, "clock", run->clock);
    json_add_number(w, "timestamp_ms", run->timestamp_ms);
    json_add_number(w, "format_version", run->format);
    json_add_known(w, "wall_ns", run->wall_ns >= 0, run->wall_ns);
    json_add_flag(w, "corrected", !run->uncorrected);
    json_add_known(w, "probes_ns", run_probes(run) > 0, run_probes(run));
    if (run->ended || run->by_piano)
        json_add_flag(w, "clean_exit", run->ended);
    else
        json_add_null(w, "clean_exit");
    json_add_flag(w, "recovered", run->recovered);
    json_add_flag(w, "truncated", run->truncated);
    json_add_count(w, "unreadable_lines", run->bad_lines);
    json_add_count(w, "saturated", run->saturated);
    put_range(w, &run->range, 0, (uint64_t)INT64_MAX);
    json_close(w);
    json_add_object(w, "dropped");
    for (int k = 0; k < RUN_DROP_KINDS; k++)
        json_add_number(w, run_drop_names[k], run->dropped[k]);
    json_close(w);
}

void report_put_budget(struct json_writer *w, const struct run *run)
{
    json_line(w);
    json_add_known(w, "budget_ns", run->budget_ns > 0, run->budget_ns);
}

/* ---- recordings ---- */

void report_put_source(struct json_writer *w, const struct recording *rec)
{
    static const char *const sources[] = {"none", "cpu-clock", "cycles", "timers"};
    const struct piano__trace *t = &rec->header.trace;
    json_add_text(w, "source", sources[t->cpu_source < 4 ? t->cpu_source : 0]);
    json_add_count(w, "hz", t->cpu_hz);
}

void report_put_coverage(struct json_writer *w, const struct piano__trace *t)
{
    struct coverage c = coverage_of(t);
    json_add_known_count(w, "kernel_cpu_ns", c.is_known, c.kernel_ns);
    if (c.is_known)
        json_add_real(w, "coverage", 4, c.share);
    else
        json_add_null(w, "coverage");
    json_add_flag(w, "incomplete", c.is_short);
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

static void put_fired(struct json_writer *w, const struct piano__rec_header *h)
{
    const size_t room = sizeof(h->fires) / sizeof(*h->fires);
    json_add_array(w, "fired");
    for (uint64_t i = h->fired > room ? h->fired - room : 0; i < h->fired; i++) {
        const struct piano__fired *f = &h->fires[i % room];
        json_add_object(w, NULL);
        json_add_text(w, "kind", f->kind == PIANO_FIRED_GROWTH ? "growth" : "long-poll");
        json_add_text(w, "action", f->action == PIANO_FIRED_END ? "end" : "snapshot");
        json_add_known_count(w, "at_ns", f->at_ns >= h->start_mono_ns, f->at_ns - h->start_mono_ns);
        json_add_count(w, "value", f->value);
        json_add_count(w, "limit", f->limit);
        json_add_text(w, "what", f->what);
        json_close(w);
    }
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
    json_add_text(w, "own_allocator", own_name(h));
    json_add_text(w, "own_allocator_hidden", own_reason(h));
    json_add_flag(w, "child", h->flags & PIANO_REC_CHILD);
    json_add_flag(w, "attached", h->flags & PIANO_REC_ATTACHED);
    json_add_known_count(w, "ended_ns", h->ended_ns > 0, h->ended_ns - h->start_mono_ns);
    put_fired(w, h);
    put_range(w, &rec->range, h->start_mono_ns, rec->end_ns);
    json_add_count(w, "format_version", h->version);
    json_close(w);
    free(stem);
}
