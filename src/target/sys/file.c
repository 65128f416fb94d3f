/* System calls of the runtime; see file.h for the rules. */
#include "target/sys/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/owner.h"

int piano__file_open(const char *path, int flags)
{
    int saved = errno;
    long fd = syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, 0600);
    int result = fd < 0 ? -errno : (int)fd;
    errno = saved;
    return result;
}

void piano__file_close(int fd)
{
    int saved = errno;
    syscall(SYS_close, fd);
    errno = saved;
}

int piano__file_read(const char *path, char *buf, size_t size)
{
    int saved = errno;
    int fd = piano__file_open(path, O_RDONLY);
    long len = fd < 0 ? fd : syscall(SYS_read, fd, buf, size - 1);
    if (fd >= 0 && len < 0)
        len = -errno;
    if (fd >= 0)
        piano__file_close(fd);
    buf[len > 0 ? len : 0] = '\0';
    errno = saved;
    return (int)len;
}

int piano__file_create(const char *path, int append)
{
    int flags = O_CREAT | O_EXCL | O_NOFOLLOW;
    return piano__owner_create(path, flags | (append ? O_WRONLY | O_APPEND : O_RDWR), 0600);
}

int piano__file_unnamed(const char *folder)
{
    return piano__owner_create(folder, O_TMPFILE | O_RDWR, 0600);
}

int piano__file_give_name(int fd, const char *path)
{
    int saved = errno;
    char from[32] = "/proc/self/fd/";
    char digits[12];
    size_t at = strlen(from), count = 0;
    for (unsigned rest = (unsigned)fd; rest > 0 || count == 0; rest /= 10)
        digits[count++] = (char)('0' + rest % 10);
    while (count > 0)
        from[at++] = digits[--count];
    long err = syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, path, AT_SYMLINK_FOLLOW);
    int result = err < 0 ? -errno : 0;
    errno = saved;
    return result;
}

int piano__file_append(const char *path)
{
    return piano__file_open(path, O_WRONLY | O_APPEND | O_NOFOLLOW);
}

struct piano__file_id piano__file_id(int fd)
{
    int saved = errno;
    struct stat st;
    struct piano__file_id id = {0, 0};
    if (fstat(fd, &st) == 0)
        id = (struct piano__file_id){st.st_dev, st.st_ino};
    errno = saved;
    return id;
}

int piano__file_write(int fd, const char *data, size_t len)
{
    /* Retries without progress: on some file systems a signal interrupts a write. */
    enum { TRIES = 100 };
    int saved = errno;
    int err = 0;
    for (int tries = TRIES; len > 0 && err == 0;) {
        long put = syscall(SYS_write, fd, data, len);
        if (put > 0) {
            data += put;
            len -= (size_t)put;
            tries = TRIES;
        } else if (put == 0 || errno != EINTR || --tries == 0) {
            err = put == 0 ? -EIO : -errno;
        }
    }
    errno = saved;
    return err;
}

int piano__file_move_up(int fd)
{
    int saved = errno;
    struct rlimit limit;
    int from = 960;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < 1024)
        from = (int)(limit.rlim_cur - limit.rlim_cur / 8);
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, from);
    if (moved >= 0)
        syscall(SYS_close, fd);
    errno = saved;
    return moved >= 0 ? moved : fd;
}

/* A write beyond RLIMIT_FSIZE raises SIGXFSZ, which would end the program. */
static bool may_reach(off_t size)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
           (rlim_t)size <= limit.rlim_cur;
}

int piano__file_check(int fd, struct piano__file_id id, size_t len)
{
    int saved = errno;
    struct stat st;
    int err = 0;
    if (fstat(fd, &st) != 0 || st.st_ino != id.inode || st.st_dev != id.device)
        err = -EBADF;
    if (err == 0 && !may_reach(st.st_size + (off_t)len))
        err = -EFBIG;
    errno = saved;
    return err;
}

int piano__file_make_dirs(const char *path)
{
    /* Static, because only one thread calls this, when the run starts. */
    static char part[PATH_MAX];
    size_t len = strlen(path);
    if (len == 0 || len >= sizeof part)
        return -ENAMETOOLONG;
    int saved = errno;
    int err = 0;
    memcpy(part, path, len + 1);
    for (size_t i = 1; i <= len; i++) {
        if (part[i] != '/' && part[i] != '\0')
            continue;
        char cut = part[i];
        part[i] = '\0';
        err = piano__owner_mkdir(part);
        if (err == -EEXIST)
            err = 0;
        part[i] = cut;
    }
    errno = saved;
    return err;
}

void *piano__memory_map(size_t size)
{
    int saved = errno;
    void *at = (void *)syscall(SYS_mmap, NULL, size, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    errno = saved;
    return at == MAP_FAILED ? NULL : at;
}

/* PAGES. Parts of files begin at multiples of 4 KB. If pages are larger (some aarch64 kernels use
 * 16 or 64 KB), a mapping begins at the page that contains the start of the part. The bytes before
 * it are not touched. */
size_t piano__page_for_tests;

size_t piano__page_size(void)
{
    return piano__page_for_tests ? piano__page_for_tests : getauxval(AT_PAGESZ);
}

static size_t before_in_page(uintptr_t place)
{
    return place & (piano__page_size() - 1);
}

void piano__memory_unmap(void *at, size_t size)
{
    int saved = errno;
    size_t before = before_in_page((uintptr_t)at);
    syscall(SYS_munmap, (char *)at - before, size + before);
    errno = saved;
}

bool piano__memory_renew(void *at, size_t size)
{
    int saved = errno;
    size_t before = before_in_page((uintptr_t)at);
    char *start = (char *)at - before;
    void *got = (void *)syscall(SYS_mmap, start, size + before, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    errno = saved;
    return got == start;
}

/* Reserves blocks by writing zeroes. They are only appended at the current end of the file: other
 * threads and processes reserve the same bytes at the same time, and may already use them. So the
 * file can grow somewhat beyond END. */
static bool write_zeroes(int fd, off_t end)
{
    enum { FURTHER = 64 * 1024 };
    static char zeroes[4096];
    const struct iovec page = {zeroes, sizeof zeroes};
    struct stat st;
    while (fstat(fd, &st) == 0) {
        if (st.st_size >= end)
            return true;
        if (!may_reach(end + FURTHER) ||
            syscall(SYS_pwritev2, fd, &page, 1ul, 0ul, 0ul, RWF_APPEND) <= 0)
            return false;
    }
    return false;
}

static bool reserve(int fd, off_t offset, size_t size)
{
    /* On tmpfs a signal (also one of piano's) interrupts the call. */
    enum { TRIES = 8 };
    for (int i = 0; i < TRIES; i++) {
        if (syscall(SYS_fallocate, fd, 0, offset, (off_t)size) == 0)
            return true;
        if (errno != EINTR)
            break;
    }
    /* ext2, ramfs, NFS before 4.2 */
    return errno == EOPNOTSUPP && write_zeroes(fd, offset + (off_t)size);
}

void piano__file_fill(int fd, off_t offset, size_t size)
{
    /* Never written, so the kernel maps one shared zero page for all of it. */
    static char zeroes[64 * 1024];
    int saved = errno;
    if (size <= sizeof zeroes)
        (void)syscall(SYS_pwrite64, fd, zeroes, size, offset);
    errno = saved;
}

void *piano__memory_map_file(int fd, off_t offset, size_t size)
{
    int saved = errno;
    size_t before = before_in_page((uintptr_t)offset);
    char *at = MAP_FAILED;
    if (may_reach(offset + (off_t)size) && reserve(fd, offset, size))
        at = (char *)syscall(SYS_mmap, NULL, size + before, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                             offset - (off_t)before);
    /* Disables read-ahead. */
    if (at != MAP_FAILED)
        (void)syscall(SYS_madvise, at, size + before, MADV_RANDOM);
    errno = saved;
    return at == MAP_FAILED ? NULL : at + before;
}
