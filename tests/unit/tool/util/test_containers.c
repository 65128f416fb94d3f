/* The map and the growing arrays that all parts of the tool use. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/util/map.h"
#include "tool/util/order.h"
#include "tool/util/vec.h"

static void test_keys_are_found_until_they_are_removed(void **state)
{
    (void)state;
    struct map m = {.slots = NULL};
    assert_int_equal(map_find(&m, 1), MAP_NONE);
    map_remove(&m, 1);
    for (uint32_t i = 0; i < 5000; i++)
        assert_int_equal(map_put(&m, (uint64_t)i * 256, i), 0);
    for (uint32_t i = 0; i < 5000; i += 2)
        map_remove(&m, (uint64_t)i * 256);
    assert_int_equal(m.count, 2500);
    for (uint32_t i = 0; i < 5000; i++)
        assert_int_equal(map_find(&m, (uint64_t)i * 256), i % 2 ? i : MAP_NONE);
    map_release(&m);
}

static void test_hashes_depend_on_every_byte_and_on_the_length(void **state)
{
    (void)state;
    struct map m = {.slots = NULL};
    char text[32] = {0};
    uint32_t count = 0;
    assert_int_equal(map_hash("main.c", 6), map_hash("main.c", 6));
    for (size_t len = 0; len <= sizeof(text); len++)
        for (size_t i = 0; i <= len; i++) { /* all zero, or with one byte changed */
            memset(text, 0, sizeof(text));
            text[i % sizeof(text)] = i < len;
            uint64_t key = map_hash(text, len);
            assert_int_equal(map_find(&m, key), MAP_NONE);
            assert_int_equal(map_put(&m, key, count++), 0);
        }
    map_release(&m);
}

/* With a multiplication modulo 2^64 alone, these two words would cancel out for every seed. */
static void test_no_difference_cancels_out_for_every_seed(void **state)
{
    (void)state;
    const uint64_t a[2] = {1, 2};
    const uint64_t b[2] = {a[0] ^ (uint64_t)1 << 63, a[1] ^ (uint64_t)1 << 63 ^ (uint64_t)1 << 31};
    assert_int_not_equal(map_hash(a, sizeof(a)), map_hash(b, sizeof(b)));
}

static void test_arrays_grow_and_keep_their_items(void **state)
{
    (void)state;
    uint64_t *list = NULL, *plain = NULL;
    size_t count = 0, cap = 0, plain_count = 0;
    while (count < 1000) {
        assert_int_equal(VEC_ROOM(list, count, cap), 0);
        assert_true(count < cap);
        list[count] = count;
        count++;
        assert_int_equal(VEC_DOUBLE(plain, plain_count), 0);
        plain[plain_count] = plain_count;
        plain_count++;
    }
    for (size_t i = 0; i < 1000; i++) {
        assert_int_equal(list[i], i);
        assert_int_equal(plain[i], i);
    }
    plain_count = 7; /* an array that dropped items can still grow */
    while (plain_count < 40) {
        assert_int_equal(VEC_DOUBLE(plain, plain_count), 0);
        plain[plain_count++] = 1;
    }
    assert_int_equal(vec_reserve(&list, &cap, 100000, sizeof(*list)), 0);
    assert_true(cap >= 100000);
    free(list);
    free(plain);
}

static void test_sizes_beyond_memory_change_nothing(void **state)
{
    (void)state;
    char *list = NULL;
    size_t cap = 0;
    assert_int_equal(vec_reserve(&list, &cap, 100, 8), 0);
    char *before = list;
    size_t had = cap;
    assert_int_equal(vec_reserve(&list, &cap, SIZE_MAX / 8 + 2, 8), -ENOMEM);
    assert_int_equal(vec_reserve(&list, &cap, SIZE_MAX, 8), -ENOMEM);
    assert_ptr_equal(list, before);
    assert_int_equal(cap, had);
    free(list);
}

static void test_binary_search_finds_the_first_that_is_not_before(void **state)
{
    (void)state;
    const uint64_t list[] = {1, 3, 3, 3, 8};
    for (uint64_t key = 0; key < 10; key++) {
        size_t below = 0, to = 0;
        for (size_t i = 0; i < 5; i++) {
            below += list[i] < key;
            to += list[i] <= key;
        }
        assert_int_equal(ORDER_BOUND(at, 5, list[at] < key), below);
        assert_int_equal(ORDER_BOUND(at, 5, list[at] <= key), to);
    }
    assert_int_equal(ORDER_BOUND(at, 0, list[at] < 1), 0);
}

static void test_ranked_items_begin_with_the_largest(void **state)
{
    (void)state;
    struct order_ranked list[] = {{1, 0}, {5, 3}, {5, 1}, {-2, 2}};
    qsort(list, 4, sizeof(*list), order_ranked);
    const uint32_t want[] = {1, 3, 0, 2};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(list[i].index, want[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys_are_found_until_they_are_removed),
        cmocka_unit_test(test_hashes_depend_on_every_byte_and_on_the_length),
        cmocka_unit_test(test_no_difference_cancels_out_for_every_seed),
        cmocka_unit_test(test_arrays_grow_and_keep_their_items),
        cmocka_unit_test(test_sizes_beyond_memory_change_nothing),
        cmocka_unit_test(test_binary_search_finds_the_first_that_is_not_before),
        cmocka_unit_test(test_ranked_items_begin_with_the_largest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
