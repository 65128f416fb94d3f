/* A decoder of events for tests, independent of the tool's, and recordings to decode. */
#ifndef TESTS_UNIT_EVENT_FILE_H
#define TESTS_UNIT_EVENT_FILE_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/events.h"
#include "common/recording.h"
#include "target/record/gate.h"
#include "target/record/modules.h"
#include "target/sys/recording.h"
#include "target/trace/events.h"
#include "temp.h"

enum { MOST_FIELDS = 4 };

struct event {
    uint8_t code;
    uint8_t bytes;
    uint32_t tid;
    uint64_t ticks;
    uint64_t fields[MOST_FIELDS];
    int count;
};

/* The file, and its events: chunks by their `index`. */
struct file {
    char *data;
    size_t size;
    struct event *events;
    size_t count;
    size_t chunks; /* of the ring */
};

static inline const struct piano__chunk *chunk_at(const struct file *f, size_t number)
{
    return (const void *)(f->data + PIANO_REC_HEADER_BYTES + number * PIANO_REC_CHUNK_BYTES);
}

static inline size_t chunks_of(const struct file *f)
{
    return (f->size - PIANO_REC_HEADER_BYTES) / PIANO_REC_CHUNK_BYTES;
}

static inline const uint8_t *get_varint(const uint8_t *at, const uint8_t *stop, uint64_t *value)
{
    *value = 0;
    for (unsigned shift = 0; at < stop && shift < 70; shift += 7) {
        *value |= (uint64_t)(*at & 0x7f) << (shift < 64 ? shift : 63);
        if (!(*at++ & 0x80))
            return at;
    }
    fail_msg("a varint without an end");
    return at;
}

static inline void decode_chunk(struct file *f, const struct piano__chunk *c)
{
    struct piano__events_head head;
    const uint8_t *payload = (const void *)(c + 1);
    if (c->used < sizeof head)
        return;
    memcpy(&head, payload, sizeof head);
    assert_true(c->used <= PIANO_REC_PAYLOAD);
    assert_true(head.mono_ns > 0);
    uint32_t tid = (uint32_t)head.tid;
    uint64_t ticks = head.ticks;
    for (const uint8_t *at = payload + sizeof head; at < payload + c->used;) {
        struct event e = {.code = at[0], .bytes = (uint8_t)(at[1] + 2)};
        const uint8_t *stop = at + 2 + at[1];
        uint64_t since;
        assert_true(stop <= payload + c->used);
        at = get_varint(at + 2, stop, &since);
        ticks += since;
        while (at < stop) {
            assert_true(e.count < MOST_FIELDS);
            at = get_varint(at, stop, &e.fields[e.count++]);
        }
        if (e.code == PIANO_EVENT_THREAD)
            tid = (uint32_t)e.fields[0];
        e.tid = tid;
        e.ticks = ticks;
        f->events[f->count++] = e;
    }
}

/* Definitions come first, whatever their time. */
static inline void decode_parts(struct file *f, const struct piano__chunk *c)
{
    const char *payload = (const char *)(c + 1);
    for (int i = 0; i < PIANO_DEFINITION_PARTS; i++) {
        const struct piano__chunk *part = (const void *)(payload + i * PIANO_DEFINITION_BYTES);
        if (part->ready)
            decode_chunk(f, part);
    }
}

static inline int by_index(const void *a, const void *b)
{
    uint64_t x = (*(const struct piano__chunk *const *)a)->index;
    uint64_t y = (*(const struct piano__chunk *const *)b)->index;
    return (x > y) - (x < y);
}

static inline void decode(struct file *f)
{
    const struct piano__chunk **all = calloc(chunks_of(f) + 1, sizeof(void *));
    size_t room = 1;
    assert_non_null(all);
    for (size_t i = 0; i < chunks_of(f); i++)
        if (chunk_at(f, i)->ready && chunk_at(f, i)->type == PIANO_CHUNK_EVENTS)
            all[f->chunks++] = chunk_at(f, i);
    for (size_t i = 0; i < chunks_of(f); i++)
        room += PIANO_REC_PAYLOAD / 3;
    qsort(all, f->chunks, sizeof(void *), by_index);
    f->events = calloc(room, sizeof *f->events);
    assert_non_null(f->events);
    for (size_t i = 0; i < chunks_of(f); i++)
        if (chunk_at(f, i)->ready && chunk_at(f, i)->type == PIANO_CHUNK_DEFINITIONS)
            decode_parts(f, chunk_at(f, i));
    for (size_t i = 0; i < f->chunks; i++) {
        assert_true(i == 0 || all[i]->index > all[i - 1]->index);
        decode_chunk(f, all[i]);
    }
    free(all);
}

/* The current contents of PATH. */
static inline struct file read_file(const char *path)
{
    struct file f = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    f.size = (size_t)lseek(fd, 0, SEEK_END);
    f.data = malloc(f.size);
    assert_non_null(f.data);
    assert_int_equal(pread(fd, f.data, f.size, 0), f.size);
    close(fd);
    decode(&f);
    return f;
}

static inline void release(struct file *f)
{
    free(f->data);
    free(f->events);
}

/* The text of name ID; NULL if there is none. */
static inline const char *name_of(const struct file *f, uint64_t id)
{
    for (size_t i = 0; i < chunks_of(f); i++) {
        const struct piano__chunk *c = chunk_at(f, i);
        if (!c->ready || c->type != PIANO_CHUNK_NAMES)
            continue;
        for (uint64_t at = 0; at < c->used;) {
            const struct piano__name *n = (const void *)((const char *)(c + 1) + at);
            assert_true(n->bytes >= 16 && n->bytes % 8 == 0);
            if (n->id == id)
                return n->text;
            at += n->bytes;
        }
    }
    return NULL;
}

static inline const struct piano__thread_record *thread_of(const struct file *f, uint32_t tid)
{
    const struct piano__thread_record *last = NULL;
    for (size_t i = 0; i < chunks_of(f); i++) {
        const struct piano__chunk *c = chunk_at(f, i);
        const struct piano__thread_record *all = (const void *)(c + 1);
        if (!c->ready || c->type != PIANO_CHUNK_THREADS)
            continue;
        for (uint64_t n = 0; n < c->used / sizeof *all; n++)
            if (all[n].tid == tid)
                last = &all[n];
    }
    return last;
}

/* The number of consecutive depths of queue 5 from FIRST on. */
static inline size_t count_in_order(const struct file *f, uint32_t tid, uint64_t first)
{
    size_t found = 0;
    uint64_t ticks = 0;
    for (size_t i = 0; i < f->count; i++) {
        const struct event *e = &f->events[i];
        if (e->tid != tid || e->code != PIANO_EVENT_QUEUE)
            continue;
        assert_true(e->fields[1] == first + found);
        assert_true(e->ticks >= ticks);
        ticks = e->ticks;
        found++;
    }
    return found;
}

/* A recording for a test ---------------------------------------------------------------------------------------- */

static char path[256];

static inline struct piano__rec_header *header(void)
{
    return piano__recording.view.header;
}

static inline void begin_with(uint64_t max_bytes)
{
    static int number;
    char pid[16];
    char name[64];
    snprintf(name, sizeof name, "piano-events-%d-%d.rec", (int)getpid(), number++);
    temp_name(path, sizeof path, name);
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    setenv("PIANO_RECORD", path, 1);
    setenv("PIANO_RECORD_PID", pid, 1);
    assert_int_equal(piano__events_start(max_bytes), 0);
}

static inline int begin(void **state)
{
    (void)state;
    begin_with(0);
    return 0;
}

static inline int end(void **state)
{
    (void)state;
    piano__gate_shut();
    assert_false(piano__events_forget());
    piano__modules_forget();
    piano__recording_forget();
    return unlink(path);
}

static inline struct file read_events(void)
{
    piano__events_end();
    return read_file(path);
}

#endif
