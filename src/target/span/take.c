/* At exit, the exiting thread takes the blocks of the threads that still run (commit.c has their
 * side), and writes their lines for them. */
#include "target/span/take.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "target/span/blocks.h"
#include "target/span/onoff.h"
#include "target/span/run.h"
#include "target/sys/clock.h"

enum { BUSY_NS = 2000000, TAKE_NS = 50000000 };

static void write_sink(void *ctx, const char *text, size_t len)
{
    (void)ctx;
    piano__run_write(text, len);
}

static bool is_changing(const struct piano__thread *t)
{
    /* Pairs with the release in commit.c, give_up(). */
    return __atomic_load_n(&t->claim, __ATOMIC_ACQUIRE) &
           (PIANO_CLAIM_CHANGING | PIANO_CLAIM_WRITING);
}

/* Claims the blocks of threads that still run (commit.c). Waits up to BUSY_NS for a thread inside a
 * probe, and up to TAKE_NS, yielding the CPU, for a thread that is writing a line: it may have been
 * preempted. */
static void take_blocks(void)
{
    uint32_t count = piano__blocks_count();
    int64_t begin = piano__monotonic_ns();
    /* Pairs with the CAS in commit.c, claim(). */
    for (uint32_t i = 0; i < count; i++)
        if (piano__blocks_at(i))
            __atomic_fetch_or(&piano__blocks_at(i)->claim, PIANO_CLAIM_TAKEN, __ATOMIC_SEQ_CST);
    for (uint32_t i = 0; i < count; i++) {
        const struct piano__thread *t = piano__blocks_at(i);
        /* `state` pairs with the release in thread.c, `busy` with piano__let_go(). */
        if (!t || __atomic_load_n(&t->state, __ATOMIC_ACQUIRE) != PIANO_THREAD_RUNNING)
            continue;
        while (__atomic_load_n(&t->busy, __ATOMIC_ACQUIRE) &&
               piano__monotonic_ns() < begin + BUSY_NS)
            ;
        while (is_changing(t) && piano__monotonic_ns() < begin + TAKE_NS)
            syscall(SYS_sched_yield);
    }
}

/* Writes the data of a thread that still runs. Data that could not be written stays in the image,
 * as does all data of a thread that is in the middle of its own write. */
static bool write_block(struct piano__thread *t, int64_t now)
{
    /* Pairs with the release in commit.c, give_up(). */
    if (__atomic_load_n(&t->claim, __ATOMIC_ACQUIRE) & PIANO_CLAIM_WRITING)
        return false;
    uint64_t failed = __atomic_load_n(&piano__run.header->dropped.write, __ATOMIC_RELAXED);
    struct piano__offcpu look;
    bool looked = piano__onoff_look_at(t, &look);
    piano__live_thread(piano__run.header, t, now, looked ? &look : NULL, write_sink, NULL);
    if (__atomic_load_n(&piano__run.header->dropped.write, __ATOMIC_RELAXED) != failed)
        return false;
    /* Pairs with the acquire of `state` in common/live.c: its data is in the file. */
    __atomic_store_n(&t->state, PIANO_THREAD_ENDED, __ATOMIC_RELEASE);
    return true;
}

bool piano__take_write(int64_t now)
{
    bool all = true;
    take_blocks();
    for (uint32_t i = 0; i < piano__blocks_count(); i++) {
        struct piano__thread *t = piano__blocks_at(i);
        if (t && t->state == PIANO_THREAD_RUNNING && !write_block(t, now))
            all = false;
    }
    return all;
}
