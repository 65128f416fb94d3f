/* Snapshots of a recording. Parts of one snapshot have the same number and may be in several
 * chunks. A snapshot is kept if every part is there exactly once. Entries are kept unchanged, with
 * the stack as index in `stacks`. */
#include "tool/load/rec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/util/order.h"
#include "tool/util/vec.h"

/* One part in the file. */
struct part {
    struct piano__snapshot head;
    const char *entries;
    uint64_t at;
};

struct parts {
    struct part *list;
    size_t count, cap;
};

static int take_part(struct rec_reader *r, struct parts *parts, const char *record, uint32_t bytes,
                     uint64_t at)
{
    struct part p = {.entries = record + sizeof(p.head), .at = at};
    memcpy(&p.head, record, sizeof(p.head));
    size_t room = (bytes - sizeof(p.head)) / sizeof(struct piano__snapshot_entry);
    if (p.head.count > room || p.head.part >= p.head.parts) {
        rec_gap(r->rec, at, at + bytes, "an invalid snapshot");
        return 0;
    }
    if (VEC_ROOM(parts->list, parts->count, parts->cap) != 0)
        return -ENOMEM;
    parts->list[parts->count++] = p;
    return 0;
}

static int compare_parts(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    return ORDER(x->head.number, y->head.number) ?: ORDER(x->head.part, y->head.part)
           ?: ORDER(x->at, y->at);
}

static void add_entries(struct rec_reader *r, struct recording_snapshot *s, const struct part *p)
{
    struct recording *rec = r->rec;
    for (uint32_t i = 0; i < p->head.count; i++) {
        struct piano__snapshot_entry e;
        memcpy(&e, p->entries + i * sizeof(e), sizeof(e));
        uint64_t at = p->at + sizeof(p->head) + i * sizeof(e);
        double variance = e.live_variance > 0 && e.live_variance < 0x1p120 ? e.live_variance : 0;
        s->entries[s->count++] = (struct recording_entry){
            .stack = rec_stack_of(r, e.stack),
            .live_samples = e.live_samples,
            .live_bytes = rec_number(rec, e.live_bytes, at),
            .live_objects = rec_number(rec, e.live_objects, at),
            .live_variance = variance,
            .allocated_bytes = rec_number(rec, e.allocated_bytes, at),
        };
    }
}

/* Adds COUNT parts of one number as a snapshot if they are exactly parts 0 to n-1. */
static int add_snapshot(struct rec_reader *r, const struct part *parts, size_t count,
                        size_t *entries_left)
{
    struct recording *rec = r->rec;
    const struct piano__snapshot *head = &parts[0].head;
    size_t entries = 0;
    bool whole = head->parts == count;
    for (size_t i = 0; i < count && whole; i++) {
        whole = parts[i].head.part == i && parts[i].head.parts == count;
        entries += parts[i].head.count;
    }
    if (!whole || entries > *entries_left || rec->snapshot_count == REC_MAX_SNAPSHOTS) {
        rec->partial_snapshots++;
        rec_gap(rec, parts[0].at, 0,
                whole ? "more snapshots than can be read" : "a snapshot that is not whole");
        return 0;
    }
    if (VEC_DOUBLE(rec->snapshots, rec->snapshot_count) != 0)
        return -ENOMEM;
    struct recording_snapshot *s = &rec->snapshots[rec->snapshot_count];
    *s = (struct recording_snapshot){
        .number = head->number,
        .kind = head->kind,
        .at_ns = head->at_ns,
        .live_bytes = rec_number(rec, head->live_bytes, parts[0].at),
        .allocated_bytes = rec_number(rec, head->allocated_bytes, parts[0].at),
        .resident_bytes = head->resident_bytes < (uint64_t)1 << 60 ? head->resident_bytes : 0,
        .entries = calloc(entries + 1, sizeof(*s->entries)),
    };
    if (!s->entries)
        return -ENOMEM;
    rec->snapshot_count++;
    *entries_left -= entries;
    for (size_t i = 0; i < count; i++)
        add_entries(r, s, &parts[i]);
    return 0;
}

static int read_parts(struct rec_reader *r, struct parts *parts)
{
    int err = 0;
    for (size_t i = 0; i < r->chunk_count && err == 0; i++) {
        const struct rec_chunk *c = &r->chunks[i];
        const char *record;
        size_t at = 0;
        uint32_t bytes = 0;
        if (c->type != PIANO_CHUNK_SNAPSHOT)
            continue;
        while (err == 0 &&
               (record = rec_next(
                    r->rec, c, &at, sizeof(struct piano__snapshot),
                    "a snapshot that cannot be read: the rest of its chunk is left out", &bytes)))
            err = take_part(r, parts, record, bytes,
                            c->at + sizeof(struct piano__chunk) + at - bytes);
    }
    return err;
}

int rec_read_snapshots(struct rec_reader *r)
{
    struct parts parts = {0};
    size_t entries_left = REC_MAX_ENTRIES;
    int err = read_parts(r, &parts);
    if (parts.count)
        qsort(parts.list, parts.count, sizeof(*parts.list), compare_parts);
    for (size_t i = 0; i < parts.count && err == 0;) {
        size_t n = 1;
        while (i + n < parts.count && parts.list[i + n].head.number == parts.list[i].head.number)
            n++;
        err = add_snapshot(r, parts.list + i, n, &entries_left);
        i += n;
    }
    free(parts.list);
    return err;
}
