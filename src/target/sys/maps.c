/* Reads /proc/self/maps line by line, through a buffer that fits on a small stack. File names may
 * be longer than the buffer and may look like anything. So the rest of a line that did not fit is
 * never parsed as a line. */
#include "target/sys/maps.h"

#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

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

/* Parses ` perms offset device inode name` after the addresses. A mapping without a file has inode
 * 0. */
static bool has_file(const char *at, const char *end)
{
    enum { BEFORE_INODE = 4 };
    for (int i = 0; i < BEFORE_INODE && at; i++) {
        at = memchr(at, ' ', (size_t)(end - at));
        at = at ? at + 1 : NULL;
    }
    return at && at < end && *at != '0';
}

/* Parses one line, `low-high perms ...`. Returns true if it contains ADDRESS. */
static bool take_line(struct piano__maps_range *range, const char *line, const char *end,
                      uintptr_t address)
{
    uintptr_t low, high;
    if (!parse_hex(&line, end, &low) || line == end || *line++ != '-' ||
        !parse_hex(&line, end, &high))
        return false;
    if (address < low || address >= high)
        return false;
    *range = (struct piano__maps_range){low, high, has_file(line, end)};
    return true;
}

bool piano__maps_find(struct piano__maps_range *range, uintptr_t address)
{
    char buf[640];
    size_t kept = 0;
    /* `is_rest`: the next bytes are the rest of a line that was already parsed. */
    bool found = false, is_rest = false;
    int fd = piano__file_open("/proc/self/maps", O_RDONLY);
    while (fd >= 0 && !found) {
        long got = syscall(SYS_read, fd, buf + kept, sizeof buf - kept);
        if (got <= 0)
            break;
        size_t len = kept + (size_t)got;
        char *line = buf;
        char *newline;
        while (!found && (newline = memchr(line, '\n', len - (size_t)(line - buf)))) {
            found = !is_rest && take_line(range, line, newline, address);
            is_rest = false;
            line = newline + 1;
        }
        kept = len - (size_t)(line - buf);
        memmove(buf, line, kept);
        if (kept == sizeof buf) {
            found = !is_rest && take_line(range, buf, buf + kept, address);
            is_rest = true;
            kept = 0;
        }
    }
    if (fd >= 0)
        piano__file_close(fd);
    return found;
}
