/* Parts of exported files: rounded weights, and the encoding of protocol buffers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tool/export/export.h"
#include "tool/export/proto.h"

static void rounding_keeps_the_sum(void **state)
{
    (void)state;
    struct export_rounding r = {0};
    int64_t sum = 0;
    for (int k = 0; k < 1000; k++) {
        int64_t one = export_round(&r, 0.3);
        assert_true(one == 0 || one == 1);
        sum += one;
    }
    assert_int_equal(sum, 300);
}

static void proto_writes_numbers_and_messages(void **state)
{
    (void)state;
    struct buf b = {0}, m = {0};
    proto_number(&b, 1, 0); /* the default is not written */
    assert_int_equal(b.len, 0);
    proto_number(&b, 1, 150);
    assert_memory_equal(b.data, "\x08\x96\x01", 3);
    buf_clear(&b);
    proto_varint(&b, UINT64_MAX);
    assert_int_equal(b.len, 10);
    buf_clear(&b);
    proto_bytes(&m, 2, "testing", 7);
    proto_message(&b, 3, &m);
    assert_int_equal(b.len, 11);
    assert_memory_equal(b.data, "\x1a\x09\x12\x07testing", 11);
    assert_int_equal(m.len, 0);
    buf_free(&b);
    buf_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounding_keeps_the_sum),
        cmocka_unit_test(proto_writes_numbers_and_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
