/* Anonymous memory that the program maps by itself (`piano record --heap --maps`): arenas of interpreters, large tables,
 * what an allocator other than glibc's takes from the system. Sampled like any allocation, and kept apart by a flag of its
 * stack. The C library's own mappings (malloc's, thread stacks) do not come this way.
 *
 * A mapping is known by its first address. One that is unmapped in parts stays as it was, and is counted. */
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "target/heap/heap.h"
#include "target/sys/recording.h"

#define EXPORT __attribute__((visibility("default")))

static void *(*next_mmap)(void *, size_t, int, int, int, off_t);
static int (*next_munmap)(void *, size_t);
static void *(*next_mremap)(void *, size_t, size_t, int, ...);

/* Before this has run, the kernel is called directly, which is all that libc does. */
__attribute__((constructor(101))) static void find_next(void)
{
    void *found = dlsym(RTLD_NEXT, "mmap");
    memcpy(&next_mmap, &found, sizeof found);
    found = dlsym(RTLD_NEXT, "munmap");
    memcpy(&next_munmap, &found, sizeof found);
    found = dlsym(RTLD_NEXT, "mremap");
    memcpy(&next_mremap, &found, sizeof found);
}

static void count(uint64_t *counter)
{
    __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

static void mapped(void *p, size_t size)
{
    count(&piano__recording.view.header->stats.map_calls);
    if (!piano__heap_passes(size))
        piano__heap_allocated(p, size, PIANO_STACK_MMAP);
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

/* Takes the mapping at P out of the live table if all of its SIZE bytes go; false when nothing is known of it. */
static bool detach(void *p, size_t size, struct piano__block *old)
{
    if (!piano__heap_wants_maps())
        return false;
    count(&piano__recording.view.header->stats.map_calls);
    if (!piano__filter_may_hold(p) || !piano__heap_detach(p, old))
        return false;
    if (size >= old->size)
        return true;
    piano__heap_reattach(old);
    count(&piano__recording.view.header->stats.map_partial);
    return false;
}

EXPORT int munmap(void *p, size_t size)
{
    struct piano__block old;
    bool known = detach(p, size, &old);
    int result = next_munmap ? next_munmap(p, size) : (int)syscall(SYS_munmap, p, size);
    if (known && result == 0)
        piano__heap_close(&old);
    else if (known)
        piano__heap_reattach(&old);
    return result;
}

EXPORT void *mremap(void *p, size_t old_size, size_t size, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    void *at = flags & MREMAP_FIXED ? va_arg(more, void *) : NULL;
    va_end(more);
    struct piano__block old;
    bool known = detach(p, old_size, &old);
    void *q = next_mremap ? next_mremap(p, old_size, size, flags, at)
                          : (void *)syscall(SYS_mremap, p, old_size, size, flags, at);
    if (known && q == MAP_FAILED)
        piano__heap_reattach(&old);
    if (known && q != MAP_FAILED) {
        piano__heap_close(&old);
        mapped(q, size);
    }
    return q;
}
