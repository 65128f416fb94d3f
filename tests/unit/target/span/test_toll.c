/* The charge of a probe that does not measure itself, and how often one does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "target/span/calibrate.h"
#include "target/span/run.h"
#include "target/span/toll.h"

enum { BEGIN_READ = 20 * 256, END_READ = 10 * 256 };

static struct piano__live_header header = {
    .ns_per_tick_32 = (uint64_t)1 << 32,
    .bias = {.begin_read = BEGIN_READ, .end_read = END_READ},
};
static struct piano__thread t;
static struct piano__slot slot;

static int begin(void **state)
{
    (void)state;
    piano__run.header = &header;
    piano__toll_init(header.ns_per_tick_32);
    t = (struct piano__thread){.pace = 0};
    slot = (struct piano__slot){.mode = PIANO_FENCED};
    return 0;
}

static void learn(int times, int64_t begin_ticks, int64_t end_ticks)
{
    for (int i = 0; i < times; i++)
        piano__toll_learn(&t, &slot, begin_ticks * 256, end_ticks * 256);
}

static void test_mean_without_the_reads(void **state)
{
    (void)state;
    learn(1, 60, 50);
    assert_int_equal(slot.toll.begin, 60 * 256 - BEGIN_READ);
    assert_int_equal(slot.toll.end, 50 * 256 - END_READ);
    for (int i = 0; i < 500; i++)
        learn(1, i % 2 ? 40 : 80, 50);
    assert_in_range(slot.toll.begin, 56 * 256 - BEGIN_READ, 64 * 256 - BEGIN_READ);
    assert_in_range(slot.toll.end, 50 * 256 - END_READ - 32, 50 * 256 - END_READ);
}

static void test_follows_a_change(void **state)
{
    (void)state;
    learn(100, 60, 50);
    learn(300, 200, 150);
    assert_in_range(slot.toll.begin, 199 * 256 - BEGIN_READ, 200 * 256 - BEGIN_READ);
    assert_in_range(slot.toll.end, 149 * 256 - END_READ, 150 * 256 - END_READ);
}

/* The sum of the charges between two measured probes follows the sum of their
 * costs, except for the lag at the end. */
static void test_sums_are_right_while_costs_change(void **state)
{
    int64_t cost = 0, charged = 0;
    (void)state;
    learn(PIANO_TOLL_LEARN, 60, 50);
    for (int i = 0; i < 10000; i++) {
        int64_t ticks = 60 + i % 1000 / 10;
        charged += slot.toll.begin + BEGIN_READ;
        cost += ticks * 256;
        learn(1, ticks, 50);
    }
    assert_in_range(charged, cost - cost / 100, cost + cost / 100);
}

static void test_interruptions_are_not_the_probe_s(void **state)
{
    (void)state;
    learn(100, 60, 50);
    learn(10, 5000, 50);
    learn(10, 60, 100000);
    assert_in_range(slot.toll.begin, 60 * 256 - BEGIN_READ - 32, 60 * 256 - BEGIN_READ);
    assert_int_equal(slot.toll.seen, 100);
}

static void test_draws_at_random(void **state)
{
    int64_t sum = 0;
    int seen[2 * PIANO_TOLL_EVERY] = {0}, different = 0;
    (void)state;
    for (int i = 0; i < 10000; i++) {
        piano__toll_draw(&t);
        assert_in_range(t.unmeasured, 0, 2 * PIANO_TOLL_EVERY - 2);
        sum += t.unmeasured + 1;
        different += seen[t.unmeasured]++ == 0;
    }
    assert_in_range(sum / 10000, PIANO_TOLL_EVERY - 4, PIANO_TOLL_EVERY + 4);
    assert_true(different > PIANO_TOLL_EVERY);
}

static void test_hot_for_a_short_time(void **state)
{
    (void)state;
    t.last_tick = 1000000;
    assert_true(piano__toll_is_hot(&t, 1000000 + PIANO_TOLL_HOT_NS - 1));
    assert_false(piano__toll_is_hot(&t, 1000000 + PIANO_TOLL_HOT_NS + 1));
}

static void test_table_of_costs(void **state)
{
    (void)state;
    piano__costs = (struct piano__costs){.most = 300};
    piano__costs.scale = (((uint64_t)PIANO_COST_STEPS << 32) - 1) / 300 + 1;
    for (int i = 0; i <= PIANO_COST_STEPS; i++)
        piano__costs.at[i] = (struct piano__cost){i, -i};
    assert_int_equal(piano__cost_of(-5).inner, 0);
    assert_int_equal(piano__cost_of(0).inner, 0);
    assert_int_equal(piano__cost_of(150).inner, PIANO_COST_STEPS / 2);
    assert_int_equal(piano__cost_of(150).outer, -PIANO_COST_STEPS / 2);
    assert_int_equal(piano__cost_of(299).inner, PIANO_COST_STEPS - 1);
    assert_int_equal(piano__cost_of(300).inner, PIANO_COST_STEPS);
    assert_int_equal(piano__cost_of(INT64_MAX).inner, PIANO_COST_STEPS);
    piano__costs = (struct piano__costs){.most = 0}; /* not calibrated */
    assert_int_equal(piano__cost_of(1000).inner, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_mean_without_the_reads, begin),
        cmocka_unit_test_setup(test_follows_a_change, begin),
        cmocka_unit_test_setup(test_sums_are_right_while_costs_change, begin),
        cmocka_unit_test_setup(test_interruptions_are_not_the_probe_s, begin),
        cmocka_unit_test_setup(test_draws_at_random, begin),
        cmocka_unit_test_setup(test_hot_for_a_short_time, begin),
        cmocka_unit_test_setup(test_table_of_costs, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
