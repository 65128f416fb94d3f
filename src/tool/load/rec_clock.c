/* The time of events. They are stamped with the processor's counter. Pairs of counter and
 * CLOCK_MONOTONIC are in the header (start and end) and at the head of every chunk of events.
 * Between two pairs time is interpolated linearly, so it follows the kernel's clock adjustments and
 * never goes back.
 *
 * A pair is dropped if it is too close to the previous one (the few ns between its two readings
 * would distort the slope), or if its slope is far from the overall one (the thread lost its CPU
 * between the readings).
 *
 * A program that was killed early may leave pairs of its first moments only, which give no rate. On
 * the same machine and boot, the current moment serves as another pair. */
#include "tool/load/rec.h"

#include <elf.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "tool/util/order.h"

enum { PAIR_APART_NS = 1000000, RATE_SPAN_NS = 10000000, SAME_BOOT_NS = 2000000000 };

static const double rate_off =
    0.01; /* largest deviation of a slope between two pairs from the overall one */
static const double rate_least = 1e-3, rate_most = 1e3;

static int compare(const void *a, const void *b)
{
    const struct recording_pair *x = a, *y = b;
    return ORDER(x->ticks, y->ticks) ?: ORDER(x->ns, y->ns);
}

static double slope(const struct recording_pair *a, const struct recording_pair *b)
{
    if (b->ticks <= a->ticks || b->ns <= a->ns)
        return 0;
    return (double)(b->ns - a->ns) / (double)(b->ticks - a->ticks);
}

static bool is_rate(double rate)
{
    return rate >= rate_least && rate <= rate_most;
}

/* Keeps the sorted pairs that make the line. */
static void keep_line_pairs(struct recording_clock *c)
{
    size_t kept = 1;
    for (size_t i = 1; i < c->count; i++) {
        const struct recording_pair *before = &c->pairs[kept - 1], *p = &c->pairs[i];
        double rate = slope(before, p);
        if (rate > 0 && p->ns - before->ns >= PAIR_APART_NS && fabs(rate / c->rate - 1) < rate_off)
            c->pairs[kept++] = *p;
    }
    c->count = kept;
}

static uint64_t now_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The processor's counter, as target/sys/clock.h reads it. */
#if defined(__x86_64__)
enum { MACHINE = EM_X86_64 };

static uint64_t counter(void)
{
    return __builtin_ia32_rdtsc();
}
#elif defined(__aarch64__)
enum { MACHINE = EM_AARCH64 };

static uint64_t counter(void)
{
    uint64_t value;
    __asm__ __volatile__("mrs %0, cntvct_el0" : "=r"(value)::"memory");
    return value;
}
#else
enum { MACHINE = EM_NONE };

static uint64_t counter(void)
{
    return 0;
}
#endif

/* Returns the current moment as a pair, if the recording is of this machine and boot. A recording
 * made under emulation has another counter. */
static bool pair_of_now(const struct recording *rec, struct recording_pair *pair)
{
    const struct piano__rec_header *h = &rec->header;
    if (MACHINE == EM_NONE || h->machine != MACHINE)
        return false;
    *pair = (struct recording_pair){counter(), now_ns(CLOCK_MONOTONIC)};
    int64_t boot = (int64_t)(h->start_real_ns - h->start_mono_ns);
    int64_t ours = (int64_t)(now_ns(CLOCK_REALTIME) - pair->ns);
    return llabs(boot / 2 - ours / 2) < SAME_BOOT_NS / 2 && pair->ns > h->start_mono_ns;
}

struct recording_pair rec_clock_now(const struct recording *rec)
{
    struct recording_pair now = {counter(), now_ns(CLOCK_MONOTONIC)};
    if (!rec->header.trace.has_counter)
        now.ticks = now.ns;
    return now;
}

uint64_t rec_ticks_before(const struct recording *rec, const struct recording_pair *now,
                          uint64_t ns)
{
    const struct recording_pair start = {rec->header.trace.start_ticks, rec->header.start_mono_ns};
    double rate = rec->header.trace.has_counter ? slope(&start, now) : 1;
    uint64_t ticks = is_rate(rate) ? (uint64_t)((double)ns / rate) : ns;
    return ticks < now->ticks ? now->ticks - ticks : 0;
}

void rec_make_clock(struct recording *rec, struct recording_pair *pairs, size_t count)
{
    const struct piano__trace *t = &rec->header.trace;
    struct recording_clock *c = &rec->events.clock;
    c->counter = t->has_counter != 0;
    c->rate = 1;
    free(c->pairs); /* of an earlier call: the recording grows */
    c->pairs = NULL;
    c->count = 0;
    struct recording_pair *more = c->counter ? realloc(pairs, (count + 3) * sizeof(*more)) : NULL;
    if (!more) { /* no counter, or no memory for its pairs: use ticks unchanged */
        free(pairs);
        return;
    }
    more[count++] = (struct recording_pair){t->start_ticks, rec->header.start_mono_ns};
    if (t->end_ticks)
        more[count++] = (struct recording_pair){t->end_ticks, t->end_mono_ns};
    c->pairs = more;
    c->count = count;
    qsort(c->pairs, c->count, sizeof(*c->pairs), compare);
    struct recording_pair now = {0, 0};
    uint64_t span = c->pairs[c->count - 1].ns - c->pairs[0].ns;
    bool near = c->pairs[c->count - 1].ns <= c->pairs[0].ns || span < RATE_SPAN_NS;
    if (near && pair_of_now(rec, &now) && is_rate(slope(&c->pairs[0], &now))) {
        c->rate = slope(&c->pairs[0], &now);
        c->count = 1;
        return;
    }
    double rate = slope(&c->pairs[0], &c->pairs[c->count - 1]);
    c->rough = near || !is_rate(rate);
    c->rate = is_rate(rate) ? rate : 1;
    keep_line_pairs(c);
}

/* Returns the last pair at or before TICKS; count if all are later. */
static size_t find(const struct recording_clock *c, uint64_t ticks)
{
    size_t count = ORDER_BOUND(at, c->count, c->pairs[at].ticks <= ticks);
    return count ? count - 1 : c->count;
}

static uint64_t scaled(uint64_t ticks, double rate)
{
    double ns = (double)ticks * rate;
    return ns < 0x1p62 ? (uint64_t)(ns + 0.5) : (uint64_t)1 << 62;
}

uint64_t recording_time(const struct recording_clock *c, uint64_t ticks, size_t *at)
{
    if (!c->counter || c->count == 0)
        return ticks < (uint64_t)1 << 62 ? ticks : (uint64_t)1 << 62;
    bool here = *at < c->count && c->pairs[*at].ticks <= ticks &&
                (*at + 1 == c->count || ticks < c->pairs[*at + 1].ticks);
    if (!here)
        *at = find(c, ticks);
    if (*at == c->count) { /* before the first */
        uint64_t before = scaled(c->pairs[0].ticks - ticks, c->rate);
        return c->pairs[0].ns > before ? c->pairs[0].ns - before : 0;
    }
    const struct recording_pair *p = &c->pairs[*at];
    uint64_t ns;
    if (*at + 1 < c->count) {
        ns = p->ns + scaled(ticks - p->ticks, slope(p, p + 1));
        ns = ns < p[1].ns ? ns : p[1].ns;
    } else {
        ns = p->ns + scaled(ticks - p->ticks, c->rate);
    }
    return ns < (uint64_t)1 << 62 ? ns : (uint64_t)1 << 62;
}
