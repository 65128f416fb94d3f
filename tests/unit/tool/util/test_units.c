/* Numbers for people: the unit is chosen after rounding, and signs are kept. */
#include <setjmp.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "tool/util/table.h"
#include "tool/util/units.h"

#define SAYS(call, expected)                                                                       \
    do {                                                                                           \
        char text[UNITS_LEN];                                                                      \
        assert_string_equal(call, expected);                                                       \
    } while (0)

static void times_are_rounded_before_the_unit_is_chosen(void **state)
{
    (void)state;
    SAYS(units_time(text, 0), "0ns");
    SAYS(units_time(text, 999), "999ns");
    SAYS(units_time(text, 1000), "1.0us");
    SAYS(units_time(text, 38100), "38.1us");
    SAYS(units_time(text, 999960), "1.0ms");
    SAYS(units_time(text, 145200000), "145.2ms");
    SAYS(units_time(text, 2400000000), "2.4s");
    SAYS(units_time(text, -1500), "-1.5us");
    SAYS(units_time_signed(text, 1500), "+1.5us");
    SAYS(units_time_signed(text, 0), "0ns");
    SAYS(units_time(text, INT64_MIN), "-9223372036.9s");
}

static void sizes_are_rounded_before_the_unit_is_chosen(void **state)
{
    (void)state;
    SAYS(units_bytes(text, 0), "0B");
    SAYS(units_bytes(text, 1023), "1023B");
    SAYS(units_bytes(text, 98304), "96.0KB");
    SAYS(units_bytes(text, 1048575), "1.0MB");
    SAYS(units_bytes(text, 1992294), "1.9MB");
    SAYS(units_bytes_signed(text, -2048), "-2.0KB");
    SAYS(units_bytes(text, INT64_MAX), "8388608.0TB");
}

static void counts_and_shares(void **state)
{
    (void)state;
    SAYS(units_count(text, 3000), "3000");
    SAYS(units_count_signed(text, 50), "+50");
    SAYS(units_count_signed(text, 0), "0");
    SAYS(units_percent(text, 0.125), "12.5%");
    SAYS(units_percent(text, NAN), "-");
    SAYS(units_percent_signed(text, -0.5), "-50.0%");
    SAYS(units_age(text, 0), "just now");
    SAYS(units_age(text, 61), "1m ago");
    SAYS(units_age(text, 200000), "2d ago");
    SAYS(units_age(text, -5), "just now");
}

static void terminal_columns_are_counted_and_names_shortened(void **state)
{
    (void)state;
    char text[64];
    assert_int_equal(table_width("plain"), 5);
    assert_int_equal(table_width("gr\xc3\xb6\xc3\x9f"), 4);
    assert_int_equal(table_width("\xe6\xbc\xa2\xe5\xad\x97"), 4);
    assert_int_equal(table_width("e\xcc\x81"), 1);
    table_shorten(text, sizeof(text), "a_rather_long_name", 9);
    assert_string_equal(text, "a_ra\xe2\x80\xa6name");
    table_shorten(text, sizeof(text), "short", 9);
    assert_string_equal(text, "short");
    table_shorten(text, sizeof(text), "\xe6\xbc\xa2\xe5\xad\x97\xe6\xbc\xa2\xe5\xad\x97", 5);
    assert_true(table_width(text) <= 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_rounded_before_the_unit_is_chosen),
        cmocka_unit_test(sizes_are_rounded_before_the_unit_is_chosen),
        cmocka_unit_test(counts_and_shares),
        cmocka_unit_test(terminal_columns_are_counted_and_names_shortened),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
