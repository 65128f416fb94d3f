/* Percentiles: exact as long as possible, then within half a percent, including negative values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tool/load/samples.h"

static int64_t shuffled(int64_t i, int64_t count)
{
    return (i * 7919 + 13) % count; /* 7919 is prime: each value once */
}

static void a_few_values_are_exact(void **state)
{
    (void)state;
    struct samples s = {0};
    assert_int_equal(samples_percentile(&s, 0.5), 0);
    for (int64_t i = 0; i < 101; i++)
        assert_int_equal(samples_add(&s, shuffled(i, 101) - 50), 0);
    assert_int_equal(samples_percentile(&s, 0.0), -50);
    assert_int_equal(samples_percentile(&s, 0.5), 0);
    assert_int_equal(samples_percentile(&s, 0.99), 49);
    assert_int_equal(samples_percentile(&s, 1.0), 50);
    samples_release(&s);
}

static void percentiles_of_many_values_are_within_half_a_percent(void **state)
{
    (void)state;
    enum { COUNT = 3 * SAMPLES_EXACT };
    struct samples s = {0};
    for (int64_t i = 0; i < COUNT; i++)
        assert_int_equal(samples_add(&s, shuffled(i, COUNT) * 1000), 0);
    int64_t median = samples_percentile(&s, 0.5), top = samples_percentile(&s, 0.99);
    int64_t expect = (int64_t)COUNT * 500, expect_top = (int64_t)COUNT * 990;
    assert_true(llabs(median - expect) <= expect / 200);
    assert_true(llabs(top - expect_top) <= expect_top / 200);
    samples_release(&s);
}

static void the_ends_of_the_range_are_kept(void **state)
{
    (void)state;
    struct samples s = {0};
    for (int64_t i = 0; i < 2 * SAMPLES_EXACT; i++)
        assert_int_equal(samples_add(&s, i % 2 ? INT64_MAX : -INT64_MAX), 0);
    assert_true(samples_percentile(&s, 0.0) < -(INT64_MAX / 256 * 255));
    assert_true(samples_percentile(&s, 1.0) > INT64_MAX / 256 * 255);
    samples_release(&s);
}

static void merge_adds_all_values(void **state)
{
    (void)state;
    struct samples a = {0}, b = {0};
    for (int64_t i = 0; i < 1000; i++) {
        assert_int_equal(samples_add(&a, i), 0);
        assert_int_equal(samples_add(&b, i + 1000), 0);
    }
    assert_int_equal(samples_merge(&a, &b), 0);
    assert_int_equal(b.count, 0);
    assert_int_equal(a.count, 2000);
    assert_int_equal(samples_percentile(&a, 1.0), 1999);
    samples_release(&a);
    samples_release(&b);
}

static void adding_a_value_many_times_at_once_equals_adding_it_repeatedly(void **state)
{
    (void)state;
    static const uint64_t counts[] = {0, 1000, SAMPLES_EXACT, (uint64_t)1 << 40};
    uint64_t sum = 0;
    struct samples s = {0};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(samples_add_many(&s, (int64_t)i * 100, counts[i]), 0);
        sum += counts[i];
        assert_int_equal(s.count, sum);
        assert_int_equal(samples_percentile(&s, 1.0), sum ? i * 100 : 0);
    }
    assert_int_equal(samples_percentile(&s, 0.0), 100);
    assert_int_equal(samples_add_many(&s, 1, UINT64_MAX), 0); /* too many: left out */
    assert_int_equal(s.count, sum);
    samples_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_few_values_are_exact),
        cmocka_unit_test(percentiles_of_many_values_are_within_half_a_percent),
        cmocka_unit_test(the_ends_of_the_range_are_kept),
        cmocka_unit_test(merge_adds_all_values),
        cmocka_unit_test(adding_a_value_many_times_at_once_equals_adding_it_repeatedly),
    };
    return cmocka_run_group_tests_name("samples", tests, NULL, NULL);
}
