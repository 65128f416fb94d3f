/* The threads of a page: one lane each, from all instruments. */
#ifndef PIANO_TOOL_VIEW_LANES_H
#define PIANO_TOOL_VIEW_LANES_H

#include "tool/util/map.h"
#include "tool/view/pack.h"
#include "tool/view/texts.h"

struct lane {
    uint64_t key;
    uint32_t name, worker; /* texts, or PACK_NONE */
    bool is_main;
    uint32_t pid;     /* 0: unknown, or there is one process */
    uint32_t process; /* its name, a text, or PACK_NONE */
    uint32_t place;   /* of the process among all */
};

struct lanes {
    struct lane *list;
    size_t count, cap;
    struct map by_key;
    bool failed; /* out of memory */
};

/* The lane of TID; new lanes are appended. Lane 0 when out of memory. */
uint32_t lanes_of(struct lanes *l, uint32_t tid);
/* The lane of thread NUMBER of a run without its tid. */
uint32_t lanes_numbered(struct lanes *l, uint32_t number);
/* Names the lane unless it has a name; NAME may be NULL or empty. */
void lanes_name(struct lanes *l, struct texts *s, uint32_t lane, const char *name);
void lanes_worker(struct lanes *l, struct texts *s, uint32_t lane, const char *worker);
/* Writes the table of all lanes. */
void lanes_pack(struct lanes *l, struct texts *s, struct pack *p);
void lanes_release(struct lanes *l);

#endif
