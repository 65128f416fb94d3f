"""Waits in unmodified programs: epoll, poll, select, condition variables, semaphores and liburing.
Results, errno, cancellation and jumps are as without piano.
"""
from __future__ import annotations

import os
from pathlib import Path

import pytest

from conftest import LIB, PRELOAD, Done, Project
from events import Recording, compile, parks, record

WAITS = r"""
#if !__GLIBC_PREREQ(2, 35) /* has no epoll_pwait2 */
#define epoll_pwait2(epoll, got, most, t, mask) epoll_pwait(epoll, got, most, (t)->tv_nsec / 1000000, mask)
#endif
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int turn;

static void *other(void *arg)
{
    pthread_mutex_lock(&mutex);
    turn = 1;
    pthread_cond_signal(&cond);
    pthread_mutex_unlock(&mutex);
    return NULL;
}

static struct timespec in_ms(clockid_t clock, long ms)
{
    struct timespec t;
    clock_gettime(clock, &t);
    t.tv_nsec += ms * 1000000;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

int main(void)
{
    int fds[2], epoll = epoll_create1(0);
    struct epoll_event e = {.events = EPOLLIN, .data.fd = 5}, got[4];
    struct timespec ms = {0, 1000000}, zero = {0, 0}, until, bad = {0, -1};
    struct timeval tv = {0, 1000}, none = {0, 0};
    sigset_t mask;
    sigemptyset(&mask);
    CHECK(pipe(fds) == 0);
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, fds[0], &e) == 0);
    struct pollfd p = {fds[0], POLLIN, 0};

    /* These calls do not wait. */
    CHECK(epoll_wait(epoll, got, 4, 0) == 0);
    CHECK(epoll_pwait(epoll, got, 4, 0, &mask) == 0);
    CHECK(epoll_pwait2(epoll, got, 4, &zero, &mask) == 0);
    CHECK(poll(&p, 1, 0) == 0);
    CHECK(ppoll(&p, 1, &zero, &mask) == 0);
    CHECK(select(0, NULL, NULL, NULL, &none) == 0);
    CHECK(pselect(0, NULL, NULL, NULL, &zero, &mask) == 0);

    CHECK(epoll_wait(epoll, got, 4, 1) == 0);
    CHECK(epoll_pwait(epoll, got, 4, 1, &mask) == 0);
    CHECK(epoll_pwait2(epoll, got, 4, &ms, &mask) == 0);
    CHECK(poll(&p, 1, 1) == 0);
    CHECK(ppoll(&p, 1, &ms, &mask) == 0);
    CHECK(select(0, NULL, NULL, NULL, &tv) == 0);
    CHECK(pselect(0, NULL, NULL, NULL, &ms, &mask) == 0);
    CHECK(write(fds[1], "x", 1) == 1);
    CHECK(epoll_wait(epoll, got, 4, -1) == 1 && got[0].data.fd == 5);
    CHECK(poll(&p, 1, -1) == 1 && p.revents == POLLIN);
    fd_set in;
    FD_ZERO(&in);
    FD_SET(fds[0], &in);
    CHECK(select(fds[0] + 1, &in, NULL, NULL, NULL) == 1 && FD_ISSET(fds[0], &in));
    errno = 0;
    CHECK(epoll_wait(-1, got, 4, -1) == -1 && errno == EBADF);
    errno = 77;
    CHECK(poll(&p, 1, -1) == 1 && errno == 77);

    pthread_t thread;
    pthread_mutex_lock(&mutex);
    pthread_create(&thread, NULL, other, NULL);
    CHECK(pthread_cond_wait(&cond, &mutex) == 0 && turn == 1);
    pthread_join(thread, NULL);
    until = in_ms(CLOCK_REALTIME, 1);
    CHECK(pthread_cond_timedwait(&cond, &mutex, &until) == ETIMEDOUT);
    until = in_ms(CLOCK_MONOTONIC, 1);
    CHECK(pthread_cond_clockwait(&cond, &mutex, CLOCK_MONOTONIC, &until) == ETIMEDOUT);
    CHECK(pthread_cond_timedwait(&cond, &mutex, &bad) == EINVAL);
    pthread_mutex_unlock(&mutex);

    sem_t sem;
    sem_init(&sem, 0, 3);
    errno = 78;
    CHECK(sem_wait(&sem) == 0 && errno == 78); /* available at once: no wait */
    CHECK(sem_timedwait(&sem, &until) == 0);
    CHECK(sem_timedwait(&sem, &bad) == -1 && errno == EINVAL); /* invalid timeout, although the semaphore is available */
    CHECK(sem_clockwait(&sem, 99, &until) == -1 && errno == EINVAL);
    CHECK(sem_clockwait(&sem, CLOCK_MONOTONIC, &until) == 0);
    until = in_ms(CLOCK_REALTIME, 1);
    CHECK(sem_timedwait(&sem, &until) == -1 && errno == ETIMEDOUT);
    until = in_ms(CLOCK_MONOTONIC, 1);
    CHECK(sem_clockwait(&sem, CLOCK_MONOTONIC, &until) == -1 && errno == ETIMEDOUT);
    return 0;
}
"""

WAITED = [("epoll", 1)] * 3 + [("poll", 1)] * 2 + [("select", 1)] * 2 + [
    ("epoll", 2), ("poll", 2), ("select", 2), ("epoll", 0), ("poll", 2),
    ("condition", 1), ("condition", 111), ("condition", 111), ("condition", 23),
    ("semaphore", 0), ("semaphore", 0), ("semaphore", 0), ("semaphore", 0)]


def test_blocking_calls_are_recorded_as_parks(project: Project) -> None:
    program = compile(project, WAITS)
    project.command(program)  # correct without piano
    r, _ = record(project, program)
    assert parks(r) == WAITED
    assert {e.tid for e in r.events} == {r.pid}
    project.command(program, env={"LD_PRELOAD": PRELOAD})


def test_fortified_calls_are_recorded_as_parks(project: Project) -> None:
    program = compile(project, r"""
        int main(int argc, char **argv)
        {
            struct pollfd fds[4] = {{-1}, {-1}, {-1}, {-1}};
            struct timespec ms = {0, 1000000};
            nfds_t many = argc;
            CHECK(poll(fds, many, 1) == 0);
            CHECK(ppoll(fds, many, &ms, NULL) == 0);
            return 0;
        }
    """, "-D_FORTIFY_SOURCE=2")
    assert "__poll_chk" in project.command("nm", "-D", program).out
    r, _ = record(project, program)
    assert parks(r) == [("poll", 1), ("poll", 1)]


def test_time_between_parks(project: Project) -> None:
    """A wait of 20 ms has that length in the recording, after the conversion of ticks."""
    program = compile(project, r"""
        int main(void)
        {
            struct timespec a, b;
            clock_gettime(CLOCK_MONOTONIC, &a);
            poll(NULL, 0, 20);
            clock_gettime(CLOCK_MONOTONIC, &b);
            printf("%lld %lld\n", a.tv_sec * 1000000000LL + a.tv_nsec, b.tv_sec * 1000000000LL + b.tv_nsec);
            return 0;
        }
    """)
    r, done = record(project, program)
    before, after = map(int, done.out.split())
    park, unpark = r.of("park", "unpark")
    slack = 2000  # error of the conversion
    assert before - slack <= park.ns and unpark.ns <= after + slack
    assert unpark.ns - park.ns >= 20e6 - slack


CANCELLED = r"""
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static sem_t sem, ready;
static int cleaned, epoll;

static void clean(void *arg)
{
    cleaned++;
    if (arg)
        pthread_mutex_unlock(arg);
}

static void *wait_for_ever(void *arg)
{
    struct epoll_event e;
    pthread_mutex_lock(&mutex);
    pthread_mutex_t *held = strcmp(arg, "condition") == 0 ? &mutex : NULL;
    if (!held)
        pthread_mutex_unlock(&mutex);
    pthread_cleanup_push(clean, held);
    sem_post(&ready);
    if (strcmp(arg, "condition") == 0)
        for (;;)
            pthread_cond_wait(&cond, &mutex);
    if (strcmp(arg, "semaphore") == 0)
        sem_wait(&sem);
    if (strcmp(arg, "epoll") == 0)
        epoll_wait(epoll, &e, 1, -1);
    if (strcmp(arg, "poll") == 0)
        poll(NULL, 0, -1);
    if (strcmp(arg, "select") == 0)
        select(0, NULL, NULL, NULL, NULL);
    pthread_cleanup_pop(0);
    return NULL;
}

int main(int argc, char **argv)
{
    sem_init(&sem, 0, 0);
    sem_init(&ready, 0, 0);
    epoll = epoll_create1(0);
    for (int i = 1; i < argc; i++) {
        pthread_t thread;
        void *result = NULL;
        pthread_create(&thread, NULL, wait_for_ever, argv[i]);
        sem_wait(&ready);
        CHECK(pthread_cancel(thread) == 0);
        CHECK(pthread_join(thread, &result) == 0);
        CHECK(result == PTHREAD_CANCELED && cleaned == i);
        CHECK(pthread_mutex_trylock(&mutex) == 0);
        pthread_mutex_unlock(&mutex);
    }
    return 0;
}
"""


def test_a_wait_can_be_cancelled(project: Project) -> None:
    kinds = ["condition", "semaphore", "epoll", "poll", "select"] * 4
    program = compile(project, CANCELLED)
    project.command(program, *kinds)
    r, _ = record(project, program, *kinds)
    waits = [parks(r, tid) for tid in {e.tid for e in r.events} - {r.pid}]
    # cancelled before or during the wait
    assert all(len(wait) <= 1 for wait in waits)
    assert all(result == 0 for wait in waits for _, result in wait)


def test_a_handler_may_jump_out(project: Project) -> None:
    program = compile(project, r"""
        static sigjmp_buf out;
        static void handler(int number) { siglongjmp(out, 1); }
        int main(void)
        {
            struct itimerval soon = {{0, 0}, {0, 20000}};
            signal(SIGALRM, handler);
            if (sigsetjmp(out, 1) == 0) {
                setitimer(ITIMER_REAL, &soon, NULL);
                poll(NULL, 0, -1);
                return 1;
            }
            CHECK(select(0, NULL, NULL, NULL, &(struct timeval){0, 1000}) == 0);
            return 0;
        }
    """)
    r, _ = record(project, program)
    assert parks(r) == [("poll", 0), ("select", 1)]


URING = r"""
struct io_uring_cqe;
int io_uring_queue_init(unsigned, void *, unsigned);
int io_uring_wait_cqes(void *, void *, unsigned, void *, void *);
int io_uring_wait_cqe_timeout(void *, void *, void *);
int io_uring_submit_and_wait(void *, unsigned);
int io_uring_submit_and_wait_timeout(void *, void *, unsigned, void *, void *);
int __io_uring_get_cqe(void *, void *, unsigned, unsigned, void *);
int use_uring(void)
{
    static char ring[4096];
    struct io_uring_cqe *cqe;
    long long ms[2] = {0, 1000000};
    int err = io_uring_queue_init(8, ring, 0);
    if (err < 0) {
        printf("no io_uring: %s\n", strerror(-err));
        return 0;
    }
    CHECK(io_uring_submit_and_wait(ring, 0) == 0);
    CHECK(__io_uring_get_cqe(ring, &cqe, 0, 0, NULL) == -EAGAIN);
    CHECK(io_uring_wait_cqes(ring, &cqe, 1, ms, NULL) == -ETIME);
    CHECK(io_uring_wait_cqe_timeout(ring, &cqe, ms) == -ETIME);
    CHECK(io_uring_submit_and_wait_timeout(ring, &cqe, 1, ms, NULL) == -ETIME);
    return 0;
}
"""


def uring_library() -> str:
    for folder in ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"):
        library = Path(f"{folder}/liburing.so.2")
        if library.exists() and b"io_uring_submit_and_wait_timeout" in library.read_bytes():
            return str(library)
    pytest.skip("liburing.so.2 of version 2.2 or newer is not installed")


def check_uring(r: Recording, done: Done) -> None:
    if "no io_uring" in done.out:
        pytest.skip(done.out.strip())
    assert parks(r) == [("uring", 0)] * 3


def test_liburing_waits_are_recorded_as_parks(project: Project) -> None:
    program = compile(project, URING + "int main(void) { return use_uring(); }", uring_library())
    check_uring(*record(project, program))


def test_liburing_of_a_loaded_library_is_recorded(project: Project) -> None:
    compile(project, URING, "-shared", "-fPIC", uring_library(), name="user.so")
    program = compile(project, r"""
        #include <dlfcn.h>
        int main(void)
        {
            void *library = dlopen("./user.so", RTLD_NOW | RTLD_LOCAL);
            CHECK(library);
            int (*use)(void) = dlsym(library, "use_uring");
            return use();
        }
    """)
    check_uring(*record(project, program))


def test_liburing_that_is_unloaded_and_loaded_is_recorded(project: Project) -> None:
    """A library with that name, unloaded and loaded again at another address: its functions are those that are there now."""
    compile(project, "int io_uring_submit_and_wait(void *ring, unsigned count) { return (int)count; }", "-shared", "-fPIC",
            "-Wl,-soname,liburing.so.2", name="liburing.so.2")
    compile(project, "int io_uring_submit_and_wait(void *, unsigned); int use(void) { return io_uring_submit_and_wait(0, 7); }",
            "-shared", "-fPIC", "./liburing.so.2", f"-Wl,-rpath,{project.root}", name="user.so")
    program = compile(project, r"""
        #include <dlfcn.h>
        #include <sys/mman.h>
        int main(void)
        {
            for (int i = 0; i < 3; i++) {
                Dl_info info;
                void *library = dlopen("./user.so", RTLD_NOW | RTLD_LOCAL);
                CHECK(library);
                int (*use)(void) = dlsym(library, "use");
                CHECK(use() == 7);
                void *uring = dlopen("liburing.so.2", RTLD_NOW | RTLD_NOLOAD);
                CHECK(dladdr(dlsym(uring, "io_uring_submit_and_wait"), &info));
                dlclose(uring);
                dlclose(library);
                for (int k = 0; k < 16; k++)
                    mmap((char *)info.dli_fbase + k * 4096, 4096, PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
            }
            return 0;
        }
    """)
    r, _ = record(project, program)
    assert parks(r) == [("uring", 8)] * 3
