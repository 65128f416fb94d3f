/* The stacks of a file as a tree: a node is a function below the node of its caller, and stands for
 * a stack. Formats write each node once, and samples name a node. */
#ifndef PIANO_TOOL_EXPORT_NODES_H
#define PIANO_TOOL_EXPORT_NODES_H

#include "tool/export/functions.h"
#include "tool/profile/profile.h"

struct export_node {
    uint32_t function; /* its number in `functions` */
    uint32_t line;     /* 0: unknown, or the tree has no lines */
    uint32_t parent;   /* number of the caller's node; 0: none */
    uint32_t sent;     /* for the writer of the format */
};

struct export_nodes {
    struct profile *profile;
    bool by_line; /* calls from different lines of a function are different nodes */
    struct export_functions functions;
    struct export_node *list; /* node N is at N - 1 */
    size_t count, cap;
    struct map index;
    uint32_t *of_stack; /* by stack; 0: not created yet */
    const struct symbol_frame **frames;
};

/* 0 or -ENOMEM; release N in any case. P may be NULL: there are no stacks. */
int export_nodes_start(struct export_nodes *n, struct profile *p, bool by_line);
void export_nodes_release(struct export_nodes *n);
/* The node of the innermost frame of STACK, from 1; 0: out of memory. Names the stack. */
uint32_t export_node_of(struct export_nodes *n, uint32_t stack);
/* The name of the function of node NUMBER, and its file or, if that is unknown, its module. */
const char *export_node_name(const struct export_nodes *n, uint32_t number);
const char *export_node_file(const struct export_nodes *n, uint32_t number);

#endif
