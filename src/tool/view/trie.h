/* The stacks of a page: a tree from the outermost frame inwards. A node represents a stack. */
#ifndef PIANO_TOOL_VIEW_TRIE_H
#define PIANO_TOOL_VIEW_TRIE_H

#include "tool/profile/profile.h"
#include "tool/util/map.h"
#include "tool/view/pack.h"
#include "tool/view/texts.h"

/* A frame, by the numbers of its texts. */
struct trie_code {
    uint32_t function, file, module, line;
    bool inlined;
    bool plumbing; /* `stretch_is_passed` */
};

struct trie_node {
    uint32_t parent, code;
};

struct trie {
    struct trie_code *codes;
    size_t code_count, code_cap;
    struct trie_node *nodes;
    size_t node_count, node_cap;
    struct map code_of, node_of;
    const struct symbol_frame **frames; /* buffer for one stack */
    /* For two builds of a program: frames of one function are equal whatever the line. The module
     * PROGRAM gets the name PROGRAM_AS; NULL: the names are equal. Neither is owned. */
    bool by_name;
    const char *program, *program_as;
    bool failed;
};

/* Names STACK of P and adds it. Returns its node, or PACK_NONE when out of memory. */
uint32_t trie_stack(struct trie *t, struct texts *s, struct profile *p, uint32_t stack);
/* The node FRAMES further out, or the outermost. */
uint32_t trie_outwards(const struct trie *t, uint32_t node, uint32_t frames);
/* Writes the tables `code` and `nodes`. */
void trie_pack(struct trie *t, struct pack *p);
void trie_release(struct trie *t);

#endif
