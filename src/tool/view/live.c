/* The newest data of a recording, for a page that is open. */
#include "tool/view/live.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

static const double share = 120; /* of a CPU: one over this; answers cost something too */
enum { LEAST_MS = 1000, FIRST_MOST_MS = 2000, NAMED = 3 };

static int64_t clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

double live_page_cpu_s(void)
{
    return (double)clock_ns(CLOCK_PROCESS_CPUTIME_ID) / 1e9;
}

/* Predicts the cost of packing again. The first costs contain the lookup of names, which happens
 * once, so the smaller one counts. Later, the recording is assumed to grow as before. */
static double next_cost_s(const struct live_page *l)
{
    double before = l->cost_s[0], last = l->cost_s[1];
    if (l->number <= NAMED)
        return before < last ? before : last;
    return last > before ? 2 * last - before : last;
}

static void plan_next(struct live_page *l, double cost_s)
{
    bool is_first = l->number == 1;
    l->cost_s[0] = is_first ? cost_s : l->cost_s[1];
    l->cost_s[1] = cost_s;
    double wait = next_cost_s(l) * share * 1000;
    if (is_first && wait > FIRST_MOST_MS)
        wait = FIRST_MOST_MS;
    wait = wait < LEAST_MS ? LEAST_MS : wait;
    l->next_ns = clock_ns(CLOCK_MONOTONIC) + (int64_t)(wait * 1e6);
}

void live_page_start(struct live_page *l, double cost_s)
{
    l->number = 1;
    plan_next(l, cost_s);
}

/* The description and the bytes of all blocks. */
static void put_data(struct live_page *l, const struct packer *k)
{
    buf_free(&l->body);
    packer_put_meta(&l->body, k);
    l->meta_bytes = l->body.len;
    for (size_t i = 0; i < k->pack.block_count; i++)
        buf_put(&l->body, k->pack.blocks[i].data, k->pack.blocks[i].bytes);
}

/* On failure (the file is gone, or there is no memory) the last data stays, and is final. */
static void pack(struct live_page *l)
{
    double began = live_page_cpu_s();
    struct packer k;
    bool is_over = false;
    if (l->pack(l->ctx, &k, &is_over) == 0) {
        put_data(l, &k);
        l->number++;
        l->is_over = is_over;
    } else {
        l->is_over = true;
    }
    if (l->body.failed) {
        buf_free(&l->body);
        l->is_over = true;
    }
    packer_release(&k);
    plan_next(l, live_page_cpu_s() - began);
}

void live_page_newer(void *ctx, uint64_t has, bool may_change, struct server_data *data)
{
    struct live_page *l = ctx;
    int64_t left_ns = l->next_ns - clock_ns(CLOCK_MONOTONIC);
    if (!l->is_over && may_change && (left_ns <= 0 || l->has_ended(l->ctx))) {
        pack(l);
        left_ns = l->next_ns - clock_ns(CLOCK_MONOTONIC);
    }
    bool is_newer = has < l->number && l->body.len > 0;
    int64_t wait_ms = left_ns / 1000000 + 1;
    snprintf(data->note, sizeof(data->note),
             "{\"state\":\"%s\",\"number\":%" PRIu64 ",\"meta_bytes\":%zu,\"wait_ms\":%lld}\n",
             l->is_over ? "ended" : "running", l->number, is_newer ? l->meta_bytes : 0,
             (long long)(wait_ms < LEAST_MS ? LEAST_MS : wait_ms));
    data->body = is_newer ? l->body.data : NULL;
    data->len = is_newer ? l->body.len : 0;
}

void live_page_release(struct live_page *l)
{
    buf_free(&l->body);
}
