/* BUFFERS are taken and given back by threads, last in first out, so that thousands of short threads need no more of them,
 * and of chunks, than the most that ran at once. They are never freed; the head of the list carries a count besides
 * the number, so that a buffer that was taken and given back meanwhile is not taken for one that never left.
 *
 * CHUNKS. Full ones wait in a queue, the oldest first. A thread whose chunk is full claims a fresh one from the recording as
 * long as all of them stay within the size asked for, and else takes the oldest of the queue, whoever wrote that: what is
 * kept is the newest of all events. A thread needs a chunk to write at all, so when nothing is in the queue (more threads at
 * once than chunks allowed) one is claimed beyond the size.
 *
 * The queue has a lock, whose holder may be kept from the processor for long. Nobody loses an event by that: a full chunk that cannot
 * be put into the queue stays as it is, and claiming needs no lock, at the price of a chunk beyond the size.
 *
 * A chunk that is taken again is marked as not ready first. Its `index` is a new number each time, larger than all
 * before: in its order the chunks of a thread follow each other, and a reader at work meanwhile finds it changed. */
#include "target/trace/buffers.h"

#include <string.h>

#include "common/events.h"
#include "target/sys/clock.h"
#include "target/sys/file.h"
#include "target/sys/lock.h"
#include "target/sys/recording.h"
#include "target/trace/stats.h"

enum { MOST_BUFFERS = 64 * 1024 };

static struct {
    struct piano__buffer *all;
    uint32_t count; /* ever taken */
    uint64_t free;  /* first free one, its number + 1; above 32 bits: how often it changed */
    uint64_t most_chunks;
    uint64_t chunks; /* claimed */
    uint64_t uses;   /* the next `index` */
    uint32_t lock;   /* for the rest */
    struct piano__chunk *full[PIANO_REC_MAX_CHUNKS];
    uint64_t first, last; /* of the full ones, modulo their room */
} buffers;

bool piano__buffers_init(uint64_t max_bytes)
{
    if (max_bytes == 0)
        max_bytes = PIANO_EVENTS_MAX;
    buffers.most_chunks = max_bytes / PIANO_REC_CHUNK_BYTES;
    if (buffers.most_chunks == 0)
        buffers.most_chunks = 1;
    if (!buffers.all)
        buffers.all = piano__memory_map(MOST_BUFFERS * sizeof *buffers.all);
    return buffers.all != NULL;
}

void piano__buffers_forget(void)
{
    if (buffers.all)
        piano__memory_unmap(buffers.all, MOST_BUFFERS * sizeof *buffers.all);
    uint64_t touched = buffers.last < PIANO_REC_MAX_CHUNKS ? buffers.last : PIANO_REC_MAX_CHUNKS;
    memset(buffers.full, 0, touched * sizeof buffers.full[0]);
    buffers.all = NULL;
    buffers.count = buffers.lock = 0;
    buffers.free = buffers.chunks = buffers.uses = buffers.first = buffers.last = 0;
}

struct piano__buffer *piano__buffers_take(void)
{
    /* Pairs with the release in `piano__buffers_give`: what the thread before left is ours to see. */
    uint64_t head = __atomic_load_n(&buffers.free, __ATOMIC_ACQUIRE);
    while ((uint32_t)head != 0) {
        struct piano__buffer *b = &buffers.all[(uint32_t)head - 1];
        uint64_t rest = ((head >> 32) + 1) << 32 | __atomic_load_n(&b->next, __ATOMIC_RELAXED);
        if (__atomic_compare_exchange_n(&buffers.free, &head, rest, true, __ATOMIC_ACQUIRE,
                                        __ATOMIC_ACQUIRE))
            return b;
    }
    uint32_t number = __atomic_load_n(&buffers.count, __ATOMIC_RELAXED);
    do {
        if (number == MOST_BUFFERS)
            return NULL;
    } while (!__atomic_compare_exchange_n(&buffers.count, &number, number + 1, true,
                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    struct piano__buffer *b = &buffers.all[number];
    b->at = (uint8_t *)1; /* behind `end`: no room */
    return b;
}

void piano__buffers_give(struct piano__buffer *b)
{
    uint64_t head = __atomic_load_n(&buffers.free, __ATOMIC_RELAXED);
    uint64_t fresh;
    do {
        __atomic_store_n(&b->next, (uint32_t)head, __ATOMIC_RELAXED);
        fresh = ((head >> 32) + 1) << 32 | (uint64_t)(b - buffers.all + 1);
    } while (!__atomic_compare_exchange_n(&buffers.free, &head, fresh, true, __ATOMIC_RELEASE,
                                          __ATOMIC_RELAXED));
}

static void count_locked(struct piano__buffer *b)
{
    uint64_t events = __atomic_load_n(&b->events, __ATOMIC_RELAXED);
    piano__trace_add(&piano__trace_stats()->events, events - b->counted);
    b->counted = events;
}

void piano__buffers_count(void)
{
    if (!buffers.all || !piano__lock_try(&buffers.lock))
        return;
    uint32_t count = __atomic_load_n(&buffers.count, __ATOMIC_RELAXED);
    for (uint32_t i = 0; i < count; i++)
        count_locked(&buffers.all[i]);
    piano__lock_release(&buffers.lock);
}

static uint64_t next_index(void)
{
    return __atomic_fetch_add(&buffers.uses, 1, __ATOMIC_RELAXED);
}

/* Whether one more chunk is within the size; it counts from now on. */
static bool take_share(void)
{
    uint64_t chunks = __atomic_load_n(&buffers.chunks, __ATOMIC_RELAXED);
    do {
        if (chunks >= buffers.most_chunks)
            return false;
    } while (!__atomic_compare_exchange_n(&buffers.chunks, &chunks, chunks + 1, true,
                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return true;
}

static struct piano__chunk *recycle_locked(void)
{
    if (buffers.first == buffers.last)
        return NULL;
    struct piano__chunk *c = buffers.full[buffers.first % PIANO_REC_MAX_CHUNKS];
    __atomic_store_n(&buffers.first, buffers.first + 1, __ATOMIC_RELEASE);
    __atomic_store_n(&c->ready, 0, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE); /* who sees what is written now finds it not ready */
    __atomic_store_n(&c->used, 0, __ATOMIC_RELAXED);
    /* Pairs with the acquire in tool/load/recording.c: a reader that sees the new index does not see the old `used`. */
    __atomic_store_n(&c->index, next_index(), __ATOMIC_RELEASE);
    piano__trace_add(&piano__trace_stats()->recycled, 1);
    return c;
}

static struct piano__chunk *recycle(void)
{
    if (!piano__lock_try(&buffers.lock))
        return NULL;
    struct piano__chunk *c = recycle_locked();
    piano__lock_release(&buffers.lock);
    return c;
}

/* When the disk is full, too, old events give way to new ones. Most threads have few events, and never need all of their
 * first chunk; who filled that will need the next. */
static struct piano__chunk *next_chunk(bool queue_is_free, bool is_first)
{
    struct piano__chunk *c = NULL;
    bool within = take_share();
    if (!within && queue_is_free)
        c = recycle();
    if (!c)
        c = is_first ? piano__recording_claim(PIANO_CHUNK_EVENTS, next_index())
                     : piano__recording_claim_filled(PIANO_CHUNK_EVENTS, next_index());
    if (c || !within)
        return c;
    __atomic_fetch_sub(&buffers.chunks, 1, __ATOMIC_RELAXED);
    return recycle();
}

static void begin_chunk(struct piano__buffer *b, struct piano__chunk *c, uint32_t tid)
{
    struct piano__events_head *head = (void *)(c + 1);
    struct piano__clock_pair now = piano__clock_pair();
    *head = (struct piano__events_head){.tid = tid, .ticks = now.ticks, .mono_ns = now.mono_ns};
    b->chunk = c;
    b->at = (uint8_t *)(head + 1);
    b->end = (uint8_t *)head + PIANO_REC_PAYLOAD - PIANO_EVENT_ROOM;
    b->ticks = now.ticks;
    __atomic_store_n(&c->used, sizeof *head, __ATOMIC_RELEASE);
    __atomic_store_n(&c->ready, 1, __ATOMIC_RELEASE);
}

/* The full chunk of B into the queue; false when that could not be had. */
static bool retire(struct piano__buffer *b)
{
    if (!piano__lock_try(&buffers.lock))
        return false;
    count_locked(b);
    struct piano__chunk *full = b->chunk;
    /* First, and the queue's end last: a handler that jumps away in between costs a chunk, and queues none twice. */
    __atomic_store_n(&b->chunk, NULL, __ATOMIC_RELEASE);
    if (full) {
        buffers.full[buffers.last % PIANO_REC_MAX_CHUNKS] = full;
        __atomic_store_n(&buffers.last, buffers.last + 1, __ATOMIC_RELEASE);
    }
    piano__lock_release(&buffers.lock);
    return true;
}

bool piano__buffers_renew(struct piano__buffer *b, uint32_t tid)
{
    bool is_first = !b->chunk;
    bool queue_is_free = retire(b);
    b->chunk = NULL;
    struct piano__chunk *c = next_chunk(queue_is_free, is_first);
    if (c)
        begin_chunk(b, c, tid);
    return c != NULL;
}

void piano__buffer_repair(struct piano__buffer *b)
{
    struct piano__chunk *c = b->chunk;
    if (!c || !c->ready || c->used < sizeof(struct piano__events_head)) {
        b->chunk = NULL;
        b->end = NULL;
        b->at = (uint8_t *)1; /* behind `end`: no room */
        return;
    }
    const struct piano__events_head *head = (const void *)(c + 1);
    uint8_t *at = (uint8_t *)(c + 1) + sizeof *head;
    uint8_t *end = (uint8_t *)(c + 1) + c->used;
    b->ticks = head->ticks;
    while (at < end) {
        uint64_t ticks = 0;
        for (int i = 0; i < 10; i++) {
            ticks |= (uint64_t)(at[2 + i] & 0x7f) << (7 * i);
            if (!(at[2 + i] & 0x80))
                break;
        }
        b->ticks += ticks;
        at += 2 + at[1];
    }
    b->at = end;
    b->end = (uint8_t *)(c + 1) + PIANO_REC_PAYLOAD - PIANO_EVENT_ROOM;
}
