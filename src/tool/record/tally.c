/* A program counts its events in the header now and then, and once more at its end. One that was killed leaves the count of
 * some time before, possibly none: what is in the chunks is counted here, for the words at the end and for everybody
 * who only reads headers. Nothing is written to the file of a process that runs: that counts for itself. */
#include "tool/record/tally.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/events.h"
#include "tool/record/process.h"

/* Events in the USED bytes of a payload. */
static uint64_t count_in(const unsigned char *payload, uint64_t used)
{
    uint64_t count = 0;
    uint64_t at = sizeof(struct piano__events_head);
    while (at + 2 <= used && at + 2 + payload[at + 1] <= used) {
        at += 2 + (uint64_t)payload[at + 1];
        count++;
    }
    return count;
}

static uint64_t count_all(int fd, uint64_t chunks)
{
    unsigned char *payload = malloc(PIANO_REC_PAYLOAD);
    uint64_t count = 0;
    for (uint64_t n = 0; payload && n < chunks && n < PIANO_REC_MAX_CHUNKS; n++) {
        off_t at = PIANO_REC_HEADER_BYTES + (off_t)n * PIANO_REC_CHUNK_BYTES;
        struct piano__chunk c;
        if (pread(fd, &c, sizeof c, at) != (ssize_t)sizeof c)
            break;
        if (c.type != PIANO_CHUNK_EVENTS || c.ready != 1 || c.used > PIANO_REC_PAYLOAD)
            continue;
        ssize_t got = pread(fd, payload, c.used, at + (off_t)sizeof c);
        count += got > 0 ? count_in(payload, (uint64_t)got) : 0;
    }
    free(payload);
    return count;
}

static void tally(const char *path)
{
    struct piano__rec_header h;
    if (recordings_header(path, &h) != 0 || !(h.flags & PIANO_REC_HAS_EVENTS) ||
        h.trace.end_ticks != 0)
        return;
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    uint64_t count = fd >= 0 ? count_all(fd, h.chunks) : 0;
    const off_t at = offsetof(struct piano__rec_header, trace.events);
    if (count > h.trace.events && pwrite(fd, &count, sizeof count, at) < 0)
        count = 0; /* a file that cannot be written to keeps its old count */
    if (fd >= 0)
        close(fd);
}

void tally_events(const struct recordings *r)
{
    for (size_t i = 0; i < r->count; i++) {
        pid_t pid = r->list[i].pid;
        bool is_gone = (kill(pid, 0) != 0 && errno == ESRCH) || process_is_zombie(pid);
        if (r->list[i].over || pid == r->program || is_gone)
            tally(r->list[i].path);
    }
}
