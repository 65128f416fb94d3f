/* A recording can be taken away from a running process: `piano record --pid` ends, and the process
 * goes on. Threads may be using the recording at that moment. So each thread marks when it is
 * inside code that uses the recording or its tables, and checks the gate only after that. The
 * memory is released when the gate is shut and no thread is inside. */
#ifndef PIANO_TARGET_RECORD_SESSION_H
#define PIANO_TARGET_RECORD_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "target/sys/stack.h"

/* Kinds of marks that a thread may have, one each. */
enum piano__session_kind { PIANO_SESSION_CALLS, PIANO_SESSION_EVENTS, PIANO_SESSION_KINDS };

struct piano__session_self {
    uintptr_t inside; /* stack pointer of the outermost function that uses the recording; else 0 */
    uintptr_t is_known;
};

extern __thread struct piano__session_self piano__session_self
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* A recording may be taken away: marks are declared. A program that piano has started makes no
 * system calls for that. */
extern bool piano__session_is_shared __attribute__((visibility("hidden")));

/* Changes whenever a recording was taken away: what a thread knows about it is void. */
extern uint32_t piano__session __attribute__((visibility("hidden")));

/* Declares MARK, which is nonzero while this thread is inside. A thread calls this before its first
 * use of the recording, with the mark set. */
void piano__session_watch(enum piano__session_kind kind, const uintptr_t *mark);

/* Between these two calls the thread may use the recording, if its gate is open then. */
static inline __attribute__((always_inline)) uintptr_t piano__session_enter(void)
{
    struct piano__session_self *self = &piano__session_self;
    uintptr_t here = piano__stack_pointer();
    uintptr_t before = self->inside;
    if (__builtin_expect(before, 0)) {
        struct piano__stack_bounds bounds = {0, 0, 0};
        if (piano__stack_is_left(&bounds, before, here)) /* a signal handler jumped out */
            before = 0;
    }
    self->inside = before ? before : here;
    /* The mark is set before the gate is read: pairs with the membarrier in
     * piano__session_wait(). */
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (__builtin_expect(!self->is_known, 0) &&
        __atomic_load_n(&piano__session_is_shared, __ATOMIC_RELAXED)) {
        piano__session_watch(PIANO_SESSION_CALLS, &self->inside);
        self->is_known = 1;
    }
    return before;
}

static inline __attribute__((always_inline)) void piano__session_leave(uintptr_t before)
{
    /* Pairs with the fence in piano__session_wait(): all uses come before the mark is cleared. */
    __atomic_store_n(&piano__session_self.inside, before, __ATOMIC_RELEASE);
}

/* Prepares for waiting, before a recording begins that may be taken away. Returns false if that is
 * not possible in this process. */
bool piano__session_prepare(void);
/* The gates are shut: waits until no thread is inside. Returns false if one still is after some
 * seconds, or if it cannot be known. */
bool piano__session_wait(void);
/* The recording was taken away: begins another session. */
void piano__session_next(void);

#endif
