/* rust_cfg.c: conditions of Rust's cfg(). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tool/build/rust_cfg.h"

static const char set[] = "debug_assertions\n"
                          "feature=\"std\"\n"
                          "feature=\"a b\"\n"
                          "target_os=\"linux\"\n"
                          "unix\n";

static void test_words_and_values(void **state)
{
    (void)state;
    assert_true(rust_cfg_holds("", set));
    assert_true(rust_cfg_holds("unix", set));
    assert_false(rust_cfg_holds("windows", set));
    assert_false(rust_cfg_holds("uni", set));
    assert_false(rust_cfg_holds("feature", set));
    assert_true(rust_cfg_holds("feature = \"std\"", set));
    assert_true(rust_cfg_holds("feature=\"a b\"", set));
    assert_false(rust_cfg_holds("feature = \"st\"", set));
    assert_true(rust_cfg_holds("true", set));
    assert_false(rust_cfg_holds("false", set));
}

static void test_lists(void **state)
{
    (void)state;
    assert_true(rust_cfg_holds("all ()", set));
    assert_false(rust_cfg_holds("any ()", set));
    assert_true(rust_cfg_holds("all (unix , not (windows))", set));
    assert_false(rust_cfg_holds("all(unix, feature = \"x\",)", set));
    assert_true(rust_cfg_holds("any(windows, all(unix, target_os = \"linux\"))", set));
    assert_false(rust_cfg_holds("not(any(windows, unix))", set));
}

/* Then the function counts as compiled. */
static void test_what_cannot_be_read_holds(void **state)
{
    (void)state;
    static const char *const odd[] = {"all(windows",   "windows)",       "version(\"1.80\")", "=",
                                      "feature = std", "all(windows,,)", "windows unix"};
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++)
        assert_true(rust_cfg_holds(odd[i], set));
    assert_false(rust_cfg_holds("not", set)); /* a name like any other */
}

static void test_lines(void **state)
{
    (void)state;
    assert_true(rust_has_line("a\nbc\n", "bc"));
    assert_true(rust_has_line("a\nbc", "bc"));
    assert_false(rust_has_line("abc\n", "bc"));
    assert_false(rust_has_line("bcd\n", "bc"));
    assert_true(rust_has_line("bcd\nbc\n", "bc"));
    assert_false(rust_has_line("a\n", ""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words_and_values),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_what_cannot_be_read_holds),
        cmocka_unit_test(test_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
