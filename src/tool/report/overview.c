/* The overview: what was recorded, the first lines of each instrument, and which command shows
 * more. */
#include "tool/report/overview.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/load/own.h"
#include "tool/load/coverage.h"
#include "tool/report/cpu.h"
#include "tool/report/polls.h"
#include "tool/report/processes.h"
#include "tool/util/say.h"
#include "tool/util/units.h"

enum { ROWS = 5 };
static const char *const heap_keys[] = {"live_bytes", "allocated_bytes", "peak_bytes", "samples"};

static void more(FILE *out, const char *flag, const char *run, const struct report_options *o)
{
    char safe[300];
    report_dim(out, o->colour, "more: piano report %s%s%s", flag, run ? " " : "",
               run ? say_safe(safe, sizeof(safe), run) : "");
}

/* ---- one instrument ---- */

static int show_polls(FILE *out, struct profile *profile, const char *run,
                      const struct report_options *o, struct run_error *error)
{
    struct polls p;
    struct polls_flags flags;
    char text[3][UNITS_LEN];
    size_t count = 0;
    int err = polls_make(&p, profile, 1, error);
    if (err)
        return err;
    err = polls_flags_make(&flags, &p);
    err = err ? err : processes_print(out, profile, &p, o);
    uint32_t *sorted = polls_sorted(&p, &count);
    report_heading(out, o->colour, "Polls");
    polls_print_covers(out, &p);
    for (size_t i = 0; err == 0 && i < flags.count && i < ROWS; i++)
        fprintf(out, "%s!%s %s\n", o->colour ? "\x1b[31m" : "", o->colour ? "\x1b[0m" : "",
                flags.list[i].text);
    if (err == 0 && flags.count == 0)
        fprintf(out, "%llu polls, no red flags\n", (unsigned long long)p.polls);
    for (size_t i = 0; sorted && err == 0 && i < count && i < ROWS; i++) {
        struct polls_group *g = &p.groups[sorted[i]];
        char *name = profile_safe_name(g->name, false);
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
    polls_release(&p);
    more(out, "--polls", run, o);
    return err;
}

static int show_cpu(FILE *out, struct profile *profile, const char *run,
                    const struct report_options *o, struct run_error *error)
{
    struct cpu c;
    struct cpu_flat f;
    char text[UNITS_LEN], source[80], covered[80];
    int err = cpu_make(&c, profile, error);
    if (err)
        return err;
    err = cpu_flat_make(&f, &c, 0, 0);
    report_heading(out, o->colour, "CPU");
    coverage_text(covered, sizeof(covered), &c.rec->header.trace);
    fprintf(out, "%s on the CPU, %llu samples, %s%s%s\n", units_time(text, (int64_t)f.cpu_ns),
            (unsigned long long)f.samples, cpu_source_text(source, sizeof(source), c.rec),
            *covered ? ", " : "", covered);
    for (size_t i = 0; err == 0 && i < f.count && i < ROWS && f.rows[i].self_ns > 0; i++) {
        char *name = profile_safe_name(f.rows[i].function, false);
        fprintf(out, "  %6s  %s\n",
                units_percent(text, (double)f.rows[i].self_ns / (double)f.cpu_ns),
                name ? name : "?");
        free(name);
    }
    cpu_notices(&c);
    cpu_flat_release(&f);
    cpu_release(&c);
    more(out, "--cpu", run, o);
    return err;
}

/* Memory is known at snapshots, so a range has growth between two of them. */
static int show_growth(FILE *out, const struct profile *profile, const char *run,
                       const struct report_options *o)
{
    const struct report_options few = {.top = ROWS, .width = o->width, .colour = o->colour};
    struct heap_growth g;
    struct run_error error;
    int err = heap_growth_make(&g, profile, GROWTH_NOT_GIVEN, GROWTH_NOT_GIVEN, &error);
    report_heading(out, o->colour, "Heap");
    if (err == -ENOENT)
        fputs(recording_is_one_heap(&profile->rec)
                  ? "-: there are no two snapshots near this range\n"
                  : "-: the growth of several processes is not known; of one: --process NAME|PID\n",
              out);
    else if (err == 0)
        err = heap_print_growth(out, profile, &g, &few);
    heap_growth_release(&g);
    more(out, "--heap", run, o);
    return err == -ENOENT ? 0 : err;
}

static int show_heap(FILE *out, struct profile *profile, const char *run,
                     const struct report_options *o, struct run_error *error)
{
    char live[UNITS_LEN], all[UNITS_LEN], peak[UNITS_LEN];
    size_t count = 0;
    int err = profile_make_sites(profile, NULL, error);
    if (err || profile->rec.range.given)
        return err ? err : show_growth(out, profile, run, o);
    uint32_t *sites = heap_sorted(profile, FIGURE_LIVE, &count);
    report_heading(out, o->colour, "Heap");
    fprintf(out, "%s live, %s allocated, %s at the peak\n",
            figure_bytes(live, profile->rec.total.live_bytes),
            figure_bytes(all, profile->rec.total.allocated_bytes),
            recording_is_one_heap(&profile->rec)
                ? figure_bytes(peak, profile->rec.header.peak_bytes)
                : "-");
    for (size_t i = 0; sites && i < count && i < ROWS; i++) {
        const struct heap_site *site = &profile->sites[sites[i]];
        char *name = profile_safe_name(site->function, site->mmap);
        fprintf(out, "  %9s  %s\n", figure_bytes(live, site->sum.live_bytes), name ? name : "?");
        free(name);
    }
    heap_notice_losses(profile);
    free(sites);
    more(out, "--heap", run, o);
    return err;
}

static void show_hidden(FILE *out, const struct recording *rec, const struct report_options *o)
{
    char text[OWN_NOTICE];
    report_heading(out, o->colour, "Heap");
    fprintf(out, "- live, - allocated, - at the peak\n%s\n", own_notice(text, &rec->header));
}

/* ---- all ---- */

/* All that is known of each process, after the rest was read. */
static int put_processes(struct json_writer *w, struct profile *p, struct run_error *error)
{
    struct polls polls;
    int err = polls_make(&polls, p, 0, error);
    if (err)
        return err;
    processes_put(w, p, &polls);
    polls_release(&polls);
    return 0;
}

/* Figures of a range: what the header says is of the whole recording. */
static int put_part(struct json_writer *w, struct profile *p, struct run_error *error)
{
    struct polls polls;
    int err = polls_make(&polls, p, 0, error);
    if (err)
        return err;
    json_line(w);
    json_add_object(w, "heap");
    for (size_t i = 0; i < 4; i++)
        json_add_null(w, heap_keys[i]);
    json_close(w);
    json_line(w);
    json_add_object(w, "cpu");
    json_add_count(w, "samples", p->rec.cpu_samples);
    json_add_count(w, "switches", p->rec.off_samples);
    static const char *const whole[] = {"lost", "kernel_cpu_ns", "coverage", "incomplete"};
    for (size_t i = 0; i < sizeof(whole) / sizeof(*whole); i++)
        json_add_null(w, whole[i]);
    json_close(w);
    json_line(w);
    json_add_object(w, "polls");
    json_add_count(w, "events", polls.events);
    json_close(w);
    polls_release(&polls);
    return 0;
}

static void put_whole(struct json_writer *w, const struct recording *rec)
{
    const struct piano__rec_header *h = &rec->header;
    const double bytes[] = {h->live_bytes, h->allocated_bytes, h->peak_bytes};
    json_line(w);
    json_add_object(w, "heap");
    bool known = !own_is_hidden(h);
    for (size_t i = 0; i < 3; i++)
        json_add_known(w, heap_keys[i], known && (i < 2 || recording_is_one_heap(rec)),
                       figure_whole(bytes[i]));
    json_add_known_count(w, heap_keys[3], known, h->stats.samples);
    json_close(w);
    json_line(w);
    json_add_object(w, "cpu");
    json_add_count(w, "samples", h->trace.samples);
    json_add_count(w, "switches", h->trace.switches);
    json_add_count(w, "lost", h->trace.samples_lost);
    report_put_coverage(w, &h->trace);
    json_close(w);
    json_line(w);
    json_add_object(w, "polls");
    json_add_count(w, "events", h->trace.events);
    json_close(w);
}

static int overview_json(FILE *out, struct profile *p, struct run_error *error)
{
    static const char *const names[] = {"heap", "cpu", "polls"};
    struct json_writer w = {.out = out};
    bool is_part = p->rec.asked.from.given || p->rec.asked.to.given;
    json_add_object(&w, NULL);
    json_add_array(&w, "instruments");
    for (unsigned i = 0; i < 3; i++)
        if (p->instruments & 1u << i)
            json_add_text(&w, NULL, names[i]);
    json_close(&w);
    bool is_read = is_part || p->rec.family;
    int err = is_read ? profile_read(p, error) : 0;
    err = err == 0 && is_part ? put_part(&w, p, error) : err;
    if (err) {
        buf_free(&w.text);
        buf_free(&w.open);
        return err;
    }
    if (!is_part)
        put_whole(&w, &p->rec);
    if (p->rec.family)
        err = put_processes(&w, p, error);
    report_put_recording(&w, &p->rec);
    err = json_finish(&w) ?: err;
    if (err)
        snprintf(error->text, sizeof(error->text), "the report stopped: %s", strerror(-err));
    return err;
}

int overview_report(FILE *out, struct profile *p, const char *run, bool json,
                    const struct report_options *o, struct run_error *error)
{
    if (json) {
        profile_notice_reading(p);
        profile_notice_samples(p);
        heap_notice_losses(p);
        return overview_json(out, p, error);
    }
    int err = profile_read(p, error);
    if (err == 0) {
        profile_notice_reading(p);
        heap_print_program(out, &p->rec);
        fputc('\n', out);
    }
    if (err == 0 && p->instruments & PROFILE_EVENTS)
        err = show_polls(out, p, run, o, error);
    else if (err == 0)
        err = processes_print(out, p, NULL, o);
    if (err == 0 && p->instruments & PROFILE_CPU)
        err = show_cpu(out, p, run, o, error);
    if (err == 0 && p->instruments & PROFILE_HEAP)
        err = show_heap(out, p, run, o, error);
    if (err == 0 && own_is_hidden(&p->rec.header))
        show_hidden(out, &p->rec, o);
    return err;
}
