/* The test machinery itself: a test binary links, runs and reports, and the pieces every other test
 * leans on (the byte string, the histogram numbering) hold. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "common/hist.h"
#include "tool/util/buf.h"

static void buf_holds_what_was_put(void **state)
{
    (void)state;
    struct buf b = {0};
    for (int i = 0; i < 1000; i++)
        buf_printf(&b, "%d,", i % 10);
    assert_false(b.failed);
    assert_int_equal(b.len, 2000);
    assert_int_equal(strlen(b.data), 2000);
    assert_memory_equal(b.data + 1980, "0,1,2,3,4,5,6,7,8,9,", 20);
    buf_clear(&b);
    assert_int_equal(b.len, 0);
    buf_free(&b);
}

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
        cmocka_unit_test(buf_holds_what_was_put),
        cmocka_unit_test(bucket_floor_is_its_first_value),
    };
    return cmocka_run_group_tests_name("smoke", tests, NULL, NULL);
}
