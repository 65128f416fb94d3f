/* Small reports, compared letter by letter. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "loaded.h"
#include "tool/report/report.h"
#include "tool/util/json.h"

typedef int (*report_fn)(FILE *, const struct run *, const struct report_options *);

static char *text_of(const char *file, report_fn report, struct report_options o, bool threads)
{
    struct run run;
    struct run_options options = {.threads = threads};
    char *text = NULL;
    assert_int_equal(loaded_bytes(&run, "1-1.ndjson", file, strlen(file), &options), 0);
    FILE *out = captured(&text);
    assert_int_equal(report(out, &run, &o), 0);
    fclose(out);
    run_unload(&run);
    return text;
}

static void shows(const char *file, report_fn report, struct report_options o, const char *expected)
{
    char *text = text_of(file, report, o, false);
    assert_string_equal(text, expected);
    free(text);
}

static const char three_frames[] =
    "{\"format_version\":2,\"functions\":[\"update\",\"Parser::parse_node\",\"idle\"],"
    "\"places\":[\"g.c:3\",\"p.cc:40\",\"i.c:1\"]}\n"
    "{\"frame\":0,\"thread\":1,\"depth\":0,\"root\":0,\"start_ns\":0,\"wall_ns\":16200000,\"fns\":["
    "{\"id\":0,\"calls\":1,\"self_ns\":2310000,\"total_ns\":16200000,\"ac\":112,\"ab\":32768},"
    "{\"id\":1,\"calls\":50,\"self_ns\":1420000,\"total_ns\":1420000,\"ac\":0,\"ab\":0}]}\n"
    "{\"frame\":1,\"thread\":1,\"depth\":0,\"root\":0,\"start_ns\":17000000,\"wall_ns\":16000000,"
    "\"fns\":[{\"id\":0,\"calls\":1,\"self_ns\":2150000,\"total_ns\":16000000,\"ac\":108,"
    "\"ab\":31744}]}\n"
    "{\"frame\":2,\"thread\":1,\"depth\":0,\"root\":0,\"start_ns\":34000000,\"wall_ns\":34800000,"
    "\"fns\":[{\"id\":0,\"calls\":1,\"self_ns\":8410000,\"total_ns\":34800000,\"ac\":340,"
    "\"ab\":98304},{\"id\":1,\"calls\":500,\"timed\":20,\"self_ns\":1350000,\"total_ns\":1350000}]}"
    "\n"
    "{\"end\":true,\"wall_ns\":70000000,\"dropped\":{}}\n";

static void functions_table_is_printed(void **state)
{
    (void)state;
    shows(three_frames, report_functions, (struct report_options){0},
          "Function            Calls    Self      %   Total    p50    p99   Worst  Frame  Allocs   "
          " Bytes\n"
          "----------------------------------------------------------------------------------------"
          "------\n"
          "update                  3  12.9ms  82.3%  67.0ms  2.3ms  8.4ms  34.8ms      3     560  "
          "159.0KB\n"
          "Parser::parse_node    550  ~2.8ms  17.7%   2.8ms  1.4ms  1.4ms       -      -       0   "
          "    0B\n"
          "p50, p99: self time per frame\n"
          "Worst: its longest single call, with callees; Frame: the frame it was in\n"
          "~ estimate: 70 of 550 calls were timed\n"
          "\n"
          "3 frames of update | 22.3ms avg | 34.8ms p99 | 1 spike (>2x median)\n");
}

static void table_fits_a_narrow_terminal(void **state)
{
    (void)state;
    struct report_options o = {.width = 60, .top = 1};
    shows(three_frames, report_functions, o,
          "Function  Calls    Self    p50    p99  Allocs    Bytes\n"
          "------------------------------------------------------\n"
          "update        3  12.9ms  2.3ms  8.4ms     560  159.0KB\n"
          "p50, p99: self time per frame\n"
          "~ estimate: 70 of 550 calls were timed\n"
          "\n"
          "3 frames of update | 22.3ms avg | 34.8ms p99 | 1 spike\n");
}

static void all_lists_what_never_ran(void **state)
{
    (void)state;
    char *text = text_of(three_frames, report_functions,
                         (struct report_options){.all = true, .places = true}, false);
    assert_non_null(strstr(text, "\nidle"));
    assert_non_null(strstr(text, "p.cc:40"));
    free(text);
}

static void frames_table_is_printed(void **state)
{
    (void)state;
    shows(three_frames, report_frames, (struct report_options){0},
          "Frame   Total  update  parse_node  Allocs   Bytes\n"
          "-----------------------------------------------------------\n"
          "    1  16.2ms   2.3ms       1.4ms     112  32.0KB\n"
          "    2  16.0ms   2.1ms           -     108  31.0KB\n"
          "    3  34.8ms   8.4ms      ~1.4ms     340  96.0KB  <- spike\n"
          "\n"
          "3 frames of update | 22.3ms avg | 34.8ms p99 | 1 spike (>2x median)\n");
}

static void no_frames_no_columns_for_them(void **state)
{
    (void)state;
    static const char file[] = "{\"functions\":[{\"name\":\"walk\",\"calls\":3,\"total_ms\":12.0,"
                               "\"self_ms\":10.0}]}";
    shows(file, report_functions, (struct report_options){0},
          "Function  Calls    Self       %   Total\n"
          "---------------------------------------\n"
          "walk          3  10.0ms  100.0%  12.0ms\n");
}

static void escape_sequences_in_names_are_not_printed(void **state)
{
    (void)state;
    static const char file[] =
        "{\"functions\":[{\"name\":\"a\\u001b[31m\\n\\u202e\xff\\u009b\",\"calls\":1,"
        "\"self_ms\":1}]}";
    char *text = text_of(file, report_functions, (struct report_options){0}, false);
    assert_null(strchr(text, '\x1b'));
    assert_non_null(strstr(text, "a\\x1b[31m\\x0a\\u{202e}\\xff"));
    free(text);
    text = text_of(file, report_functions_json, (struct report_options){0}, false);
    assert_non_null(strstr(text, "\\ufffd"));
    assert_non_null(strstr(text, "\\u009b"));
    struct json j = {.at = text, .end = text + strlen(text)};
    assert_int_equal(json_skip(&j), 0);
    assert_int_equal(json_end(&j), 0);
    free(text);
}

static void namesakes_are_told_apart(void **state)
{
    (void)state;
    static const char file[] =
        "{\"functions\":[{\"name\":\"f\",\"calls\":1,\"self_ms\":2,\"place\":\"a.c:1\"},"
        "{\"name\":\"f\",\"calls\":1,\"self_ms\":1,\"place\":\"b.c:1\"}]}";
    char *text = text_of(file, report_functions, (struct report_options){0}, false);
    assert_non_null(strstr(text, "f (a.c:1)"));
    assert_non_null(strstr(text, "f (b.c:1)"));
    free(text);
}

static void json_reports_parse(void **state)
{
    (void)state;
    static const report_fn reports[] = {report_functions_json, report_frames_json,
                                        report_threads_json};
    for (size_t i = 0; i < 3; i++) {
        char *text = text_of(three_frames, reports[i], (struct report_options){0}, true);
        struct json j = {.at = text, .end = text + strlen(text)};
        assert_int_equal(json_skip(&j), 0);
        assert_int_equal(json_end(&j), 0);
        free(text);
    }
}

static void long_runs_show_the_worst(void **state)
{
    (void)state;
    struct buf b = {0};
    buf_puts(&b, "{\"format_version\":2,\"functions\":[\"u\"]}\n");
    for (int i = 0; i < 100; i++)
        buf_printf(&b,
                   "{\"frame\":%d,\"root\":0,\"start_ns\":%d,\"wall_ns\":%d,\"fns\":[{\"id\":0,"
                   "\"calls\":1,\"self_ns\":5}]}\n",
                   i, i * 100, i == 50 ? 900 : 10);
    shows(b.data, report_frames, (struct report_options){.top = 1},
          "Frame  Total    u\n"
          "---------------------------\n"
          "  ...\n"
          "   50   10ns  5ns\n"
          "   51  900ns  5ns  <- spike\n"
          "   52   10ns  5ns\n"
          "  ...\n"
          "the worst frames and their neighbours; all 100: --all\n"
          "\n"
          "100 frames of u | 18ns avg | 10ns p99 | 1 spike (>2x median)\n");
    buf_free(&b);
}

/* `rare` has almost no time in the run, but causes the only spike. */
static void columns_are_those_of_the_frames_shown(void **state)
{
    (void)state;
    struct buf b = {0};
    buf_puts(&b, "{\"format_version\":2,\"functions\":[\"u\",\"busy\",\"rare\"]}\n");
    for (int i = 0; i < 1000; i++)
        buf_printf(&b,
                   "{\"frame\":%d,\"root\":0,\"start_ns\":%d,\"wall_ns\":%d,\"fns\":[{\"id\":0,"
                   "\"calls\":1,\"self_ns\":20},{\"id\":1,\"calls\":1,\"self_ns\":10}%s]}\n",
                   i, i * 100, i == 500 ? 900 : 30,
                   i == 500 ? ",{\"id\":2,\"calls\":1,\"self_ns\":870}" : "");
    char *text = text_of(b.data, report_frames, (struct report_options){.width = 60}, false);
    assert_non_null(strstr(text, "Frame  Total   rare     u"));
    assert_null(strstr(text, "busy"));
    free(text);
    buf_free(&b);
}

static void negative_residues_are_not_shown(void **state)
{
    (void)state;
    static const char file[] =
        "{\"format_version\":2,\"functions\":[\"f\",\"g\"]}\n"
        "{\"outside\":true,\"thread\":1,\"fns\":[{\"id\":0,\"calls\":1,\"self_ns\":-25,"
        "\"total_ns\":-5},{\"id\":1,\"calls\":1,\"self_ns\":50,\"total_ns\":50}]}\n";
    shows(file, report_functions, (struct report_options){0},
          "Function  Calls  Self       %  Total\n"
          "------------------------------------\n"
          "g             1  50ns  100.0%   50ns\n"
          "f             1     -       -      -\n"
          "- below timing resolution beside the calls it makes (docs/timing.md)\n");
    char *text = text_of(file, report_functions_json, (struct report_options){0}, false);
    assert_non_null(strstr(text, "\"self_ns\":-25"));
    free(text);
}

static void a_residue_in_a_frame_is_not_an_absence(void **state)
{
    (void)state;
    static const char file[] =
        "{\"format_version\":2,\"functions\":[\"f\",\"g\"]}\n"
        "{\"frame\":0,\"root\":0,\"wall_ns\":50,\"fns\":[{\"id\":0,\"calls\":1,\"self_ns\":60},"
        "{\"id\":1,\"calls\":1,\"self_ns\":-10}]}\n"
        "{\"frame\":1,\"root\":0,\"wall_ns\":50,\"fns\":[{\"id\":0,\"calls\":1,\"self_ns\":50}]}\n"
        "{\"frame\":2,\"root\":0,\"wall_ns\":50,\"fns\":[{\"id\":0,\"calls\":1,\"self_ns\":50},"
        "{\"id\":1,\"calls\":44850,\"self_ns\":0,\"timed\":0}]}\n";
    shows(file, report_frames, (struct report_options){0},
          "Frame  Total     f   g\n"
          "----------------------\n"
          "    1   50ns  60ns  ~0\n"
          "    2   50ns  50ns   -\n"
          "    3   50ns  50ns  ~0\n"
          "\n"
          "3 frames of f | 50ns avg | 50ns p99 | 0 spikes (>2x median)\n");
}

/* `main` was still open at the end, `hot` is timed by sample. */
static void open_calls_are_no_sample(void **state)
{
    (void)state;
    static const char file[] =
        "{\"format_version\":2,\"functions\":[\"main\",\"hot\",\"often\"]}\n"
        "{\"outside\":true,\"thread\":1,\"fns\":[{\"id\":0,\"calls\":1,\"timed\":0,"
        "\"self_ns\":30},{\"id\":1,\"calls\":1000,\"timed\":80,\"self_ns\":20},"
        "{\"id\":2,\"calls\":300,\"timed\":299,\"self_ns\":10}]}\n";
    shows(file, report_functions, (struct report_options){0},
          "Function  Calls   Self      \u00b1      %\n"
          "------------------------------------\n"
          "main          1   30ns         50.0%\n"
          "hot        1000  ~20ns  4.5us  33.3%\n"
          "often       300   10ns         16.7%\n"
          "~ estimate: 80 of 1000 calls were timed\n"
          "\u00b1 the 95 % interval of the self time\n");
}

static void partial_coverage_is_reported(void **state)
{
    (void)state;
    static const char file[] =
        "{\"format_version\":2,\"functions\":[\"f\"],\"pid\":7}\n"
        "{\"thread\":1,\"tid\":7,\"name\":\"main\"}\n"
        "{\"frame\":0,\"thread\":1,\"depth\":0,\"root\":0,\"wall_ns\":440000,\"fns\":[{\"id\":0,"
        "\"calls\":1,\"self_ns\":440000}]}\n"
        "{\"end\":true,\"wall_ns\":1000000}\n";
    shows(file, report_functions, (struct report_options){0},
          "Function  Calls     Self       %\n"
          "--------------------------------\n"
          "f             1  440.0us  100.0%\n"
          "\n"
          "the chosen functions ran for 440.0us of 1.0ms (44 %)\n");
}

static void total_is_not_shown_as_raw(void **state)
{
    (void)state;
    static const char file[] = "{\"functions\":[{\"name\":\"walk\",\"calls\":3,\"total_ms\":12.0,"
                               "\"self_ms\":10.0,\"raw_ms\":11.0}]}";
    struct run run;
    struct run_options raw = {.uncorrected = true};
    struct report_options o = {0};
    char *text = NULL;
    assert_int_equal(loaded_bytes(&run, "1-1.json", file, strlen(file), &raw), 0);
    FILE *out = captured(&text);
    assert_int_equal(report_functions(out, &run, &o), 0);
    fclose(out);
    run_unload(&run);
    assert_non_null(strstr(text, "11.0ms"));
    assert_null(strstr(text, "Total"));
    free(text);
}

static void threads_with_similar_names_are_folded(void **state)
{
    (void)state;
    struct buf b = {0};
    buf_puts(&b, "{\"format_version\":2,\"functions\":[\"spawn\",\"job\"]}\n"
                 "{\"thread\":1,\"name\":\"main\"}\n");
    for (int i = 2; i < 40; i++)
        buf_printf(&b,
                   "{\"thread\":%d,\"name\":\"pool-%d\",\"parent_thread\":1,\"parent_fn\":0}\n"
                   "{\"outside\":true,\"thread\":%d,\"fns\":[{\"id\":1,\"calls\":1,"
                   "\"self_ns\":10}]}\n",
                   i, i, i);
    char *text = text_of(b.data, report_threads, (struct report_options){0}, true);
    assert_non_null(strstr(text, "pool-* (38 threads) | 380ns self | started by spawn in main"));
    free(text);
    text = text_of(b.data, report_threads, (struct report_options){.all = true}, true);
    assert_non_null(strstr(text, "pool-39 (thread 39)"));
    free(text);
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_table_is_printed),
        cmocka_unit_test(table_fits_a_narrow_terminal),
        cmocka_unit_test(all_lists_what_never_ran),
        cmocka_unit_test(frames_table_is_printed),
        cmocka_unit_test(no_frames_no_columns_for_them),
        cmocka_unit_test(escape_sequences_in_names_are_not_printed),
        cmocka_unit_test(namesakes_are_told_apart),
        cmocka_unit_test(json_reports_parse),
        cmocka_unit_test(long_runs_show_the_worst),
        cmocka_unit_test(columns_are_those_of_the_frames_shown),
        cmocka_unit_test(negative_residues_are_not_shown),
        cmocka_unit_test(a_residue_in_a_frame_is_not_an_absence),
        cmocka_unit_test(open_calls_are_no_sample),
        cmocka_unit_test(partial_coverage_is_reported),
        cmocka_unit_test(total_is_not_shown_as_raw),
        cmocka_unit_test(threads_with_similar_names_are_folded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
