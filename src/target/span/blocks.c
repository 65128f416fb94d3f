/* Blocks are parts of the live file if the disk can guarantee the space, else private memory. A
 * thread in private memory is recorded too, but cannot be recovered after a kill. A short spin lock
 * guards the free list. A thread that does not get the lock makes a new block instead of
 * waiting. */
#include "target/span/blocks.h"

#include <errno.h>

#include "target/span/run.h"
#include "target/sys/file.h"

/* A block larger than MAX_LIVE_BYTES (tens of thousands of functions) does not justify the disk
 * space. */
enum { MAX_BLOCKS = 16384, SPINS = 1000, MAX_LIVE_BYTES = 16 << 20 };

static struct {
    bool lock;
    uint32_t count;
    uint32_t file_count;
    struct piano__thread *all[MAX_BLOCKS];
    struct piano__thread *free[MAX_BLOCKS];
    uint32_t free_count;
} blocks;

static bool try_lock(void)
{
    /* Pairs with the release in `unlock`. */
    for (int i = 0; i < SPINS; i++)
        if (!__atomic_test_and_set(&blocks.lock, __ATOMIC_ACQUIRE))
            return true;
    return false;
}

static void unlock(void)
{
    /* Pairs with the acquire in `try_lock`. */
    __atomic_clear(&blocks.lock, __ATOMIC_RELEASE);
}

static struct piano__thread *make_block(void)
{
    struct piano__live_header *header = piano__run.header;
    /* No partner: the counts are numbers of places; `all` publishes the block. */
    uint32_t i = __atomic_fetch_add(&blocks.count, 1, __ATOMIC_SEQ_CST);
    if (i >= MAX_BLOCKS) {
        __atomic_fetch_sub(&blocks.count, 1, __ATOMIC_SEQ_CST);
        return NULL;
    }
    struct piano__thread *t = NULL;
    if (piano__run.live_fd >= 0 &&
        piano__file_check(piano__run.live_fd, piano__run.live_file, 0) == 0 &&
        header->block_bytes <= MAX_LIVE_BYTES) {
        /* No partner: the number of a place in the file. */
        uint32_t at = __atomic_fetch_add(&blocks.file_count, 1, __ATOMIC_SEQ_CST);
        off_t offset = (off_t)(PIANO_LIVE_HEADER_BYTES + at * header->block_bytes);
        t = piano__memory_map_file(piano__run.live_fd, offset, header->block_bytes);
        if (t)
            __atomic_fetch_add(&header->block_count, 1, __ATOMIC_RELAXED);
    }
    if (!t)
        t = piano__memory_map(header->block_bytes);
    /* Pairs with the acquire in `piano__blocks_at`. The list keeps a NULL if memory runs out. */
    __atomic_store_n(&blocks.all[i], t, __ATOMIC_RELEASE);
    return t;
}

struct piano__thread *piano__blocks_take(void)
{
    struct piano__thread *t = NULL;
    if (try_lock()) {
        if (blocks.free_count > 0)
            t = blocks.free[--blocks.free_count];
        unlock();
    }
    return t ? t : make_block();
}

void piano__blocks_give(struct piano__thread *t)
{
    if (!try_lock())
        return; /* the block is not reused, but its data is still read at exit */
    if (blocks.free_count < MAX_BLOCKS)
        blocks.free[blocks.free_count++] = t;
    unlock();
}

uint32_t piano__blocks_count(void)
{
    /* No partner: a place below the count may still be NULL. */
    uint32_t count = __atomic_load_n(&blocks.count, __ATOMIC_SEQ_CST);
    return count < MAX_BLOCKS ? count : MAX_BLOCKS;
}

struct piano__thread *piano__blocks_at(uint32_t i)
{
    /* Pairs with the release in `make_block`: the block is mapped. */
    return __atomic_load_n(&blocks.all[i], __ATOMIC_ACQUIRE);
}

void piano__blocks_abandon(void)
{
    int saved = errno;
    for (uint32_t i = 0; i < piano__blocks_count(); i++)
        if (blocks.all[i])
            (void)piano__memory_renew(blocks.all[i], piano__run.header->block_bytes);
    /* No partner: a forked child has one thread. */
    __atomic_store_n(&blocks.count, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&blocks.file_count, 0, __ATOMIC_SEQ_CST);
    blocks.free_count = 0;
    unlock();
    errno = saved;
}
