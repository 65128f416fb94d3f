/* The reader of events, samples and names. */
#include <setjmp.h>
#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "target/sys/clock.h"
#include "tool/load/rec.h"
#include "event_image.h"

/* ---- events ---- */

static void test_events_are_read_in_order_of_time(void **state)
{
    (void)state;
    struct image i = image();
    struct recording rec;
    struct recording_event e;
    struct piano__chunk *later = events(&i, 7, 11, 5000, 5000); /* before the earlier one */
    event(later, PIANO_EVENT_MARK, 1, 1, N(3));
    struct piano__chunk *first = events(&i, 2, 11, 1000, 1000);
    event(first, PIANO_EVENT_MARK, 10, 1, N(1));
    event(first, PIANO_EVENT_THREAD, 1000, 1, N(12));
    event(first, PIANO_EVENT_MARK, 4990, 1, N(4)); /* at 7000, of thread 12 */
    struct piano__chunk *other = events(&i, 3, 13, 2000, 2000);
    event(other, PIANO_EVENT_MARK, 0, 1, N(2));
    load(&rec, &i);
    assert_int_equal(rec.events.track_count, 3);
    assert_int_equal(rec.events.count, 5);
    struct recording_walk *w = recording_walk_new(&rec);
    static const uint64_t times[] = {1010, 2000, 5001, 7000};
    static const uint32_t tids[] = {11, 13, 11, 12};
    for (uint64_t n = 0; n < 4; n++) {
        assert_true(recording_walk_next(w, &e));
        assert_int_equal(e.code, PIANO_EVENT_MARK);
        assert_int_equal(e.mark.name, n + 1);
        assert_int_equal(e.at_ns, times[n]);
        assert_int_equal(rec.events.tracks[e.track].tid, tids[n]);
    }
    assert_false(recording_walk_next(w, &e));
    recording_walk_free(w);
    assert_int_equal(rec.events.first_ns, 1000);
    assert_int_equal(rec.events.last_ns, 7000);
    recording_unload(&rec);
}

static void test_event_is_decoded_and_truncated_ones_are_refused(void **state)
{
    (void)state;
    struct rec_event e;
    const char good[] = {PIANO_EVENT_TASK_SPAWN, 5, 1, 2, (char)0x83, 1, 4};
    assert_int_equal(rec_event_at(good, good + sizeof(good), &e), sizeof(good));
    assert_int_equal(e.ticks, 1);
    assert_int_equal(e.event.code, PIANO_EVENT_TASK_SPAWN);
    assert_int_equal(e.event.task_spawn.task, 2);
    assert_int_equal(e.event.task_spawn.name, 131);
    assert_int_equal(e.event.task_spawn.place, 4);
    assert_false(e.bad);
    for (size_t len = 0; len < sizeof(good); len++)
        assert_int_equal(rec_event_at(good, good + len, &e), 0);
    const char no_ticks[] = {PIANO_EVENT_MARK, 0};
    assert_int_equal(rec_event_at(no_ticks, no_ticks + 2, &e), 0);
    const char cut_field[] = {PIANO_EVENT_MARK, 2, 1, (char)0x80};
    assert_int_equal(rec_event_at(cut_field, cut_field + 4, &e), 4);
    assert_true(e.bad);
    assert_int_equal(e.event.mark.name, 0);
    unsigned char wide[16] = {PIANO_EVENT_MARK, 11, 0};
    assert_int_equal(varint(wide + 3, UINT64_MAX), 10);
    assert_int_equal(rec_event_at((char *)wide, (char *)wide + 13, &e), 13);
    assert_true(e.event.mark.name == UINT64_MAX && !e.bad);
    wide[12] = 2; /* 65 bits */
    assert_int_equal(rec_event_at((char *)wide, (char *)wide + 13, &e), 13);
    assert_true(e.bad);
}

/* An event as the tool decodes it; fields as they are in the file. */
static struct recording_event decoded(int code, uint64_t a, uint64_t b, uint64_t c)
{
    struct image i = image();
    struct piano__chunk *chunk = events(&i, 0, 11, 0, 0);
    struct rec_event e;
    event(chunk, code, 0, 3, a, b, c);
    const char *at = (const char *)(chunk + 1) + sizeof(struct piano__events_head);
    assert_int_equal(rec_event_at(at, (const char *)(chunk + 1) + chunk->used, &e),
                     chunk->used - sizeof(struct piano__events_head));
    assert_false(e.bad);
    free(i.bytes);
    return e.event;
}

static void test_fields_have_types_and_limits(void **state)
{
    (void)state;
    struct recording_event e = decoded(PIANO_EVENT_QUEUE, UINT64_MAX, 7, 0);
    assert_true(e.code == PIANO_EVENT_QUEUE && e.queue.queue == UINT64_MAX && e.queue.depth == 7);
    static const uint64_t depths[] = {PIANO_EVENT_DEEPEST, PIANO_EVENT_DEEPEST + 1, UINT64_MAX};
    for (size_t i = 0; i < 3; i++)
        assert_true(decoded(PIANO_EVENT_QUEUE, 1, depths[i], 0).queue.depth ==
                    (int64_t)PIANO_EVENT_DEEPEST);
    static const int64_t values[] = {0, -1, 1, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < 5; i++)
        assert_true(decoded(PIANO_EVENT_VALUE, 3, piano__zigzag(values[i]), 0).value.value ==
                    values[i]);
    assert_int_equal(decoded(PIANO_EVENT_PARK, PIANO_PARK_IDLE, 0, 0).park.kind, PIANO_PARK_IDLE);
    assert_int_equal(decoded(PIANO_EVENT_PARK, 254, 0, 0).park.kind, 254);
    assert_int_equal(decoded(PIANO_EVENT_PARK, 256, 0, 0).park.kind, 255);
    assert_int_equal(decoded(PIANO_EVENT_UNPARK, 6, 0, 0).unpark.result, 6);
    assert_int_equal(decoded(PIANO_EVENT_THREAD, 12, 0, 0).thread.tid, 12);
}

static void test_codes_that_are_not_in_the_list_are_unknown(void **state)
{
    (void)state;
    bool known[256] = {false};
#define KNOWN(code, number, member, fields) known[number] = true;
    PIANO_EVENT_LIST(KNOWN, )
    for (int code = 0; code < 256; code++)
        assert_int_equal(decoded(code, 1, 2, 3).code, known[code] ? code : PIANO_EVENT_UNKNOWN);
}

/* ---- the clock ---- */

static void test_time_is_interpolated_between_clock_pairs(void **state)
{
    (void)state;
    struct recording rec = {.header = {.start_mono_ns = 1000 * (uint64_t)MS,
                                       .trace = {.has_counter = 1,
                                                 .start_ticks = 5000000,
                                                 .end_ticks = 5000000 + 4000 * (uint64_t)MS,
                                                 .end_mono_ns = 3000 * (uint64_t)MS}}};
    struct recording_pair *pairs = calloc(3, sizeof(*pairs));
    uint64_t half = 5000000 + 1996 * (uint64_t)MS;
    pairs[0] = (struct recording_pair){half, 2000 * (uint64_t)MS}; /* 0.2 % off the line */
    pairs[1] = (struct recording_pair){half + 100, 2000 * (uint64_t)MS + 90}; /* too close */
    pairs[2] = (struct recording_pair){half / 2, 1600 * (uint64_t)MS}; /* lost its CPU in between */
    rec_make_clock(&rec, pairs, 3);
    const struct recording_clock *c = &rec.events.clock;
    assert_int_equal(c->count, 3);
    assert_false(c->rough);
    size_t at = 0;
    assert_int_equal(recording_time(c, 5000000, &at), 1000 * (uint64_t)MS);
    assert_int_equal(recording_time(c, half, &at), 2000 * (uint64_t)MS);
    assert_int_equal(recording_time(c, 5000000 + 998 * (uint64_t)MS, &at), 1500 * (uint64_t)MS);
    assert_int_equal(recording_time(c, half + 1002 * (uint64_t)MS, &at), 2500 * (uint64_t)MS);
    /* Before the first pair and after the last, the mean rate applies: two ticks per nanosecond. */
    assert_int_equal(recording_time(c, 3000000, &at), 999 * (uint64_t)MS);
    assert_int_equal(recording_time(c, 5000000 + 4002 * (uint64_t)MS, &at), 3001 * (uint64_t)MS);
    uint64_t before = 0;
    for (uint64_t t = half - 50; t < half + 200; t++) {
        uint64_t now = recording_time(c, t, &at);
        assert_true(now >= before);
        before = now;
    }
    assert_true(recording_time(c, UINT64_MAX, &at) <= (uint64_t)1 << 62);
    assert_true(recording_time(c, 0, &at) <= 1000 * (uint64_t)MS);
    free(rec.events.clock.pairs);
}

static void test_impossible_clock_pairs_are_ignored(void **state)
{
    (void)state;
    struct recording rec = {.header = {.start_mono_ns = 5, .trace = {.has_counter = 1}}};
    struct recording_pair *pairs = calloc(2, sizeof(*pairs));
    size_t at = 0;
    pairs[0] = (struct recording_pair){UINT64_MAX, 7};
    pairs[1] = (struct recording_pair){1, UINT64_MAX};
    rec_make_clock(&rec, pairs, 2);
    assert_true(recording_time(&rec.events.clock, 1 << 20, &at) <= (uint64_t)1 << 62);
    assert_true(recording_time(&rec.events.clock, UINT64_MAX, &at) <= (uint64_t)1 << 62);
    free(rec.events.clock.pairs);
}

static uint64_t now_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* A recording with only its first pair, a second ago: does the current time give its clock a rate? */
static bool is_timed_now(uint32_t machine)
{
    piano__clock_init();
    uint64_t begun = now_ns(CLOCK_MONOTONIC) - 1000 * (uint64_t)MS;
    struct recording rec = {
        .header = {.machine = machine,
                   .start_mono_ns = begun,
                   .start_real_ns = now_ns(CLOCK_REALTIME) - 1000 * (uint64_t)MS,
                   .trace = {.has_counter = 1,
                             .start_ticks = (uint64_t)piano__counter() - 100 * (uint64_t)MS}}};
    rec_make_clock(&rec, calloc(1, sizeof(struct recording_pair)), 0);
    bool is_timed = !rec.events.clock.rough;
    free(rec.events.clock.pairs);
    return is_timed;
}

static void test_current_time_is_a_clock_pair_on_the_same_machine_only(void **state)
{
    (void)state;
#ifdef __x86_64__
    assert_true(is_timed_now(EM_X86_64));
    assert_false(is_timed_now(EM_AARCH64));
#else
    assert_true(is_timed_now(EM_AARCH64));
    assert_false(is_timed_now(EM_X86_64));
#endif
}

/* ---- threads, names, samples ---- */

static void test_later_thread_records_replace_earlier_ones(void **state)
{
    (void)state;
    struct image i = image();
    struct recording rec;
    struct piano__chunk *threads = chunk(&i, PIANO_CHUNK_THREADS, 0);
    const struct piano__thread_record list[] = {
        {.bytes = 40, .tid = 9, .pid = 1, .name = "nine"},
        {.bytes = 40, .tid = 5, .pid = 1, .name = "old"},
        {.bytes = 40, .tid = 5, .pid = 2, .name = "sixteen-letters!"},
        {.bytes = 40, .tid = 5, .pid = 2},
    };
    put(threads, list, sizeof(list));
    struct piano__chunk *names = chunk(&i, PIANO_CHUNK_NAMES, 0);
    put_name(names, 2, "two");
    put_name(names, 1, "one");
    put_name(names, 2, "second");
    load(&rec, &i);
    assert_int_equal(rec.thread_count, 2);
    assert_string_equal(recording_thread_of(&rec, 5)->name, "sixteen-letters!");
    assert_int_equal(recording_thread_of(&rec, 5)->pid, 2);
    assert_string_equal(recording_thread_of(&rec, 9)->name, "nine");
    assert_null(recording_thread_of(&rec, 6));
    assert_string_equal(recording_name_of(&rec, 2), "second");
    assert_string_equal(recording_name_of(&rec, 1), "one");
    assert_null(recording_name_of(&rec, 0));
    assert_null(recording_name_of(&rec, (uint64_t)1 << 32 | 1));
    recording_unload(&rec);
}

static void test_samples_are_found_by_thread_and_time(void **state)
{
    (void)state;
    struct image i = image();
    struct recording rec;
    size_t end;
    struct piano__chunk *c = chunk(&i, PIANO_CHUNK_SAMPLES, 0);
    const struct piano__sample list[] = {
        {.bytes = 40, .kind = PIANO_SAMPLE_CPU, .tid = 7, .at_ns = 30, .value = 1},
        {.bytes = 40, .kind = PIANO_SAMPLE_CPU, .tid = 6, .at_ns = 99, .value = 1},
        {.bytes = 40, .kind = PIANO_SAMPLE_OFF, .tid = 7, .at_ns = 10, .value = 5},
        {.bytes = 40, .kind = 77, .tid = 7, .at_ns = 20, .value = 5},
        {.bytes = 40, .kind = PIANO_SAMPLE_OFF, .tid = 7, .at_ns = 11, .value = UINT64_MAX},
        {.bytes = 40,
         .kind = PIANO_SAMPLE_CPU,
         .tid = UINT32_MAX,
         .at_ns = 1,
         .value = 4,
         .stack = 3},
    };
    put(c, list, sizeof(list));
    load(&rec, &i);
    assert_int_equal(rec.sample_count, 4);
    assert_int_equal(rec.bad_numbers, 1);
    assert_int_equal(rec.orphans, 1);
    assert_int_equal(rec.total.cpu_ns, 6);
    assert_int_equal(rec.total.off_ns, 5);
    assert_int_equal(recording_samples_of(&rec, 7, 0, &end), 1);
    assert_int_equal(end, 3);
    assert_int_equal(recording_samples_of(&rec, 7, 11, &end), 2);
    assert_int_equal(recording_samples_of(&rec, 7, 31, &end), 3);
    assert_int_equal(recording_samples_of(&rec, UINT32_MAX, 0, &end), 3);
    assert_int_equal(end, 4);
    recording_unload(&rec);
}

/* Random samples with equal times are in the order of a single sort of all of them. */
static void test_samples_in_order_of_time(void **state)
{
    (void)state;
    enum { MANY = 1000 };
    static const uint32_t tids[] = {9, 4, UINT32_MAX, 5};
    struct image i = image();
    struct recording rec;
    struct piano__chunk *c = chunk(&i, PIANO_CHUNK_SAMPLES, 0);
    uint32_t random = 1;
    for (uint32_t n = 0; n < MANY; n++) {
        random = random * 1103515245u + 12345u;
        struct piano__sample s = {.bytes = 40,
                                  .kind = random >> 20 & 1 ? PIANO_SAMPLE_CPU : PIANO_SAMPLE_OFF,
                                  .tid = tids[random >> 24 & 3],
                                  .at_ns = 1 + (random >> 8 & 255),
                                  .value = 1,
                                  .cpu = n};
        put(c, &s, sizeof(s));
    }
    load(&rec, &i);
    assert_int_equal(rec.sample_count, MANY);
    for (size_t n = 1; n < MANY; n++) {
        const struct recording_sample *a = &rec.samples[n - 1], *b = &rec.samples[n];
        bool tie = a->tid == b->tid && a->at_ns == b->at_ns;
        assert_true(a->tid < b->tid || (a->tid == b->tid && a->at_ns < b->at_ns) ||
                    (tie && a->kind < b->kind) || (tie && a->kind == b->kind && a->cpu < b->cpu));
    }
    uint32_t *order = recording_samples_by_time(&rec);
    assert_non_null(order);
    for (size_t n = 1; n < MANY; n++) {
        uint64_t a = rec.samples[order[n - 1]].at_ns, b = rec.samples[order[n]].at_ns;
        assert_true(a < b || (a == b && order[n - 1] < order[n]));
    }
    free(order);
    recording_unload(&rec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_events_are_read_in_order_of_time),
        cmocka_unit_test(test_event_is_decoded_and_truncated_ones_are_refused),
        cmocka_unit_test(test_fields_have_types_and_limits),
        cmocka_unit_test(test_codes_that_are_not_in_the_list_are_unknown),
        cmocka_unit_test(test_time_is_interpolated_between_clock_pairs),
        cmocka_unit_test(test_impossible_clock_pairs_are_ignored),
        cmocka_unit_test(test_current_time_is_a_clock_pair_on_the_same_machine_only),
        cmocka_unit_test(test_later_thread_records_replace_earlier_ones),
        cmocka_unit_test(test_samples_are_found_by_thread_and_time),
        cmocka_unit_test(test_samples_in_order_of_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
