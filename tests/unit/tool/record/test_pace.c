/* Which rates of context switches make stacks short. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tool/record/pace.h"

enum { MS = 1000000 };

struct clock {
    struct pace pace;
    uint64_t now_ns, count;
};

/* RATE switches per second for MS_LONG, read every 25 ms. */
static bool pass(struct clock *c, unsigned ms_long, unsigned rate)
{
    bool is_fast = c->pace.is_fast;
    for (unsigned ms = 0; ms < ms_long; ms += 25) {
        c->now_ns += 25 * MS;
        c->count += rate / 40;
        is_fast = pace_look(&c->pace, c->now_ns, c->count, false);
    }
    return is_fast;
}

static struct clock new_clock(void)
{
    struct clock c = {.now_ns = 77 * (uint64_t)MS};
    assert_false(pace_look(&c.pace, c.now_ns, 0, false));
    return c;
}

static void rate_decides(void **state)
{
    (void)state;
    struct clock c = new_clock();
    assert_false(pass(&c, 3000, PACE_FAST - 200));
    assert_true(pass(&c, 25, PACE_FAST + 200));
}

static void rate_near_the_limit_changes_nothing(void **state)
{
    (void)state;
    struct clock c = new_clock();
    assert_true(pass(&c, 100, 10 * PACE_FAST));
    assert_true(pass(&c, 5000, PACE_SLOW + 200));
    for (int i = 0; i < 10; i++) {
        assert_true(pass(&c, 900, 0));
        assert_true(pass(&c, 25, PACE_SLOW + 200));
    }
    assert_false(pass(&c, 1050, PACE_SLOW - 200));
}

static void lost_stacks_make_it_fast(void **state)
{
    (void)state;
    struct clock c = new_clock();
    assert_true(pace_look(&c.pace, c.now_ns + 1, 1, true));
    assert_true(pass(&c, 900, 0));
    assert_false(pass(&c, 200, 0));
}

/* Signals interrupt the wait: two drains are then microseconds apart. */
static void looks_close_together_have_no_rate(void **state)
{
    (void)state;
    struct clock c = new_clock();
    for (int i = 0; i < 1000; i++) {
        c.now_ns += 1000;
        c.count += i == 0 ? 10 : 0;
        assert_false(pace_look(&c.pace, c.now_ns, c.count, false));
    }
    assert_false(pass(&c, 975, 100));
}

static void first_second_is_in_a_hurry(void **state)
{
    (void)state;
    struct clock c = new_clock();
    assert_true(pace_hurries(&c.pace));
    (void)pass(&c, 1000, 10);
    assert_false(pace_hurries(&c.pace));
    (void)pass(&c, 25, 2 * PACE_FAST);
    assert_true(pace_hurries(&c.pace));
}

static void storm_is_in_no_hurry(void **state)
{
    (void)state;
    struct clock c = new_clock();
    assert_true(pass(&c, 25, PACE_STORM + 2000));
    assert_false(pace_hurries(&c.pace));
    assert_true(pass(&c, 25, PACE_STORM - 2000));
    assert_true(pace_hurries(&c.pace));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rate_decides),
        cmocka_unit_test(rate_near_the_limit_changes_nothing),
        cmocka_unit_test(lost_stacks_make_it_fast),
        cmocka_unit_test(looks_close_together_have_no_rate),
        cmocka_unit_test(first_second_is_in_a_hurry),
        cmocka_unit_test(storm_is_in_no_hurry),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
