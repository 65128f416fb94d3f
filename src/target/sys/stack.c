/* Finds the bounds of stacks in the kernel's list of mappings. This happens once per thread and
 * when its stack has grown, so the cost (some microseconds) does not matter.
 *
 * How to recognise a thread's own stack: the C library puts a thread's TLS at the end of its stack,
 * above every frame. The kernel puts the random bytes of AT_RANDOM at the end of the first thread's
 * stack. A mapping with neither belongs to a coroutine, or is an alternate signal stack. It may be
 * unmapped at any time, so its bounds must not be cached. */
#include "target/sys/stack.h"

#include <errno.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "target/sys/maps.h"

bool piano__stack_holds(uintptr_t *low, uintptr_t *high, uintptr_t address)
{
    char here;
    uintptr_t sp = (uintptr_t)&here;
    struct piano__maps_range range;
    if (sp < *low || sp >= *high) {
        int saved = errno;
        if (piano__maps_find(&range, sp)) {
            *low = range.low;
            *high = range.high;
        }
        errno = saved;
    }
    return address >= *low && address < *high && sp >= *low && sp < *high;
}

/* Returns how far down the first thread's stack may grow. The kernel keeps other mappings out of
 * that range. */
static uintptr_t lowest(uintptr_t high)
{
    struct rlimit limit;
    uintptr_t most = (uintptr_t)1 << 30;
    if (getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < most)
        most = limit.rlim_cur;
    return most < high ? high - most : 0;
}

/* Accepts RANGE if it contains a mark of the thread's own stack, and cuts it there. */
static bool take_own(struct piano__stack_bounds *b, const struct piano__maps_range *range)
{
    uintptr_t tls = (uintptr_t)&errno;
    uintptr_t first = getauxval(AT_RANDOM);
    struct piano__stack_bounds found = {range->low, range->high, range->low};
    if (tls >= range->low && tls < range->high)
        found.high = tls & ~(uintptr_t)15;
    else if (first >= range->low && first < range->high)
        found.floor = lowest(range->high);
    else
        return false;
    b->floor = found.floor;
    b->low = found.low;
    /* A signal handler that sees `high` also sees the other fields. */
    __atomic_signal_fence(__ATOMIC_RELEASE);
    b->high = found.high;
    return true;
}

static void learn(struct piano__stack_bounds *b, uintptr_t sp)
{
    struct piano__maps_range range;
    if (piano__maps_find(&range, sp) && take_own(b, &range))
        return;
    /* The thread runs on another stack. Its own stack contains one of the marks. */
    bool is_first = syscall(SYS_gettid) == syscall(SYS_getpid);
    uintptr_t mark = is_first ? getauxval(AT_RANDOM) : (uintptr_t)&errno;
    if (piano__maps_find(&range, mark) && take_own(b, &range))
        return;
    *b = (struct piano__stack_bounds){1, 1, UINTPTR_MAX}; /* do not look again */
}

bool piano__stack_is_own(struct piano__stack_bounds *b, uintptr_t sp)
{
    if (sp >= b->low && sp < b->high)
        return true;
    if (b->high != 0 && (sp >= b->high || sp < b->floor))
        return false;
    int saved = errno;
    learn(b, sp);
    errno = saved;
    return sp >= b->low && sp < b->high;
}

/* A signal handler runs further below than this: the kernel pushes the registers in between, and a
 * library that calls handlers itself (TSan) several frames. So code this close below is another
 * function called from the same place. */
enum { CLOSE = 64 };
/* Before the bounds are known, addresses this close are on one stack. This avoids a look-up just
 * because a handler runs. */
enum { NEAR = 64 * 1024 };

bool piano__stack_is_left(struct piano__stack_bounds *b, uintptr_t holder, uintptr_t here)
{
    stack_t alternate = {.ss_flags = 0};
    if (holder > here + CLOSE &&
        (b->high == 0 ? holder - here < NEAR : holder < b->high && here >= b->low))
        return false; /* the usual case: a signal handler has interrupted the holder */
    int saved = errno;
    bool known = syscall(SYS_sigaltstack, NULL, &alternate) == 0;
    errno = saved;
    if (!known || alternate.ss_flags & SS_ONSTACK || !piano__stack_is_own(b, here))
        return false;
    uintptr_t low = (uintptr_t)alternate.ss_sp;
    if (!(alternate.ss_flags & SS_DISABLE) && holder >= low && holder - low < alternate.ss_size)
        return true;
    return piano__stack_is_own(b, holder) && holder <= here + CLOSE;
}
