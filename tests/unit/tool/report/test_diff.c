/* Comparisons: deltas, matching, the unit of comparison and what counts as a change. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "loaded.h"
#include "tool/report/diff.h"

static void load_v1(struct run *run, double self_ms, int allocs, const char *place)
{
    char text[512];
    snprintf(text, sizeof(text),
             "{\"functions\":[{\"name\":\"walk\",\"calls\":3,\"total_ms\":12.0,\"self_ms\":%f,"
             "\"alloc_count\":%d,\"alloc_bytes\":%d,\"place\":\"%s\"}]}",
             self_ms, allocs, allocs * 80, place);
    assert_int_equal(loaded_bytes(run, "1-1.json", text, strlen(text), NULL), 0);
}

static void release(struct diff *d, struct diff_side sides[2])
{
    diff_release(d);
    for (int s = 0; s < 2; s++)
        for (size_t i = 0; i < sides[s].count; i++)
            run_unload(&sides[s].runs[i]);
}

static void one_run_per_side_has_no_verdict(void **state)
{
    (void)state;
    struct run a, b;
    struct diff d;
    char *text = NULL;
    load_v1(&a, 10.0, 100, "w.c:7");
    load_v1(&b, 8.0, 50, "w.c:9"); /* lines change */
    struct diff_side sides[2] = {{"before", &a, 1}, {"after", &b, 1}};
    assert_int_equal(diff_make(&d, sides, false), 0);
    assert_int_equal(d.count, 1);
    assert_int_equal(d.rows[0].real[DIFF_SELF], VERDICT_UNKNOWN);
    FILE *out = captured(&text);
    assert_int_equal(diff_print(out, &d, &(struct report_options){0}), 0);
    fclose(out);
    assert_string_equal(text, "Function  before  after   Delta       %     Allocs  Delta   Bytes\n"
                              "-----------------------------------------------------------------\n"
                              "walk      10.0ms  8.0ms  -2.0ms  -20.0%  100 -> 50    -50  -3.9KB\n"
                              "\n"
                              "10.0ms -> 8.0ms in all | -2.0ms (-20.0%)\n");
    free(text);
    release(&d, sides);
}

/* `main` waits for its threads: 40 ms, then 60. One run per side cannot show whether that is a change. The same growth of its CPU
 * time still fails. */
static void time_that_was_waited_is_no_growth(void **state)
{
    (void)state;
    static const char before[] =
        HEADER("\"main\"") "{\"outside\":true,\"thread\":1,\"fns\":[{\"id\":0,\"calls\":1,"
                           "\"self_ns\":41000000,\"cpu_ns\":1000000}]}\n";
    static const char *after[2] = {
        HEADER("\"main\"") "{\"outside\":true,\"thread\":1,\"fns\":[{\"id\":0,\"calls\":1,"
                           "\"self_ns\":61000000,\"cpu_ns\":1100000}]}\n",
        HEADER("\"main\"") "{\"outside\":true,\"thread\":1,\"fns\":[{\"id\":0,\"calls\":1,"
                           "\"self_ns\":61000000,\"cpu_ns\":21000000}]}\n"};
    for (int round = 0; round < 2; round++) {
        struct run a, b;
        struct diff d;
        assert_int_equal(loaded(&a, before), 0);
        assert_int_equal(loaded(&b, after[round]), 0);
        struct diff_side sides[2] = {{"a", &a, 1}, {"b", &b, 1}};
        assert_int_equal(diff_make(&d, sides, false), 0);
        assert_int_equal(d.rows[0].waited, round == 0);
        assert_int_equal(diff_grew(&d, &d.rows[0], DIFF_SELF, 20.0), round);
        release(&d, sides);
    }
}

static void repeated_runs_know_their_noise(void **state)
{
    (void)state;
    static const double noisy[2][3] = {{10.0, 12.0, 11.0}, {11.5, 10.5, 12.5}};
    static const double clear[2][3] = {{10.0, 10.2, 10.1}, {14.0, 14.2, 14.1}};
    for (int round = 0; round < 2; round++) {
        struct run runs[2][3];
        struct diff d;
        for (int s = 0; s < 2; s++)
            for (int i = 0; i < 3; i++)
                load_v1(&runs[s][i], (round ? clear : noisy)[s][i], 100 + 20 * s, "w.c:7");
        struct diff_side sides[2] = {{"a", runs[0], 3}, {"b", runs[1], 3}};
        assert_int_equal(diff_make(&d, sides, false), 0);
        assert_int_equal(d.rows[0].real[DIFF_SELF], round ? VERDICT_REAL : VERDICT_NOISE);
        assert_int_equal(d.rows[0].real[DIFF_ALLOCS], VERDICT_REAL);
        assert_int_equal(diff_grew(&d, &d.rows[0], DIFF_SELF, 3.0), round);
        assert_false(diff_grew(&d, &d.rows[0], DIFF_SELF, 50.0));
        assert_true(diff_grew(&d, &d.rows[0], DIFF_ALLOCS, 10.0));
        release(&d, sides);
    }
}

static void load_frames(struct run *run, int frames, int self)
{
    struct buf b = {0};
    buf_puts(&b, "{\"format_version\":2,\"functions\":[\"u\",\"init\"]}\n");
    for (int i = 0; i < frames; i++)
        buf_printf(&b,
                   "{\"frame\":%d,\"root\":0,\"start_ns\":%d,\"wall_ns\":9000,\"fns\":[{\"id\":0,"
                   "\"calls\":1,\"self_ns\":%d}]}\n",
                   i, i * 9000, self + i % 10);
    assert_int_equal(loaded_bytes(run, "1-1.ndjson", b.data, b.len, NULL), 0);
    buf_free(&b);
}

static void unequal_lengths_compare_per_frame(void **state)
{
    (void)state;
    struct run a, b;
    struct diff d;
    load_frames(&a, 100, 1000);
    load_frames(&b, 200, 900);
    struct diff_side sides[2] = {{"a", &a, 1}, {"b", &b, 1}};
    assert_int_equal(diff_make(&d, sides, false), 0);
    assert_true(d.by_frame);
    assert_int_equal(d.count, 1); /* `init` never ran */
    double percent = diff_percent(&d.rows[0], DIFF_SELF);
    assert_true(percent < -9.0 && percent > -11.0);
    assert_int_equal(d.rows[0].real[DIFF_SELF], VERDICT_REAL);
    release(&d, sides);
}

static void equal_frames_are_noise(void **state)
{
    (void)state;
    struct run a, b;
    struct diff d;
    load_frames(&a, 100, 1000);
    load_frames(&b, 100, 1000);
    struct diff_side sides[2] = {{"a", &a, 1}, {"b", &b, 1}};
    assert_int_equal(diff_make(&d, sides, false), 0);
    assert_false(d.by_frame);
    assert_int_equal(d.rows[0].real[DIFF_SELF], VERDICT_NOISE);
    assert_false(diff_grew(&d, &d.rows[0], DIFF_SELF, 0));
    release(&d, sides);
}

static void growth_from_zero_counts_as_growth(void **state)
{
    (void)state;
    struct run a, b;
    struct diff d;
    load_v1(&a, 10.0, 0, "w.c:7");
    load_v1(&b, 10.0, 7, "w.c:7");
    struct diff_side sides[2] = {{"a", &a, 1}, {"b", &b, 1}};
    assert_int_equal(diff_make(&d, sides, false), 0);
    assert_true(diff_grew(&d, &d.rows[0], DIFF_ALLOCS, 1000.0));
    assert_false(diff_grew(&d, &d.rows[0], DIFF_SELF, 0));
    release(&d, sides);
}

/* Approximately normal: the sum of twelve numbers between 0 and 1. */
static double drawn(uint64_t *random, double mean, double deviation)
{
    double sum = -6;
    for (int i = 0; i < 12; i++) {
        *random = *random * 6364136223846793005u + 1442695040888963407u;
        sum += (double)(*random >> 11) / 9007199254740992.0;
    }
    return mean + deviation * sum;
}

/* How many of 1000 comparisons of three runs per side flag a change. */
static int flagged(double mean, double deviation)
{
    uint64_t random = 1;
    int count = 0;
    for (int i = 0; i < 1000; i++) {
        double a[3], b[3];
        for (int k = 0; k < 3; k++) {
            a[k] = drawn(&random, 100, 5);
            b[k] = drawn(&random, mean, deviation);
        }
        count += stats_t_test(a, 3, b, 3) == VERDICT_REAL;
    }
    return count;
}

static void change_test_has_5_percent_false_alarms_and_finds_20_percent(void **state)
{
    (void)state;
    assert_in_range(flagged(100, 5), 30, 60);
    assert_in_range(flagged(100, 10), 30, 75);
    assert_in_range(flagged(120, 5), 890, 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_run_per_side_has_no_verdict),
        cmocka_unit_test(time_that_was_waited_is_no_growth),
        cmocka_unit_test(repeated_runs_know_their_noise),
        cmocka_unit_test(unequal_lengths_compare_per_frame),
        cmocka_unit_test(equal_frames_are_noise),
        cmocka_unit_test(growth_from_zero_counts_as_growth),
        cmocka_unit_test(change_test_has_5_percent_false_alarms_and_finds_20_percent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
