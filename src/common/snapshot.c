/* A snapshot is a copy of the sums of all stacks. The program keeps running while it is taken. So
 * each sum is a value from some time during the copy, which takes a few microseconds per thousand
 * stacks.
 *
 * It is written in parts of at most PIANO_SNAPSHOT_PER_PART stacks, each one log record. The first
 * part contains the number of parts, so the stacks are counted first. Stacks that appear after that
 * are left for the next snapshot. */
#include "common/snapshot.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

/* State of the snapshot that is being written. */
struct writer {
    struct piano__rec_view *view;
    struct piano__snapshot head;  /* header of the current part */
    struct piano__snapshot *part; /* NULL between parts */
    uint32_t room;                /* entries reserved in the part */
    uint32_t count;               /* entries written; not read back from shared memory */
    uint64_t used;                /* bytes of the log before the part */
    uint64_t left;                /* entries left in all parts */
};

/* Pairs with the release in piano__sums_allocated(): a stack with samples has the sums of its first
 * sample. */
static bool any(const struct piano__totals *t)
{
    return __atomic_load_n(&t->samples, __ATOMIC_ACQUIRE) > 0;
}

/* The program changes these sums concurrently. Each is read once and never torn. */
static double number(const double *at)
{
    double value;
    __atomic_load(at, &value, __ATOMIC_RELAXED);
    return value;
}

static uint64_t count_of(const uint64_t *at)
{
    return __atomic_load_n(at, __ATOMIC_RELAXED);
}

static uint64_t count_stacks(struct piano__rec_view *view)
{
    uint64_t count = 0;
    /* Pairs with the CAS in map_next() of sys/recording.c, and with the tool's claim. */
    uint64_t chunks = __atomic_load_n(&view->header->chunks, __ATOMIC_ACQUIRE);
    for (uint64_t n = 0; n < chunks; n++) {
        const struct piano__chunk *c = view->chunk(view, n);
        /* Pairs with the release in claim() of sys/recording.c: type and index are set. */
        if (!c || !__atomic_load_n(&c->ready, __ATOMIC_ACQUIRE) || c->type != PIANO_CHUNK_TOTALS)
            continue;
        const struct piano__totals *all = (const void *)(c + 1);
        for (int i = 0; i < PIANO_TOTALS_PER_CHUNK; i++)
            count += any(&all[i]);
    }
    return count;
}

static uint32_t part_bytes(uint64_t entries)
{
    return (uint32_t)(sizeof(struct piano__snapshot) +
                      entries * sizeof(struct piano__snapshot_entry));
}

/* Reserves room for the next part, in this process's snapshot chunk or in a new one. */
static bool begin_part(struct writer *w)
{
    uint64_t entries = w->left < PIANO_SNAPSHOT_PER_PART ? w->left : PIANO_SNAPSHOT_PER_PART;
    uint32_t bytes = part_bytes(entries);
    struct piano__chunk *log = w->view->log;
    /* Relaxed: one process at a time writes to this log. */
    uint64_t used = log ? __atomic_load_n(&log->used, __ATOMIC_RELAXED) : 0;
    /* The program may have overwritten `used`, so it can have any value. */
    if (!log || used > PIANO_REC_PAYLOAD - bytes) {
        log = w->view->claim(w->view, PIANO_CHUNK_SNAPSHOT, w->head.number);
        if (!log)
            return false;
        w->view->log = log;
        used = 0;
    }
    w->part = (struct piano__snapshot *)(void *)((char *)(log + 1) + used);
    w->used = used;
    memcpy(w->part, &w->head, sizeof w->head);
    w->part->bytes = bytes;
    w->room = (uint32_t)entries;
    w->count = 0;
    return true;
}

/* Publishes the part. Entries that were reserved but not needed become empty entries of stack 0. */
static void end_part(struct writer *w)
{
    for (uint32_t i = w->count; i < w->room; i++)
        memset(&w->part->entries[i], 0, sizeof w->part->entries[i]);
    w->part->count = w->count;
    uint64_t end = w->used + part_bytes(w->room);
    /* Pairs with the readers' acquire load of `used`: the part is complete. */
    __atomic_store_n(&w->view->log->used, end, __ATOMIC_RELEASE);
    w->part = NULL;
    w->head.part++;
}

static bool put(struct writer *w, uint32_t stack, const struct piano__totals *t)
{
    if (!w->part && !begin_part(w))
        return false;
    struct piano__snapshot_entry *e = &w->part->entries[w->count++];
    e->stack = stack;
    double allocated = number(&t->allocated_bytes);
    e->live_samples =
        (uint32_t)(count_of(&t->samples) - count_of(&t->freed) - count_of(&t->untracked));
    e->live_bytes = allocated - number(&t->freed_bytes) - number(&t->untracked_bytes);
    e->live_objects =
        number(&t->allocated_objects) - number(&t->freed_objects) - number(&t->untracked_objects);
    e->allocated_bytes = allocated;
    e->live_variance = number(&t->allocated_variance) - number(&t->freed_variance) -
                       number(&t->untracked_variance);
    w->left--;
    if (w->count == w->room)
        end_part(w);
    return true;
}

static bool put_chunk(struct writer *w, const struct piano__chunk *c)
{
    const struct piano__totals *all = (const void *)(c + 1);
    for (int i = 0; i < PIANO_TOTALS_PER_CHUNK && w->left > 0; i++) {
        uint32_t stack = (uint32_t)(c->index * PIANO_TOTALS_PER_CHUNK) + (uint32_t)i;
        if (any(&all[i]) && !put(w, stack, &all[i]))
            return false;
    }
    return true;
}

int piano__snapshot_take(struct piano__rec_view *view, uint32_t kind, uint64_t now_ns,
                         uint64_t resident)
{
    struct piano__rec_header *header = view->header;
    struct writer w = {.view = view, .left = count_stacks(view)};
    uint64_t parts = (w.left + PIANO_SNAPSHOT_PER_PART - 1) / PIANO_SNAPSHOT_PER_PART;
    /* Relaxed: only the number must be unique. */
    w.head.number = (uint32_t)__atomic_add_fetch(&header->snapshots, 1, __ATOMIC_RELAXED);
    w.head.parts = parts ? (uint32_t)parts : 1;
    w.head.kind = kind;
    w.head.at_ns = now_ns;
    w.head.live_bytes = header->live_bytes;
    w.head.allocated_bytes = header->allocated_bytes;
    w.head.resident_bytes = resident;
    if (w.left == 0) {
        if (!begin_part(&w))
            return -ENOSPC;
        end_part(&w);
        return (int)w.head.number;
    }
    /* These pair as in count_stacks(). */
    uint64_t chunks = __atomic_load_n(&header->chunks, __ATOMIC_ACQUIRE);
    for (uint64_t n = 0; n < chunks && w.left > 0; n++) {
        const struct piano__chunk *c = view->chunk(view, n);
        if (c && __atomic_load_n(&c->ready, __ATOMIC_ACQUIRE) && c->type == PIANO_CHUNK_TOTALS &&
            !put_chunk(&w, c))
            return -ENOSPC;
    }
    if (w.part)
        end_part(&w);
    return (int)w.head.number;
}
