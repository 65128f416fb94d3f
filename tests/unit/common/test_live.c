/* Reads a dead run's image: a valid one gives its lines, and no bytes make the reader touch
 * memory outside of it, overflow a number, or return a line without an end. ASan and
 * UBSan detect that, and `make test` uses them. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/live.h"
#include "tool/util/buf.h"

enum { FNS = 4, TEXT_BYTES = 4096 };

struct image {
    unsigned char *bytes;
    size_t size;
    struct piano__live_header *header;
    struct piano__thread *thread;
    struct piano__head *heads;
    struct piano__slot *slots;
    struct piano__entry *entries;
    char *text;
    struct piano__merged *merged;
};

static struct image image_make(unsigned blocks)
{
    size_t block = sizeof(struct piano__thread) +
                   FNS * (sizeof(struct piano__head) + sizeof(struct piano__slot)) +
                   PIANO_MAX_DEPTH * sizeof(struct piano__entry) + TEXT_BYTES +
                   sizeof(struct piano__merged);
    block = (block + 4095) & ~(size_t)4095;
    struct image im = {.size = PIANO_LIVE_HEADER_BYTES + blocks * block};
    im.bytes = aligned_alloc(4096, im.size); /* like a mapping */
    assert_non_null(im.bytes);
    memset(im.bytes, 0, im.size);
    im.header = (void *)im.bytes;
    im.thread = (void *)(im.bytes + PIANO_LIVE_HEADER_BYTES);
    im.heads = (void *)(im.thread + 1);
    im.slots = (void *)(im.heads + FNS);
    im.entries = (void *)(im.slots + FNS);
    im.text = (void *)(im.entries + PIANO_MAX_DEPTH);
    im.merged = (void *)(im.text + TEXT_BYTES);
    *im.header = (struct piano__live_header){
        .header_bytes = PIANO_LIVE_HEADER_BYTES,
        .thread_bytes = sizeof(struct piano__thread),
        .head_bytes = sizeof(struct piano__head),
        .slot_bytes = sizeof(struct piano__slot),
        .entry_bytes = sizeof(struct piano__entry),
        .fn_capacity = FNS,
        .fn_count = FNS,
        .text_bytes = TEXT_BYTES,
        .block_bytes = block,
        .block_count = blocks,
        .ns_per_tick_32 = (uint64_t)1 << 32,
    };
    memcpy(im.header->magic, PIANO_LIVE_MAGIC, sizeof im.header->magic);
    im.thread->state = PIANO_THREAD_RUNNING;
    im.thread->number = 1;
    im.thread->kept_depth = -1;
    im.thread->parent_fn = -1;
    return im;
}

static void collect(void *ctx, const char *text, size_t len)
{
    buf_put(ctx, text, len);
}

static void finished_lines_and_tallies_are_read_from_the_image(void **state)
{
    (void)state;
    struct image im = image_make(1);
    struct buf out = {0};
    im.slots[2].now = (struct piano__tally){.calls = 9, .timed = 9, .self = 900, .total = 900};
    memcpy(im.text, "{\"frame\":0}\n", 12);
    im.thread->text_len = 12;
    assert_int_equal(
        piano__live_lines(im.bytes, im.size, (struct piano__written){0}, collect, &out), 0);
    assert_int_equal(strncmp(out.data, "{\"frame\":0}\n", 12), 0);
    assert_non_null(strstr(out.data, "\"id\":2,\"calls\":9,\"self_ns\":900"));
    assert_int_equal(out.data[out.len - 1], '\n');
    buf_free(&out);
    free(im.bytes);
}

static void counted_calls_are_read_from_the_image(void **state)
{
    (void)state;
    struct image im = image_make(1);
    struct buf out = {0};
    im.heads[1].given = 100;
    im.heads[1].left = 60;
    im.heads[1].each = piano__each(5, 0);
    assert_int_equal(
        piano__live_lines(im.bytes, im.size, (struct piano__written){0}, collect, &out), 0);
    assert_non_null(strstr(out.data, "\"id\":1,\"calls\":40,\"self_ns\":200"));
    buf_free(&out);
    free(im.bytes);
}

/* A call that was open from 1000 to 5000, with COUNTED below it. */
static void check_open_call(uint64_t counted, const char *expected)
{
    struct image im = image_make(1);
    struct buf out = {0};
    im.thread->depth = 1;
    im.thread->last_tick = 5000;
    im.thread->counted = counted;
    im.entries[0] = (struct piano__entry){.slot = 3, .start = 1000};
    assert_int_equal(
        piano__live_lines(im.bytes, im.size, (struct piano__written){0}, collect, &out), 0);
    assert_non_null(strstr(out.data, expected));
    buf_free(&out);
    free(im.bytes);
}

static void open_call_lasts_until_the_last_known_time(void **state)
{
    (void)state;
    check_open_call(0, "\"id\":3,\"calls\":0,\"self_ns\":4000,\"total_ns\":4000");
}

static void time_of_counted_callees_is_not_self_time_of_an_open_call(void **state)
{
    (void)state;
    check_open_call(50 * piano__each(10, 2 * 256),
                    "\"id\":3,\"calls\":0,\"self_ns\":3400,\"total_ns\":3900");
}

#define LINES "{\"frame\":0}\n{\"frame\":1}\n{\"frame\":2}\n"
#define BEFORE "{\"frame\":0}\n{\"other\":0}\n" /* an older line like the first, out of reach */

/* A program was killed when FILE contained BEFORE and more, and the block contained LINES: REST of these are not in the file. */
static void check_written(const char *file, uint64_t flush_at, const char *rest)
{
    struct image im = image_make(1);
    struct buf out = {0};
    struct piano__written written = {file, strlen(file)};
    memcpy(im.text, LINES, strlen(LINES));
    im.thread->text_len = (uint32_t)strlen(LINES);
    im.thread->flush_at = flush_at;
    assert_int_equal(piano__live_lines(im.bytes, im.size, written, collect, &out), 0);
    assert_int_equal(strncmp(out.data, rest, strlen(rest)), 0);
    assert_non_null(strstr(out.data, "{\"thread\":1"));
    assert_ptr_equal(strstr(out.data, "{\"thread\":1"), out.data + strlen(rest));
    buf_free(&out);
    free(im.bytes);
}

static void lines_already_in_the_run_file_are_not_repeated(void **state)
{
    (void)state;
    const uint64_t at = strlen(BEFORE) + 1;
    check_written(BEFORE, 0, LINES);
    check_written(BEFORE LINES, 0, LINES); /* no write in progress */
    check_written(BEFORE, at, LINES);
    check_written(BEFORE LINES, at, "");
    check_written(BEFORE "{\"frame\":0}\n{\"fra", at, "{\"frame\":1}\n{\"frame\":2}\n");
    check_written(BEFORE "{\"fr", at, LINES);
    check_written(BEFORE "{\"frame\":0}", at, "{\"frame\":1}\n{\"frame\":2}\n");
    check_written(BEFORE "{\"frame\":0}0\n", at, LINES);
    check_written(BEFORE "{\"x\":0}\n" LINES "{\"y\":0}\n", at, "");
    check_written(BEFORE "{\"x\":0}\n{\"frame\":0}\n{\"y\":0}\n", at,
                  "{\"frame\":1}\n{\"frame\":2}\n");
    check_written(BEFORE LINES, 1000000, LINES);
}

/* At any time a tally is in one place. */
static void tally_that_is_being_moved_is_read_once(void **state)
{
    (void)state;
    struct image im = image_make(1);
    for (uint32_t moving = 2 * 3; moving <= 2 * 3 + 1; moving++) {
        struct buf out = {0};
        im.slots[2].now = im.slots[2].kept = (struct piano__tally){.calls = 5, .timed = 5};
        im.thread->moved = (struct piano__tally){.calls = 9, .timed = 9};
        im.thread->moving = moving;
        assert_int_equal(
            piano__live_lines(im.bytes, im.size, (struct piano__written){0}, collect, &out), 0);
        assert_non_null(strstr(out.data, "\"id\":2,\"calls\":9"));
        assert_int_equal(strstr(out.data, "\"id\":2,\"calls\":5") != NULL, moving % 2 == 0);
        buf_free(&out);
    }
    free(im.bytes);
}

static void tallies_that_are_being_cleared_are_not_read(void **state)
{
    (void)state;
    struct image im = image_make(1);
    struct buf out = {0};
    im.slots[1].now = im.slots[2].kept = (struct piano__tally){.calls = 5, .timed = 5};
    im.thread->clearing = PIANO_CLEAR_NOW | PIANO_CLEAR_KEPT;
    assert_int_equal(
        piano__live_lines(im.bytes, im.size, (struct piano__written){0}, collect, &out), 0);
    assert_null(strstr(out.data, "\"id\""));
    buf_free(&out);
    im.merged->roots[3] = (struct piano__merged_root){.frames = 7, .root = 2};
    im.merged->roots[4] = (struct piano__merged_root){.frames = 8, .root = 3};
    im.thread->clearing = PIANO_CLEAR_MERGED | 3 << 8;
    assert_int_equal(
        piano__live_lines(im.bytes, im.size, (struct piano__written){0}, collect, &out), 0);
    assert_null(strstr(out.data, "{\"merged\":7"));
    assert_non_null(strstr(out.data, "{\"merged\":8"));
    buf_free(&out);
    free(im.bytes);
}

/* Merged frames are printed by root, the rest as one, and the self times of functions in them. */
static void merged_frames_are_read_from_the_image(void **state)
{
    (void)state;
    struct image im = image_make(1);
    struct buf out = {0};
    for (int i = 0; i <= PIANO_MERGED_REST; i += PIANO_MERGED_REST / 2) {
        im.merged->roots[i] = (struct piano__merged_root){
            .frames = 7, .wall = 70, .max = 20, .root = 2, .depth = 1, .under = 3};
        im.merged->walls[i][10] = 7;
    }
    im.merged->roots[PIANO_MERGED_REST / 2].root = 1;
    im.merged->roots[PIANO_MERGED_REST / 2].unlisted = 5;
    im.merged->fn_count = 2;
    im.merged->fns[0] = (struct piano__merged_fn){.id = 1, .entry = 0, .counts = {[5] = 7}};
    im.merged->fns[1] =
        (struct piano__merged_fn){.id = 2, .entry = PIANO_MERGED_REST, .counts = {3}};
    assert_int_equal(
        piano__live_lines(im.bytes, im.size, (struct piano__written){0}, collect, &out), 0);
    static const char *const lines[] = {
        "{\"merged\":7,\"thread\":1,\"depth\":1,\"root\":2,\"under\":3,\"wall_ns\":70,"
        "\"wall_max_ns\":20,\"hist\":[[10,7]],\"fns\":[]}\n",
        "{\"merged\":7,\"thread\":1,\"depth\":1,\"root\":1,\"under\":3,\"wall_ns\":70,"
        "\"wall_max_ns\":20,\"unlisted\":5,\"hist\":[[10,7]],\"fns\":[]}\n",
        "{\"merged\":7,\"thread\":1,\"depth\":1,\"rest\":true,\"under\":3,\"wall_ns\":70,"
        "\"wall_max_ns\":20,\"hist\":[[10,7]],\"fns\":[]}\n",
        "{\"merged_fn\":1,\"thread\":1,\"depth\":1,\"root\":2,\"under\":3,\"hist\":[[5,7]]}\n",
        "{\"merged_fn\":2,\"thread\":1,\"depth\":1,\"rest\":true,\"under\":3,\"hist\":[[0,3]]}\n"};
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        if (!strstr(out.data, lines[i]))
            fail_msg("missing: %s in %s", lines[i], out.data);
    buf_free(&out);
    free(im.bytes);
}

static void file_that_is_no_image_is_refused(void **state)
{
    (void)state;
    struct image im = image_make(1);
    struct buf out = {0};
    assert_int_equal(piano__live_lines(im.bytes, 100, (struct piano__written){0}, collect, &out),
                     -EINVAL);
    im.header->slot_bytes++;
    assert_int_equal(
        piano__live_lines(im.bytes, im.size, (struct piano__written){0}, collect, &out), -EINVAL);
    im.header->slot_bytes--;
    im.header->fn_capacity = UINT32_MAX;
    assert_int_equal(
        piano__live_lines(im.bytes, im.size, (struct piano__written){0}, collect, &out), -EINVAL);
    im.header->fn_capacity = FNS - 1; /* slots would not be aligned */
    assert_int_equal(
        piano__live_lines(im.bytes, im.size, (struct piano__written){0}, collect, &out), -EINVAL);
    im.header->fn_capacity = FNS;
    im.header->text_bytes = TEXT_BYTES - 1; /* merged frames would not be aligned */
    assert_int_equal(
        piano__live_lines(im.bytes, im.size, (struct piano__written){0}, collect, &out), -EINVAL);
    im.header->text_bytes = TEXT_BYTES;
    im.header->magic[0] = 'X';
    assert_int_equal(
        piano__live_lines(im.bytes, im.size, (struct piano__written){0}, collect, &out), -EINVAL);
    assert_int_equal(out.len, 0);
    free(im.bytes);
}

static uint32_t next_random(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    return *state ^= *state << 5;
}

static void torn_or_hostile_image_does_not_crash_the_reader(void **state)
{
    (void)state;
    uint32_t random = 12345;
    for (int round = 0; round < 300; round++) {
        struct image im = image_make(2);
        struct buf out = {0};
        size_t first =
            round % 2 ? PIANO_LIVE_HEADER_BYTES : offsetof(struct piano__live_header, bias);
        size_t changes = 1 + next_random(&random) % 20000;
        im.thread->depth = next_random(&random) % 4000;
        for (size_t i = 0; i < changes; i++)
            im.bytes[first + next_random(&random) % (im.size - first)] =
                (unsigned char)next_random(&random);
        im.thread->state = PIANO_THREAD_RUNNING;
        if (piano__live_lines(im.bytes, im.size, (struct piano__written){0}, collect, &out) == 0)
            assert_false(out.failed);
        buf_free(&out);
        free(im.bytes);
    }
}

/* The inline probe decrements before it checks, and increments again if there was none. A signal handler may run in between. */
static void probe_that_found_no_counted_call_left_is_not_counted(void **state)
{
    (void)state;
    assert_int_equal(piano__head_pending(&(struct piano__head){.left = 3, .given = 5}), 2);
    assert_int_equal(piano__head_pending(&(struct piano__head){.left = 0, .given = 5}), 5);
    assert_int_equal(piano__head_pending(&(struct piano__head){.left = -1, .given = 5}), 5);
    assert_int_equal(piano__head_pending(&(struct piano__head){.left = -1, .given = 0}), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(probe_that_found_no_counted_call_left_is_not_counted),
        cmocka_unit_test(finished_lines_and_tallies_are_read_from_the_image),
        cmocka_unit_test(counted_calls_are_read_from_the_image),
        cmocka_unit_test(open_call_lasts_until_the_last_known_time),
        cmocka_unit_test(time_of_counted_callees_is_not_self_time_of_an_open_call),
        cmocka_unit_test(lines_already_in_the_run_file_are_not_repeated),
        cmocka_unit_test(tally_that_is_being_moved_is_read_once),
        cmocka_unit_test(tallies_that_are_being_cleared_are_not_read),
        cmocka_unit_test(merged_frames_are_read_from_the_image),
        cmocka_unit_test(file_that_is_no_image_is_refused),
        cmocka_unit_test(torn_or_hostile_image_does_not_crash_the_reader),
    };
    return cmocka_run_group_tests_name("live", tests, NULL, NULL);
}
