/* A page in the making: the data of one run, or of a run and a recording of the same process, or of two to compare. */
#ifndef PIANO_TOOL_VIEW_PACKER_H
#define PIANO_TOOL_VIEW_PACKER_H

#include "tool/load/run.h"
#include "tool/report/polls.h"
#include "tool/view/lanes.h"
#include "tool/view/pack.h"
#include "tool/view/reports.h"
#include "tool/view/texts.h"
#include "tool/view/trie.h"

enum packer_kind { PACKER_SPANS = 1, PACKER_HEAP = 2, PACKER_CPU = 4, PACKER_EVENTS = 8 };

/* What a page says of a run besides its tables. */
struct packer_about {
    struct buf name, program, command;
    int64_t pid, started_ms, duration_ns; /* duration -1: not known */
};

struct packer {
    struct pack pack;
    struct texts texts;
    struct lanes lanes;
    struct trie trie;
    struct reports reports;
    struct packer_about about, other; /* OTHER: the second of a comparison */
    bool compared;
    unsigned kinds;        /* enum packer_kind */
    uint64_t base_ns;      /* CLOCK_MONOTONIC at time 0 of the page; 0 without a recording */
    int64_t run_offset_ns; /* of time 0 of the run, on the page */
    struct packer_joined { /* the recording a run is to be of; see `packer_join` */
        int64_t pid, from_ms, to_ms;
    } joined;
    struct buf notices; /* JSON strings, commas between */
    struct buf dropped; /* JSON members, commas between */
};

/* All return 0, or negative errno with ERROR filled. */
int packer_start(struct packer *k, struct run_error *error);
void packer_release(struct packer *k);

/* A run and a recording of the same process go into one page: to be called before both are added. */
int packer_join(struct packer *k, const char *recording, struct run_error *error);
/* Tables of a run of functions. */
int packer_add_run(struct packer *k, const char *path, struct run_error *error);
/* Tables of a recording: everything in it. */
int packer_add_recording(struct packer *k, const char *path, struct run_error *error);
/* The second of two to compare; both are of one kind. */
int packer_add_other_run(struct packer *k, const char *path, const char *other,
                         struct run_error *error);
int packer_add_other_recording(struct packer *k, const char *path, const char *other,
                               struct run_error *error);
/* Packs what has come together. */
int packer_finish(struct packer *k, struct run_error *error);
/* The text of `piano-meta`. */
void packer_put_meta(struct buf *b, const struct packer *k);

/* ---- what its files share ---- */

/* A moment of CLOCK_MONOTONIC as a time of the page. */
static inline int64_t packer_moment(const struct packer *k, uint64_t at_ns)
{
    uint64_t since = at_ns > k->base_ns ? at_ns - k->base_ns : 0;
    return since < (uint64_t)INT64_MAX ? (int64_t)since : INT64_MAX;
}

/* COUNT things were dropped because of CAUSE; 0 is not said. */
void packer_dropped(struct packer *k, const char *cause, uint64_t count);
/* A line for whoever looks at the page, and on stderr. */
void packer_notice(struct packer *k, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int packer_no_memory(struct run_error *error, const char *path);

/* A recording whose stacks go into the page. */
struct packer_stacks {
    struct heap *heap;
    uint32_t *nodes; /* of each stack; PACK_NONE: not made yet */
};
/* PACK_NONE: memory is out. */
uint32_t packer_node(struct packer *k, struct packer_stacks *s, uint32_t stack);

/* The parts of a recording; 0 or -ENOMEM. */
int packer_add_heap(struct packer *k, struct packer_stacks *s);
int packer_add_events(struct packer *k, struct polls *p);

#endif
