/* Which files count as a libclang, and the version in their paths. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tool/build/libclang_find.h"

static void libclang_file_names_are_recognised(void **state)
{
    static const char *const good[] = {
        "libclang.so",      "libclang.so.13",    "libclang.so.19.1", "libclang-14.so.13",
        "libclang-11.so.1", "libclang-19.so.19", "libclang-14.so",   "libclang-14.0.6.so"};
    static const char *const bad[] = {"libclang-cpp.so",    "libclang-cpp.so.14",
                                      "libclang.a",         "libclangAST.a",
                                      "libclang",           "libclang-14",
                                      "libclang.so.13.bak", "xlibclang.so",
                                      "libclang.sold",      "libclang_rt.asan-x86_64.so"};
    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
        assert_true(libclang_is_name(good[i]));
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        assert_false(libclang_is_name(bad[i]));
}

static void version_is_read_from_the_path(void **state)
{
    (void)state;
    assert_int_equal(libclang_path_version("/usr/lib/llvm-14/lib/libclang.so.13"), 14);
    assert_int_equal(libclang_path_version("/usr/lib/x86_64-linux-gnu/libclang-19.so.19"), 19);
    assert_int_equal(libclang_path_version("/usr/lib/x86_64-linux-gnu/libclang-11.so.1"), 11);
    assert_int_equal(libclang_path_version("/usr/lib64/llvm17/lib/libclang.so.17.0.6"), 17);
    assert_int_equal(libclang_path_version("/usr/lib64/libclang.so.19.1"), 19);
    assert_int_equal(libclang_path_version("/usr/lib/libclang.so"), 0);
    assert_int_equal(libclang_path_version("/opt/llvm-9/llvm-20/lib/libclang.so"), 20);
}

/* Newest first, and each file once. */
static void newest_libclang_comes_first_and_each_file_once(void **state)
{
    struct libclang_files files = {0};
    (void)state;
    assert_int_equal(libclang_find(&files), 0);
    for (size_t i = 1; i < files.count; i++) {
        assert_true(files.list[i - 1].version >= files.list[i].version);
        assert_string_not_equal(files.list[i - 1].path, files.list[i].path);
    }
    libclang_files_free(&files);
    assert_int_equal(files.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(libclang_file_names_are_recognised),
        cmocka_unit_test(version_is_read_from_the_path),
        cmocka_unit_test(newest_libclang_comes_first_and_each_file_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
