/* A recording that the tool has mapped while the program writes it.
 *
 * The program may be anything, so its file is not trusted. A chunk is mapped only if the file
 * extends to its end, because accessing a mapping beyond the end of the file raises SIGBUS. It is
 * also mapped only after its header was read and is ready: a chunk that was claimed but not yet
 * reserved is a hole, and accessing a hole on a full disk raises SIGBUS too. The type of a chunk
 * does not change once it is ready, so each is read once; only chunks with sums are mapped.
 *
 * Several tools may take snapshots at the same time (`piano record` and `piano snapshot`). A lock
 * on the file serialises them. They continue in the same chunk, which is marked as the tool's in
 * its first reserved word, so that a snapshot every second by a new process does not need a new
 * chunk each. The program's own snapshots are in other chunks. */
#include "tool/record/view.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tool/util/file.h"
#include "tool/util/vec.h"

/* Value of `shared` in a chunk with snapshots taken by the tool. */
static const uint64_t TOOL_MARK = 1;

enum {
    LOCK_TRIES = 100,
    LOCK_PAUSE_NS = 10000000,
    SNAPSHOT_SHARE = 8, /* in a size-limited recording: at most 1/8 */
};

static off_t chunk_at(uint64_t number)
{
    return (off_t)(PIANO_REC_HEADER_BYTES + number * PIANO_REC_CHUNK_BYTES);
}

/* Number of whole chunks that the file extends over. */
static uint64_t chunks_in_file(const struct view *v)
{
    struct stat st;
    if (fstat(v->fd, &st) != 0 || st.st_size < PIANO_REC_HEADER_BYTES)
        return 0;
    return ((uint64_t)st.st_size - PIANO_REC_HEADER_BYTES) / PIANO_REC_CHUNK_BYTES;
}

/* Chunks begin at multiples of 4 KB, mappings at multiples of the page size, which may be larger
 * (target/sys/file.c). */
static size_t before_in_page(uint64_t place)
{
    return (size_t)(place & ((uint64_t)sysconf(_SC_PAGESIZE) - 1));
}

static struct piano__chunk *map_chunk(const struct view *v, uint64_t number)
{
    size_t before = before_in_page((uint64_t)chunk_at(number));
    char *at = mmap(NULL, PIANO_REC_CHUNK_BYTES + before, PROT_READ | PROT_WRITE, MAP_SHARED, v->fd,
                    chunk_at(number) - (off_t)before);
    return at == MAP_FAILED ? NULL : (struct piano__chunk *)(void *)(at + before);
}

void view_unmap(struct piano__chunk *c)
{
    size_t before = before_in_page((uintptr_t)c);
    munmap((char *)c - before, PIANO_REC_CHUNK_BYTES + before);
}

static void look_at(struct view *v, uint64_t number)
{
    struct piano__chunk head;
    if (pread(v->fd, &head, sizeof head, chunk_at(number)) != (ssize_t)sizeof head ||
        head.ready != 1)
        return;
    v->chunks[number].type = head.type;
    if (head.type != PIANO_CHUNK_SNAPSHOT)
        return;
    v->snapshot_chunks++;
    if (head.shared == TOOL_MARK && head.used <= PIANO_REC_PAYLOAD && head.used % 8 == 0)
        v->log = number + 1;
}

/* Reads the headers of chunks that are new or were not ready before. */
static int refresh(struct view *v)
{
    uint64_t claimed = __atomic_load_n(&v->base.header->chunks, __ATOMIC_ACQUIRE);
    uint64_t there = chunks_in_file(v);
    if (claimed > PIANO_REC_MAX_CHUNKS)
        return -EBADMSG;
    uint64_t count = claimed < there ? claimed : there;
    if (vec_reserve(&v->chunks, &v->capacity, count, sizeof *v->chunks) != 0)
        return -ENOMEM;
    while (v->count < count)
        v->chunks[v->count++] = (struct view_chunk){0};
    for (uint64_t i = 0; i < v->count; i++) {
        if (v->chunks[i].type == 0)
            look_at(v, i);
    }
    return 0;
}

static struct piano__chunk *get_chunk(struct piano__rec_view *base, uint64_t number)
{
    struct view *v = (struct view *)base;
    if (number >= v->count || v->chunks[number].type != PIANO_CHUNK_TOTALS)
        return NULL;
    struct view_chunk *c = &v->chunks[number];
    if (!c->from)
        c->from = map_chunk(v, number);
    return c->from;
}

/* Reserves and maps the next chunk, then increments the count. On CAS failure, because the program
 * claimed it first, retries with the next chunk. */
static struct piano__chunk *map_next(const struct view *v, uint64_t *number)
{
    uint64_t *count = &v->base.header->chunks;
    for (;;) {
        uint64_t n = __atomic_load_n(count, __ATOMIC_ACQUIRE);
        if (n >= piano__rec_most(v->base.header) ||
            posix_fallocate(v->fd, chunk_at(n), PIANO_REC_CHUNK_BYTES) != 0)
            return NULL;
        struct piano__chunk *c = map_chunk(v, n);
        if (!c)
            return NULL;
        *number = n;
        if (__atomic_compare_exchange_n(count, &n, n + 1, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED))
            return c;
        view_unmap(c);
    }
}

/* Call this with the lock held, after `refresh`. */
static struct piano__chunk *claim_chunk(struct piano__rec_view *base, uint32_t type, uint64_t index)
{
    struct view *v = (struct view *)base;
    uint64_t number;
    if (v->snapshot_chunks >= v->max_snapshot_chunks)
        return NULL;
    struct piano__chunk *c = map_next(v, &number);
    if (!c)
        return NULL;
    c->type = type;
    c->index = index;
    c->shared = TOOL_MARK;
    __atomic_store_n(&c->ready, 1, __ATOMIC_RELEASE);
    v->snapshot_chunks++;
    if (base->log)
        view_unmap(base->log);
    v->log = number + 1;
    if (vec_reserve(&v->chunks, &v->capacity, number + 1, sizeof *v->chunks) == 0) {
        while (v->count <= number)
            v->chunks[v->count++] = (struct view_chunk){0};
        v->chunks[number].type = type; /* already counted */
    }
    return c;
}

struct piano__chunk *view_claim(const struct view *v, uint32_t type, uint64_t index,
                                uint64_t *number)
{
    struct piano__chunk *c = map_next(v, number);
    if (!c)
        return NULL;
    c->type = type;
    c->index = index;
    __atomic_store_n(&c->ready, 1, __ATOMIC_RELEASE);
    return c;
}

struct piano__chunk *view_reclaim(const struct view *v, uint64_t number, uint64_t index)
{
    struct piano__chunk *c = number < chunks_in_file(v) ? map_chunk(v, number) : NULL;
    if (!c)
        return NULL;
    __atomic_store_n(&c->ready, 0, __ATOMIC_RELAXED);
    /* A reader that sees the stores below also sees ready == 0. */
    __atomic_thread_fence(__ATOMIC_RELEASE);
    __atomic_store_n(&c->used, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&c->index, index,
                     __ATOMIC_RELEASE); /* after `used`, as in target/trace/buffers.c */
    __atomic_store_n(&c->ready, 1, __ATOMIC_RELEASE);
    return c;
}

int view_check(const struct piano__rec_header *h)
{
    if (memcmp(h->magic, PIANO_REC_MAGIC, sizeof h->magic) != 0)
        return -EBADMSG;
    if (h->version != PIANO_REC_VERSION || h->header_bytes != PIANO_REC_HEADER_BYTES ||
        h->chunk_bytes != PIANO_REC_CHUNK_BYTES)
        return -EPROTO;
    return 0;
}

int view_open_fd(struct view *v, int fd)
{
    struct stat st;
    *v = (struct view){.fd = fd, .max_snapshot_chunks = VIEW_MAX_SNAPSHOT_CHUNKS};
    v->base.chunk = get_chunk;
    v->base.claim = claim_chunk;
    int err = fstat(fd, &st) != 0                   ? -errno
              : !S_ISREG(st.st_mode)                ? -EBADMSG
              : st.st_size < PIANO_REC_HEADER_BYTES ? -EBADMSG
                                                    : 0;
    if (err == 0) {
        void *at = mmap(NULL, PIANO_REC_HEADER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        err = at == MAP_FAILED ? -errno : 0;
        v->base.header = err == 0 ? at : NULL;
    }
    if (err == 0)
        err = view_check(v->base.header);
    if (err == 0 && v->base.header->max_chunks > 0)
        v->max_snapshot_chunks = 1 + piano__rec_most(v->base.header) / SNAPSHOT_SHARE;
    if (v->max_snapshot_chunks > VIEW_MAX_SNAPSHOT_CHUNKS)
        v->max_snapshot_chunks = VIEW_MAX_SNAPSHOT_CHUNKS;
    if (err != 0)
        view_close(v);
    return err;
}

void view_hold(const struct view *v)
{
    const struct flock hold = {
        .l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = PIANO_REC_HELD_AT, .l_len = 1};
    (void)fcntl(v->fd, F_OFD_SETLK, &hold); /* without it, readers do not know; nothing is lost */
}

int view_open(struct view *v, const char *path)
{
    int fd = file_open(path, O_RDWR | O_NOFOLLOW);
    *v = (struct view){.fd = -1};
    return fd < 0 ? fd : view_open_fd(v, fd);
}

void view_close(struct view *v)
{
    for (size_t i = 0; i < v->count; i++) {
        if (v->chunks[i].from)
            view_unmap(v->chunks[i].from);
    }
    if (v->base.log)
        view_unmap(v->base.log);
    if (v->base.header)
        munmap(v->base.header, PIANO_REC_HEADER_BYTES);
    if (v->fd >= 0)
        close(v->fd);
    free(v->chunks);
    *v = (struct view){.fd = -1};
}

static int lock(const struct view *v, bool patient)
{
    const struct timespec pause = {.tv_nsec = LOCK_PAUSE_NS};
    for (int i = 0; flock(v->fd, LOCK_EX | LOCK_NB) != 0; i++) {
        if (errno != EWOULDBLOCK)
            return -errno;
        if (!patient || i == LOCK_TRIES)
            return -EAGAIN;
        nanosleep(&pause, NULL);
    }
    return 0;
}

/* Continues in the chunk of the last snapshot by a tool, possibly by another process. */
static void find_log(struct view *v)
{
    if (!v->base.log && v->log > 0)
        v->base.log = map_chunk(v, v->log - 1);
}

int view_snapshot(struct view *v, enum piano__snapshot_kind kind, uint64_t resident)
{
    struct timespec now;
    int err = lock(v, kind != PIANO_SNAPSHOT_TIMER);
    if (err != 0)
        return err;
    err = refresh(v);
    if (err == 0) {
        find_log(v);
        clock_gettime(CLOCK_MONOTONIC, &now);
        err = piano__snapshot_take(
            &v->base, kind, (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec, resident);
    }
    flock(v->fd, LOCK_UN);
    return err;
}
