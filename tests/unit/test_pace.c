/* What is taken off for a fenced probe follows what such probes cost now. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "target/span/pace.h"
#include "target/span/run.h"
#include "target/sys/clock.h"

enum { TURNS = 64 * 50 };

static struct piano__live_header header;

/* What a pair of reads takes here, in 1/256 ticks. */
static int64_t pair_now(void)
{
    int64_t sum = 0, count = 0;
    for (int i = 0; i < TURNS; i++) {
        int64_t first = piano__ticks_fenced();
        int64_t pair = piano__ticks_fenced() - first;
        if (pair < 1000) {
            sum += pair;
            count++;
        }
    }
    return sum * 256 / count;
}

static int64_t cost_when_calibrated_at(int64_t pair)
{
    struct piano__thread t = {.pace = 0};
    header.bias.pair = pair;
    for (int i = 0; i < TURNS; i++)
        piano__pace_take(&t);
    return piano__paced(&t, 1000);
}

static int setup(void **state)
{
    (void)state;
    piano__clock_init();
    piano__run.header = &header;
    return 0;
}

static void test_as_calibrated_until_known(void **state)
{
    (void)state;
    struct piano__thread t = {.pace = 0};
    header.bias.pair = 256;
    assert_int_equal(piano__paced(&t, 12345), 12345);
}

static void test_follows_what_a_pair_takes(void **state)
{
    (void)state;
    int64_t pair = pair_now();
    int64_t same = cost_when_calibrated_at(pair);
    int64_t slower = cost_when_calibrated_at(pair * 3 / 4); /* than when it was calibrated */
    int64_t faster = cost_when_calibrated_at(pair * 2);
    assert_in_range(same, 700, 1400);
    assert_in_range(100 * slower / same, 115, 150);
    assert_in_range(100 * faster / same, 35, 65);
}

static void test_without_a_calibration_nothing_is_followed(void **state)
{
    (void)state;
    assert_int_equal(cost_when_calibrated_at(0), 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_calibrated_until_known),
        cmocka_unit_test(test_follows_what_a_pair_takes),
        cmocka_unit_test(test_without_a_calibration_nothing_is_followed),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
