/* The growing byte string that every writer in the tool uses; see buf.h for the failure rule. */
#include "tool/util/buf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/owner.h"
#include "tool/util/file.h"
#include "tool/util/vec.h"

enum { FLUSH_BYTES = 1 << 16, MAX_OWN_BYTES = 256 << 20 };

static bool reserve(struct buf *b, size_t more)
{
    const size_t most = (size_t)1 << 46;
    if (!b->failed && (more > most || b->len + more >= b->cap))
        b->failed = more > most || vec_reserve(&b->data, &b->cap, b->len + more + 1, 1) != 0;
    return !b->failed;
}

void buf_put(struct buf *b, const void *bytes, size_t len)
{
    if (!reserve(b, len))
        return;
    memcpy(b->data + b->len, bytes, len);
    b->len += len;
    b->data[b->len] = '\0';
}

void buf_puts(struct buf *b, const char *s)
{
    buf_put(b, s, strlen(s));
}

void buf_putc(struct buf *b, char c)
{
    buf_put(b, &c, 1);
}

void buf_vprintf(struct buf *b, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int need = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    if (need < 0 || !reserve(b, (size_t)need)) {
        b->failed = true;
        return;
    }
    vsnprintf(b->data + b->len, (size_t)need + 1, fmt, ap);
    b->len += (size_t)need;
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(b, fmt, ap);
    va_end(ap);
}

void buf_put_escaped(struct buf *b, const char *s, bool is_hex)
{
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            buf_putc(b, '\\');
        if (c < 0x20 || c == 0x7f)
            buf_printf(b, is_hex ? "\\x%02x" : "\\%03o", c);
        else
            buf_putc(b, *s);
    }
}

void buf_put_c_literal(struct buf *b, const char *s)
{
    buf_putc(b, '"');
    buf_put_escaped(b, s, false);
    buf_putc(b, '"');
}

void buf_clear(struct buf *b)
{
    b->len = 0;
    b->failed = false;
    if (b->data)
        b->data[0] = '\0';
}

void buf_free(struct buf *b)
{
    free(b->data);
    *b = (struct buf){0};
}

static int read_file(struct buf *b, const char *path, int flags, off_t most)
{
    int fd = file_open(path, O_RDONLY | flags);
    if (fd < 0)
        return fd;
    struct stat st;
    int err = fstat(fd, &st) != 0 ? -errno : st.st_size > most ? -EFBIG : 0;
    while (err == 0) {
        size_t room = b->len == 0 ? (size_t)st.st_size + 1 : 65536;
        if (!reserve(b, room)) {
            err = -ENOMEM;
            break;
        }
        b->data[b->len] = '\0'; /* an empty file is an empty text */
        ssize_t got = read(fd, b->data + b->len, room);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            err = -errno;
        if (got <= 0)
            break;
        b->len += (size_t)got;
        b->data[b->len] = '\0';
    }
    close(fd);
    return err;
}

int buf_read_file(struct buf *b, const char *path)
{
    return read_file(b, path, 0, INT64_MAX);
}

int buf_read_own_file(struct buf *b, const char *path)
{
    return read_file(b, path, O_NOFOLLOW, MAX_OWN_BYTES);
}

static int write_all(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t put = write(fd, data, len);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return -errno;
        data += put;
        len -= (size_t)put;
    }
    return 0;
}

int buf_write_file(const struct buf *b, const char *path)
{
    if (b->failed)
        return -ENOMEM;
    struct buf temp = {0};
    buf_printf(&temp, "%s.tmp-%d", path, (int)getpid());
    if (temp.failed)
        return -ENOMEM;
    int fd = piano__owner_create(temp.data, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
    int err = fd < 0 ? fd : write_all(fd, b->data ? b->data : "", b->len);
    if (fd >= 0 && close(fd) != 0 && err == 0)
        err = -errno;
    if (err == 0 && rename(temp.data, path) != 0)
        err = -errno;
    if (err != 0 && fd >= 0)
        unlink(temp.data);
    buf_free(&temp);
    return err;
}

int buf_flush(struct buf *b, FILE *out, bool last)
{
    if (b->failed)
        return -ENOMEM;
    if (b->len == 0 || (!last && b->len < FLUSH_BYTES))
        return 0;
    size_t put = fwrite(b->data, 1, b->len, out);
    int err = put == b->len ? 0 : -EIO;
    buf_clear(b);
    return err;
}
