/* Reports in a page: the JSON of each instrument, cut to a readable size, and a few lines with the
 * most important results in words. The functions that write `piano report --json` also write these,
 * so that the page and the command line cannot differ. */
#include "tool/report/digest.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tool/load/coverage.h"
#include "tool/report/cpu.h"
#include "tool/report/diff.h"
#include "tool/report/recordings_diff.h"
#include "tool/util/units.h"

enum { TOP = 50, WORST_FRAMES = 20, KINDS_OF_FRAMES = 3, MOST_BYTES = 4 << 20 };

/* ---- writing ---- */

/* Writes a report about WHAT with lists of at most TOP items. Returns 0 or negative errno. */
typedef int writer(FILE *out, void *what, size_t top);

/* Prepares a member of the digest. Each one but the first begins a line. */
static void add_member(struct digest *r)
{
    if (r->reports.open.len == 0)
        json_add_object(&r->reports, NULL);
    else
        json_line(&r->reports);
}

/* Adds the report that WRITE makes of WHAT as member KEY, with TOP items. Uses fewer if the report
 * would be too large because of long names (nested templates in every stack). */
static int put_report(struct digest *r, const char *key, writer *write, void *what, size_t top)
{
    for (;; top /= 4) {
        char *text = NULL;
        size_t len = 0;
        FILE *out = open_memstream(&text, &len);
        if (!out)
            return -ENOMEM;
        int err = write(out, what, top);
        if (fclose(out) != 0)
            err = err ? err : -ENOMEM;
        if (err == 0 && (len <= MOST_BYTES || top < 4)) {
            add_member(r);
            json_add_raw(&r->reports, key, text, len);
            top = 0;
        }
        free(text);
        if (err || top == 0)
            return err ? err : r->reports.text.failed ? -ENOMEM : 0;
    }
}

static void __attribute__((format(printf, 3, 4)))
tell(struct digest *r, const char *kind, const char *fmt, ...)
{
    struct buf text = {0};
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(&text, fmt, ap);
    va_end(ap);
    if (r->overview.open.len == 0)
        json_add_array(&r->overview, NULL);
    json_add_object(&r->overview, NULL);
    json_add_text(&r->overview, "kind", kind);
    json_add_text(&r->overview, "text", text.data ? text.data : "");
    json_close(&r->overview);
    json_keep_error(&r->overview, text.failed ? -ENOMEM : 0);
    buf_free(&text);
}

void digest_put(struct buf *b, struct digest *r)
{
    struct buf overview = {0};
    if (r->overview.open.len == 0)
        json_add_array(&r->overview, NULL);
    json_finish_in(&r->overview, &overview);
    add_member(r);
    json_add_raw(&r->reports, "overview", overview.data ? overview.data : "", overview.len);
    json_keep_error(&r->reports, overview.failed ? -ENOMEM : 0);
    json_finish_in(&r->reports, b);
    buf_free(&overview);
}

void digest_release(struct digest *r)
{
    json_release(&r->reports);
    json_release(&r->overview);
}

/* ---- functions ---- */

static void tell_frames(struct digest *r, const struct run *run, const struct run_group *g)
{
    char text[3][UNITS_LEN];
    char *name = g->root != RUN_NO_ROOT ? run_fn_name(run, g->root) : NULL;
    tell(r, "spans", "%lld frame%s%s%s: median %s, p99 %s, slowest %s; %lld spike%s",
         (long long)g->count, g->count == 1 ? "" : "s", name ? " of " : "", name ? name : "",
         units_time(text[0], g->p50_ns), units_time(text[1], g->p99_ns),
         units_time(text[2], g->wall_max), (long long)g->spikes, g->spikes == 1 ? "" : "s");
    free(name);
}

static void tell_functions(struct digest *r, const struct run *run)
{
    uint32_t best = RUN_NO_FN;
    int64_t all = 0;
    char text[UNITS_LEN], share[UNITS_LEN];
    for (uint32_t i = 0; i < run->fn_count; i++) {
        int64_t self = run->fns[i].alias ? 0 : run->fns[i].sum.self_ns;
        all = saturating_add(all, self > 0 ? self : 0);
        if (self > 0 && (best == RUN_NO_FN || self > run->fns[best].sum.self_ns))
            best = i;
    }
    if (best == RUN_NO_FN)
        return;
    char *name = run_fn_name(run, best);
    int64_t self = run->fns[best].sum.self_ns;
    tell(r, "spans", "most time of its own: %s, %s (%s of what was measured)", name ? name : "?",
         units_time(text, self), units_percent(share, (double)self / (double)all));
    free(name);
}

static int write_functions(FILE *out, void *what, size_t top)
{
    const struct report_options options = {.top = top};
    return report_functions_json(out, what, &options);
}

static int write_frames(FILE *out, void *what, size_t top)
{
    const struct report_options options = {.top = top};
    return report_frames_json(out, what, &options);
}

int digest_run(struct digest *r, struct run *run)
{
    int err = put_report(r, "functions", write_functions, run, TOP);
    if (err == 0 && run->frame_count > 0)
        err = put_report(r, "frames", write_frames, run, WORST_FRAMES);
    for (size_t i = 0; i < run->group_count && i < KINDS_OF_FRAMES; i++)
        tell_frames(r, run, &run->groups[i]);
    tell_functions(r, run);
    return err;
}

/* ---- memory ---- */

static void tell_heap(struct digest *r, const struct profile *heap)
{
    char live[UNITS_LEN], all[UNITS_LEN], peak[UNITS_LEN];
    size_t count = 0;
    tell(r, "heap", "%s live, %s allocated, %s at the peak",
         figure_bytes(live, heap->rec.total.live_bytes),
         figure_bytes(all, heap->rec.total.allocated_bytes),
         recording_is_one_heap(&heap->rec) ? figure_bytes(peak, heap->rec.header.peak_bytes) : "-");
    uint32_t *sorted = heap_sorted(heap, FIGURE_LIVE, &count);
    if (sorted && count) {
        const struct heap_site *site = &heap->sites[sorted[0]];
        char *name = profile_safe_name(site->function, site->mmap);
        tell(r, "heap", "holds most: %s, %s in %lld objects", name ? name : "?",
             figure_bytes(live, site->sum.live_bytes),
             (long long)figure_whole(site->sum.live_objects));
        free(name);
    }
    free(sorted);
}

/* Sites that grow all the time indicate a leak. */
static int put_growth(struct digest *r, const struct profile *heap)
{
    struct heap_growth g = {.rows = NULL};
    struct run_error error;
    char text[UNITS_LEN];
    if (heap_growth_make(&g, heap, GROWTH_NOT_GIVEN, GROWTH_NOT_GIVEN, &error) != 0) {
        heap_growth_release(&g);
        return 0; /* only one snapshot: no growth to report */
    }
    for (size_t i = 0; i < g.count && i < 3; i++) {
        const char *trend = heap_trend(&g, &g.rows[i]);
        if (!trend || strcmp(trend, "grows") != 0)
            continue;
        char *name = profile_safe_name(heap->sites[g.rows[i].site].function, false);
        tell(r, "heap", "grows all the time: %s, by %s a second", name ? name : "?",
             figure_bytes(text, g.rows[i].per_second));
        free(name);
    }
    g.count = g.count < TOP ? g.count : TOP;
    add_member(r);
    heap_add_growth(&r->reports, heap, &g);
    heap_growth_release(&g);
    return r->reports.text.failed ? -ENOMEM : 0;
}

static int write_heap(FILE *out, void *what, size_t top)
{
    const struct heap_options asked = {
        .mode = HEAP_SUMMARY, .by = FIGURE_LIVE, .from = GROWTH_NOT_GIVEN, .to = GROWTH_NOT_GIVEN};
    const struct report_options options = {.top = top};
    return heap_report_json(out, what, &asked, &options);
}

int digest_heap(struct digest *r, struct profile *heap)
{
    int err = put_report(r, "heap", write_heap, heap, TOP);
    if (err)
        return err;
    tell_heap(r, heap);
    return put_growth(r, heap);
}

/* ---- CPU ---- */

static int tell_cpu(struct digest *r, struct cpu *c)
{
    struct cpu_flat f;
    char time[UNITS_LEN], share[UNITS_LEN], covered[80];
    int err = cpu_flat_make(&f, c, 0, 0);
    if (err == 0 && f.count > 0 && f.cpu_ns > 0) {
        char *name = profile_safe_name(f.rows[0].function, false);
        tell(r, "cpu", "%s on the CPU; most of it in %s (%s)", units_time(time, (int64_t)f.cpu_ns),
             name ? name : "?", units_percent(share, (double)f.rows[0].self_ns / (double)f.cpu_ns));
        free(name);
    }
    if (*coverage_text(covered, sizeof(covered), &c->rec->header.trace))
        tell(r, "cpu", "%s of CPU time", covered);
    cpu_flat_release(&f);
    return err;
}

static int write_cpu(FILE *out, void *what, size_t top)
{
    const struct cpu_options asked = {.tree = false};
    const struct report_options options = {.top = top};
    return cpu_report_json(out, what, &asked, &options);
}

int digest_cpu(struct digest *r, struct profile *p)
{
    struct run_error error;
    struct cpu c;
    int err = cpu_make(&c, p, &error);
    if (err == 0)
        err = put_report(r, "cpu", write_cpu, &c, TOP);
    if (err == 0)
        err = tell_cpu(r, &c);
    cpu_release(&c);
    return err;
}

/* ---- events ---- */

/* The longest polls include their stacks. */
static int write_polls(FILE *out, void *what, size_t top)
{
    struct polls *p = what;
    const struct report_options options = {.top = top};
    p->longest_count = p->longest_count < top ? p->longest_count : top;
    return polls_report_json(out, p, &options);
}

int digest_polls(struct digest *r, struct polls *p)
{
    struct polls_flags flags;
    int err = polls_flags_make(&flags, p);
    for (size_t i = 0; err == 0 && i < flags.count; i++)
        tell(r, "polls", "%s", flags.list[i].text);
    if (err == 0 && flags.count == 0)
        tell(r, "polls", "%llu polls, no red flags", (unsigned long long)p->polls);
    polls_flags_release(&flags);
    return err ? err : put_report(r, "polls", write_polls, p, TOP);
}

/* ---- differences ---- */

static const char *const labels[2] = {"A", "B"};

/* Ignores TOP: it has no lists that could be shortened. */
static int write_diff(FILE *out, void *what, size_t top)
{
    (void)top;
    return diff_print_json(out, what, -1);
}

static int write_heap_diff(FILE *out, void *what, size_t top)
{
    (void)top;
    return heap_diff_json(out, what, -1);
}

int digest_diff(struct digest *r, struct run runs[2])
{
    struct diff_side sides[2] = {{.label = labels[0], .runs = &runs[0], .count = 1},
                                 {.label = labels[1], .runs = &runs[1], .count = 1}};
    struct diff d;
    int err = diff_make(&d, sides, false);
    if (err)
        return err;
    err = put_report(r, "diff", write_diff, &d, 1);
    diff_release(&d);
    return err;
}

int digest_heap_diff(struct digest *r, const struct profile heaps[2])
{
    struct heap_diff d;
    int err = heap_diff_make(&d, heaps, labels);
    if (err == 0)
        err = put_report(r, "heap_diff", write_heap_diff, &d, 1);
    heap_diff_release(&d);
    return err;
}
