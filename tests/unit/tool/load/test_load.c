/* The reader of runs: the documented formats, the choice of frames, and invalid files. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "loaded.h"

/* ---- formats ---- */

static void v2_example_of_the_format_is_read(void **state)
{
    (void)state;
    struct run run;
    assert_int_equal(loaded(&run,
                            HEADER("\"update\",\"physics\"") "{\"frame\":0,\"fns\":[{\"id\":0,"
                                                             "\"calls\":1,\"self_ns\":2000000,"
                                                             "\"ac\":10,\"ab\":4096,\"fc\":8,"
                                                             "\"fb\":3072},{\"id\":1,\"calls\":1,"
                                                             "\"self_ns\":1000000,\"ac\":0,\"ab\":"
                                                             "0,\"fc\":0,\"fb\":0}]}\n"
                                                             "{\"frame\":1,\"fns\":[{\"id\":0,"
                                                             "\"calls\":1,\"self_ns\":2100000,"
                                                             "\"ac\":12,\"ab\":5000,\"fc\":10,"
                                                             "\"fb\":4000},{\"id\":1,\"calls\":1,"
                                                             "\"self_ns\":950000,\"ac\":0,\"ab\":0,"
                                                             "\"fc\":0,\"fb\":0}]}\n"),
                     0);
    assert_int_equal(run.fn_count, 2);
    assert_int_equal(fn(&run, "update")->sum.calls, 2);
    assert_int_equal(fn(&run, "update")->sum.self_ns, 4100000);
    assert_int_equal(fn(&run, "update")->sum.alloc_bytes, 9096);
    assert_int_equal(fn(&run, "update")->sum.free_count, 18);
    assert_false(fn(&run, "update")->sum.has_total);
    assert_int_equal(run.frame_count, 2);
    assert_true(run.wall_estimated);
    assert_int_equal(run.frames[0].wall_ns, 3000000);
    assert_int_equal(run.bad_lines, 0);
    run_unload(&run);
}

static void v1_example_of_the_format_is_read(void **state)
{
    (void)state;
    struct run run;
    const char *text = "{\"run_id\":\"a\",\"timestamp_ms\":2000,\"functions\":[{\"name\":\"walk\","
                       "\"calls\":3,\"total_ms\":12.0,\"self_ms\":10.25}]}";
    assert_int_equal(loaded_bytes(&run, "2000-1.json", text, strlen(text), NULL), 0);
    assert_int_equal(run.format, 1);
    assert_int_equal(fn(&run, "walk")->sum.self_ns, 10250000);
    assert_int_equal(fn(&run, "walk")->sum.total_ns, 12000000);
    assert_int_equal(run.frame_count, 0);
    run_unload(&run);
}

static void later_functions_threads_and_end(void **state)
{
    (void)state;
    struct run run;
    const struct run_options options = {.threads = true};
    const char *text =
        HEADER("\"main\"") "{\"thread\":1,\"tid\":50,\"name\":\"main\",\"start_ns\":0}\n"
                           "{\"functions_add\":[\"job\"],\"places_add\":[\"w.c:9\"]}\n"
                           "{\"thread\":2,\"tid\":51,\"name\":\"w\",\"start_ns\":5,\"parent_"
                           "thread\":1,\"parent_fn\":0}\n"
                           "{\"frame\":0,\"thread\":2,\"depth\":0,\"root\":1,\"start_ns\":9,\"wall_"
                           "ns\":4,\"fns\":"
                           "[{\"id\":1,\"calls\":1,\"self_ns\":4,\"total_ns\":4}]}\n"
                           "{\"thread\":2,\"name\":\"worker\",\"end_ns\":70}\n"
                           "{\"outside\":true,\"thread\":1,\"fns\":[{\"id\":0,\"calls\":1,\"self_"
                           "ns\":7}]}\n"
                           "{\"end\":true,\"wall_ns\":90,\"dropped\":{\"frames\":3,\"threads\":0,"
                           "\"write\":1}}\n";
    assert_int_equal(loaded_bytes(&run, "1-1.ndjson", text, strlen(text), &options), 0);
    assert_true(run.ended);
    assert_int_equal(run.wall_ns, 90);
    assert_int_equal(run.dropped[RUN_DROP_FRAMES], 3);
    assert_int_equal(run.dropped[RUN_DROP_WRITE], 1);
    assert_string_equal(fn(&run, "job")->file, "w.c");
    assert_int_equal(fn(&run, "job")->line, 9);
    assert_int_equal(run.thread_count, 2);
    assert_string_equal(run.threads[1].name, "worker");
    assert_int_equal(run.threads[1].end_ns, 70);
    assert_int_equal(run.threads[1].parent_thread, 1);
    assert_int_equal(run.threads[1].parent_fn, 0);
    assert_int_equal(run.threads[1].fn_count, 1);
    assert_int_equal(run.threads[0].fns[0].sum.self_ns, 7);
    assert_int_equal(run.frame_count, 0); /* one call is no repetition */
    run_unload(&run);
}

static void same_name_two_places_two_rows(void **state)
{
    (void)state;
    struct run run;
    assert_int_equal(
        loaded(&run,
               "{\"format_version\":2,\"functions\":[\"f\",\"f\",\"f\"],\"places\":[\"a.c:1\","
               "\"b.c:1\",\"a.c:1\"]}\n"
               "{\"outside\":true,\"thread\":1,\"fns\":[{\"id\":0,\"calls\":1,\"self_ns\":1},"
               "{\"id\":1,\"calls\":2,\"self_ns\":2},{\"id\":2,\"calls\":4,\"self_ns\":4}]}\n"),
        0);
    assert_int_equal(run.fns[0].sum.calls, 5);
    assert_int_equal(run.fns[1].sum.calls, 2);
    assert_true(run.fns[2].alias);
    run_unload(&run);
}

static void raw_times_and_samples(void **state)
{
    (void)state;
    struct run run;
    const struct run_options raw = {.uncorrected = true};
    const char *text =
        HEADER("\"f\"") "{\"outside\":true,\"thread\":1,\"fns\":[{\"id\":0,"
                        "\"calls\":100,\"self_ns\":-5,\"raw_ns\":700,\"timed\":3}]}\n";
    assert_int_equal(loaded(&run, text), 0);
    assert_int_equal(run.fns[0].sum.self_ns, -5);
    assert_int_equal(run.fns[0].sum.timed, 3);
    run_unload(&run);
    assert_int_equal(loaded_bytes(&run, "1-1.ndjson", text, strlen(text), &raw), 0);
    assert_int_equal(run.fns[0].sum.self_ns, 700);
    run_unload(&run);
}

/* ---- frames ---- */

#define FRAME(depth, root, start, wall, self)                                                      \
    "{\"frame\":0,\"thread\":1,\"depth\":" #depth ",\"root\":" #root ",\"start_ns\":" #start       \
    ",\"wall_ns\":" #wall ",\"fns\":[{\"id\":" #root ",\"calls\":1,\"self_ns\":" #self             \
    ",\"ac\":1,\"ab\":10}]}\n"

static void outermost_calls_are_frames(void **state)
{
    (void)state;
    struct run run;
    assert_int_equal(loaded(&run, HEADER("\"update\",\"draw\"") FRAME(1, 1, 12, 5, 3)
                                      FRAME(0, 0, 10, 10, 5) FRAME(0, 0, 30, 10, 9)
                                          FRAME(0, 0, 20, 50, 9)),
                     0);
    assert_int_equal(run.frame_count, 3);
    assert_int_equal(run.frames[0].alloc_count, 2); /* the deeper line is part of it */
    assert_int_equal(run.frames[1].start_ns, 20);   /* in order of start */
    assert_true(run.frames[1].spike);
    assert_int_equal(run.all.p50_ns, 10);
    assert_int_equal(run.all.spikes, 1);
    assert_int_equal(fn(&run, "draw")->frames.count, 1);
    assert_int_equal(fn(&run, "draw")->p50_ns, 3);
    struct run_scratch scratch = {0};
    assert_int_equal(run_frame_functions(&run, &run.frames[0], &scratch), 0);
    assert_int_equal(scratch.count, 2);
    run_scratch_release(&scratch);
    run_unload(&run);
}

static void loops_inside_main_are_found(void **state)
{
    (void)state;
    struct run run;
    assert_int_equal(loaded(&run, HEADER("\"main\",\"init\",\"update\"") FRAME(1, 1, 1, 900, 900)
                                      FRAME(1, 2, 1000, 10, 9) FRAME(1, 2, 1010, 12, 9)
                                          FRAME(0, 0, 0, 2000, 7)),
                     0);
    assert_int_equal(run.frame_count, 2); /* `init` was called once: no frame */
    assert_int_equal(run.frames[0].wall_ns, 10);
    assert_int_equal(fn(&run, "main")->sum.self_ns, 7);
    assert_int_equal(fn(&run, "main")->frames.count, 0);
    assert_int_equal(fn(&run, "init")->sum.calls, 1);
    run_unload(&run);
}

/* Two short setters below `main` are not its loop; `run`, one level deeper, contains it. */
static void frames_take_a_tenth_of_the_time(void **state)
{
    (void)state;
    static const char lines[] =
        "{\"frame\":0,\"thread\":1,\"depth\":1,\"root\":1,\"under\":0,\"start_ns\":1,"
        "\"wall_ns\":200,\"fns\":[{\"id\":1,\"calls\":1,\"self_ns\":200}]}\n"
        "{\"frame\":1,\"thread\":1,\"depth\":1,\"root\":1,\"under\":0,\"start_ns\":300,"
        "\"wall_ns\":200,\"fns\":[{\"id\":1,\"calls\":1,\"self_ns\":200}]}\n"
        "{\"frame\":2,\"thread\":1,\"depth\":2,\"root\":3,\"under\":2,\"start_ns\":1000,"
        "\"wall_ns\":9000000,\"fns\":[{\"id\":3,\"calls\":1,\"self_ns\":9000000}]}\n"
        "{\"frame\":3,\"thread\":1,\"depth\":2,\"root\":3,\"under\":2,\"start_ns\":9100000,"
        "\"wall_ns\":9000000,\"fns\":[{\"id\":3,\"calls\":1,\"self_ns\":9000000}]}\n";
    static const char *const ends[] = {
        /* all calls have ended */
        ("{\"frame\":4,\"thread\":1,\"depth\":1,\"root\":2,\"under\":0,\"start_ns\":900,"
         "\"wall_ns\":20000000,\"fns\":[{\"id\":2,\"calls\":1,\"self_ns\":5}]}\n"
         "{\"frame\":5,\"thread\":1,\"depth\":0,\"root\":0,\"start_ns\":0,"
         "\"wall_ns\":30000000,\"fns\":[{\"id\":0,\"calls\":1,\"self_ns\":5}]}\n"),
        /* `main` and `run` are open: self times replace their totals */
        "{\"outside\":true,\"thread\":1,\"fns\":[{\"id\":0,\"calls\":1,\"self_ns\":90}]}\n",
        /* and `main` has so much self time that nothing is left to be a frame */
        ("{\"outside\":true,\"thread\":1,\"fns\":[{\"id\":0,\"calls\":1,"
         "\"self_ns\":900000000}]}\n")};
    static const size_t frames[] = {2, 2, 0};
    for (size_t i = 0; i < 3; i++) {
        struct run run;
        struct buf b = {0};
        buf_puts(&b, HEADER("\"main\",\"set\",\"run\",\"tick\""));
        buf_puts(&b, lines);
        buf_puts(&b, ends[i]);
        assert_int_equal(loaded(&run, b.data), 0);
        assert_int_equal(run.frame_count, frames[i]);
        if (frames[i])
            assert_int_equal(run.frames[0].root, 3);
        assert_int_equal(fn(&run, "set")->sum.calls, 2);
        run_unload(&run);
        buf_free(&b);
    }
}

static void the_busiest_caller_has_the_frames(void **state)
{
    (void)state;
    struct run run;
#define UNDER(root, under, start, wall)                                                            \
    "{\"frame\":0,\"thread\":1,\"depth\":1,\"root\":" #root ",\"under\":" #under                   \
    ",\"start_ns\":" #start ",\"wall_ns\":" #wall ",\"fns\":[]}\n"
    assert_int_equal(loaded(&run, HEADER("\"load\",\"asset\",\"run\",\"update\"") UNDER(1, 0, 1, 5)
                                      UNDER(1, 0, 6, 5) UNDER(3, 2, 20, 50) UNDER(3, 2, 70, 50)),
                     0);
    assert_int_equal(run.frame_count, 2);
    assert_int_equal(run.frames[0].root, 3);
    run_unload(&run);
}

static void frame_fn_decides(void **state)
{
    (void)state;
    struct run run;
    assert_int_equal(
        loaded(&run,
               "{\"format_version\":2,\"functions\":[\"update\",\"Game::draw\"],\"frame_fn\":"
               "\"draw\"}\n" FRAME(0, 0, 0, 10, 1) FRAME(1, 1, 20, 3, 1) FRAME(0, 0, 20, 10, 1)),
        0);
    assert_int_equal(run.frame_count, 1);
    assert_int_equal(run.frames[0].root, 1);
    run_unload(&run);
}

static void demoted_functions_have_no_frames(void **state)
{
    (void)state;
    struct run run;
    assert_int_equal(loaded(&run, HEADER("\"tiny\",\"big\"") FRAME(0, 0, 0, 1, 1)
                                      FRAME(0, 0, 2, 1, 1) "{\"demoted\":0}\n" FRAME(0, 1, 10, 5, 5)
                                          FRAME(0, 1, 20, 5, 5)),
                     0);
    assert_int_equal(run.frame_count, 2);
    assert_int_equal(run.frames[0].root, 1);
    assert_int_equal(fn(&run, "tiny")->sum.calls, 2);
    run_unload(&run);
}

static void merged_frames_count(void **state)
{
    (void)state;
    struct run run;
    assert_int_equal(
        loaded(&run, HEADER("\"update\"") FRAME(0, 0, 0, 10, 1) FRAME(
                         0, 0, 20, 30,
                         1) "{\"merged\":8,\"thread\":1,\"depth\":0,\"root\":0,\"wall_ns\":80,"
                            "\"wall_max_ns\":11,\"hist\":[[10,8]],\"fns\":[{\"id\":0,\"calls\":8,"
                            "\"self_ns\":80}]}\n"),
        0);
    assert_int_equal(run.all.count, 10);
    assert_int_equal(run.all.merged, 8);
    assert_int_equal(run.all.p50_ns, 10);
    assert_int_equal(run.all.spikes, 1);
    assert_int_equal(run.fns[0].sum.calls, 10);
    assert_int_equal(run.fns[0].frames.count, 2);
    run_unload(&run);
}

/* Functions in merged frames count in p50 and p99, and so do frames of roots without an entry. */
static void merged_functions_have_percentiles(void **state)
{
    (void)state;
    struct run run;
    const struct run_options raw = {.uncorrected = true};
    struct buf b = {0};
    buf_puts(&b, HEADER("\"update\",\"draw\",\"step\""));
    for (int i = 0; i < 4; i++)
        buf_printf(&b,
                   "{\"frame\":0,\"thread\":1,\"depth\":0,\"root\":0,\"start_ns\":%d,"
                   "\"wall_ns\":9000,\"fns\":[{\"id\":0,\"calls\":1,\"self_ns\":9000}]}\n",
                   i * 10000);
    /* 1000 ns are in bucket 190, of functions in 47. */
    buf_puts(&b, "{\"merged\":96,\"thread\":1,\"depth\":0,\"root\":0,\"wall_ns\":96000,"
                 "\"wall_max_ns\":1000,\"hist\":[[190,96]],\"fns\":[]}\n"
                 "{\"merged_fn\":0,\"thread\":1,\"depth\":0,\"root\":0,\"hist\":[[47,96]]}\n"
                 "{\"merged_fn\":1,\"thread\":1,\"depth\":0,\"root\":0,\"hist\":[[0,50]]}\n"
                 "{\"merged_fn\":2,\"thread\":1,\"depth\":1,\"root\":1,\"hist\":[[9,50]]}\n"
                 "{\"merged\":10,\"thread\":1,\"depth\":0,\"rest\":true,\"wall_ns\":50,"
                 "\"wall_max_ns\":5,\"hist\":[[5,10]],\"fns\":[]}\n"
                 "{\"merged_fn\":1,\"thread\":1,\"depth\":0,\"rest\":true,\"hist\":[[1,5]]}\n"
                 "{\"merged_fn\":77,\"thread\":1,\"depth\":0,\"root\":0,\"hist\":[[1,5]]}\n");
    assert_int_equal(loaded(&run, b.data), 0);
    assert_int_equal(run.all.count, 110);
    assert_int_equal(run.group_count, 2);
    assert_int_equal(fn(&run, "update")->frames.count, 100);
    assert_in_range(fn(&run, "update")->p50_ns, 940, 1060);
    assert_int_equal(fn(&run, "update")->p99_ns, 9000);
    assert_int_equal(fn(&run, "draw")->frames.count, 55);
    assert_in_range(fn(&run, "draw")->p50_ns, 0, 3);
    assert_in_range(fn(&run, "draw")->p99_ns, 4, 7);
    assert_int_equal(fn(&run, "step")->frames.count, 0); /* of another level */
    assert_true(run.merged_selves);
    assert_int_equal(run.bad_lines, 1);
    run_unload(&run);
    assert_int_equal(loaded_bytes(&run, "1-1.ndjson", b.data, b.len, &raw), 0);
    assert_int_equal(fn(&run, "update")->frames.count, 4); /* not kept raw */
    run_unload(&run);
    buf_free(&b);
}

static void parts_belong_to_the_next_frame(void **state)
{
    (void)state;
    struct run run;
    assert_int_equal(
        loaded(&run,
               HEADER("\"update\"") "{\"part\":true,\"thread\":1,\"depth\":0,\"fns\":[{\"id\":0,"
                                    "\"calls\":0,\"self_ns\":4,\"ac\":5,\"ab\":5}]}\n" FRAME(
                                        0, 0, 0, 10, 1) FRAME(0, 0, 20, 10, 1)),
        0);
    assert_int_equal(run.frames[0].alloc_count, 6);
    assert_int_equal(run.frames[1].alloc_count, 1);
    assert_int_equal(run.fns[0].p99_ns, 5);
    run_unload(&run);
}

/* ---- turns ---- */

/* A run of `main` (0), which calls functions one after another. A letter is a call of 10 ns of a function,
 * 'a' is 1; a digit is that many times 10 ns of `main`'s self time. */
static int loaded_calls(struct run *run, const char *calls, bool with_main)
{
    struct buf b = {0};
    int64_t now = 100;
    buf_puts(&b, HEADER("\"main\",\"a\",\"b\",\"c\",\"d\",\"e\""));
    for (const char *p = calls; *p; p++) {
        if (*p >= '0' && *p <= '9') {
            now += (*p - '0') * 10;
            continue;
        }
        int id = *p - 'a' + 1;
        buf_printf(&b,
                   "{\"frame\":0,\"thread\":1,\"depth\":%d,\"root\":%d,%s\"start_ns\":%lld,"
                   "\"wall_ns\":10,\"fns\":[{\"id\":%d,\"calls\":1,\"self_ns\":10}]}\n",
                   with_main, id, with_main ? "\"under\":0," : "", (long long)now, id);
        now += 10;
    }
    if (with_main)
        buf_printf(&b,
                   "{\"frame\":0,\"thread\":1,\"depth\":0,\"root\":0,\"start_ns\":100,"
                   "\"wall_ns\":%lld,\"fns\":[{\"id\":0,\"calls\":1,\"self_ns\":1}]}\n",
                   (long long)now - 100);
    int err = loaded(run, b.data);
    buf_free(&b);
    return err;
}

static void calls_in_a_cycle_are_turns(void **state)
{
    (void)state;
    for (int with_main = 0; with_main < 2; with_main++) {
        struct run run;
        assert_int_equal(loaded_calls(&run, "dab2cabcab1cabc", with_main), 0);
        assert_int_equal(run.group_count, 1);
        assert_int_equal(run.frame_count, 4);
        assert_true(run.groups[0].turn);
        assert_int_equal(run.groups[0].root, 1);
        assert_int_equal(run.groups[0].caller, with_main ? 0 : RUN_NO_FN);
        static const int64_t walls[] = {50, 30, 40, 30}, between[] = {20, 0, 10, 0};
        for (size_t i = 0; i < 4; i++) {
            const struct run_frame *f = &run.frames[i];
            assert_int_equal(f->root, 1);
            assert_int_equal(f->wall_ns, walls[i]);
            assert_int_equal(run_frame_took(&run, f), walls[i]);
            assert_int_equal(run.turns[f->turn - 1].between_ns, between[i]);
            struct run_scratch scratch = {0};
            assert_int_equal(run_frame_functions(&run, f, &scratch), 0);
            assert_int_equal(scratch.count, 3);
            run_scratch_release(&scratch);
        }
        assert_int_equal(fn(&run, "c")->frames.count, 4);
        assert_int_equal(fn(&run, "d")->frames.count, 0);
        assert_int_equal(fn(&run, "d")->sum.calls, 1);
        run_unload(&run);
    }
}

struct cycle {
    const char *calls;
    size_t frames;
    uint32_t starter; /* 0: no turns */
};

static void cycle_is_detected_from_the_order_of_calls(void **state)
{
    (void)state;
    static const struct cycle cycles[] = {
        {"abcabcabcabc", 4, 1},
        {"ababab", 3, 1},
        {"aabbaabbaabbaabb", 16, 0},      /* no fixed place: b is in every second turn of a */
        {"abbcabbcabbcabbc", 4, 1},       /* b twice a turn */
        {"abcabcabcdabcabcabcabc", 7, 1}, /* d once */
        {"dabcabcabcdabcabcabcabcdabcabcabcd", 10, 1},
        {"ddabcabcabcabce", 4, 1},          /* init and shutdown are no frames */
        {"aabcabcaaabcabcabc", 5, 2},       /* a drains a queue */
        {"abcabcabcabcbbbbbbbbcccc", 4, 1}, /* after the loop */
        {"abaabb", 6, 0},
        {"abbbaababbabaaabbabaabababbbaabaab", 34, 0},
        {"aaaaaaaabbbbbbbb", 16, 0},
        {"bbbbbbbbbabbbbbbbabbbbabbbbbbbbbbbbbbabbbbbbbbbba", 49, 0}, /* a rare job */
        {"dedededeabcabcabcabcabcabcabc", 11, 1},  /* two loops, one after the other */
        {"aaaaaaaaaaaaaaaaaaaaaaaabcbcbc", 30, 0}, /* most of it is not a cycle */
    };
    for (size_t i = 0; i < sizeof(cycles) / sizeof(cycles[0]); i++) {
        struct run run;
        assert_int_equal(loaded_calls(&run, cycles[i].calls, true), 0);
        if (run.frame_count != cycles[i].frames)
            fail_msg("%s: %zu frames", cycles[i].calls, run.frame_count);
        bool found = false, turns = false;
        for (size_t g = 0; g < run.group_count; g++) {
            turns |= run.groups[g].turn;
            found |= run.groups[g].turn && run.groups[g].root == cycles[i].starter;
        }
        if (turns != (cycles[i].starter != 0) || found != turns)
            fail_msg("%s: wrong turns", cycles[i].calls);
        assert_int_equal(run.all.count, run.frame_count);
        run_unload(&run);
    }
}

/* The cost of measuring, inside the calls and between them, is not part of a turn. */
static void turns_without_the_cost_of_measuring(void **state)
{
    (void)state;
    struct run run;
    struct buf b = {0};
    buf_puts(&b, HEADER("\"a\",\"b\""));
    for (int i = 0; i < 8; i++)
        buf_printf(&b,
                   "{\"frame\":0,\"thread\":1,\"depth\":0,\"root\":%d,\"start_ns\":%d,"
                   "\"wall_ns\":300,\"took_ns\":500,\"over_ns\":%d,\"fns\":[]}\n",
                   i % 2, i * 1000, i * 450);
    assert_int_equal(loaded(&run, b.data), 0);
    assert_int_equal(run.frame_count, 4);
    assert_int_equal(run_frame_took(&run, &run.frames[0]), 2000);
    assert_int_equal(run.frames[0].wall_ns, 2000 - 900);
    assert_int_equal(run.turns[0].between_ns, 2000 - 900 - 600);
    assert_int_equal(run_frame_took(&run, &run.frames[3]), 1500);
    assert_int_equal(run.frames[3].wall_ns, 1500 - 450 - 200);
    run_unload(&run);
    char *lie = strstr(b.data, "\"over_ns\":900,");
    memcpy(lie, "\"over_ns\":-1 ,", 14);
    assert_int_equal(loaded(&run, b.data), 0);
    assert_int_equal(run.frames[0].wall_ns, 2000 - 400); /* the cost inside the calls remains */
    run_unload(&run);
    buf_free(&b);
}

/* A function that is later timed by sample cannot start turns. */
static void demoted_functions_start_no_turns(void **state)
{
    (void)state;
    struct run run;
    struct buf b = {0};
    buf_puts(&b, HEADER("\"a\",\"b\",\"c\""));
    for (int i = 0; i < 300; i++) {
        if (i == 288)
            buf_puts(&b, "{\"demoted\":0}\n");
        if (i % 3 || i < 288)
            buf_printf(&b,
                       "{\"frame\":0,\"thread\":1,\"depth\":0,\"root\":%d,\"start_ns\":%d,"
                       "\"wall_ns\":30,\"fns\":[{\"id\":%d,\"calls\":1,\"self_ns\":30}]}\n",
                       i % 3, i * 100, i % 3);
    }
    assert_int_equal(loaded(&run, b.data), 0);
    assert_int_equal(run.frame_count, 100);
    assert_int_equal(run.frames[0].root, 1);
    for (size_t i = 0; i < 99; i++)
        assert_int_equal(run.frames[i].wall_ns, 300);
    assert_int_equal(fn(&run, "a")->sum.calls, 96);
    run_unload(&run);
    buf_free(&b);
}

/* Calls without lines cannot be put into turns, so the others are not turns either. */
static void merged_calls_make_no_turns(void **state)
{
    (void)state;
    struct run run;
    struct buf b = {0};
    buf_puts(&b, HEADER("\"a\",\"b\""));
    for (int i = 0; i < 8; i++)
        buf_printf(&b,
                   "{\"frame\":0,\"thread\":1,\"depth\":0,\"root\":%d,\"start_ns\":%d,"
                   "\"wall_ns\":30,\"fns\":[]}\n",
                   i % 2, i * 100);
    buf_puts(&b, "{\"merged\":5,\"thread\":1,\"depth\":0,\"root\":1,\"wall_ns\":150,"
                 "\"wall_max_ns\":30,\"hist\":[[30,5]],\"fns\":[]}\n");
    assert_int_equal(loaded(&run, b.data), 0);
    assert_int_equal(run.turn_count, 0);
    assert_int_equal(run.frame_count, 8);
    assert_int_equal(run.group_count, 2);
    assert_int_equal(run.all.count, 13);
    run_unload(&run);
    buf_free(&b);
}

/* ---- the worst call ---- */

#define CALLS(start, id, calls, total, more)                                                       \
    "{\"frame\":0,\"thread\":1,\"depth\":0,\"root\":0,\"start_ns\":" #start                        \
    ",\"wall_ns\":500,\"fns\":[{\"id\":0,\"calls\":1,\"self_ns\":1,\"total_ns\":500},{\"id\":" #id \
    ",\"calls\":" #calls ",\"self_ns\":1,\"total_ns\":" #total more "}]}\n"

static void the_worst_call_and_its_frame(void **state)
{
    (void)state;
    struct run run;
    assert_int_equal(
        loaded(&run, HEADER("\"update\",\"f\",\"old\",\"out\"") /* the frames are not in order */
               CALLS(3000, 1, 3, 90, ",\"max_ns\":70") CALLS(1000, 1, 1, 40, "")
                   CALLS(2000, 1, 9, 99, ",\"max_ns\":20,\"timed\":2")
                       CALLS(4000, 1, 5, 99, ",\"timed\":0") CALLS(5000, 2, 1, 10, "")
                           CALLS(6000, 2, 2, 10, "")
                               CALLS(7000, 3, 1, 10, "") "{\"outside\":true,\"thread\":1,\"fns\":[{"
                                                         "\"id\":3,\"calls\":2,\"self_ns\":80,"
                                                         "\"total_ns\":80,\"max_ns\":60}]}\n"),
        0);
    assert_int_equal(run.frame_count, 7);
    assert_int_equal(fn(&run, "f")->worst_ns, 70);
    assert_int_equal(fn(&run, "f")->worst_frame, 2);
    assert_int_equal(fn(&run, "update")->worst_ns, 500);
    assert_int_equal(fn(&run, "update")->worst_frame, 2); /* equal totals: the first line */
    assert_int_equal(fn(&run, "old")->worst_ns, -1);      /* two calls, without the longest */
    assert_int_equal(fn(&run, "old")->worst_frame, -1);
    assert_int_equal(fn(&run, "out")->worst_ns, 60); /* in no frame */
    assert_int_equal(fn(&run, "out")->worst_frame, -1);
    run_unload(&run);
}

static void the_worst_call_of_a_turn(void **state)
{
    (void)state;
    struct run run;
    struct buf b = {0};
    buf_puts(&b, HEADER("\"a\",\"b\""));
    for (int i = 0; i < 8; i++)
        buf_printf(
            &b,
            "{\"frame\":0,\"thread\":1,\"depth\":0,\"root\":%d,\"start_ns\":%d,"
            "\"wall_ns\":30,\"fns\":[{\"id\":%d,\"calls\":1,\"self_ns\":30,\"total_ns\":%d}]}\n",
            i % 2, i * 100, i % 2, i == 5 ? 90 : 30);
    assert_int_equal(loaded(&run, b.data), 0);
    assert_int_equal(run.turn_count, 4);
    assert_int_equal(fn(&run, "b")->worst_ns, 90);
    assert_int_equal(fn(&run, "b")->worst_frame, 2);
    run_unload(&run);
    buf_free(&b);
}

/* ---- invalid files ---- */

static void file_truncated_at_any_byte_keeps_its_whole_lines(void **state)
{
    (void)state;
    const char *text =
        HEADER("\"update\"") FRAME(0, 0, 0, 10, 1) FRAME(0, 0, 20, 10, 1) FRAME(0, 0, 40, 10, 1);
    size_t header = strchr(text, '\n') - text, whole = strlen(text);
    for (size_t len = 0; len <= whole; len++) {
        struct run run;
        int err = loaded_bytes(&run, "1-1.ndjson", text, len, NULL);
        assert_true(len >= header ? err == 0 : err == -EINVAL);
        if (err) {
            /* Too little text to tell what the file is. */
            assert_true(len == 0 || strstr(loaded_error.text, "byte") ||
                        strstr(loaded_error.text, "neither a run nor a recording"));
            continue;
        }
        assert_int_equal(run.bad_lines, 0);
        bool boundary = (len > 0 && text[len - 1] == '\n') || text[len] == '\n';
        assert_int_equal(run.truncated, !boundary);
        run_unload(&run);
    }
}

static void broken_lines_are_counted_and_named(void **state)
{
    (void)state;
    struct run run;
    assert_int_equal(
        loaded(&run, HEADER("\"f\"") FRAME(
                         0, 0, 0, 10,
                         1) "nonsense\n"
                            "{\"frame\":1,\"root\":9,\"fns\":[]}\n"
                            "{\"frame\":1,\"fns\":[{\"id\":7,\"calls\":1,\"self_ns\":1}]}\n"
                            "{\"frame\":1,\"fns\":[{\"id\":0,\"calls\":-1,\"self_ns\":1}]}\n"
                            "{\"frame\":1,\"fns\":[{\"id\":0,\"calls\":1,\"self_ns\":}]}\n" FRAME(
                                0, 0, 20, 10, 1) "\n   \n{\"news\":1}\n"),
        0);
    assert_int_equal(run.bad_lines, 5);
    assert_int_equal(run.bad_first, 3);
    assert_int_equal(run.fns[0].sum.calls, 2);
    assert_int_equal(run.frame_count, 2);
    run_unload(&run);
}

static void numbers_saturate(void **state)
{
    (void)state;
    struct run run;
    assert_int_equal(
        loaded(
            &run,
            HEADER("\"f\"") "{\"outside\":true,\"fns\":[{\"id\":0,\"calls\":99999999999999999999,"
                            "\"self_ns\":9223372036854775807,\"ab\":1e30}]}\n"
                            "{\"outside\":true,\"fns\":[{\"id\":0,\"calls\":5,\"self_ns\":5}]}\n"),
        0);
    assert_int_equal(run.fns[0].sum.calls, INT64_MAX);
    assert_int_equal(run.fns[0].sum.self_ns, INT64_MAX);
    assert_int_equal(run.saturated, 2);
    run_unload(&run);
}

static void refused(const char *text, size_t len, const char *expected)
{
    struct run run;
    assert_int_equal(loaded_bytes(&run, "x.ndjson", text, len, NULL), -EINVAL);
    if (!strstr(loaded_error.text, expected))
        fail_msg("\"%s\" does not say \"%s\"", loaded_error.text, expected);
}

static void foreign_files_are_refused(void **state)
{
    (void)state;
    refused("", 0, "is empty");
    refused("hello\n", 6, "neither a run nor a recording of piano: it looks like text");
    refused("\x7f"
            "ELF\0\0",
            6, "ELF file");
    refused("{}", 2, "neither a run nor a recording");
    refused("[1,2]", 5, "a list and not a run");
    refused("{\"format_version\":3,\"functions\":[]}\n", 36, "version");
    refused("{\"format_version\":2,\"functions\":[1]}\n", 37, "expected a string");
    refused("{\"functions\":[{\"calls\":1}]}", 27, "name");
    struct run run;
    assert_int_equal(run_load(&run, "/nonexistent/x", NULL, &loaded_error), -ENOENT);
    assert_int_equal(run_load(&run, "/tmp", NULL, &loaded_error), -EINVAL);
    assert_non_null(strstr(loaded_error.text, "not a regular file"));
}

static void deep_and_odd_lines(void **state)
{
    (void)state;
    struct run run;
    size_t len = 0, cap = 1 << 20;
    char *text = malloc(cap);
    len += (size_t)sprintf(text, HEADER("\"f\"") "{\"x\":");
    memset(text + len, '[', 500000);
    len += 500000;
    len += (size_t)sprintf(text + len, "\n{\"frame\":0,\"fns\":[{\"id\":0,\"id\":0,\"calls\":1,"
                                       "\"calls\":2,\"self_ns\":1}]}\n");
    static const char with_nul[] = "{\"frame\":0,\"a\0b\":1}\n";
    memcpy(text + len, with_nul, sizeof(with_nul));
    len += sizeof(with_nul) - 1;
    assert_int_equal(loaded_bytes(&run, "x.ndjson", text, len, NULL), 0);
    assert_int_equal(run.fns[0].sum.calls, 2);
    assert_int_equal(run.bad_lines + run.truncated, 2);
    run_unload(&run);
    free(text);
}

static void any_key_order_and_spacing(void **state)
{
    (void)state;
    struct run run;
    assert_int_equal(loaded(&run, HEADER("\"f\"") "{ \"fns\" : [ { \"self_ns\" : 4 , "
                                                  "\"unknown_key_of_some_length\" : [1,{}] , "
                                                  "\"calls\" : 1 , \"id\" : 0 } ] , \"wall_ns\" : "
                                                  "9 , \"start_ns\" : 1 , \"frame\" : 0 }\r\n"
                                                  "{\"fns\":[{\"id\":0,\"calls\":1,\"self_ns\":6}],"
                                                  "\"frame\":1,\"wall_ns\":11,"
                                                  "\"start_ns\":20}\n"),
                     0);
    assert_int_equal(run.bad_lines, 0);
    assert_int_equal(run.frame_count, 2);
    assert_int_equal(run.all.wall_sum, 20);
    assert_int_equal(run.fns[0].sum.self_ns, 10);
    run_unload(&run);
}

/* Large enough to be read in parts, on several threads. */
static void large_files_in_parts(void **state)
{
    (void)state;
    enum { FRAMES = 40000, BROKEN = 31234 };
    struct run run;
    struct buf b = {0};
    buf_puts(&b, HEADER("\"update\",\"late\""));
    for (int i = 0; i < FRAMES; i++) {
        if (i == BROKEN)
            buf_puts(&b, "{\"frame\":0,\"root\":0,\"fns\":[{\"id\":0,\"calls\":x}]}\n");
        buf_printf(&b,
                   "{\"frame\":%d,\"thread\":%d,\"depth\":0,\"root\":0,\"start_ns\":%d,"
                   "\"wall_ns\":%d,\"pad\":\"%0100d\",\"fns\":[{\"id\":0,\"calls\":2,"
                   "\"self_ns\":%d,\"total_ns\":9,\"ac\":1,\"ab\":3}]}\n",
                   i, i % 3 + 1, i * 10, 1000 + i, 0, i);
    }
    assert_int_equal(
        loaded_bytes(&run, "1-1.ndjson", b.data, b.len, &(struct run_options){.threads = true}), 0);
    assert_int_equal(run.bad_lines, 1);
    assert_int_equal(run.bad_first, BROKEN + 2);
    assert_int_equal(run.frame_count, FRAMES);
    assert_int_equal(run.fns[0].sum.calls, 2 * FRAMES);
    assert_int_equal(run.fns[0].sum.self_ns, (int64_t)FRAMES * (FRAMES - 1) / 2);
    assert_int_equal(run.fns[0].p50_ns, FRAMES / 2);
    assert_int_equal(run.all.p50_ns, 1000 + FRAMES / 2);
    assert_int_equal(run.thread_count, 3);
    for (size_t i = 0; i < run.frame_count; i++)
        assert_int_equal(run.frames[i].wall_ns, 1000 + (int64_t)i);
    run_unload(&run);
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(v2_example_of_the_format_is_read),
        cmocka_unit_test(v1_example_of_the_format_is_read),
        cmocka_unit_test(later_functions_threads_and_end),
        cmocka_unit_test(same_name_two_places_two_rows),
        cmocka_unit_test(raw_times_and_samples),
        cmocka_unit_test(outermost_calls_are_frames),
        cmocka_unit_test(loops_inside_main_are_found),
        cmocka_unit_test(frames_take_a_tenth_of_the_time),
        cmocka_unit_test(the_busiest_caller_has_the_frames),
        cmocka_unit_test(frame_fn_decides),
        cmocka_unit_test(demoted_functions_have_no_frames),
        cmocka_unit_test(merged_frames_count),
        cmocka_unit_test(merged_functions_have_percentiles),
        cmocka_unit_test(parts_belong_to_the_next_frame),
        cmocka_unit_test(calls_in_a_cycle_are_turns),
        cmocka_unit_test(cycle_is_detected_from_the_order_of_calls),
        cmocka_unit_test(turns_without_the_cost_of_measuring),
        cmocka_unit_test(demoted_functions_start_no_turns),
        cmocka_unit_test(merged_calls_make_no_turns),
        cmocka_unit_test(the_worst_call_and_its_frame),
        cmocka_unit_test(the_worst_call_of_a_turn),
        cmocka_unit_test(file_truncated_at_any_byte_keeps_its_whole_lines),
        cmocka_unit_test(broken_lines_are_counted_and_named),
        cmocka_unit_test(numbers_saturate),
        cmocka_unit_test(foreign_files_are_refused),
        cmocka_unit_test(deep_and_odd_lines),
        cmocka_unit_test(any_key_order_and_spacing),
        cmocka_unit_test(large_files_in_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
