/* A log is a chunk of the recording, or a part of one, that is read up to `at`. Each step looks at
 * the head of every log. What is new is copied, checked to be from the same use of the chunk, and
 * given a head of its own: so the readers of a complete recording read it as a chunk. Events that
 * are newer than the start of the step wait for the next one, because another thread may still be
 * writing earlier ones. */
#include "tool/load/follow.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tool/load/rec.h"
#include "tool/util/order.h"
#include "tool/util/vec.h"

enum { SETTLED_NS = 2000000, PARTS_MOST = PIANO_DEFINITION_PARTS };

struct follow_log {
    uint64_t place; /* of its head, in the file */
    uint32_t type;
    uint32_t tid;   /* of the event at `at` */
    uint64_t index; /* 1 + that of the use that is being read; 0: none yet */
    uint64_t at;    /* bytes of payload that were read */
    uint64_t ticks; /* of the event before */
    bool skipped;   /* what is left of this use is not read */
};

/* The new bytes of a log, in a step. */
struct fresh {
    struct follow_log *log;
    uint64_t index, from, to, previous;
    char *copy; /* of the bytes FROM to TO of the payload; owned by the recording */
};

int follow_open(struct follow *f, const char *path, struct run_error *error)
{
    *f = (struct follow){.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW)};
    int err = recording_peek(&f->rec, path, error);
    struct stat a, b;
    if (err == 0 && (f->fd < 0 || fstat(f->fd, &a) != 0 || stat(path, &b) != 0 ||
                     a.st_ino != b.st_ino || a.st_dev != b.st_dev)) {
        snprintf(error->text, sizeof(error->text), "the recording cannot be opened again");
        err = -ESTALE;
        recording_unload(&f->rec);
    }
    if (err)
        follow_close(f);
    return err;
}

void follow_close(struct follow *f)
{
    if (f->rec.path)
        recording_unload(&f->rec);
    if (f->fd >= 0)
        close(f->fd);
    free(f->known);
    free(f->logs);
    *f = (struct follow){.fd = -1};
}

/* ---- the file ---- */

/* Maps what the file has grown by, and reads its header again. */
static int refresh(struct follow *f)
{
    struct recording *rec = &f->rec;
    struct stat st;
    if (fstat(f->fd, &st) != 0 || (size_t)st.st_size < rec->map_len)
        return -ESTALE;
    if ((size_t)st.st_size > rec->map_len) {
        void *map =
            mremap((void *)(uintptr_t)rec->map, rec->map_len, (size_t)st.st_size, MREMAP_MAYMOVE);
        if (map == MAP_FAILED)
            return -ENOMEM;
        rec->map = map;
        rec->map_len = (size_t)st.st_size;
    }
    memcpy(&rec->header, rec->map, sizeof(rec->header));
    rec_clean_header(rec);
    return 0;
}

static const struct piano__chunk *head_of(const struct follow *f, const struct follow_log *log)
{
    return (const void *)(f->rec.map + log->place);
}

static int add_logs(struct follow *f, uint64_t place, uint32_t type)
{
    size_t count = type == PIANO_CHUNK_DEFINITIONS ? PARTS_MOST : 1;
    if (type != PIANO_CHUNK_EVENTS && type != PIANO_CHUNK_DEFINITIONS &&
        type != PIANO_CHUNK_NAMES && type != PIANO_CHUNK_THREADS)
        return 0;
    if (vec_reserve(&f->logs, &f->log_cap, f->log_count + count, sizeof(*f->logs)) != 0)
        return -ENOMEM;
    place += type == PIANO_CHUNK_DEFINITIONS ? sizeof(struct piano__chunk) : 0;
    for (size_t i = 0; i < count; i++)
        f->logs[f->log_count++] =
            (struct follow_log){.place = place + i * PIANO_DEFINITION_BYTES, .type = type};
    return 0;
}

/* Finds chunks that are new. A chunk that is not ready is looked at again the next time. */
static int find_logs(struct follow *f)
{
    uint64_t there = (f->rec.map_len - PIANO_REC_HEADER_BYTES) / PIANO_REC_CHUNK_BYTES;
    uint64_t count = f->rec.header.chunks < there ? f->rec.header.chunks : there;
    count = count < REC_MAX_CHUNKS ? count : REC_MAX_CHUNKS;
    if (vec_reserve(&f->known, &f->known_cap, count, sizeof(*f->known)) != 0)
        return -ENOMEM;
    while (f->known_count < count)
        f->known[f->known_count++] = 0;
    for (uint64_t n = 0; n < count; n++) {
        uint64_t place = PIANO_REC_HEADER_BYTES + n * PIANO_REC_CHUNK_BYTES;
        const struct piano__chunk *c = (const void *)(f->rec.map + place);
        /* Pairs with the release in target/sys/recording.c. */
        if (f->known[n] || !__atomic_load_n(&c->ready, __ATOMIC_ACQUIRE))
            continue;
        f->known[n] = 1;
        if (add_logs(f, place, c->type) != 0)
            return -ENOMEM;
    }
    return 0;
}

/* ---- what is new ---- */

static uint64_t room_of(const struct follow_log *log)
{
    return log->type == PIANO_CHUNK_DEFINITIONS
               ? PIANO_DEFINITION_BYTES - sizeof(struct piano__chunk)
               : PIANO_REC_PAYLOAD;
}

/* Whether LOG has new bytes, in *NEW. */
static bool look_at(struct follow *f, struct follow_log *log, struct fresh *new)
{
    const struct piano__chunk *c = head_of(f, log);
    /* Pairs with the release in target/trace/buffers.c, in this order. */
    if (!__atomic_load_n(&c->ready, __ATOMIC_ACQUIRE))
        return false;
    uint64_t index = __atomic_load_n(&c->index, __ATOMIC_ACQUIRE);
    uint64_t used = __atomic_load_n(&c->used, __ATOMIC_ACQUIRE);
    if (log->index != index + 1) {
        log->index = index + 1;
        log->at = 0;
        log->skipped = false;
    }
    *new = (struct fresh){.log = log,
                          .index = index,
                          .to = used < room_of(log) ? used : room_of(log),
                          .previous = c->previous};
    f->is_partial |= log->skipped;
    return !log->skipped && new->to > log->at;
}

static int compare_newest(const void *a, const void *b)
{
    const struct fresh *x = a, *y = b;
    bool in_ring[2] = {x->log->type == PIANO_CHUNK_EVENTS, y->log->type == PIANO_CHUNK_EVENTS};
    return ORDER(in_ring[0], in_ring[1]) ?: ORDER(y->index, x->index);
}

/* Skips what is oldest in the ring if there are more than MOST bytes. Logs are never skipped. Returns
 * how many of LIST are left. */
static size_t skip_old(struct follow *f, struct fresh *list, size_t count, size_t most)
{
    size_t bytes = 0, kept = 0;
    if (count)
        qsort(list, count, sizeof(*list), compare_newest);
    for (size_t i = 0; i < count; i++) {
        struct follow_log *log = list[i].log;
        size_t more = log->type == PIANO_CHUNK_EVENTS ? list[i].to - log->at : 0;
        if (bytes > 0 && bytes + more > most) {
            log->skipped = true;
            f->skipped += more;
            f->is_partial = true;
            continue;
        }
        bytes += more;
        list[kept++] = list[i];
    }
    return kept;
}

/* Copies the new bytes. False if the chunk was reused meanwhile. */
static bool copy(struct follow *f, struct fresh *new)
{
    new->from = new->log->at;
    new->copy = rec_copy(&f->rec, head_of(f, new->log), new->index, new->from, new->to);
    return new->copy != NULL;
}

/* ---- events ---- */

/* Passes the events of NEW up to UNTIL_TICKS. */
static void pass_events(const struct fresh *new, uint64_t until_ticks)
{
    struct follow_log *log = new->log;
    const char *end = new->copy + (new->to - new->from);
    struct rec_event e;
    while (log->at < new->to) {
        size_t bytes = rec_event_at(new->copy + (log->at - new->from), end, &e);
        if (bytes == 0) { /* cannot be read: leaves the rest out, like rec_events.c */
            log->skipped = true;
            break;
        }
        if (e.ticks > until_ticks - log->ticks)
            break;
        log->ticks += e.ticks;
        log->at += bytes;
        if (e.event.code == PIANO_EVENT_THREAD)
            log->tid = e.event.thread.tid;
    }
}

/* Whether all events of the buffer before those of NEW were read. */
static bool is_next(const struct follow *f, const struct fresh *new)
{
    if (new->previous == 0 || new->log->type != PIANO_CHUNK_EVENTS)
        return true;
    for (size_t i = 0; i < f->log_count; i++) {
        const struct follow_log *log = &f->logs[i];
        if (log->type == PIANO_CHUNK_EVENTS && log->index == new->previous)
            return !log->skipped &&
                   log->at == __atomic_load_n(&head_of(f, log)->used, __ATOMIC_RELAXED);
    }
    return false;
}

/* Makes a chunk of the new events in *C. False if there are none yet. */
static bool take_events(struct follow *f, const struct fresh *new, uint64_t until_ticks,
                        struct rec_chunk *c)
{
    struct follow_log *log = new->log;
    struct piano__events_head head;
    bool is_first = log->at == 0, is_gap = false;
    if (new->to < sizeof(head))
        return false;
    if (is_first) {
        memcpy(&head, new->copy, sizeof(head));
        is_gap = !is_next(f, new);
        log->tid = (uint32_t)head.tid;
        log->ticks = head.ticks;
        log->at = sizeof(head);
    }
    uint64_t begin = log->at;
    head = (struct piano__events_head){.tid = log->tid, .ticks = log->ticks};
    if (log->ticks <= until_ticks)
        pass_events(new, until_ticks);
    if (log->at == begin) {
        log->at = new->from;
        return false;
    }
    char *at = new->copy + (begin - new->from) - sizeof(head);
    memcpy(at, &head, sizeof(head));
    *c = (struct rec_chunk){.type = log->type,
                            .index = new->index,
                            .payload = at,
                            .used = sizeof(head) + (log->at - begin),
                            .previous = is_gap ? PIANO_EVENTS_GAP : 0};
    return true;
}

/* Names and threads. */
static void take_records(const struct fresh *new, struct rec_chunk *c)
{
    *c = (struct rec_chunk){.type = new->log->type,
                            .index = new->index,
                            .payload = new->copy,
                            .used = new->to - new->from};
    new->log->at = new->to;
}

static int compare_chunks(const void *a, const void *b)
{
    const struct rec_chunk *x = a, *y = b;
    return ORDER(x->type, y->type) ?: ORDER(x->index, y->index);
}

static int compare_oldest(const void *a, const void *b)
{
    return ORDER(((const struct fresh *)a)->index, ((const struct fresh *)b)->index);
}

/* NOW was before the logs were looked at. */
static int read_fresh(struct follow *f, struct fresh *list, size_t count,
                      const struct recording_pair *now)
{
    struct rec_reader r = {.rec = &f->rec, .fd = -1};
    uint64_t settled_ns = f->is_over ? 0 : SETTLED_NS;
    uint64_t until_ticks = rec_ticks_before(&f->rec, now, settled_ns);
    bool has_records = false;
    r.chunks = calloc(count + 1, sizeof(*r.chunks));
    if (!r.chunks)
        return -ENOMEM;
    f->until_ns = now->ns - settled_ns;
    if (count) /* a chunk is whole before the next one of its buffer is looked at */
        qsort(list, count, sizeof(*list), compare_oldest);
    for (size_t i = 0; i < count; i++) {
        struct rec_chunk *c = &r.chunks[r.chunk_count];
        bool is_record =
            list[i].log->type == PIANO_CHUNK_NAMES || list[i].log->type == PIANO_CHUNK_THREADS;
        if (!copy(f, &list[i])) {
            list[i].log->skipped = true;
            continue;
        }
        has_records |= is_record;
        if (is_record)
            take_records(&list[i], c);
        r.chunk_count += is_record || take_events(f, &list[i], until_ticks, c);
    }
    if (r.chunk_count)
        qsort(r.chunks, r.chunk_count, sizeof(*r.chunks), compare_chunks);
    int err = has_records ? rec_read_threads(&r) : 0;
    err = err ? err : rec_read_more_events(&r, now);
    free(r.chunks);
    return err;
}

int follow_step(struct follow *f, size_t most_bytes)
{
    rec_free_copies(&f->rec); /* of the step before */
    f->is_partial = false;
    struct recording_pair now = rec_clock_now(&f->rec);
    int err = refresh(f);
    err = err ? err : find_logs(f);
    struct fresh *list = err ? NULL : calloc(f->log_count + 1, sizeof(*list));
    size_t count = 0;
    if (!list)
        return err ? err : -ENOMEM;
    for (size_t i = 0; i < f->log_count; i++)
        count += look_at(f, &f->logs[i], &list[count]);
    count = skip_old(f, list, count, most_bytes);
    err = read_fresh(f, list, count, &now);
    free(list);
    return err;
}
