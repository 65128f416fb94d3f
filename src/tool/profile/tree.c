#include "tool/profile/tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NODES = 1 << 22 };

static bool is_child(const struct tree_node *n, uint32_t parent, const struct symbol_frame *f,
                     bool mmap)
{
    return n->parent == parent && n->function == f->function && n->module == f->module &&
           n->inlined == f->inlined && n->mmap == mmap;
}

static size_t slot_of(const struct tree *t, uint32_t parent, const char *function)
{
    uint64_t h = ((uintptr_t)function ^ (uint64_t)parent << 32) * 0xff51afd7ed558ccdu;
    return (size_t)(h ^ h >> 31) & (t->slot_count - 1);
}

/* Makes room for one more node; false if it cannot. */
static bool make_room(struct tree *t)
{
    if (t->count < t->cap)
        return true;
    size_t cap = t->cap ? t->cap * 2 : 256;
    struct tree_node *nodes = cap <= MAX_NODES ? realloc(t->nodes, cap * sizeof(*nodes)) : NULL;
    uint32_t *slots = nodes ? calloc(cap * 2, sizeof(*slots)) : NULL;
    t->nodes = nodes ? nodes : t->nodes;
    if (!slots) {
        t->failed |= cap <= MAX_NODES;
        return false;
    }
    free(t->slots);
    t->slots = slots;
    t->slot_count = cap * 2;
    t->cap = cap;
    for (uint32_t i = 1; i < t->count; i++) {
        size_t at = slot_of(t, t->nodes[i].parent, t->nodes[i].function);
        while (slots[at])
            at = (at + 1) & (t->slot_count - 1);
        slots[at] = i;
    }
    return true;
}

/* Finds or creates the child of PARENT for frame F; TREE_NONE if there is no room. */
static uint32_t child_of(struct tree *t, uint32_t parent, const struct symbol_frame *f, bool mmap)
{
    if (!make_room(t) && t->failed)
        return TREE_NONE;
    size_t at = slot_of(t, parent, f->function);
    for (; t->slots[at]; at = (at + 1) & (t->slot_count - 1))
        if (is_child(&t->nodes[t->slots[at]], parent, f, mmap))
            return t->slots[at];
    if (t->count == t->cap)
        return TREE_NONE;
    uint32_t new = (uint32_t)t->count++;
    t->slots[at] = new;
    t->nodes[new] = (struct tree_node){.function = f->function,
                                       .file = f->file,
                                       .module = f->module,
                                       .line = f->line,
                                       .inlined = f->inlined,
                                       .mmap = mmap,
                                       .parent = parent,
                                       .child = TREE_NONE,
                                       .next = t->nodes[parent].child};
    t->nodes[parent].child = new;
    return new;
}

static int add_stack(struct tree *t, const struct profile *heap, uint32_t stack, double weight,
                     const struct symbol_frame **frames)
{
    size_t count = profile_frames(heap, stack, frames);
    bool mmap = (heap->rec.stacks[stack].flags & PIANO_STACK_MMAP) != 0;
    uint32_t at = 0, child;
    t->nodes[0].weight += weight;
    for (size_t i = count; i-- > 0;) {
        child = child_of(t, at, frames[i], mmap && i == 0);
        if (child == TREE_NONE)
            break;
        at = child;
        t->nodes[at].weight += weight;
    }
    t->nodes[at].own += weight;
    return t->failed ? -ENOMEM : 0;
}

/* Merge sort of a list of siblings: heaviest first, then by name. */
static bool in_order(const struct tree_node *a, const struct tree_node *b)
{
    if (a->weight > b->weight || a->weight < b->weight)
        return a->weight > b->weight;
    return strcmp(a->function, b->function) <= 0;
}

static uint32_t merge(struct tree_node *nodes, uint32_t a, uint32_t b)
{
    uint32_t head = TREE_NONE, *tail = &head;
    while (a != TREE_NONE && b != TREE_NONE) {
        uint32_t *from = in_order(&nodes[a], &nodes[b]) ? &a : &b;
        *tail = *from;
        tail = &nodes[*from].next;
        *from = nodes[*from].next;
    }
    *tail = a != TREE_NONE ? a : b;
    return head;
}

static uint32_t sort_list(struct tree_node *nodes, uint32_t list)
{
    uint32_t bins[33];
    for (int i = 0; i < 33; i++)
        bins[i] = TREE_NONE;
    while (list != TREE_NONE) {
        uint32_t one = list;
        int i = 0;
        list = nodes[list].next;
        nodes[one].next = TREE_NONE;
        for (; i < 32 && bins[i] != TREE_NONE; i++) {
            one = merge(nodes, bins[i], one);
            bins[i] = TREE_NONE;
        }
        bins[i] = one;
    }
    for (int i = 0; i < 33; i++)
        list = merge(nodes, bins[i], list);
    return list;
}

int tree_make(struct tree *t, const struct profile *heap, enum heap_by by)
{
    const struct symbol_frame **frames = calloc(PROFILE_MAX_FRAMES, sizeof(*frames));
    *t = (struct tree){.nodes = NULL};
    int err = frames && make_room(t) ? 0 : -ENOMEM;
    if (err == 0)
        t->nodes[t->count++] =
            (struct tree_node){.function = "", .module = "", .child = TREE_NONE, .next = TREE_NONE};
    for (uint32_t i = 0; i < heap->rec.stack_count && err == 0; i++) {
        double weight = heap_figure(&heap->rec.stacks[i].sum, by);
        if (heap->stacks[i].pcs && weight > 0)
            err = add_stack(t, heap, i, weight, frames);
    }
    for (size_t i = 0; i < t->count && err == 0; i++)
        t->nodes[i].child = sort_list(t->nodes, t->nodes[i].child);
    free(frames);
    return err;
}

void tree_release(struct tree *t)
{
    free(t->slots);
    free(t->nodes);
}
