/* The contents of a tree: the result of a walk (mirror.c). It is kept between builds, so that the
 * next one knows what has changed, what was removed, and what the build itself has made. */
#include "tool/build/manifest.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool/util/buf.h"
#include "tool/util/order.h"
#include "tool/util/vec.h"

void manifest_release(struct manifest *l)
{
    for (size_t i = 0; i < l->count; i++)
        free(l->items[i].rel);
    free(l->items);
    *l = (struct manifest){0};
}

struct manifest_entry *manifest_add(struct manifest *l, const char *rel)
{
    if (VEC_ROOM(l->items, l->count, l->cap) != 0)
        return NULL;
    struct manifest_entry *e = &l->items[l->count];
    *e = (struct manifest_entry){.rel = strdup(rel), .kept = true};
    if (!e->rel)
        return NULL;
    l->count++;
    return e;
}

void manifest_sort(struct manifest *l)
{
    if (l->count > 0)
        qsort(l->items, l->count, sizeof *l->items, order_text);
}

struct manifest_entry *manifest_find(const struct manifest *l, const char *rel)
{
    return l->count ? bsearch(&rel, l->items, l->count, sizeof *l->items, order_text) : NULL;
}

/* The manifest has one record per entry, ended by NUL because a name may contain anything else. */
int manifest_load(struct manifest *l, const char *path)
{
    struct buf text = {0};
    int err = buf_read_own_file(&text, path);
    size_t at = 0;
    while (err == 0 && at < text.len) {
        const char *record = text.data + at;
        at += strlen(record) + 1;
        char type;
        long long sec;
        long nsec;
        int64_t size;
        int name = 0;
        if (sscanf(record, "%c %lld %ld %" SCNd64 " %n", &type, &sec, &nsec, &size, &name) != 4 ||
            name == 0)
            continue;
        struct manifest_entry *e = manifest_add(l, record + name);
        if (!e) {
            err = -ENOMEM;
            break;
        }
        e->type = type;
        e->mtime = (struct timespec){.tv_sec = sec, .tv_nsec = nsec};
        e->size = size;
        e->kept = false;
    }
    buf_free(&text);
    manifest_sort(l);
    return err == -ENOENT ? 0 : err;
}

int manifest_save(const struct manifest *l, const char *path)
{
    struct buf text = {0};
    for (size_t i = 0; i < l->count; i++) {
        const struct manifest_entry *e = &l->items[i];
        if (!e->kept)
            continue;
        buf_printf(&text, "%c %lld %ld %" PRId64 " %s", e->type, (long long)e->mtime.tv_sec,
                   e->mtime.tv_nsec, e->size, e->rel);
        buf_putc(&text, '\0');
    }
    int err = buf_write_file(&text, path);
    buf_free(&text);
    return err;
}
