/* Callbacks of libuv, if it is a shared library: each call is a poll of its handle or request.
 *
 * The functions that take a callback are interposed before libuv's. They store it (callbacks.h) and
 * pass one of ours instead. That is called with the same arguments, finds the program's callback by
 * the first of them, and calls it between two events. If nothing is recorded, or there is no more
 * room, libuv gets the program's own callback.
 *
 * What is stored must follow what libuv does, or the wrong function would be called. A start that
 * fails leaves the previous callback in place. So does a start of an active idle, prepare or check
 * handle, although it does not fail. The callback of a request is removed when it is called. Those
 * of a handle are removed when libuv closes it: its close callback is always ours, even if the
 * program has none.
 *
 * libuv calls some of these functions by name itself. If it passes a callback of ours, that is
 * already stored. */
#include "target/preload/uv.h"

#include <sys/types.h>

#include "target/preload/next.h"
#include "target/unwind/module.h"

typedef void on_handle(void *handle);
typedef void on_status(void *object, int status);
typedef void on_read(void *stream, ssize_t count, const void *buffer);
typedef void on_poll(void *handle, int status, int events);
typedef void on_recv(void *handle, ssize_t count, const void *buffer, const void *from,
                     unsigned flags);
typedef void on_addresses(void *request, int status, void *addresses);

/* ---- what both files share ---- */

void *piano__uv_find(const char *name)
{
    return piano__next_of("libuv.so.1", name);
}

/* libuv also creates handles for itself. Their callbacks are not the program's, but what they call
 * is. */
static bool is_libuvs(uintptr_t function)
{
    static struct {
        uintptr_t start, end;
    } range; /* does not change; concurrent callers find the same */
    /* Pairs with the release below: `start` is set. */
    uintptr_t end = __atomic_load_n(&range.end, __ATOMIC_ACQUIRE);
    if (!end) {
        struct piano__module_info module;
        void *known = piano__uv_find("uv_run");
        if (!known || !piano__module_find((uintptr_t)known, &module))
            module.start = module.end = 1; /* an empty range */
        end = module.end;
        __atomic_store_n(&range.start, module.start, __ATOMIC_RELAXED);
        /* Pairs with the acquire above. */
        __atomic_store_n(&range.end, end, __ATOMIC_RELEASE);
    }
    return function >= __atomic_load_n(&range.start, __ATOMIC_RELAXED) && function < end;
}

static void count_unseen(void)
{
    static int64_t unseen;
    /* Relaxed: a counter. */
    int64_t now = __atomic_add_fetch(&unseen, 1, __ATOMIC_RELAXED);
    piano__events_value("libuv callbacks beyond the table", now);
}

static uintptr_t swap(struct piano__uv_swap *s, const void *object, enum piano__callback_kind kind,
                      uintptr_t theirs, uintptr_t ours)
{
    *s = (struct piano__uv_swap){.object = object, .kind = kind};
    if (!piano__events_on() || theirs == ours || is_libuvs(theirs))
        return theirs;
    s->swapped = piano__callbacks_put(object, kind, theirs, &s->before);
    if (!s->swapped)
        count_unseen();
    return s->swapped ? ours : theirs;
}

uintptr_t piano__uv_swap(struct piano__uv_swap *s, const void *object,
                         enum piano__callback_kind kind, uintptr_t theirs, uintptr_t ours)
{
    return swap(s, object, kind, theirs, theirs ? ours : theirs);
}

int piano__uv_swapped(const struct piano__uv_swap *s, int result)
{
    if (s->swapped && result < 0)
        piano__callbacks_undo(s->object, s->kind, &s->before);
    return result;
}

/* ---- handles ---- */

static void call_handle(void *handle, enum piano__callback_kind kind)
{
    struct piano__callback c = piano__callbacks_get(handle, kind);
    if (c.function)
        UV_CALL(c, handle, ((on_handle *)c.function)(handle));
}

static void our_timer(void *handle)
{
    call_handle(handle, PIANO_CALLBACK_TIMER);
}

static void our_idle(void *handle)
{
    call_handle(handle, PIANO_CALLBACK_IDLE);
}

static void our_prepare(void *handle)
{
    call_handle(handle, PIANO_CALLBACK_PREPARE);
}

static void our_check(void *handle)
{
    call_handle(handle, PIANO_CALLBACK_CHECK);
}

static void our_async(void *handle)
{
    call_handle(handle, PIANO_CALLBACK_ASYNC);
}

static void our_signal(void *handle, int number)
{
    struct piano__callback c = piano__callbacks_get(handle, PIANO_CALLBACK_SIGNAL);
    if (c.function)
        UV_CALL(c, handle, ((on_status *)c.function)(handle, number));
}

static void our_connection(void *server, int status)
{
    struct piano__callback c = piano__callbacks_get(server, PIANO_CALLBACK_CONNECTION);
    if (c.function)
        UV_CALL(c, server, ((on_status *)c.function)(server, status));
}

static void our_read(void *stream, ssize_t count, const void *buffer)
{
    struct piano__callback c = piano__callbacks_get(stream, PIANO_CALLBACK_READ);
    if (c.function)
        UV_CALL(c, stream, ((on_read *)c.function)(stream, count, buffer));
}

static void our_poll(void *handle, int status, int events)
{
    struct piano__callback c = piano__callbacks_get(handle, PIANO_CALLBACK_POLL);
    if (c.function)
        UV_CALL(c, handle, ((on_poll *)c.function)(handle, status, events));
}

static void our_recv(void *handle, ssize_t count, const void *buffer, const void *from,
                     unsigned flags)
{
    struct piano__callback c = piano__callbacks_get(handle, PIANO_CALLBACK_RECV);
    if (c.function)
        UV_CALL(c, handle, ((on_recv *)c.function)(handle, count, buffer, from, flags));
}

/* Takes the callbacks first: the program's may free the handle. */
static void our_close(void *handle)
{
    struct piano__callback c = piano__callbacks_take(handle, PIANO_CALLBACK_CLOSE);
    piano__callbacks_drop(handle);
    if (c.function)
        UV_CALL(c, handle, ((on_handle *)c.function)(handle));
}

UV_HOOK(int, uv_timer_start, void *timer, on_handle *cb, uint64_t timeout, uint64_t repeat)
{
    UV_NEXT(uv_timer_start, -ENOSYS);
    struct piano__uv_swap s;
    return piano__uv_swapped(
        &s, next(timer, UV_SWAP(&s, timer, TIMER, cb, our_timer), timeout, repeat));
}

/* Returns whether the handle is active. Then libuv keeps the callback it has. Relaxed: all threads
 * find the same address. */
static bool is_started(const void *handle)
{
    static int (*cached)(const void *);
    int (*is_active)(const void *) = __atomic_load_n(&cached, __ATOMIC_RELAXED);
    if (!piano__events_on())
        return false;
    if (!is_active) {
        is_active = (int (*)(const void *))piano__uv_find("uv_is_active");
        __atomic_store_n(&cached, is_active, __ATOMIC_RELAXED);
    }
    return is_active && is_active(handle);
}

UV_HOOK(int, uv_idle_start, void *handle, on_handle *cb)
{
    UV_NEXT(uv_idle_start, -ENOSYS);
    struct piano__uv_swap s;
    if (is_started(handle))
        return next(handle, cb);
    return piano__uv_swapped(&s, next(handle, UV_SWAP(&s, handle, IDLE, cb, our_idle)));
}

UV_HOOK(int, uv_prepare_start, void *handle, on_handle *cb)
{
    UV_NEXT(uv_prepare_start, -ENOSYS);
    struct piano__uv_swap s;
    if (is_started(handle))
        return next(handle, cb);
    return piano__uv_swapped(&s, next(handle, UV_SWAP(&s, handle, PREPARE, cb, our_prepare)));
}

UV_HOOK(int, uv_check_start, void *handle, on_handle *cb)
{
    UV_NEXT(uv_check_start, -ENOSYS);
    struct piano__uv_swap s;
    if (is_started(handle))
        return next(handle, cb);
    return piano__uv_swapped(&s, next(handle, UV_SWAP(&s, handle, CHECK, cb, our_check)));
}

UV_HOOK(int, uv_async_init, void *loop, void *handle, on_handle *cb)
{
    UV_NEXT(uv_async_init, -ENOSYS);
    struct piano__uv_swap s;
    return piano__uv_swapped(&s, next(loop, handle, UV_SWAP(&s, handle, ASYNC, cb, our_async)));
}

UV_HOOK(int, uv_signal_start, void *handle, on_status *cb, int number)
{
    UV_NEXT(uv_signal_start, -ENOSYS);
    struct piano__uv_swap s;
    return piano__uv_swapped(&s, next(handle, UV_SWAP(&s, handle, SIGNAL, cb, our_signal), number));
}

UV_HOOK(int, uv_signal_start_oneshot, void *handle, on_status *cb, int number)
{
    UV_NEXT(uv_signal_start_oneshot, -ENOSYS);
    struct piano__uv_swap s;
    return piano__uv_swapped(&s, next(handle, UV_SWAP(&s, handle, SIGNAL, cb, our_signal), number));
}

UV_HOOK(int, uv_listen, void *server, int backlog, on_status *cb)
{
    UV_NEXT(uv_listen, -ENOSYS);
    struct piano__uv_swap s;
    return piano__uv_swapped(
        &s, next(server, backlog, UV_SWAP(&s, server, CONNECTION, cb, our_connection)));
}

UV_HOOK(int, uv_read_start, void *stream, void (*alloc)(void *, size_t, void *), on_read *cb)
{
    UV_NEXT(uv_read_start, -ENOSYS);
    struct piano__uv_swap s;
    return piano__uv_swapped(&s, next(stream, alloc, UV_SWAP(&s, stream, READ, cb, our_read)));
}

UV_HOOK(int, uv_poll_start, void *handle, int events, on_poll *cb)
{
    UV_NEXT(uv_poll_start, -ENOSYS);
    struct piano__uv_swap s;
    return piano__uv_swapped(&s, next(handle, events, UV_SWAP(&s, handle, POLL, cb, our_poll)));
}

UV_HOOK(int, uv_udp_recv_start, void *handle, void (*alloc)(void *, size_t, void *), on_recv *cb)
{
    UV_NEXT(uv_udp_recv_start, -ENOSYS);
    struct piano__uv_swap s;
    return piano__uv_swapped(&s, next(handle, alloc, UV_SWAP(&s, handle, RECV, cb, our_recv)));
}

static on_handle *swap_close(struct piano__uv_swap *s, const void *handle, on_handle *cb)
{
    return (on_handle *)swap(s, handle, PIANO_CALLBACK_CLOSE, (uintptr_t)cb, (uintptr_t)our_close);
}

UV_HOOK(void, uv_close, void *handle, on_handle *cb)
{
    UV_NEXT(uv_close);
    struct piano__uv_swap s;
    on_handle *given = swap_close(&s, handle, cb);
    /* Without our_close(), the callbacks are dropped now. */
    if (piano__events_on() && given != our_close)
        piano__callbacks_drop(handle);
    next(handle, given);
}

UV_HOOK(int, uv_tcp_close_reset, void *handle, on_handle *cb)
{
    UV_NEXT(uv_tcp_close_reset, -ENOSYS);
    struct piano__uv_swap s;
    return piano__uv_swapped(&s, next(handle, swap_close(&s, handle, cb)));
}

/* ---- requests ---- */

static void call_status(void *request, enum piano__callback_kind kind, int status)
{
    struct piano__callback c = piano__callbacks_take(request, kind);
    if (c.function)
        UV_CALL(c, request, ((on_status *)c.function)(request, status));
}

static void our_write(void *request, int status)
{
    call_status(request, PIANO_CALLBACK_WRITE, status);
}

static void our_connect(void *request, int status)
{
    call_status(request, PIANO_CALLBACK_CONNECT, status);
}

static void our_shutdown(void *request, int status)
{
    call_status(request, PIANO_CALLBACK_SHUTDOWN, status);
}

static void our_send(void *request, int status)
{
    call_status(request, PIANO_CALLBACK_SEND, status);
}

static void our_addresses(void *request, int status, void *addresses)
{
    struct piano__callback c = piano__callbacks_take(request, PIANO_CALLBACK_GETADDRINFO);
    if (c.function)
        UV_CALL(c, request, ((on_addresses *)c.function)(request, status, addresses));
}

/* Called in a thread of the pool. */
static void our_work(void *request)
{
    struct piano__callback c = piano__callbacks_take(request, PIANO_CALLBACK_WORK);
    if (c.function)
        UV_CALL(c, request, ((on_handle *)c.function)(request));
}

/* The callback of cancelled work is still stored. */
static void our_after_work(void *request, int status)
{
    (void)piano__callbacks_take(request, PIANO_CALLBACK_WORK);
    call_status(request, PIANO_CALLBACK_AFTER_WORK, status);
}

UV_HOOK(int, uv_write, void *request, void *stream, const void *buffers, unsigned count,
        on_status *cb)
{
    UV_NEXT(uv_write, -ENOSYS);
    struct piano__uv_swap s;
    return piano__uv_swapped(
        &s, next(request, stream, buffers, count, UV_SWAP(&s, request, WRITE, cb, our_write)));
}

UV_HOOK(int, uv_write2, void *request, void *stream, const void *buffers, unsigned count,
        void *handle, on_status *cb)
{
    UV_NEXT(uv_write2, -ENOSYS);
    struct piano__uv_swap s;
    return piano__uv_swapped(&s, next(request, stream, buffers, count, handle,
                                      UV_SWAP(&s, request, WRITE, cb, our_write)));
}

UV_HOOK(int, uv_tcp_connect, void *request, void *handle, const void *address, on_status *cb)
{
    UV_NEXT(uv_tcp_connect, -ENOSYS);
    struct piano__uv_swap s;
    return piano__uv_swapped(
        &s, next(request, handle, address, UV_SWAP(&s, request, CONNECT, cb, our_connect)));
}

UV_HOOK(void, uv_pipe_connect, void *request, void *handle, const char *name, on_status *cb)
{
    UV_NEXT(uv_pipe_connect);
    struct piano__uv_swap s;
    next(request, handle, name, UV_SWAP(&s, request, CONNECT, cb, our_connect));
}

UV_HOOK(int, uv_pipe_connect2, void *request, void *handle, const char *name, size_t len,
        unsigned flags, on_status *cb)
{
    UV_NEXT(uv_pipe_connect2, -ENOSYS);
    struct piano__uv_swap s;
    return piano__uv_swapped(&s, next(request, handle, name, len, flags,
                                      UV_SWAP(&s, request, CONNECT, cb, our_connect)));
}

UV_HOOK(int, uv_shutdown, void *request, void *stream, on_status *cb)
{
    UV_NEXT(uv_shutdown, -ENOSYS);
    struct piano__uv_swap s;
    return piano__uv_swapped(
        &s, next(request, stream, UV_SWAP(&s, request, SHUTDOWN, cb, our_shutdown)));
}

UV_HOOK(int, uv_udp_send, void *request, void *handle, const void *buffers, unsigned count,
        const void *address, on_status *cb)
{
    UV_NEXT(uv_udp_send, -ENOSYS);
    struct piano__uv_swap s;
    return piano__uv_swapped(&s, next(request, handle, buffers, count, address,
                                      UV_SWAP(&s, request, SEND, cb, our_send)));
}

UV_HOOK(int, uv_getaddrinfo, void *loop, void *request, on_addresses *cb, const char *node,
        const char *service, const void *hints)
{
    UV_NEXT(uv_getaddrinfo, -ENOSYS);
    struct piano__uv_swap s;
    on_addresses *given = UV_SWAP(&s, request, GETADDRINFO, cb, our_addresses);
    return piano__uv_swapped(&s, next(loop, request, given, node, service, hints));
}

/* Passes our_after_work even if the program has no callback, since the work may be cancelled. */
UV_HOOK(int, uv_queue_work, void *loop, void *request, on_handle *cb, on_status *after)
{
    UV_NEXT(uv_queue_work, -ENOSYS);
    struct piano__uv_swap work, done = {.swapped = false};
    on_handle *given = UV_SWAP(&work, request, WORK, cb, our_work);
    on_status *then = after;
    if (work.swapped)
        then = (on_status *)swap(&done, request, PIANO_CALLBACK_AFTER_WORK, (uintptr_t)after,
                                 (uintptr_t)our_after_work);
    int result = next(loop, request, given, then);
    (void)piano__uv_swapped(&done, result);
    return piano__uv_swapped(&work, result);
}
