/* Threads and names of a recording. Both are logs in which later records override: the last name of
 * a thread and the last text of a name count. */
#include "tool/load/rec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/util/order.h"
#include "tool/util/vec.h"

static int take_thread(struct rec_reader *r, void *ctx, const char *record, uint32_t bytes,
                       uint64_t at)
{
    (void)ctx;
    struct recording *rec = r->rec;
    struct piano__thread_record t;
    memcpy(&t, record, sizeof(t));
    if (rec->thread_count == REC_MAX_THREADS) {
        rec_gap(rec, at, at + bytes, "more threads than can be read");
        return 0;
    }
    if (VEC_DOUBLE(rec->threads, rec->thread_count) != 0)
        return -ENOMEM;
    struct recording_thread *new = &rec->threads[rec->thread_count++];
    *new = (struct recording_thread){.tid = t.tid, .pid = t.pid};
    memcpy(new->name, t.name, sizeof(t.name));
    return 0;
}

static int take_name(struct rec_reader *r, void *ctx, const char *record, uint32_t bytes,
                     uint64_t at)
{
    (void)ctx;
    struct recording *rec = r->rec;
    struct piano__name n;
    memcpy(&n, record, sizeof(n));
    const char *text = record + sizeof(n), *end = memchr(text, '\0', bytes - sizeof(n));
    if (!end || n.id == 0) {
        rec_gap(rec, at, at + bytes, "an invalid name");
        return 0;
    }
    if (rec->name_count == REC_MAX_NAMES) {
        rec_gap(rec, at, at + bytes, "more names than can be read");
        return 0;
    }
    if (VEC_DOUBLE(rec->names, rec->name_count) != 0)
        return -ENOMEM;
    char *copy = strndup(text, (size_t)(end - text));
    if (!copy)
        return -ENOMEM;
    rec->names[rec->name_count++] = (struct recording_name){n.id, copy};
    return 0;
}

/* The sort is stable for equal elements, and the last of them is kept. */
struct ranked_thread {
    struct recording_thread t;
    size_t order;
};

static int compare_threads(const void *a, const void *b)
{
    const struct ranked_thread *x = a, *y = b;
    return ORDER(x->t.tid, y->t.tid) ?: ORDER(x->order, y->order);
}

/* A record without a name does not remove an earlier one. */
int rec_sort_threads(struct recording *rec)
{
    struct ranked_thread *list = calloc(rec->thread_count + 1, sizeof(*list));
    size_t kept = 0;
    if (!list)
        return -ENOMEM;
    for (size_t i = 0; i < rec->thread_count; i++)
        list[i] = (struct ranked_thread){rec->threads[i], i};
    if (rec->thread_count)
        qsort(list, rec->thread_count, sizeof(*list), compare_threads);
    for (size_t i = 0; i < rec->thread_count; i++) {
        struct recording_thread *before = kept ? &rec->threads[kept - 1] : NULL;
        if (!before || before->tid != list[i].t.tid)
            rec->threads[kept++] = list[i].t;
        else if (list[i].t.name[0])
            *before = list[i].t;
    }
    rec->thread_count = kept;
    free(list);
    return 0;
}

struct ranked_name {
    struct recording_name n;
    size_t order;
};

/* For equal ids, the last comes first. */
static int compare_names(const void *a, const void *b)
{
    const struct ranked_name *x = a, *y = b;
    return ORDER(x->n.id, y->n.id) ?: ORDER(y->order, x->order);
}

static int sort_names(struct recording *rec)
{
    struct ranked_name *list = calloc(rec->name_count + 1, sizeof(*list));
    size_t kept = 0;
    if (!list)
        return -ENOMEM;
    for (size_t i = 0; i < rec->name_count; i++)
        list[i] = (struct ranked_name){rec->names[i], i};
    if (rec->name_count)
        qsort(list, rec->name_count, sizeof(*list), compare_names);
    for (size_t i = 0; i < rec->name_count; i++) {
        if (i > 0 && list[i - 1].n.id == list[i].n.id)
            free(list[i].n.text);
        else
            rec->names[kept++] = list[i].n;
    }
    rec->name_count = kept;
    free(list);
    return 0;
}

int rec_read_threads(struct rec_reader *r)
{
    int err = rec_each(r, PIANO_CHUNK_THREADS, sizeof(struct piano__thread_record),
                       "a thread that cannot be read: the rest of its chunk is left out",
                       take_thread, NULL);
    if (err == 0)
        err = rec_each(r, PIANO_CHUNK_NAMES, sizeof(struct piano__name),
                       "a name that cannot be read: the rest of its chunk is left out", take_name,
                       NULL);
    if (err == 0)
        err = rec_sort_threads(r->rec);
    return err ? err : sort_names(r->rec);
}

const struct recording_thread *recording_thread_of(const struct recording *rec, uint32_t tid)
{
    size_t low = ORDER_BOUND(at, rec->thread_count, rec->threads[at].tid < tid);
    return low < rec->thread_count && rec->threads[low].tid == tid ? &rec->threads[low] : NULL;
}

const char *recording_name_of(const struct recording *rec, uint64_t id)
{
    size_t low = ORDER_BOUND(at, rec->name_count, rec->names[at].id < id);
    return low < rec->name_count && rec->names[low].id == id ? rec->names[low].text : NULL;
}
