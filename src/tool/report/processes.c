/* What each process did: the summary of a recording of several. docs/json.md describes the keys. */
#include "tool/report/processes.h"

#include <stdio.h>

#include "tool/report/heap.h"
#include "tool/util/units.h"

enum { SHOWN = 12 };

static const char *status_text(char *text, size_t size, const struct recording_process *p)
{
    if (p && p->end == RECORDING_RUNNING)
        snprintf(text, size, "runs");
    else if (p && p->end == RECORDING_KILLED)
        snprintf(text, size, "signal %d", p->status);
    else if (p && p->end == RECORDING_EXITED && p->status >= 0)
        snprintf(text, size, "exit %d", p->status);
    else if (p && p->end == RECORDING_EXITED)
        snprintf(text, size, "exited");
    else
        return NULL;
    return text;
}

/* JSON only. */
static void put_end(struct json_writer *w, const struct recording_process *p)
{
    static const char *const ends[] = {"running", "exited", "killed", "unknown"};
    json_add_text(w, "end", p ? ends[p->end] : NULL);
    json_add_known(w, "exit_status", p && p->end == RECORDING_EXITED && p->status >= 0,
                   p ? p->status : 0);
    json_add_known(w, "signal", p && p->end == RECORDING_KILLED, p ? p->status : 0);
}

static void columns(struct sheet *s, const void *ctx, const void *of)
{
    const struct processes *all = ctx;
    const struct process_row *row = of;
    const struct recording_process *p = row->file;
    char status[32];
    bool heap = p && p->has_heap, events = p && p->has_events;
    SHEET(s, TEXT, "name", "Process", .text = row->name);
    SHEET(s, COUNT, "pid", "Pid", .count = row->pid);
    SHEET(s, COUNT, "parent_pid", NULL, .count = p ? p->parent : 0, .unknown = !p || !p->parent);
    SHEET(s, TEXT, "program", NULL, .text = p && *p->program ? p->program : NULL);
    SHEET(s, TIME, "wall_ns", "Time", .number = p ? p->duration_ns : 0,
          .unknown = !p || p->duration_ns < 0, .mark = p && p->duration_atleast ? ">" : NULL);
    if (s->json)
        json_add_flag(s->json, "wall_at_least", p && p->duration_atleast);
    SHEET(s, TIME, "cpu_ns", "CPU", .count = row->cpu_ns, .unknown = !all->has_cpu);
    SHEET(s, COUNT, "samples", NULL, .count = row->cpu_samples, .unknown = !all->has_cpu);
    SHEET(s, TIME, "kernel_cpu_ns", NULL, .count = p ? p->kernel_ns : 0,
          .unknown = !p || p->kernel_ns == 0);
    SHEET(s, TIME, "off_cpu_ns", "Waits", .count = row->off_ns, .unknown = !all->has_off,
          .optional = 2);
    SHEET(s, TIME, "run_queue_ns", NULL, .count = row->preempted_ns, .unknown = !all->has_off);
    SHEET(s, BYTES, "allocated_bytes", "Allocated",
          .number = heap ? figure_whole(p->allocated_bytes) : 0, .unknown = !heap);
    SHEET(s, BYTES, "live_bytes", "Live", .number = heap ? figure_whole(p->live_bytes) : 0,
          .unknown = !heap);
    SHEET(s, BYTES, "peak_bytes", "Peak", .number = heap ? figure_whole(p->peak_bytes) : 0,
          .unknown = !heap, .optional = 3);
    SHEET(s, COUNT, "polls", "Polls", .count = row->polls, .unknown = !events);
    SHEET(s, TIME, "longest_poll_ns", "Longest", .count = row->longest_ns,
          .unknown = !events || row->polls == 0);
    SHEET(s, TEXT, NULL, "End", .text = status_text(status, sizeof(status), p), .optional = 1);
    if (s->json)
        put_end(s->json, p);
}

int processes_print(FILE *out, const struct profile *profile, const struct polls *p,
                    const struct report_options *o)
{
    struct processes list;
    struct table t = {.cells = NULL};
    if (!processes_are_several(&profile->rec))
        return 0;
    int err = processes_make(&list, profile, p);
    if (err)
        return err;
    size_t busy = list.count - list.idle, most = o->top ? o->top : SHOWN;
    size_t shown = o->all ? list.count : busy < most ? busy : most;
    report_heading(out, o->colour, "Processes");
    for (size_t i = 0; i < shown; i++)
        sheet_table(&t, columns, &list, &list.list[i]);
    err = shown ? table_print(&t, out, o->width, o->colour) : 0;
    size_t hidden = list.count - shown;
    if (err == 0 && hidden > 0)
        report_dim(out, o->colour, "%zu more%s%s", hidden,
                   hidden == list.idle ? ", which did almost nothing" : "",
                   o->top ? "" : ": --all");
    if (err == 0)
        report_dim(out, o->colour, "one of them: piano report --process NAME|PID");
    table_release(&t);
    processes_release(&list);
    return err;
}

void processes_put(struct json_writer *w, const struct profile *profile, const struct polls *p)
{
    struct processes list;
    json_keep_error(w, processes_make(&list, profile, p));
    json_line(w);
    json_add_array(w, "processes");
    for (size_t i = 0; i < list.count && w->err == 0; i++)
        sheet_put_row(w, columns, &list, &list.list[i]);
    json_close(w);
    processes_release(&list);
}
