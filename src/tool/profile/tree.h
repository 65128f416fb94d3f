/* The call tree of a recording, from the roots: memory allocated, or time spent, below each
 * function. A node is a function under one caller, whatever the line of the call. Inlined
 * functions have their own nodes, marked as such. */
#ifndef PIANO_TOOL_PROFILE_TREE_H
#define PIANO_TOOL_PROFILE_TREE_H

#include "tool/profile/profile.h"

#define TREE_NONE UINT32_MAX

struct tree_node {
    const char *function, *file, *module; /* FILE may be NULL */
    unsigned line;                        /* of the call in its heaviest stack */
    bool inlined, mmap;
    double weight, own;           /* OWN: by this function itself */
    uint32_t parent, child, next; /* children are sorted, heaviest first */
};

struct tree {
    struct tree_node *nodes; /* 0 is the common root */
    size_t count, cap;
    struct map index; /* by parent and function */
    bool failed;
};

/* Release T in any case. 0 or -ENOMEM. A tree is cut at a large number of nodes. */
int tree_make(struct tree *t, const struct profile *p, enum figure by);
void tree_release(struct tree *t);

#endif
