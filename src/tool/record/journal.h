/* What the tool itself adds to a recording: samples, their stacks, the modules and threads they are of. */
#ifndef PIANO_TOOL_RECORD_JOURNAL_H
#define PIANO_TOOL_RECORD_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tool/record/view.h"
#include "tool/unwind/walk.h"

enum {
    JOURNAL_HELD = 256 * 1024,            /* samples kept while there is no file */
    JOURNAL_MAX_CHUNKS = 8192,            /* 512 MB, then no more */
    JOURNAL_SAMPLE_CHUNKS = 4096,         /* of them with samples; then the oldest go */
    JOURNAL_MAX_FRAMES = 8 * 1024 * 1024, /* of all stacks together */
};

/* A growing array. */
struct journal_list {
    char *data;
    size_t count, capacity;
    size_t written; /* of them are in the file */
};

struct journal_log {
    struct piano__chunk *chunk; /* where the next record goes; NULL */
    size_t used;                /* of it; what the file says anybody may have changed */
    uint64_t next;              /* index of the next chunk */
};

struct journal {
    struct view view;
    char *path; /* of the file; NULL while there is none */
    struct journal_list modules, stacks, threads, samples;
    struct journal_list frames; /* of all stacks, one behind the other */
    uint32_t *slots;            /* the stacks by hash: 1 + their place in `stacks`; 0 free */
    size_t slot_count;
    struct journal_log logs[PIANO_CHUNK_NAMES + 1];
    size_t chunks;
    struct journal_list sample_chunks; /* numbers of those with samples, in the file */
    uint64_t renewed;                  /* so often the oldest of them was taken again */
    uint64_t given_up;                 /* samples that were in those */
    bool is_cut;                       /* the samples in memory are not all any more */
    uint64_t dropped;                  /* samples that found no room */
    uint64_t no_stack;                 /* samples whose stack found none */
    struct piano__trace trace;         /* what this side of the header is to say */
};

void journal_init(struct journal *j);
void journal_release(struct journal *j);

/* The number of a stack, with PIANO_TOOL_STACK in it; 0: there is no room. */
uint32_t journal_stack(struct journal *j, uint32_t generation, const struct unwind_stack *s);
void journal_module(struct journal *j, uint32_t generation, const struct mapping *m);
void journal_thread(struct journal *j, uint32_t pid, uint32_t tid, uint64_t at_ns,
                    const char *name);
void journal_sample(struct journal *j, const struct piano__sample *s);

/* From now on the file at PATH, which is a recording; a few samples in another go with us. 0 or negative errno, and then all is as it was. */
int journal_move(struct journal *j, const char *path);
/* Brings the file up to date. */
void journal_flush(struct journal *j);

#endif
