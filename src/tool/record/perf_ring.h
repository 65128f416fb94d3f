/* The memory in which the kernel leaves the records of perf events on one CPU. */
#ifndef PIANO_TOOL_RECORD_PERF_RING_H
#define PIANO_TOOL_RECORD_PERF_RING_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PERF_RECORD_MOST = 65536 }; /* its length has 16 bits */

struct perf_ring {
    struct perf_event_mmap_page *page; /* NULL: there is none */
    unsigned char *data;
    size_t size;               /* a power of two */
    uint64_t at;               /* read up to here */
    uint64_t limit;            /* and known to be written up to here */
    uint64_t bad;              /* bytes skipped because they made no sense */
    const unsigned char *next; /* the record at `at`, once it was found */
    size_t next_size;
    unsigned char *joined; /* for records that go round the end */
};

/* Maps the ring of event FD, of SIZE bytes; 0 or negative errno. */
int perf_ring_open(struct perf_ring *r, int fd, size_t size);
void perf_ring_close(struct perf_ring *r);

/* Looks how far the kernel has written. */
void perf_ring_look(struct perf_ring *r);
/* The next record, which stays there until `perf_ring_next`; NULL when there is none. */
const unsigned char *perf_ring_peek(struct perf_ring *r, size_t *size);
/* Goes over it. */
void perf_ring_next(struct perf_ring *r, size_t size);
/* Tells the kernel that what was gone over may be overwritten. */
void perf_ring_give_back(struct perf_ring *r);

#endif
