/* Command lines of compilers, and the words of their response files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tool/build/args.h"
#include "tool/build/tokens.h"
#include "tool/build/words.h"
#include "tool/util/buf.h"

#define PARSE(a, ...)                                                                              \
    char *const argv[] = {__VA_ARGS__, NULL};                                                      \
    assert_int_equal(args_parse(&(a), (int)(sizeof argv / sizeof argv[0]) - 1, argv), 0)

/* String literals are not writable, in spite of their type; args_parse takes argv unchanged. */
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

static void compile_command_is_parsed(void **state)
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

static void each_source_of_a_command_has_its_own_output(void **state)
{
    (void)state;
    struct args a = {0};
    PARSE(a, W("cc"), W("-c"), W("a/one.c"), W("two.cpp"));
    assert_int_equal(a.sources, 2);
    const char *expect[] = {"one.o", "two.o"};
    for (size_t i = 0, seen = 0; i < a.count; i++) {
        if (a.list[i].role != ARG_SOURCE || seen == 2)
            continue;
        char *output = args_output_of(&a, &a.list[i]);
        assert_string_equal(output, expect[seen]);
        assert_int_equal(a.list[i].lang, seen ? LANG_CXX : LANG_C);
        free(output);
        seen++;
    }
    args_release(&a);
}

static void command_that_compiles_nothing_is_left_alone(void **state)
{
    (void)state;
    struct args a = {0};
    PARSE(a, W("clang"), W("-E"), W("x.c"));
    assert_true(a.query);
    args_release(&a);
}

static const struct arg *only_source(const struct args *a)
{
    for (size_t i = 0; i < a->count; i++) {
        if (a->list[i].role == ARG_SOURCE)
            return &a->list[i];
    }
    return NULL;
}

/* The command as one string, with bars between words: "|cc|-c|". The caller frees it. */
static char *joined(const struct words *w)
{
    struct buf out = {0};
    buf_putc(&out, '|');
    for (size_t i = 0; i < w->count; i++)
        buf_printf(&out, "%s|", w->items[i]);
    assert_false(out.failed);
    return out.data;
}

static void preprocessing_writes_the_dependencies(void **state)
{
    (void)state;
    struct args a = {0};
    PARSE(a, W("gcc"), W("-O2"), W("-Iinc"), W("-D"), W("X=1"), W("-MMD"), W("-Werror"), W("-c"),
          W("src/x.c"), W("-oout/x.o"), W("-save-temps"));
    struct words command = {0};
    args_preprocess(&a, only_source(&a), &command);
    char *text = joined(&command);
    assert_string_equal(text, "|gcc|-O2|-Iinc|-D|X=1|-MMD|-Werror|-MF|out/x.d|-MQ|out/x.o|-E|-x|c|"
                              "src/x.c|");
    free(text);
    words_release(&command);
    args_release(&a);
}

static void compile_command_drops_preprocessor_and_warning_options(void **state)
{
    (void)state;
    struct args a = {0};
    PARSE(a, W("gcc"), W("-O2"), W("-Iinc"), W("-include"), W("p.h"), W("-MD"), W("-Werror=shadow"),
          W("-pedantic-errors"), W("-c"), W("x.c"), W("-lm"), W("-Wl,-O1"));
    struct words command = {0};
    args_compile(&a, only_source(&a), "/t/x.i", NULL, &command);
    char *text = joined(&command);
    assert_string_equal(text, "|gcc|-O2|-w|-c|-o|x.o|-x|cpp-output|/t/x.i|");
    free(text);
    words_release(&command);
    args_release(&a);
}

static void a_cxx_driver_reads_c_files_as_cxx(void **state)
{
    (void)state;
    struct args a = {0};
    PARSE(a, W("/usr/bin/x86_64-linux-gnu-g++-12"), W("x.c"), W("-S"));
    assert_int_equal(only_source(&a)->lang, LANG_CXX);
    assert_int_equal(a.mode, ARGS_ASSEMBLE);
    char *output = args_output_of(&a, only_source(&a));
    assert_string_equal(output, "x.s");
    free(output);
    args_release(&a);
}

static void language_option_ends_at_x_none(void **state)
{
    (void)state;
    struct args a = {0};
    PARSE(a, W("cc"), W("-x"), W("c"), W("x.inc"), W("-xnone"), W("y.o"), W("z.S"));
    assert_int_equal(a.sources, 1);
    assert_string_equal(args_input(&a, only_source(&a)), "x.inc");
    assert_int_equal(a.foreign, 1);
    args_release(&a);
}

static void a_launcher_is_part_of_the_command(void **state)
{
    (void)state;
    struct args a = {0};
    PARSE(a, W("/usr/bin/ccache"), W("clang++"), W("-c"), W("x.cc"));
    assert_int_equal(a.command, 2);
    assert_true(a.clang && a.cxx);
    assert_int_equal(a.sources, 1);
    args_release(&a);
}

static void refused(const char *word)
{
    struct args a = {0};
    char copy[64];
    snprintf(copy, sizeof copy, "%s", word);
    PARSE(a, W("gcc"), copy, W("-c"), W("x.c"));
    assert_string_equal(a.refusal, word);
    args_release(&a);
}

static void other_machines_and_unknown_words_are_refused(void **state)
{
    (void)state;
    refused("-m32");
    refused("-ffreestanding");
    refused("-fmodules-ts");
    refused("--target=aarch64-linux-gnu");
    refused("--something-new");
    refused("-");
}

static void a_precompiled_header_of_clang_is_left_out(void **state)
{
    (void)state;
    struct args a = {0};
    PARSE(a, W("clang++"), W("-Xclang"), W("-include-pch"), W("-Xclang"), W("p.pch"), W("-Xclang"),
          W("-include"), W("-Xclang"), W("p.hxx"), W("-c"), W("x.cc"));
    struct words command = {0};
    args_preprocess(&a, only_source(&a), &command);
    char *text = joined(&command);
    assert_string_equal(text, "|clang++|-Xclang|-include|-Xclang|p.hxx|-E|-x|c++|x.cc|");
    free(text);
    words_release(&command);
    args_release(&a);
}

static void brace_in_a_string_literal_is_ignored(void **state)
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
        cmocka_unit_test(compile_command_is_parsed),
        cmocka_unit_test(each_source_of_a_command_has_its_own_output),
        cmocka_unit_test(command_that_compiles_nothing_is_left_alone),
        cmocka_unit_test(preprocessing_writes_the_dependencies),
        cmocka_unit_test(compile_command_drops_preprocessor_and_warning_options),
        cmocka_unit_test(a_cxx_driver_reads_c_files_as_cxx),
        cmocka_unit_test(language_option_ends_at_x_none),
        cmocka_unit_test(a_launcher_is_part_of_the_command),
        cmocka_unit_test(other_machines_and_unknown_words_are_refused),
        cmocka_unit_test(a_precompiled_header_of_clang_is_left_out),
        cmocka_unit_test(brace_in_a_string_literal_is_ignored),
    };
    return cmocka_run_group_tests_name("args", tests, NULL, NULL);
}
