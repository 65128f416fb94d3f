/* Opens and maps files for reading; see file.h. */
#include "tool/util/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int check(const struct stat *st)
{
    return S_ISREG(st->st_mode) ? 0 : S_ISLNK(st->st_mode) ? -ELOOP : -EINVAL;
}

int file_open(const char *path, int flags)
{
    struct stat st;
    int at = flags & O_NOFOLLOW ? AT_SYMLINK_NOFOLLOW : 0;
    /* Check before opening: opening a device can have side effects, and a reader that closes a FIFO
     * ends its writer. Check again afterwards, because the name may mean another file by then. */
    if (fstatat(AT_FDCWD, path, &st, at) != 0)
        return -errno;
    int err = check(&st);
    if (err != 0)
        return err;
    int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return -errno;
    err = fstat(fd, &st) != 0 ? -errno : check(&st);
    if (err == 0)
        return fd;
    close(fd);
    return err;
}

int file_map(struct file_map *m, const char *path)
{
    struct stat st;
    *m = (struct file_map){NULL, 0};
    int fd = file_open(path, O_RDONLY);
    if (fd < 0)
        return fd;
    int err = fstat(fd, &st) != 0 ? -errno : 0;
    if (err == 0 && st.st_size > 0) {
        void *data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (data == MAP_FAILED)
            err = -errno;
        else
            *m = (struct file_map){data, (size_t)st.st_size};
    }
    close(fd);
    return err;
}

/* Reads up to LEN bytes and returns how many the file had, or a negative errno. */
static ssize_t read_all(int fd, char *data, size_t len)
{
    size_t at = 0;
    while (at < len) {
        ssize_t got = read(fd, data + at, len - at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        if (got == 0)
            break;
        at += (size_t)got;
    }
    return (ssize_t)at;
}

static int copy(struct file_map *m, int fd, size_t len)
{
    void *data = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED)
        return -errno;
    ssize_t got = read_all(fd, data, len);
    if (got < 0)
        munmap(data, len);
    else
        *m = (struct file_map){data, len}; /* zeros follow if the file became shorter */
    return got < 0 ? (int)got : 0;
}

int file_copy(struct file_map *m, const char *path, size_t most)
{
    struct stat st;
    *m = (struct file_map){NULL, 0};
    int fd = file_open(path, O_RDONLY);
    if (fd < 0)
        return fd;
    int err = fstat(fd, &st) != 0 ? -errno : (uint64_t)st.st_size > most ? -EFBIG : 0;
    if (err == 0 && st.st_size > 0)
        err = copy(m, fd, (size_t)st.st_size);
    close(fd);
    return err;
}

void file_unmap(struct file_map *m)
{
    if (m->data)
        munmap((void *)(size_t)m->data, m->len);
    *m = (struct file_map){NULL, 0};
}

bool file_is_of_other(const char *path, const struct stat *st)
{
    struct stat dir;
    if (geteuid() != 0)
        return st->st_uid != geteuid();
    const char *slash = strrchr(path, '/');
    char *parent = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    bool foreign = parent && stat(parent, &dir) == 0 && dir.st_uid != st->st_uid;
    free(parent);
    return foreign;
}
