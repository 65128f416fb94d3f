/* The JSON reader: reads valid text, and reports an error for any other text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tool/util/json.h"

static struct json over(const char *text)
{
    return (struct json){.at = text, .end = text + strlen(text)};
}

static int64_t number(const char *text)
{
    struct json j = over(text);
    int64_t value = -77;
    assert_int_equal(json_int(&j, &value), 0);
    return value;
}

static void numbers_of_every_kind(void **state)
{
    (void)state;
    assert_int_equal(number("0"), 0);
    assert_int_equal(number("-12"), -12);
    assert_int_equal(number("9223372036854775807"), INT64_MAX);
    assert_int_equal(number("99999999999999999999"), INT64_MAX);
    assert_int_equal(number("-99999999999999999999"), -INT64_MAX);
    assert_int_equal(number("1e3"), 1000);
    assert_int_equal(number("2.6"), 3);
    assert_int_equal(number("1e400"), INT64_MAX);
}

static void members_and_items_in_order(void **state)
{
    (void)state;
    struct json j = over("{\"a\": [1, 2, 3], \"b\\n\": \"x\"}");
    struct json_text key, text;
    bool first = true, first_item = true;
    int64_t value, sum = 0;
    assert_int_equal(json_expect(&j, '{', "expected an object"), 0);
    assert_int_equal(json_member(&j, &first, &key), 1);
    assert_true(json_is(key, "a"));
    assert_int_equal(json_expect(&j, '[', "expected an array"), 0);
    while (json_item(&j, &first_item) == 1) {
        assert_int_equal(json_int(&j, &value), 0);
        sum = sum * 10 + value;
    }
    assert_int_equal(sum, 123);
    assert_int_equal(json_member(&j, &first, &key), 1);
    assert_true(key.escaped);
    assert_int_equal(json_string(&j, &text), 0);
    assert_int_equal(json_member(&j, &first, &key), 0);
    assert_int_equal(json_end(&j), 0);
}

static void broken_text_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",          "{",   "{\"a\"", "{\"a\":}", "[1,]", "{a:1}", "\"\\x\"",    "\"\n\"",
        "\"\\u12\"", "tru", "01",     "1.",       "-",    "[1 2]", "{\"a\":1,}", "nul"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct json j = over(bad[i]);
        int status = json_skip(&j);
        if (status == 0)
            status = json_end(&j);
        if (status == 0)
            fail_msg("accepted: %s", bad[i]);
        assert_non_null(j.problem);
    }
}

static void nesting_is_bounded(void **state)
{
    (void)state;
    char deep[4 * JSON_MAX_DEPTH];
    memset(deep, '[', sizeof deep);
    struct json j = {.at = deep, .end = deep + sizeof deep};
    assert_true(json_skip(&j) < 0);
}

static void strings_survive_writing_and_reading(void **state)
{
    (void)state;
    const char *text = "say \"hi\"\\ \t\x01 \xc3\xa9";
    struct buf b = {0};
    json_put_string(&b, text);
    struct json j = {.at = b.data, .end = b.data + b.len};
    struct json_text view;
    assert_int_equal(json_string(&j, &view), 0);
    char *back = json_unescape(view);
    assert_string_equal(back, text);
    free(back);
    buf_free(&b);
}

static void random_bytes_do_not_crash_the_reader(void **state)
{
    (void)state;
    static const char letters[] = "{}[]\",:\\u0123eE+-.tfn \n\xff";
    uint32_t random = 99;
    for (int round = 0; round < 20000; round++) {
        size_t len = round % 40;
        char *text =
            malloc(len + 1); /* in a separate block, so that ASan detects a read beyond it */
        assert_non_null(text);
        for (size_t i = 0; i < len; i++) {
            random = random * 1664525 + 1013904223;
            text[i] = letters[(random >> 16) % (sizeof letters - 1)];
        }
        struct json j = {.at = text, .end = text + len};
        (void)(json_skip(&j) == 0 && json_end(&j) == 0);
        assert_true(j.at <= j.end);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_of_every_kind),
        cmocka_unit_test(members_and_items_in_order),
        cmocka_unit_test(broken_text_is_refused),
        cmocka_unit_test(nesting_is_bounded),
        cmocka_unit_test(strings_survive_writing_and_reading),
        cmocka_unit_test(random_bytes_do_not_crash_the_reader),
    };
    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
