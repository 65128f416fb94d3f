/* The tables of the heap profiler, without the hooks: the live table compared with a shadow of it, under churn, full, and with
 * sixteen threads at once; the stack table; the filter; the peak; snapshots during changes. Runs under ASan, UBSan
 * and TSan. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <cmocka.h>

#include "target/heap/filter.h"
#include "target/heap/live.h"
#include "target/heap/poisson.h"
#include "target/heap/rooms.h"
#include "target/heap/stacks.h"
#include "target/heap/sums.h"
#include "target/record/modules.h"
#include "target/sys/recording.h"
#include "temp.h"

static char path[256];

static struct piano__rec_header *header(void)
{
    return piano__recording.view.header;
}

static int begin(void **state)
{
    (void)state;
    static int number;
    char name[64];
    snprintf(name, sizeof name, "piano-tables-%d-%d.rec", (int)getpid(), number++);
    temp_name(path, sizeof path, name);
    return piano__recording_create(path);
}

/* The tables are valid after each test. */
static int end(void **state)
{
    (void)state;
    assert_true(piano__live_is_valid());
    assert_true(piano__stacks_is_valid());
    assert_true(piano__recording_is_valid());
    piano__live_forget();
    piano__stacks_forget();
    piano__modules_forget();
    piano__recording_forget();
    memset(piano__filter, 0, sizeof piano__filter);
    return unlink(path);
}

static struct piano__block block_of(uint64_t address, uint64_t size)
{
    return (struct piano__block){.address = address,
                                 .size = size,
                                 .rate = 4096,
                                 .birth_ns = address * 3,
                                 .stack = (uint32_t)(address >> 4) ^ 77,
                                 .thread = 5};
}

static void test_live_table_returns_the_block_that_was_inserted(void **state)
{
    (void)state;
    assert_true(piano__live_init(1000));
    struct piano__block in = block_of(0x7f1234567890, (uint64_t)1 << 47), out;
    assert_false(piano__live_remove(in.address, &out));
    assert_int_equal(piano__live_insert(&in), 0);
    assert_false(piano__live_remove(in.address + 16, &out));
    assert_true(piano__live_remove(in.address, &out));
    assert_memory_equal(&in, &out, sizeof in);
    assert_false(piano__live_remove(in.address, &out));
}

/* Random inserts and removals; the file must not grow beyond the peak of live blocks. */
static void churn(uint64_t operations, unsigned span)
{
    struct piano__random random;
    piano__random_seed(&random, 9);
    bool *shadow = calloc(span, 1);
    assert_non_null(shadow);
    for (uint64_t i = 0; i < operations; i++) {
        unsigned at = (unsigned)(piano__random_next(&random) % span);
        struct piano__block b = block_of(0x550000000000 + 16 * (uint64_t)at, at + 1), out;
        if (shadow[at]) {
            assert_true(piano__live_remove(b.address, &out));
            assert_memory_equal(&b, &out, sizeof b);
        } else {
            assert_int_equal(piano__live_insert(&b), 0);
        }
        shadow[at] = !shadow[at];
    }
    for (unsigned at = 0; at < span; at++) {
        struct piano__block out;
        assert_int_equal(piano__live_remove(0x550000000000 + 16 * (uint64_t)at, &out), shadow[at]);
    }
    free(shadow);
}

/* PIANO_TEST_CHURN=100000000 takes some seconds more. */
static void test_live_table_does_not_grow_under_churn(void **state)
{
    (void)state;
    const char *more = getenv("PIANO_TEST_CHURN");
    assert_true(piano__live_init(40000));
    churn(200000, 20000);
    uint64_t chunks = header()->chunks;
    churn(more ? strtoull(more, NULL, 10) : 1000000, 20000);
    assert_int_equal(header()->chunks, chunks);
}

static void test_full_live_table_refuses_blocks(void **state)
{
    (void)state;
    enum { MOST = 2000 };
    assert_true(piano__live_init(MOST));
    int put = 0, full = 0;
    for (uint64_t i = 0; i < 3 * MOST; i++) {
        struct piano__block b = block_of(0x1000 + 64 * i, 1);
        int err = piano__live_insert(&b);
        put += err == 0;
        full += err == -ENOSPC;
    }
    assert_int_equal(put + full, 3 * MOST);
    assert_in_range(put, MOST * 9 / 10, MOST);
    struct piano__block out;
    int found = 0;
    for (uint64_t i = 0; i < 3 * MOST; i++)
        found += piano__live_remove(0x1000 + 64 * i, &out);
    assert_int_equal(found, put);
}

enum { THREADS = 16, PER_THREAD = 20000, SHARED = 512 };

/* Blocks change hands: the thread that swaps one out of the shared array must find it, exactly once. */
static uint64_t shared[SHARED];
static uint64_t missing;

static void *trade(void *arg)
{
    struct piano__random random;
    piano__random_seed(&random, (uintptr_t)arg);
    uint64_t base = 0x100000000000 + ((uint64_t)(uintptr_t)arg << 32);
    for (uint64_t i = 0; i < PER_THREAD; i++) {
        struct piano__block b = block_of(base + 16 * i, i + 1), out;
        if (piano__live_insert(&b) != 0)
            continue;
        uint64_t *place = &shared[piano__random_next(&random) % SHARED];
        uint64_t old = __atomic_exchange_n(place, b.address, __ATOMIC_ACQ_REL);
        if (old && (!piano__live_remove(old, &out) || out.birth_ns != old * 3))
            __atomic_fetch_add(&missing, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

static void test_blocks_freed_by_other_threads_are_found(void **state)
{
    (void)state;
    assert_true(piano__live_init(100000));
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, trade, (void *)(i + 1)), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    struct piano__block out;
    for (int i = 0; i < SHARED; i++)
        assert_int_equal(piano__live_remove(shared[i], &out), shared[i] != 0);
    memset(shared, 0, sizeof shared);
    assert_int_equal(missing, 0);
    /* All records are free again. */
    for (uint64_t n = 0; n < header()->chunks; n++) {
        const struct piano__chunk *c = piano__recording.view.chunk(&piano__recording.view, n);
        const struct piano__live *all = (const void *)(c + 1);
        for (int i = 0; c->type == PIANO_CHUNK_LIVE && i < PIANO_LIVE_PER_CHUNK; i++)
            assert_true(all[i].key == 0);
    }
}

/* A reader that sees the same key twice has read one block, not a mixture of two. */
static bool stop_reading;

static void *read_all(void *arg)
{
    uint64_t *torn = arg;
    while (!__atomic_load_n(&stop_reading, __ATOMIC_RELAXED)) {
        for (uint64_t n = 0; n < __atomic_load_n(&header()->chunks, __ATOMIC_ACQUIRE); n++) {
            struct piano__chunk *c = piano__recording.view.chunk(&piano__recording.view, n);
            if (!c || c->type != PIANO_CHUNK_LIVE)
                continue;
            struct piano__live *all = (void *)(c + 1);
            for (int i = 0; i < PIANO_LIVE_PER_CHUNK; i++) {
                uint64_t key = __atomic_load_n(&all[i].key, __ATOMIC_ACQUIRE);
                uint64_t birth = __atomic_load_n(&all[i].birth_ns, __ATOMIC_ACQUIRE);
                if (key && key == __atomic_load_n(&all[i].key, __ATOMIC_ACQUIRE))
                    *torn += birth != (key & 0xffffffffffff) * 3;
            }
        }
    }
    return NULL;
}

static void test_readers_see_whole_blocks(void **state)
{
    (void)state;
    assert_true(piano__live_init(100000));
    uint64_t torn = 0;
    pthread_t reader, writers[4];
    stop_reading = false;
    assert_int_equal(pthread_create(&reader, NULL, read_all, &torn), 0);
    for (uintptr_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&writers[i], NULL, trade, (void *)(i + 1)), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(writers[i], NULL);
    __atomic_store_n(&stop_reading, true, __ATOMIC_RELAXED);
    pthread_join(reader, NULL);
    memset(shared, 0, sizeof shared);
    assert_int_equal(torn, 0);
}

static struct piano__walk walk_of(uint64_t n, uint32_t depth)
{
    struct piano__walk w = {.depth = depth};
    for (uint32_t i = 0; i < depth; i++)
        w.pcs[i] = (uintptr_t)walk_of + i + (i == depth - 1 ? n * 4096 : 0);
    return w;
}

static void test_equal_stacks_get_the_same_number(void **state)
{
    (void)state;
    assert_true(piano__stacks_init(5000));
    uint32_t ids[1000];
    for (uint64_t i = 0; i < 1000; i++) {
        struct piano__walk w = walk_of(i, 1 + (uint32_t)i % PIANO_MAX_FRAMES);
        ids[i] = piano__stacks_intern(&w);
        assert_int_not_equal(ids[i], 0);
    }
    for (uint64_t i = 0; i < 1000; i++) {
        struct piano__walk w = walk_of(i, 1 + (uint32_t)i % PIANO_MAX_FRAMES);
        assert_int_equal(piano__stacks_intern(&w), ids[i]);
        for (uint64_t k = 0; k < i; k++)
            assert_int_not_equal(ids[i], ids[k]);
        w.flags = PIANO_STACK_MMAP;
        assert_int_not_equal(piano__stacks_intern(&w), ids[i]);
    }
    assert_int_equal(header()->stats.stacks, 2000);
    /* Nothing was unloaded, so no number changes. */
    struct piano__walk w = walk_of(3, 4);
    piano__modules_unloaded();
    assert_int_equal(piano__stacks_intern(&w), ids[3]);
}

static void test_full_stack_table_gives_zero(void **state)
{
    (void)state;
    assert_true(piano__stacks_init(100));
    int none = 0;
    for (uint64_t i = 0; i < 300; i++) {
        struct piano__walk w = walk_of(i, 8);
        none += piano__stacks_intern(&w) == 0;
    }
    assert_int_equal(none, 201); /* 1 to 99 are stacks */
    assert_int_equal(header()->stats.dropped_stacks, 201);
}

static void *intern_all(void *arg)
{
    uint32_t *ids = arg;
    for (uint64_t i = 0; i < 500; i++) {
        struct piano__walk w = walk_of(i, 20);
        ids[i] = piano__stacks_intern(&w);
    }
    return NULL;
}

static void test_threads_get_the_same_number_for_a_stack(void **state)
{
    (void)state;
    static uint32_t ids[8][500];
    assert_true(piano__stacks_init(5000));
    pthread_t threads[8];
    for (int i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, intern_all, ids[i]), 0);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    for (int n = 0; n < 500; n++)
        for (int i = 0; i < 8; i++)
            if (ids[i][n] != 0) /* the lock was not available in time: counted as dropped */
                assert_int_equal(ids[i][n], ids[0][n] ? ids[0][n] : ids[i][n]);
    assert_int_equal(header()->stats.stacks, 500);
}

static void test_filter_finds_every_member(void **state)
{
    (void)state;
    struct piano__random random;
    piano__random_seed(&random, 4);
    enum { N = 50000 };
    static uintptr_t members[N];
    for (int i = 0; i < N; i++) {
        members[i] = 0x7f0000000000 + (piano__random_next(&random) % ((uint64_t)1 << 34) & ~15u);
        piano__filter_add((void *)members[i]);
    }
    for (int i = 0; i < N; i += 2)
        piano__filter_remove((void *)members[i]);
    for (int i = 1; i < N; i += 2)
        assert_true(piano__filter_may_hold((void *)members[i]));
}

/* A live set of 1 GB with one sample per 512 KB: how many other frees pass the filter. */
static void test_filter_rejects_most_other_addresses(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 2048; i++)
        piano__filter_add((void *)(uintptr_t)(0x555500000010 + i * 524288));
    int passes = 0;
    for (uint64_t i = 0; i < 1000000; i++)
        passes += piano__filter_may_hold((void *)(uintptr_t)(0x555500000000 + i * 1072));
    assert_true(passes < 1000000 * 4 / 100);
}

static void test_full_filter_stays_full(void **state)
{
    (void)state;
    const void *p = (const void *)0x1234000;
    for (int i = 0; i < 300; i++)
        piano__filter_add(p);
    for (int i = 0; i < 300; i++)
        piano__filter_remove(p);
    assert_true(piano__filter_may_hold(p));
}

static void test_peak_is_what_was_held_then(void **state)
{
    (void)state;
    assert_true(piano__stacks_init(100));
    uint32_t id[3];
    for (uint64_t i = 0; i < 3; i++) {
        struct piano__walk w = walk_of(i, 3);
        id[i] = piano__stacks_intern(&w);
    }
    struct piano__block a = {.size = 100, .rate = 1, .stack = id[0]};
    struct piano__block b = {.size = 70, .rate = 1, .stack = id[1]};
    struct piano__block c = {.size = 5, .rate = 1, .stack = id[2]};
    piano__sums_allocated(header(), &a);
    piano__sums_allocated(header(), &b); /* the peak: 170 */
    piano__sums_freed(header(), &a, 5000);
    piano__sums_freed(header(), &b, 3000000);
    piano__sums_allocated(header(), &c);
    piano__sums_allocated(header(), &a);
    assert_true(header()->peak_bytes == 170 && header()->live_bytes == 105);
    double held = 0;
    for (int i = 0; i < 3; i++) {
        const struct piano__totals *t = piano__stacks_totals(id[i]);
        held += t->seen_epoch == header()->peak_epoch ? t->peak_bytes
                                                      : t->allocated_bytes - t->freed_bytes;
    }
    assert_true(held == 170);
    assert_int_equal(piano__stacks_totals(id[0])->lifetimes[3], 1); /* 5 us: 4 to 8 */
    assert_int_equal(piano__stacks_totals(id[1])->lifetimes[12], 1);
    assert_true(piano__stacks_totals(id[1])->freed_bytes == 70);
}

static void test_snapshot_has_every_stack(void **state)
{
    (void)state;
    enum { N = 3000 };
    assert_true(piano__stacks_init(N + 10));
    for (uint64_t i = 0; i < N; i++) {
        struct piano__walk w = walk_of(i, 2);
        struct piano__block b = {.size = i + 1, .rate = 1, .stack = piano__stacks_intern(&w)};
        piano__sums_allocated(header(), &b);
    }
    assert_int_equal(piano__snapshot_take(&piano__recording.view, PIANO_SNAPSHOT_ASKED, 99, 7), 1);
    assert_int_equal(piano__snapshot_take(&piano__recording.view, PIANO_SNAPSHOT_ASKED, 99, 7), 2);
    uint32_t entries = 0, parts = 0;
    double live = 0;
    for (uint64_t n = 0; n < header()->chunks; n++) {
        struct piano__chunk *c = piano__recording.view.chunk(&piano__recording.view, n);
        if (c->type != PIANO_CHUNK_SNAPSHOT)
            continue;
        for (uint64_t at = 0; at < c->used;) {
            const struct piano__snapshot *s = (void *)((char *)(c + 1) + at);
            assert_int_equal(s->parts, 3);
            for (uint32_t i = 0; s->number == 2 && i < s->count; i++)
                live += s->entries[i].live_bytes;
            entries += s->count;
            parts++;
            at += s->bytes;
        }
    }
    assert_int_equal(entries, 2 * N);
    assert_int_equal(parts, 6);
    assert_true(2 * live == N * (N + 1.0));
}

/* No disk space, by a limit that raises no signal here: refused, counted by the caller, never fatal. */
static void test_tables_refuse_entries_when_the_disk_is_full(void **state)
{
    (void)state;
    struct rlimit old, none;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    none = old;
    none.rlim_cur = PIANO_REC_HEADER_BYTES;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    assert_true(piano__live_init(100));
    struct piano__block b = block_of(0x1000, 1);
    assert_int_equal(piano__live_insert(&b), -ENOMEM);
    assert_false(piano__stacks_init(100));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    piano__recording.retry_ns = 0;
    assert_int_equal(piano__live_insert(&b), 0);
}

/* Takes and gives slots; a slot that two threads own at once would lose a mark. */
static void *walk_in_rooms(void *arg)
{
    uint64_t mark = (uintptr_t)&mark;
    for (int i = 0; i < 20000; i++) {
        struct piano__walk *room = piano__rooms_take();
        if (!room)
            return arg;
        room->pcs[0] = mark;
        room->pcs[PIANO_MAX_FRAMES - 1] = mark;
        __asm__ volatile("" : : "r"(room) : "memory");
        if (room->pcs[0] != mark || room->pcs[PIANO_MAX_FRAMES - 1] != mark)
            return arg;
        piano__rooms_give(room);
    }
    return NULL;
}

static void test_scratch_buffers_are_used_by_one_thread_at_a_time(void **state)
{
    (void)state;
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, walk_in_rooms, threads), 0);
    for (int i = 0; i < 4; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
}

static void test_scratch_buffers_are_limited_and_reused(void **state)
{
    (void)state;
    static struct piano__walk *taken[50000];
    size_t count = 0;
    while ((taken[count] = piano__rooms_take()))
        count++;
    assert_in_range(count, 10000, 40000);
    for (size_t i = 0; i < count; i++)
        piano__rooms_give(taken[i]);
    assert_ptr_equal(piano__rooms_take(), taken[count - 1]);
    piano__rooms_give(taken[count - 1]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_live_table_returns_the_block_that_was_inserted),
        TEST(test_live_table_does_not_grow_under_churn),
        TEST(test_full_live_table_refuses_blocks),
        TEST(test_blocks_freed_by_other_threads_are_found),
        TEST(test_readers_see_whole_blocks),
        TEST(test_equal_stacks_get_the_same_number),
        TEST(test_full_stack_table_gives_zero),
        TEST(test_threads_get_the_same_number_for_a_stack),
        TEST(test_filter_finds_every_member),
        TEST(test_filter_rejects_most_other_addresses),
        TEST(test_full_filter_stays_full),
        TEST(test_peak_is_what_was_held_then),
        TEST(test_snapshot_has_every_stack),
        TEST(test_tables_refuse_entries_when_the_disk_is_full),
        TEST(test_scratch_buffers_are_used_by_one_thread_at_a_time),
        TEST(test_scratch_buffers_are_limited_and_reused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
