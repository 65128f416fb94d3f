/* Recordings of events with known contents, built in memory byte by byte, for tests of readers. */
#ifndef EVENT_IMAGE_H
#define EVENT_IMAGE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/events.h"
#include "tool/load/recording.h"
#include "temp.h"

enum { CHUNKS = 4, MS = 1000000 };

/* A recording of a few chunks in memory. */
struct image {
    char *bytes;
    size_t len;
    int chunks;
    struct piano__rec_header *header;
};

static struct run_error error;

static inline struct image image(void)
{
    struct image i = {.len = PIANO_REC_HEADER_BYTES + CHUNKS * PIANO_REC_CHUNK_BYTES};
    i.bytes = calloc(1, i.len);
    assert_non_null(i.bytes);
    i.header = (struct piano__rec_header *)(void *)i.bytes;
    *i.header = (struct piano__rec_header){.version = PIANO_REC_VERSION,
                                           .header_bytes = PIANO_REC_HEADER_BYTES,
                                           .chunk_bytes = PIANO_REC_CHUNK_BYTES,
                                           .flags = PIANO_REC_HAS_EVENTS,
                                           .state = PIANO_REC_ENDED,
                                           .start_mono_ns = 1000 * (uint64_t)MS,
                                           .end_mono_ns = 9000 * (uint64_t)MS,
                                           .rate = 1};
    memcpy(i.bytes, PIANO_REC_MAGIC, 8);
    return i;
}

static inline struct piano__chunk *chunk(struct image *i, uint32_t type, uint64_t index)
{
    assert_true(i->chunks < CHUNKS);
    char *at = i->bytes + PIANO_REC_HEADER_BYTES + (size_t)i->chunks++ * PIANO_REC_CHUNK_BYTES;
    struct piano__chunk *c = (struct piano__chunk *)(void *)at;
    *c = (struct piano__chunk){.type = type, .ready = 1, .index = index};
    i->header->chunks = (uint64_t)i->chunks;
    return c;
}

static inline void put(struct piano__chunk *c, const void *bytes, size_t len)
{
    memcpy((char *)(c + 1) + c->used, bytes, len);
    c->used += len;
}

static inline struct piano__chunk *events(struct image *i, uint64_t index, uint64_t tid,
                                          uint64_t ticks, uint64_t ns)
{
    struct piano__chunk *c = chunk(i, PIANO_CHUNK_EVENTS, index);
    struct piano__events_head head = {tid, ticks, ns};
    put(c, &head, sizeof(head));
    return c;
}

static inline size_t varint(unsigned char *at, uint64_t v)
{
    size_t len = 0;
    for (; v >= 0x80; v >>= 7)
        at[len++] = (unsigned char)(v | 0x80);
    at[len++] = (unsigned char)v;
    return len;
}

/* COUNT fields follow. */
static inline void event(struct piano__chunk *c, int code, uint64_t ticks, int count, ...)
{
    unsigned char bytes[64] = {(unsigned char)code};
    size_t len = 2 + varint(bytes + 2, ticks);
    va_list fields;
    va_start(fields, count);
    for (int i = 0; i < count; i++)
        len += varint(bytes + len, va_arg(fields, uint64_t));
    va_end(fields);
    bytes[1] = (unsigned char)(len - 2);
    put(c, bytes, len);
}

static inline char *save(const struct image *i)
{
    static char path[256];
    temp_name(path, sizeof path, "piano-test-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, i->bytes, i->len) == (ssize_t)i->len);
    close(fd);
    return path;
}

static inline void load(struct recording *rec, struct image *i)
{
    char *path = save(i);
    int err = recording_load(rec, path, &error);
    unlink(path);
    free(i->bytes);
    assert_int_equal(err, 0);
}

#define N(x) ((uint64_t)(x))

static inline void put_name(struct piano__chunk *c, uint32_t id, const char *text)
{
    char record[64] = {0};
    struct piano__name n = {.bytes = (uint32_t)((sizeof(n) + strlen(text) + 8) & ~7u), .id = id};
    memcpy(record, &n, sizeof(n));
    memcpy(record + sizeof(n), text, strlen(text));
    put(c, record, n.bytes);
}

#endif
