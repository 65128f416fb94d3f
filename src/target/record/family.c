/* The limits are in the header of the program's recording, which every process maps. Without it (the
 * program could not load this library) there are none. */
#include "target/record/family.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>

#include "common/allocators.h"
#include "target/sys/file.h"
#include "target/sys/recording.h"

static struct piano__rec_family *family; /* mapped; NULL: none */

void piano__family_begin(uint32_t most, uint64_t bytes)
{
    struct piano__rec_family *f = &piano__recording.view.header->family;
    f->chunks = bytes > 0 ? (int64_t)(bytes / PIANO_REC_CHUNK_BYTES) : INT64_MAX / 2;
    /* Release: pairs with the acquire in piano__family_enter(): the room is set. */
    __atomic_store_n(&f->most, most, __ATOMIC_RELEASE);
}

/* Maps the header at PATH. It is in a page of its own. */
static struct piano__rec_family *open_at(const char *path)
{
    struct piano__rec_header *h = NULL;
    int fd = piano__file_open(path, O_RDWR | O_NOFOLLOW);
    if (fd < 0)
        return NULL;
    h = piano__memory_map_file(fd, 0, PIANO_REC_HEADER_BYTES);
    piano__file_close(fd);
    if (!h)
        return NULL;
    if (memcmp(h->magic, PIANO_REC_MAGIC, sizeof h->magic) == 0)
        return &h->family;
    piano__memory_unmap(h, PIANO_REC_HEADER_BYTES);
    return NULL;
}

/* A forked child has the mapping of its parent. */
bool piano__family_enter(const char *path)
{
    int saved = errno;
    if (!family)
        family = open_at(path);
    errno = saved;
    /* Acquire: pairs with the release in piano__family_begin(). */
    uint32_t most = family ? __atomic_load_n(&family->most, __ATOMIC_ACQUIRE) : 0;
    if (most == 0)
        return true;
    /* Relaxed: counters. */
    if (__atomic_add_fetch(&family->count, 1, __ATOMIC_RELAXED) <= most)
        return true;
    __atomic_sub_fetch(&family->count, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&family->refused, 1, __ATOMIC_RELAXED);
    return false;
}

/* A process that becomes another program keeps its place. */
void piano__family_entered(int image)
{
    /* Relaxed: see above. */
    if (!family || __atomic_load_n(&family->most, __ATOMIC_RELAXED) == 0)
        return;
    if (image > 0)
        piano__recording.budget = &family->chunks;
    if (image != 1)
        __atomic_sub_fetch(&family->count, 1, __ATOMIC_RELAXED);
}

static bool is_empty(const struct piano__rec_header *h)
{
    return h->stats.samples == 0 && h->trace.samples == 0 && h->trace.events == 0 &&
           h->stats.own_state != PIANO_OWN_HIDDEN;
}

void piano__family_leave(void)
{
    /* Relaxed: counters. */
    if (!family || !piano__recording.budget || !is_empty(piano__recording.view.header) ||
        2 * __atomic_load_n(&family->count, __ATOMIC_RELAXED) <=
            __atomic_load_n(&family->most, __ATOMIC_RELAXED) ||
        !piano__recording_unlink())
        return;
    __atomic_sub_fetch(&family->count, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&family->emptied, 1, __ATOMIC_RELAXED);
}
