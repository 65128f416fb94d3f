/* Samples and their data on the way into a recording.
 *
 * The program creates its recording itself, some time after its start, and a program that calls
 * exec begins a new one. So everything is first stored in memory, in order, and written from there:
 * modules before the stacks that refer to them, stacks and threads before the samples that refer to
 * them. As long as there are few samples, they move to the next file (`env X=1 PROGRAM` is env for
 * a moment). Afterwards each file keeps the samples of its time.
 *
 * Chunks are claimed in the same way as the program claims its own. */
#include "tool/record/journal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tool/util/vec.h"

/* A module record; its length depends on the path. */
struct kept_module {
    struct piano__module head;
    char *path;
};

struct kept_stack {
    uint64_t hash;
    uint32_t generation;
    uint32_t flags;
    uint32_t depth;
    size_t first; /* index in `frames` */
};

enum {
    /* Samples that fit into one chunk can still be removed from a file again. */
    WORTH_MOVING = PIANO_REC_PAYLOAD / sizeof(struct piano__sample),
    SHARE = 8, /* share of samples in a size-limited recording with other data: 1/8 */
};

static void *push(struct journal_list *l, size_t size, size_t count)
{
    if (vec_reserve(&l->data, &l->capacity, l->count + count, size) != 0)
        return NULL;
    void *at = l->data + l->count * size;
    l->count += count;
    return at;
}

void journal_init(struct journal *j)
{
    *j = (struct journal){.view = {.fd = -1}};
}

static void close_logs(struct journal *j)
{
    for (size_t i = 0; i < sizeof j->logs / sizeof j->logs[0]; i++) {
        if (j->logs[i].chunk)
            view_unmap(j->logs[i].chunk);
        j->logs[i] = (struct journal_log){0};
    }
    j->chunks = 0;
    j->sample_chunks.count = 0;
    j->renewed = 0;
}

void journal_release(struct journal *j)
{
    close_logs(j);
    if (j->path)
        view_close(&j->view);
    free(j->path);
    for (size_t i = 0; i < j->modules.count; i++)
        free(((struct kept_module *)(void *)j->modules.data)[i].path);
    free(j->modules.data);
    free(j->stacks.data);
    free(j->threads.data);
    free(j->samples.data);
    free(j->sample_chunks.data);
    free(j->frames.data);
    map_release(&j->known);
    journal_init(j);
}

/* Stacks --------------------------------------------------------------------------------------- */

static uint64_t hash_stack(uint32_t generation, const struct unwind_stack *s)
{
    uint64_t h = generation;
    for (uint32_t i = 0; i < s->depth; i++) {
        h = (h ^ s->pcs[i]) * UINT64_C(0xff51afd7ed558ccd);
        h ^= h >> 32;
    }
    return h;
}

static struct kept_stack *stack_at(const struct journal *j, size_t i)
{
    return (struct kept_stack *)(void *)j->stacks.data + i;
}

static bool is_same(const struct journal *j, const struct kept_stack *k, uint64_t hash,
                    uint32_t generation, const struct unwind_stack *s)
{
    return k->hash == hash && k->generation == generation && k->depth == s->depth &&
           k->flags == s->flags &&
           memcmp((const uint64_t *)(const void *)j->frames.data + k->first, s->pcs,
                  s->depth * sizeof s->pcs[0]) == 0;
}

uint32_t journal_stack(struct journal *j, uint32_t generation, const struct unwind_stack *s)
{
    uint64_t hash = hash_stack(generation, s), key = hash;
    uint32_t known;
    for (; (known = map_find(&j->known, key)) != MAP_NONE; key++) {
        if (is_same(j, stack_at(j, known), hash, generation, s))
            return PIANO_TOOL_STACK | (known + 1);
    }
    if (s->depth == 0 || j->frames.count + s->depth > JOURNAL_MAX_FRAMES)
        return 0;
    size_t first = j->frames.count;
    uint64_t *frames = push(&j->frames, sizeof *frames, s->depth);
    struct kept_stack *k = frames ? push(&j->stacks, sizeof *k, 1) : NULL;
    if (!k || map_put(&j->known, key, (uint32_t)j->stacks.count - 1) != 0) {
        j->frames.count = first;
        j->stacks.count -= k != NULL;
        return 0;
    }
    memcpy(frames, s->pcs, s->depth * sizeof *frames);
    *k = (struct kept_stack){hash, generation, s->flags, s->depth, first};
    return PIANO_TOOL_STACK | (uint32_t)j->stacks.count;
}

/* The rest ------------------------------------------------------------------------------------- */

void journal_module(struct journal *j, uint32_t generation, const struct mapping *m)
{
    static char no_path[] = PIANO_NO_FILE;
    static const struct code no_file = {.path = no_path};
    const struct code *code = m->code ? m->code : &no_file;
    bool good = code->is_good;
    struct kept_module k = {.head = {.since = generation,
                                     .until = generation + 1,
                                     .start = good ? m->bias + code->start : m->start,
                                     .end = good ? m->bias + code->end : m->end,
                                     .bias = m->bias,
                                     .build_id_len = code->build_id_len}};
    memcpy(k.head.build_id, code->build_id, sizeof k.head.build_id);
    k.path = strdup(code->path);
    struct kept_module *at = k.path ? push(&j->modules, sizeof *at, 1) : NULL;
    if (at)
        *at = k;
    else
        free(k.path);
}

void journal_thread(struct journal *j, uint32_t pid, uint32_t tid, uint64_t at_ns, const char *name)
{
    struct piano__thread_record *t = push(&j->threads, sizeof *t, 1);
    if (!t)
        return;
    *t = (struct piano__thread_record){.bytes = sizeof *t, .tid = tid, .pid = pid, .at_ns = at_ns};
    memcpy(t->name, name, strnlen(name, sizeof t->name - 1));
}

void journal_sample(struct journal *j, const struct piano__sample *s)
{
    if (!j->path && j->samples.count >= JOURNAL_HELD) {
        j->dropped++;
        return;
    }
    struct piano__sample *at = push(&j->samples, sizeof *at, 1);
    if (at)
        *at = *s;
    else
        j->dropped++;
}

/* Writing -------------------------------------------------------------------------------------- */

/* Maximum number of chunks with samples in the file. */
static uint64_t most_samples(const struct journal *j)
{
    const struct piano__rec_header *h = j->view.base.header;
    uint64_t most = piano__rec_most(h);
    bool alone = !(h->flags & (PIANO_REC_HAS_HEAP | PIANO_REC_HAS_EVENTS));
    uint64_t share = alone ? most / 4 * 3 : most / SHARE;
    if (h->max_chunks == 0 || share > JOURNAL_SAMPLE_CHUNKS)
        return JOURNAL_SAMPLE_CHUNKS;
    return share > 0 ? share : 1;
}

/* Reuses the oldest chunk with samples, which is full. From the first time on, the chunks are a
 * ring buffer. */
static struct piano__chunk *renew_samples(struct journal *j, uint64_t index)
{
    const uint64_t *numbers = (const void *)j->sample_chunks.data;
    size_t count = j->sample_chunks.count;
    struct piano__chunk *c =
        count ? view_reclaim(&j->view, numbers[j->renewed % count], index) : NULL;
    if (!c)
        return NULL;
    j->renewed++;
    j->given_up += WORTH_MOVING;
    return c;
}

static struct piano__chunk *claim(struct journal *j, uint32_t type, uint64_t index)
{
    struct journal_list *numbers = &j->sample_chunks;
    bool samples = type == PIANO_CHUNK_SAMPLES;
    bool room = j->chunks < JOURNAL_MAX_CHUNKS;
    if (samples && (j->renewed > 0 || !room || numbers->count >= most_samples(j)))
        return renew_samples(j, index);
    uint64_t number, *kept = samples ? push(numbers, sizeof *kept, 1) : &number;
    struct piano__chunk *c = room && kept ? view_claim(&j->view, type, index, &number) : NULL;
    if (samples && kept && c)
        *kept = number;
    else if (samples && kept)
        numbers->count--;
    j->chunks += c != NULL;
    return !c && samples ? renew_samples(j, index) : c;
}

/* Space for BYTES in the newest chunk of TYPE, or in a new one; NULL when there is none. */
static char *find_room(struct journal *j, uint32_t type, size_t bytes)
{
    struct journal_log *log = &j->logs[type];
    if (log->chunk && PIANO_REC_PAYLOAD - log->used < bytes) {
        view_unmap(log->chunk);
        log->chunk = NULL;
    }
    if (!log->chunk && bytes <= PIANO_REC_PAYLOAD) {
        log->chunk = claim(j, type, log->next);
        log->used = 0;
        log->next += log->chunk != NULL;
    }
    return log->chunk ? (char *)(log->chunk + 1) + log->used : NULL;
}

/* Release: a reader that sees the new `used` also sees the record. */
static void commit(struct journal *j, uint32_t type, size_t bytes)
{
    struct journal_log *log = &j->logs[type];
    log->used += bytes;
    __atomic_store_n(&log->chunk->used, log->used, __ATOMIC_RELEASE);
}

static bool write_record(struct journal *j, uint32_t type, const void *record, size_t bytes)
{
    char *to = find_room(j, type, bytes);
    if (!to)
        return false;
    memcpy(to, record, bytes);
    commit(j, type, bytes);
    return true;
}

static bool write_module(struct journal *j, const struct kept_module *m)
{
    size_t len = strlen(m->path) + 1;
    size_t bytes = (sizeof m->head + len + 7) & ~(size_t)7;
    char *to = find_room(j, PIANO_CHUNK_MODULES, bytes);
    struct piano__module head = m->head;
    if (!to)
        return false;
    head.bytes = (uint32_t)bytes;
    memset(to, 0, bytes);
    memcpy(to, &head, sizeof head);
    memcpy(to + sizeof head, m->path, len);
    commit(j, PIANO_CHUNK_MODULES, bytes);
    return true;
}

static bool write_stack(struct journal *j, size_t i)
{
    const struct kept_stack *k = stack_at(j, i);
    size_t frames = k->depth * sizeof(uint64_t);
    struct piano__stack head = {.bytes = (uint32_t)(sizeof head + frames),
                                .id = PIANO_TOOL_STACK | ((uint32_t)i + 1),
                                .flags = k->flags,
                                .depth = k->depth,
                                .generation = k->generation,
                                .hash = k->hash};
    char *to = find_room(j, PIANO_CHUNK_STACKS, head.bytes);
    if (!to)
        return false;
    memcpy(to, &head, sizeof head);
    memcpy(to + sizeof head, (const uint64_t *)(const void *)j->frames.data + k->first, frames);
    commit(j, PIANO_CHUNK_STACKS, head.bytes);
    return true;
}

/* Writes new samples. Afterwards keeps them in memory only as long as they are few enough to
 * move. */
static void write_samples(struct journal *j)
{
    struct journal_list *l = &j->samples;
    const struct piano__sample *s = (const void *)l->data;
    for (; l->written < l->count; l->written++) {
        if (!write_record(j, PIANO_CHUNK_SAMPLES, &s[l->written], sizeof *s))
            break;
    }
    if (l->written < l->count) { /* disk or recording full: drop the rest */
        j->dropped += l->count - l->written;
        l->count = l->written;
    }
    if (l->count > WORTH_MOVING || (j->is_cut && l->count > 0)) {
        j->is_cut = true;
        l->count = l->written = 0;
    }
}

static void write_header(struct journal *j, uint32_t flag)
{
    struct piano__rec_header *h = j->view.base.header;
    const struct piano__trace *t = &j->trace;
    __atomic_fetch_or(&h->flags, flag, __ATOMIC_RELAXED);
    h->trace.cpu_source = t->cpu_source;
    h->trace.cpu_hz = t->cpu_hz;
    h->trace.samples = t->samples;
    h->trace.sampled_ns = t->sampled_ns;
    h->trace.samples_lost = t->samples_lost + j->dropped;
    h->trace.samples_unwound = t->samples_unwound;
    h->trace.switches = t->switches;
    h->samples_given_up = j->given_up;
}

void journal_flush(struct journal *j)
{
    const struct piano__thread_record *threads = (const void *)j->threads.data;
    const struct kept_module *modules = (const void *)j->modules.data;
    if (!j->path)
        return;
    while (j->modules.written < j->modules.count && write_module(j, &modules[j->modules.written]))
        j->modules.written++;
    while (j->stacks.written < j->stacks.count && write_stack(j, j->stacks.written))
        j->stacks.written++;
    while (j->threads.written < j->threads.count &&
           write_record(j, PIANO_CHUNK_THREADS, &threads[j->threads.written], sizeof *threads))
        j->threads.written++;
    write_samples(j);
    write_header(j, PIANO_REC_HAS_CPU);
}

/* Removes the samples from the old file: the next file has all of them. */
static void empty_old(struct journal *j)
{
    struct piano__rec_header *h = j->view.base.header;
    for (size_t i = 0; i < sizeof j->logs / sizeof j->logs[0]; i++) {
        if (j->logs[i].chunk && i == PIANO_CHUNK_SAMPLES)
            __atomic_store_n(&j->logs[i].chunk->used, 0, __ATOMIC_RELEASE);
    }
    h->trace.samples = h->trace.samples_lost = h->trace.sampled_ns = 0;
    h->trace.samples_unwound = h->trace.switches = 0;
    h->samples_given_up = 0;
    __atomic_fetch_and(&h->flags, ~(uint32_t)PIANO_REC_HAS_CPU, __ATOMIC_RELAXED);
}

int journal_move(struct journal *j, const char *path)
{
    struct view view;
    char *copy = strdup(path);
    int err = copy ? view_open(&view, path) : -ENOMEM;
    if (err != 0) {
        free(copy);
        return err;
    }
    if (j->path) {
        if (!j->is_cut && j->logs[PIANO_CHUNK_SAMPLES].next <= 1)
            empty_old(j);
        else
            j->is_cut = true;
        close_logs(j);
        view_close(&j->view);
        free(j->path);
    }
    view_hold(&view);
    j->view = view;
    j->path = copy;
    j->modules.written = j->stacks.written = j->threads.written = 0;
    if (j->is_cut) {
        struct piano__trace begun = {.cpu_source = j->trace.cpu_source, .cpu_hz = j->trace.cpu_hz};
        j->trace = begun;
        j->dropped = j->given_up = 0;
    } else {
        j->samples.written = 0;
    }
    journal_flush(j);
    return 0;
}
