/* A program updates the number of its events in the header from time to time and at its end. A
 * program that was killed leaves an old number or none. Then the events in the chunks are counted
 * here, for the summary and for readers that only look at the header. The file of a running process
 * is never changed: that process counts itself.
 *
 * The same holds for samples that a program takes of itself. A program would notice at its end that
 * it blocked or handled the signal for samples. */
#include "tool/record/tally.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/events.h"
#include "tool/record/process.h"
#include "tool/util/file.h"

enum { SECOND = 1000000000, SLACK_NS = 30000000 }; /* before the first and after the last sample */

/* Number of events in the USED bytes of a payload. */
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

/* The same for a chunk of definitions, which has parts. */
static uint64_t count_in_parts(const unsigned char *payload, uint64_t used)
{
    uint64_t count = 0;
    struct piano__chunk c;
    for (uint64_t at = 0; at + PIANO_DEFINITION_BYTES <= used; at += PIANO_DEFINITION_BYTES) {
        memcpy(&c, payload + at, sizeof c);
        if (c.ready == 1 && c.used <= PIANO_DEFINITION_BYTES - sizeof c)
            count += count_in(payload + at + sizeof c, c.used);
    }
    return count;
}

/* Number of events in chunks of TYPE, counted by EACH. */
static uint64_t sum_of(int fd, uint64_t chunks, uint32_t type,
                       uint64_t (*each)(const unsigned char *, uint64_t))
{
    unsigned char *payload = malloc(PIANO_REC_PAYLOAD);
    uint64_t sum = 0;
    for (uint64_t n = 0; payload && n < chunks && n < PIANO_REC_MAX_CHUNKS; n++) {
        off_t at = PIANO_REC_HEADER_BYTES + (off_t)n * PIANO_REC_CHUNK_BYTES;
        struct piano__chunk c;
        if (pread(fd, &c, sizeof c, at) != (ssize_t)sizeof c)
            break;
        if (c.type != type || c.ready != 1 || c.used > PIANO_REC_PAYLOAD)
            continue;
        uint64_t used = type == PIANO_CHUNK_DEFINITIONS ? PIANO_REC_PAYLOAD : c.used;
        ssize_t got = pread(fd, payload, used, at + (off_t)sizeof c);
        sum += got > 0 ? each(payload, (uint64_t)got) : 0;
    }
    free(payload);
    return sum;
}

void tally_one(const char *path)
{
    struct piano__rec_header h;
    if (recordings_header(path, &h) != 0 || !(h.flags & PIANO_REC_HAS_EVENTS) ||
        h.trace.end_ticks != 0)
        return;
    int fd = file_open(path, O_RDWR | O_NOFOLLOW);
    uint64_t count = h.trace.overwritten;
    if (fd >= 0)
        count += sum_of(fd, h.chunks, PIANO_CHUNK_EVENTS, count_in) +
                 sum_of(fd, h.chunks, PIANO_CHUNK_DEFINITIONS, count_in_parts);
    const off_t at = offsetof(struct piano__rec_header, trace.events);
    if (count > h.trace.events && pwrite(fd, &count, sizeof count, at) < 0)
        count = 0; /* a file that cannot be written keeps its old number */
    if (fd >= 0)
        close(fd);
}

void tally_events(const struct recordings *r)
{
    for (size_t i = 0; i < r->count; i++) {
        pid_t pid = r->list[i].pid;
        bool is_gone = (kill(pid, 0) != 0 && errno == ESRCH) || process_is_zombie(pid);
        if (r->list[i].over || pid == r->program || is_gone)
            tally_one(r->list[i].path);
    }
}

static void add_lost(const char *path, uint64_t lost)
{
    const off_t at = offsetof(struct piano__rec_header, trace.samples_lost);
    int fd = file_open(path, O_WRONLY | O_NOFOLLOW);
    if (fd >= 0 && pwrite(fd, &lost, sizeof lost, at) < 0)
        lost = 0; /* the header is unchanged */
    if (fd >= 0)
        close(fd);
}

/* All images of the process count together, as in the kernel. The missing samples go to the last
 * image that ended without counting them. */
void tally_samples(const struct recordings *r, uint64_t cpu_ns)
{
    struct piano__rec_header h, newest = {.flags = 0};
    const char *last = NULL;
    uint64_t known = 0;
    for (size_t i = 0; i < r->count; i++) {
        if (r->list[i].pid != r->program || recordings_header(r->list[i].path, &h) != 0 ||
            !(h.flags & PIANO_REC_HAS_CPU) || h.trace.cpu_hz == 0 || h.trace.cpu_hz > SECOND)
            continue;
        known += h.trace.sampled_ns + h.trace.samples_lost * (SECOND / h.trace.cpu_hz);
        if (h.trace.end_ticks != 0)
            continue; /* it has counted its own */
        last = r->list[i].path;
        newest = h;
    }
    if (!last)
        return;
    uint64_t period = SECOND / newest.trace.cpu_hz;
    if (cpu_ns > known && cpu_ns - known > 2 * period + SLACK_NS)
        add_lost(last, newest.trace.samples_lost + (cpu_ns - known) / period);
}
