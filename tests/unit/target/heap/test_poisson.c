/* The statistics of sampling, compared with known truths: hand-made exponentials with libm, gaps with the exponential
 * distribution (Kolmogorov and Smirnov), estimates with the allocated amounts, and the 95 % interval with the share of cases in which it
 * contains the truth. Seeds are fixed, so results are reproducible. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "target/heap/poisson.h"

static void test_weights_agree_with_libm(void **state)
{
    (void)state;
    const uint64_t rates[] = {2, 1000, 65536, 524288, 4194304, 1u << 30};
    for (size_t r = 0; r < sizeof rates / sizeof *rates; r++) {
        for (uint64_t bytes = 1; bytes < 300000000000; bytes += bytes * 7 / 10 + 1) {
            double size = (double)bytes;
            double p = -expm1(-size / (double)rates[r]);
            struct piano__weight w = piano__poisson_weight(bytes, rates[r]);
            assert_true(fabs(w.objects * p - 1) < 1e-12);
            assert_true(fabs(w.bytes * p / size - 1) < 1e-12);
            double variance = size / p * (size / p) * exp(-size / (double)rates[r]);
            assert_true(fabs(w.variance - variance) <=
                        1e-9 * variance + 1e-14 * (size / p) * (size / p));
        }
    }
}

static void test_sample_everything_is_exact(void **state)
{
    (void)state;
    struct piano__random random;
    piano__random_seed(&random, 1);
    for (uint64_t size = 0; size < 100000; size += 777) {
        struct piano__weight w = piano__poisson_weight(size, 1);
        assert_true(w.bytes == (double)size && w.objects == 1 && w.variance == 0);
        assert_int_equal(piano__poisson_gap(&random, 1), 1);
    }
}

/* A block of 0 bytes counts as one object. */
static void test_block_of_zero_bytes_counts_as_one_object(void **state)
{
    (void)state;
    struct piano__weight w = piano__poisson_weight(0, 1000);
    assert_true(w.bytes == 0 && w.variance == 0);
    assert_true(fabs(w.objects * -expm1(-1.0 / 1000) - 1) < 1e-12);
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void test_gaps_are_exponential(void **state)
{
    (void)state;
    enum { N = 200000 };
    static uint64_t gaps[N];
    const uint64_t rates[] = {65536, 524288, 4194304};
    for (size_t r = 0; r < sizeof rates / sizeof *rates; r++) {
        struct piano__random random;
        piano__random_seed(&random, 42 + r);
        for (int i = 0; i < N; i++)
            gaps[i] = piano__poisson_gap(&random, rates[r]);
        qsort(gaps, N, sizeof *gaps, by_value);
        double worst = 0;
        for (int i = 0; i < N; i++) {
            double expected = -expm1(-(double)gaps[i] / (double)rates[r]);
            worst = fmax(
                worst, fmax(fabs(expected - (double)i / N), fabs(expected - (double)(i + 1) / N)));
        }
        /* 1.36/sqrt(N) is the 5 % level, 1.63 the 1 % level. Gaps are whole bytes: 1/rate at most on top. */
        assert_true(worst < 1.63 / sqrt(N) + 1.0 / (double)rates[r]);
    }
}

struct sums {
    double bytes, objects, variance, samples;
};

/* COUNT blocks of SIZE through a sampler with SEED: what the hooks do. */
static struct sums run(uint64_t size, uint64_t count, uint64_t rate, uint64_t seed)
{
    struct sums s = {0};
    struct piano__random random;
    piano__random_seed(&random, seed);
    uint64_t left = piano__poisson_gap(&random, rate);
    for (uint64_t i = 0; i < count; i++) {
        if (size < left) {
            /* many small blocks may be skipped at once, up to the sampled one */
            uint64_t pass = (left - 1) / size;
            if (pass > count - i)
                pass = count - i;
            left -= pass * size;
            i += pass - 1;
            continue;
        }
        struct piano__weight w = piano__poisson_weight(size, rate);
        s.bytes += w.bytes;
        s.objects += w.objects;
        s.variance += w.variance;
        s.samples++;
        left = piano__poisson_gap(&random, rate);
    }
    return s;
}

static void test_estimates_are_right_on_average(void **state)
{
    (void)state;
    const uint64_t sizes[] = {16, 100, 4096, 65536, 262144, 524288, 1048576, 16777216, 100000000};
    const uint64_t rates[] = {65536, 524288, 4194304};
    enum { SEEDS = 400 };
    for (size_t r = 0; r < 3; r++) {
        for (size_t z = 0; z < sizeof sizes / sizeof *sizes; z++) {
            uint64_t count = 20 * rates[r] / sizes[z] + 5;
            double sum = 0, objects = 0;
            for (int seed = 0; seed < SEEDS; seed++) {
                struct sums s = run(sizes[z], count, rates[r], 1000 * (r + 1) + (uint64_t)seed);
                sum += s.bytes;
                objects += s.objects;
            }
            double size = (double)sizes[z], blocks = (double)count;
            double p = -expm1(-size / (double)rates[r]);
            double error = sqrt(blocks * (1 - p) / p / SEEDS); /* of the mean number of objects */
            assert_true(fabs(objects / SEEDS - blocks) <= 3 * error + 1e-6 * blocks);
            assert_true(fabs(sum / SEEDS - size * blocks) <= size * (3 * error + 1e-6 * blocks));
        }
    }
}

static void test_interval_holds_the_truth(void **state)
{
    (void)state;
    const uint64_t sizes[] = {16, 4096, 65536, 524288};
    enum { RUNS = 2000 };
    for (size_t z = 0; z < sizeof sizes / sizeof *sizes; z++) {
        uint64_t rate = 524288, count = 400 * rate / sizes[z];
        double truth = (double)(sizes[z] * count);
        int held = 0;
        for (int i = 0; i < RUNS; i++) {
            struct sums s = run(sizes[z], count, rate, 7000000 + (uint64_t)i);
            held += fabs(s.bytes - truth) <= 1.96 * sqrt(s.variance);
        }
        assert_in_range(held, RUNS * 93 / 100, RUNS * 97 / 100);
    }
}

static void test_block_of_one_gigabyte_is_estimated_exactly(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 1000; seed++) {
        struct sums s = run(1u << 30, 1, 524288, seed);
        assert_true(fabs(s.bytes - (double)(1u << 30)) < 1);
    }
}

/* Seeds of threads and children differ although their inputs differ only in a few bits. */
static void test_neighbouring_seeds_differ(void **state)
{
    (void)state;
    enum { N = 4096 };
    static uint64_t first[N];
    for (uint64_t i = 0; i < N; i++) {
        struct piano__random random;
        piano__random_seed(&random, i << 32);
        first[i] = piano__random_next(&random);
    }
    qsort(first, N, sizeof *first, by_value);
    for (int i = 1; i < N; i++)
        assert_true(first[i] != first[i - 1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weights_agree_with_libm),
        cmocka_unit_test(test_sample_everything_is_exact),
        cmocka_unit_test(test_block_of_zero_bytes_counts_as_one_object),
        cmocka_unit_test(test_gaps_are_exponential),
        cmocka_unit_test(test_estimates_are_right_on_average),
        cmocka_unit_test(test_interval_holds_the_truth),
        cmocka_unit_test(test_block_of_one_gigabyte_is_estimated_exactly),
        cmocka_unit_test(test_neighbouring_seeds_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
