/* Repairs tables whose change was interrupted.
 *
 * WHEN. `busy` is the stack address of the function that changes the tables. A handler on the same
 * stack runs further down. So a probe that runs at that address or above proves that a jump removed
 * the holder (sys/stack.h has the conditions).
 *
 * WHAT. Everything that other fields imply is recomputed: the number of open calls of each
 * function, which of them is a sample, the number of first calls, and the three lists, which
 * therefore have no cycles. Tallies of a committed line are cleared. Only the interrupted operation
 * can leave errors: one call may be missing or counted twice, one frame may have no line (its work
 * goes into the next one), and the calls that one function counted inline since its last sample may
 * be missing or counted twice. */
#include "target/span/repair.h"

#include <string.h>

#include "common/lines.h"
#include "target/heap/heap.h"
#include "target/span/frame.h"
#include "target/span/registry.h"
#include "target/span/run.h"
#include "target/span/thread.h"
#include "target/span/valid.h"
#include "target/sys/check.h"
#include "target/sys/stack.h"

static uint32_t slot_count(void)
{
    uint32_t count = piano__registry_count();
    return count < piano__capacity ? count : piano__capacity;
}

static void recount_open_calls(struct piano__thread *t)
{
    struct piano__slot *slots = piano__slots(t);
    const struct piano__entry *entries = piano__entries(t);
    uint32_t count = slot_count();
    uint32_t first = 0;
    for (uint32_t id = 0; id < count; id++)
        slots[id].open = slots[id].sampling = 0;
    for (uint32_t i = 0; i < t->depth; i++) {
        struct piano__slot *slot = &slots[entries[i].slot];
        slot->open++;
        if (entries[i].flags & PIANO_ENTRY_SAMPLED)
            slot->sampling = 1;
        if (first == i && entries[i].flags & PIANO_ENTRY_FIRST)
            first++;
    }
    if (t->chain != UINT32_MAX)
        t->chain = first;
}

/* Ensures `given` >= `left`. A function whose outermost calls are timed must have no calls left
 * outside of them. */
static void settle_head(struct piano__thread *t, struct piano__slot *slot)
{
    struct piano__head *head = piano__head_of(t, slot);
    if (head->given < head->left)
        head->given = head->left;
    if (slot->outer_timed && slot->open == 0 && head->left > 0) {
        piano__frame_settle(t, slot);
        slot->left_saved = head->left;
        head->given = 0; /* first: a reader in between must see nothing pending */
        __asm__ __volatile__("" ::: "memory");
        head->left = 0;
    }
}

static void link_lists(struct piano__thread *t)
{
    uint32_t count = slot_count();
    t->now_list = t->kept_list = t->sampled_list = 0;
    for (uint32_t id = 0; id < count; id++) {
        struct piano__slot *slot = &piano__slots(t)[id];
        settle_head(t, slot);
        slot->in_now = slot->in_now || !piano__tally_is_empty(&slot->now);
        slot->in_kept = slot->in_kept || !piano__tally_is_empty(&slot->kept);
        slot->in_sampled = slot->in_sampled || slot->mode == PIANO_SAMPLED;
        if (slot->in_now) {
            slot->next_now = t->now_list;
            t->now_list = id + 1;
        }
        if (slot->in_kept) {
            slot->next_kept = t->kept_list;
            t->kept_list = id + 1;
        }
        if (slot->in_sampled) {
            slot->next_sampled = t->sampled_list;
            t->sampled_list = id + 1;
        }
    }
}

void piano__repair(struct piano__thread *t)
{
    t->busy = piano__stack_pointer(); /* this function is now the holder */
    t->limit = 0;
    __asm__ __volatile__("" ::: "memory");
    piano__frame_repair_move(t);
    recount_open_calls(t);
    link_lists(t);
    piano__frame_repair(t);
    piano__check(piano__span_is_valid(t));
    __asm__ __volatile__("" ::: "memory");
    t->busy = 0;
    t->limit = t->real_limit;
}

bool piano__repair_left(struct piano__thread *t, uintptr_t here)
{
    if (!piano__is_attached(t) ||
        !piano__stack_is_left(&piano__heap_self.walker.stack, t->busy, here))
        return false;
    piano__repair(t);
    return true;
}
