/* Anonymous memory that the program maps itself (`piano record --heap --maps`): arenas of
 * interpreters, large tables, memory of allocators other than glibc's. Sampled like any allocation,
 * and marked by a flag of its stack. The C library's own mappings (malloc's, thread stacks) do not
 * pass through here.
 *
 * A mapping is identified by its start address. A mapping that is unmapped in parts is kept
 * unchanged, and counted. A list of sampled mappings detects this. */
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "target/heap/heap.h"
#include "target/preload/next.h"
#include "target/record/gate.h"
#include "target/record/session.h"
#include "target/sys/maps.h"
#include "target/sys/recording.h"

#define EXPORT __attribute__((visibility("default")))

static void *(*next_mmap)(void *, size_t, int, int, int, off_t);
static int (*next_munmap)(void *, size_t);
static void *(*next_mremap)(void *, size_t, size_t, int, ...);

/* Before this has run, the hooks call the kernel directly, as the C library does. */
__attribute__((constructor(101))) static void find_next(void)
{
    piano__next_find(&next_mmap, "mmap");
    piano__next_find(&next_munmap, "munmap");
    piano__next_find(&next_mremap, "mremap");
}

static void count(uint64_t *counter)
{
    __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

/* The most recent sampled mappings, used only to detect that a munmap removes a part of one. */
enum { REMEMBERED = 512 };
static struct {
    uintptr_t start;
    size_t size;
} sampled[REMEMBERED];
static uint32_t sampled_count;

static void count_call(void)
{
    uintptr_t before = piano__session_enter();
    if (piano__gate_is_open(&piano__gate->following))
        count(&piano__recording.view.header->stats.map_calls);
    piano__session_leave(before);
}

static void count_part(void)
{
    uintptr_t before = piano__session_enter();
    if (piano__gate_is_open(&piano__gate->following))
        count(&piano__recording.view.header->stats.map_partial);
    piano__session_leave(before);
}

static void mapped(void *p, size_t size)
{
    count_call();
    if (piano__heap_passes(size) || !piano__heap_allocated(p, size, PIANO_STACK_MMAP))
        return;
    /* Relaxed: only the number must be unique. */
    uint32_t at = __atomic_fetch_add(&sampled_count, 1, __ATOMIC_RELAXED) % REMEMBERED;
    __atomic_store_n(&sampled[at].size, 0, __ATOMIC_RELAXED);
    /* Pairs with the acquire fence in is_part(): a reader that sees the new start sees size 0. */
    __atomic_thread_fence(__ATOMIC_RELEASE);
    __atomic_store_n(&sampled[at].start, (uintptr_t)p, __ATOMIC_RELAXED);
    /* Pairs with the acquire in is_part(): `start` is set. */
    __atomic_store_n(&sampled[at].size, size, __ATOMIC_RELEASE);
}

/* Returns whether P is inside one of them, but not at its start. */
static bool is_part(uintptr_t p, size_t size)
{
    for (int i = 0; i < REMEMBERED; i++) {
        /* Pairs with the release in mapped(). */
        size_t whole = __atomic_load_n(&sampled[i].size, __ATOMIC_ACQUIRE);
        uintptr_t start = __atomic_load_n(&sampled[i].start, __ATOMIC_RELAXED);
        /* Pairs with the release fence in mapped(). Orders `start` before the second load of
         * `size`. */
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        bool is_whole = __atomic_load_n(&sampled[i].size, __ATOMIC_RELAXED) == whole;
        if (is_whole && p > start && p < start + whole && size > 0)
            return true;
    }
    return false;
}

static void forget(uintptr_t start)
{
    for (int i = 0; i < REMEMBERED; i++)
        if (__atomic_load_n(&sampled[i].start, __ATOMIC_RELAXED) == start)
            __atomic_store_n(&sampled[i].size, 0, __ATOMIC_RELAXED);
}

EXPORT void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
    void *p = next_mmap ? next_mmap(at, size, protection, flags, fd, offset)
                        : (void *)syscall(SYS_mmap, at, size, protection, flags, fd, offset);
    if (p != MAP_FAILED && flags & MAP_ANONYMOUS && piano__heap_wants_maps())
        mapped(p, size);
    return p;
}

EXPORT void *mmap64(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
    return mmap(at, size, protection, flags, fd, offset);
}

enum what { UNKNOWN, PART, WHOLE };

/* Returns what [P, P + SIZE) is of a sampled mapping. If it is the whole mapping, removes that from
 * the live table. */
static enum what detach(void *p, size_t size, struct piano__block *old)
{
    if (!piano__heap_wants_maps())
        return UNKNOWN;
    count_call();
    bool known = piano__filter_may_hold(p) && piano__heap_detach(p, old);
    if (known && size >= old->size) {
        forget((uintptr_t)p);
        return WHOLE;
    }
    if (known)
        piano__heap_reattach(old);
    if (!known && !is_part((uintptr_t)p, size))
        return UNKNOWN;
    count_part();
    return PART;
}

EXPORT int munmap(void *p, size_t size)
{
    struct piano__block old;
    bool known = detach(p, size, &old) == WHOLE;
    int result = next_munmap ? next_munmap(p, size) : (int)syscall(SYS_munmap, p, size);
    if (known && result == 0)
        piano__heap_close(&old);
    else if (known)
        piano__heap_reattach(&old);
    return result;
}

/* A mapping that was not sampled is unknown, but it may be sampled with its new size. */
static bool is_anonymous(const void *p)
{
    int saved = errno;
    struct piano__maps_range range;
    bool found = piano__maps_find(&range, (uintptr_t)p);
    errno = saved;
    return found && !range.is_file;
}

EXPORT void *mremap(void *p, size_t old_size, size_t size, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    void *at = flags & MREMAP_FIXED ? va_arg(more, void *) : NULL;
    va_end(more);
    struct piano__block old;
    enum what what = detach(p, old_size, &old);
    bool known = what == WHOLE;
    bool counts = known || (what == UNKNOWN && piano__heap_wants_maps() && is_anonymous(p));
    void *q = next_mremap ? next_mremap(p, old_size, size, flags, at)
                          : (void *)syscall(SYS_mremap, p, old_size, size, flags, at);
    if (known && q == MAP_FAILED)
        piano__heap_reattach(&old);
    if (known && q != MAP_FAILED)
        piano__heap_close(&old);
    if (counts && q != MAP_FAILED)
        mapped(q, size);
    return q;
}
