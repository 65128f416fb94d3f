/* What holds in a thread's block between two changes. repair.c restores the same. */
#include "target/span/valid.h"

#ifdef PIANO_CHECK

#include <stddef.h>

#include "target/span/registry.h"

static uint32_t slot_count(void)
{
    uint32_t count = piano__registry_count();
    return count < piano__capacity ? count : piano__capacity;
}

static uint32_t count_entries(struct piano__thread *t, uint32_t slot)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < t->depth; i++)
        count += piano__entries(t)[i].slot == slot;
    return count;
}

/* Every entry has a function and a later `seq` than the one below it. */
static bool are_entries_valid(struct piano__thread *t)
{
    const struct piano__entry *entries = piano__entries(t);
    if (t->depth > PIANO_MAX_DEPTH || (t->chain != UINT32_MAX && t->chain > t->depth))
        return false;
    uint64_t seq = 0;
    for (uint32_t i = 0; i < t->depth; i++) {
        if (entries[i].slot >= slot_count() || entries[i].seq <= seq || entries[i].seq > t->seq)
            return false;
        if (t->chain != UINT32_MAX && i < t->chain && !(entries[i].flags & PIANO_ENTRY_FIRST))
            return false;
        seq = entries[i].seq;
    }
    return true;
}

/* The functions count the entries, and one that has no sample open says so. */
static bool are_open_calls_valid(struct piano__thread *t)
{
    struct piano__slot *slots = piano__slots(t);
    uint32_t open = 0;
    for (uint32_t id = 0; id < slot_count(); id++) {
        if (slots[id].open > 0 ? slots[id].open != count_entries(t, id) : slots[id].sampling)
            return false;
        open += slots[id].open;
    }
    return open == t->depth;
}

struct list {
    uint32_t first;   /* number + 1 of a function; 0: empty */
    size_t next;      /* offset of the same in a slot */
    size_t is_member; /* offset of a flag */
};

static const void *field(const struct piano__slot *slot, size_t offset)
{
    return (const char *)slot + offset;
}

/* A list without a cycle, whose members are exactly the functions with the flag. */
static bool is_list_valid(struct piano__thread *t, struct list list)
{
    const struct piano__slot *slots = piano__slots(t);
    uint32_t flagged = 0, length = 0;
    for (uint32_t id = 0; id < slot_count(); id++)
        flagged += *(const uint8_t *)field(&slots[id], list.is_member) != 0;
    for (uint32_t link = list.first; link; length++) {
        if (link > slot_count() || length == flagged ||
            !*(const uint8_t *)field(&slots[link - 1], list.is_member))
            return false;
        link = *(const uint32_t *)field(&slots[link - 1], list.next);
    }
    return length == flagged;
}

bool piano__span_is_valid(struct piano__thread *t)
{
    const struct list now = {t->now_list, offsetof(struct piano__slot, next_now),
                             offsetof(struct piano__slot, in_now)};
    const struct list kept = {t->kept_list, offsetof(struct piano__slot, next_kept),
                              offsetof(struct piano__slot, in_kept)};
    const struct list sampled = {t->sampled_list, offsetof(struct piano__slot, next_sampled),
                                 offsetof(struct piano__slot, in_sampled)};
    return are_entries_valid(t) && are_open_calls_valid(t) && is_list_valid(t, now) &&
           is_list_valid(t, kept) && is_list_valid(t, sampled);
}

#endif
