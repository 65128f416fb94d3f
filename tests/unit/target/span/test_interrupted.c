/* The runtime, interrupted by a signal at any instruction.
 *
 * A child runs a scenario. Between two marks it is single-stepped, and after a number of instructions something
 * happens: a handler that calls exit(), siglongjmp() or loads a library, or SIGKILL. This is repeated for many numbers (stepped.h).
 *
 * not under thread: the children are forked, and TSan delays signals.
 * not under aarch64: qemu cannot step a program by ptrace. */
#include "stepped.h"

enum { LEAVES = 5, MAIN = LEAVES, STAGE, TICK, FNS, TICKS = 300 };

static struct __piano_fn fns[FNS];
static unsigned at[FNS];
static struct __piano_unit unit = {__piano_abi, FNS, fns, at, "", ""};

/* A declaration: NOLINTBEGIN(bugprone-macro-parentheses) */
#define PROBE(k)                                                                                   \
    void *probe_ __attribute__((cleanup(__piano_leave), unused)) = __piano_begin(&at[k])
/* NOLINTEND(bugprone-macro-parentheses) */

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

/* Deeper on the stack than the ticks that follow. */
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
    assert_non_null(next_of(&o->text, o->text.data, "\"busy\":0,"));
    /* No time beyond the run's duration. */
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
    piano__commit_flush(self(), self()->last_tick);
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
