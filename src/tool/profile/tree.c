#include "tool/profile/tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/util/order.h"
#include "tool/util/vec.h"

enum { MAX_NODES = 1 << 22 };

/* Between the keys of functions with equal names: no difference of two pointers or parents. */
#define STEP 0x9e3779b97f4a7c15u

static bool is_child(const struct tree_node *n, uint32_t parent, const struct symbol_frame *f,
                     bool mmap)
{
    return n->parent == parent && n->function == f->function && n->module == f->module &&
           n->inlined == f->inlined && n->mmap == mmap;
}

/* Finds or creates the child of PARENT for frame F; TREE_NONE if there is no room. */
static uint32_t child_of(struct tree *t, uint32_t parent, const struct symbol_frame *f, bool mmap)
{
    uint64_t key = (uintptr_t)f->function ^ (uint64_t)parent << 32;
    uint32_t at;
    for (; (at = map_find(&t->index, key)) != MAP_NONE; key += STEP)
        if (is_child(&t->nodes[at], parent, f, mmap))
            return at;
    if (t->count == MAX_NODES)
        return TREE_NONE;
    uint32_t new = (uint32_t)t->count;
    if (VEC_ROOM(t->nodes, t->count, t->cap) != 0 || map_put(&t->index, key, new) != 0) {
        t->failed = true;
        return TREE_NONE;
    }
    t->nodes[t->count++] = (struct tree_node){.function = f->function,
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

static int add_stack(struct tree *t, const struct profile *p, uint32_t stack, double weight,
                     const struct symbol_frame **frames)
{
    size_t count = profile_frames(p, stack, frames);
    bool mmap = (p->rec.stacks[stack].flags & PIANO_STACK_MMAP) != 0;
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

struct weighed {
    double weight;
    uint32_t stack;
};

static int compare_weighed(const void *a, const void *b)
{
    const struct weighed *x = a, *y = b;
    return ORDER(y->weight, x->weight) ?: ORDER(x->stack, y->stack);
}

/* The heaviest stack comes first: a node has the place of the first call found. */
int tree_make(struct tree *t, const struct profile *p, enum figure by)
{
    const struct symbol_frame **frames = calloc(PROFILE_MAX_FRAMES, sizeof(*frames));
    struct weighed *stacks = calloc(p->rec.stack_count + 1, sizeof(*stacks));
    size_t count = 0;
    *t = (struct tree){.nodes = NULL};
    int err = frames && stacks && VEC_ROOM(t->nodes, t->count, t->cap) == 0 ? 0 : -ENOMEM;
    if (err == 0)
        t->nodes[t->count++] =
            (struct tree_node){.function = "", .module = "", .child = TREE_NONE, .next = TREE_NONE};
    for (uint32_t i = 0; i < p->rec.stack_count && err == 0; i++) {
        double weight = figure_value(&p->rec.stacks[i].sum, by);
        if (p->stacks[i].pcs && weight > 0)
            stacks[count++] = (struct weighed){weight, i};
    }
    if (count)
        qsort(stacks, count, sizeof(*stacks), compare_weighed);
    for (size_t i = 0; i < count && err == 0; i++)
        err = add_stack(t, p, stacks[i].stack, stacks[i].weight, frames);
    for (size_t i = 0; i < t->count && err == 0; i++)
        t->nodes[i].child = sort_list(t->nodes, t->nodes[i].child);
    free(stacks);
    free(frames);
    return err;
}

void tree_release(struct tree *t)
{
    map_release(&t->index);
    free(t->nodes);
}
