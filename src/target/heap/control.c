/* Starts, stops and ends the heap recording, takes its snapshots and frees its tables. heap.c takes
 * the samples. */
#include "target/heap/heap.h"

#include <errno.h>

#include "target/heap/hidden.h"
#include "target/heap/pymalloc.h"
#include "target/heap/stacks.h"
#include "target/record/control.h"
#include "target/record/gate.h"
#include "target/sys/check.h"
#include "target/sys/clock.h"
#include "target/sys/lock.h"
#include "target/sys/recording.h"

enum {
    STACKS = 24 * 1024,
    BLOCKS = 192 * 1024, /* 96 GB of live memory at the default rate */
    MANY_STACKS = 256 * 1024 - 1,
    MANY_BLOCKS = 8 * 1024 * 1024,
    MANY_BELOW = 16 * 1024, /* lower rates get the large table of stacks */
    DEFAULT_RATE = 512 * 1024,
};

static struct piano__rec_header *header(void)
{
    return piano__recording.view.header;
}

/* A recording may have no heap samples, because none were requested or the allocator is hidden. */
static bool has_heap(void)
{
    return header() && header()->flags & PIANO_REC_HAS_HEAP &&
           header()->stats.own_state != PIANO_OWN_HIDDEN;
}

/* Room for as much live memory as at the default rate, within a limit on the size of the index. */
static uint64_t blocks_for(uint64_t rate)
{
    uint64_t blocks = (uint64_t)BLOCKS * DEFAULT_RATE / rate;
    return blocks < BLOCKS ? BLOCKS : blocks > MANY_BLOCKS ? MANY_BLOCKS : blocks;
}

static int begin(uint64_t rate)
{
    struct piano__own own = piano__hidden_find();
    if (own.state == PIANO_OWN_HIDDEN)
        return -ENOTSUP;
    int err = piano__control_open();
    if (err != 0)
        return err;
    piano__hidden_note(&own);
    header()->rate = rate;
    if (!piano__live_init(blocks_for(rate)) ||
        !piano__stacks_init(rate < MANY_BELOW ? MANY_STACKS : STACKS) || !piano__heap_prepare())
        return -ENOMEM;
    bool maps = piano__control_number("PIANO_MAPS") == 1;
    piano__control_started(PIANO_REC_HAS_HEAP | (maps ? PIANO_REC_HAS_MAPS : 0));
    return 0;
}

static int start(uint64_t rate)
{
    if (has_heap() && header()->state == PIANO_REC_ACTIVE)
        return -EALREADY;
    if (has_heap() && header()->state == PIANO_REC_TERMINATED)
        return -ESHUTDOWN;
    if (rate == 0)
        rate = has_heap() ? header()->rate : DEFAULT_RATE;
    if (!has_heap()) {
        int err = begin(rate);
        if (err != 0) {
            piano__heap_forget();
            piano__control_abandon();
            return err;
        }
    }
    /* Relaxed: settings. The release in piano__gate_set() publishes the tables. */
    __atomic_store_n(&header()->rate, rate, __ATOMIC_RELAXED);
    __atomic_store_n(&header()->state, PIANO_REC_ACTIVE, __ATOMIC_RELAXED);
    piano__gate_set(&piano__gate->following, 1);
    piano__gate_set(&piano__gate->sampling, 1);
    piano__pymalloc_attach();
    /* The calling thread begins now, other threads at their next check. */
    piano__heap_redraw();
    return 0;
}

int piano__heap_start(uint64_t rate)
{
    if (!piano__lock_try(&piano__control_changing))
        return -EBUSY;
    int err = start(rate);
    piano__lock_release(&piano__control_changing);
    return err;
}

static int stop(void)
{
    if (!has_heap() || header()->state != PIANO_REC_ACTIVE)
        return -ENOTCONN;
    piano__gate_set(&piano__gate->sampling, 0);
    __atomic_store_n(&header()->state, PIANO_REC_STOPPED, __ATOMIC_RELAXED);
    return 0;
}

int piano__heap_stop(void)
{
    if (!piano__lock_try(&piano__control_changing))
        return -EBUSY;
    int err = stop();
    piano__lock_release(&piano__control_changing);
    return err;
}

static int shut_down(void)
{
    if (!has_heap())
        return -ENOTCONN;
    piano__gate_set(&piano__gate->sampling, 0);
    piano__gate_set(&piano__gate->following, 0);
    piano__check(piano__stacks_is_valid());
    header()->end_mono_ns = (uint64_t)piano__monotonic_ns();
    /* Rule 5: a reader that sees TERMINATED also sees the end time. */
    __atomic_store_n(&header()->state, PIANO_REC_TERMINATED, __ATOMIC_RELEASE);
    return 0;
}

int piano__heap_shutdown(void)
{
    if (!piano__lock_try(&piano__control_changing))
        return -EBUSY;
    int err = shut_down();
    piano__lock_release(&piano__control_changing);
    return err;
}

static uint32_t snapping; /* lock: a thread takes a snapshot */

int piano__heap_snapshot(void)
{
    if (!has_heap() || !piano__gate_is_open(&piano__gate->following))
        return -ENOTCONN;
    /* Pairs with the release below: the view is used by one thread at a time. */
    if (__atomic_exchange_n(&snapping, 1, __ATOMIC_ACQUIRE))
        return -EBUSY;
    int number = piano__snapshot_take(&piano__recording.view, PIANO_SNAPSHOT_CALLED,
                                      (uint64_t)piano__monotonic_ns(), 0);
    __atomic_store_n(&snapping, 0, __ATOMIC_RELEASE);
    return number;
}

const struct piano__rec_header *piano__heap_header(void)
{
    return piano__gate_is_open(&piano__gate->following) ? header() : NULL;
}

bool piano__heap_wants_maps(void)
{
    uintptr_t before = piano__session_enter();
    const struct piano__rec_header *h = piano__heap_header();
    bool wants = h && h->flags & PIANO_REC_HAS_MAPS;
    piano__session_leave(before);
    return wants;
}

bool piano__heap_forget(void)
{
    snapping = 0;
    /* If a signal handler forked in the middle of a sample, the sample continues with these
     * tables. */
    if (piano__heap_self.inside && !piano__heap_is_left(&piano__heap_self))
        return true;
    piano__live_forget();
    piano__stacks_forget();
    piano__heap_self.tid = 0;
    piano__heap_redraw();
    return false;
}
