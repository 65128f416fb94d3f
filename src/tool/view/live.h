/* A page that follows a recording while it is written: packs the newest data when the page asks.
 *
 * Does nothing without requests. If a page asks every second, packs the data as often as 1 % of a
 * CPU allows; in between, the answer says how long to wait. */
#ifndef PIANO_TOOL_VIEW_LIVE_H
#define PIANO_TOOL_VIEW_LIVE_H

#include "tool/view/packer.h"
#include "tool/view/server.h"

struct live_page {
    /* Packs the recording into K, which is released in any case. Sets *IS_OVER if it is complete. 0
     * or negative errno. */
    int (*pack)(void *ctx, struct packer *k, bool *is_over);
    bool (*has_ended)(void *ctx); /* cheap: the recording is complete, so it is packed at once */
    void *ctx;
    uint64_t number;   /* of the data: 1 is in the page itself */
    bool is_over;      /* there will be no newer data */
    struct buf body;   /* the newest data: metadata, then the blocks */
    size_t meta_bytes; /* of the metadata */
    double cost_s[2];  /* CPU time of the last two times it was packed */
    int64_t next_ns;   /* CLOCK_MONOTONIC: not packed again before */
};

/* The page with data 1 was packed for COST_S of CPU time. */
void live_page_start(struct live_page *l, double cost_s);
server_newer live_page_newer; /* its CTX is the struct live_page */
void live_page_release(struct live_page *l);

/* CPU time of the process so far, in seconds. */
double live_page_cpu_s(void);

#endif
