/* Finds functions in a preprocessed text and inserts guards. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tool/build/analyse.h"
#include "tool/build/libclang.h"
#include "tool/build/place.h"
#include "tool/build/rewrite.h"
#include "tool/build/selection.h"
#include "tool/build/tokens.h"

/* A text and the functions found in it. */
struct found {
    const char *text;
    bool cxx;
    struct selection selection;
    struct place place;
    struct analyse functions;
};

static void find(struct found *f, const char *text, bool cxx)
{
    *f = (struct found){.text = text, .cxx = cxx};
    f->selection.root = strdup("/p");
    f->selection.runs = strdup("/p/.piano/runs");
    assert_int_equal(place_init(&f->place, &f->selection, "/p/a.c"), 0);
    struct analyse_source source = {.text = text,
                                    .len = strlen(text),
                                    .cxx = cxx,
                                    .std = cxx ? "c++20" : NULL,
                                    .place = &f->place};
    assert_int_equal(analyse_run(&f->functions, &source), 0);
}

static void forget(struct found *f)
{
    analyse_release(&f->functions);
    place_release(&f->place);
    selection_release(&f->selection);
}

static const struct analyse_fn *named(const struct found *f, const char *qualified)
{
    for (size_t i = 0; i < f->functions.count; i++) {
        if (strcmp(f->functions.fns[i].qualified, qualified) == 0)
            return &f->functions.fns[i];
    }
    fail_msg("%s was not found", qualified);
    return NULL;
}

static void skipped(const struct found *f, const char *qualified, const char *why)
{
    const struct analyse_fn *fn = named(f, qualified);
    assert_non_null(fn->skip);
    assert_string_equal(fn->skip, why);
}

static void places_follow_the_line_markers(void **state)
{
    (void)state;
    struct found f;
    find(&f,
         "# 1 \"/p/a.c\"\n# 1 \"/usr/include/x.h\" 1 3\nstatic int sys(void) { return 0; }\n"
         "# 7 \"/p/inc/../h.h\" 1\nstatic int in_header(void) { return 0; }\n"
         "# 1 \"/elsewhere/o.h\" 1\nstatic int other(void) { return 0; }\n"
         "# 20 \"/p/a.c\" 2\nint one(void){return 1;} int two(void){return 2;}\n"
         "int old(x)\n int x;\n{ return x; }\n",
         false);
    assert_int_equal(f.functions.count, 4);
    assert_string_equal(named(&f, "in_header")->file, "h.h");
    assert_int_equal(named(&f, "in_header")->line, 7);
    assert_string_equal(named(&f, "two")->file, "a.c");
    assert_int_equal(named(&f, "two")->line, 20);
    assert_int_equal(named(&f, "old")->line, 21);
    assert_int_equal(named(&f, "old")->brace_line, 23);
    forget(&f);
}

static void names_are_qualified(void **state)
{
    (void)state;
    struct found f;
    find(&f,
         "# 1 \"/p/a.c\"\nnamespace n { namespace { int hidden() { return 1; } }\n"
         "template <typename T> struct Box { T v; Box(T x) : v(x) { } ~Box() { }\n"
         "Box operator+(Box o) const { return o; } operator bool() const { return true; }\n"
         "Box(const Box &) = default; struct In { void f(); }; };\n"
         "template <typename T> void Box<T>::In::f() { } }\n"
         "extern \"C\" { int plain() { return [] { return 2; }(); } }\n",
         true);
    const char *expect[] = {"n::hidden",
                            "n::Box::Box",
                            "n::Box::~Box",
                            "n::Box::operator+",
                            "n::Box::operator bool",
                            "n::Box::In::f",
                            "plain"};
    assert_int_equal(f.functions.count, sizeof expect / sizeof expect[0]);
    for (size_t i = 0; i < sizeof expect / sizeof expect[0]; i++)
        assert_null(named(&f, expect[i])->skip);
    forget(&f);
}

static void functions_that_cannot_be_guarded_are_skipped(void **state)
{
    (void)state;
    struct found f;
    find(&f,
         "# 1 \"/p/a.c\"\nconstexpr int cx() { return 1; }\n"
         "__attribute__((naked)) void nk() { }\n[[gnu::no_instrument_function]] void ni() { }\n"
         "__attribute__((target(\"no-sse\"))) void tg() { }\n"
         "__attribute__((target(\"avx2\"))) void fine(int interrupt, int naked) { }\n"
         "struct T { T() try { } catch (...) { } };\nvoid *malloc(unsigned long n) { return 0; }\n"
         "void *operator new(unsigned long n) { return 0; }\n",
         true);
    skipped(&f, "cx", "constexpr");
    skipped(&f, "nk", "attribute naked");
    skipped(&f, "ni", "attribute no_instrument_function");
    skipped(&f, "tg", "attribute target takes features away");
    skipped(&f, "T::T", "its body is a try block");
    skipped(&f, "malloc", "it is part of the program's allocator");
    skipped(&f, "operator new", "it is part of the program's allocator");
    assert_null(named(&f, "fine")->skip);
    forget(&f);
}

static void a_text_with_an_ifunc_is_left_alone(void **state)
{
    (void)state;
    struct found f;
    find(&f,
         "# 1 \"/p/a.c\"\nint helper(void) { return 1; }\n"
         "static void *pick(void) { return helper() ? helper : 0; }\n"
         "void ifn(void) __attribute__((__ifunc__ (\"pick\")));\n",
         false);
    skipped(&f, "pick", "its file uses ifunc");
    skipped(&f, "helper", "its file uses ifunc");
    forget(&f);
    find(&f,
         "# 1 \"/p/a.c\"\nint my_ifunc(const char *);\nint g(int ifunc) { return ifunc; }\n"
         "int h(void) { return my_ifunc(\"x\"); }\n",
         false);
    assert_null(named(&f, "g")->skip);
    assert_null(named(&f, "h")->skip);
    forget(&f);
}

static void errors_outside_of_functions_are_reported(void **state)
{
    (void)state;
    struct found f;
    find(&f, "# 1 \"/p/a.c\"\nint f(void) { return nested_gcc_thing_unknown; }\n", false);
    assert_null(f.functions.first_error);
    assert_null(named(&f, "f")->skip);
    forget(&f);
    find(&f, "# 1 \"/p/a.c\"\n_Unknown x;\nint f(void) { return 1; }\n", false);
    assert_non_null(strstr(f.functions.first_error, "/p/a.c:1: "));
    assert_null(named(&f, "f")->skip);
    forget(&f);
}

static void guards_do_not_move_lines_and_columns(void **state)
{
    (void)state;
    struct found f;
    struct buf out = {0};
    find(&f, "# 1 \"/p/a.c\"\nint a(void){return 1;}\tint b(void) { __label__ x; x: return 2; }\n",
         false);
    for (size_t i = 0; i < f.functions.count; i++)
        f.functions.fns[i].chosen = true;
    struct rewrite_source source = {.text = f.text,
                                    .len = strlen(f.text),
                                    .functions = &f.functions,
                                    .selection = &f.selection};
    assert_int_equal(rewrite_run(&out, &source), 0);
    assert_ptr_equal(strstr(out.data, "# 1 \"/p/a.c\"\n# 1 \"<piano>\" 3\n"), out.data);
    assert_non_null(strstr(out.data, "\n# 1 \"/p/a.c\"\n            return 1;}\tint b(void) {"));
    assert_non_null(strstr(out.data, "{ __label__ x;\n# 1 \"/p/a.c\" 3\n "));
    assert_non_null(strstr(out.data, "{\"a\",\"a.c\",1u,0u"));
    assert_non_null(strstr(out.data, "__piano_g1"));
    buf_free(&out);
    forget(&f);
}

/* A newer compiler's default: digits with separators are valid in C23, a function without prototypes is not. */
static void the_default_standard_is_found_by_errors(void **state)
{
    (void)state;
    struct found f;
    find(&f, "# 1 \"/p/a.c\"\nint n = 1'000;\nint newer(void) { return 1; }\n", false);
    if (libclang_version() >= 13) { /* which knows them */
        assert_null(f.functions.first_error);
        assert_null(named(&f, "newer")->skip);
    }
    forget(&f);
    find(&f, "# 1 \"/p/a.c\"\nint older(a) int a; { return a; }\nint same(void) { return 1; }\n",
         false);
    assert_null(f.functions.first_error);
    named(&f, "older");
    named(&f, "same");
    forget(&f);
}

static void function_names_in_string_literals_are_ignored(void **state)
{
    (void)state;
    const char body[] = "{ f(\"co_await\"); /* co_yield */ g(R\"x(co_return)x\"); }";
    assert_null(tokens_forbid_body(body, sizeof body - 1, true));
    const char coroutine[] = "{ co_return; }";
    assert_string_equal(tokens_forbid_body(coroutine, sizeof coroutine - 1, true), "coroutine");
    assert_null(tokens_forbid_body(coroutine, sizeof coroutine - 1, false));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_follow_the_line_markers),
        cmocka_unit_test(names_are_qualified),
        cmocka_unit_test(functions_that_cannot_be_guarded_are_skipped),
        cmocka_unit_test(a_text_with_an_ifunc_is_left_alone),
        cmocka_unit_test(errors_outside_of_functions_are_reported),
        cmocka_unit_test(guards_do_not_move_lines_and_columns),
        cmocka_unit_test(the_default_standard_is_found_by_errors),
        cmocka_unit_test(function_names_in_string_literals_are_ignored),
    };
    return cmocka_run_group_tests_name("rewrite", tests, NULL, NULL);
}
