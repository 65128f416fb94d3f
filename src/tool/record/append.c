/* Appends chunks to a recording in one step: they are written after the last chunk that the header
 * counts, where no reader looks, and then the header counts them. A tool that is killed in between
 * leaves a file that is a little too long; the next writer overwrites that part. The lock for
 * snapshots keeps other tools out, and the program has ended. */
#include "tool/record/append.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/owner.h"
#include "tool/record/view.h"

/* Root does not write names into another user's file either: that user could then read names that
 * only root may look up. A user who ran `sudo` could look them up with sudo anyway. */
static bool is_ours(const struct stat *st)
{
    return S_ISREG(st->st_mode) && (st->st_mode & S_IWUSR) &&
           (st->st_uid == geteuid() || piano__owner_asked(st->st_uid));
}

static int write_all(int fd, const char *data, size_t left, off_t at)
{
    while (left > 0) {
        ssize_t put = pwrite(fd, data, left, at);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return put < 0 ? -errno : -EIO;
        data += put;
        at += put;
        left -= (size_t)put;
    }
    return 0;
}

static int append(struct view *v, const struct stat *st, uint64_t chunks, const char *data,
                  size_t count)
{
    uint64_t *claimed = &v->base.header->chunks, expected = chunks;
    off_t at = (off_t)(PIANO_REC_HEADER_BYTES + chunks * PIANO_REC_CHUNK_BYTES);
    if (chunks + count > piano__rec_most(v->base.header) || st->st_size < at)
        return -EBADMSG;
    if (__atomic_load_n(claimed, __ATOMIC_ACQUIRE) != chunks)
        return -EAGAIN;
    int err = write_all(v->fd, data, count * PIANO_REC_CHUNK_BYTES, at);
    if (err == 0 && !__atomic_compare_exchange_n(claimed, &expected, chunks + count, false,
                                                 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        return -EAGAIN;
    return err; /* bytes already written are beyond the counted chunks */
}

int append_chunks(const char *path, uint64_t chunks, const char *data, size_t count)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
    struct stat st;
    struct view v;
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return -errno;
    int err = fstat(fd, &st) != 0 ? -errno : is_ours(&st) ? 0 : -EPERM;
    if (err == 0 && flock(fd, LOCK_EX | LOCK_NB) != 0)
        err = -errno;
    if (err == 0 && fstat(fd, &st) != 0)
        err = -errno;
    if (err != 0) {
        close(fd);
        return err;
    }
    err = view_open_fd(&v, fd);
    if (err != 0)
        return err;
    sigaction(SIGXFSZ, &ignore, &before); /* a file size limit should be an error, not a signal */
    err = append(&v, &st, chunks, data, count);
    sigaction(SIGXFSZ, &before, NULL);
    const struct timespec times[2] = {st.st_atim, st.st_mtim};
    (void)futimens(fd, times);
    view_close(&v);
    return err;
}
