/* BUFFERS. Threads take and return them, last in first out. So thousands of short-lived threads
 * need only as many buffers and chunks as the largest number that ran at once. Buffers are never
 * freed. The head of the list contains a counter in addition to the number, which detects that a
 * buffer was taken and returned in between (ABA).
 *
 * CHUNKS. Full chunks wait in a queue, the oldest first. A thread whose chunk is full claims a new
 * one from the recording while all chunks fit into the size limit. After that it takes the oldest
 * of the queue, from any thread. So the newest events are kept. A thread needs a chunk to write
 * anything. So if the queue is empty (more threads at once than chunks allowed), it claims one
 * beyond the limit.
 *
 * A chunk says which one its buffer wrote before. A reader that does not find that one knows that
 * events of the thread are missing in between.
 *
 * LOG. Definitions are few and are needed as long as the program runs, so their chunks are never
 * reused. A chunk has room for several threads, because most need little. When the log is full, its
 * events go to the ring, and are counted.
 *
 * The queue has a lock, whose holder may be preempted for long. No event is lost by that: a full
 * chunk that cannot be queued keeps its events and is not reused. Claiming needs no lock, so the
 * cost is a chunk beyond the limit.
 *
 * A chunk that is reused is marked as not ready first. Its `index` is a new number each time,
 * larger than all before. The index orders the chunks of a thread, and shows a concurrent reader
 * that the chunk has changed. */
#include "target/trace/buffers.h"

#include <string.h>

#include "common/events.h"
#include "target/sys/clock.h"
#include "target/sys/file.h"
#include "target/sys/lock.h"
#include "target/sys/recording.h"
#include "target/record/stats.h"

enum { MOST_BUFFERS = 64 * 1024 };

static struct {
    struct piano__buffer *all;
    uint32_t count; /* buffers ever taken */
    uint64_t free;  /* number + 1 of the first free one; upper 32 bits: counter of changes */
    uint64_t most_chunks;
    uint64_t chunks; /* chunks claimed */
    uint64_t uses;   /* the next `index` */
    uint32_t lock;   /* protects the fields below */
    struct piano__chunk *full[PIANO_REC_MAX_CHUNKS];
    uint64_t first, last; /* bounds of the full chunks, modulo the array size */
} buffers;

/* The lock protects all but the first two. */
static struct {
    uint64_t most_chunks;
    uint32_t full; /* for good */
    uint32_t lock;
    uint64_t chunks;
    struct piano__chunk *chunk; /* current one */
    uint64_t parts;             /* used of it */
} definitions;

bool piano__buffers_init(uint64_t max_bytes)
{
    if (max_bytes == 0)
        max_bytes = PIANO_EVENTS_MAX;
    buffers.most_chunks = max_bytes / PIANO_REC_CHUNK_BYTES;
    if (buffers.most_chunks == 0)
        buffers.most_chunks = 1;
    definitions.most_chunks = buffers.most_chunks / PIANO_DEFINITIONS_SHARE;
    if (definitions.most_chunks == 0)
        definitions.most_chunks = 1;
    piano__trace_stats()->ring_most = buffers.most_chunks;
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
    memset(&definitions, 0, sizeof definitions);
}

struct piano__buffer *piano__buffers_take(void)
{
    /* Pairs with the release in piano__buffers_give(): the state that the previous thread left is
     * visible. */
    uint64_t head = __atomic_load_n(&buffers.free, __ATOMIC_ACQUIRE);
    while ((uint32_t)head != 0) {
        struct piano__buffer *b = &buffers.all[(uint32_t)head - 1];
        uint64_t rest = ((head >> 32) + 1) << 32 | __atomic_load_n(&b->next, __ATOMIC_RELAXED);
        if (__atomic_compare_exchange_n(&buffers.free, &head, rest, true, __ATOMIC_ACQUIRE,
                                        __ATOMIC_ACQUIRE))
            return b;
    }
    /* Relaxed: only the number must be unique. */
    uint32_t number = __atomic_load_n(&buffers.count, __ATOMIC_RELAXED);
    do {
        if (number == MOST_BUFFERS)
            return NULL;
    } while (!__atomic_compare_exchange_n(&buffers.count, &number, number + 1, true,
                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    struct piano__buffer *b = &buffers.all[number];
    b->ring.at = b->log.at = (uint8_t *)1; /* after `end`: no room */
    return b;
}

void piano__buffers_give(struct piano__buffer *b)
{
    uint64_t head = __atomic_load_n(&buffers.free, __ATOMIC_RELAXED);
    uint64_t fresh;
    do {
        __atomic_store_n(&b->next, (uint32_t)head, __ATOMIC_RELAXED);
        fresh = ((head >> 32) + 1) << 32 | (uint64_t)(b - buffers.all + 1);
        /* Pairs with the acquire in piano__buffers_take(). */
    } while (!__atomic_compare_exchange_n(&buffers.free, &head, fresh, true, __ATOMIC_RELEASE,
                                          __ATOMIC_RELAXED));
}

static void count_locked(struct piano__writer *w)
{
    /* Relaxed: a counter with one writer. */
    uint64_t events = __atomic_load_n(&w->events, __ATOMIC_RELAXED);
    piano__trace_add(&piano__trace_stats()->events, events - w->counted);
    w->counted = events;
}

void piano__buffers_count(void)
{
    if (!buffers.all || !piano__lock_try(&buffers.lock))
        return;
    uint32_t count = __atomic_load_n(&buffers.count, __ATOMIC_RELAXED);
    for (uint32_t i = 0; i < count; i++) {
        count_locked(&buffers.all[i].ring);
        count_locked(&buffers.all[i].log);
    }
    piano__lock_release(&buffers.lock);
}

static uint64_t next_index(void)
{
    return __atomic_fetch_add(&buffers.uses, 1, __ATOMIC_RELAXED);
}

/* Counts one more chunk, and returns true, if it fits into the size limit. */
static bool take_share(void)
{
    uint64_t chunks = __atomic_load_n(&buffers.chunks, __ATOMIC_RELAXED);
    do {
        if (chunks >= buffers.most_chunks)
            return false;
    } while (!__atomic_compare_exchange_n(&buffers.chunks, &chunks, chunks + 1, true,
                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    piano__trace_add(&piano__trace_stats()->ring_chunks, 1);
    return true;
}

static void give_share_back(void)
{
    __atomic_fetch_sub(&buffers.chunks, 1, __ATOMIC_RELAXED);
    __atomic_fetch_sub(&piano__trace_stats()->ring_chunks, 1, __ATOMIC_RELAXED);
}

/* Counts what is lost with the full chunk C. The lock is held. */
static void count_overwritten(const struct piano__chunk *c)
{
    struct piano__trace *t = piano__trace_stats();
    piano__trace_add(&t->recycled, 1);
    piano__trace_add(&t->overwritten, c->events);
    if (c->last_ns > t->overwritten_ns)
        __atomic_store_n(&t->overwritten_ns, c->last_ns, __ATOMIC_RELAXED);
}

static struct piano__chunk *recycle_locked(void)
{
    if (buffers.first == buffers.last)
        return NULL;
    struct piano__chunk *c = buffers.full[buffers.first % PIANO_REC_MAX_CHUNKS];
    /* Under the lock. Rule 4: release only orders it for a signal handler that jumps away. */
    __atomic_store_n(&buffers.first, buffers.first + 1, __ATOMIC_RELEASE);
    count_overwritten(c);
    __atomic_store_n(&c->ready, 0, __ATOMIC_RELAXED);
    /* Pairs with the acquire fence in tool/load/rec_copies.c: a reader that sees any of the
     * following stores also sees that the chunk is not ready. */
    __atomic_thread_fence(__ATOMIC_RELEASE);
    __atomic_store_n(&c->used, 0, __ATOMIC_RELAXED);
    /* Pairs with the acquire in tool/load/recording.c: a reader that sees the new index does not
     * see the old `used`. */
    __atomic_store_n(&c->index, next_index(), __ATOMIC_RELEASE);
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

/* Returns a chunk to write to. If the disk is full, old events are replaced too. Most threads have
 * few events and never fill their first chunk, so only later chunks are claimed with their pages in
 * memory. */
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
    give_share_back();
    return recycle();
}

/* The payload of C has BYTES. */
static void begin_chunk(struct piano__writer *w, struct piano__chunk *c, size_t bytes, uint32_t tid)
{
    struct piano__events_head *head = (void *)(c + 1);
    struct piano__clock_pair now = piano__clock_pair();
    *head = (struct piano__events_head){.tid = tid, .ticks = now.ticks, .mono_ns = now.mono_ns};
    w->chunk = c;
    w->at = (uint8_t *)(head + 1);
    w->end = (uint8_t *)head + bytes - PIANO_EVENT_ROOM;
    w->ticks = now.ticks;
    /* Both pair with the acquire loads in tool/load/recording.c: the head of the chunk is
     * complete. */
    __atomic_store_n(&c->used, sizeof *head, __ATOMIC_RELEASE);
    __atomic_store_n(&c->ready, 1, __ATOMIC_RELEASE);
}

/* Returns the time of the event at TICKS, the newest in C. The head of C and the current moment are
 * the two nearest pairs of both clocks. */
static uint64_t last_ns(const struct piano__chunk *c, uint64_t ticks)
{
    const struct piano__events_head *head = (const void *)(c + 1);
    struct piano__clock_pair now = piano__clock_pair();
    if (now.ticks <= head->ticks || now.mono_ns <= head->mono_ns)
        return head->mono_ns;
    double rate = (double)(now.mono_ns - head->mono_ns) / (double)(now.ticks - head->ticks);
    return head->mono_ns + (uint64_t)((double)(ticks - head->ticks) * rate);
}

/* Puts the full chunk of B into the queue. Returns false if the lock was not available. */
static bool retire(struct piano__buffer *b)
{
    if (!piano__lock_try(&buffers.lock))
        return false;
    count_locked(&b->ring);
    count_locked(&b->log);
    struct piano__chunk *full = b->ring.chunk;
    /* Rule 4: first, and the end of the queue last. A handler that jumps away in between wastes a
     * chunk, but no chunk is queued twice. */
    __atomic_store_n(&b->ring.chunk, NULL, __ATOMIC_RELEASE);
    if (full) {
        full->last_ns = last_ns(full, b->ring.ticks);
        full->events = b->ring.events - b->begun;
        buffers.full[buffers.last % PIANO_REC_MAX_CHUNKS] = full;
        __atomic_store_n(&buffers.last, buffers.last + 1, __ATOMIC_RELEASE);
    }
    piano__lock_release(&buffers.lock);
    return true;
}

bool piano__buffers_renew(struct piano__buffer *b, uint32_t tid)
{
    bool is_first = !b->ring.chunk;
    bool queue_is_free = retire(b);
    b->ring.chunk = NULL;
    struct piano__chunk *c = next_chunk(queue_is_free, is_first);
    if (!c) {
        b->before = PIANO_EVENTS_GAP;
        return false;
    }
    c->previous = b->before;
    b->before = c->index + 1;
    b->begun = b->ring.events;
    begin_chunk(&b->ring, c, PIANO_REC_PAYLOAD, tid);
    return true;
}

/* Returns an unused part of the log. */
static struct piano__chunk *next_part_locked(void)
{
    bool is_new = !definitions.chunk || definitions.parts == PIANO_DEFINITION_PARTS;
    if (is_new && definitions.chunks == definitions.most_chunks) {
        __atomic_store_n(&definitions.full, 1, __ATOMIC_RELAXED);
        return NULL;
    }
    if (is_new) {
        struct piano__chunk *c =
            piano__recording_claim(PIANO_CHUNK_DEFINITIONS, definitions.chunks);
        if (!c)
            return NULL;
        definitions.chunks++;
        definitions.chunk = c;
        /* Rule 4: last. A handler that jumps away before this wastes the new chunk. */
        __atomic_store_n(&definitions.parts, 0, __ATOMIC_RELEASE);
    }
    uint64_t part = definitions.parts;
    /* Rule 4: first. A handler that jumps away after this wastes a part. */
    __atomic_store_n(&definitions.parts, part + 1, __ATOMIC_RELEASE);
    char *payload = (char *)(definitions.chunk + 1);
    struct piano__chunk *c = (void *)(payload + part * PIANO_DEFINITION_BYTES);
    c->type = PIANO_CHUNK_DEFINITIONS;
    c->index = definitions.chunk->index * PIANO_DEFINITION_PARTS + part;
    return c;
}

bool piano__buffers_renew_log(struct piano__buffer *b, uint32_t tid)
{
    /* Relaxed: it is set once and orders no other data. */
    if (__atomic_load_n(&definitions.full, __ATOMIC_RELAXED) || !piano__lock_try(&definitions.lock))
        return false;
    struct piano__chunk *c = next_part_locked();
    piano__lock_release(&definitions.lock);
    if (c)
        begin_chunk(&b->log, c, PIANO_DEFINITION_BYTES - sizeof *c, tid);
    return c != NULL;
}

/* Continues after the last complete event of W. The payload of its chunk has BYTES. */
static void repair(struct piano__writer *w, size_t bytes)
{
    struct piano__chunk *c = w->chunk;
    if (!c || !c->ready || c->used < sizeof(struct piano__events_head)) {
        w->chunk = NULL;
        w->end = NULL;
        w->at = (uint8_t *)1; /* after `end`: no room */
        return;
    }
    const struct piano__events_head *head = (const void *)(c + 1);
    uint8_t *at = (uint8_t *)(c + 1) + sizeof *head;
    uint8_t *end = (uint8_t *)(c + 1) + c->used;
    w->ticks = head->ticks;
    while (at < end) {
        uint64_t ticks = 0;
        for (int i = 0; i < 10; i++) {
            ticks |= (uint64_t)(at[2 + i] & 0x7f) << (7 * i);
            if (!(at[2 + i] & 0x80))
                break;
        }
        w->ticks += ticks;
        at += 2 + at[1];
    }
    w->at = end;
    w->end = (uint8_t *)(c + 1) + bytes - PIANO_EVENT_ROOM;
}

void piano__buffer_repair(struct piano__buffer *b)
{
    repair(&b->ring, PIANO_REC_PAYLOAD);
    repair(&b->log, PIANO_DEFINITION_BYTES - sizeof(struct piano__chunk));
}
