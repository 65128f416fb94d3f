/* The runtime alone: hand-written probes, each scenario in a forked child with a separate run, whose
 * run file (or live image, if the child died) is then read.
 *
 * not under thread: the runtime is read while it runs, on purpose, and forks under TSan. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/live.h"
#pragma GCC diagnostic ignored "-Wclobbered" /* the probe of a function that lands a longjmp */
#include "target/span/usable.h"
#include "target/span/valid.h"
#include "target/sys/check.h"
#include "tool/util/buf.h"
#include "temp.h"

enum { MAIN, TICK, LEAF, FIB, JUMP, WORK, HANDLER, FNS };

static struct __piano_fn fns[FNS] = {
    {"main", "t.c", 1, 0}, {"tick", "t.c", 2, 0}, {"leaf", "t.c", 3, 0},    {"fib", "t.c", 4, 0},
    {"jump", "t.c", 5, 0}, {"work", "t.c", 6, 0}, {"handler", "t.c", 7, 0},
};
static unsigned at[FNS];
static struct __piano_unit unit = {__piano_abi, FNS, fns, at, "", ""};

/* A declaration: NOLINTBEGIN(bugprone-macro-parentheses) */
#define PROBE(k)                                                                                   \
    void *probe_ __attribute__((cleanup(__piano_leave), unused)) = __piano_begin(&at[k])
/* NOLINTEND(bugprone-macro-parentheses) */

static char dir[256];
static volatile int sink;
static jmp_buf landing;

static __attribute__((noinline)) void leaf(void)
{
    PROBE(LEAF);
    sink++;
}

static __attribute__((noinline)) void tick(int leaves)
{
    PROBE(TICK);
    for (int i = 0; i < leaves; i++)
        leaf();
}

static __attribute__((noinline)) int fib(int n)
{
    PROBE(FIB);
    return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

static __attribute__((noinline)) void jump(void)
{
    PROBE(JUMP);
    leaf();
    longjmp(landing, 1);
}

static void *work(void *arg)
{
    PROBE(WORK);
    tick(10);
    return arg;
}

static void handler(int signal)
{
    (void)signal;
    PROBE(HANDLER);
    sink++;
}

/* Runs SCENARIO in a child. Returns its status, and all that it recorded as text. */
static int record(void (*scenario)(void), struct buf *text)
{
    temp_name(dir, sizeof dir, "piano-span-XXXXXX");
    assert_non_null(mkdtemp(dir));
    setenv("PIANO_RUNS_DIR", dir, 1);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        __piano_register(&unit);
        scenario();
        piano__check(piano__span_is_valid(piano__self_thread()));
        exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        const char *ending = strrchr(e->d_name, '.');
        if (ending && strcmp(ending, ".ndjson") == 0) {
            struct stat st;
            assert_int_equal(stat(path, &st), 0);
            assert_int_equal(st.st_mode & 0777, 0600);
            assert_int_equal(buf_read_file(text, path), 0);
        }
    }
    closedir(d);
    return status;
}

static void append(void *ctx, const char *text, size_t len)
{
    buf_put(ctx, text, len);
}

/* Adds the lines of the live image, removes the directory. */
static void finish(struct buf *text)
{
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (strstr(e->d_name, ".live")) {
            struct buf image = {0};
            assert_int_equal(buf_read_file(&image, path), 0);
            void *aligned = aligned_alloc(4096, (image.len + 4095) / 4096 * 4096);
            memcpy(aligned, image.data, image.len);
            assert_int_equal(
                piano__live_lines(aligned, image.len, (struct piano__written){0}, append, text), 0);
            free(aligned);
            buf_free(&image);
        }
        unlink(path);
    }
    if (d)
        closedir(d);
    rmdir(dir);
}

/* NEEDLE at FROM or later. Not strstr, because ASan measures the whole text for each call. */
static const char *next_of(const struct buf *text, const char *from, const char *needle)
{
    return from ? memmem(from, (size_t)(text->data + text->len - from), needle, strlen(needle))
                : NULL;
}

/* The sum of FIELD over all elements of function ID. */
static long long sum(const struct buf *text, int id, const char *field)
{
    char head[32], key[32];
    long long total = 0;
    snprintf(head, sizeof head, "{\"id\":%d,", id);
    snprintf(key, sizeof key, "\"%s\":", field);
    for (const char *s = text->data; (s = next_of(text, s, head)); s++) {
        const char *stop =
            next_of(text, s, "}"); /* no further: most have no such field, and the text is long */
        const char *value = stop ? memmem(s, (size_t)(stop - s), key, strlen(key)) : NULL;
        if (value)
            total += atoll(value + strlen(key));
    }
    return total;
}

static int count(const struct buf *text, const char *needle)
{
    int n = 0;
    for (const char *s = text->data; (s = next_of(text, s, needle)); s++)
        n++;
    return n;
}

static void many_calls(void)
{
    PROBE(MAIN);
    for (int i = 0; i < 100; i++)
        tick(20000);
}

static void test_every_call_is_counted(void **state)
{
    (void)state;
    struct buf text = {0};
    assert_int_equal(record(many_calls, &text), 0);
    finish(&text);
    assert_int_equal(sum(&text, LEAF, "calls"), 2000000);
    assert_int_equal(sum(&text, TICK, "calls"), 100);
    assert_int_equal(sum(&text, MAIN, "calls"), 1);
    assert_int_equal(count(&text, "\"root\":1,\"under\":0,\"start_ns\""),
                     100); /* the ticks are frames */
    assert_int_equal(count(&text, "{\"end\":true"), 1);
    assert_int_equal(count(&text, "\"demoted\":1}"), 0);
    long long self =
        sum(&text, LEAF, "self_ns") + sum(&text, TICK, "self_ns") + sum(&text, MAIN, "self_ns");
    long long total = sum(&text, MAIN, "total_ns");
    assert_true(llabs(self - total) < total / 100 + 1000); /* nothing is lost or invented */
    buf_free(&text);
}

static void recursion(void)
{
    PROBE(MAIN);
    for (int i = 0; i < 3; i++)
        sink = fib(24);
}

static void test_recursion_counts_once(void **state)
{
    (void)state;
    bool is_right = false;
    /* An interruption may be longer than a run of some milliseconds, but not repeatedly. */
    for (int try = 0; try < 5 && !is_right; try++) {
        struct buf text = {0};
        assert_int_equal(record(recursion, &text), 0);
        finish(&text);
        assert_int_equal(sum(&text, FIB, "calls"), 3 * 150049);
        int64_t fib = sum(&text, FIB, "total_ns"), all = sum(&text, MAIN, "total_ns");
        /* Counted on every level it would be about twenty times as much; an estimate may be slightly wrong. */
        is_right = fib <= 2 * all && fib >= all / 2;
        buf_free(&text);
    }
    assert_true(is_right);
}

static long counted_out_of_line;

static __attribute__((noinline)) int looking_fib(int n)
{
    PROBE(FIB);
    const struct __piano_head *head = (struct __piano_head *)((char *)__piano_self + at[FIB]);
    counted_out_of_line += head->left < 0;
    return n < 2 ? n : looking_fib(n - 1) + looking_fib(n - 2);
}

static void deep_samples(void)
{
    PROBE(MAIN);
    for (int i = 0; i < 3; i++)
        sink = looking_fib(24);
    exit(counted_out_of_line > 0);
}

/* A sampled call far up has thousands of calls of itself below it. */
static void test_calls_inside_a_sample_are_counted_inline(void **state)
{
    (void)state;
    struct buf text = {0};
    assert_int_equal(record(deep_samples, &text), 0);
    finish(&text);
    assert_int_equal(sum(&text, FIB, "calls"), 3 * 150049);
    assert_true(sum(&text, FIB, "timed") < 150049); /* there were samples */
    buf_free(&text);
}

/* In a long sample of a recursive function all calls below it are counted, some of them out of line. */
static void a_long_count(void)
{
    enum { CALLS = 4000000, COST = 4000 };
    PROBE(MAIN);
    const struct piano__thread *t = (const void *)__piano_self;
    struct __piano_head *head = (struct __piano_head *)((char *)__piano_self + at[FIB]);
    head->each = piano__each(3, COST);
    head->left = head->given = INT32_MAX;
    int64_t before = t->overhead + piano__each_cost(t->counted);
    int64_t attributed = t->attributed + piano__each_self(t->counted);
    for (int i = 0; i < CALLS; i++)
        (void)__piano_enter(at[FIB]);
    bool is_right = t->overhead + piano__each_cost(t->counted) - before == (int64_t)CALLS * COST &&
                    t->attributed + piano__each_self(t->counted) - attributed == 3 * CALLS;
    exit(is_right ? 0 : 1);
}

static void test_sum_of_counted_calls_does_not_overflow(void **state)
{
    (void)state;
    struct buf text = {0};
    assert_int_equal(record(a_long_count, &text), 0);
    buf_free(&text);
}

static void jumps(void)
{
    PROBE(MAIN);
    for (volatile int i = 0; i < 10000; i++)
        if (setjmp(landing) == 0)
            jump();
    tick(1);
}

static __attribute__((noinline)) int leaving_fib(int n, bool leaves)
{
    PROBE(FIB);
    if (n < 2 && leaves)
        longjmp(landing, 1);
    return n < 2 ? n : leaving_fib(n - 1, leaves) + leaving_fib(n - 2, leaves);
}

/* It lands in code without probes, so only later calls can detect it. */
static void leaves(void)
{
    for (volatile int i = 0; i < 200000; i++) {
        if (setjmp(landing) == 0)
            sink = leaving_fib(3, i % 32 == 31);
        for (volatile int pause = 0; pause < 300; pause++)
            ;
    }
}

/* Time waiting for a CPU does not count, because the thread may lose the CPU in a pause, before
 * the runtime detects that the call was left. */
static void test_timed_call_left_by_longjmp_is_closed(void **state)
{
    (void)state;
    struct buf text = {0};
    assert_int_equal(record(leaves, &text), 0);
    finish(&text);
    assert_int_equal(sum(&text, FIB, "calls"), 200000 / 32 * (31 * 5 + 3));
    assert_true(sum(&text, FIB, "timed") < 500000); /* there were samples */
    const char *end = strstr(text.data, "{\"end\":true,\"wall_ns\":");
    assert_non_null(end);
    long long wall = atoll(strchr(end, ',') + strlen(",\"wall_ns\":"));
    long long self = sum(&text, FIB, "self_ns") - sum(&text, FIB, "runq_ns");
    buf_free(&text);
    assert_true(self < wall / 2); /* the pauses are not its own */
}

static void test_longjmp_leaves_no_dead_calls(void **state)
{
    (void)state;
    struct buf text = {0};
    assert_int_equal(record(jumps, &text), 0);
    finish(&text);
    assert_int_equal(sum(&text, JUMP, "calls"), 10000);
    assert_int_equal(sum(&text, LEAF, "calls"), 10001);
    assert_non_null(strstr(text.data, "\"depth\":0,\"write\":0"));
    buf_free(&text);
}

static void killed(void)
{
    PROBE(MAIN);
    for (int i = 0; i < 100; i++)
        tick(1000);
    kill(getpid(), SIGKILL);
}

static void test_a_kill_loses_nothing(void **state)
{
    (void)state;
    struct buf text = {0};
    int status = record(killed, &text);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    finish(&text);
    assert_int_equal(sum(&text, LEAF, "calls"), 100000);
    assert_int_equal(sum(&text, TICK, "calls"), 100);
    assert_int_equal(sum(&text, MAIN, "calls"), 1);
    assert_int_equal(count(&text, "{\"end\":true"), 0);
    assert_int_equal(count(&text, "{\"recovered\":true"), 1);
    buf_free(&text);
}

static void exits_inside(void)
{
    PROBE(MAIN);
    tick(10);
    exit(7);
}

static void test_exit_closes_open_calls(void **state)
{
    (void)state;
    struct buf text = {0};
    int status = record(exits_inside, &text);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    finish(&text);
    assert_int_equal(sum(&text, MAIN, "calls"), 1);
    assert_true(sum(&text, MAIN, "total_ns") > 0);
    assert_true(sum(&text, MAIN, "total_ns") >= sum(&text, TICK, "total_ns"));
    buf_free(&text);
}

static void threads(void)
{
    PROBE(MAIN);
    for (int i = 0; i < 200; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, work, NULL) == 0)
            pthread_join(thread, NULL);
    }
}

static void test_calls_of_ended_threads_are_in_the_run(void **state)
{
    (void)state;
    struct buf text = {0};
    assert_int_equal(record(threads, &text), 0);
    finish(&text);
    assert_int_equal(sum(&text, WORK, "calls"), 200);
    assert_int_equal(sum(&text, LEAF, "calls"), 2000);
    assert_int_equal(count(&text, "\"end_ns\""), 201);
    buf_free(&text);
}

static void signals(void)
{
    PROBE(MAIN);
    signal(SIGUSR1, handler);
    for (int i = 0; i < 1000; i++) {
        tick(5);
        raise(SIGUSR1);
    }
}

static void test_signal_handlers_are_seen(void **state)
{
    (void)state;
    struct buf text = {0};
    assert_int_equal(record(signals, &text), 0);
    finish(&text);
    assert_int_equal(sum(&text, HANDLER, "calls"), 1000);
    assert_int_equal(sum(&text, LEAF, "calls"), 5000);
    buf_free(&text);
}

static void runaway(void)
{
    for (int i = 0; i < 5000000; i++)
        leaf();
}

static void test_tiny_frames_do_not_fill_the_disk(void **state)
{
    (void)state;
    struct buf text = {0};
    assert_int_equal(record(runaway, &text), 0);
    finish(&text);
    assert_int_equal(sum(&text, LEAF, "calls"), 5000000);
    assert_true(text.len < 16 << 20);
    assert_true(count(&text, "{\"demoted\":2}") >= 1); /* again after a disturbed call */
    buf_free(&text);
}

static __attribute__((noinline)) void allocate(void)
{
    PROBE(TICK);
    __piano_count_alloc(10);
    __piano_count_free(8);
}

static void allocations(void)
{
    PROBE(MAIN);
    __piano_count_alloc(100);
    for (int i = 0; i < 50; i++)
        allocate();
    __piano_count_alloc(1);
}

static void test_allocations_go_to_the_innermost(void **state)
{
    (void)state;
    struct buf text = {0};
    assert_int_equal(record(allocations, &text), 0);
    finish(&text);
    assert_int_equal(sum(&text, MAIN, "ac"), 2);
    assert_int_equal(sum(&text, MAIN, "ab"), 101);
    assert_int_equal(sum(&text, TICK, "ac"), 50);
    assert_int_equal(sum(&text, TICK, "ab"), 500);
    assert_int_equal(sum(&text, TICK, "fc"), 50);
    assert_int_equal(sum(&text, TICK, "fb"), 400);
    buf_free(&text);
}

static void forks(void)
{
    PROBE(MAIN);
    tick(10);
    pid_t child = fork();
    if (child == 0) {
        tick(1000);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    tick(10);
}

/* The child's run is another file; both are read here. */
static void test_a_fork_leaves_the_parent_alone(void **state)
{
    (void)state;
    struct buf text = {0};
    assert_int_equal(record(forks, &text), 0);
    finish(&text);
    assert_int_equal(sum(&text, MAIN, "calls"), 1);
    assert_int_equal(sum(&text, TICK, "calls"), 3);
    assert_int_equal(sum(&text, LEAF, "calls"), 1020);
    assert_int_equal(count(&text, "{\"end\":true"), 1);
    buf_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_call_is_counted),
        cmocka_unit_test(test_recursion_counts_once),
        cmocka_unit_test(test_calls_inside_a_sample_are_counted_inline),
        cmocka_unit_test(test_sum_of_counted_calls_does_not_overflow),
        cmocka_unit_test(test_longjmp_leaves_no_dead_calls),
        cmocka_unit_test(test_timed_call_left_by_longjmp_is_closed),
        cmocka_unit_test(test_a_kill_loses_nothing),
        cmocka_unit_test(test_exit_closes_open_calls),
        cmocka_unit_test(test_calls_of_ended_threads_are_in_the_run),
        cmocka_unit_test(test_signal_handlers_are_seen),
        cmocka_unit_test(test_tiny_frames_do_not_fill_the_disk),
        cmocka_unit_test(test_allocations_go_to_the_innermost),
        cmocka_unit_test(test_a_fork_leaves_the_parent_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
