/* Events of the trace, read back from the file (event_file.h): all kinds with all sorts of values, more than a chunk
 * holds, sixteen threads at once, thousands one after another, signals in the middle of events, forks. Runs under ASan, UBSan and TSan. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "emulated.h"
#include "event_file.h"
#include "piano.h"
#include "target/trace/buffers.h"
#include "target/trace/events.h"

static void expect(const struct event *e, uint8_t code, int count, uint64_t a, uint64_t b,
                   uint64_t c)
{
    const uint64_t fields[] = {a, b, c};
    assert_int_equal(e->code, code);
    assert_int_equal(e->count, count);
    for (int i = 0; i < count && i < 3; i++)
        assert_true(e->fields[i] == fields[i]);
    assert_int_equal(e->tid, syscall(SYS_gettid));
}

static void test_every_event_comes_back(void **state)
{
    (void)state;
    piano_worker_start(UINT64_MAX, "worker");
    piano_task_spawn(1, "task", "here.c:12");
    piano_task_spawn(0, NULL, NULL);
    piano_poll_begin(127);
    piano_wake(128);
    piano_queue_depth(UINT64_MAX - 1, 1u << 31);
    piano_poll_end();
    piano_park();
    piano_unpark();
    piano__events_park(PIANO_PARK_EPOLL);
    piano__events_unpark(0);
    piano__events_unpark(INT64_MAX);
    piano__events_callback_begin((uint64_t)1 << 63, "callback", 0);
    piano__events_callback_begin_by(2, 77);
    piano_mark("mark");
    piano_value("value", -1);
    piano_value("value", INT64_MIN);
    piano_value("value", INT64_MAX);
    piano_task_end(1);
    piano_worker_stop();
    struct file f = read_events();
    const struct event *e = f.events;
    assert_int_equal(f.count, 20);
    assert_int_equal(header()->trace.events, 20);
    expect(e++, PIANO_EVENT_WORKER_START, 2, UINT64_MAX, 1, 0);
    expect(e++, PIANO_EVENT_TASK_SPAWN, 3, 1, 2, 3);
    expect(e++, PIANO_EVENT_TASK_SPAWN, 3, 0, 0, 0);
    expect(e++, PIANO_EVENT_TASK_END, 1, 1, 0, 0);
    expect(e++, PIANO_EVENT_WORKER_STOP, 0, 0, 0, 0);
    expect(e++, PIANO_EVENT_POLL_BEGIN, 2, 127, 0, 0);
    expect(e++, PIANO_EVENT_WAKE, 1, 128, 0, 0);
    expect(e++, PIANO_EVENT_QUEUE, 2, UINT64_MAX - 1, 1u << 31, 0);
    expect(e++, PIANO_EVENT_POLL_END, 0, 0, 0, 0);
    expect(e++, PIANO_EVENT_PARK, 1, PIANO_PARK_API, 0, 0);
    expect(e++, PIANO_EVENT_UNPARK, 1, 0, 0, 0);
    expect(e++, PIANO_EVENT_PARK, 1, PIANO_PARK_EPOLL, 0, 0);
    expect(e++, PIANO_EVENT_UNPARK, 1, 1, 0, 0);
    expect(e++, PIANO_EVENT_UNPARK, 1, (uint64_t)1 << 63, 0, 0);
    expect(e++, PIANO_EVENT_POLL_BEGIN, 2, (uint64_t)1 << 63, 4, 0);
    expect(e++, PIANO_EVENT_POLL_BEGIN, 2, 2, 77, 0);
    expect(e++, PIANO_EVENT_MARK, 1, 5, 0, 0);
    expect(e++, PIANO_EVENT_VALUE, 2, 6, 1, 0);
    expect(e++, PIANO_EVENT_VALUE, 2, 6, UINT64_MAX, 0);
    expect(e++, PIANO_EVENT_VALUE, 2, 6, UINT64_MAX - 1, 0);
    static const char *const names[] = {"worker", "task", "here.c:12", "callback", "mark", "value"};
    for (unsigned i = 0; i < 6; i++)
        assert_string_equal(name_of(&f, i + 1), names[i]);
    release(&f);
}

static void test_the_header_tells_the_clock(void **state)
{
    (void)state;
    const struct piano__rec_header *h = header();
    assert_true(h->flags & PIANO_REC_HAS_EVENTS);
    assert_false(h->flags & PIANO_REC_HAS_HEAP);
    assert_int_equal(h->state, PIANO_REC_ACTIVE);
    assert_true(h->trace.start_ticks > 0 && h->start_mono_ns > 0);
    piano_mark("x");
    struct file f = read_events();
    assert_true(f.events[0].ticks >= h->trace.start_ticks);
    if (!h->trace.has_counter)
        assert_int_equal(h->trace.start_ticks, h->start_mono_ns);
    release(&f);
}

static void test_poll_events_take_at_most_12_bytes(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 1000; i++) {
        piano_poll_begin(i);
        piano_poll_end();
    }
    struct file f = read_events();
    uint64_t bytes = 0;
    for (size_t i = 0; i < f.count; i++)
        bytes += f.events[i].bytes;
    assert_int_equal(f.count, 2000);
    assert_true(bytes <= 12 * f.count);
    release(&f);
}

static void test_events_beyond_one_chunk_are_kept(void **state)
{
    (void)state;
    enum { MANY = 100000 };
    for (uint64_t i = 0; i < MANY; i++)
        piano_queue_depth(5, i);
    struct file f = read_events();
    assert_true(f.chunks > 8);
    assert_int_equal(count_in_order(&f, (uint32_t)getpid(), 0), MANY);
    assert_int_equal(header()->trace.events, MANY);
    assert_int_equal(header()->trace.recycled, 0);
    release(&f);
}

struct worker {
    pthread_t thread;
    uint64_t count;
    uint32_t tid;
};

static void *work(void *of)
{
    struct worker *w = of;
    w->tid = (uint32_t)syscall(SYS_gettid);
    char name[32];
    for (uint64_t i = 0; i < w->count; i++) {
        snprintf(name, sizeof name, "name %d", (int)(i % 50));
        piano_queue_depth(5, i);
        piano_mark(name);
    }
    return NULL;
}

static void test_threads_do_not_mix(void **state)
{
    (void)state;
    enum { THREADS = 16, EACH = 10000 };
    struct worker workers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        workers[i].count = EACH;
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    struct file f = read_events();
    size_t switches = 0;
    for (size_t i = 0; i < f.count; i++)
        switches += f.events[i].code == PIANO_EVENT_THREAD;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(count_in_order(&f, workers[i].tid, 0), EACH);
    assert_int_equal(header()->trace.events, 2 * THREADS * EACH + switches);
    for (uint64_t id = 1; id <= 50; id++)
        assert_non_null(name_of(&f, id));
    assert_null(name_of(&f, 51));
    release(&f);
}

static void *be_short(void *of)
{
    struct worker *w = of;
    w->tid = (uint32_t)syscall(SYS_gettid);
    pthread_setname_np(pthread_self(), "short");
    piano_worker_start(w->count, "short one");
    piano_poll_begin(w->count);
    piano_poll_end();
    pthread_setname_np(pthread_self(), "renamed");
    return NULL;
}

static void test_short_threads_share_a_chunk(void **state)
{
    (void)state;
    enum { THREADS = 3000 };
    static struct worker workers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        workers[i].count = (uint64_t)i;
        assert_int_equal(pthread_create(&workers[i].thread, NULL, be_short, &workers[i]), 0);
        pthread_join(workers[i].thread, NULL);
    }
    struct file f = read_events();
    size_t started = 0, at = 0;
    assert_true(f.chunks <= 4);
    for (int i = 0; i < THREADS; i++) {
        while (f.events[started].code != PIANO_EVENT_WORKER_START)
            started++;
        while (f.events[at].code != PIANO_EVENT_POLL_BEGIN)
            at++;
        assert_int_equal(f.events[started].tid, workers[i].tid);
        assert_int_equal(f.events[started].fields[0], i);
        assert_int_equal(f.events[at].tid, workers[i].tid);
        assert_int_equal(f.events[at + 1].code, PIANO_EVENT_POLL_END);
        started++;
        at += 2;
    }
    assert_int_equal(at, f.count);
    assert_string_equal(thread_of(&f, workers[THREADS - 1].tid)->name, "renamed");
    assert_int_equal(thread_of(&f, workers[0].tid)->pid, getpid());
    release(&f);
}

static volatile sig_atomic_t handled;

static void on_signal(int number)
{
    (void)number;
    piano_mark("from a handler");
    handled++;
}

static uint32_t enough;

static void *send_signals(void *to)
{
    while (!__atomic_load_n(&enough, __ATOMIC_ACQUIRE))
        pthread_kill(*(pthread_t *)to, SIGUSR1);
    return NULL;
}

/* Each event is either written or counted as dropped. */
static void test_events_of_signal_handlers_are_written_or_counted_as_dropped(void **state)
{
    (void)state;
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, old;
    pthread_t self = pthread_self(), sender;
    uint64_t written = 0;
    sigset_t none;
    sigemptyset(&none);
    handled = 0;
    sigaction(SIGUSR1, &action, &old);
    assert_int_equal(pthread_create(&sender, NULL, send_signals, &self), 0);
    for (sig_atomic_t before = -1; handled < 300; written++) {
        piano_queue_depth(5, written);
        piano_mark("from the program");
        if (written % 4096 ==
            0) { /* the sender may get no CPU for a long time, and a recording is limited */
            while (handled == before)
                sigsuspend(&none); /* another one follows */
            before = handled;
        }
    }
    __atomic_store_n(&enough, 1, __ATOMIC_RELEASE);
    pthread_join(sender, NULL);
    sigaction(SIGUSR1, &old, NULL);
    struct file f = read_events();
    size_t marks = 0;
    for (size_t i = 0; i < f.count; i++)
        marks += f.events[i].code == PIANO_EVENT_MARK;
    assert_int_equal(count_in_order(&f, (uint32_t)getpid(), 0), written);
    assert_int_equal(marks + header()->trace.dropped_busy, written + (uint64_t)handled);
    release(&f);
}

static void test_a_handler_in_an_event_is_dropped(void **state)
{
    (void)state;
    piano_mark("before");
    piano__events_self.inside = 1;
    piano_mark("inside");
    assert_int_equal(piano__events_name("inside"), 0);
    piano__events_self.inside = 0;
    piano_mark("after");
    struct file f = read_events();
    assert_int_equal(f.count, 2);
    assert_int_equal(header()->trace.dropped_busy, 1);
    release(&f);
}

static int exit_of(pid_t child)
{
    int status = -1;
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_forked_child_writes_no_events(void **state)
{
    (void)state;
    need_wipe_on_fork();
    piano_mark("parent");
    pid_t child = fork();
    if (child == 0) {
        piano_mark("child");
        _exit(piano__events_on() ? 1 : 7);
    }
    assert_int_equal(exit_of(child), 7);
    child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); /* without the C library's knowledge */
    if (child == 0) {
        for (int i = 0; i < 50000; i++)
            piano_mark("raw child");
        _exit(piano__events_on() ? 1 : 7);
    }
    assert_int_equal(exit_of(child), 7);
    piano_mark("parent");
    struct file f = read_events();
    assert_int_equal(f.count, 2);
    assert_int_equal(f.events[1].fields[0], 1);
    assert_null(name_of(&f, 2));
    release(&f);
}

/* A signal handler forks while the thread is inside an event: the child completes the event in its own memory. */
static void test_fork_inside_an_event_leaves_the_parent_recording_unchanged(void **state)
{
    (void)state;
    piano_mark("before");
    uint8_t *at = piano__events_self.buffer->ring.at;
    piano__events_self.inside = 1;
    pid_t child = fork();
    if (child == 0) {
        memset(at, 0xff, 8);
        piano__events_self.buffer->ring.chunk->used += 8;
        piano__events_self.inside = 0;
        piano_mark("nothing");
        _exit(piano__events_on() ? 1 : 7);
    }
    piano__events_self.inside = 0;
    assert_int_equal(exit_of(child), 7);
    struct file f = read_events();
    assert_int_equal(f.count, 1);
    release(&f);
}

static void test_nothing_without_a_recording(void **state)
{
    (void)state;
    piano_worker_start(1, "nobody");
    piano_poll_begin(1);
    piano_poll_end();
    piano_park();
    piano_unpark();
    assert_int_equal(piano__events_name("nobody"), 0);
    assert_null(piano__events_self.buffer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_without_a_recording),
        cmocka_unit_test_setup_teardown(test_every_event_comes_back, begin, end),
        cmocka_unit_test_setup_teardown(test_the_header_tells_the_clock, begin, end),
        cmocka_unit_test_setup_teardown(test_poll_events_take_at_most_12_bytes, begin, end),
        cmocka_unit_test_setup_teardown(test_events_beyond_one_chunk_are_kept, begin, end),
        cmocka_unit_test_setup_teardown(test_threads_do_not_mix, begin, end),
        cmocka_unit_test_setup_teardown(test_short_threads_share_a_chunk, begin, end),
        cmocka_unit_test_setup_teardown(
            test_events_of_signal_handlers_are_written_or_counted_as_dropped, begin, end),
        cmocka_unit_test_setup_teardown(test_a_handler_in_an_event_is_dropped, begin, end),
        cmocka_unit_test_setup_teardown(test_forked_child_writes_no_events, begin, end),
        cmocka_unit_test_setup_teardown(
            test_fork_inside_an_event_leaves_the_parent_recording_unchanged, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
