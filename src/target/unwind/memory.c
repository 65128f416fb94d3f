/* Reads memory by process_vm_readv, which fails where a load would crash the program. */
#include "target/unwind/memory.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

size_t piano__memory_copy(void *to, uintptr_t at, size_t len)
{
    int saved = errno;
    struct iovec local = {to, len};
    struct iovec remote = {(void *)at, len};
    long got = syscall(SYS_process_vm_readv, syscall(SYS_getpid), &local, 1, &remote, 1, 0);
    errno = saved;
    return got > 0 ? (size_t)got : 0;
}

uint32_t piano__memory_gather(const struct iovec *to, const struct iovec *from, uint32_t count)
{
    int saved = errno;
    long got = count == 0 ? 0
                          : syscall(SYS_process_vm_readv, syscall(SYS_getpid), to,
                                    (unsigned long)count, from, (unsigned long)count, 0);
    errno = saved;
    uint32_t whole = 0;
    while (whole < count && got >= (long)from[whole].iov_len)
        got -= (long)from[whole++].iov_len;
    return whole;
}

bool piano__memory_ask(struct piano__memory *m, uintptr_t at, uintptr_t *word)
{
    uintptr_t index = (at - m->block_at) / sizeof *word;
    if (at < m->block_at || index >= m->block_n) {
        size_t size = sizeof m->block;
        if (size > UINTPTR_MAX - at)
            return false;
        size_t got = piano__memory_copy(m->block, at, size);
        m->block_at = at;
        m->block_n = got / sizeof *word;
        index = 0;
    }
    if (m->block_n == 0)
        return false;
    *word = m->block[index];
    return true;
}
