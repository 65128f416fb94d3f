/* The detail of a row that the user chose: its heaviest stacks, or the functions of a thread. */
#include <stdlib.h>
#include <string.h>

#include "tool/profile/compare.h"
#include "tool/profile/cpu.h"
#include "tool/profile/live.h"
#include "tool/util/buf.h"
#include "tool/util/units.h"

enum { DETAIL_FUNCTIONS = 20 };

/* The heaviest stacks so far, heaviest first. */
struct heaviest {
    uint32_t stacks[LIVE_STACKS];
    double weights[LIVE_STACKS];
    size_t count, all;
};

static void add(struct heaviest *h, uint32_t stack, double weight)
{
    size_t at = h->count;
    h->all++;
    while (at > 0 && h->weights[at - 1] < weight)
        at--;
    if (at == LIVE_STACKS)
        return;
    size_t moved = (h->count < LIVE_STACKS ? h->count : LIVE_STACKS - 1) - at;
    memmove(&h->stacks[at + 1], &h->stacks[at], moved * sizeof(*h->stacks));
    memmove(&h->weights[at + 1], &h->weights[at], moved * sizeof(*h->weights));
    h->stacks[at] = stack;
    h->weights[at] = weight;
    h->count += h->count < LIVE_STACKS;
}

void live_put_stack(struct buf *b, const struct profile *p, uint32_t stack)
{
    const struct symbol_frame **frames = calloc(PROFILE_MAX_FRAMES, sizeof(*frames));
    size_t count = frames ? profile_frames(p, stack, frames) : 0;
    for (size_t i = 0; i < count; i++) {
        buf_printf(b, "    %s", frames[i]->function);
        if (frames[i]->file)
            buf_printf(b, "  %s:%u", frames[i]->file, frames[i]->line);
        else if (frames[i]->module[0])
            buf_printf(b, "  %s", frames[i]->module);
        buf_putc(b, '\n');
    }
    b->failed |= !frames;
    free(frames);
}

static bool has_function(const struct live_choice *c, const struct profile *p, uint32_t stack,
                         const struct symbol_frame **frames)
{
    size_t count = profile_frames(p, stack, frames);
    for (size_t i = 0; i < count; i++)
        if (strcmp(frames[i]->function, c->name) == 0 &&
            compare_texts(frames[i]->module, c->other) == 0)
            return true;
    return false;
}

static void find_of_function(struct heaviest *h, const struct live_choice *c,
                             const struct profile *p)
{
    const struct symbol_frame **frames = calloc(PROFILE_MAX_FRAMES, sizeof(*frames));
    for (uint32_t i = 0; frames && i < p->rec.stack_count; i++) {
        const struct recording_sum *sum = &p->rec.stacks[i].sum;
        if (sum->cpu_samples + sum->off_samples > 0 && has_function(c, p, i, frames))
            add(h, i, (double)sum->cpu_ns + (double)sum->off_ns);
    }
    free(frames);
}

static bool is_site(const struct live_choice *c, const struct heap_site *s)
{
    return strcmp(s->function, c->name) == 0 && compare_texts(s->caller, c->other) == 0 &&
           s->line == c->line;
}

static void find_of_site(struct heaviest *h, const struct live_choice *c, const struct profile *p)
{
    for (uint32_t i = 0; i < p->rec.stack_count; i++)
        if (profile_has_site(p, i) && is_site(c, &p->sites[p->stacks[i].site]))
            add(h, i, p->rec.stacks[i].sum.live_bytes + p->rec.stacks[i].sum.allocated_bytes / 1e6);
}

static void put_stacks(struct buf *b, const struct heaviest *h, const struct profile *p,
                       bool is_heap)
{
    char one[UNITS_LEN], two[UNITS_LEN];
    if (h->all > LIVE_STACKS)
        buf_printf(b, "the heaviest %d of %zu stacks\n", LIVE_STACKS, h->all);
    for (size_t i = 0; i < h->count; i++) {
        const struct recording_sum *sum = &p->rec.stacks[h->stacks[i]].sum;
        if (is_heap)
            buf_printf(b, "live %s, allocated %s\n", figure_bytes(one, sum->live_bytes),
                       figure_bytes(two, sum->allocated_bytes));
        else
            buf_printf(b, "on the CPU %s, off the CPU %s\n", units_time(one, (int64_t)sum->cpu_ns),
                       units_time(two, (int64_t)sum->off_ns));
        live_put_stack(b, p, h->stacks[i]);
    }
}

static void put_thread(struct buf *b, const struct live_choice *choice, struct cpu *c)
{
    char self[UNITS_LEN], off[UNITS_LEN];
    struct cpu_flat f;
    b->failed |= cpu_flat_make(&f, c, 0, choice->tid) != 0;
    buf_puts(b, c->rec->seen ? "functions of this thread since the last reading\n"
                             : "functions of this thread\n");
    for (size_t i = 0; i < f.count && i < DETAIL_FUNCTIONS; i++)
        buf_printf(b, "    %10s %10s  %s  %s\n", units_time(self, (int64_t)f.rows[i].self_ns),
                   units_time(off, (int64_t)f.rows[i].off_ns), f.rows[i].function,
                   f.rows[i].module);
    cpu_flat_release(&f);
}

char *live_detail_of(const struct live_choice *choice, struct profile *p, struct cpu *c)
{
    struct heaviest h = {.count = 0};
    struct buf b = {0};
    if (choice->kind == LIVE_NO_ROW)
        return NULL;
    if (choice->kind == LIVE_FUNCTION)
        find_of_function(&h, choice, p);
    else if (choice->kind == LIVE_SITE)
        find_of_site(&h, choice, p);
    else
        put_thread(&b, choice, c);
    put_stacks(&b, &h, p, choice->kind == LIVE_SITE);
    if (!b.failed)
        return b.data;
    buf_free(&b);
    return NULL;
}
