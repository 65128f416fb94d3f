/* The marks of threads are in their thread-local storage, so setting one costs nothing that other
 * threads notice. They are found through a table by thread id. A thread that has ended stays in the
 * table until another one needs the entry. Its storage may be gone: the kernel copies the mark
 * (piano__memory_copy), and tells whether the thread exists.
 *
 * A thread sets its mark and then reads the gate, without a barrier between the two. The waiting
 * thread shuts the gate and has the kernel run a barrier in every thread (membarrier). After that,
 * a thread whose mark is not set will see the gate shut. */
#include "target/record/session.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "target/sys/clock.h"
#include "target/sys/file.h"
#include "target/unwind/memory.h"

enum { ENTRIES = 32 * 1024, PROBES = 64, NAP_NS = 200000 };
static const int64_t longest_ns = 3000000000;

__thread struct piano__session_self piano__session_self;
uint32_t piano__session = 1;

struct entry {
    uint32_t tid; /* 0: free */
    uint32_t kind;
    const uintptr_t *mark;
};

static struct entry *entries;
static uint32_t overflow; /* threads that found no entry */
bool piano__session_is_shared;

static bool exists(uint32_t tid)
{
    return syscall(SYS_tgkill, syscall(SYS_getpid), (long)tid, 0L) == 0 || errno != ESRCH;
}

/* Takes the entry for thread TID if it is free, if it was of a thread with the same id, or of one
 * that has ended. */
static bool take(struct entry *e, uint32_t tid, enum piano__session_kind kind,
                 const uintptr_t *mark)
{
    uint32_t old = __atomic_load_n(&e->tid, __ATOMIC_RELAXED);
    bool is_same = old == tid && __atomic_load_n(&e->kind, __ATOMIC_RELAXED) == kind;
    if (!is_same && (old == tid || (old != 0 && exists(old))))
        return false;
    /* Claims the entry with an id that no thread has, so that it is not read until it is whole. */
    if (!__atomic_compare_exchange_n(&e->tid, &old, UINT32_MAX, false, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED))
        return false;
    __atomic_store_n(&e->kind, kind, __ATOMIC_RELAXED);
    __atomic_store_n(&e->mark, mark, __ATOMIC_RELAXED);
    /* Pairs with the acquire in is_inside(): the entry is whole. */
    __atomic_store_n(&e->tid, tid, __ATOMIC_RELEASE);
    return true;
}

void piano__session_watch(enum piano__session_kind kind, const uintptr_t *mark)
{
    int saved = errno;
    uint32_t tid = (uint32_t)syscall(SYS_gettid);
    bool taken = false;
    for (uint32_t i = 0; i < PROBES && !taken; i++)
        taken = take(&entries[(tid * PIANO_SESSION_KINDS + kind + i) % ENTRIES], tid, kind, mark);
    /* Relaxed: a counter. */
    if (!taken)
        __atomic_fetch_add(&overflow, 1, __ATOMIC_RELAXED);
    errno = saved;
}

static bool is_inside(const struct entry *e)
{
    /* Pairs with the release in take(). */
    uint32_t tid = __atomic_load_n(&e->tid, __ATOMIC_ACQUIRE);
    const uintptr_t *mark = __atomic_load_n(&e->mark, __ATOMIC_RELAXED);
    uintptr_t value = 0;
    if (tid == 0)
        return false;
    if (tid == UINT32_MAX)
        return true; /* being taken */
    return piano__memory_copy(&value, (uintptr_t)mark, sizeof value) == sizeof value && value &&
           exists(tid);
}

bool piano__session_prepare(void)
{
    int saved = errno;
    bool done = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
    if (!entries)
        entries = piano__memory_map(ENTRIES * sizeof *entries);
    errno = saved;
    /* Relaxed: the gate, which is opened later, publishes the table. */
    __atomic_store_n(&piano__session_is_shared, done && entries, __ATOMIC_RELAXED);
    return done && entries;
}

bool piano__session_wait(void)
{
    const struct timespec nap = {0, NAP_NS};
    int saved = errno;
    int64_t end = piano__monotonic_ns() + longest_ns;
    bool known = syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0 &&
                 __atomic_load_n(&overflow, __ATOMIC_RELAXED) == 0;
    for (uint32_t i = 0; known && i < ENTRIES; i++) {
        while (is_inside(&entries[i]) && known) {
            known = piano__monotonic_ns() < end;
            syscall(SYS_nanosleep, &nap, NULL);
        }
    }
    /* Pairs with the release in piano__session_leave(): what the threads did before they left
     * happens before what follows. */
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    errno = saved;
    return known;
}

void piano__session_next(void)
{
    /* Relaxed: threads compare it with their own copy; the gate orders everything else. */
    __atomic_fetch_add(&piano__session, 1, __ATOMIC_RELAXED);
}
