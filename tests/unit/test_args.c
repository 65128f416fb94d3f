/* Command lines of compilers, and the words of their response files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tool/build/args.h"
#include "tool/build/tokens.h"
#include "tool/build/words.h"

#define PARSE(a, ...)                                                                              \
    char *const argv[] = {__VA_ARGS__, NULL};                                                      \
    assert_int_equal(args_parse(&(a), (int)(sizeof argv / sizeof argv[0]) - 1, argv), 0)

/* String literals are not writable, whatever their type says; args_parse takes argv as it comes. */
#define W(word) ((char[]){word})

static void response_files_split_like_a_compiler_does(void **state)
{
    (void)state;
    struct words w = {0};
    words_split(&w, "-c 'a b.c' \"-DX=\\\"1\\\"\"\n\t-o  x\\ y.o");
    assert_false(w.failed);
    assert_int_equal(w.count, 5);
    assert_string_equal(w.items[1], "a b.c");
    assert_string_equal(w.items[2], "-DX=\"1\"");
    assert_string_equal(w.items[4], "x y.o");
    words_release(&w);
}

static void a_compile_is_understood(void **state)
{
    (void)state;
    struct args a = {0};
    PARSE(a, W("gcc"), W("-O2"), W("-MD"), W("-MF"), W("d/x.d"), W("-c"), W("src/x.c"), W("-o"),
          W("out/x.o"));
    assert_int_equal(a.mode, ARGS_COMPILE);
    assert_int_equal(a.sources, 1);
    assert_string_equal(a.output, "out/x.o");
    assert_string_equal(a.depfile, "d/x.d");
    assert_true(a.depends);
    args_release(&a);
}

static void several_sources_have_outputs_of_their_own(void **state)
{
    (void)state;
    struct args a = {0};
    PARSE(a, W("cc"), W("-c"), W("a/one.c"), W("two.cpp"));
    assert_int_equal(a.sources, 2);
    const char *expect[] = {"one.o", "two.o"};
    for (size_t i = 0, seen = 0; i < a.count; i++) {
        if (a.list[i].role != ARG_SOURCE)
            continue;
        char *output = args_output_of(&a, &a.list[i]);
        assert_string_equal(output, expect[seen]);
        assert_int_equal(a.list[i].lang, seen ? LANG_CXX : LANG_C);
        free(output);
        seen++;
    }
    args_release(&a);
}

static void what_compiles_nothing_is_left_alone(void **state)
{
    (void)state;
    struct args a = {0};
    PARSE(a, W("clang"), W("-E"), W("x.c"));
    assert_true(a.query);
    args_release(&a);
}

static void a_brace_in_a_string_is_no_brace(void **state)
{
    (void)state;
    const char text[] = "{ f(\"}\"); if (c == '}') { g(); } } rest";
    assert_int_equal(tokens_match_brace(text, sizeof text - 1), strlen(text) - strlen(" rest"));
    assert_int_equal(tokens_match_brace("{ {", 3), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(response_files_split_like_a_compiler_does),
        cmocka_unit_test(a_compile_is_understood),
        cmocka_unit_test(several_sources_have_outputs_of_their_own),
        cmocka_unit_test(what_compiles_nothing_is_left_alone),
        cmocka_unit_test(a_brace_in_a_string_is_no_brace),
    };
    return cmocka_run_group_tests_name("args", tests, NULL, NULL);
}
