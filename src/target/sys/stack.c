/* The bounds of stacks, from /proc/self/maps: pthread_getattr_np would allocate. Asked once per thread and when its stack
 * has grown, so the cost (some microseconds) does not matter.
 *
 * Which mapping is a thread's own stack? The C library puts a thread's TLS at the end of its stack, above every frame;
 * the kernel puts the random bytes of AT_RANDOM at the end of the first one. A mapping with neither is a coroutine's, or an
 * alternate signal stack: it may go away at any time, so nobody should remember its bounds. */
#include "target/sys/stack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "target/sys/file.h"

struct range {
    uintptr_t low, high;
};

static bool parse_hex(const char **at, const char *end, uintptr_t *value)
{
    const char *start = *at;
    *value = 0;
    for (; *at < end; ++*at) {
        char c = **at;
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10)
                                                : 16;
        if (digit == 16)
            break;
        *value = *value << 4 | digit;
    }
    return *at > start;
}

/* Looks at one line, `low-high perms ...`; true when it holds ADDRESS. */
static bool take_line(struct range *range, const char *line, const char *end, uintptr_t address)
{
    uintptr_t low, high;
    if (!parse_hex(&line, end, &low) || line == end || *line++ != '-' ||
        !parse_hex(&line, end, &high))
        return false;
    if (address < low || address >= high)
        return false;
    *range = (struct range){low, high};
    return true;
}

static bool find_mapping(struct range *range, uintptr_t address)
{
    char buf[640];
    size_t kept = 0;
    bool found = false;
    int fd = piano__file_open("/proc/self/maps", O_RDONLY);
    while (fd >= 0 && !found) {
        long got = syscall(SYS_read, fd, buf + kept, sizeof buf - kept);
        if (got <= 0)
            break;
        size_t len = kept + (size_t)got;
        char *line = buf;
        char *newline;
        while (!found && (newline = memchr(line, '\n', len - (size_t)(line - buf)))) {
            found = take_line(range, line, newline, address);
            line = newline + 1;
        }
        kept = len - (size_t)(line - buf);
        if (kept == sizeof buf)
            kept = 0; /* a path longer than the buffer: not a stack */
        memmove(buf, line, kept);
    }
    if (fd >= 0)
        piano__file_close(fd);
    return found;
}

bool piano__stack_holds(uintptr_t *low, uintptr_t *high, uintptr_t address)
{
    char here;
    uintptr_t sp = (uintptr_t)&here;
    struct range range;
    if (sp < *low || sp >= *high) {
        int saved = errno;
        if (find_mapping(&range, sp)) {
            *low = range.low;
            *high = range.high;
        }
        errno = saved;
    }
    return address >= *low && address < *high && sp >= *low && sp < *high;
}

/* How far down the first thread's stack may grow; the kernel keeps other mappings out of there. */
static uintptr_t lowest(uintptr_t high)
{
    struct rlimit limit;
    uintptr_t most = (uintptr_t)1 << 30;
    if (getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < most)
        most = limit.rlim_cur;
    return most < high ? high - most : 0;
}

/* Takes RANGE when one of the marks of a thread's own stack is in it, and cuts it there. */
static bool take_own(struct piano__stack_bounds *b, const struct range *range)
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
    atomic_signal_fence(memory_order_release); /* a handler that finds `high` finds the rest */
    b->high = found.high;
    return true;
}

static void learn(struct piano__stack_bounds *b, uintptr_t sp)
{
    struct range range;
    if (find_mapping(&range, sp) && take_own(b, &range))
        return;
    /* On a foreign stack; its own is where one of the marks is. */
    bool is_first = syscall(SYS_gettid) == syscall(SYS_getpid);
    uintptr_t mark = is_first ? getauxval(AT_RANDOM) : (uintptr_t)&errno;
    if (find_mapping(&range, mark) && take_own(b, &range))
        return;
    *b = (struct piano__stack_bounds){1, 1, UINTPTR_MAX}; /* not to be asked again */
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
