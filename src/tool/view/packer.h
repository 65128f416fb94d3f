/* Assembles a page: the data of one run, or of a run and a recording of the same process, or of two
 * to compare. */
#ifndef PIANO_TOOL_VIEW_PACKER_H
#define PIANO_TOOL_VIEW_PACKER_H

#include "tool/load/run.h"
#include "tool/profile/notices.h"
#include "tool/view/lanes.h"
#include "tool/view/pack.h"
#include "tool/view/texts.h"
#include "tool/view/trie.h"

enum packer_kind { PACKER_SPANS = 1, PACKER_HEAP = 2, PACKER_CPU = 4, PACKER_EVENTS = 8 };

/* Metadata of a run. */
struct packer_about {
    struct buf name, program, command;
    int64_t pid, started_ms, duration_ns; /* duration -1: unknown */
};

/* Writes the reports that a page contains. src/tool/report implements it (digest.h); the page itself
 * does not depend on the reports. Each returns 0 or negative errno. */
struct digest;
struct packer_digest {
    struct digest *to;
    int (*run)(struct digest *d, struct run *run);
    int (*heap)(struct digest *d, struct profile *p);
    int (*cpu)(struct digest *d, struct profile *p);
    int (*polls)(struct digest *d, struct polls *p);
    int (*diff)(struct digest *d, struct run runs[2]);
    int (*heap_diff)(struct digest *d, const struct profile profiles[2]);
    void (*put)(struct buf *b, struct digest *d);
};

struct packer {
    struct pack pack;
    struct texts texts;
    struct lanes lanes;
    struct trie trie;
    struct packer_digest digest;
    struct packer_about about, other; /* OTHER: the second in a comparison */
    bool compared;
    bool is_live;             /* the page asks for newer data */
    bool is_growing;          /* the recording is not complete: only the longest polls and parks */
    bool is_quiet;            /* notices only in the page */
    struct symbols *names;    /* kept by the caller from one page to the next; NULL: none */
    unsigned kinds;           /* enum packer_kind */
    struct range_asked range; /* of samples and events */
    const char *process;      /* name or number of those on the page; NULL: all */
    uint64_t base_ns;         /* CLOCK_MONOTONIC at time 0 of the page; 0 without a recording */
    int64_t run_offset_ns;    /* time 0 of the run, on the page */
    struct packer_joined {    /* the recording that a run must belong to; see `packer_join` */
        int64_t pid, from_ms, to_ms;
    } joined;
    char **notices;
    size_t notice_count;
    struct packer_loss {
        const char *cause; /* static */
        uint64_t count;
    } * losses;
    size_t loss_count;
    bool failed; /* a notice or a loss is missing: out of memory */
};

/* All return 0, or negative errno and fill ERROR. */
int packer_start(struct packer *k, const struct packer_digest *digest, struct run_error *error);
void packer_release(struct packer *k);

/* Puts a run and a recording of the same process into one page. Call this before adding both. */
int packer_join(struct packer *k, const char *recording, struct run_error *error);
/* Adds the tables of a run of functions. */
int packer_add_run(struct packer *k, const char *path, struct run_error *error);
/* Adds the tables of a recording: everything in it. */
int packer_add_recording(struct packer *k, const char *path, struct run_error *error);
/* Adds the second of two to compare; both have the same kind. */
int packer_add_other_run(struct packer *k, const char *path, const char *other,
                         struct run_error *error);
int packer_add_other_recording(struct packer *k, const char *path, const char *other,
                               struct run_error *error);
/* Encodes and compresses all tables. */
int packer_finish(struct packer *k, struct run_error *error);
/* Writes the text of `piano-meta`. */
void packer_put_meta(struct buf *b, const struct packer *k);

/* ---- shared by its files ---- */

/* Converts a CLOCK_MONOTONIC time to a time of the page. */
static inline int64_t packer_moment(const struct packer *k, uint64_t at_ns)
{
    uint64_t since = at_ns > k->base_ns ? at_ns - k->base_ns : 0;
    return since < (uint64_t)INT64_MAX ? (int64_t)since : INT64_MAX;
}

/* Records that COUNT things were dropped because of CAUSE; ignores 0. */
void packer_dropped(struct packer *k, const char *cause, uint64_t count);
/* Adds a notice to the page and prints it on stderr. */
void packer_notice(struct packer *k, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int packer_no_memory(struct run_error *error, const char *path);

/* A recording whose stacks go into the page. */
struct packer_stacks {
    struct profile *profile;
    uint32_t *nodes; /* of each stack; PACK_NONE: not created yet */
};
/* PACK_NONE: out of memory. */
uint32_t packer_node(struct packer *k, struct packer_stacks *s, uint32_t stack);

/* Add the parts of a recording. Return 0 or -ENOMEM. */
int packer_add_heap(struct packer *k, struct packer_stacks *s);
int packer_add_events(struct packer *k, struct polls *p);

#endif
