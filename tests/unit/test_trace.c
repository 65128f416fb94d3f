/* The reader of events, samples and names, and the polls that are made of them. Files are made here, byte by byte. */
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

#include "common/events.h"
#include "target/sys/clock.h"
#include "tool/load/rec.h"
#include "tool/load/recording.h"
#include "tool/report/polls.h"
#include "temp.h"

enum { CHUNKS = 4, MS = 1000000 };

/* A recording of a few chunks in memory. */
struct image {
    char *bytes;
    size_t len;
    int chunks;
    struct piano__rec_header *header;
};

static struct run_error error;

static struct image image(void)
{
    struct image i = {.len = PIANO_REC_HEADER_BYTES + CHUNKS * PIANO_REC_CHUNK_BYTES};
    i.bytes = calloc(1, i.len);
    assert_non_null(i.bytes);
    i.header = (struct piano__rec_header *)(void *)i.bytes;
    *i.header = (struct piano__rec_header){.version = PIANO_REC_VERSION,
                                           .header_bytes = PIANO_REC_HEADER_BYTES,
                                           .chunk_bytes = PIANO_REC_CHUNK_BYTES,
                                           .flags = PIANO_REC_HAS_EVENTS,
                                           .state = PIANO_REC_ENDED,
                                           .start_mono_ns = 1000 * (uint64_t)MS,
                                           .end_mono_ns = 9000 * (uint64_t)MS,
                                           .rate = 1};
    memcpy(i.bytes, PIANO_REC_MAGIC, 8);
    return i;
}

static struct piano__chunk *chunk(struct image *i, uint32_t type, uint64_t index)
{
    assert_true(i->chunks < CHUNKS);
    char *at = i->bytes + PIANO_REC_HEADER_BYTES + (size_t)i->chunks++ * PIANO_REC_CHUNK_BYTES;
    struct piano__chunk *c = (struct piano__chunk *)(void *)at;
    *c = (struct piano__chunk){.type = type, .ready = 1, .index = index};
    i->header->chunks = (uint64_t)i->chunks;
    return c;
}

static void put(struct piano__chunk *c, const void *bytes, size_t len)
{
    memcpy((char *)(c + 1) + c->used, bytes, len);
    c->used += len;
}

static struct piano__chunk *events(struct image *i, uint64_t index, uint64_t tid, uint64_t ticks,
                                   uint64_t ns)
{
    struct piano__chunk *c = chunk(i, PIANO_CHUNK_EVENTS, index);
    struct piano__events_head head = {tid, ticks, ns};
    put(c, &head, sizeof(head));
    return c;
}

static size_t varint(unsigned char *at, uint64_t v)
{
    size_t len = 0;
    for (; v >= 0x80; v >>= 7)
        at[len++] = (unsigned char)(v | 0x80);
    at[len++] = (unsigned char)v;
    return len;
}

/* COUNT fields follow. */
static void event(struct piano__chunk *c, int code, uint64_t ticks, int count, ...)
{
    unsigned char bytes[64] = {(unsigned char)code};
    size_t len = 2 + varint(bytes + 2, ticks);
    va_list fields;
    va_start(fields, count);
    for (int i = 0; i < count; i++)
        len += varint(bytes + len, va_arg(fields, uint64_t));
    va_end(fields);
    bytes[1] = (unsigned char)(len - 2);
    put(c, bytes, len);
}

static char *save(const struct image *i)
{
    static char path[256];
    temp_name(path, sizeof path, "piano-test-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, i->bytes, i->len) == (ssize_t)i->len);
    close(fd);
    return path;
}

static void load(struct recording *rec, struct image *i)
{
    char *path = save(i);
    int err = recording_load(rec, path, &error);
    unlink(path);
    free(i->bytes);
    assert_int_equal(err, 0);
}

#define N(x) ((uint64_t)(x))

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

static void test_one_event(void **state)
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

static void test_time_is_a_line_between_pairs(void **state)
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
    pairs[1] = (struct recording_pair){half + 100, 2000 * (uint64_t)MS + 90}; /* too near */
    pairs[2] = (struct recording_pair){half / 2, 1600 * (uint64_t)MS};        /* lost its CPU */
    rec_make_clock(&rec, pairs, 3);
    const struct recording_clock *c = &rec.events.clock;
    assert_int_equal(c->count, 3);
    assert_false(c->rough);
    size_t at = 0;
    assert_int_equal(recording_time(c, 5000000, &at), 1000 * (uint64_t)MS);
    assert_int_equal(recording_time(c, half, &at), 2000 * (uint64_t)MS);
    assert_int_equal(recording_time(c, 5000000 + 998 * (uint64_t)MS, &at), 1500 * (uint64_t)MS);
    assert_int_equal(recording_time(c, half + 1002 * (uint64_t)MS, &at), 2500 * (uint64_t)MS);
    /* Before the first and behind the last it goes on as over all: two ticks a nanosecond. */
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

static void test_pairs_that_make_no_sense(void **state)
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

/* A recording with its first moment only, a second ago: does this moment give its clock a rate? */
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

static void test_this_moment_is_a_pair_on_the_same_machine(void **state)
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

static void put_name(struct piano__chunk *c, uint32_t id, const char *text)
{
    char record[64] = {0};
    struct piano__name n = {.bytes = (uint32_t)((sizeof(n) + strlen(text) + 8) & ~7u), .id = id};
    memcpy(record, &n, sizeof(n));
    memcpy(record + sizeof(n), text, strlen(text));
    put(c, record, n.bytes);
}

static void test_later_records_say_more(void **state)
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

/* Random samples, with equal times, are in the order that one sort of all of them makes. */
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

/* ---- polls ---- */

static void test_ids_have_all_their_bits(void **state)
{
    (void)state;
    struct image i = image();
    struct profile profile;
    struct polls p;
    struct piano__chunk *names = chunk(&i, PIANO_CHUNK_NAMES, 0);
    put_name(names, 1, "task");
    struct piano__chunk *c = events(&i, 0, 11, 1000 * N(MS), 1000 * N(MS));
    static const uint64_t ids[] = {0, 1, UINT32_MAX, UINT64_MAX, UINT64_MAX - 1, (uint64_t)1 << 63};
    for (int n = 0; n < 6; n++)
        event(c, PIANO_EVENT_TASK_SPAWN, 0, 3, ids[n], N(1), N(0));
    for (int n = 0; n < 6; n++) {
        event(c, PIANO_EVENT_WAKE, N(MS), 1, ids[n]);
        event(c, PIANO_EVENT_POLL_BEGIN, N(MS) * (unsigned)(n + 1), 2, ids[n], N(0));
        event(c, PIANO_EVENT_POLL_END, N(MS), 0);
        event(c, PIANO_EVENT_TASK_END, 0, 1, ids[n]);
    }
    char *path = save(&i);
    assert_int_equal(profile_open(&profile, path, &error), 0);
    assert_int_equal(polls_make(&p, &profile, 10, &error), 0);
    unlink(path);
    free(i.bytes);
    assert_int_equal(p.polls, 6);
    assert_int_equal(p.group_count, 1);
    assert_int_equal(p.groups[0].spawned, 6);
    assert_int_equal(p.groups[0].ended, 6);
    assert_int_equal(p.alive.value, 0);
    assert_int_equal(p.alive.max, 6);
    assert_int_equal(p.task_count, 0);
    assert_int_equal(p.latest_ns, 6 * MS);
    assert_true(p.latest.task == ids[5]);
    assert_int_equal(p.late, 1);
    polls_release(&p);
    profile_close(&profile);
}

static void test_lost_ends_do_not_pile_up(void **state)
{
    (void)state;
    struct image i = image();
    struct profile profile;
    struct polls p;
    struct piano__chunk *c = events(&i, 0, 11, 1000 * N(MS), 1000 * N(MS));
    for (int n = 0; n < 500; n++)
        event(c, PIANO_EVENT_POLL_BEGIN, 1, 2, N(n), N(0));
    char *path = save(&i);
    assert_int_equal(profile_open(&profile, path, &error), 0);
    assert_int_equal(polls_make(&p, &profile, 10, &error), 0);
    unlink(path);
    free(i.bytes);
    assert_int_equal(p.too_deep, 500 - POLLS_MAX_DEPTH);
    assert_int_equal(p.open, POLLS_MAX_DEPTH);
    polls_release(&p);
    profile_close(&profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_events_are_read_in_order_of_time),
        cmocka_unit_test(test_one_event),
        cmocka_unit_test(test_fields_have_types_and_limits),
        cmocka_unit_test(test_codes_that_are_not_in_the_list_are_unknown),
        cmocka_unit_test(test_time_is_a_line_between_pairs),
        cmocka_unit_test(test_pairs_that_make_no_sense),
        cmocka_unit_test(test_this_moment_is_a_pair_on_the_same_machine),
        cmocka_unit_test(test_later_records_say_more),
        cmocka_unit_test(test_samples_are_found_by_thread_and_time),
        cmocka_unit_test(test_samples_in_order_of_time),
        cmocka_unit_test(test_ids_have_all_their_bits),
        cmocka_unit_test(test_lost_ends_do_not_pile_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
