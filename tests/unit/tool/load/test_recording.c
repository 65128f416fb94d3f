/* The reader of recordings: reads intact parts, reports damage with its byte, and lets no invalid number
 * through. The files are built here, byte by byte, from structures of the format. */
#include <setjmp.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "loaded.h"
#include "tool/load/recording.h"
#include "temp.h"

enum { CHUNKS = 5 };

/* A recording of five chunks, one of each type, in memory. */
struct image {
    struct piano__rec_header *header;
    char *bytes;
    size_t len;
};

static char *chunk(struct image *i, int number, uint32_t type, uint64_t used)
{
    char *at = i->bytes + PIANO_REC_HEADER_BYTES + (size_t)number * PIANO_REC_CHUNK_BYTES;
    struct piano__chunk *c = (struct piano__chunk *)(void *)at;
    *c = (struct piano__chunk){.type = type, .ready = 1, .used = used};
    return at + sizeof(*c);
}

static void put_stack(char *at, uint32_t id, uint64_t pc)
{
    struct piano__stack s = {.bytes = sizeof(s) + sizeof(pc), .id = id, .depth = 1};
    memcpy(at, &s, sizeof(s));
    memcpy(at + sizeof(s), &pc, sizeof(pc));
}

/* Two stacks: 1 has 100 bytes in two blocks live of 400, 2 has freed all of its 50. */
static struct image image(void)
{
    struct image i = {.len = PIANO_REC_HEADER_BYTES + CHUNKS * PIANO_REC_CHUNK_BYTES};
    i.bytes = calloc(1, i.len);
    assert_non_null(i.bytes);
    i.header = (struct piano__rec_header *)(void *)i.bytes;
    *i.header = (struct piano__rec_header){.version = PIANO_REC_VERSION,
                                           .header_bytes = PIANO_REC_HEADER_BYTES,
                                           .chunk_bytes = PIANO_REC_CHUNK_BYTES,
                                           .state = PIANO_REC_ENDED,
                                           .chunks = CHUNKS,
                                           .start_mono_ns = 1000,
                                           .end_mono_ns = 5000,
                                           .rate = 1,
                                           .exit_status = 1 + (7 << 8),
                                           .peak_epoch = 3};
    memcpy(i.bytes, PIANO_REC_MAGIC, 8);
    struct piano__module m = {
        .bytes = sizeof(m) + 8, .until = UINT32_MAX, .start = 0x1000, .end = 0x9000};
    char *modules = chunk(&i, 0, PIANO_CHUNK_MODULES, m.bytes);
    memcpy(modules, &m, sizeof(m));
    memcpy(modules + sizeof(m), "/m", 3);
    char *stacks = chunk(&i, 1, PIANO_CHUNK_STACKS, 80);
    put_stack(stacks, 1, 0x1111);
    put_stack(stacks + 40, 2, 0x2222);
    struct piano__totals *t = (void *)chunk(&i, 2, PIANO_CHUNK_TOTALS, 0);
    t[1] = (struct piano__totals){.samples = 4,
                                  .freed = 2,
                                  .allocated_bytes = 400,
                                  .allocated_objects = 4,
                                  .freed_bytes = 300,
                                  .freed_objects = 2,
                                  .peak_bytes = 350,
                                  .peak_objects = 3,
                                  .seen_epoch = 3,
                                  .lifetimes = {[2] = 1, [20] = 1}};
    t[2] = (struct piano__totals){.samples = 1,
                                  .freed = 1,
                                  .allocated_bytes = 50,
                                  .allocated_objects = 1,
                                  .freed_bytes = 50.0000001,
                                  .freed_objects = 1,
                                  .peak_bytes = 11, /* of an older peak: does not count */
                                  .seen_epoch = 2,
                                  .lifetimes = {[2] = 1}};
    struct piano__live *l = (void *)chunk(&i, 3, PIANO_CHUNK_LIVE, 0);
    l[0] = (struct piano__live){.key = 1, .size = 30, .rate = 1, .birth_ns = 2000, .stack = 1};
    l[5] = (struct piano__live){.key = 2, .size = 70, .rate = 1, .birth_ns = 4000, .stack = 1};
    struct piano__snapshot s = {
        .bytes = sizeof(s) + 40, .number = 1, .parts = 1, .count = 1, .at_ns = 3000};
    struct piano__snapshot_entry e = {
        .stack = 1, .live_samples = 1, .live_bytes = 30, .live_objects = 1};
    char *snapshots = chunk(&i, 4, PIANO_CHUNK_SNAPSHOT, s.bytes);
    memcpy(snapshots, &s, sizeof(s));
    memcpy(snapshots + sizeof(s), &e, sizeof(e));
    return i;
}

static struct run_error error;

/* Loads the first LEN bytes. */
static int load(struct recording *rec, const struct image *i, size_t len)
{
    char path[256];
    temp_name(path, sizeof path, "piano-test-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, i->bytes, len) == (ssize_t)len);
    close(fd);
    int err = recording_load(rec, path, &error);
    unlink(path);
    return err;
}

static void load_all(struct recording *rec, struct image *i)
{
    assert_int_equal(load(rec, i, i->len), 0);
    free(i->bytes);
}

static bool gap_at(const struct recording *rec, uint64_t byte)
{
    for (size_t i = 0; i < rec->gap_count && i < RECORDING_GAPS; i++)
        if (rec->gaps[i].from == byte)
            return true;
    return false;
}

static void whole_recording_is_read(void **state)
{
    (void)state;
    struct image i = image();
    struct recording rec;
    load_all(&rec, &i);
    assert_int_equal(rec.gap_count, 0);
    assert_int_equal(rec.stack_count, 3);
    assert_int_equal(rec.end, RECORDING_EXITED);
    assert_int_equal(rec.status, 7);
    assert_int_equal(rec.duration_ns, 4000);
    assert_true(rec.total.live_bytes == 100 && rec.total.live_objects == 2);
    assert_true(rec.total.allocated_bytes == 450 && rec.total.freed_bytes == 350);
    assert_true(rec.total.peak_bytes == 350);
    assert_int_equal(rec.total.live_samples, 2);
    assert_true(rec.total.live_seen_bytes == 100);
    assert_int_equal(rec.total.size_min, 30);
    assert_int_equal(rec.total.size_max, 70);
    assert_int_equal(rec.total.oldest_ns, 2000);
    assert_int_equal(rec.snapshot_count, 1);
    assert_int_equal(rec.snapshots[0].entries[0].stack, 1);
    assert_string_equal(recording_module_of(&rec, 0x1111, 0)->path, "/m");
    assert_null(recording_module_of(&rec, 0x9000, 0));
    assert_null(recording_module_of(&rec, 0xfff, 0));
    recording_unload(&rec);
}

/* Every truncated length is read without harm and reported. */
static void recording_truncated_at_any_byte_is_read_without_crash(void **state)
{
    (void)state;
    struct image i = image();
    const size_t last = PIANO_REC_HEADER_BYTES + 4 * (size_t)PIANO_REC_CHUNK_BYTES +
                        sizeof(struct piano__chunk) + sizeof(struct piano__snapshot) + 40;
    for (size_t len = 0; len < i.len; len += len < 400 ? 1 : len % 4096 < 300 ? 7 : 613) {
        struct recording rec;
        int err = load(&rec, &i, len);
        if (len < PIANO_REC_HEADER_BYTES) {
            assert_int_equal(err, -EINVAL);
            assert_non_null(strstr(error.text, "byte "));
            continue;
        }
        assert_int_equal(err, 0);
        bool lost = len < last; /* after that, the last chunk is empty */
        assert_int_equal(rec.gap_count > 0, lost);
        assert_true(rec.total.live_bytes <= 100);
        recording_unload(&rec);
    }
    free(i.bytes);
}

static void sums_before_the_truncation_are_kept(void **state)
{
    (void)state;
    struct image i = image();
    struct recording rec;
    size_t third = PIANO_REC_HEADER_BYTES + 2 * PIANO_REC_CHUNK_BYTES + 64;
    assert_int_equal(load(&rec, &i, third + 512), 0); /* records 0 and 1 of the sums */
    assert_true(rec.total.allocated_bytes == 400);
    assert_true(gap_at(&rec, third + 512));
    recording_unload(&rec);
    free(i.bytes);
}

static void modules_by_generation(void **state)
{
    (void)state;
    struct image i = image();
    struct recording rec;
    struct piano__module *m =
        (void *)(i.bytes + PIANO_REC_HEADER_BYTES + sizeof(struct piano__chunk));
    struct piano__module *second = (void *)((char *)m + m->bytes);
    memcpy(second, m, m->bytes);
    m->until = 5;
    second->since = 5;
    second->path[1] = 'n';
    ((struct piano__chunk *)(void *)(i.bytes + PIANO_REC_HEADER_BYTES))->used = 2 * m->bytes;
    load_all(&rec, &i);
    assert_string_equal(recording_module_of(&rec, 0x2000, 4)->path, "/m");
    assert_string_equal(recording_module_of(&rec, 0x2000, 5)->path, "/n");
    assert_string_equal(recording_module_of(&rec, 0x2000, INT32_MAX)->path, "/n");
    /* The following ones are the tool's, also of other processes. */
    assert_null(recording_module_of(&rec, 0x2000, PIANO_TOOL_STACK));
    recording_unload(&rec);
}

/* A library that is repeatedly loaded and unloaded, always at the same address. */
static void many_modules_at_one_place(void **state)
{
    (void)state;
    enum { TURNS = 800 };
    struct image i = image();
    struct recording rec;
    char *at = i.bytes + PIANO_REC_HEADER_BYTES + sizeof(struct piano__chunk);
    uint32_t bytes = sizeof(struct piano__module) + 8;
    for (uint32_t n = 0; n < TURNS; n++) {
        struct piano__module m = {
            .bytes = bytes, .since = n * 2, .until = n * 2 + 1, .start = 0x1000, .end = 0x9000};
        memcpy(at + (size_t)n * bytes, &m, sizeof(m));
        snprintf(at + (size_t)n * bytes + sizeof(m), 8, "/%u", n);
    }
    ((struct piano__chunk *)(void *)(i.bytes + PIANO_REC_HEADER_BYTES))->used = TURNS * bytes;
    load_all(&rec, &i);
    assert_int_equal(rec.module_count, TURNS);
    assert_string_equal(recording_module_of(&rec, 0x8fff, 0)->path, "/0");
    assert_string_equal(recording_module_of(&rec, 0x8fff, 6)->path, "/3");
    assert_string_equal(recording_module_of(&rec, 0x8fff, 1598)->path, "/799");
    assert_null(recording_module_of(&rec, 0x8fff, 7)); /* unloaded then */
    assert_null(recording_module_of(&rec, 0x8fff, 1599));
    recording_unload(&rec);
}

static void equal_stacks_are_one(void **state)
{
    (void)state;
    struct image i = image();
    struct recording rec;
    put_stack(i.bytes + PIANO_REC_HEADER_BYTES + PIANO_REC_CHUNK_BYTES + 64 + 40, 2, 0x1111);
    load_all(&rec, &i);
    assert_int_equal(rec.stack_count, 2);
    assert_int_equal(rec.merged_stacks, 1);
    assert_true(rec.stacks[1].sum.allocated_bytes == 450);
    recording_unload(&rec);
}

/* Lengths and counts beyond their chunk: only the rest of that chunk is lost. */
static void wrong_length_loses_only_the_rest_of_its_chunk(void **state)
{
    (void)state;
    static const uint32_t lengths[] = {0, 1, 4, 31, 33, 44, 81, 65536, 0x7fffffff, 0xffffffff};
    for (size_t k = 0; k < sizeof(lengths) / sizeof(*lengths); k++) {
        struct image i = image();
        struct recording rec;
        size_t at = PIANO_REC_HEADER_BYTES + PIANO_REC_CHUNK_BYTES + 64 + 40;
        memcpy(i.bytes + at, &lengths[k], 4);
        load_all(&rec, &i);
        assert_true(gap_at(&rec, at));
        assert_int_equal(rec.stack_count, 2);
        assert_int_equal(rec.orphans, 1);
        assert_true(rec.total.allocated_bytes == 450);
        recording_unload(&rec);
    }
}

static void wrong_stack_depth_is_reported_as_a_gap(void **state)
{
    (void)state;
    static const uint32_t depths[] = {2, 128, 129, 0x20000000, 0xffffffff};
    for (size_t k = 0; k < sizeof(depths) / sizeof(*depths); k++) {
        struct image i = image();
        struct recording rec;
        size_t at = PIANO_REC_HEADER_BYTES + PIANO_REC_CHUNK_BYTES + 64;
        memcpy(i.bytes + at + offsetof(struct piano__stack, depth), &depths[k], 4);
        load_all(&rec, &i);
        assert_true(gap_at(&rec, at));
        assert_int_equal(rec.stack_count, 2);
        recording_unload(&rec);
    }
}

static void repeated_and_overlong_tables_are_not_counted_twice(void **state)
{
    (void)state;
    struct image i = image();
    struct recording rec;
    struct piano__chunk *live =
        (void *)(i.bytes + PIANO_REC_HEADER_BYTES + 3 * (size_t)PIANO_REC_CHUNK_BYTES);
    memcpy(live, i.bytes + PIANO_REC_HEADER_BYTES + 2 * (size_t)PIANO_REC_CHUNK_BYTES,
           PIANO_REC_CHUNK_BYTES);
    assert_int_equal(load(&rec, &i, i.len), 0);
    assert_true(rec.total.allocated_bytes == 450); /* not 900 */
    assert_int_equal(rec.gap_count, 1);
    recording_unload(&rec);
    live->index = UINT64_MAX;
    load_all(&rec, &i);
    assert_true(rec.total.allocated_bytes == 450);
    assert_int_equal(rec.gap_count, 1);
    recording_unload(&rec);
}

static void numbers_that_are_not_finite_do_not_reach_reports(void **state)
{
    (void)state;
    static const double values[] = {NAN, INFINITY, -INFINITY, -1e9, 1e300};
    for (size_t k = 0; k < sizeof(values) / sizeof(*values); k++)
        for (size_t field = 2; field < 10; field++) {
            struct image i = image();
            struct recording rec;
            double low, high;
            size_t at = PIANO_REC_HEADER_BYTES + 2 * (size_t)PIANO_REC_CHUNK_BYTES + 64 + 256;
            memcpy(i.bytes + at + 8 * field, &values[k], 8);
            i.header->live_bytes = i.header->peak_bytes = values[k];
            i.header->allocated_variance = values[k];
            load_all(&rec, &i);
            assert_true(rec.bad_numbers > 0);
            recording_live_interval(&rec, &rec.total, &low, &high);
            assert_true(isfinite(low) && isfinite(high) && low >= 0 && high >= low);
            assert_true(rec.total.live_bytes <= 450 && rec.total.peak_bytes <= 450);
            assert_true(rec.header.peak_bytes == 0 && rec.header.live_bytes == 0);
            recording_unload(&rec);
        }
}

static void unknown_and_unfinished_chunks_are_counted_and_skipped(void **state)
{
    (void)state;
    struct image i = image();
    struct recording rec;
    struct piano__chunk *c = (void *)(i.bytes + PIANO_REC_HEADER_BYTES);
    struct piano__chunk *last =
        (void *)(i.bytes + PIANO_REC_HEADER_BYTES + 4 * (size_t)PIANO_REC_CHUNK_BYTES);
    c->type = 99;
    last->ready = 0;
    load_all(&rec, &i);
    assert_int_equal(rec.unknown_chunks, 1);
    assert_int_equal(rec.unfinished_chunks, 1);
    assert_int_equal(rec.gap_count, 0);
    assert_int_equal(rec.snapshot_count, 0);
    assert_true(rec.total.live_bytes == 100);
    recording_unload(&rec);
}

static void snapshots_need_all_parts(void **state)
{
    (void)state;
    static const struct {
        uint32_t part, parts;
        bool whole;
    } cases[] = {{0, 1, true},  {0, 2, false}, {1, 2, false},
                 {1, 1, false}, {0, 0, false}, {7, UINT32_MAX, false}};
    for (size_t k = 0; k < sizeof(cases) / sizeof(*cases); k++) {
        struct image i = image();
        struct recording rec;
        struct piano__snapshot *s =
            (void *)(i.bytes + PIANO_REC_HEADER_BYTES + 4 * (size_t)PIANO_REC_CHUNK_BYTES + 64);
        s->part = cases[k].part;
        s->parts = cases[k].parts;
        load_all(&rec, &i);
        assert_int_equal(rec.snapshot_count, cases[k].whole);
        assert_int_equal(rec.gap_count, !cases[k].whole);
        recording_unload(&rec);
    }
}

static void median_lifetime_and_churn_are_computed_from_the_histogram(void **state)
{
    (void)state;
    struct recording_sum s = {.freed_bytes = 800};
    assert_int_equal(recording_median_life(&s), -1);
    assert_true(recording_churn(&s) == 0);
    s.lifetimes[0] = 4;
    assert_int_equal(recording_median_life(&s), 500); /* half of the first microsecond */
    s.lifetimes[12] = 12;
    assert_true(recording_churn(&s) == 200); /* a quarter within a millisecond */
    assert_int_equal(recording_freed_within(&s, 11), 4);
    assert_int_equal(recording_freed_within(&s, 12), 16);
    int64_t median = recording_median_life(&s);
    assert_true(median > 2048000 && median <= 4096000);
}

static void file_names_of_recordings_are_recognised(void **state)
{
    (void)state;
    assert_true(recording_named("1-2.rec"));
    assert_true(recording_named("1-2.rec.2"));
    assert_true(recording_named("1-2.rec-4711"));
    assert_true(recording_named("1-2.rec-4711.3"));
    assert_false(recording_named("1-2.ndjson"));
    assert_false(recording_named(".rec"));
    assert_false(recording_named("x.record"));
    assert_false(recording_named("x.rec.bak"));
    assert_false(recording_named("x.rec-"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_recording_is_read),
        cmocka_unit_test(recording_truncated_at_any_byte_is_read_without_crash),
        cmocka_unit_test(sums_before_the_truncation_are_kept),
        cmocka_unit_test(modules_by_generation),
        cmocka_unit_test(many_modules_at_one_place),
        cmocka_unit_test(equal_stacks_are_one),
        cmocka_unit_test(wrong_length_loses_only_the_rest_of_its_chunk),
        cmocka_unit_test(wrong_stack_depth_is_reported_as_a_gap),
        cmocka_unit_test(repeated_and_overlong_tables_are_not_counted_twice),
        cmocka_unit_test(numbers_that_are_not_finite_do_not_reach_reports),
        cmocka_unit_test(unknown_and_unfinished_chunks_are_counted_and_skipped),
        cmocka_unit_test(snapshots_need_all_parts),
        cmocka_unit_test(median_lifetime_and_churn_are_computed_from_the_histogram),
        cmocka_unit_test(file_names_of_recordings_are_recognised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
