/* Reads a recording again while it is written: of samples, only those that were added since.
 *
 * A chunk of samples only grows, until it is reused with another `index`. So the number of bytes
 * that were read of each chunk says where the new samples begin. The sums of the earlier ones are
 * kept by the numbers of stacks and threads in the file, which never change. */
#include "tool/load/rec.h"

#include <errno.h>
#include <stdlib.h>

#include "tool/util/vec.h"

static uint64_t number_of(uint64_t at)
{
    return (at - PIANO_REC_HEADER_BYTES) / PIANO_REC_CHUNK_BYTES;
}

bool rec_seen_is_events(const struct recording_seen *seen, uint64_t at)
{
    uint64_t n = number_of(at);
    return n < seen->chunk_count && seen->chunks[n].is_events;
}

bool rec_seen_has(struct recording_seen *seen, uint64_t at, const struct piano__chunk *chunk,
                  size_t used, size_t *skip)
{
    bool is_events = chunk->type == PIANO_CHUNK_EVENTS;
    uint64_t n = number_of(at);
    *skip = 0;
    if (chunk->type != PIANO_CHUNK_SAMPLES && !is_events)
        return false;
    if (n >= seen->chunk_count) {
        size_t cap = seen->chunk_count;
        if (vec_reserve(&seen->chunks, &cap, n + 1, sizeof(*seen->chunks)) != 0)
            return true; /* out of memory: they are read the next time */
        for (; seen->chunk_count < cap; seen->chunk_count++)
            seen->chunks[seen->chunk_count] = (struct recording_seen_chunk){.index = UINT64_MAX};
    }
    struct recording_seen_chunk *c = &seen->chunks[n];
    c->is_events = is_events;
    if (is_events)
        return true;
    *skip = c->index == chunk->index && c->used <= used ? c->used : 0;
    if (*skip == used)
        return true;
    *c = (struct recording_seen_chunk){.index = chunk->index, .used = used};
    return false;
}

/* The sum of KEY in LIST, new if there is none; NULL: out of memory. */
static struct recording_sum *sum_of(struct recording_seen_sums *s, uint64_t key)
{
    uint32_t at = map_find(&s->of, key);
    if (at == MAP_NONE) {
        at = (uint32_t)s->count;
        if (VEC_ROOM(s->list, s->count, s->cap) != 0 || map_put(&s->of, key, at) != 0)
            return NULL;
        s->list[s->count++] = (struct recording_seen_sum){.key = key};
    }
    return &s->list[at].sum;
}

static void add_sample(struct recording_sum *sum, const struct recording_sample *s)
{
    bool cpu = s->kind == PIANO_SAMPLE_CPU, preempted = s->flags & PIANO_SAMPLE_PREEMPTED;
    sum->cpu_samples += cpu;
    sum->cpu_ns += cpu ? s->value : 0;
    sum->cpu_squares += cpu ? (double)s->value * (double)s->value : 0;
    sum->off_samples += !cpu && !preempted;
    sum->off_ns += !cpu && !preempted ? s->value : 0;
    sum->preempted_ns += !cpu && preempted ? s->value : 0;
}

int rec_seen_add(struct recording_seen *seen, uint32_t stack, struct recording_sample *s)
{
    struct recording_sum *of_stack = sum_of(&seen->stacks, stack);
    struct recording_sum *of_thread = sum_of(&seen->threads, (uint64_t)s->pid << 32 | s->tid);
    if (!of_stack || !of_thread)
        return -ENOMEM;
    add_sample(of_stack, s);
    add_sample(of_thread, s);
    if (s->at_ns < seen->since_ns && s->kind == PIANO_SAMPLE_OFF) { /* a wait that ended now */
        uint64_t before = seen->since_ns - s->at_ns;
        s->value -= before < s->value ? before : s->value;
        s->at_ns = seen->since_ns;
    }
    return 0;
}

static void clear_sum(struct recording_sum *sum)
{
    sum->cpu_samples = sum->cpu_ns = sum->off_samples = sum->off_ns = sum->preempted_ns = 0;
    sum->cpu_squares = 0;
}

void rec_seen_sums(struct recording *rec)
{
    const struct rec_reader r = {.rec = rec, .ids = rec->ids, .id_count = rec->id_count};
    const struct recording_seen_sums *stacks = &rec->seen->stacks;
    for (size_t i = 0; i < rec->stack_count; i++)
        clear_sum(&rec->stacks[i].sum);
    clear_sum(&rec->total);
    for (size_t i = 0; i < stacks->count; i++) {
        uint32_t stack = rec_stack_of(&r, (uint32_t)stacks->list[i].key);
        recording_sum_add(&rec->stacks[stack].sum, &stacks->list[i].sum);
        recording_sum_add(&rec->total, &stacks->list[i].sum);
    }
}

void recording_seen_release(struct recording_seen *seen)
{
    free(seen->chunks);
    free(seen->stacks.list);
    free(seen->threads.list);
    map_release(&seen->stacks.of);
    map_release(&seen->threads.of);
    *seen = (struct recording_seen){.chunk_count = 0};
}
