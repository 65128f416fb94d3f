/* Reads a ring buffer. The kernel writes at data_head and never past data_tail, which belongs to
 * us. Records that do not fit are lost, and a later record counts them. */
#include "tool/record/perf_ring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int perf_ring_open(struct perf_ring *r, int fd, size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    *r = (struct perf_ring){.size = size};
    unsigned char *joined = malloc(PERF_RECORD_MOST);
    if (!joined)
        return -ENOMEM;
    void *at = mmap(NULL, page + size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) {
        free(joined);
        return -errno;
    }
    r->page = at;
    r->data = (unsigned char *)at + page;
    r->joined = joined;
    return 0;
}

void perf_ring_close(struct perf_ring *r)
{
    if (r->page)
        munmap(r->page, (size_t)sysconf(_SC_PAGESIZE) + r->size);
    free(r->joined);
    *r = (struct perf_ring){0};
}

void perf_ring_look(struct perf_ring *r)
{
    /* Acquire: pairs with the kernel's barrier before it moves data_head, so all records before it
     * are complete. */
    if (r->page)
        r->limit = __atomic_load_n(&r->page->data_head, __ATOMIC_ACQUIRE);
}

static void copy_out(const struct perf_ring *r, uint64_t from, void *to, size_t size)
{
    size_t at = from & (r->size - 1);
    size_t first = size < r->size - at ? size : r->size - at;
    memcpy(to, r->data + at, first);
    memcpy((unsigned char *)to + first, r->data, size - first);
}

const unsigned char *perf_ring_peek(struct perf_ring *r, size_t *size)
{
    struct perf_event_header h;
    uint64_t there = r->limit - r->at;
    *size = r->next_size;
    if (r->next)
        return r->next;
    if (!r->page || there < sizeof h)
        return NULL;
    copy_out(r, r->at, &h, sizeof h);
    if (h.size < sizeof h || h.size > there || there > r->size) {
        /* The start of the next record is unknown, so skip all available bytes. */
        r->bad += there;
        r->at = r->limit;
        return NULL;
    }
    size_t at = r->at & (r->size - 1);
    *size = r->next_size = h.size;
    r->next = r->data + at;
    if (r->size - at < h.size) {
        copy_out(r, r->at, r->joined, h.size);
        r->next = r->joined;
    }
    return r->next;
}

void perf_ring_next(struct perf_ring *r, size_t size)
{
    r->at += size;
    r->next = NULL;
}

void perf_ring_give_back(struct perf_ring *r)
{
    if (r->page)
        __atomic_store_n(&r->page->data_tail, r->at, __ATOMIC_RELEASE);
}
