/* Reads a recording: the file, its header, its chunks; then the stages of `rec.h`.
 *
 * The file is mapped shared because the program may still be writing to it. What is read is either
 * committed and never changes again (records of logs), checked by its key before and after (live
 * blocks), or a counter that is valid at the moment it is read. Offsets, lengths and counts are
 * copied before they are checked, so a file that changes meanwhile cannot bypass a check.
 *
 * A file with a readable header is always read as far as possible. `gaps` lists what is missing, by
 * offset. Every double that leaves here is finite, not negative and below 2^60. */
#include "tool/load/recording.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool/load/rec.h"
#include "tool/util/file.h"
#include "tool/util/order.h"
#include "tool/util/owner.h"
#include "tool/util/say.h"
#include "tool/util/vec.h"

static const double rounding_below =
    -4096; /* largest negative difference of sums that rounding can cause */

/* ---- what the stages share ---- */

void rec_gap(struct recording *rec, uint64_t from, uint64_t to, const char *what)
{
    if (rec->gap_count < RECORDING_GAPS)
        rec->gaps[rec->gap_count] = (struct recording_gap){from, to, what};
    rec->gap_count++;
}

double rec_number(struct recording *rec, double value, uint64_t at)
{
    if (isfinite(value) && value >= 0 && value < REC_REASON)
        return value;
    if (isfinite(value) && value < 0 && value > rounding_below)
        return 0;
    if (rec->bad_numbers++ == 0)
        rec->bad_number_at = at;
    return 0;
}

const char *rec_next(struct recording *rec, const struct rec_chunk *c, size_t *at, size_t least,
                     const char *what, uint32_t *bytes)
{
    uint64_t where = c->at + sizeof(struct piano__chunk) + *at;
    if (*at == c->used)
        return NULL;
    if (c->used - *at < least) {
        rec_gap(rec, where, 0, what);
        return NULL;
    }
    memcpy(bytes, c->payload + *at, sizeof(*bytes));
    if (*bytes < least || *bytes > c->used - *at || *bytes % 8 != 0) {
        rec_gap(rec, where, 0, what);
        return NULL;
    }
    const char *record = c->payload + *at;
    *at += *bytes;
    return record;
}

int rec_each(struct rec_reader *r, uint32_t type, size_t least, const char *what,
             int (*take)(struct rec_reader *r, void *ctx, const char *record, uint32_t bytes,
                         uint64_t at),
             void *ctx)
{
    int err = 0;
    for (size_t i = 0; i < r->chunk_count && err == 0; i++) {
        const struct rec_chunk *c = &r->chunks[i];
        const char *record;
        size_t at = c->skip;
        uint32_t bytes = 0;
        while (c->type == type && err == 0 &&
               (record = rec_next(r->rec, c, &at, least, what, &bytes)))
            err = take(r, ctx, record, bytes, c->at + sizeof(struct piano__chunk) + at - bytes);
    }
    return err;
}

/* ---- the file ---- */

bool recording_named(const char *name)
{
    const char *found = NULL;
    for (const char *p = strstr(name, ".rec"); p; p = strstr(p + 1, ".rec"))
        found = p;
    if (!found || found == name)
        return false;
    for (const char *p = found + 4; *p;) { /* `.2` and `-4711`, any number of them */
        size_t digits = *p == '.' || *p == '-' ? strspn(p + 1, "0123456789") : 0;
        if (digits == 0)
            return false;
        p += 1 + digits;
    }
    return true;
}

bool recording_is(const char *path)
{
    char magic[sizeof(PIANO_REC_MAGIC) - 1];
    int fd = file_open(path, O_RDONLY);
    bool is = fd >= 0 && pread(fd, magic, sizeof(magic), 0) == (ssize_t)sizeof(magic) &&
              memcmp(magic, PIANO_REC_MAGIC, sizeof(magic)) == 0;
    if (fd >= 0)
        close(fd);
    return is || recording_named(path);
}

int rec_fail(struct run_error *e, int err, const char *path, const char *what)
{
    char safe[300];
    snprintf(e->text, sizeof(e->text), "%s: %s", say_safe(safe, sizeof(safe), path), what);
    if (!owner_hint(e->hint, sizeof(e->hint), path, err, NULL))
        snprintf(e->hint, sizeof(e->hint), "%s", err == -ENOMEM ? "" : "piano list");
    return err;
}

static int fail_at(struct run_error *e, const char *path, uint64_t at, const char *what)
{
    char text[200];
    snprintf(text, sizeof(text), "byte %llu: %s", (unsigned long long)at, what);
    return rec_fail(e, -EINVAL, path, text);
}

static int map_file(struct recording *rec, const char *path, struct stat *st, struct run_error *e)
{
    int fd = file_open(path, O_RDONLY);
    if (fd < 0)
        return rec_fail(e, fd, path, fd == -EINVAL ? "is not a regular file" : strerror(-fd));
    int err = fstat(fd, st) != 0 ? rec_fail(e, -errno, path, strerror(errno)) : 0;
    if (err == 0 && st->st_size > 0) {
        void *map = mmap(NULL, (size_t)st->st_size, PROT_READ, MAP_SHARED, fd, 0);
        if (map == MAP_FAILED) {
            err = rec_fail(e, -errno, path, strerror(errno));
        } else {
            rec->map = map;
            rec->map_len = (size_t)st->st_size;
        }
    }
    close(fd);
    return err;
}

static int check_header(struct recording *rec, const char *path, struct run_error *e)
{
    struct piano__rec_header *h = &rec->header;
    const size_t magic = sizeof(h->magic);
    char what[160];
    if (rec->map_len == 0)
        return fail_at(e, path, 0,
                       "the file is empty: the program wrote nothing, or could not write");
    if (rec->map_len < magic || memcmp(rec->map, PIANO_REC_MAGIC, magic) != 0)
        return fail_at(e, path, 0,
                       "this is not a recording: it does not begin with " PIANO_REC_MAGIC);
    if (rec->map_len < PIANO_REC_HEADER_BYTES)
        return fail_at(e, path, rec->map_len, "the file ends inside its header");
    memcpy(h, rec->map, sizeof(*h));
    if (h->version != PIANO_REC_VERSION) {
        snprintf(what, sizeof(what), "version %u of the format; this piano reads version %d%s",
                 h->version, PIANO_REC_VERSION,
                 h->version > PIANO_REC_VERSION ? ": a newer one is needed" : "");
        return fail_at(e, path, offsetof(struct piano__rec_header, version), what);
    }
    if (h->header_bytes != PIANO_REC_HEADER_BYTES) {
        snprintf(what, sizeof(what), "a header of %u bytes; %d are known", h->header_bytes,
                 PIANO_REC_HEADER_BYTES);
        return fail_at(e, path, offsetof(struct piano__rec_header, header_bytes), what);
    }
    if (h->chunk_bytes != PIANO_REC_CHUNK_BYTES) {
        snprintf(what, sizeof(what), "chunks of %u bytes; %d are known", h->chunk_bytes,
                 PIANO_REC_CHUNK_BYTES);
        return fail_at(e, path, offsetof(struct piano__rec_header, chunk_bytes), what);
    }
    return 0;
}

/* ---- opening ---- */

int recording_peek(struct recording *rec, const char *path, struct run_error *error)
{
    struct stat st;
    *rec = (struct recording){.path = strdup(path), .duration_ns = -1};
    *error = (struct run_error){.text = ""};
    int err = rec->path ? map_file(rec, path, &st, error) : -ENOMEM;
    if (err == 0)
        err = check_header(rec, path, error);
    if (err == 0) {
        rec_clean_header(rec);
        rec_find_end(rec, &st);
        rec->foreign = file_is_of_other(path, &st);
        rec_find_duration(rec);
    } else {
        if (err == -ENOMEM)
            rec_fail(error, err, path, "not enough memory to read it");
        recording_unload(rec);
    }
    return err;
}

/* ---- chunks ---- */

static int compare_chunks(const void *a, const void *b)
{
    const struct rec_chunk *x = a, *y = b;
    return ORDER(x->type, y->type) ?: ORDER(x->index, y->index) ?: ORDER(x->at, y->at);
}

static bool is_table(uint32_t type)
{
    return type == PIANO_CHUNK_TOTALS || type == PIANO_CHUNK_LIVE;
}

static void take_chunk(struct rec_reader *r, uint64_t at)
{
    struct recording *rec = r->rec;
    struct piano__chunk c;
    const struct piano__chunk *in_file = (const void *)(rec->map + at);
    size_t there = rec->map_len - at - sizeof(c);
    if (rec->seen && rec_seen_is_events(rec->seen, at))
        return;
    /* Uses pread before touching the mapping, so a hole in the file costs no page. */
    if (pread(r->fd, &c, sizeof(c), (off_t)at) != (ssize_t)sizeof(c) || !c.ready ||
        !__atomic_load_n(&in_file->ready, __ATOMIC_ACQUIRE)) {
        rec->unfinished_chunks++;
        return;
    }
    memcpy(&c, in_file, sizeof(c));
    /* This order pairs with the release in target/trace/buffers.c, which stores the new index of a
     * reused chunk last. */
    c.index = __atomic_load_n(&in_file->index, __ATOMIC_ACQUIRE);
    c.used = __atomic_load_n(&in_file->used, __ATOMIC_ACQUIRE);
    if (c.type < PIANO_CHUNK_MODULES || c.type >= PIANO_CHUNK_TYPES) {
        rec->unknown_chunks++;
        return;
    }
    bool cut = there < PIANO_REC_PAYLOAD;
    there = cut ? there : PIANO_REC_PAYLOAD;
    if (cut && (is_table(c.type) || c.used > there))
        rec_gap(rec, at + sizeof(c) + there, 0, "the file ends inside a chunk");
    else if (!is_table(c.type) && c.used > PIANO_REC_PAYLOAD)
        rec_gap(rec, at + offsetof(struct piano__chunk, used), 0,
                "a chunk says it holds more than fits");
    if (c.type == PIANO_CHUNK_DEFINITIONS) {
        if (!rec->seen) /* they belong to events, which are not read again either */
            rec_take_parts(r, at, there);
        return;
    }
    size_t used = c.used < there ? c.used : there, skip = 0;
    if (rec->seen && rec_seen_has(rec->seen, at, &c, used, &skip))
        return;
    bool may_go = c.type == PIANO_CHUNK_EVENTS || c.type == PIANO_CHUNK_SAMPLES;
    const char *payload = rec->map + at + sizeof(c);
    if (may_go && rec->end == RECORDING_RUNNING) {
        payload = rec_copy(rec, in_file, c.index, 0, used);
        there = used;
    }
    if (payload)
        r->chunks[r->chunk_count++] =
            (struct rec_chunk){at, c.type, c.index, payload, used, there, c.previous, skip};
    else
        rec->unfinished_chunks++;
}

static int find_chunks(struct rec_reader *r)
{
    struct recording *rec = r->rec;
    uint64_t claimed = rec->header.chunks;
    uint64_t body = rec->map_len - PIANO_REC_HEADER_BYTES;
    /* A chunk has begun when its header is there. */
    uint64_t begun =
        (body + PIANO_REC_CHUNK_BYTES - sizeof(struct piano__chunk)) / PIANO_REC_CHUNK_BYTES;
    uint64_t count = claimed < begun ? claimed : begun;
    if (claimed > begun && rec->end != RECORDING_RUNNING)
        rec_gap(rec, rec->map_len, 0,
                "chunks are missing: the file was cut off, or the disk was full");
    if (count > REC_MAX_CHUNKS) {
        rec_gap(rec, PIANO_REC_HEADER_BYTES + (uint64_t)REC_MAX_CHUNKS * PIANO_REC_CHUNK_BYTES, 0,
                "the file is longer than can be read");
        count = REC_MAX_CHUNKS;
    }
    for (uint64_t n = 0; n < count; n++) {
        if (vec_reserve(&r->chunks, &r->chunk_room, r->chunk_count + PIANO_DEFINITION_PARTS,
                        sizeof(*r->chunks)) != 0)
            return -ENOMEM;
        take_chunk(r, PIANO_REC_HEADER_BYTES + n * PIANO_REC_CHUNK_BYTES);
    }
    if (r->chunk_count == 0)
        return 0;
    qsort(r->chunks, r->chunk_count, sizeof(*r->chunks), compare_chunks);
    size_t kept = 0;
    for (size_t i = 0; i < r->chunk_count; i++) {
        const struct rec_chunk *c = &r->chunks[i], *before = kept ? &r->chunks[kept - 1] : NULL;
        if (before && is_table(c->type) && c->type == before->type && c->index == before->index)
            rec_gap(rec, c->at, 0, "a part of a table is there twice: the second is left out");
        else
            r->chunks[kept++] = *c;
    }
    r->chunk_count = kept;
    rec->read_chunks = kept;
    return 0;
}

/* Without memory for them, single blocks are not available. */
static void keep_live_chunks(const struct rec_reader *r)
{
    size_t first = 0, count = 0;
    while (first < r->chunk_count && r->chunks[first].type < PIANO_CHUNK_LIVE)
        first++;
    while (first + count < r->chunk_count && r->chunks[first + count].type == PIANO_CHUNK_LIVE)
        count++;
    r->rec->live_chunks = calloc(count + 1, sizeof(*r->chunks));
    if (!r->rec->live_chunks || count == 0)
        return;
    memcpy(r->rec->live_chunks, &r->chunks[first], count * sizeof(*r->chunks));
    r->rec->live_chunk_count = count;
}

typedef int stage(struct rec_reader *r);

static int read_chunks(struct recording *rec, stage *const *stages, size_t count)
{
    struct rec_reader r = {.rec = rec, .fd = file_open(rec->path, O_RDONLY)};
    int err = r.fd < 0 ? r.fd : find_chunks(&r);
    if (r.fd >= 0)
        close(r.fd);
    for (size_t i = 0; i < count && err == 0; i++) {
        err = stages[i](&r);
        say_progress_again();
    }
    keep_live_chunks(&r);
    rec->ids = r.ids;
    rec->id_count = r.id_count;
    free(r.chunks);
    return err;
}

int rec_finish(struct recording *rec, struct run_error *error)
{
    rec_find_duration(rec);
    int err = range_resolve(&rec->range, &rec->asked, rec->header.start_mono_ns, rec->end_ns,
                            rec->path, error);
    if (err) {
        recording_unload(rec);
        return err;
    }
    rec_sum_samples(rec);
    return 0;
}

static int read_rest(struct recording *rec, stage *const *stages, size_t count,
                     struct run_error *error)
{
    int err = read_chunks(rec, stages, count);
    if (err) {
        rec_fail(error, err, rec->path, strerror(-err));
        recording_unload(rec);
        return err;
    }
    return rec_finish(rec, error);
}

int rec_read_all(struct recording *rec)
{
    static stage *const all[] = {rec_read_stacks,  rec_read_tables, rec_read_snapshots,
                                 rec_read_threads, rec_read_python, rec_read_symbols,
                                 rec_read_samples, rec_read_events};
    return read_chunks(rec, all, sizeof(all) / sizeof(*all));
}

int recording_read(struct recording *rec, struct run_error *error)
{
    int err = rec_read_all(rec);
    if (err)
        rec_fail(error, err, rec->path, strerror(-err));
    else if (rec->family)
        err = rec_join_family(rec, error);
    if (err) {
        recording_unload(rec);
        return err;
    }
    return rec_finish(rec, error);
}

int recording_read_new(struct recording *rec, struct recording_seen *seen, struct run_error *error)
{
    static stage *const some[] = {rec_read_stacks,  rec_read_tables, rec_read_snapshots,
                                  rec_read_threads, rec_read_python, rec_read_symbols,
                                  rec_read_samples};
    rec->seen = seen;
    int err = read_rest(rec, some, sizeof(some) / sizeof(*some), error);
    if (err == 0)
        rec_seen_sums(rec);
    return err;
}

int recording_load(struct recording *rec, const char *path, struct run_error *error)
{
    int err = recording_peek(rec, path, error);
    return err ? err : recording_read(rec, error);
}

int recording_load_addresses(struct recording *rec, const char *path, struct run_error *error)
{
    static stage *const some[] = {rec_read_stacks, rec_read_threads, rec_read_symbols};
    int err = recording_peek(rec, path, error);
    return err ? err : read_rest(rec, some, sizeof(some) / sizeof(*some), error);
}

void recording_unload(struct recording *rec)
{
    for (size_t i = 0; i < rec->module_count; i++)
        free(rec->modules[i].path);
    for (size_t i = 0; i < rec->snapshot_count; i++)
        free(rec->snapshots[i].entries);
    free(rec->modules);
    free(rec->stacks);
    free(rec->live_chunks);
    free(rec->ids);
    for (size_t i = 0; i < rec->name_count; i++)
        free(rec->names[i].text);
    free(rec->snapshots);
    free(rec->threads);
    free(rec->names);
    rec_free_python(rec);
    rec_free_symbols(rec);
    rec_free_copies(rec);
    free(rec->samples);
    free(rec->events.tracks);
    free(rec->events.segments);
    free(rec->events.clock.pairs);
    rec_free_parts(rec);
    free(rec->path);
    if (rec->map)
        munmap((void *)(uintptr_t)rec->map, rec->map_len);
    *rec = (struct recording){0};
}
