/* The bounds of the calling thread's stack, from /proc/self/maps: pthread_getattr_np would allocate. Asked
 * only when a call seems to have been left by longjmp, so its cost (some microseconds) does not matter. */
#include "target/sys/stack.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "target/span/thread.h"
#include "target/sys/file.h"

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
static bool take_line(struct piano__thread *t, const char *line, const char *end, uintptr_t address)
{
    uintptr_t low, high;
    if (!parse_hex(&line, end, &low) || line == end || *line++ != '-' ||
        !parse_hex(&line, end, &high))
        return false;
    if (address < low || address >= high)
        return false;
    t->stack_low = low;
    t->stack_high = high;
    return true;
}

static void find_mapping(struct piano__thread *t, uintptr_t address)
{
    char buf[640];
    size_t kept = 0;
    int fd = piano__file_open("/proc/self/maps", O_RDONLY);
    while (fd >= 0) {
        long got = syscall(SYS_read, fd, buf + kept, sizeof buf - kept);
        if (got <= 0)
            break;
        size_t len = kept + (size_t)got;
        char *line = buf;
        char *newline;
        while ((newline = memchr(line, '\n', len - (size_t)(line - buf)))) {
            if (take_line(t, line, newline, address)) {
                piano__file_close(fd);
                return;
            }
            line = newline + 1;
        }
        kept = len - (size_t)(line - buf);
        if (kept == sizeof buf)
            kept = 0; /* a path longer than the buffer: not a stack */
        memmove(buf, line, kept);
    }
    if (fd >= 0)
        piano__file_close(fd);
}

bool piano__stack_holds(struct piano__thread *t, uintptr_t address)
{
    char here;
    uintptr_t sp = (uintptr_t)&here;
    if (sp < t->stack_low || sp >= t->stack_high) {
        int saved = errno;
        find_mapping(t, sp);
        errno = saved;
    }
    return address >= t->stack_low && address < t->stack_high && sp >= t->stack_low &&
           sp < t->stack_high;
}
