/* Orders and answers, see common/attach.h. Every wait for the process has a limit. */
#include "tool/attach/attach.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/attach.h"
#include "tool/attach/inject.h"
#include "tool/util/say.h"

enum { LOAD_MS = 30000, ANSWER_MS = 20000, SLICE_MS = 100 };

/* Waits for the process. Returns the bytes it sent; 0 if it is gone, negative errno: -EINTR if this
 * process was asked to stop and MAY_STOP. */
static ssize_t receive(struct attach *a, void *to, size_t size, int limit_ms, bool may_stop)
{
    struct pollfd p = {.fd = a->socket, .events = POLLIN};
    int got = 0;
    for (int waited = 0; waited < limit_ms && got == 0; waited += SLICE_MS) {
        got = poll(&p, 1, SLICE_MS);
        if (got == 0 && may_stop && attach_is_over(&a->failure))
            return -EINTR;
    }
    if (got <= 0)
        return got == 0 ? -ETIMEDOUT : -errno;
    ssize_t len = recv(a->socket, to, size, MSG_DONTWAIT);
    return len < 0 ? -errno : len;
}

static bool fail_to_answer(struct attach *a, ssize_t got)
{
    if (got == -EINTR)
        return false; /* explained already */
    if (got == 0 || got == -ECONNRESET)
        attach_fail(&a->failure, NULL, "process %d ended, or executed another program",
                    (int)a->pid);
    else
        attach_fail(&a->failure, NULL, "libpiano.so in process %d does not answer: %s", (int)a->pid,
                    got < 0 ? strerror((int)-got) : "another version of it");
    return false;
}

static bool explain(struct attach *a, const struct piano__attach_answer *answer)
{
    static const char *const what[] = {
        [PIANO_ATTACH_BUSY] = "is recorded already, or was started by piano",
        [PIANO_ATTACH_LINGERS] = "has a thread that has not left the previous recording yet",
        [PIANO_ATTACH_HIDDEN] = "has an allocator of its own in its executable",
        [PIANO_ATTACH_RECORDING] = "cannot write the recording",
        [PIANO_ATTACH_HEAP] = "cannot begin to record its heap",
        [PIANO_ATTACH_EVENTS] = "cannot begin to record events",
    };
    bool is_known = answer->failure < sizeof what / sizeof *what && what[answer->failure];
    bool is_hidden = answer->failure == PIANO_ATTACH_HIDDEN;
    const char *why = answer->err && !is_hidden ? strerror(-answer->err) : "";
    attach_fail(&a->failure, is_hidden ? ATTACH_WITHOUT_HEAP : ATTACH_WITHOUT_LIBRARY,
                "process %d %s%s%s", (int)a->pid, is_known ? what[answer->failure] : "refuses",
                *why ? ": " : "", why);
    a->failure.is_heap = is_hidden;
    return false;
}

static bool read_answer(struct attach *a, struct piano__attach_answer *answer, int limit_ms,
                        bool may_stop)
{
    union {
        struct piano__attach_answer answer;
        char error[PIANO_ATTACH_ERROR];
    } got = {.error = ""};
    char safe[PIANO_ATTACH_ERROR * 2];
    ssize_t len = receive(a, &got, sizeof got, limit_ms, may_stop);
    if (len == PIANO_ATTACH_ERROR) {
        got.error[sizeof got.error - 1] = '\0';
        say_safe(safe, sizeof safe, got.error);
        attach_fail(&a->failure,
                    strstr(got.error, "static TLS")
                        ? "a start with `piano record PROGRAM`: other libraries have taken the "
                          "room"
                        : ATTACH_WITHOUT_LIBRARY,
                    "the loader of process %d cannot load libpiano.so: %s", (int)a->pid,
                    *safe ? safe : "no reason given");
        return false;
    }
    if (len != sizeof got.answer || got.answer.version != PIANO_ATTACH_VERSION)
        return fail_to_answer(a, len);
    *answer = got.answer;
    return answer->failure == PIANO_ATTACH_OK || explain(a, answer);
}

bool attach_open(struct attach *a, pid_t pid, const char *library, bool with_heap)
{
    struct injection in = {.pid = pid, .library = library, .with_heap = with_heap, .socket = -1};
    struct piano__attach_answer answer;
    *a = (struct attach){.pid = pid, .socket = -1};
    bool done = proc_check(pid, &in.failure) && inject(&in);
    a->failure = in.failure;
    a->socket = in.socket;
    a->stood_ns = in.stood_ns;
    a->longest_ns = in.longest_ns;
    a->stops = in.stops;
    if (done)
        done = read_answer(a, &answer, LOAD_MS, true);
    if (!done)
        attach_close(a);
    return done;
}

/* Appends to the settings in ORDER. */
static void set(struct piano__attach_order *order, size_t *len, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void set(struct piano__attach_order *order, size_t *len, const char *fmt, ...)
{
    va_list words;
    va_start(words, fmt);
    int more = vsnprintf(order->settings + *len, sizeof order->settings - *len - 1, fmt, words);
    va_end(words);
    if (more > 0)
        *len += (size_t)more + 1;
}

static bool send_order(const struct attach *a, struct piano__attach_order *order, int fd)
{
    char control[CMSG_SPACE(sizeof fd)] = "";
    struct iovec part = {order, sizeof *order};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd >= 0) {
        message.msg_control = control;
        message.msg_controllen = sizeof control;
        struct cmsghdr *c = CMSG_FIRSTHDR(&message);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(c), &fd, sizeof fd);
    }
    return sendmsg(a->socket, &message, MSG_NOSIGNAL) == (ssize_t)sizeof *order;
}

bool attach_start(struct attach *a, int fd, const char *path, const struct attach_wish *wish)
{
    struct piano__attach_order order = {.version = PIANO_ATTACH_VERSION,
                                        .kind = PIANO_ATTACH_START};
    struct piano__attach_answer answer;
    size_t len = 0;
    snprintf(order.path, sizeof order.path, "%s", path);
    set(&order, &len, "PIANO_HEAP=%" PRIu64, wish->heap_rate);
    set(&order, &len, "PIANO_MAPS=%d", wish->maps);
    set(&order, &len, "PIANO_EVENTS=%d", wish->events);
    set(&order, &len, "PIANO_MAX_SIZE=%" PRIu64, wish->max_bytes);
    set(&order, &len, "PIANO_EVENTS_MAX=%" PRIu64, wish->max_event_bytes);
    set(&order, &len, "PIANO_CPU=%s", wish->cpu ? "outside" : "");
    if (send_order(a, &order, fd))
        return read_answer(a, &answer, ANSWER_MS, true);
    return fail_to_answer(a, -errno);
}

bool attach_stop(struct attach *a, bool *lingers)
{
    struct piano__attach_order order = {.version = PIANO_ATTACH_VERSION, .kind = PIANO_ATTACH_STOP};
    struct piano__attach_answer answer = {0};
    bool done =
        a->socket >= 0 && send_order(a, &order, -1) && read_answer(a, &answer, ANSWER_MS, false);
    *lingers = done && answer.lingers;
    attach_close(a);
    return done;
}

void attach_close(struct attach *a)
{
    if (a->socket >= 0)
        close(a->socket);
    a->socket = -1;
}
