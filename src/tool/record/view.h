/* The tool's mapping of a recording that a program may be writing at the same time. */
#ifndef PIANO_TOOL_RECORD_VIEW_H
#define PIANO_TOOL_RECORD_VIEW_H

#include <stddef.h>
#include <stdint.h>

#include "common/snapshot.h"

enum {
    /* 256 MB: limits the size of a recording. */
    VIEW_MAX_SNAPSHOT_CHUNKS = 4096,
};

struct view_chunk {
    uint32_t type;             /* 0: not ready */
    struct piano__chunk *from; /* its mapping; NULL: not needed so far */
};

struct view {
    struct piano__rec_view base; /* first: the callbacks cast its address to this struct */
    int fd;
    struct view_chunk *chunks; /* chunks seen so far */
    size_t count;
    size_t capacity;
    uint64_t log; /* 1 + number of the newest chunk with snapshots by the tool; 0: none */
    uint64_t snapshot_chunks;     /* chunks with snapshots, of all writers */
    uint64_t max_snapshot_chunks; /* VIEW_MAX_SNAPSHOT_CHUNKS, or less for a size-limited file */
};

/* Is H the start of a recording that this version can read? Returns 0, -EBADMSG (not a recording,
 * or not yet) or -EPROTO (another version). */
int view_check(const struct piano__rec_header *h);

/* Return 0 or negative errno, as `view_check`. `view_open_fd` takes ownership of FD, which is open
 * for reading and writing. */
int view_open(struct view *v, const char *path);
int view_open_fd(struct view *v, int fd);
void view_close(struct view *v);
/* Marks the recording as being written until `view_close` (PIANO_REC_HELD_AT). */
void view_hold(const struct view *v);

/* Claims a new chunk, `ready`, with its NUMBER. The caller unmaps it. NULL when there is no
 * space. */
struct piano__chunk *view_claim(const struct view *v, uint32_t type, uint64_t index,
                                uint64_t *number);
/* Empties chunk NUMBER, which `view_claim` returned before, for reuse; NULL when the file was
 * truncated. */
struct piano__chunk *view_reclaim(const struct view *v, uint64_t number, uint64_t index);
/* Unmaps a chunk from `view_claim` or `view_reclaim`. */
void view_unmap(struct piano__chunk *c);

/* Takes a snapshot now, when no other tool takes one. Returns its number or negative errno: -ENOSPC
 * when there is no space or the limit is reached; -EAGAIN when another tool holds the lock (kind
 * TIMER does not wait for it). */
int view_snapshot(struct view *v, enum piano__snapshot_kind kind, uint64_t resident);

#endif
