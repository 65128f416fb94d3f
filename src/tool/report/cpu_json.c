/* `piano report --cpu --json`; docs/json.md describes every key. */
#include "tool/report/cpu.h"

#include <errno.h>
#include <stdlib.h>

#include "tool/util/json.h"

static void put_row(struct buf *b, const struct cpu_row *row, bool off)
{
    json_put_text(b, "name", row->function);
    json_put_text(b, "module", row->module);
    json_put_text(b, "file", row->file);
    json_put_count(b, "self_ns", row->self_ns);
    json_put_count(b, "total_ns", row->total_ns);
    json_put_count(b, "samples", row->self_samples);
    json_put_count(b, "total_samples", row->total_samples);
    if (off)
        buf_printf(b, "\"off_cpu_ns\":%llu", (unsigned long long)row->off_ns);
    else
        buf_puts(b, "\"off_cpu_ns\":null");
}

static int put_functions(struct buf *b, FILE *out, struct cpu *c, uint32_t pid, uint32_t tid,
                         const struct report_options *o)
{
    struct cpu_flat f;
    int err = cpu_flat_make(&f, c, pid, tid);
    size_t count = o->top && o->top < f.count ? o->top : f.count;
    buf_puts(b, "\"functions\":[");
    for (size_t i = 0; i < count && err == 0; i++) {
        buf_puts(b, i ? ",\n{" : "\n{");
        put_row(b, &f.rows[i], c->rec->off_samples > 0);
        buf_putc(b, '}');
        err = buf_flush(b, out, false);
    }
    buf_puts(b, "]");
    cpu_flat_release(&f);
    return err;
}

static int put_parts(struct buf *b, FILE *out, struct cpu *c, const char *key,
                     const struct cpu_part *list, size_t count, bool functions,
                     const struct report_options *o)
{
    int err = 0;
    buf_printf(b, ",\n\"%s\":[", key);
    for (size_t i = 0; i < count && err == 0; i++) {
        const struct recording_thread *t =
            recording_thread_of(c->rec, list[i].tid ? list[i].tid : list[i].pid);
        buf_puts(b, i ? ",\n{" : "\n{");
        json_put_text(b, "name", t && t->name[0] ? t->name : NULL);
        json_put_count(b, "pid", list[i].pid);
        if (list[i].tid)
            json_put_count(b, "tid", list[i].tid);
        json_put_count(b, "cpu_ns", list[i].cpu_ns);
        json_put_count(b, "samples", list[i].samples);
        if (c->rec->off_samples)
            buf_printf(b, "\"off_cpu_ns\":%llu,\"run_queue_ns\":%llu",
                       (unsigned long long)list[i].off_ns,
                       (unsigned long long)list[i].preempted_ns);
        else
            buf_puts(b, "\"off_cpu_ns\":null,\"run_queue_ns\":null");
        if (functions) {
            buf_putc(b, ',');
            err = put_functions(b, out, c, list[i].pid, list[i].tid, o);
        }
        buf_putc(b, '}');
    }
    buf_puts(b, "]");
    return err;
}

static void put_summary(struct buf *b, const struct recording *rec)
{
    static const char *const sources[] = {"none", "cpu-clock", "cycles", "timers"};
    const struct piano__trace *t = &rec->header.trace;
    buf_puts(b, ",\n\"cpu\":{");
    json_put_text(b, "source", sources[t->cpu_source < 4 ? t->cpu_source : 0]);
    json_put_count(b, "hz", t->cpu_hz);
    json_put_count(b, "samples", rec->cpu_samples);
    json_put_count(b, "cpu_ns", rec->total.cpu_ns);
    json_put_count(b, "switches", rec->off_samples);
    json_put_count(b, "unwound", t->samples_unwound);
    json_put_count(b, "threads_missed", t->threads_missed);
    json_put_count(b, "given_up", rec->header.samples_given_up);
    buf_printf(b, "\"lost\":%llu},\n", (unsigned long long)t->samples_lost);
}

int cpu_report_json(FILE *out, struct cpu *c, const struct cpu_options *h,
                    const struct report_options *o)
{
    struct buf b = {0};
    buf_putc(&b, '{');
    int err = put_functions(&b, out, c, 0, 0, o);
    if (err == 0)
        err = put_parts(&b, out, c, "processes", c->processes, c->process_count,
                        c->process_count > 1, o);
    if (err == 0)
        err = put_parts(&b, out, c, "threads", c->threads, c->thread_count, h->threads, o);
    put_summary(&b, c->rec);
    if (err == 0 && h->tree) {
        heap_put_tree(&b, c->profile, h->off ? HEAP_OFF_CPU : HEAP_CPU, &err);
        buf_puts(&b, ",\n");
    }
    heap_put_missing(&b, c->rec);
    buf_puts(&b, ",\n");
    heap_put_run(&b, c->rec);
    buf_puts(&b, "}\n");
    if (err == 0)
        err = buf_flush(&b, out, true);
    buf_free(&b);
    return err;
}
