/* A program counts its events in the header now and then, and once more at its end. One that was killed leaves the count of
 * some time before, possibly none: what is in the chunks is counted here, for the words at the end and for everybody
 * who only reads headers. Nothing is written to the file of a process that runs: that counts for itself.
 *
 * So it is with samples that a program takes of itself. What it blocks, or handles in its own way, it would notice at its end. */
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

enum { SECOND = 1000000000, SLACK_NS = 30000000 }; /* before the first sample, behind the last */

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

/* The CPU time that the samples in the USED bytes of a payload stand for. */
static uint64_t time_in(const unsigned char *payload, uint64_t used)
{
    uint64_t sum = 0;
    struct piano__sample s;
    for (uint64_t at = 0; at + sizeof s <= used; at += s.bytes) {
        memcpy(&s, payload + at, sizeof s);
        if (s.bytes < sizeof s)
            break;
        sum += s.kind == PIANO_SAMPLE_CPU ? s.value : 0;
    }
    return sum;
}

/* The sum of what EACH says about the chunks of TYPE. */
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
        ssize_t got = pread(fd, payload, c.used, at + (off_t)sizeof c);
        sum += got > 0 ? each(payload, (uint64_t)got) : 0;
    }
    free(payload);
    return sum;
}

static void tally(const char *path)
{
    struct piano__rec_header h;
    if (recordings_header(path, &h) != 0 || !(h.flags & PIANO_REC_HAS_EVENTS) ||
        h.trace.end_ticks != 0)
        return;
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    uint64_t count = fd >= 0 ? sum_of(fd, h.chunks, PIANO_CHUNK_EVENTS, count_in) : 0;
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

/* What is known about the samples of ONE: their time, and that of those that were lost. */
static uint64_t time_of(const struct recording *one, const struct piano__rec_header *h)
{
    int fd = open(one->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    uint64_t sum = fd >= 0 ? sum_of(fd, h->chunks, PIANO_CHUNK_SAMPLES, time_in) : 0;
    if (fd >= 0)
        close(fd);
    return sum + h->trace.samples_lost * (SECOND / h->trace.cpu_hz);
}

static void add_lost(const char *path, uint64_t lost)
{
    const off_t at = offsetof(struct piano__rec_header, trace.samples_lost);
    int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd >= 0 && pwrite(fd, &lost, sizeof lost, at) < 0)
        lost = 0; /* it stays as it was */
    if (fd >= 0)
        close(fd);
}

/* All its images count together, as the kernel counts them; what is missing goes to the last that did not say. */
void tally_samples(const struct recordings *r, uint64_t cpu_ns)
{
    struct piano__rec_header h, newest = {.flags = 0};
    const char *last = NULL;
    uint64_t known = 0;
    for (size_t i = 0; i < r->count; i++) {
        if (r->list[i].pid != r->program || recordings_header(r->list[i].path, &h) != 0 ||
            !(h.flags & PIANO_REC_HAS_CPU) || h.trace.cpu_hz == 0 || h.trace.cpu_hz > SECOND)
            continue;
        known += time_of(&r->list[i], &h);
        if (h.trace.end_ticks != 0)
            continue; /* it has counted */
        last = r->list[i].path;
        newest = h;
    }
    if (!last)
        return;
    uint64_t period = SECOND / newest.trace.cpu_hz;
    if (cpu_ns > known && cpu_ns - known > 2 * period + SLACK_NS)
        add_lost(last, newest.trace.samples_lost + (cpu_ns - known) / period);
}
