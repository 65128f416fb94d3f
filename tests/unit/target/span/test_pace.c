/* The correction for a fenced probe follows the current cost of such probes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "target/span/pace.h"
#include "target/span/run.h"
#include "target/sys/clock.h"

enum { CALIBRATED = 60, MANY = 64 * 40 };

static struct piano__live_header header = {.bias.pair = CALIBRATED * 256};
static struct piano__thread t;

static int begin(void **state)
{
    (void)state;
    piano__run.header = &header;
    t = (struct piano__thread){.pace = 0};
    return 0;
}

/* The cost of a probe that was calibrated at 1000, after many pairs that were alternately FIRST and SECOND ticks apart, like
 * the steps of a counter. */
static int64_t cost_after(int64_t first, int64_t second)
{
    for (int i = 0; i < MANY; i++)
        piano__pace_learn(&t, i % 2 ? first : second);
    return piano__paced(&t, 1000);
}

static void test_cost_is_calibrated_until_64_measurements(void **state)
{
    (void)state;
    assert_int_equal(piano__paced(&t, 12345), 12345);
    for (int i = 0; i < 63; i++)
        piano__pace_learn(&t, 90);
    assert_int_equal(piano__paced(&t, 12345), 12345);
    piano__pace_learn(&t, 90);
    assert_in_range(piano__paced(&t, 12345), 12345 * 3 / 2 - 5, 12345 * 3 / 2 + 5);
}

static void test_cost_follows_measurements(void **state)
{
    (void)state;
    assert_in_range(cost_after(52, 68), 998, 1002);
    assert_in_range(cost_after(78, 72), 1245, 1255);
    assert_in_range(cost_after(26, 34), 495, 505);
}

static void test_interrupted_measurements_are_ignored(void **state)
{
    (void)state;
    cost_after(60, 60);
    const int64_t strange[] = {121, 5000, INT64_MAX, 0, 14, -26, -1000000};
    for (int i = 0; i < MANY; i++)
        piano__pace_learn(&t, strange[i % 7]);
    assert_in_range(piano__paced(&t, 1000), 998, 1002);
}

static void test_measurement_is_added_to_the_overhead(void **state)
{
    (void)state;
    piano__clock_init();
    int64_t before = piano__ticks_fenced();
    for (int i = 0; i < MANY;
         i++) /* one may end within a tick, because those of aarch64 are long */
        piano__pace_take(&t);
    int64_t spent = (piano__ticks_fenced() - before) * 256;
    assert_true(t.overhead > 0 && t.overhead < 2 * spent);
}

static void test_nothing_is_measured_during_calibration(void **state)
{
    (void)state;
    header.bias.pair = 0;
    for (int i = 0; i < MANY; i++)
        piano__pace_take(&t);
    header.bias.pair = CALIBRATED * 256;
    assert_int_equal(t.overhead, 0);
    assert_int_equal(piano__paced(&t, 1000), 1000);
}

static void test_measurements_are_due_at_irregular_intervals(void **state)
{
    (void)state;
    int taken = 0, last = 0, apart[64] = {0};
    for (int i = 0; i < 3200; i++) {
        t.seq = (uint64_t)i;
        if (!piano__pace_is_due(&t))
            continue;
        piano__pace_take(&t);
        if (taken++)
            apart[i - last]++;
        last = i;
    }
    assert_in_range(taken, 80, 130);
    for (int i = 0; i < 64; i++)
        assert_true(apart[i] < taken / 2); /* at no fixed distance */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_cost_is_calibrated_until_64_measurements, begin),
        cmocka_unit_test_setup(test_cost_follows_measurements, begin),
        cmocka_unit_test_setup(test_interrupted_measurements_are_ignored, begin),
        cmocka_unit_test_setup(test_measurement_is_added_to_the_overhead, begin),
        cmocka_unit_test_setup(test_nothing_is_measured_during_calibration, begin),
        cmocka_unit_test_setup(test_measurements_are_due_at_irregular_intervals, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
