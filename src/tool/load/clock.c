/* The two clocks of a run. Frames are stamped with the processor's counter, in nanoseconds at a
 * rate that was measured once over a few milliseconds. Everything else recorded of a process is
 * stamped with CLOCK_MONOTONIC. The header gives the start of the run by that clock, and `sync`
 * lines give pairs for later moments. Times between two pairs are interpolated linearly. After the
 * last pair the mean slope over all pairs applies.
 *
 * A pair too close to the previous one is dropped: the few ns between its two readings would
 * distort the slope. A pair far off the line (the thread lost its CPU between the readings, or the
 * file is damaged) is dropped too, unless the next pair agrees with it. In that case one of the
 * clocks stood still, as in a suspended machine, and a new line begins there. */
#include "tool/load/reader.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tool/util/order.h"
#include "tool/util/vec.h"

enum { APART_NS = 5000000 };

static const double rate_off = 0.01; /* both clocks count ns, so a larger deviation is an error */
static const int64_t reason = (int64_t)1 << 61;

int clock_add(struct run *run, int64_t at_ns, int64_t mono_ns)
{
    if (mono_ns <= 0 || mono_ns > reason || at_ns < 0 || at_ns > reason)
        return 0;
    if (VEC_DOUBLE(run->pairs, run->pair_count) != 0)
        return -ENOMEM;
    run->pairs[run->pair_count++] = (struct run_pair){at_ns, mono_ns};
    return 0;
}

static int compare(const void *a, const void *b)
{
    const struct run_pair *x = a, *y = b;
    return ORDER(x->at_ns, y->at_ns) ?: ORDER(x->mono_ns, y->mono_ns);
}

static double slope(const struct run_pair *a, const struct run_pair *b)
{
    return (double)(b->mono_ns - a->mono_ns) / (double)(b->at_ns - a->at_ns);
}

static bool is_line(const struct run_pair *a, const struct run_pair *b)
{
    return b->at_ns - a->at_ns >= APART_NS && fabs(slope(a, b) - 1) < rate_off;
}

static bool is_step(const struct run_pair *before, const struct run_pair *p,
                    const struct run_pair *next)
{
    return next && p->at_ns > before->at_ns && p->mono_ns > before->mono_ns && is_line(p, next) &&
           !is_line(before, next);
}

/* Slope after the last pair: that over all pairs, if no clock stood still. */
static double last_slope(const struct run *run)
{
    size_t last = run->pair_count - 1, first = 0;
    for (size_t i = 1; i <= last; i++)
        if (!is_line(&run->pairs[i - 1], &run->pairs[i]))
            first = i;
    return first < last ? slope(&run->pairs[first], &run->pairs[last]) : 1;
}

void clock_settle(struct run *run)
{
    size_t kept = run->pair_count ? 1 : 0;
    if (run->pair_count)
        qsort(run->pairs, run->pair_count, sizeof(*run->pairs), compare);
    if (kept && run->pairs[0].at_ns != 0)
        kept = 0; /* no start pair to compare the others with */
    for (size_t i = 1; kept && i < run->pair_count; i++) {
        const struct run_pair *before = &run->pairs[kept - 1], *p = &run->pairs[i];
        if (is_line(before, p) || is_step(before, p, i + 1 < run->pair_count ? p + 1 : NULL))
            run->pairs[kept++] = *p;
    }
    run->pair_count = kept;
    run->last_slope = kept ? last_slope(run) : 1;
}

/* Returns the last pair at or before AT_NS, or the first pair if all are later. */
static size_t find(const struct run *run, int64_t at_ns)
{
    size_t count = ORDER_BOUND(at, run->pair_count, run->pairs[at].at_ns <= at_ns);
    return count ? count - 1 : 0;
}

int64_t run_mono(const struct run *run, int64_t at_ns)
{
    if (run->pair_count == 0 || at_ns < -reason || at_ns > reason)
        return -1;
    size_t i = find(run, at_ns), last = run->pair_count - 1;
    const struct run_pair *p = &run->pairs[i];
    double rate = i < last ? slope(p, p + 1) : run->last_slope;
    int64_t mono = p->mono_ns + llround((double)(at_ns - p->at_ns) * rate);
    return mono > 0 ? mono : -1;
}

/* Reads the line again: the value is rarely needed, so a million frames need not store it. */
int64_t run_frame_took(const struct run *run, const struct run_frame *frame)
{
    size_t left;
    if (frame->turn)
        return run->turns[frame->turn - 1].took_ns;
    const char *s = reader_text(run, frame->at, &left);
    const char *newline = memchr(s, '\n', left);
    static const char name[] = "\"took_ns\"";
    struct json j = {.at = s, .end = newline ? newline : s + left};
    if (!memmem(s, (size_t)(j.end - s), name, sizeof(name) - 1))
        return frame->wall_ns;
    bool first = true;
    struct json_text key;
    int64_t took = 0;
    int err = json_expect(&j, '{', "expected `{`");
    while (err == 0 && took == 0 && json_member(&j, &first, &key) == 1)
        err = json_is(key, "took_ns") ? json_count(&j, &took) : json_skip(&j);
    return err == 0 && took > frame->wall_ns ? took : frame->wall_ns;
}
