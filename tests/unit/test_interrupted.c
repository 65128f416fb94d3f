/* The runtime, interrupted by a signal at any of its instructions.
 *
 * A child runs a scenario. Between two marks it is stepped, one instruction at a time, and after a number of them something
 * happens: a handler that calls exit(), siglongjmp() or loads a library, or SIGKILL. This is repeated for many numbers. For
 * handlers the child steps itself by the trap flag, and the handler of SIGTRAP is the handler. For SIGKILL, and where there is no
 * trap flag, the parent steps it by ptrace.
 *
 * not under thread: the children are forked, and TSan delays signals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "common/live.h"
#pragma GCC diagnostic ignored "-Wclobbered" /* the probe of a function that lands a longjmp */
#include "target/span/frame.h"
#include "tool/util/buf.h"

enum { LEAVES = 5, MAIN = LEAVES, STAGE, TICK, FNS, TICKS = 300, POINTS = 50, LIMIT_S = 20 };

static struct __piano_fn fns[FNS];
static unsigned at[FNS];
static struct __piano_unit unit = {__piano_abi, FNS, fns, at, "", ""};

/* A declaration: NOLINTBEGIN(bugprone-macro-parentheses) */
#define PROBE(k)                                                                                   \
    void *probe_ __attribute__((cleanup(__piano_leave), unused)) = __piano_begin(&at[k])
/* NOLINTEND(bugprone-macro-parentheses) */

static char dir[64];
static volatile int sink;
static sigjmp_buf landing;

static void name_functions(void)
{
    static char names[FNS][16];
    for (unsigned i = 0; i < FNS; i++) {
        snprintf(names[i], sizeof names[i], "f%u", i);
        fns[i] = (struct __piano_fn){names[i], "t.c", i, 0};
    }
}

static __attribute__((noinline)) void leaf(int i)
{
    PROBE(i);
    sink++;
}

static __attribute__((noinline)) void stage(void)
{
    PROBE(STAGE);
    for (int i = 0; i < LEAVES; i++)
        leaf(i);
}

static __attribute__((noinline)) void tick(void)
{
    PROBE(TICK);
    sink++;
}

static struct piano__thread *self(void)
{
    return (struct piano__thread *)__piano_self;
}

/* Stepping. A child that steps itself has `handler`; `left` counts down to its call. */
static void (*handler)(int);
static long *left; /* shared with the parent */

#ifdef __x86_64__
enum { TRAP_FLAG = 0x100 };

static void trapped(int signal, siginfo_t *info, void *context)
{
    (void)info;
    if (--*left != 0)
        return;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
    handler(signal);
}

static __attribute__((noinline)) void set_trap_flag(bool on)
{
    if (on)
        __asm__ __volatile__("lea -128(%%rsp), %%rsp; pushfq; orq $0x100, (%%rsp); popfq; "
                             "lea 128(%%rsp), %%rsp" ::
                                 : "memory", "cc");
    else
        __asm__ __volatile__("lea -128(%%rsp), %%rsp; pushfq; andq $~0x100, (%%rsp); popfq; "
                             "lea 128(%%rsp), %%rsp" ::
                                 : "memory", "cc");
}
#endif

static void begin(void)
{
    self()->last_flush =
        INT64_MAX / 2; /* no flush: a trap in it, where signals are blocked, kills */
#ifdef __x86_64__
    if (handler) {
        struct sigaction action = {.sa_sigaction = trapped, .sa_flags = SA_SIGINFO | SA_NODEFER};
        sigaction(SIGTRAP, &action, NULL);
        set_trap_flag(true);
        return;
    }
#endif
    raise(SIGSTOP);
}

static void end(void)
{
#ifdef __x86_64__
    if (handler) {
        set_trap_flag(false);
        return;
    }
#endif
    raise(SIGSTOP);
}

/* Calls FUNCTION at the instruction that was asked for. */
static void handle(void (*function)(int))
{
#ifdef __x86_64__
    handler = function;
#else
    signal(SIGUSR1, function);
#endif
}

/* What a child did. */
struct outcome {
    int status;
    bool reached;    /* the instruction; else the second mark came first */
    struct buf text; /* the run file */
    struct buf live; /* what the image has besides */
};

static void append(void *ctx, const char *text, size_t len)
{
    buf_put(ctx, text, len);
}

static void read_image(struct outcome *o, const char *path)
{
    struct buf image = {0};
    assert_int_equal(buf_read_file(&image, path), 0);
    void *aligned = aligned_alloc(4096, (image.len + 4095) / 4096 * 4096);
    memcpy(aligned, image.data, image.len);
    struct piano__written written = {o->text.data, o->text.len};
    assert_int_equal(piano__live_lines(aligned, image.len, written, append, &o->live), 0);
    free(aligned);
    buf_free(&image);
}

static void collect(struct outcome *o)
{
    char live[512] = "", path[512];
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (strstr(e->d_name, ".ndjson"))
            assert_int_equal(buf_read_file(&o->text, path), 0);
        if (strstr(e->d_name, ".live"))
            strcpy(live, path);
        else
            unlink(path);
    }
    closedir(d);
    if (*live) {
        read_image(o, live);
        unlink(live);
    }
    rmdir(dir);
}

/* Steps CHILD, which is at the first mark; true after STEPS instructions, false at the second mark. */
static bool step(pid_t child, long steps, long *done)
{
    int status;
    for (*done = 0; *done < steps; ++*done) {
        assert_int_equal(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP)
            return false;
    }
    return true;
}

static bool steps_itself(int signal)
{
#ifdef __x86_64__
    return signal != SIGKILL;
#else
    (void)signal;
    return false;
#endif
}

static void trace(struct outcome *o, pid_t child, long steps, int signal, long *done)
{
    assert_int_equal(waitpid(child, &o->status, 0), child);
    assert_true(WIFSTOPPED(o->status) && WSTOPSIG(o->status) == SIGSTOP);
    o->reached = step(child, steps, done);
    signal = o->reached ? signal : 0;
    assert_int_equal(ptrace(PTRACE_DETACH, child, NULL, (void *)(long)signal), 0);
    do { /* a handler that returns goes on to the second mark */
        kill(child, SIGCONT);
        assert_int_equal(waitpid(child, &o->status, WUNTRACED), child);
    } while (WIFSTOPPED(o->status));
}

/* Runs SCENARIO and sends SIGNAL after STEPS instructions. */
static struct outcome interrupt(void (*scenario)(void), long steps, int signal, long *done)
{
    struct outcome o = {.reached = false};
    strcpy(dir, "/tmp/piano-stepped-XXXXXX");
    assert_non_null(mkdtemp(dir));
    setenv("PIANO_RUNS_DIR", dir, 1);
    *left = steps;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (!steps_itself(signal))
            ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        __piano_register(&unit);
        alarm(LIMIT_S); /* a hang ends with SIGALRM */
        scenario();
        exit(0);
    }
    if (steps_itself(signal)) {
        assert_int_equal(waitpid(child, &o.status, 0), child);
        *done = steps - *left;
        o.reached = *left == 0;
    } else {
        trace(&o, child, steps, signal, done);
    }
    collect(&o);
    return o;
}

static void release(struct outcome *o)
{
    buf_free(&o->text);
    buf_free(&o->live);
}

/* Calls CHECK for POINTS places between the marks of SCENARIO. */
static void at_many_points(void (*scenario)(void), int signal,
                           void (*check)(struct outcome *, long))
{
    long length, done;
    struct outcome o = interrupt(scenario, 10000000, signal, &length);
    assert_int_equal(o.status, 0);
    assert_false(o.reached);
    release(&o);
    const char *wanted = getenv("POINTS"); /* for a closer look than the tests take each time */
    int points = wanted ? atoi(wanted) : POINTS;
    for (int i = 0; i < points; i++) {
        o = interrupt(scenario, (length - 50) * i / points + 1 + i % 7, signal, &done);
        assert_true(o.reached);
        check(&o, done);
        release(&o);
    }
}

static const char *next_of(const struct buf *text, const char *from, const char *needle)
{
    return from ? memmem(from, (size_t)(text->data + text->len - from), needle, strlen(needle))
                : NULL;
}

static long long sum_of(const struct buf *text, int id, const char *field)
{
    char head[32], key[32];
    long long total = 0;
    snprintf(head, sizeof head, "{\"id\":%d,", id);
    snprintf(key, sizeof key, "\"%s\":", field);
    for (const char *s = text->data; (s = next_of(text, s, head)); s++) {
        const char *value = next_of(text, s, key);
        if (value && value < next_of(text, s, "}"))
            total += atoll(value + strlen(key));
    }
    return total;
}

static long long sum(const struct outcome *o, int id, const char *field)
{
    return sum_of(&o->text, id, field) + sum_of(&o->live, id, field);
}

static int count(const struct buf *text, const char *needle)
{
    int n = 0;
    for (const char *s = text->data; (s = next_of(text, s, needle)); s++)
        n++;
    return n;
}

/* exit() in a handler -------------------------------------------------------------------------- */

static void leave(int signal)
{
    (void)signal;
    exit(7);
}

/* Nothing repeats, so that the sums for the v1 file are kept. */
static void stages(void)
{
    PROBE(MAIN);
    handle(leave);
    tick();
    begin();
    stage();
    end();
}

static void check_exit(struct outcome *o, long steps)
{
    if (!WIFEXITED(o->status) || WEXITSTATUS(o->status) != 7)
        fail_msg("status %x after %ld instructions", (unsigned)o->status, steps);
    assert_int_equal(count(&o->text, "{\"end\":true"), 1);
    assert_int_equal(sum(o, MAIN, "calls"), 1);
    assert_int_equal(sum(o, TICK, "calls"), 1);
    for (int i = 0; i < LEAVES; i++)
        if (sum(o, i, "calls") > 1)
            fail_msg("f%d twice after %ld instructions", i, steps);
}

static void test_exit_in_a_handler(void **state)
{
    (void)state;
    at_many_points(stages, SIGUSR1, check_exit);
}

/* A library that is loaded in a handler --------------------------------------------------------- */

static struct __piano_fn more_fns[3] = {{"a", "u.c", 1, 0}, {"b", "u.c", 2, 0}, {"c", "u.c", 3, 0}};
static struct __piano_fn late_fns[2] = {{"d", "v.c", 1, 0}, {"e", "v.c", 2, 0}};
static unsigned more_at[3], late_at[2];
static struct __piano_unit more_unit = {__piano_abi, 3, more_fns, more_at, "", ""};
static struct __piano_unit late_unit = {__piano_abi, 2, late_fns, late_at, "", ""};

static void load(int signal)
{
    (void)signal;
    __piano_register(&late_unit);
}

static void loads(void)
{
    PROBE(MAIN);
    handle(load);
    tick();
    begin();
    __piano_register(&more_unit);
    end();
    for (int i = 0; i < 3; i++)
        (void)__piano_begin(&more_at[i]);
    for (int i = 0; i < 2; i++)
        (void)__piano_begin(&late_at[i]);
}

static void check_load(struct outcome *o, long steps)
{
    int named = count(&o->text, "\"d\"") + count(&o->text, "\"e\"");
    int dropped = count(&o->text, "\"functions\":2,");
    if (!WIFEXITED(o->status) || WEXITSTATUS(o->status) != 0)
        fail_msg("status %x after %ld instructions", (unsigned)o->status, steps);
    assert_true(count(&o->text, "\"a\"") == 1 && count(&o->text, "\"c\"") == 1);
    if (named != (dropped ? 0 : 2))
        fail_msg("%d named, %d dropped after %ld instructions", named, dropped, steps);
    long long calls = 0;
    for (int i = FNS; i < FNS + 5; i++)
        calls += sum(o, i, "calls");
    assert_int_equal(calls, dropped ? 3 : 5);
}

static void test_load_in_a_handler(void **state)
{
    (void)state;
    at_many_points(loads, SIGUSR1, check_load);
}

/* siglongjmp() out of a handler ---------------------------------------------------------------- */

static void jump(int signal)
{
    (void)signal;
    siglongjmp(landing, 1);
}

/* Further down on the stack than the ticks that follow. */
static __attribute__((noinline)) void dive(void)
{
    volatile char room[256] = {0};
    stage();
    stage();
    sink += room[0];
}

/* Lands in code without probes. */
static void jumps(void)
{
    handle(jump);
    tick();
    if (sigsetjmp(landing, 1) == 0) {
        begin();
        dive();
        end();
    }
    for (int i = 1; i < TICKS; i++)
        tick();
}

static __attribute__((noinline)) void lands(void)
{
    PROBE(MAIN);
    tick();
    if (__piano_landed(probe_, &at[MAIN], sigsetjmp(landing, 1)) == 0) {
        begin();
        stage();
        stage();
        end();
    }
    for (int i = 1; i < TICKS; i++)
        tick();
}

/* Lands in an instrumented function. */
static void jumps_to_probe(void)
{
    handle(jump);
    lands();
}

static void check_jump(struct outcome *o, long steps)
{
    if (!WIFEXITED(o->status) || WEXITSTATUS(o->status) != 0)
        fail_msg("status %x after %ld instructions", (unsigned)o->status, steps);
    if (sum(o, TICK, "calls") != TICKS)
        fail_msg("%lld ticks after %ld instructions", sum(o, TICK, "calls"), steps);
    for (int i = 0; i < LEAVES; i++)
        if (sum(o, i, "calls") > 3)
            fail_msg("f%d %lld times after %ld instructions", i, sum(o, i, "calls"), steps);
    assert_true(sum(o, STAGE, "calls") <= 3);
    assert_int_equal(count(&o->text, "{\"end\":true"), 1);
    assert_non_null(next_of(&o->text, o->text.data, "\"busy\":0}"));
    /* No time beyond that of the run. */
    const char *end = next_of(&o->text, o->text.data, "{\"end\":true,\"wall_ns\":");
    long long wall = atoll(end + strlen("{\"end\":true,\"wall_ns\":"));
    for (int i = 0; i < FNS; i++)
        if (sum(o, i, "self_ns") > wall || sum(o, i, "self_ns") < -wall)
            fail_msg("f%d took %lld after %ld instructions", i, sum(o, i, "self_ns"), steps);
}

static void check_frames(struct outcome *o, long steps)
{
    check_jump(o, steps);
    if (count(&o->text, "\"depth\":0,\"root\":7,") < TICKS - 2)
        fail_msg("%d frames after %ld instructions", count(&o->text, "\"depth\":0,\"root\":7,"),
                 steps);
}

static void test_jump_out_of_a_handler(void **state)
{
    (void)state;
    at_many_points(jumps, SIGUSR1, check_frames);
}

static void test_jump_into_an_instrumented_function(void **state)
{
    (void)state;
    at_many_points(jumps_to_probe, SIGUSR1, check_jump);
}

/* SIGKILL while lines are written ---------------------------------------------------------------- */

static void flushes(void)
{
    PROBE(MAIN);
    for (int i = 0; i < 5; i++)
        tick();
    begin();
    piano__frame_flush(self(), self()->last_tick);
    tick();
    end();
}

static void check_kill(struct outcome *o, long steps)
{
    assert_true(WIFSIGNALED(o->status) && WTERMSIG(o->status) == SIGKILL);
    struct buf all = {0};
    buf_put(&all, o->text.data, o->text.len);
    buf_put(&all, o->live.data, o->live.len);
    for (int i = 0; i < 5; i++) {
        char needle[32];
        snprintf(needle, sizeof needle, "{\"frame\":%d,", i);
        if (count(&all, needle) != 1)
            fail_msg("frame %d %d times after %ld instructions", i, count(&all, needle), steps);
    }
    long long ticks = sum(o, TICK, "calls");
    if (ticks < 5 || ticks > 6 || sum(o, MAIN, "calls") != 1)
        fail_msg("%lld ticks after %ld instructions", ticks, steps);
    buf_free(&all);
}

static void test_kill_while_lines_are_written(void **state)
{
    (void)state;
    at_many_points(flushes, SIGKILL, check_kill);
}

int main(void)
{
    name_functions();
    left = mmap(NULL, sizeof *left, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (left == MAP_FAILED)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exit_in_a_handler),
        cmocka_unit_test(test_load_in_a_handler),
        cmocka_unit_test(test_jump_out_of_a_handler),
        cmocka_unit_test(test_jump_into_an_instrumented_function),
        cmocka_unit_test(test_kill_while_lines_are_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
