/* Which samples of a recording are new since the last reading. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tool/load/rec.h"

enum { FIRST = PIANO_REC_HEADER_BYTES, SIZE = PIANO_REC_CHUNK_BYTES };

static void only_the_new_part_of_a_chunk_of_samples_is_read(void **state)
{
    (void)state;
    struct recording_seen seen = {.chunk_count = 0};
    struct piano__chunk c = {.type = PIANO_CHUNK_SAMPLES, .index = 3};
    size_t skip = 1;
    assert_false(rec_seen_has(&seen, FIRST + 5 * SIZE, &c, 400, &skip));
    assert_int_equal(skip, 0);
    assert_true(rec_seen_has(&seen, FIRST + 5 * SIZE, &c, 400, &skip));
    assert_false(rec_seen_has(&seen, FIRST + 5 * SIZE, &c, 480, &skip));
    assert_int_equal(skip, 400);
    assert_false(rec_seen_has(&seen, FIRST, &c, 480, &skip)); /* another chunk */
    assert_int_equal(skip, 0);
    recording_seen_release(&seen);
}

static void chunk_that_was_reused_is_read_from_its_beginning(void **state)
{
    (void)state;
    struct recording_seen seen = {.chunk_count = 0};
    struct piano__chunk c = {.type = PIANO_CHUNK_SAMPLES, .index = 3};
    size_t skip;
    assert_false(rec_seen_has(&seen, FIRST, &c, 400, &skip));
    c.index = 90;
    assert_false(rec_seen_has(&seen, FIRST, &c, 400, &skip));
    assert_int_equal(skip, 0);
    assert_true(rec_seen_has(&seen, FIRST, &c, 400, &skip));
    assert_false(rec_seen_has(&seen, FIRST, &c, 40, &skip)); /* shorter: not the same */
    assert_int_equal(skip, 0);
    recording_seen_release(&seen);
}

static void other_chunks_are_read_again_but_events_never(void **state)
{
    (void)state;
    struct recording_seen seen = {.chunk_count = 0};
    size_t skip = 1;
    for (uint32_t type = PIANO_CHUNK_MODULES; type <= PIANO_CHUNK_SYMBOLS; type++) {
        struct piano__chunk c = {.type = type};
        for (int i = 0; i < 2 && type != PIANO_CHUNK_SAMPLES; i++) {
            assert_int_equal(rec_seen_has(&seen, FIRST, &c, 80, &skip), type == PIANO_CHUNK_EVENTS);
            assert_int_equal(skip, 0);
        }
        if (type == PIANO_CHUNK_EVENTS)
            assert_true(rec_seen_is_events(&seen, FIRST));
        assert_false(rec_seen_is_events(&seen, FIRST + 7 * SIZE));
    }
    recording_seen_release(&seen);
}

static const struct recording_sum *sum_of(const struct recording_seen_sums *s, uint64_t key)
{
    uint32_t at = map_find(&s->of, key);
    assert_int_not_equal(at, MAP_NONE);
    return &s->list[at].sum;
}

static void sums_have_all_samples_and_a_wait_is_cut_to_the_time_since(void **state)
{
    (void)state;
    struct recording_seen seen = {.since_ns = 1000};
    struct recording_sample on = {.at_ns = 900, .value = 50, .tid = 7, .pid = 5};
    struct recording_sample wait = on, old = on;
    on.kind = PIANO_SAMPLE_CPU;
    wait.kind = old.kind = PIANO_SAMPLE_OFF;
    wait.value = 300; /* until 1200 */
    assert_int_equal(rec_seen_add(&seen, 2, &on), 0);
    assert_int_equal(rec_seen_add(&seen, 2, &wait), 0);
    assert_int_equal(rec_seen_add(&seen, 3, &old), 0); /* until 950 */
    assert_int_equal(on.value, 50);
    assert_int_equal(wait.at_ns, 1000);
    assert_int_equal(wait.value, 200);
    assert_int_equal(old.value, 0);
    assert_int_equal(sum_of(&seen.stacks, 2)->cpu_ns, 50);
    assert_int_equal(sum_of(&seen.stacks, 2)->off_ns, 300);
    assert_int_equal(sum_of(&seen.stacks, 3)->off_ns, 50);
    assert_int_equal(sum_of(&seen.threads, (uint64_t)5 << 32 | 7)->off_ns, 350);
    recording_seen_release(&seen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_new_part_of_a_chunk_of_samples_is_read),
        cmocka_unit_test(chunk_that_was_reused_is_read_from_its_beginning),
        cmocka_unit_test(other_chunks_are_read_again_but_events_never),
        cmocka_unit_test(sums_have_all_samples_and_a_wait_is_cut_to_the_time_since),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
