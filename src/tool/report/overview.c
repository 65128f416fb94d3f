/* The overview: what was recorded, the first lines of each instrument, and which command shows
 * more. */
#include "tool/report/overview.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/report/cpu.h"
#include "tool/report/polls.h"
#include "tool/util/json.h"
#include "tool/util/say.h"
#include "tool/util/units.h"

enum { ROWS = 5 };

unsigned overview_instruments(const struct recording *rec)
{
    const struct piano__rec_header *h = &rec->header;
    unsigned found = 0;
    if (h->flags & PIANO_REC_HAS_HEAP || h->stats.samples > 0)
        found |= OVERVIEW_HEAP;
    if (h->flags & PIANO_REC_HAS_CPU || h->trace.samples > 0)
        found |= OVERVIEW_CPU;
    if (h->flags & PIANO_REC_HAS_EVENTS || h->trace.events > 0)
        found |= OVERVIEW_EVENTS;
    return found;
}

static void more(FILE *out, const char *flag, const char *run, const struct report_options *o)
{
    char safe[300];
    report_dim(out, o->colour, "more: piano report %s%s%s", flag, run ? " " : "",
               run ? say_safe(safe, sizeof(safe), run) : "");
}

/* ---- one instrument ---- */

static int show_polls(FILE *out, const char *path, const char *run, const struct report_options *o,
                      struct run_error *error)
{
    struct polls p;
    struct polls_flags flags;
    char text[3][UNITS_LEN];
    size_t count = 0;
    int err = polls_load(&p, path, 1, error);
    if (err)
        return err;
    err = polls_flags_make(&flags, &p);
    uint32_t *sorted = polls_sorted(&p, &count);
    report_heading(out, o->colour, "Polls");
    for (size_t i = 0; err == 0 && i < flags.count && i < ROWS; i++)
        fprintf(out, "%s!%s %s\n", o->colour ? "\x1b[31m" : "", o->colour ? "\x1b[0m" : "",
                flags.list[i].text);
    if (err == 0 && flags.count == 0)
        fprintf(out, "%llu polls, no red flags\n", (unsigned long long)p.polls);
    for (size_t i = 0; sorted && err == 0 && i < count && i < ROWS; i++) {
        struct polls_group *g = &p.groups[sorted[i]];
        char *name = heap_name(g->name, false);
        fprintf(out, "  %s: %llu polls, p50 %s, p99 %s, max %s\n", name ? name : "?",
                (unsigned long long)g->polls,
                units_time(text[0], samples_percentile(&g->durations, 0.50)),
                units_time(text[1], samples_percentile(&g->durations, 0.99)),
                units_time(text[2], (int64_t)g->max_ns));
        free(name);
    }
    free(sorted);
    polls_flags_release(&flags);
    polls_notices(&p);
    polls_unload(&p);
    more(out, "--polls", run, o);
    return err;
}

static int show_cpu(FILE *out, const char *path, const char *run, const struct report_options *o,
                    struct run_error *error)
{
    struct cpu c;
    struct cpu_flat f;
    char text[UNITS_LEN], source[80];
    int err = cpu_load(&c, path, error);
    if (err)
        return err;
    err = cpu_flat_make(&f, &c, 0, 0);
    report_heading(out, o->colour, "CPU");
    fprintf(out, "%s on the CPU, %llu samples, %s\n", units_time(text, (int64_t)f.cpu_ns),
            (unsigned long long)f.samples, cpu_source_text(source, sizeof(source), c.rec));
    for (size_t i = 0; err == 0 && i < f.count && i < ROWS && f.rows[i].self_ns > 0; i++) {
        char *name = heap_name(f.rows[i].function, false);
        fprintf(out, "  %6s  %s\n",
                units_percent(text, (double)f.rows[i].self_ns / (double)f.cpu_ns),
                name ? name : "?");
        free(name);
    }
    cpu_flat_release(&f);
    cpu_unload(&c);
    more(out, "--cpu", run, o);
    return err;
}

static int show_heap(FILE *out, const char *path, const char *run, const struct report_options *o,
                     struct run_error *error)
{
    struct profile heap;
    char live[UNITS_LEN], all[UNITS_LEN], peak[UNITS_LEN];
    size_t count = 0;
    int err = heap_load(&heap, path, error);
    if (err)
        return err;
    uint32_t *sites = heap_sorted(&heap, HEAP_LIVE, &count);
    report_heading(out, o->colour, "Heap");
    fprintf(out, "%s live, %s allocated, %s at the peak\n",
            heap_bytes(live, heap.rec.total.live_bytes),
            heap_bytes(all, heap.rec.total.allocated_bytes),
            heap_bytes(peak, heap.rec.header.peak_bytes));
    for (size_t i = 0; sites && i < count && i < ROWS; i++) {
        const struct heap_site *site = &heap.sites[sites[i]];
        char *name = heap_name(site->function, site->mmap);
        fprintf(out, "  %9s  %s\n", heap_bytes(live, site->sum.live_bytes), name ? name : "?");
        free(name);
    }
    free(sites);
    profile_close(&heap);
    more(out, "--heap", run, o);
    return err;
}

/* ---- all ---- */

static int overview_json(FILE *out, const struct recording *rec, unsigned found,
                         struct run_error *error)
{
    const struct piano__rec_header *h = &rec->header;
    struct buf b = {0};
    buf_puts(&b, "{\"instruments\":[");
    const char *comma = "";
    for (unsigned i = 0; i < 3; i++)
        if (found & 1u << i) {
            buf_printf(&b, "%s\"%s\"", comma, i == 0 ? "heap" : i == 1 ? "cpu" : "polls");
            comma = ",";
        }
    buf_printf(&b,
               "],\n\"heap\":{\"live_bytes\":%lld,\"allocated_bytes\":%lld,\"peak_bytes\":%lld,"
               "\"samples\":%llu},\n",
               (long long)heap_whole(h->live_bytes), (long long)heap_whole(h->allocated_bytes),
               (long long)heap_whole(h->peak_bytes), (unsigned long long)h->stats.samples);
    buf_printf(&b, "\"cpu\":{\"samples\":%llu,\"switches\":%llu,\"lost\":%llu},\n",
               (unsigned long long)h->trace.samples, (unsigned long long)h->trace.switches,
               (unsigned long long)h->trace.samples_lost);
    buf_printf(&b, "\"polls\":{\"events\":%llu},\n", (unsigned long long)h->trace.events);
    heap_put_run(&b, rec);
    buf_puts(&b, "}\n");
    int err = report_flush(&b, out, true);
    buf_free(&b);
    if (err)
        snprintf(error->text, sizeof(error->text), "the report stopped: %s", strerror(-err));
    return err;
}

int overview_report(FILE *out, const char *path, const char *run, bool json,
                    const struct report_options *o, struct run_error *error)
{
    struct recording rec;
    int err = recording_peek(&rec, path, error);
    if (err)
        return err;
    unsigned found = overview_instruments(&rec);
    if (json) {
        heap_notice_reading(&rec);
        err = overview_json(out, &rec, found, error);
        recording_unload(&rec);
        return err;
    }
    heap_print_program(out, &rec);
    fputc('\n', out);
    recording_unload(&rec);
    if (found & OVERVIEW_EVENTS)
        err = show_polls(out, path, run, o, error);
    if (err == 0 && found & OVERVIEW_CPU)
        err = show_cpu(out, path, run, o, error);
    if (err == 0 && found & OVERVIEW_HEAP)
        err = show_heap(out, path, run, o, error);
    return err;
}
