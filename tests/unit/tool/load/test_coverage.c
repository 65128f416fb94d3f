/* Compares the kernel's CPU time with that of the samples, with the expected random error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "tool/load/coverage.h"

#define MS UINT64_C(1000000)

static struct piano__trace trace(uint64_t samples, uint64_t sampled_ms, uint64_t kernel_ms)
{
    return (struct piano__trace){.cpu_hz = 100,
                                 .samples = samples,
                                 .sampled_ns = sampled_ms * MS,
                                 .kernel_ns = kernel_ms * MS};
}

static void test_coverage_is_unknown_without_the_time_of_the_kernel(void **state)
{
    (void)state;
    const struct piano__trace t = trace(100, 1000, 0);
    assert_false(coverage_of(&t).is_known);
    assert_false(coverage_of(&t).is_short);
}

/* 100 samples of 10 ms: 1 s, and three deviations are 300 ms. */
static void test_difference_is_missing_only_beyond_chance(void **state)
{
    char text[80];
    (void)state;
    const struct piano__trace near = trace(100, 1000, 1350);
    assert_true(coverage_of(&near).is_known);
    assert_false(coverage_of(&near).is_short);
    assert_string_equal(coverage_text(text, sizeof text, &near), "");
    const struct piano__trace far = trace(100, 1000, 1400);
    assert_true(coverage_of(&far).is_short);
    const struct piano__trace most = trace(0, 0, 2400);
    assert_string_equal(coverage_text(text, sizeof text, &most), "samples cover 0.0% of 2.4s");
}

static void test_sample_of_many_periods_makes_chance_larger(void **state)
{
    (void)state;
    const struct piano__trace t = trace(4, 1000, 2000);
    assert_false(coverage_of(&t).is_short); /* three deviations are 1.5 s */
    const struct piano__trace small = trace(100, 1000, 2000);
    assert_true(coverage_of(&small).is_short);
}

/* The kernel's time of processes without a waiting parent is unknown. */
static void test_more_samples_than_the_kernel_counted_are_not_missing(void **state)
{
    (void)state;
    const struct piano__trace t = trace(200, 2000, 500);
    assert_false(coverage_of(&t).is_short);
    assert_true(coverage_of(&t).share > 3.9 && coverage_of(&t).share < 4.1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_coverage_is_unknown_without_the_time_of_the_kernel),
        cmocka_unit_test(test_difference_is_missing_only_beyond_chance),
        cmocka_unit_test(test_sample_of_many_periods_makes_chance_larger),
        cmocka_unit_test(test_more_samples_than_the_kernel_counted_are_not_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
