/* Keeps the last bytes of a pipe. */
#include "tool/top/captured.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tool/util/say.h"

enum { SAID_LINES = 12, LINE_BYTES = 1024, READS = 16 };

void captured_read(struct captured *o)
{
    for (int i = 0; i < READS && o->fd >= 0; i++) { /* bounded: the program may print for ever */
        if (o->len > CAPTURED_BYTES / 2) {
            size_t kept = CAPTURED_BYTES / 4;
            memmove(o->text, o->text + o->len - kept, kept);
            o->len = kept;
        }
        ssize_t got = read(o->fd, o->text + o->len, CAPTURED_BYTES - o->len);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
            o->fd = -1;
        if (got <= 0)
            return;
        o->len += (size_t)got;
    }
}

const char *captured_line(const struct captured *o, size_t at, char *safe, size_t size)
{
    char line[LINE_BYTES];
    size_t end = o->len;
    if (end > 0 && o->text[end - 1] == '\n')
        end--;
    for (size_t i = 0; end > 0 || i == 0; i++) {
        const char *newline = end ? memrchr(o->text, '\n', end) : NULL;
        size_t begin = newline ? (size_t)(newline - o->text) + 1 : 0, len = end - begin;
        if (i == at && o->len > 0) {
            len = len < LINE_BYTES - 1 ? len : LINE_BYTES - 1;
            memcpy(line, o->text + begin, len);
            line[len] = '\0';
            return say_safe(safe, size, line);
        }
        if (begin == 0)
            return NULL;
        end = begin - 1;
    }
    return NULL;
}

void captured_say_last(const struct captured *o)
{
    char safe[LINE_BYTES];
    for (size_t i = SAID_LINES; i-- > 0;)
        if (captured_line(o, i, safe, sizeof(safe)))
            fprintf(stderr, "%s\n", safe);
    fflush(stderr);
}
