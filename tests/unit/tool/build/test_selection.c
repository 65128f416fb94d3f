/* selection.c: which functions are chosen, and the selection's file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tool/build/records.h"
#include "tool/build/refresh.h"
#include "tool/build/selection.h"
#include "temp.h"

static struct selection project(void)
{
    struct selection s = {0};
    s.root = strdup("/home/u/game");
    s.mirror = strdup("/home/u/game/.piano/build/tree/game");
    return s;
}

static void test_all_functions_of_the_project_are_selected_by_default(void **state)
{
    (void)state;
    struct selection s = project();
    assert_true(selection_wants(&s, "f", "f", "src/a.c"));
    assert_true(selection_wants(&s, "f", "f", "/home/u/game/src/a.c"));
    assert_true(selection_wants(&s, "f", "f", "/home/u/shared/a.c"));
    assert_false(selection_wants(&s, "f", "f", "/usr/include/stdio.h"));
    assert_false(selection_wants(&s, "f", "f", "/opt/lib/x.h"));
    assert_true(selection_wants(&s, "f", "f", "/optional/x.h"));
    selection_release(&s);
}

static void test_fn_is_a_substring_of_either_name(void **state)
{
    (void)state;
    struct selection s = project();
    selection_add(&s.fns, "World::up");
    assert_true(selection_wants(&s, "update", "World::update", "a.cc"));
    assert_false(selection_wants(&s, "update", "update", "a.cc"));
    selection_add(&s.fns, "date");
    assert_true(selection_wants(&s, "update", "update", "a.cc"));
    selection_release(&s);
}

static void test_exact_matches_the_whole_name(void **state)
{
    (void)state;
    struct selection s = project();
    s.exact = true;
    selection_add(&s.fns, "update");
    assert_true(selection_wants(&s, "update", "World::update", "a.cc"));
    assert_false(selection_wants(&s, "update2", "update2", "a.cc"));
    selection_release(&s);
}

static void test_file_is_a_tail_at_a_slash(void **state)
{
    (void)state;
    struct selection s = project();
    selection_add(&s.files, "phys.c");
    assert_true(selection_wants(&s, "f", "f", "phys.c"));
    assert_true(selection_wants(&s, "f", "f", "src/phys.c"));
    assert_false(selection_wants(&s, "f", "f", "src/biophys.c"));
    assert_false(selection_wants(&s, "f", "f", "src/phys.cc"));
    selection_release(&s);
}

static void test_dir_is_whole_components(void **state)
{
    (void)state;
    struct selection s = project();
    selection_add(&s.dirs, "src/phys/");
    assert_true(selection_wants(&s, "f", "f", "src/phys/deep/a.c"));
    assert_true(selection_wants(&s, "f", "f", "/home/u/game/.piano/build/tree/game/src/phys/a.c"));
    assert_false(selection_wants(&s, "f", "f", "src/physics/a.c"));
    assert_false(selection_wants(&s, "f", "f", "lib/src/phys/a.c"));
    selection_add(&s.dirs, ".");
    assert_true(selection_wants(&s, "f", "f", "lib/a.c"));
    assert_false(selection_wants(&s, "f", "f", "/usr/include/x.h"));
    selection_release(&s);
}

static void test_selectors_add_and_skip_subtracts(void **state)
{
    (void)state;
    struct selection s = project();
    selection_add(&s.fns, "update");
    selection_add(&s.dirs, "lib");
    selection_add(&s.skips, "update_all");
    selection_add(&s.skips, "Lib::helper");
    assert_true(selection_wants(&s, "update", "update", "src/a.c"));
    assert_true(selection_wants(&s, "other", "other", "lib/a.c"));
    assert_false(selection_wants(&s, "other", "other", "src/a.c"));
    assert_false(selection_wants(&s, "update_all", "update_all", "src/a.c"));
    assert_false(selection_wants(&s, "helper", "Lib::helper", "lib/a.c"));
    assert_true(selection_wants(&s, "helper", "Other::helper", "lib/a.c"));
    selection_release(&s);
}

static void test_frame_is_always_wanted(void **state)
{
    (void)state;
    struct selection s = project();
    s.frame = strdup("tick");
    selection_add(&s.fns, "update");
    assert_true(selection_wants(&s, "tick", "World::tick", "src/a.c"));
    assert_true(selection_is_frame(&s, "tick", "World::tick"));
    assert_false(selection_is_frame(&s, "ticks", "ticks"));
    selection_release(&s);
}

static void test_save_and_load(void **state)
{
    (void)state;
    char path[256];
    temp_name(path, sizeof path, "piano-selection-XXXXXX");
    close(mkstemp(path));
    struct selection s = project();
    struct selection t;
    s.exact = true;
    s.frame = strdup("operator ()");
    selection_add(&s.fns, "a b");
    selection_add(&s.fns, "c");
    selection_add(&s.skips, "main");
    assert_int_equal(selection_save(&s, path), 0);
    assert_int_equal(selection_load(&t, path), 0);
    assert_string_equal(t.root, s.root);
    assert_string_equal(t.mirror, s.mirror);
    assert_string_equal(t.frame, "operator ()");
    assert_null(t.lib);
    assert_true(t.exact);
    assert_int_equal(t.fns.count, 2);
    assert_string_equal(t.fns.items[0], "a b");
    assert_string_equal(t.skips.items[0], "main");
    selection_release(&t);
    selection_add(&s.fns, "two\nlines");
    assert_int_equal(selection_save(&s, path), -22);
    selection_release(&s);
    unlink(path);
}

static void test_load_of_bad_files(void **state)
{
    (void)state;
    char path[256];
    temp_name(path, sizeof path, "piano-selection-XXXXXX");
    int fd = mkstemp(path);
    struct selection s;
    assert_int_equal(write(fd, "root /x\nfuture thing\nnonsense\n", 30), 30);
    close(fd);
    assert_int_equal(selection_load(&s, path), -22);
    selection_release(&s);
    unlink(path);
    assert_int_equal(selection_load(&s, path), -2);
    selection_release(&s);
}

static void test_bare_names(void **state)
{
    (void)state;
    assert_string_equal(records_bare_name("f"), "f");
    assert_string_equal(records_bare_name("A::B::f"), "f");
    assert_string_equal(records_bare_name("A<x::y>::f"), "f");
    assert_string_equal(records_bare_name("A::operator<"), "operator<");
}

/* What a changed selection affects. */
static void test_changed_units(void **state)
{
    (void)state;
    struct record_fn fns[] = {
        {"update", "src/a.c", 1, RECORD_INSTRUMENTED, ""},
        {"draw", "src/a.c", 9, RECORD_UNSELECTED, ""},
        {"naked", "src/a.c", 20, RECORD_SKIPPED, "naked"},
    };
    struct record_unit u = {.source = "src/a.c", .output = "a.o", .fns = fns, .fn_count = 3};
    struct record_unit unsearched = {.source = "b.c", .output = "b.o", .note = "not searched: x"};
    struct selection before = project();
    struct selection now = project();
    selection_add(&before.fns, "update");
    selection_add(&now.fns, "update");
    assert_false(refresh_is_changed(&u, &before, &now));
    assert_false(refresh_is_changed(&unsearched, &before, &now));
    selection_add(&now.fns, "naked"); /* left out before, and now */
    assert_false(refresh_is_changed(&u, &before, &now));
    assert_true(refresh_is_changed(&unsearched, &before, &now));
    unsearched.words = "int main redraw "; /* it has no function to choose */
    assert_false(refresh_is_changed(&unsearched, &before, &now));
    selection_add(&now.fns, "dra");
    assert_true(refresh_is_changed(&unsearched, &before, &now)); /* a part of a name is enough */
    assert_true(refresh_is_changed(&u, &before, &now));
    selection_release(&now);
    now = project();
    selection_add(&now.fns, "update");
    now.frame = strdup("update"); /* stands in every instrumented object */
    assert_true(refresh_is_changed(&u, &before, &now));
    selection_release(&now);
    selection_release(&before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_functions_of_the_project_are_selected_by_default),
        cmocka_unit_test(test_fn_is_a_substring_of_either_name),
        cmocka_unit_test(test_exact_matches_the_whole_name),
        cmocka_unit_test(test_file_is_a_tail_at_a_slash),
        cmocka_unit_test(test_dir_is_whole_components),
        cmocka_unit_test(test_selectors_add_and_skip_subtracts),
        cmocka_unit_test(test_frame_is_always_wanted),
        cmocka_unit_test(test_save_and_load),
        cmocka_unit_test(test_load_of_bad_files),
        cmocka_unit_test(test_bare_names),
        cmocka_unit_test(test_changed_units),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
