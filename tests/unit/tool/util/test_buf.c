/* The byte string. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

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

static void empty_file_is_an_empty_text(void **state)
{
    (void)state;
    char path[] = "/tmp/piano-buf-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    struct buf b = {0};
    buf_puts(&b, "left over");
    b.len = 0; /* what malloc returns may contain anything */
    assert_int_equal(buf_read_file(&b, path), 0);
    assert_int_equal(b.len, 0);
    assert_string_equal(b.data, "");
    buf_free(&b);
    close(fd);
    unlink(path);
}

static void own_file_that_is_far_too_large_is_refused(void **state)
{
    (void)state;
    char path[] = "/tmp/piano-buf-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    struct buf b = {0};
    assert_int_equal(ftruncate(fd, (off_t)1 << 40), 0);
    assert_int_equal(buf_read_own_file(&b, path), -EFBIG);
    assert_null(b.data);
    assert_int_equal(ftruncate(fd, 3), 0);
    assert_int_equal(buf_read_own_file(&b, path), 0);
    assert_int_equal(b.len, 3);
    buf_free(&b);
    close(fd);
    unlink(path);
}

static void text_becomes_a_literal(void **state)
{
    (void)state;
    struct buf b = {0};
    buf_put_c_literal(&b, "a\"b\\c\n\x7f\xc3\xa9");
    assert_string_equal(b.data, "\"a\\\"b\\\\c\\012\\177\xc3\xa9\"");
    buf_clear(&b);
    buf_put_escaped(&b, "\t\"", true);
    assert_string_equal(b.data, "\\x09\\\"");
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buf_holds_what_was_put),
        cmocka_unit_test(text_becomes_a_literal),
        cmocka_unit_test(empty_file_is_an_empty_text),
        cmocka_unit_test(own_file_that_is_far_too_large_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
