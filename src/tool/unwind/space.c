/* Address spaces. The kernel reports every new mapping that may hold code, but not when one is
 * removed. A removed mapping stays in the list until another replaces it. This does no harm,
 * because no code returns to it. */
#include "tool/unwind/space.h"

#include <stdlib.h>
#include <string.h>

#include "tool/util/order.h"
#include "tool/util/vec.h"

static uint32_t draw(uint32_t *generations)
{
    /* After 2^31 - 2 generations the last one is reused, and later stacks may get wrong names. */
    return *generations < UINT32_MAX - 1 ? (*generations)++ : *generations;
}

void space_init(struct space *s, pid_t pid, uint32_t *generations)
{
    *s = (struct space){.pid = pid, .generation = draw(generations)};
}

void space_release(struct space *s)
{
    free(s->list);
    s->list = NULL;
    s->count = s->capacity = 0;
}

static void renew(struct space *s, uint32_t *generations)
{
    s->generation = draw(generations);
    s->is_shared = false;
    for (size_t i = 0; i < s->count; i++)
        s->list[i].is_told = false;
}

void space_clear(struct space *s, uint32_t *generations)
{
    s->count = 0;
    renew(s, generations);
}

bool space_copy(struct space *to, struct space *from, pid_t pid, uint32_t *generations)
{
    space_init(to, pid, generations);
    if (from->count == 0)
        return true;
    to->list = malloc(from->count * sizeof *to->list);
    if (!to->list)
        return false;
    memcpy(to->list, from->list, from->count * sizeof *to->list);
    to->count = to->capacity = from->count;
    to->generation = from->generation;
    to->is_shared = from->is_shared = true;
    return true;
}

/* The first mapping that ends after ADDRESS. */
static size_t bound(const struct space *s, uint64_t address)
{
    return ORDER_BOUND(at, s->count, s->list[at].end <= address);
}

/* A mapping in the middle of another adds two. */
static bool make_room(struct space *s)
{
    return s->count + 2 <= SPACE_MAX_MAPPINGS &&
           vec_reserve(&s->list, &s->capacity, s->count + 2, sizeof *s->list) == 0;
}

static void insert(struct space *s, size_t at, const struct mapping *m)
{
    memmove(&s->list[at + 1], &s->list[at], (s->count - at) * sizeof *m);
    s->list[at] = *m;
    s->count++;
}

/* Removes START to END from the list. The caller has made room for one more mapping. */
static void cut(struct space *s, uint64_t start, uint64_t end)
{
    size_t at = bound(s, start);
    if (at < s->count && s->list[at].start < start) {
        struct mapping rest = s->list[at];
        s->list[at].end = start;
        at++;
        if (rest.end > end) {
            rest.offset += end - rest.start;
            rest.start = end;
            insert(s, at, &rest);
            return;
        }
    }
    size_t to = at;
    while (to < s->count && s->list[to].end <= end)
        to++;
    if (to < s->count && s->list[to].start < end) {
        s->list[to].offset += end - s->list[to].start;
        s->list[to].start = end;
    }
    memmove(&s->list[at], &s->list[to], (s->count - to) * sizeof *s->list);
    s->count -= to - at;
}

/* Whether addresses in the recording get another meaning. One anonymous mapping is like another:
 * runtimes change theirs all the time. */
static bool changes_told(const struct space *s, const struct mapping *new)
{
    for (size_t i = bound(s, new->start); i < s->count && s->list[i].start < new->end; i++) {
        if (s->list[i].is_told && (s->list[i].code || new->code))
            return true;
    }
    return false;
}

/* Whether M is a known anonymous mapping around NEW, which is one too: the recording has it. */
static bool is_told_within(const struct mapping *m, const struct mapping *new)
{
    return m->is_told && !m->code && !new->code && m->start <= new->start && m->end >= new->end;
}

void space_map(struct space *s, uint64_t start, uint64_t end, uint64_t offset, struct code *code,
               uint32_t *generations)
{
    struct mapping new = {.start = start, .end = end, .offset = offset, .code = code};
    if (end <= start || end >> 62 || !make_room(s))
        return;
    size_t at = bound(s, start);
    if (at < s->count && s->list[at].start == start && s->list[at].end == end &&
        s->list[at].code == code && s->list[at].offset == offset)
        return;
    if (s->is_shared || changes_told(s, &new))
        renew(s, generations);
    new.is_told = at < s->count &&is_told_within(&s->list[at], &new);
    cut(s, start, end);
    insert(s, bound(s, start), &new);
}

struct mapping *space_find(struct space *s, struct codes *codes, uint64_t pc)
{
    size_t at = bound(s, pc);
    if (at == s->count || s->list[at].start > pc)
        return NULL;
    struct mapping *m = &s->list[at];
    if (m->code && !m->is_ready) {
        m->is_ready = true;
        codes_read(codes, m->code, s->pid);
        m->bias = code_bias(m->code, m->start, m->offset);
    }
    return m;
}
