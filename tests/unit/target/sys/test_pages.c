/* Kernels with pages larger than 4 KB: a mapping of a part of a file begins with the page in which the part begins, and a
 * perf event has a ring buffer of one such page. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <linux/perf_event.h>
#include <unistd.h>

#include "target/cpu/perf.h"
#include "target/sys/file.h"
#include "target/sys/maps.h"

enum { LARGE = 65536, PIECE = 65536 };

static void test_mapping_starts_at_the_page_boundary(void **state)
{
    (void)state;
    char path[] = "/tmp/piano-pages-XXXXXX", byte = 0;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    unlink(path);
    piano__page_for_tests = LARGE;
    const off_t offsets[] = {0, 4096, 4096 + PIECE, 2 * LARGE};
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
        struct piano__maps_range range;
        char *at = piano__memory_map_file(fd, offsets[i], PIECE);
        assert_non_null(at);
        at[0] = at[PIECE - 1] = (char)(i + 1);
        assert_int_equal(pread(fd, &byte, 1, offsets[i]), 1);
        assert_int_equal(byte, i + 1);
        assert_int_equal(pread(fd, &byte, 1, offsets[i] + PIECE - 1), 1);
        assert_int_equal(byte, i + 1);
        assert_true(piano__maps_find(&range, (uintptr_t)at));
        assert_int_equal(((uintptr_t)at - range.low) % LARGE, offsets[i] % LARGE);
    }
    piano__page_for_tests = 0;
    close(fd);
}

/* A sample of PERIOD ns at offset AT of the records, which wrap around. */
static void put_sample(char *records, uint64_t at, uint64_t period)
{
    const struct perf_event_header header = {.type = PERF_RECORD_SAMPLE,
                                             .size = sizeof header + sizeof period};
    char bytes[sizeof header + sizeof period];
    memcpy(bytes, &header, sizeof header);
    memcpy(bytes + sizeof header, &period, sizeof period);
    for (size_t i = 0; i < sizeof bytes; i++)
        records[(at + i) % LARGE] = bytes[i];
}

static void test_perf_ring_buffer_has_one_page(void **state)
{
    (void)state;
    const struct piano__cpu_wish wish = {.hz = 999};
    struct piano__cpu_thread *t = calloc(1, sizeof *t);
    char *ring = aligned_alloc(LARGE, 2 * LARGE);
    assert_non_null(t);
    assert_non_null(ring);
    memset(ring, 0, 2 * LARGE);
    struct perf_event_mmap_page *page = (struct perf_event_mmap_page *)ring;
    piano__page_for_tests = LARGE;
    t->ring = ring;
    /* More than 4 KB of samples, across the end of the page. */
    const uint64_t first = LARGE - 8 - 16 * 400;
    uint64_t head = first;
    for (int i = 0; i < 500; i++, head += 16)
        put_sample(ring + LARGE, head, 3);
    page->data_tail = first;
    page->data_head = head;
    assert_int_equal(piano__cpu_perf_take(t, &wish), 1500);
    assert_int_equal(page->data_tail, head);
    assert_int_equal(piano__cpu_perf_take(t, &wish), 0);
    piano__page_for_tests = 0;
    free(ring);
    free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mapping_starts_at_the_page_boundary),
                                       cmocka_unit_test(test_perf_ring_buffer_has_one_page)};
    return cmocka_run_group_tests_name("pages", tests, NULL, NULL);
}
