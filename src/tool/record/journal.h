/* The part of a recording that the tool writes: samples and their stacks, modules and threads. */
#ifndef PIANO_TOOL_RECORD_JOURNAL_H
#define PIANO_TOOL_RECORD_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tool/record/view.h"
#include "tool/unwind/walk.h"
#include "tool/util/map.h"

enum {
    JOURNAL_HELD = 256 * 1024,            /* samples kept in memory while there is no file */
    JOURNAL_MAX_CHUNKS = 8192,            /* 512 MB in total */
    JOURNAL_SAMPLE_CHUNKS = 4096,         /* with samples; then the oldest are reused */
    JOURNAL_MAX_FRAMES = 8 * 1024 * 1024, /* of all stacks together */
};

/* A growing array. */
struct journal_list {
    char *data;
    size_t count, capacity;
    size_t written; /* number that is in the file */
};

struct journal_log {
    struct piano__chunk *chunk; /* the chunk being filled; NULL: none */
    size_t used;                /* bytes used; not read from the file, which others may change */
    uint64_t next;              /* index of the next chunk */
};

struct journal {
    struct view view;
    char *path; /* of the file; NULL: no file yet */
    struct journal_list modules, stacks, threads, samples;
    struct journal_list frames; /* of all stacks, concatenated */
    struct map known;           /* from the hash of a stack to its index in `stacks` */
    struct journal_log logs[PIANO_CHUNK_NAMES + 1];
    size_t chunks;
    struct journal_list sample_chunks; /* numbers of the chunks with samples */
    uint64_t renewed;                  /* how often the oldest chunk was reused */
    uint64_t given_up;                 /* samples lost by reuse */
    bool is_cut;                       /* `samples` no longer holds all samples */
    uint64_t dropped;                  /* samples dropped for lack of space */
    uint64_t no_stack;                 /* samples whose stack was dropped */
    struct piano__trace trace;         /* values for our part of the header */
};

void journal_init(struct journal *j);
void journal_release(struct journal *j);

/* The number of a stack, with PIANO_TOOL_STACK set; 0: no space. */
uint32_t journal_stack(struct journal *j, uint32_t generation, const struct unwind_stack *s);
void journal_module(struct journal *j, uint32_t generation, const struct mapping *m);
void journal_thread(struct journal *j, uint32_t pid, uint32_t tid, uint64_t at_ns,
                    const char *name);
void journal_sample(struct journal *j, const struct piano__sample *s);

/* Switches to the recording at PATH. Samples in the previous file move along if they are few.
 * Returns 0 or negative errno; on error nothing changes. */
int journal_move(struct journal *j, const char *path);
/* Writes everything new to the file. */
void journal_flush(struct journal *j);

#endif
