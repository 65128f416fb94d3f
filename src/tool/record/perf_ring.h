/* The ring buffer in which the kernel stores the records of perf events on one CPU. */
#ifndef PIANO_TOOL_RECORD_PERF_RING_H
#define PIANO_TOOL_RECORD_PERF_RING_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PERF_RECORD_MOST = 65536 }; /* its size has 16 bits */

struct perf_ring {
    struct perf_event_mmap_page *page; /* NULL: no ring */
    unsigned char *data;
    size_t size;               /* a power of two */
    uint64_t at;               /* read up to here */
    uint64_t limit;            /* written at least up to here */
    uint64_t bad;              /* bytes skipped because they were invalid */
    const unsigned char *next; /* the record at `at`, if already found */
    size_t next_size;
    unsigned char *joined; /* for records that wrap around the end */
};

/* Maps the ring of event FD, of SIZE bytes. Returns 0 or negative errno. */
int perf_ring_open(struct perf_ring *r, int fd, size_t size);
void perf_ring_close(struct perf_ring *r);

/* Updates `limit` to what the kernel has written. */
void perf_ring_look(struct perf_ring *r);
/* The next record, valid until `perf_ring_next`; NULL when there is none. */
const unsigned char *perf_ring_peek(struct perf_ring *r, size_t *size);
/* Moves past the record. */
void perf_ring_next(struct perf_ring *r, size_t size);
/* Allows the kernel to overwrite the records that were read. */
void perf_ring_give_back(struct perf_ring *r);

#endif
