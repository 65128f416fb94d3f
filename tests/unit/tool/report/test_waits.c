/* Time off the CPU: how it is divided among calls, read from a run, and shown in reports. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "common/offcpu.h"
#include "loaded.h"
#include "tool/load/estimates.h"
#include "tool/report/report.h"

/* ---- division; one tick is one nanosecond ---- */

static const uint64_t NS = (uint64_t)1 << 32;

static void whole_wait_belongs_to_a_function_without_callees(void **state)
{
    (void)state;
    struct piano__offcpu began = {.tick = 1000}, now = {.tick = 9000, .off = 7000, .runq = 2000};
    struct piano__call call = {.elapsed = 8000, .self = 8000, .total = 8000, .weight = 1};
    struct piano__tally tally = {0};
    piano__offcpu_share(&now, &began, &call, NS, &tally);
    assert_int_equal(tally.off_ns, 7000);
    assert_int_equal(tally.runq_ns, 2000);
    assert_int_equal(tally.checked, 1);
    assert_int_equal(now.given, 7000);
    assert_int_equal(now.timed, 8000);
}

static void checked_call_stands_for_unchecked_calls(void **state)
{
    (void)state;
    struct piano__offcpu began = {.tick = 1000}, now = {.tick = 9000, .off = 7000, .runq = 2000};
    struct piano__call call = {.elapsed = 8000, .self = 8000, .total = 8000, .weight = 5};
    struct piano__tally tally = {0};
    piano__offcpu_share(&now, &began, &call, NS, &tally);
    assert_int_equal(tally.off_ns, 35000);
    assert_int_equal(tally.runq_ns, 10000);
    assert_int_equal(now.given, 7000); /* the others' time off the CPU was not measured */
}

static void wait_of_a_checked_callee_is_not_its_callers(void **state)
{
    (void)state;
    struct piano__offcpu began = {.tick = 1000};
    struct piano__offcpu now = {
        .tick = 9000, .off = 6000, .runq = 500, .given = 5000, .timed = 5500};
    struct piano__call call = {.elapsed = 8000, .self = 2500, .total = 8000, .weight = 1};
    struct piano__tally tally = {0};
    piano__offcpu_share(&now, &began, &call, NS, &tally);
    assert_int_equal(tally.off_ns, 1000);
    assert_int_equal(tally.runq_ns, 500);
}

static void possible_waits_of_unchecked_callees_are_left_out(void **state)
{
    (void)state;
    struct piano__offcpu began = {.tick = 1000}, now = {.tick = 9000, .off = 6000, .runq = -1};
    struct piano__call call = {.elapsed = 8000, .self = 3000, .total = 8000, .weight = 1};
    struct piano__tally tally = {0};
    piano__offcpu_share(&now, &began, &call, NS, &tally);
    assert_int_equal(tally.off_ns, 1000); /* 5000 of 6000 may be theirs */
    assert_int_equal(tally.runq_ns, 0);
    assert_int_equal(now.given, 6000); /* and not the caller's of this call */
}

static void possible_waits_before_the_call_are_left_out(void **state)
{
    (void)state;
    struct piano__offcpu began = {.tick = 1000}, now = {.tick = 9000, .off = 6000, .runq = 6000};
    struct piano__call call = {
        .elapsed = 4000, .stale = 4000, .self = 4000, .total = 4000, .weight = 1};
    struct piano__tally tally = {0};
    piano__offcpu_share(&now, &began, &call, NS, &tally);
    assert_int_equal(tally.off_ns, 2000);
    assert_int_equal(tally.runq_ns, 2000);
}

/* The previous reading was at 1000, the piece began at 3000. */
static void wait_between_calls_is_their_callers(void **state)
{
    (void)state;
    struct piano__offcpu before = {.tick = 1000, .off = 100, .runq = 100, .given = 50};
    struct piano__offcpu now = {.tick = 9000, .off = 5100, .runq = 3100, .given = 50};
    int64_t off = 10, runq = 5;
    piano__offcpu_piece(&now, &before, 6000, NS, &off, &runq);
    assert_int_equal(off, 10 + 3000); /* 2000 of 5000 may have been before the piece */
    assert_int_equal(runq, 5 + 1000);
    assert_int_equal(now.given, 50 + 3000);
    assert_int_equal(now.runq_given, 1000);
}

static void wait_that_may_be_before_the_piece_is_left_out(void **state)
{
    (void)state;
    struct piano__offcpu before = {.tick = 1000}, now = {.tick = 9000, .off = 5000, .runq = -1};
    int64_t off = 0, runq = 0;
    piano__offcpu_piece(&now, &before, 3000, NS, &off, &runq);
    assert_int_equal(off, 0);
    assert_int_equal(runq, 0);
    assert_int_equal(now.given, 0);
}

/* ---- reading ---- */

#define FRAME(n, wall, figures, fns)                                                               \
    "{\"frame\":" #n ",\"thread\":1,\"depth\":0,\"root\":0,\"start_ns\":1" #n "00000,"             \
    "\"wall_ns\":" #wall "," figures "\"fns\":[" fns "]}\n"
#define WORKS                                                                                      \
    "{\"id\":0,\"calls\":1,\"self_ns\":400000,\"total_ns\":1000000,\"cpu_ns\":400000},"            \
    "{\"id\":1,\"calls\":1,\"self_ns\":600000,\"total_ns\":600000,\"cpu_ns\":50000,"               \
    "\"runq_ns\":50000}"

/* Frames of 1 ms, 0.45 of them on the CPU; one spike that waited for a CPU, one that slept, one that worked. */
static const char five_frames[] =
    HEADER("\"update\",\"nap\"") FRAME(0, 1000000, "\"cpu_ns\":450000,\"runq_ns\":50000,", WORKS)
        FRAME(1, 1000000, "\"cpu_ns\":450000,\"runq_ns\":50000,", WORKS)
            FRAME(2, 1000000, "\"cpu_ns\":450000,\"runq_ns\":50000,", WORKS)
                FRAME(3, 1000000, "\"cpu_ns\":450000,\"runq_ns\":50000,", WORKS)
                    FRAME(4, 5000000, "\"cpu_ns\":450000,\"runq_ns\":4000000,", WORKS)
                        FRAME(5, 5000000, "\"cpu_ns\":450000,\"runq_ns\":50000,", WORKS)
                            FRAME(6, 5000000, "\"cpu_ns\":4450000,\"runq_ns\":50000,",
                                  WORKS) "{\"thread\":1,\"start_ns\":0,\"end_ns\":20000000,"
                                         "\"cpu_wall_ns\":20000000,\"cpu_ns\":7150000,"
                                         "\"runq_ns\":4300000}\n"
                                         "{\"end\":true,\"wall_ns\":20000000,\"dropped\":{}}\n";

static void frame_time_is_cpu_waiting_and_blocked(void **state)
{
    (void)state;
    struct run run;
    assert_int_equal(loaded(&run, five_frames), 0);
    assert_int_equal(run.bad_lines, 0);
    assert_int_equal(run.frame_count, 7);
    assert_int_equal(run.frames[0].cpu_ns, 450000);
    assert_int_equal(run.frames[0].runq_ns, 50000);
    assert_int_equal(run_frame_blocked(&run.frames[0]), 500000);
    assert_int_equal(run.all.cpu_frames, 7);
    assert_int_equal(run.all.cpu_ns, 6 * 450000 + 4450000);
    assert_int_equal(run.all.runq_ns, 6 * 50000 + 4000000);
    assert_int_equal(run.all.cpu_wall_ns, 19000000);
    assert_false(run.all.no_runq);
    assert_int_equal(run.fns[1].sum.wait_ns, 7 * 550000);
    assert_int_equal(run.fns[1].sum.runq_ns, 7 * 50000);
    assert_int_equal(run.fns[0].sum.wait_ns, 0);
    run_unload(&run);
}

static void spikes_show_their_cause(void **state)
{
    (void)state;
    struct run run;
    assert_int_equal(loaded(&run, five_frames), 0);
    assert_int_equal(run.all.spikes, 3);
    assert_int_equal(run.all.spikes_runq, 1);
    assert_int_equal(run.frames[4].why, RUN_WHY_RUNQ);
    assert_int_equal(run.frames[5].why, RUN_WHY_BLOCKED);
    assert_int_equal(run.frames[6].why, RUN_WHY_WORK);
    assert_int_equal(run.frames[0].why, RUN_WHY_WORK);
    run_unload(&run);
}

/* With a budget below the median, time beyond the budget counts: a frame that always ran did not wait. */
static void spikes_beyond_a_budget_show_their_cause(void **state)
{
    (void)state;
    struct run run;
    const struct run_options options = {.budget_ns = 200000};
    assert_int_equal(
        loaded_bytes(&run, "1000-7.ndjson", five_frames, strlen(five_frames), &options), 0);
    assert_int_equal(run.all.spikes, 7);
    assert_int_equal(run.frames[0].why, RUN_WHY_BLOCKED);
    assert_int_equal(run.frames[4].why, RUN_WHY_RUNQ);
    assert_int_equal(run.frames[6].why, RUN_WHY_WORK);
    run_unload(&run);
}

/* Appends to B, at START, a turn of two calls, the second of which has FIGURES, with GAP ns between them; returns its end. A deeper
 * line lies in the second call. */
static int add_turn(struct buf *b, int start, int gap, const char *figures)
{
    buf_printf(b,
               "{\"frame\":0,\"thread\":1,\"depth\":0,\"root\":0,\"start_ns\":%d,"
               "\"wall_ns\":400000,\"cpu_ns\":300000,\"runq_ns\":60000,\"fns\":[]}\n",
               start);
    start += 400000 + gap;
    buf_printf(b,
               "{\"frame\":0,\"thread\":1,\"depth\":1,\"root\":2,\"under\":1,\"start_ns\":%d,"
               "\"wall_ns\":500000,\"cpu_ns\":1,\"runq_ns\":1,\"fns\":[]}\n"
               "{\"frame\":0,\"thread\":1,\"depth\":0,\"root\":1,\"start_ns\":%d,"
               "\"wall_ns\":600000,%s\"fns\":[]}\n",
               start, start, figures);
    return start + 600000;
}

/* An unknown small part of a turn counts as work; if the part is large, the turn is unknown. */
static void turns_have_the_cpu_time_of_their_calls(void **state)
{
    (void)state;
    static const char known[] = "\"cpu_ns\":100000,\"runq_ns\":5,";
    static const int64_t cpu_ns[] = {450000, -1, -1, 450000, 450000};
    static const int64_t runq_ns[] = {60005, -1, -1, -1, 60005};
    struct run run;
    struct buf b = {0};
    buf_puts(&b, HEADER("\"a\",\"b\",\"c\""));
    int at = add_turn(&b, 1000, 50000, known);
    at = add_turn(&b, at, 50000, "");
    at = add_turn(&b, at, 950000, known);
    at = add_turn(&b, at, 50000, "\"cpu_ns\":100000,");
    add_turn(&b, at, 50000, known);
    assert_int_equal(loaded(&run, b.data), 0);
    assert_int_equal(run.bad_lines, 0);
    assert_int_equal(run.frame_count, 5);
    assert_int_equal(run.turn_count, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(run.frames[i].cpu_ns, cpu_ns[i]);
        assert_int_equal(run.frames[i].runq_ns, runq_ns[i]);
    }
    assert_int_equal(run.all.cpu_frames, 3);
    run_unload(&run);
    buf_free(&b);
}

static void waiting_is_unknown_without_schedstat(void **state)
{
    (void)state;
    struct run run;
    assert_int_equal(loaded(&run, HEADER("\"update\"") FRAME(0, 1000, "\"cpu_ns\":500,", "")
                                      FRAME(1, 1000, "\"cpu_ns\":500,", "") FRAME(
                                          2, 9000, "\"cpu_ns\":500,", "") FRAME(3, 1000, "", "")),
                     0);
    assert_int_equal(run.frames[0].runq_ns, -1);
    assert_int_equal(run_frame_blocked(&run.frames[0]), -1);
    assert_int_equal(run.frames[2].why, RUN_WHY_OFF);
    assert_int_equal(run.frames[3].cpu_ns, -1);
    assert_true(run.all.no_runq);
    assert_int_equal(run.all.cpu_frames, 3);
    int64_t runq, of;
    assert_false(run_busy(&run, &runq, &of));
    run_unload(&run);
}

static void merged_frames_add_up(void **state)
{
    (void)state;
    struct run run;
    assert_int_equal(
        loaded(&run,
               HEADER("\"update\"") FRAME(0, 1000, "\"cpu_ns\":500,\"runq_ns\":100,", "")
                   FRAME(1, 1000, "\"cpu_ns\":500,\"runq_ns\":100,",
                         "") "{\"merged\":50,\"thread\":1,\"depth\":0,\"root\":0,\"wall_ns\":50000,"
                             "\"wall_max_ns\":2000,\"cpu_frames\":20,\"cpu_wall_ns\":20000,"
                             "\"cpu_ns\":9000,\"runq_ns\":3000,\"hist\":[[200,50]],\"fns\":[]}\n"),
        0);
    assert_int_equal(run.all.count, 52);
    assert_int_equal(run.all.cpu_frames, 22);
    assert_int_equal(run.all.cpu_wall_ns, 22000);
    assert_int_equal(run.all.cpu_ns, 10000);
    assert_int_equal(run.all.runq_ns, 3200);
    run_unload(&run);
}

static void inconsistent_times_stay_in_bounds(void **state)
{
    (void)state;
    struct run run;
    assert_int_equal(loaded(&run, HEADER("\"f\"") FRAME(
                                      0, 1000, "\"cpu_ns\":9223372036854775807,\"runq_ns\":900000,",
                                      "{\"id\":0,\"calls\":1,\"self_ns\":500,\"cpu_ns\":-90,"
                                      "\"runq_ns\":9223372036854775807}")
                                      FRAME(1, 1000, "\"runq_ns\":900000,",
                                            "{\"id\":0,\"calls\":1,\"self_ns\":0,\"cpu_ns\":0}")),
                     0);
    assert_int_equal(run.bad_lines, 0);
    assert_int_equal(run_frame_blocked(&run.frames[0]), 0);
    assert_int_equal(run.frames[1].runq_ns, -1);
    assert_int_equal(run.fns[0].sum.wait_ns, 500); /* 590 in this line is impossible */
    assert_int_equal(run.fns[0].sum.runq_ns, 500);
    run_unload(&run);
}

static void a_wait_follows_the_time_that_was_waited(void **state)
{
    (void)state;
    struct run_entry entries[] = {{.fn = 0,
                                   .sum = {.calls = 1,
                                           .timed = 1,
                                           .self_ns = 100,
                                           .wait_ns = 700,
                                           .runq_ns = 700,
                                           .has_cpu = true}},
                                  {.fn = 1, .sum = {.calls = 900, .timed = 9, .self_ns = 900}},
                                  {.fn = 2, .sum = {.calls = 900, .timed = 9, .self_ns = 300}},
                                  {.fn = 3, .sum = {.calls = 5, .timed = 5, .self_ns = 50}}};
    struct run_scratch all = {.entries = entries, .count = 4};
    waits_settle(&all);
    assert_int_equal(entries[0].sum.wait_ns, 100);
    assert_int_equal(entries[0].sum.runq_ns, 100);
    assert_int_equal(entries[1].sum.wait_ns, 450);
    assert_int_equal(entries[1].sum.runq_ns, 450);
    assert_int_equal(entries[2].sum.wait_ns, 150);
    assert_true(entries[2].sum.has_cpu);
    assert_int_equal(entries[3].sum.wait_ns, 0); /* each of its calls was timed */
}

static void busy_machine_is_reported(void **state)
{
    (void)state;
    struct run run;
    int64_t runq, of;
    /* The second thread is blocked nearly all the time, which says nothing about the machine. */
    assert_int_equal(loaded(&run,
                            HEADER("\"f\"") "{\"thread\":1,\"cpu_wall_ns\":1000,\"cpu_ns\":500,"
                                            "\"runq_ns\":400}\n"
                                            "{\"thread\":2,\"cpu_wall_ns\":1000,\"cpu_ns\":5,"
                                            "\"runq_ns\":1}\n"),
                     0);
    assert_true(run_busy(&run, &runq, &of));
    assert_int_equal(runq, 400);
    assert_int_equal(of, 1000);
    run_unload(&run);
}

/* ---- reports ---- */

typedef int (*report_fn)(FILE *, const struct run *, const struct report_options *);

static void shows(const char *file, report_fn report, struct report_options o, const char *expected)
{
    struct run run;
    char *text = NULL;
    assert_int_equal(loaded(&run, file), 0);
    FILE *out = captured(&text);
    assert_int_equal(report(out, &run, &o), 0);
    fclose(out);
    run_unload(&run);
    assert_string_equal(text, expected);
    free(text);
}

#define FOOTER                                                                                     \
    "\n"                                                                                           \
    "7 frames of update | 2.7ms avg | 5.0ms p99 | 3 spikes (>2x median), 1 of them waited for a "  \
    "CPU\n"

static void a_function_that_waits_is_not_the_hottest(void **state)
{
    (void)state;
    shows(
        five_frames, report_functions, (struct report_options){.rank = REPORT_BY_EITHER},
        "Function  Calls   Self      %   Wait  Total      p50      p99    Worst  Frame\n"
        "---------------------------------------------------------------------------------------\n"
        "update        7  2.8ms  88.9%    0ns  7.0ms  400.0us  400.0us    1.0ms      1\n"
        "nap           7  4.2ms  11.1%  3.9ms  4.2ms  600.0us  600.0us  600.0us      1  <- waits\n"
        "p50, p99: self time per frame\n"
        "Worst: its longest single call, with callees; Frame: the frame it was in\n"
        "Wait: part of Self off the CPU; rows are ranked by the rest (--wall: by Self)\n" FOOTER);
    shows(
        five_frames, report_functions, (struct report_options){.rank = REPORT_BY_WALL},
        "Function  Calls   Self      %   Wait  Total      p50      p99    Worst  Frame\n"
        "---------------------------------------------------------------------------------------\n"
        "nap           7  4.2ms  60.0%  3.9ms  4.2ms  600.0us  600.0us  600.0us      1  <- waits\n"
        "update        7  2.8ms  40.0%    0ns  7.0ms  400.0us  400.0us    1.0ms      1\n"
        "p50, p99: self time per frame\n"
        "Worst: its longest single call, with callees; Frame: the frame it was in\n"
        "Wait: part of Self off the CPU; rows are ranked with it (--cpu-time: without)\n" FOOTER);
    shows(five_frames, report_functions, (struct report_options){.rank = REPORT_BY_CPU, .top = 1},
          "Function  Calls   Self      %    CPU  Wait  Total      p50      p99  Worst  Frame\n"
          "---------------------------------------------------------------------------------\n"
          "update        7  2.8ms  88.9%  2.8ms   0ns  7.0ms  400.0us  400.0us  1.0ms      1\n"
          "p50, p99: self time per frame\n"
          "Worst: its longest single call, with callees; Frame: the frame it was in\n"
          "Wait: part of Self off the CPU; rows are ranked by the rest (--wall: by Self)\n"
          "nap waited for 3.9ms\n" FOOTER);
}

static void frames_show_where_their_time_went(void **state)
{
    (void)state;
    shows(five_frames, report_frames, (struct report_options){0},
          "Frame  Total      CPU  Waited  Blocked      nap   update\n"
          "-------------------------------------------------------------------------------------\n"
          "    1  1.0ms  450.0us  50.0us  500.0us  600.0us  400.0us\n"
          "    2  1.0ms  450.0us  50.0us  500.0us  600.0us  400.0us\n"
          "    3  1.0ms  450.0us  50.0us  500.0us  600.0us  400.0us\n"
          "    4  1.0ms  450.0us  50.0us  500.0us  600.0us  400.0us\n"
          "    5  5.0ms  450.0us   4.0ms  550.0us  600.0us  400.0us  <- spike (waited for a CPU)\n"
          "    6  5.0ms  450.0us  50.0us    4.5ms  600.0us  400.0us  <- spike (blocked)\n"
          "    7  5.0ms    4.5ms  50.0us  500.0us  600.0us  400.0us  <- spike\n" FOOTER);
}

/* A frame of 1.6 ms that waited for 1.5 ms. `hot` is sampled; the time was moved to it, but the wait was not. */
static void wait_of_a_frame_is_attributed_to_a_function(void **state)
{
    (void)state;
    struct run run;
    assert_int_equal(
        loaded(&run,
               HEADER("\"hot\",\"loop\"") "{\"frame\":0,\"thread\":1,\"depth\":0,\"root\":1,"
                                          "\"wall_ns\":1600000,\"cpu_ns\":100000,\"runq_ns\":"
                                          "1400000,\"fns\":[{\"id\":0,\"calls\":5000,"
                                          "\"timed\":12,\"self_ns\":1580000},{\"id\":1,"
                                          "\"calls\":1,\"self_ns\":20000,\"cpu_ns\":20000}]}\n"),
        0);
    const struct tally *hot = &run.fns[0].sum, *loop = &run.fns[1].sum;
    assert_in_range(hot->wait_ns, 1450000, 1500000);
    assert_in_range(hot->runq_ns, 1350000, 1400000);
    assert_true(hot->has_cpu);
    assert_int_equal(loop->wait_ns, 0);
    run_unload(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_wait_belongs_to_a_function_without_callees),
        cmocka_unit_test(checked_call_stands_for_unchecked_calls),
        cmocka_unit_test(wait_of_a_checked_callee_is_not_its_callers),
        cmocka_unit_test(possible_waits_of_unchecked_callees_are_left_out),
        cmocka_unit_test(possible_waits_before_the_call_are_left_out),
        cmocka_unit_test(wait_between_calls_is_their_callers),
        cmocka_unit_test(wait_that_may_be_before_the_piece_is_left_out),
        cmocka_unit_test(frame_time_is_cpu_waiting_and_blocked),
        cmocka_unit_test(spikes_show_their_cause),
        cmocka_unit_test(spikes_beyond_a_budget_show_their_cause),
        cmocka_unit_test(turns_have_the_cpu_time_of_their_calls),
        cmocka_unit_test(waiting_is_unknown_without_schedstat),
        cmocka_unit_test(merged_frames_add_up),
        cmocka_unit_test(inconsistent_times_stay_in_bounds),
        cmocka_unit_test(a_wait_follows_the_time_that_was_waited),
        cmocka_unit_test(busy_machine_is_reported),
        cmocka_unit_test(a_function_that_waits_is_not_the_hottest),
        cmocka_unit_test(frames_show_where_their_time_went),
        cmocka_unit_test(wait_of_a_frame_is_attributed_to_a_function),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
