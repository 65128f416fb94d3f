/* The text of a run's lines: it is valid JSON for all names and numbers, and a text that
 * does not fit returns an error and does not overflow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "common/lines.h"

struct page {
    char bytes[512];
    struct piano__text text;
};

static void begin(struct page *page, size_t room)
{
    memset(page->bytes, '#', sizeof page->bytes);
    page->text = (struct piano__text){page->bytes, page->bytes + room, false};
}

static const char *written(struct page *page)
{
    *page->text.at = '\0';
    return page->bytes;
}

static void integers_of_every_size_are_written(void **state)
{
    (void)state;
    static const struct {
        int64_t value;
        const char *text;
    } cases[] = {
        {0, "0"},
        {-1, "-1"},
        {1000000007, "1000000007"},
        {INT64_MAX, "9223372036854775807"},
        {INT64_MIN, "-9223372036854775808"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct page page;
        begin(&page, sizeof page.bytes - 1);
        piano__text_int(&page.text, cases[i].value);
        assert_string_equal(written(&page), cases[i].text);
    }
    for (int64_t scale = 1; scale <= INT64_MAX / 10; scale *= 10) {
        for (int64_t value = scale - 2; value <= scale + 2; value++) {
            for (int sign = -1; sign <= 1; sign += 2) {
                struct page page;
                char text[PIANO_DIGITS];
                begin(&page, sizeof page.bytes - 1);
                piano__text_int(&page.text, sign * value);
                snprintf(text, sizeof text, "%ld", sign * value);
                assert_string_equal(written(&page), text);
            }
        }
    }
}

static void quoting_keeps_bytes_and_escapes_controls(void **state)
{
    (void)state;
    struct page page;
    begin(&page, sizeof page.bytes - 1);
    piano__text_quote(&page.text, "a\"b\\c\n\x1b[31m\xc3\xa9");
    assert_string_equal(written(&page), "\"a\\\"b\\\\c\\u000a\\u001b[31m\xc3\xa9\"");
}

static void full_text_ends_with_the_last_piece_that_fits(void **state)
{
    (void)state;
    struct page page;
    begin(&page, 10);
    piano__text_puts(&page.text, "12345678");
    piano__text_puts(&page.text, "abc");
    assert_true(page.text.full);
    piano__text_puts(&page.text, "x");
    assert_int_equal(page.text.at - page.bytes, 8);
    assert_int_equal(page.bytes[8], '#');
}

static void tally_line_has_every_field(void **state)
{
    (void)state;
    struct piano__tally tally = {.calls = 3, .self = 100, .total = 200, .raw = 110, .timed = 3};
    tally.alloc_count = 5;
    tally.alloc_bytes = 640;
    struct page page;
    begin(&page, sizeof page.bytes - 1);
    piano__line_tally(&page.text, 7, &tally, (uint64_t)1 << 32); /* a tick is a nanosecond */
    static const char *const fields[] = {"{\"id\":7,",       "\"calls\":3", "\"self_ns\":100",
                                         "\"total_ns\":200", "\"ac\":5",    "\"ab\":640",
                                         "\"raw_ns\":110"};
    const char *line = written(&page);
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        assert_non_null(strstr(line, fields[i]));
    assert_null(strstr(line, "timed"));
}

static void tally_line_of_sampled_calls_has_the_number_timed(void **state)
{
    (void)state;
    struct piano__tally tally = {.calls = 1000, .timed = 8};
    struct page page;
    begin(&page, sizeof page.bytes - 1);
    piano__line_tally(&page.text, 0, &tally, (uint64_t)1 << 32);
    assert_non_null(strstr(written(&page), "\"timed\":8}"));
}

static void tally_line_counts_a_timed_call_that_began_in_an_earlier_line(void **state)
{
    (void)state;
    struct piano__tally tally = {.calls = 0, .timed = 1, .self = 5};
    struct page page;
    begin(&page, sizeof page.bytes - 1);
    piano__line_tally(&page.text, 0, &tally, (uint64_t)1 << 32);
    assert_non_null(strstr(written(&page), "\"calls\":0"));
    assert_non_null(strstr(written(&page), "\"timed\":1}"));
}

static void ticks_convert_to_nanoseconds_for_fast_and_slow_clocks(void **state)
{
    (void)state;
    uint64_t half = (uint64_t)1 << 31;
    assert_int_equal(piano__ticks_ns(1000, half), 500);
    assert_int_equal(piano__ticks_ns(-1000, half), -500);
    /* A run of ten years at 3 GHz does not overflow on the way. */
    int64_t ten_years = INT64_C(315360000) * 3000000000;
    assert_int_equal(piano__ticks_ns(ten_years, half), ten_years / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_of_every_size_are_written),
        cmocka_unit_test(quoting_keeps_bytes_and_escapes_controls),
        cmocka_unit_test(full_text_ends_with_the_last_piece_that_fits),
        cmocka_unit_test(tally_line_has_every_field),
        cmocka_unit_test(tally_line_of_sampled_calls_has_the_number_timed),
        cmocka_unit_test(tally_line_counts_a_timed_call_that_began_in_an_earlier_line),
        cmocka_unit_test(ticks_convert_to_nanoseconds_for_fast_and_slow_clocks),
    };
    return cmocka_run_group_tests_name("lines", tests, NULL, NULL);
}
