/* Threads and their blocks.
 *
 * A thread gets its block at its first instrumented call and returns it when it ends. That happens
 * in a pthread key destructor, delayed to the last round so that other destructors are still
 * recorded. The next thread reuses the block. It keeps what was learned about the functions; the
 * counts are in the run file by then. So memory is bounded by the largest number of threads that
 * ran at once.
 *
 * Before its first call and after its end, a thread points at `nobody`. This block has no slots, so
 * the inline probe always takes the slow path, and no owner, so allocations are attributed to no
 * function. */
#include "target/span/thread.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "target/heap/heap.h"
#include "target/span/blocks.h"
#include "target/span/commit.h"
#include "target/span/frame.h"
#include "target/span/merged.h"
#include "target/span/onoff.h"
#include "target/span/registry.h"
#include "target/span/run.h"
#include "target/span/span.h"
#include "target/span/valid.h"
#include "target/span/watch.h"
#include "target/sys/check.h"
#include "target/sys/clock.h"
#include "target/sys/key.h"

uint32_t piano__capacity;

static struct piano__thread nobody = {.parent_fn = -1};

__thread struct __piano_thread *__piano_self = (struct __piano_thread *)&nobody;
extern __thread struct __piano_thread *__piano_self_then __attribute__((alias("__piano_self")));

/* Per thread: its origin, and how many rounds of key destructors it has delayed. */
static __thread struct piano__origin origin_of_self;
static __thread int ending;

static pthread_key_t end_key;
static bool have_end_key;

static void end_of_thread(void *block)
{
    if (++ending < PTHREAD_DESTRUCTOR_ITERATIONS)
        pthread_setspecific(end_key, block);
    else
        piano__thread_detach();
}

__attribute__((constructor(101))) static void make_key(void)
{
    have_end_key = piano__key_create(&end_key, end_of_thread);
}

static void reset(struct piano__thread *t)
{
    int64_t now = piano__ticks();
    t->owner = 0;
    t->depth = 0;
    t->chain = piano__registry_frame_fn() ? UINT32_MAX : 0;
    t->kept_depth = -1;
    t->now_list = t->kept_list = 0;
    t->commit = t->flush_at = 0;
    t->moving = 0;
    piano__merged_clear(t);
    t->walls_seen = 0;
    t->median_wall = 0;
    memset(t->walls, 0, sizeof t->walls);
    t->born = t->last_tick = t->last_flush = t->token_tick = t->budget_tick = now;
    t->budget_spent = 0;
    t->correction = 0;
    t->variance = 0;
    t->share = 0;
    t->tokens = PIANO_FIRST_BYTES;
    t->deep_tokens = PIANO_FIRST_DEEP;
    t->stack_low = t->stack_high = 0;
    t->tid = (int32_t)syscall(SYS_gettid);
    t->watched = __atomic_load_n(&piano__watch_runs, __ATOMIC_RELAXED);
    t->random = (uint64_t)now * 0x9e3779b97f4a7c15u ^ (uint64_t)t->tid << 32;
    prctl(PR_GET_NAME, t->name);
    piano__onoff_attach(t);
}

static void set_real_limit(struct piano__thread *t)
{
    uint32_t count = piano__registry_count();
    uint32_t capacity = piano__run.header->fn_capacity;
    t->real_limit = piano__head_offset(count < capacity ? count : capacity);
}

struct piano__thread *piano__thread_attach(void)
{
    struct piano__thread *t = piano__self_thread();
    if (piano__is_attached(t)) {
        set_real_limit(t); /* functions may have been registered since */
        return t;
    }
    if (ending || !have_end_key)
        return NULL;
    int saved = errno;
    t = piano__blocks_take();
    if (!t) {
        piano__dropped_add(&piano__run.header->dropped.threads);
        ending = 1;
        return NULL;
    }
    reset(t);
    /* No partner: a number. */
    t->number = __atomic_fetch_add(&piano__run.thread_numbers, 1, __ATOMIC_SEQ_CST) + 1;
    t->parent_thread = origin_of_self.thread;
    t->parent_fn = origin_of_self.thread ? origin_of_self.fn : -1;
    set_real_limit(t);
    t->limit = t->real_limit;
    /* From here on readers use the block. Pairs with the acquire of `state` in common/live.c and
     * take.c: the block is set up. */
    __atomic_store_n(&t->state, PIANO_THREAD_RUNNING, __ATOMIC_RELEASE);
    __piano_self = (struct __piano_thread *)t;
    piano__heap_watch(true); /* count its allocations */
    pthread_setspecific(end_key, t);
    piano__frame_announce(t, t->born);
    errno = saved;
    return t;
}

/* Clears what the next thread in this block must not inherit. */
static void forget_levels(struct piano__thread *t)
{
    uint32_t count = piano__registry_count();
    if (count > piano__run.header->fn_capacity)
        count = piano__run.header->fn_capacity;
    for (uint32_t i = 0; i < count; i++) {
        struct piano__slot *slot = &piano__slots(t)[i];
        slot->was_first = slot->framed = 0;
        slot->open = 0;
    }
}

/* Ends the block if all its lines are in the file. Returns false if the exiting thread has to write
 * them: it has taken the block (take.c), or the run was over before they were written. Under the
 * claim, the exiting thread sees either the end or the lines. */
static bool end_block(struct piano__thread *t)
{
    if (!piano__commit_begin(t))
        return false;
    bool is_written = t->text_len == 0;
    if (is_written) {
        forget_levels(t);
        piano__check(piano__span_is_valid(t));
        /* Pairs with the acquire of `state` in common/live.c and take.c: the block is complete. */
        __atomic_store_n(&t->state, PIANO_THREAD_ENDED, __ATOMIC_RELEASE);
    }
    piano__commit_end(t);
    return is_written;
}

void piano__thread_detach(void)
{
    struct piano__thread *t = piano__self_thread();
    if (!piano__is_attached(t))
        return;
    int saved = errno;
    int64_t now = piano__ticks();
    piano__span_close_all(t, now);
    t->owner = 0;
    prctl(PR_GET_NAME, t->name);
    __piano_self = (struct __piano_thread *)&nobody;
    piano__heap_watch(false);
    piano__frame_finish(t, now);
    if (end_block(t))
        piano__blocks_give(t);
    errno = saved;
}

struct piano__origin piano__thread_origin(void)
{
    struct piano__thread *t = piano__self_thread();
    struct piano__origin origin = {0, -1};
    if (!piano__is_attached(t))
        return origin;
    origin.thread = t->number;
    if (piano__owner(t))
        origin.fn = (int32_t)(piano__owner(t) - piano__slots(t));
    return origin;
}

void piano__thread_adopt(struct piano__origin origin)
{
    origin_of_self = origin;
}

void piano__thread_forget(void)
{
    __piano_self = (struct __piano_thread *)&nobody;
    nobody.owner = 0;
    piano__heap_watch(false);
    ending = 0;
    origin_of_self = (struct piano__origin){0, -1};
    if (have_end_key)
        pthread_setspecific(end_key, NULL);
}
