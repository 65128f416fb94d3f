/* A recording that is being written. When the recording is full, the program reuses chunks of events and
 * samples even while they are being read. So they are copied first, and a copy is valid only if the
 * chunk was the same before and after. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool/load/rec.h"

struct rec_copy {
    struct rec_copy *next;
    char head[sizeof(struct piano__events_head)]; /* room for follow.c */
    char bytes[];
};

char *rec_copy(struct recording *rec, const struct piano__chunk *chunk, uint64_t index, size_t from,
               size_t to)
{
    struct rec_copy *copy = malloc(sizeof(*copy) + (to - from));
    if (!copy)
        return NULL;
    memcpy(copy->bytes, (const char *)(chunk + 1) + from, to - from);
    /* Pairs with the release in src/target/trace/buffers.c, and in src/tool/record/view.c. */
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (__atomic_load_n(&chunk->ready, __ATOMIC_RELAXED) != 1 ||
        __atomic_load_n(&chunk->index, __ATOMIC_RELAXED) != index) {
        free(copy);
        return NULL;
    }
    copy->next = rec->copies;
    rec->copies = copy;
    return copy->bytes;
}

void rec_free_copies(struct recording *rec)
{
    while (rec->copies) {
        struct rec_copy *next = rec->copies->next;
        free(rec->copies);
        rec->copies = next;
    }
}

bool rec_is_held(const char *path)
{
    struct flock held = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = PIANO_REC_HELD_AT, .l_len = 1};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    bool is = fd >= 0 && fcntl(fd, F_OFD_GETLK, &held) == 0 && held.l_type != F_UNLCK;
    if (fd >= 0)
        close(fd);
    return is;
}
