/* Reads words from memory that may not be mapped. */
#ifndef PIANO_TARGET_UNWIND_MEMORY_H
#define PIANO_TARGET_UNWIND_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

enum { PIANO_MEMORY_BLOCK = 64 };

/* Inside the window, memory is read directly, and nothing outside it is read. Without a window, the
 * kernel copies the memory, one block at a time. */
struct piano__memory {
    uintptr_t low, high;         /* the window; both 0: none */
    uintptr_t block_at, block_n; /* address and number of the words in `block` */
    uintptr_t block[PIANO_MEMORY_BLOCK];
};

/* Copies LEN bytes from AT through the kernel. Returns how many were readable. */
size_t piano__memory_copy(void *to, uintptr_t at, size_t len);
/* Copies COUNT ranges FROM memory, in order, until one is not readable. Returns how many were
 * copied completely. COUNT must not exceed the kernel's limit of 1024. */
uint32_t piano__memory_gather(const struct iovec *to, const struct iovec *from, uint32_t count);
bool piano__memory_ask(struct piano__memory *m, uintptr_t at, uintptr_t *word);

/* Reads other functions' frames: return addresses next to locals that ASan has poisoned, and that
 * other threads may write according to TSan. */
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
