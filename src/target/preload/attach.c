/* The thread that the tool starts in a running process (common/attach.h). It exists as long as the
 * recording: it waits for the tool's order to end it, and ends it as well if the tool is gone.
 * Signals are blocked in it, as in the thread that started it at that moment. */
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/attach.h"
#include "target/heap/heap.h"
#include "target/main/attached.h"
#include "target/preload/late.h"
#include "target/preload/next.h"
#include "target/record/control.h"
#include "target/sys/file.h"

enum { LOOK_MS = 200 };

void *__piano_attach(struct piano__attach_room *at) __attribute__((visibility("default")));

static int serving; /* the process whose thread serves a tool; a forked child has another id */

/* Receives an order, and the descriptor that comes with it, or -1. Returns false at the end. */
static bool receive(int socket, struct piano__attach_order *order, int *fd)
{
    char control[CMSG_SPACE(sizeof *fd)];
    struct iovec part = {order, sizeof *order};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
    *fd = -1;
    long got = syscall(SYS_recvmsg, socket, &message, MSG_CMSG_CLOEXEC);
    const struct cmsghdr *c = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
        memcpy(fd, CMSG_DATA(c), sizeof *fd);
    return got == (long)sizeof *order && order->version == PIANO_ATTACH_VERSION;
}

static void answer(int socket, const struct piano__attach_answer *a)
{
    syscall(SYS_sendto, socket, a, sizeof *a, MSG_NOSIGNAL | MSG_DONTWAIT, NULL, 0);
}

/* Waits for the next order, and looks for new modules meanwhile. */
static void wait_for_order(int socket)
{
    struct pollfd p = {.fd = socket, .events = POLLIN};
    const struct timespec limit = {0, LOOK_MS * 1000000};
    struct timespec left = limit;
    while (syscall(SYS_ppoll, &p, 1UL, &left, NULL, 0UL) == 0) {
        piano__late_look();
        left = limit;
    }
}

static void stop(struct piano__attach_answer *a)
{
    piano__attached_pause();
    bool removed = piano__late_remove();
    a->lingers = !removed || !piano__attached_stop();
}

static void start(int fd, struct piano__attach_order *order, struct piano__attach_answer *a)
{
    order->path[sizeof order->path - 1] = '\0';
    order->settings[sizeof order->settings - 1] = order->settings[sizeof order->settings - 2] =
        '\0';
    piano__attached_start(fd, order, a);
    if (a->failure != PIANO_ATTACH_OK) {
        if (a->failure == PIANO_ATTACH_HEAP || a->failure == PIANO_ATTACH_EVENTS ||
            a->failure == PIANO_ATTACH_HIDDEN)
            stop(a);
        return;
    }
    const struct piano__late_wish wish = {
        .heap = piano__control_number("PIANO_HEAP") > 0,
        .maps = piano__control_number("PIANO_MAPS") == 1,
        .events = piano__control_number("PIANO_EVENTS") == 1,
    };
    a->slots = piano__late_place(&wish);
}

static void serve(int socket)
{
    static struct piano__attach_order order;
    struct piano__attach_answer a = {.version = PIANO_ATTACH_VERSION};
    bool is_recording = false;
    int fd;
    answer(socket, &a);
    for (;;) {
        wait_for_order(socket);
        a = (struct piano__attach_answer){.version = PIANO_ATTACH_VERSION};
        if (!receive(socket, &order, &fd) || order.kind != PIANO_ATTACH_START || is_recording)
            break;
        start(fd, &order, &a);
        is_recording = a.failure == PIANO_ATTACH_OK;
        answer(socket, &a);
    }
    if (fd >= 0)
        piano__file_close(fd);
    if (is_recording)
        stop(&a);
    answer(socket, &a);
}

/* The room is unmapped here: its code has ended with a jump to this function. */
void *__piano_attach(struct piano__attach_room *at)
{
    const struct piano__attach_room room = *at;
    uintptr_t own_before = piano__heap_own_begin();
    int self = (int)syscall(SYS_getpid);
    syscall(SYS_munmap, room.start, room.size);
    syscall(SYS_prctl, PR_SET_NAME, "piano-attach", 0, 0, 0);
    if (room.memory >= 0)
        piano__file_close(room.memory);
    /* Pairs with the release below: the previous thread has finished. */
    int before = __atomic_exchange_n(&serving, self, __ATOMIC_ACQUIRE);
    if (before == self || !piano__next_is_late()) {
        const struct piano__attach_answer a = {
            PIANO_ATTACH_VERSION, PIANO_ATTACH_BUSY, -EBUSY, 0, 0, {0}};
        answer(room.sockets[0], &a);
        if (before != self)
            __atomic_store_n(&serving, 0, __ATOMIC_RELEASE); /* pairs with the acquire above */
    } else {
        if (before != 0)
            piano__late_forked();
        serve(room.sockets[0]);
        /* Pairs with the acquire above. */
        __atomic_store_n(&serving, 0, __ATOMIC_RELEASE);
    }
    piano__file_close(room.sockets[0]);
    piano__heap_own_end(own_before);
    return NULL;
}
