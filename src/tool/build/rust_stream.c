/* A thread reads rustc's messages from a pipe. A process that outlives rustc (the server of sccache) may
 * hold the pipe open: the end of rustc is the end of its messages. */
#include "tool/build/rust_stream.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "tool/util/child.h"

extern char **environ;

struct stream {
    int messages[2]; /* a pipe */
    int end[2];      /* closed when rustc has ended */
    struct buf line; /* the last one, while its end is missing */
    struct buf *kept;
};

static void forward(const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t put = write(STDERR_FILENO, bytes, len);
        if (put < 0 && errno != EINTR)
            return;
        if (put > 0) {
            bytes += put;
            len -= (size_t)put;
        }
    }
}

static void end_line(struct stream *s)
{
    const char *text = s->line.data;
    if (s->kept->len > 0 || s->line.failed || text[0] != '{' || strstr(text, "\"level\":\"error"))
        buf_put(s->kept, text ? text : "", s->line.len);
    else
        forward(text, s->line.len);
    buf_clear(&s->line);
}

static void take_bytes(struct stream *s, const char *bytes, size_t len)
{
    while (len > 0) {
        const char *newline = memchr(bytes, '\n', len);
        size_t part = newline ? (size_t)(newline - bytes) + 1 : len;
        buf_put(&s->line, bytes, part);
        if (newline)
            end_line(s);
        bytes += part;
        len -= part;
    }
}

/* Reads what is there. Returns false at the end of the pipe. */
static bool drain(struct stream *s)
{
    char chunk[65536];
    for (;;) {
        ssize_t got = read(s->messages[0], chunk, sizeof chunk);
        if (got > 0)
            take_bytes(s, chunk, (size_t)got);
        else if (got == 0 || errno != EINTR)
            return got < 0 && errno == EAGAIN;
    }
}

static void *read_messages(void *ctx)
{
    struct stream *s = ctx;
    struct pollfd fds[2] = {{.fd = s->messages[0], .events = POLLIN},
                            {.fd = s->end[0], .events = POLLIN}};
    bool more = true;
    while (more && fds[1].revents == 0) {
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            break;
        more = drain(s); /* once more after the end */
    }
    if (s->line.len > 0)
        end_line(s);
    return NULL;
}

static int open_pipes(struct stream *s)
{
    if (pipe2(s->messages, O_CLOEXEC) != 0)
        return -errno;
    if (pipe2(s->end, O_CLOEXEC) != 0) {
        int err = -errno;
        close(s->messages[0]);
        close(s->messages[1]);
        return err;
    }
    return fcntl(s->messages[0], F_SETFL, O_NONBLOCK) == 0 ? 0 : -errno;
}

/* Signals are for the thread that waits for rustc. */
static int start_reader(struct stream *s, pthread_t *reader)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    int err = pthread_create(reader, NULL, read_messages, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return -err;
}

int rust_stream_run(struct cc_run *r, char *const argv[])
{
    struct stream s = {.kept = &r->err};
    struct child_result result = {0};
    pthread_t reader;
    *r = (struct cc_run){0};
    int err = open_pipes(&s);
    if (err != 0)
        return err;
    int started = start_reader(&s, &reader);
    struct child_plan plan = {
        .argv = argv, .envp = environ, .in = -1, .out = -1, .err = s.messages[1]};
    err = started ? started : child_run(&plan, &result);
    close(s.messages[1]);
    close(s.end[1]);
    if (started == 0)
        pthread_join(reader, NULL);
    close(s.messages[0]);
    close(s.end[0]);
    buf_free(&s.line);
    r->status = result.status;
    return err ? err : result.interrupted ? -EINTR : r->err.failed ? -ENOMEM : 0;
}
