/* The cost of a probe is a curve over the length of the body: values between its points, at its ends, and where a noisy calibration
 * made it decrease. Also the two halves of what a counted call stands for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "target/span/calibrate.h"

static int64_t value_at(const int64_t at[PIANO_BODIES], int64_t x)
{
    static const int64_t values[PIANO_BODIES] = {1000, 2000, 1000, 1000, 500, 400, 300, -100};
    return piano__curve_value(values, piano__curve_place(at, x));
}

static void test_curve_is_interpolated_between_points_and_constant_beyond(void **state)
{
    static const int64_t at[PIANO_BODIES] = {0, 10, 20, 30, 40, 50, 60, 1060};
    (void)state;
    assert_int_equal(value_at(at, -5), 1000);
    assert_int_equal(value_at(at, 0), 1000);
    assert_int_equal(value_at(at, 10), 2000);
    assert_in_range(value_at(at, 5), 1499, 1501);
    assert_in_range(value_at(at, 35), 749, 751);
    assert_in_range(value_at(at, 560) + 1000, 1099, 1101);
    assert_int_equal(value_at(at, 1060), -100);
    assert_int_equal(value_at(at, INT64_MAX), -100);
}

static void test_curve_with_decreasing_points_stays_in_range(void **state)
{
    static const int64_t at[PIANO_BODIES] = {0, 10, 8, 8, 20, 20, 30, 40};
    static const int64_t nowhere[PIANO_BODIES] = {0};
    (void)state;
    for (int64_t x = -1; x < 50; x++)
        assert_in_range(value_at(at, x) + 100, 0, 2100);
    assert_int_equal(value_at(nowhere, 7), -100);
}

static void test_sum_of_counted_calls_holds_self_time_and_cost(void **state)
{
    uint64_t sum = 0;
    (void)state;
    for (int i = 0; i < 100000; i++)
        sum += piano__each(5200, 2560);
    assert_int_equal(piano__each_self(sum), 520000000);
    assert_int_equal(piano__each_cost(sum), 256000000);
    assert_int_equal(piano__each_self(piano__each(0, UINT32_MAX)), 0);
    assert_int_equal(piano__each_cost(piano__each(INT32_MAX, 0)), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_curve_is_interpolated_between_points_and_constant_beyond),
        cmocka_unit_test(test_curve_with_decreasing_points_stays_in_range),
        cmocka_unit_test(test_sum_of_counted_calls_holds_self_time_and_cost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
