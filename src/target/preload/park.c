/* Calls that wait, interposed before the C library's. What a thread does between two of them is one
 * turn of its loop.
 *
 * PARK is written before the call and UNPARK after it. Result and errno are those of the call. A
 * call that cannot wait (timeout 0) is not a park. If nothing is recorded, the hooks only call the
 * next function.
 *
 * A wait may end without returning: cancellation unwinds through here, and a signal handler may
 * jump out. Nothing on the stack has to be undone. `waiting` of the thread says that its UNPARK is
 * still missing. The next wait writes it, or the end of the thread.
 *
 * The C library's functions are looked up before the program starts. Later, a thread that holds the
 * loader's lock may wait for the thread that does the look-up. liburing may be loaded later, so its
 * functions are looked up when they are called. liburing calls some of them by name itself: those
 * calls are part of a wait that is already recorded. */
#undef _FORTIFY_SOURCE /* its inline functions have the same names */
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <time.h>

#include "target/preload/late.h"
#include "target/preload/next.h"
#include "target/trace/events.h"
#include "target/unwind/module.h"

#define EXPORT __attribute__((visibility("default")))

/* Not declared by headers that always exist. */
int epoll_pwait2(int, struct epoll_event *, int, const struct timespec *, const sigset_t *);
int __poll_chk(struct pollfd *, nfds_t, int, size_t);
int __ppoll_chk(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *, size_t);
int io_uring_submit_and_wait(void *, unsigned);
int io_uring_submit_and_wait_timeout(void *, void *, unsigned, const struct timespec *,
                                     const sigset_t *);
int io_uring_wait_cqes(void *, void *, unsigned, const struct timespec *, const sigset_t *);
int io_uring_wait_cqe_timeout(void *, void *, const struct timespec *);
int __io_uring_get_cqe(void *, void *, unsigned, unsigned, const sigset_t *);

static struct {
    __typeof__(epoll_wait) *epoll_wait;
    __typeof__(epoll_pwait) *epoll_pwait;
    __typeof__(epoll_pwait2) *epoll_pwait2;
    __typeof__(poll) *poll;
    __typeof__(ppoll) *ppoll;
    __typeof__(__poll_chk) *poll_chk;
    __typeof__(__ppoll_chk) *ppoll_chk;
    __typeof__(select) *select;
    __typeof__(pselect) *pselect;
    __typeof__(pthread_cond_wait) *cond_wait;
    __typeof__(pthread_cond_timedwait) *cond_timedwait;
    __typeof__(pthread_cond_clockwait) *cond_clockwait;
    __typeof__(sem_wait) *sem_wait;
    __typeof__(sem_timedwait) *sem_timedwait;
    __typeof__(sem_clockwait) *sem_clockwait;
} next;

/* Condition variables once had another size: on x86-64 their functions exist in two versions, and
 * without a version the old one may be found. Newer architectures have only one. There, asking for
 * the version fails, and the dynamic linker allocates an error message. */
static void find_condition(void *where, const char *name)
{
    void *found = NULL;
#if defined(__x86_64__)
    found = dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");
#endif
    if (!found)
        found = dlsym(RTLD_NEXT, name);
    memcpy(where, &found, sizeof found);
}

__attribute__((constructor(101))) static void find_all(void)
{
    piano__next_find(&next.epoll_wait, "epoll_wait");
    piano__next_find(&next.epoll_pwait, "epoll_pwait");
    piano__next_find(&next.epoll_pwait2, "epoll_pwait2");
    piano__next_find(&next.poll, "poll");
    piano__next_find(&next.ppoll, "ppoll");
    piano__next_find(&next.poll_chk, "__poll_chk");
    piano__next_find(&next.ppoll_chk, "__ppoll_chk");
    piano__next_find(&next.select, "select");
    piano__next_find(&next.pselect, "pselect");
    find_condition(&next.cond_wait, "pthread_cond_wait");
    find_condition(&next.cond_timedwait, "pthread_cond_timedwait");
    piano__next_find(&next.cond_clockwait, "pthread_cond_clockwait");
    piano__next_find(&next.sem_wait, "sem_wait");
    piano__next_find(&next.sem_timedwait, "sem_timedwait");
    piano__next_find(&next.sem_clockwait, "sem_clockwait");
    /* Some C libraries lack some of them. Do not leave an error message for the program. */
    (void)dlerror();
}

/* Constructors of other libraries may wait before ours has run. */
#define FOUND(name) (__builtin_expect(next.name != NULL, 1) || (find_all(), next.name != NULL))

static inline bool is_seen(void)
{
    return __builtin_expect(piano__events_on(), 0) && !piano__events_self.parked;
}

static void park(enum piano__park kind)
{
    if (piano__events_self.waiting)
        piano__events_unpark(-1);
    piano__events_self.waiting = 1;
    piano__events_park(kind);
}

static int unpark(int result)
{
    if (piano__events_self.waiting)
        piano__events_unpark(result);
    piano__events_self.waiting = 0;
    return result;
}

/* The value of CALL, with events around it if WAITS. */
#define PARKED(kind, waits, call)                                                                  \
    (is_seen() && (waits) ? (park(PIANO_PARK_##kind), unpark(call)) : (call))

static int no_such(void)
{
    errno = ENOSYS;
    return -1;
}

static bool is_zero(const struct timespec *timeout)
{
    return timeout && timeout->tv_sec == 0 && timeout->tv_nsec == 0;
}

EXPORT int epoll_wait(int fd, struct epoll_event *events, int most, int timeout)
{
    if (!FOUND(epoll_wait))
        return no_such();
    return PARKED(EPOLL, timeout != 0, next.epoll_wait(fd, events, most, timeout));
}

EXPORT int epoll_pwait(int fd, struct epoll_event *events, int most, int timeout,
                       const sigset_t *mask)
{
    if (!FOUND(epoll_pwait))
        return no_such();
    return PARKED(EPOLL, timeout != 0, next.epoll_pwait(fd, events, most, timeout, mask));
}

EXPORT int epoll_pwait2(int fd, struct epoll_event *events, int most,
                        const struct timespec *timeout, const sigset_t *mask)
{
    if (!FOUND(epoll_pwait2))
        return no_such();
    return PARKED(EPOLL, !is_zero(timeout), next.epoll_pwait2(fd, events, most, timeout, mask));
}

EXPORT int poll(struct pollfd *fds, nfds_t count, int timeout)
{
    if (!FOUND(poll))
        return no_such();
    return PARKED(POLL, timeout != 0, next.poll(fds, count, timeout));
}

EXPORT int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t size)
{
    if (!FOUND(poll_chk))
        return no_such();
    return PARKED(POLL, timeout != 0, next.poll_chk(fds, count, timeout, size));
}

EXPORT int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                 const sigset_t *mask)
{
    if (!FOUND(ppoll))
        return no_such();
    return PARKED(POLL, !is_zero(timeout), next.ppoll(fds, count, timeout, mask));
}

EXPORT int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                       const sigset_t *mask, size_t size)
{
    if (!FOUND(ppoll_chk))
        return no_such();
    return PARKED(POLL, !is_zero(timeout), next.ppoll_chk(fds, count, timeout, mask, size));
}

EXPORT int select(int count, fd_set *in, fd_set *out, fd_set *except, struct timeval *timeout)
{
    if (!FOUND(select))
        return no_such();
    bool waits = !timeout || timeout->tv_sec != 0 || timeout->tv_usec != 0;
    return PARKED(SELECT, waits, next.select(count, in, out, except, timeout));
}

EXPORT int pselect(int count, fd_set *in, fd_set *out, fd_set *except,
                   const struct timespec *timeout, const sigset_t *mask)
{
    if (!FOUND(pselect))
        return no_such();
    return PARKED(SELECT, !is_zero(timeout), next.pselect(count, in, out, except, timeout, mask));
}

EXPORT int pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
    if (!FOUND(cond_wait))
        return ENOSYS;
    return PARKED(CONDITION, true, next.cond_wait(cond, mutex));
}

EXPORT int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                  const struct timespec *until)
{
    if (!FOUND(cond_timedwait))
        return ENOSYS;
    return PARKED(CONDITION, true, next.cond_timedwait(cond, mutex, until));
}

EXPORT int pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock,
                                  const struct timespec *until)
{
    if (!FOUND(cond_clockwait))
        return ENOSYS;
    return PARKED(CONDITION, true, next.cond_clockwait(cond, mutex, clock, until));
}

/* Takes the semaphore if that needs no wait. Then there is no park. */
static bool had_at_once(sem_t *sem)
{
    int saved = errno;
    pthread_testcancel(); /* every wait is a cancellation point, even one that does not block */
    bool had = sem_trywait(sem) == 0;
    errno = saved;
    return had;
}

/* The C library refuses an invalid time before it looks at the semaphore. */
static bool is_time(const struct timespec *until)
{
    return until->tv_nsec >= 0 && until->tv_nsec < 1000000000;
}

EXPORT int sem_wait(sem_t *sem)
{
    if (!FOUND(sem_wait))
        return no_such();
    if (is_seen() && had_at_once(sem))
        return 0;
    return PARKED(SEMAPHORE, true, next.sem_wait(sem));
}

EXPORT int sem_timedwait(sem_t *sem, const struct timespec *until)
{
    if (!FOUND(sem_timedwait))
        return no_such();
    if (is_seen() && is_time(until) && had_at_once(sem))
        return 0;
    return PARKED(SEMAPHORE, true, next.sem_timedwait(sem, until));
}

EXPORT int sem_clockwait(sem_t *sem, clockid_t clock, const struct timespec *until)
{
    if (!FOUND(sem_clockwait))
        return no_such();
    bool is_good = (clock == CLOCK_MONOTONIC || clock == CLOCK_REALTIME) && is_time(until);
    if (is_seen() && is_good && had_at_once(sem))
        return 0;
    return PARKED(SEMAPHORE, true, next.sem_clockwait(sem, clock, until));
}

static bool is_of(const void *caller, const void *function)
{
    struct piano__module_info module;
    return piano__module_find((uintptr_t)function, &module) && (uintptr_t)caller >= module.start &&
           (uintptr_t)caller < module.end;
}

/* liburing calls its own functions by name. The CALLER of those is liburing, or one of the
 * hooks. */
static bool is_part_of_a_wait(const void *caller, const void *function)
{
    return is_of(caller, function) || is_of(caller, (void *)is_of);
}

/* liburing returns errors as a negative errno. */
#define URING(function)                                                                            \
    static __typeof__(function) *next_one;                                                         \
    if (!next_one) {                                                                               \
        void *found = piano__next_of("liburing.so.2", #function);                                  \
        memcpy(&next_one, &found, sizeof found);                                                   \
    }                                                                                              \
    if (!next_one)                                                                                 \
        return -ENOSYS;                                                                            \
    const bool seen = is_seen() && !is_part_of_a_wait(__builtin_return_address(0), (void *)next_one)

EXPORT int io_uring_submit_and_wait(void *ring, unsigned count)
{
    URING(io_uring_submit_and_wait);
    return PARKED(URING, seen && count > 0, next_one(ring, count));
}

EXPORT int io_uring_submit_and_wait_timeout(void *ring, void *out, unsigned count,
                                            const struct timespec *timeout, const sigset_t *mask)
{
    URING(io_uring_submit_and_wait_timeout);
    return PARKED(URING, seen && count > 0 && !is_zero(timeout),
                  next_one(ring, out, count, timeout, mask));
}

EXPORT int io_uring_wait_cqes(void *ring, void *out, unsigned count, const struct timespec *timeout,
                              const sigset_t *mask)
{
    URING(io_uring_wait_cqes);
    return PARKED(URING, seen && count > 0 && !is_zero(timeout),
                  next_one(ring, out, count, timeout, mask));
}

EXPORT int io_uring_wait_cqe_timeout(void *ring, void *out, const struct timespec *timeout)
{
    URING(io_uring_wait_cqe_timeout);
    return PARKED(URING, seen && !is_zero(timeout), next_one(ring, out, timeout));
}

EXPORT int __io_uring_get_cqe(void *ring, void *out, unsigned submit, unsigned count,
                              const sigset_t *mask)
{
    URING(__io_uring_get_cqe);
    return PARKED(URING, seen && count > 0, next_one(ring, out, submit, count, mask));
}

void piano__park_each(void (*take)(const char *name, void *hook))
{
#define TAKE(name) take(#name, (void *)(name))
    TAKE(epoll_wait);
    TAKE(epoll_pwait);
    TAKE(epoll_pwait2);
    TAKE(poll);
    TAKE(ppoll);
    TAKE(__poll_chk);
    TAKE(__ppoll_chk);
    TAKE(select);
    TAKE(pselect);
    TAKE(pthread_cond_wait);
    TAKE(pthread_cond_timedwait);
    TAKE(pthread_cond_clockwait);
    TAKE(sem_wait);
    TAKE(sem_timedwait);
    TAKE(sem_clockwait);
}
