/* The threads of a page, joined by tid: a run and a recording of one process have the same threads,
 * with different data. */
#include "tool/view/lanes.h"

#include <stdio.h>
#include <stdlib.h>

#include "tool/util/vec.h"

#define NUMBERED ((uint64_t)1 << 32) /* keys of threads without a tid are above all tids */

static uint32_t lane_of(struct lanes *l, uint64_t key)
{
    uint32_t found = map_find(&l->by_key, key);
    if (found != MAP_NONE)
        return found;
    if (VEC_ROOM(l->list, l->count, l->cap) != 0 ||
        map_put(&l->by_key, key, (uint32_t)l->count) != 0) {
        l->failed = true;
        return 0;
    }
    l->list[l->count] =
        (struct lane){.key = key, .name = PACK_NONE, .worker = PACK_NONE, .process = PACK_NONE};
    return (uint32_t)l->count++;
}

uint32_t lanes_of(struct lanes *l, uint32_t tid)
{
    return lane_of(l, tid);
}

uint32_t lanes_numbered(struct lanes *l, uint32_t number)
{
    return lane_of(l, NUMBERED | number);
}

void lanes_name(struct lanes *l, struct texts *s, uint32_t lane, const char *name)
{
    if (lane < l->count && l->list[lane].name == PACK_NONE && name && *name)
        l->list[lane].name = texts_of(s, name);
}

void lanes_worker(struct lanes *l, struct texts *s, uint32_t lane, const char *worker)
{
    if (lane < l->count)
        l->list[lane].worker = texts_of(s, worker);
}

void lanes_pack(struct lanes *l, struct texts *s, struct pack *p)
{
    struct pack_table *t = pack_add(p, SCHEMA_threads);
    char text[40];
    p->failed |= l->failed;
    for (uint32_t i = 0; t && i < l->count; i++) {
        struct lane *lane = &l->list[i];
        bool numbered = lane->key >= NUMBERED;
        snprintf(text, sizeof(text), "thread %u", (unsigned)lane->key);
        lanes_name(l, s, i, text);
        column_put(&t->columns[0], numbered ? 0 : (int64_t)lane->key);
        column_put(&t->columns[1], lane->name);
        column_put(&t->columns[2], lane->worker);
        column_put(&t->columns[3], lane->is_main);
        column_put(&t->columns[4], lane->pid);
        column_put(&t->columns[5], lane->process);
        column_put(&t->columns[6], lane->place);
        SCHEMA_WRITES(threads, 7);
    }
}

void lanes_release(struct lanes *l)
{
    map_release(&l->by_key);
    free(l->list);
    *l = (struct lanes){.list = NULL};
}
