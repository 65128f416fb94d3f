/* The frames of an instrumented run in a trace: slices of their threads. A recording of the same
 * process has polls on the same threads, which frames may overlap, so they are in a process of
 * their own then. */
#include "tool/export/trace.h"

#include "tool/load/companion.h"
#include "tool/util/say.h"

struct placed {
    uint64_t tid;
    uint64_t begin_ns, length_ns; /* BEGIN on the clock of the trace */
};

static uint64_t pid_of(const struct trace *w)
{
    bool apart = w->rec && w->rec->events.count > 0;
    uint64_t pid = w->rec ? w->rec->header.pid : w->s->run->pid > 0 ? (uint64_t)w->s->run->pid : 0;
    return pid + (apart ? TRACE_FRAME_PIDS : 0);
}

static uint64_t tid_of(const struct run_thread *t)
{
    return t->tid > 0 ? (uint64_t)t->tid : t->number;
}

/* False if the time of F is unknown, or outside of the range. */
static bool place(const struct trace *w, const struct run_frame *f, struct placed *at)
{
    const struct run *run = w->s->run;
    const struct run_thread *t = run_thread_find(run, f->thread);
    struct companion_span span;
    if (w->rec) {
        if (!companion_frame(run, f, &span) || !range_has(&w->rec->range, span.begin_ns))
            return false;
        *at = (struct placed){span.tid, span.begin_ns, span.end_ns - span.begin_ns};
        return true;
    }
    if (f->start_ns < 0)
        return false;
    at->tid = t ? tid_of(t) : f->thread;
    at->begin_ns = (uint64_t)f->start_ns;
    at->length_ns = f->wall_ns > 0 ? (uint64_t)f->wall_ns : 0;
    return true;
}

static void put_frame(struct trace *w, size_t i, const struct placed *at)
{
    const struct run *run = w->s->run;
    const struct run_frame *f = &run->frames[i];
    trace_begin(w, "X", "frame", pid_of(w), at->tid, at->begin_ns);
    buf_putc(&w->b, ',');
    trace_put_time(w, "dur", at->length_ns);
    trace_put_name(w, f->root < run->fn_count ? run->fns[f->root].name : "frame");
    if (f->spike)
        buf_puts(&w->b, ",\"cname\":\"terrible\"");
    buf_printf(&w->b, ",\"args\":{\"frame\":%zu,\"wall_ms\":%.6f", i, (double)f->wall_ns / 1e6);
    if (f->cpu_ns >= 0)
        buf_printf(&w->b, ",\"cpu_ms\":%.6f", (double)f->cpu_ns / 1e6);
    if (run->dropped[RUN_DROP_ALLOCATORS] == 0)
        buf_printf(&w->b, ",\"allocations\":%lld,\"allocated_bytes\":%lld",
                   (long long)f->alloc_count, (long long)f->alloc_bytes);
    buf_printf(&w->b, "%s}", f->spike ? ",\"spike\":true" : "");
    trace_end(w);
}

static void put_names(struct trace *w)
{
    const struct run *run = w->s->run;
    char own[PIANO_REC_PATH], name[PIANO_REC_PATH + 20];
    bool apart = w->rec && w->rec->events.count > 0;
    snprintf(name, sizeof(name), "%s%s", export_program(own, w->s), apart ? ": frames" : "");
    if (apart || !w->rec)
        trace_put_metadata(w, "process_name", pid_of(w), pid_of(w), name);
    for (size_t i = 0; (apart || !w->rec) && i < run->thread_count; i++)
        if (run->threads[i].name)
            trace_put_metadata(w, "thread_name", pid_of(w), tid_of(&run->threads[i]),
                               run->threads[i].name);
}

void trace_put_run(struct trace *w)
{
    const struct run *run = w->s->run;
    size_t unknown = 0;
    for (size_t i = 0; i < run->frame_count && w->err == 0; i++) {
        struct placed at;
        if (place(w, &run->frames[i], &at))
            put_frame(w, i, &at);
        else
            unknown += run->frames[i].start_ns == INT64_MIN;
    }
    if (unknown)
        say("%zu frames have no start in the file: they are not exported", unknown);
    put_names(w);
}
