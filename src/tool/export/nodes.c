#include "tool/export/nodes.h"

#include <errno.h>
#include <stdlib.h>

#include "tool/util/vec.h"

int export_nodes_start(struct export_nodes *n, struct profile *p, bool by_line)
{
    *n = (struct export_nodes){.profile = p, .by_line = by_line};
    n->of_stack = calloc(p ? p->rec.stack_count + 1 : 1, sizeof(*n->of_stack));
    n->frames = calloc(PROFILE_MAX_FRAMES, sizeof(*n->frames));
    return n->of_stack && n->frames ? 0 : -ENOMEM;
}

void export_nodes_release(struct export_nodes *n)
{
    export_functions_release(&n->functions);
    map_release(&n->index);
    free(n->list);
    free(n->of_stack);
    free(n->frames);
}

/* The node of FRAME below PARENT; 0: out of memory. */
static uint32_t node_below(struct export_nodes *n, const struct symbol_frame *frame,
                           uint32_t parent)
{
    int64_t function = export_function(&n->functions, frame);
    uint32_t line = n->by_line ? frame->line : 0, at;
    if (function < 0)
        return 0;
    const uint32_t id[] = {(uint32_t)function, line, parent};
    uint64_t key = map_hash(id, sizeof(id));
    for (; (at = map_find(&n->index, key)) != MAP_NONE; key++) {
        const struct export_node *node = &n->list[at];
        if (node->function == id[0] && node->line == line && node->parent == parent)
            return at + 1;
    }
    if (VEC_ROOM(n->list, n->count, n->cap) != 0 ||
        map_put(&n->index, key, (uint32_t)n->count) != 0)
        return 0;
    n->list[n->count++] = (struct export_node){.function = id[0], .line = line, .parent = parent};
    return (uint32_t)n->count;
}

uint32_t export_node_of(struct export_nodes *n, uint32_t stack)
{
    if (n->of_stack[stack])
        return n->of_stack[stack];
    if (profile_name_stack(n->profile, stack) != 0)
        return 0;
    uint32_t node = 0;
    for (size_t i = profile_frames(n->profile, stack, n->frames); i-- > 0;) {
        node = node_below(n, n->frames[i], node);
        if (node == 0)
            return 0;
    }
    n->of_stack[stack] = node;
    return node;
}

static const struct symbol_frame *frame_of(const struct export_nodes *n, uint32_t number)
{
    return n->functions.list[n->list[number - 1].function];
}

const char *export_node_name(const struct export_nodes *n, uint32_t number)
{
    return frame_of(n, number)->function;
}

const char *export_node_file(const struct export_nodes *n, uint32_t number)
{
    const struct symbol_frame *f = frame_of(n, number);
    return f->file ? f->file : f->module;
}
