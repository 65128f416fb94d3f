/* A buffer is taken for the duration of one sample. So as many are needed as threads take a sample
 * at the same time: far fewer than there are threads. The most recently returned one is taken
 * first, while it is in the cache. The head of the list contains a counter in addition to the
 * number, which detects that a buffer was taken and returned in between (ABA).
 *
 * Blocks of buffers are mapped as needed. Only the first block is static, for programs that
 * restrict their system calls. Buffers that other threads had taken at a fork stay taken in the
 * child. */
#include "target/heap/rooms.h"

#include <stdbool.h>
#include <stddef.h>

#include "target/sys/file.h"

enum { BLOCK = 32, BLOCKS = 512, ROOMS = BLOCK * BLOCKS };

struct block {
    struct room {
        struct piano__walk walk; /* first member: a pointer to it is a pointer to the room */
        uint32_t number, next;
    } rooms[BLOCK];
};

static struct block first;
static struct block *blocks[BLOCKS] = {&first};
static uint64_t free_rooms; /* number + 1 of the first; upper 32 bits: counter of changes */
static uint32_t begun;      /* rooms that were ever taken */

static struct room *room_of(uint32_t number)
{
    /* Pairs with the release in has_block(): the block is mapped. */
    struct block *b = __atomic_load_n(&blocks[number / BLOCK], __ATOMIC_ACQUIRE);
    return &b->rooms[number % BLOCK];
}

static bool has_block(uint32_t number)
{
    struct block **place = &blocks[number / BLOCK], *none = NULL;
    /* Pairs with the release below. */
    if (__atomic_load_n(place, __ATOMIC_ACQUIRE))
        return true;
    struct block *fresh = piano__memory_map(sizeof *fresh);
    if (!fresh)
        return false;
    /* Pairs with the acquire above and in room_of(). On failure, another thread has mapped the
     * block. */
    if (!__atomic_compare_exchange_n(place, &none, fresh, false, __ATOMIC_RELEASE,
                                     __ATOMIC_RELAXED))
        piano__memory_unmap(fresh, sizeof *fresh);
    return true;
}

static struct piano__walk *take_new(void)
{
    /* Relaxed: only the number must be unique. has_block() publishes the memory. */
    uint32_t number = __atomic_load_n(&begun, __ATOMIC_RELAXED);
    do {
        if (number == ROOMS || !has_block(number))
            return NULL;
    } while (!__atomic_compare_exchange_n(&begun, &number, number + 1, true, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
    struct room *room = room_of(number);
    room->number = number;
    return &room->walk;
}

struct piano__walk *piano__rooms_take(void)
{
    /* Pairs with the release in piano__rooms_give(): `next` is set. */
    uint64_t head = __atomic_load_n(&free_rooms, __ATOMIC_ACQUIRE);
    while ((uint32_t)head != 0) {
        struct room *room = room_of((uint32_t)head - 1);
        uint64_t rest = ((head >> 32) + 1) << 32 | __atomic_load_n(&room->next, __ATOMIC_RELAXED);
        if (__atomic_compare_exchange_n(&free_rooms, &head, rest, true, __ATOMIC_ACQUIRE,
                                        __ATOMIC_ACQUIRE))
            return &room->walk;
    }
    return take_new();
}

void piano__rooms_give(struct piano__walk *walk)
{
    struct room *room = (struct room *)walk;
    uint64_t head = __atomic_load_n(&free_rooms, __ATOMIC_RELAXED);
    uint64_t fresh;
    do {
        __atomic_store_n(&room->next, (uint32_t)head, __ATOMIC_RELAXED);
        fresh = ((head >> 32) + 1) << 32 | (room->number + 1);
        /* Pairs with the acquire in piano__rooms_take(). */
    } while (!__atomic_compare_exchange_n(&free_rooms, &head, fresh, true, __ATOMIC_RELEASE,
                                          __ATOMIC_RELAXED));
}
