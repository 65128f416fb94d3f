/* Words of memory that may not be there. */
#ifndef PIANO_TARGET_UNWIND_MEMORY_H
#define PIANO_TARGET_UNWIND_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

enum { PIANO_MEMORY_BLOCK = 64 };

/* Inside the window, memory is simply read. When there is no window, the kernel is asked for it, a block at a time; outside of
 * a window there is, nothing is read. */
struct piano__memory {
    uintptr_t low, high;         /* the window; both 0: none */
    uintptr_t block_at, block_n; /* the words in `block` */
    uintptr_t block[PIANO_MEMORY_BLOCK];
};

/* LEN bytes at AT, from the kernel: how many of them there are. */
size_t piano__memory_copy(void *to, uintptr_t at, size_t len);
/* COUNT pieces FROM as many places, one after another, until one is not there: how many are. Not more than the kernel takes, 1024. */
uint32_t piano__memory_gather(const struct iovec *to, const struct iovec *from, uint32_t count);
bool piano__memory_ask(struct piano__memory *m, uintptr_t at, uintptr_t *word);

/* Other functions' frames are read here: return addresses next to locals that ASan has put a fence around, and that TSan
 * thinks other threads may be writing. */
__attribute__((no_sanitize_address, no_sanitize_thread)) static inline bool
piano__memory_word(struct piano__memory *m, uintptr_t at, uintptr_t *word)
{
    if (at % sizeof *word)
        return false;
    if (m->high == 0)
        return piano__memory_ask(m, at, word);
    if (at < m->low || at > m->high - sizeof *word)
        return false;
    *word = *(const volatile uintptr_t *)at;
    return true;
}

#endif
