/* Which functions a selection wants, and that it survives being written and read again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <stdio.h>
#include <unistd.h>

#include "tool/build/selection.h"

static bool wants(const struct selection *s, const char *bare, const char *qualified,
                  const char *file)
{
    return selection_wants(s, bare, qualified, file);
}

static void nothing_named_means_the_projects_own(void **state)
{
    (void)state;
    char root[] = "/home/me/game";
    struct selection s = {.root = root};
    assert_true(wants(&s, "update", "update", "src/world.c"));
    assert_true(wants(&s, "update", "update", "/home/me/game/src/world.c"));
    assert_false(wants(&s, "sort", "std::sort", "/usr/include/c++/12/algorithm"));
}

static void patterns_are_substrings_of_either_name(void **state)
{
    (void)state;
    struct selection s = {0};
    assert_int_equal(selection_add(&s.fns, "parse"), 0);
    assert_int_equal(selection_add(&s.fns, "Lexer::"), 0);
    assert_true(wants(&s, "parse_node", "Parser::parse_node", "a.cc"));
    assert_true(wants(&s, "next", "Lexer::next", "a.cc"));
    assert_false(wants(&s, "next", "Reader::next", "a.cc"));
    selection_release(&s);
}

static void exact_names_are_whole_ones(void **state)
{
    (void)state;
    struct selection s = {.exact = true};
    assert_int_equal(selection_add(&s.fns, "run"), 0);
    assert_int_equal(selection_add(&s.fns, "Game::tick"), 0);
    assert_true(wants(&s, "run", "run", "a.c"));
    assert_true(wants(&s, "run", "Game::run", "a.cc"));
    assert_true(wants(&s, "tick", "Game::tick", "a.cc"));
    assert_false(wants(&s, "tick", "Clock::tick", "a.cc"));
    assert_false(wants(&s, "runner", "runner", "a.c"));
    selection_release(&s);
}

static void files_and_directories_are_whole_parts_of_a_path(void **state)
{
    (void)state;
    struct selection s = {0};
    assert_int_equal(selection_add(&s.files, "net/http.c"), 0);
    assert_int_equal(selection_add(&s.dirs, "src/ui"), 0);
    assert_true(wants(&s, "f", "f", "src/net/http.c"));
    assert_false(wants(&s, "f", "f", "src/subnet/http.c"));
    assert_true(wants(&s, "f", "f", "src/ui/deep/menu.c"));
    assert_false(wants(&s, "f", "f", "src/uix/menu.c"));
    selection_release(&s);
}

static void skipping_wins_over_all_but_nothing_else(void **state)
{
    (void)state;
    struct selection s = {0};
    assert_int_equal(selection_add(&s.fns, "vec"), 0);
    assert_int_equal(selection_add(&s.skips, "vec_add"), 0);
    assert_false(wants(&s, "vec_add", "vec_add", "v.c"));
    assert_true(wants(&s, "vec_add_all", "vec_add_all", "v.c"));
    selection_release(&s);
}

static void a_selection_reads_back(void **state)
{
    (void)state;
    char path[] = "/tmp/piano-selection-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    char root[] = "/home/me/my game", frame[] = "tick";
    struct selection out = {.root = root, .frame = frame, .exact = true}, in = {0};
    assert_int_equal(selection_add(&out.fns, "operator <"), 0);
    assert_int_equal(selection_add(&out.dirs, "a b"), 0);
    assert_int_equal(selection_save(&out, path), 0);
    assert_int_equal(selection_load(&in, path), 0);
    assert_string_equal(in.root, root);
    assert_string_equal(in.frame, frame);
    assert_true(in.exact);
    assert_int_equal(in.fns.count, 1);
    assert_string_equal(in.fns.items[0], "operator <");
    assert_string_equal(in.dirs.items[0], "a b");
    out.root = out.frame = NULL;
    selection_release(&out);
    selection_release(&in);
    unlink(path);
}

static void a_value_with_a_newline_is_refused(void **state)
{
    (void)state;
    struct selection s = {0};
    assert_int_equal(selection_add(&s.fns, "a\nskip main"), 0);
    assert_true(selection_save(&s, "/tmp/piano-selection-never") < 0);
    assert_int_equal(access("/tmp/piano-selection-never", F_OK), -1);
    selection_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_named_means_the_projects_own),
        cmocka_unit_test(patterns_are_substrings_of_either_name),
        cmocka_unit_test(exact_names_are_whole_ones),
        cmocka_unit_test(files_and_directories_are_whole_parts_of_a_path),
        cmocka_unit_test(skipping_wins_over_all_but_nothing_else),
        cmocka_unit_test(a_selection_reads_back),
        cmocka_unit_test(a_value_with_a_newline_is_refused),
    };
    return cmocka_run_group_tests_name("selection", tests, NULL, NULL);
}
