/* What reaches a terminal: no name from a run file may carry an escape, and numbers read well. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tool/util/nearest.h"
#include "tool/util/say.h"
#include "tool/util/units.h"

static void escapes_become_visible(void **state)
{
    (void)state;
    char safe[128];
    assert_string_equal(say_safe(safe, sizeof safe, "a\x1b[31mb\r\n"), "a\\x1b[31mb\\x0d\\x0a");
    assert_string_equal(say_safe(safe, sizeof safe,
                                 "Gr\xc3\xb6\xc3\x9f"
                                 "e"),
                        "Gr\xc3\xb6\xc3\x9f"
                        "e");
    assert_string_equal(say_safe(safe, sizeof safe,
                                 "\xff"
                                 "x\xc3"),
                        "\\xffx\\xc3");
    /* right-to-left override, and a C1 control sequence introducer */
    assert_string_equal(say_safe(safe, sizeof safe,
                                 "a\xe2\x80\xae"
                                 "b"),
                        "a\\u{202e}b");
    assert_string_equal(say_safe(safe, sizeof safe,
                                 "\xc2\x9b"
                                 "2J"),
                        "\\u{9b}2J");
}

static void a_small_room_is_never_left(void **state)
{
    (void)state;
    for (size_t size = 1; size < 12; size++) {
        char *room = malloc(size); /* exactly: one byte more is seen by ASan */
        assert_non_null(room);
        say_safe(room, size, "ab\x1b\xc3\xa9\xf0\x9f\x98\x80");
        assert_true(strlen(room) < size);
        free(room);
    }
}

static void numbers_have_units(void **state)
{
    (void)state;
    char text[UNITS_LEN];
    assert_string_equal(units_time(text, 812), "812ns");
    assert_string_equal(units_time(text, 38100), "38.1us");
    assert_string_equal(units_bytes(text, 512), "512B");
    assert_string_equal(units_count_signed(text, 3000), "+3000");
    assert_string_equal(units_percent(text, 0.125), "12.5%");
    /* The ends of the range come out as something, within the room. */
    assert_true(strlen(units_time(text, INT64_MAX)) < UNITS_LEN);
    assert_true(strlen(units_time(text, INT64_MIN)) < UNITS_LEN);
    assert_true(strlen(units_bytes_signed(text, INT64_MIN)) < UNITS_LEN);
    assert_true(strlen(units_count(text, INT64_MIN)) < UNITS_LEN);
}

static void rounding_does_not_make_a_thousand_of_a_unit(void **state)
{
    (void)state;
    char text[UNITS_LEN];
    assert_string_equal(units_time(text, 999999), "1.0ms");
    assert_string_equal(units_time(text, 999999999), "1.0s");
    assert_string_equal(units_bytes(text, 1024 * 1024 - 1), "1.0MB");
}

static void typing_errors_find_their_name(void **state)
{
    (void)state;
    const char *names[] = {"update", "render", "Parser::parse_node", "main"};
    assert_string_equal(nearest_name("updaet", names, 4), "update");
    assert_string_equal(nearest_name("parse_nod", names, 4), "Parser::parse_node");
    assert_null(nearest_name("zzzzzz", names, 4));
    assert_int_equal(nearest_distance("ab", "ba", 3), 1);
    assert_int_equal(nearest_distance("kitten", "sitting", 2), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(escapes_become_visible),
        cmocka_unit_test(a_small_room_is_never_left),
        cmocka_unit_test(numbers_have_units),
        cmocka_unit_test(rounding_does_not_make_a_thousand_of_a_unit),
        cmocka_unit_test(typing_errors_find_their_name),
    };
    return cmocka_run_group_tests_name("say", tests, NULL, NULL);
}
