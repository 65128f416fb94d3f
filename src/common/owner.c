/* Creates files and directories for the owner of the directory they are in; see owner.h.
 *
 * System calls are made directly: the C library's open and close are cancellation points, and its
 * mmap is hooked in recorded programs. */
#include "common/owner.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int open_at(int dir, const char *name, int flags, mode_t mode)
{
    long fd = syscall(SYS_openat, dir, name, flags | O_CLOEXEC, mode);
    return fd < 0 ? -errno : (int)fd;
}

static void close_fd(int fd)
{
    if (fd >= 0)
        syscall(SYS_close, fd);
}

/* Returns the number in environment variable NAME, or -1. */
static int64_t number(const char *name)
{
    const char *text = secure_getenv(name);
    int64_t value = 0;
    if (!text || !*text || strlen(text) > 10)
        return -1;
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return -1;
        value = value * 10 + (*text - '0');
    }
    return value;
}

bool piano__owner_of(int dir, uid_t *uid, gid_t *gid)
{
    int saved = errno;
    struct stat st;
    bool known = geteuid() == 0 && fstat(dir, &st) == 0 && st.st_uid != 0;
    errno = saved;
    if (!known)
        return false;
    int64_t group = number("SUDO_UID") == (int64_t)st.st_uid ? number("SUDO_GID") : -1;
    *uid = st.st_uid;
    *gid = group >= 0 ? (gid_t)group : st.st_gid;
    return true;
}

bool piano__owner_asked(uid_t uid)
{
    return geteuid() == 0 && number("SUDO_UID") == (int64_t)uid;
}

/* Gives the file FD to the owner of its directory DIR. A file with several hard links may belong to
 * anyone, so it is left alone. */
static void give_file(int fd, int dir)
{
    struct stat st;
    uid_t uid;
    gid_t gid;
    if (piano__owner_of(dir, &uid, &gid) && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
        st.st_uid == 0 && st.st_nlink <= 1)
        (void)!fchown(fd, uid, gid);
}

/* Returns the file name part of PATH. */
static const char *name_in(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Opens the directory of PATH. The caller may run on a small stack, so the buffer is mapped. */
static int open_parent(const char *path)
{
    size_t len = (size_t)(name_in(path) - path);
    if (len == 0)
        return open_at(AT_FDCWD, ".", O_PATH | O_DIRECTORY, 0);
    if (len >= PATH_MAX)
        return -ENAMETOOLONG;
    char *room = (char *)syscall(SYS_mmap, NULL, (size_t)PATH_MAX, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED)
        return -ENOMEM;
    memcpy(room, path, len);
    int fd = open_at(AT_FDCWD, room, O_PATH | O_DIRECTORY, 0);
    syscall(SYS_munmap, room, (size_t)PATH_MAX);
    return fd;
}

int piano__owner_create(const char *path, int flags, mode_t mode)
{
    int saved = errno;
    bool unnamed = (flags & O_TMPFILE) == O_TMPFILE;
    int result;
    if (geteuid() != 0) {
        result = open_at(AT_FDCWD, path, flags, mode);
    } else {
        int dir = unnamed ? open_at(AT_FDCWD, path, O_PATH | O_DIRECTORY, 0) : open_parent(path);
        result = dir < 0 ? dir : open_at(dir, unnamed ? "." : name_in(path), flags, mode);
        if (result >= 0)
            give_file(result, dir);
        close_fd(dir);
    }
    errno = saved;
    return result;
}

/* Returns whether DIR has no entries. A new directory has none; one with entries was put in its
 * place. */
static bool is_empty(int dir)
{
    union {
        struct dirent64 first; /* for its alignment */
        char bytes[1024];
    } room;
    long got = syscall(SYS_getdents64, dir, room.bytes, sizeof room.bytes);
    unsigned count = 0;
    for (long at = 0; at < got; count++)
        at += ((const struct dirent64 *)(const void *)(room.bytes + at))->d_reclen;
    return got > 0 && count <= 2;
}

static void give_dir(int parent, const char *name)
{
    struct stat st;
    uid_t uid;
    gid_t gid;
    if (!piano__owner_of(parent, &uid, &gid))
        return;
    int fd = open_at(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == 0 && is_empty(fd))
        (void)!fchown(fd, uid, gid);
    close_fd(fd);
}

int piano__owner_mkdir(const char *path)
{
    int saved = errno;
    int result;
    if (geteuid() != 0) {
        result = mkdir(path, 0700) == 0 ? 0 : -errno;
    } else {
        int parent = open_parent(path);
        result = parent < 0 ? parent : mkdirat(parent, name_in(path), 0700) == 0 ? 0 : -errno;
        if (result == 0)
            give_dir(parent, name_in(path));
        close_fd(parent);
    }
    errno = saved;
    return result;
}
