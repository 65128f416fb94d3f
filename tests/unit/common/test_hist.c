/* The numbering of histogram buckets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "common/hist.h"

static void bucket_floor_is_its_first_value(void **state)
{
    (void)state;
    for (unsigned bucket = 1; bucket < PIANO_HIST_BUCKETS; bucket++) {
        uint64_t floor = piano__hist_floor(bucket);
        assert_int_equal(piano__hist_bucket(floor), bucket);
        assert_int_equal(piano__hist_bucket(floor - 1), bucket - 1);
    }
    assert_true(piano__hist_bucket(UINT64_MAX) < PIANO_HIST_BUCKETS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bucket_floor_is_its_first_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
