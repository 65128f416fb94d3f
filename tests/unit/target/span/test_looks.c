/* The watcher's looks, combined with timed calls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "loaded.h"
#include "target/span/run.h"
#include "target/span/unwatched.h"
#include "target/span/watch.h"
#include "tool/load/estimates.h"

/* ---- in the program: time before the watcher ran ---- */

static struct piano__live_header header = {.ns_per_tick_32 = (uint64_t)1 << 32};
static struct {
    struct piano__thread t;
    struct piano__head heads[4]; /* slots are aligned */
    struct piano__slot slots[4];
    struct piano__entry entries[4];
} block;

static struct piano__slot *slot(int i)
{
    return &piano__slots(&block.t)[i];
}

static int begin(void **state)
{
    (void)state;
    memset(&block, 0, sizeof block);
    piano__run.header = &header;
    piano__capacity = 4;
    __atomic_store_n(&piano__watch_runs, false, __ATOMIC_RELAXED);
    block.t.real_limit = piano__head_offset(4);
    for (int i = 0; i < 4; i++)
        slot(i)->in_now = 1;
    return 0;
}

static void test_unwatched_time_is_not_published_without_a_watcher(void **state)
{
    (void)state;
    piano__unwatched_add(&block.t, slot(1), 300, 1000);
    assert_int_equal(slot(1)->now.unwatched, 0);
    assert_int_equal(slot(1)->unwatched, 300);
    assert_int_equal(block.t.watched, 0);
}

/* Function 0 is open since 100, function 1 inside it since 400; what ran inside both has 50 ticks. */
static void test_open_calls_get_their_self_time_when_the_watcher_starts(void **state)
{
    (void)state;
    struct piano__entry *entries = piano__entries(&block.t);
    block.t.depth = 2;
    entries[0] = (struct piano__entry){.slot = 0, .start = 100};
    entries[1] = (struct piano__entry){.slot = 1, .start = 400, .attributed = 30};
    block.t.attributed = 80; /* 30 in function 0 before 400, 50 in function 1 */
    block.t.overhead = 20 * 256;
    entries[1].overhead = 10 * 256;
    __atomic_store_n(&piano__watch_runs, true, __ATOMIC_RELAXED);
    piano__unwatched_add(&block.t, slot(2), 7, 1000);
    assert_int_equal(block.t.watched, 1);
    assert_int_equal(slot(2)->now.unwatched, 7);
    assert_int_equal(slot(1)->now.unwatched, 600 - 10 - 50);
    assert_int_equal(slot(0)->now.unwatched, 900 - 20 - 80 - 540);
    assert_int_equal(slot(2)->unwatched, 0);
}

/* ---- in the reader ---- */

#define MS "000000"
#define FILE_OF(hot, loop) FILE_WITH("5000000", hot, loop)
#define FILE_WITH(calls, hot, loop)                                                                \
    "{\"format_version\":2,\"functions\":[\"hot\",\"loop\"]}\n"                                    \
    "{\"frame\":0,\"thread\":1,\"depth\":0,\"root\":1,\"wall_ns\":100" MS ",\"fns\":["             \
    "{\"id\":0,\"calls\":" calls ",\"timed\":1000," hot "},{\"id\":1,\"calls\":1," loop "}]}\n"

static int64_t self_of(const char *text, const char *name, int64_t *half)
{
    struct run run;
    assert_int_equal(loaded(&run, text), 0);
    const struct tally *sum = &fn(&run, name)->sum;
    int64_t self = sum->self_ns;
    *half = estimates_self_half(sum);
    run_unload(&run);
    return self;
}

/* Samples say 80 of 100 ms, with the precision of a tiny function's. Looks say 60, and their precision decides. */
static void test_self_time_follows_the_watcher_when_its_error_is_small(void **state)
{
    (void)state;
    int64_t sure_half, unsure_half;
    int64_t sure = self_of(FILE_OF("\"self_ns\":80" MS ",\"seen_ns\":60" MS ",\"lse_ns\":500000",
                                   "\"raw_ns\":25" MS ",\"self_ns\":20" MS ",\"seen_ns\":40" MS
                                   ",\"lse_ns\":500000"),
                           "hot", &sure_half);
    int64_t unsure = self_of(FILE_OF("\"self_ns\":80" MS ",\"seen_ns\":60" MS ",\"lse_ns\":20" MS,
                                     "\"raw_ns\":25" MS ",\"self_ns\":20" MS ",\"seen_ns\":40" MS
                                     ",\"lse_ns\":20" MS),
                             "hot", &unsure_half);
    assert_in_range(sure, 58000000, 66000000);
    assert_in_range(unsure, 67000000, 81000000);
    assert_true(sure_half < unsure_half);
}

/* 900 ms were timed before the watcher ran. It saw none of them, but its looks at the rest are valid. */
static void test_time_before_the_watcher_ran_is_not_missing(void **state)
{
    (void)state;
    int64_t half;
    int64_t loop = self_of(FILE_OF("\"self_ns\":80" MS ",\"seen_ns\":60" MS ",\"lse_ns\":500000",
                                   "\"raw_ns\":925" MS ",\"self_ns\":920" MS ",\"pre_ns\":900" MS
                                   ",\"seen_ns\":40" MS ",\"lse_ns\":500000"),
                           "loop", &half);
    assert_in_range(loop, 925000000, 942000000);
}

/* A call of 3 ms that was only counted. One of three looks met the caller, which has 0.1 ms. Two in a row met the same call. */
static void test_a_call_that_two_looks_met_is_the_functions(void **state)
{
    (void)state;
    int64_t half;
    int64_t hot = self_of(FILE_OF("\"self_ns\":100000,\"seen_ns\":2000000,\"held_ns\":1000000",
                                  "\"self_ns\":2900000,\"seen_ns\":1000000"),
                          "hot", &half);
    assert_in_range(hot, 1900000, 3000000);
    int64_t unproved = self_of(FILE_OF("\"self_ns\":100000,\"seen_ns\":1500000",
                                       "\"self_ns\":2900000,\"seen_ns\":1500000"),
                               "hot", &half);
    assert_in_range(unproved, 90000, 110000);
}

/* Two late looks met a function with a thirtieth of the time: the probability of that is one in a thousand. */
static void test_two_looks_at_a_rare_function_are_enough(void **state)
{
    (void)state;
    int64_t half;
    int64_t hot =
        self_of(FILE_WITH("8000", "\"self_ns\":80000,\"seen_ns\":2100000", "\"self_ns\":2920000"),
                "hot", &half);
    assert_in_range(hot, 2000000, 3000000);
    int64_t common =
        self_of(FILE_WITH("8000", "\"self_ns\":600000,\"seen_ns\":2100000", "\"self_ns\":2400000"),
                "hot", &half);
    assert_in_range(common, 590000, 610000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_unwatched_time_is_not_published_without_a_watcher, begin),
        cmocka_unit_test_setup(test_open_calls_get_their_self_time_when_the_watcher_starts, begin),
        cmocka_unit_test(test_self_time_follows_the_watcher_when_its_error_is_small),
        cmocka_unit_test(test_time_before_the_watcher_ran_is_not_missing),
        cmocka_unit_test(test_a_call_that_two_looks_met_is_the_functions),
        cmocka_unit_test(test_two_looks_at_a_rare_function_are_enough),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
