/* nearest.c: distances and suggestions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tool/util/nearest.h"

static void test_distance(void **state)
{
    (void)state;
    assert_int_equal(nearest_distance("update", "update", 3), 0);
    assert_int_equal(nearest_distance("updat", "update", 3), 1);
    assert_int_equal(nearest_distance("updtae", "update", 3), 1); /* a swap is one mistake */
    assert_int_equal(nearest_distance("", "abc", 5), 3);
    assert_int_equal(nearest_distance("kitten", "sitting", 5), 3);
    assert_int_equal(nearest_distance("abc", "xyz", 1), 2); /* limit + 1 */
}

static void test_distance_of_long_names_is_bounded(void **state)
{
    (void)state;
    char a[4096], b[4096];
    memset(a, 'a', sizeof a - 1);
    memset(b, 'a', sizeof b - 1);
    a[sizeof a - 1] = b[sizeof b - 1] = '\0';
    assert_int_equal(nearest_distance(a, b, 4), 5);
}

static void test_find_orders_by_nearness(void **state)
{
    (void)state;
    const char *names[] = {"render", "updates", "World::update", "update", "update", "parse"};
    const char *out[5];
    size_t count = nearest_find("updat", names, 6, out, 5);
    assert_int_equal(count, 3);
    assert_string_equal(out[0], "World::update");
    assert_string_equal(out[1], "update");
    assert_string_equal(out[2], "updates");
}

static void test_find_ignores_case_and_prefixes(void **state)
{
    (void)state;
    const char *names[] = {"ParseNode", "draw"};
    const char *out[5];
    assert_int_equal(nearest_find("parsenode", names, 2, out, 5), 1);
    assert_string_equal(out[0], "ParseNode");
    assert_int_equal(nearest_find("game_draw", names, 2, out, 5), 1);
    assert_string_equal(out[0], "draw");
}

static void test_find_keeps_the_best_when_full(void **state)
{
    (void)state;
    const char *names[] = {"abcdeXYf", "abcdeXf", "abcdef"};
    const char *out[1];
    assert_int_equal(nearest_find("abcdefg", names, 3, out, 1), 1);
    assert_string_equal(out[0], "abcdef");
}

static void test_nothing_near(void **state)
{
    (void)state;
    const char *names[] = {"render", "parse"};
    assert_null(nearest_name("zzzzzz", names, 2));
    assert_null(nearest_name("x", NULL, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_distance),
        cmocka_unit_test(test_distance_of_long_names_is_bounded),
        cmocka_unit_test(test_find_orders_by_nearness),
        cmocka_unit_test(test_find_ignores_case_and_prefixes),
        cmocka_unit_test(test_find_keeps_the_best_when_full),
        cmocka_unit_test(test_nothing_near),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
