/* The walkers in builds for tests (target/sys/check.h): each accepts a structure in use, and rejects one with any of
 * its invariants broken.
 *
 * not under thread: the runtime is read while it runs, on purpose. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "target/heap/live.h"
#include "target/heap/stacks.h"
#include "target/record/modules.h"
#include "target/span/valid.h"
#include "target/sys/recording.h"
#include "temp.h"

/* PLACE is part of a valid structure, which becomes invalid with VALUE there. */
#define BREAKS(is_valid, place, value)                                                             \
    do {                                                                                           \
        __typeof__(place) was_ = (place);                                                          \
        (place) = (value);                                                                         \
        assert_false(is_valid);                                                                    \
        (place) = was_;                                                                            \
        assert_true(is_valid);                                                                     \
    } while (0)

static char path[256];

static int begin(void **state)
{
    (void)state;
    static int number;
    char name[64];
    snprintf(name, sizeof name, "piano-valid-%d-%d.rec", (int)getpid(), number++);
    temp_name(path, sizeof path, name);
    return piano__recording_create(path);
}

static int end(void **state)
{
    (void)state;
    piano__live_forget();
    piano__stacks_forget();
    piano__modules_forget();
    piano__recording_forget();
    return unlink(path);
}

static struct piano__chunk *chunk_of_type(uint32_t type)
{
    struct piano__rec_view *view = &piano__recording.view;
    for (uint64_t n = 0; n < view->header->chunks; n++) {
        struct piano__chunk *c = view->chunk(view, n);
        if (c && c->type == type)
            return c;
    }
    fail_msg("there is no chunk of type %u", type);
    return NULL;
}

static void test_broken_chunks(void **state)
{
    (void)state;
    assert_true(piano__recording_is_valid());
    struct piano__chunk *c = piano__recording_claim(PIANO_CHUNK_NAMES, 0);
    assert_non_null(c);
    struct piano__rec_header *h = piano__recording.view.header;
    BREAKS(piano__recording_is_valid(), c->type, 0);
    BREAKS(piano__recording_is_valid(), c->type, PIANO_CHUNK_TYPES);
    BREAKS(piano__recording_is_valid(), c->ready, 0);
    BREAKS(piano__recording_is_valid(), c->used, PIANO_REC_PAYLOAD + 1);
    BREAKS(piano__recording_is_valid(), h->magic[0], 'x');
    BREAKS(piano__recording_is_valid(), h->chunk_bytes, 1);
    BREAKS(piano__recording_is_valid(), h->chunks, PIANO_REC_MAX_CHUNKS + 1);
}

enum { BLOCKS = 5000, KEPT = 100 }; /* more than one level of the index */

static void test_broken_live_table(void **state)
{
    (void)state;
    assert_true(piano__live_init(BLOCKS));
    assert_true(piano__live_is_valid());
    struct piano__block b = {.size = 1, .rate = 1}, out;
    for (uint64_t i = 0; i < BLOCKS; i++) {
        b.address = 0x10000 + 16 * i;
        assert_int_equal(piano__live_insert(&b), 0);
    }
    assert_true(piano__live_is_valid());
    for (uint64_t i = KEPT; i < BLOCKS; i++)
        assert_true(piano__live_remove(0x10000 + 16 * i, &out));
    assert_true(piano__live_is_valid());

    struct piano__live *records = (void *)(chunk_of_type(PIANO_CHUNK_LIVE) + 1);
    struct piano__live *used = &records[0], *unused = &records[KEPT];
    assert_true(used->key != 0 && unused->key == 0);
    BREAKS(piano__live_is_valid(), used->key, 0);                 /* the index leads to it */
    BREAKS(piano__live_is_valid(), used->key, used->key ^ 0x100); /* in another bucket */
    BREAKS(piano__live_is_valid(), unused->key, 0x123450);        /* in the free list */
    BREAKS(piano__live_is_valid(), unused->next, KEPT + 1);       /* a cycle */
    BREAKS(piano__live_is_valid(), unused->next, 1);              /* a used record in the list */
    BREAKS(piano__live_is_valid(), unused->next, BLOCKS + 1);     /* not a record */
    /* Record KEPT was freed first, so it is the end of the list. */
    assert_int_equal(unused->next & UINT32_MAX, 0);
    BREAKS(piano__live_is_valid(), records[KEPT + 2].next, 0); /* the list lost the others */
}

static void test_broken_stacks(void **state)
{
    (void)state;
    assert_true(piano__stacks_init(1000));
    assert_true(piano__stacks_is_valid());
    uint32_t id = 0;
    for (uint64_t i = 0; i < 500; i++) {
        struct piano__walk w = {.depth = 2, .pcs = {(uintptr_t)begin, (uintptr_t)begin + i}};
        id = piano__stacks_intern(&w);
        assert_int_not_equal(id, 0);
    }
    assert_true(piano__stacks_is_valid());
    struct piano__stack *s = (void *)(uintptr_t)piano__stacks_record(id);
    BREAKS(piano__stacks_is_valid(), s->id, id - 1);
    BREAKS(piano__stacks_is_valid(), s->depth, 1);
    BREAKS(piano__stacks_is_valid(), s->depth, PIANO_MAX_FRAMES + 1);
    BREAKS(piano__stacks_is_valid(), s->hash, s->hash + 1);
    BREAKS(piano__stacks_is_valid(), s->pcs[1], 0);
    BREAKS(piano__stacks_is_valid(), s->generation, s->generation + 1);
}

enum { OUTER, INNER, OTHER, FNS };

static struct __piano_fn fns[FNS] = {
    {"outer", "t.c", 1, 0}, {"inner", "t.c", 2, 0}, {"other", "t.c", 3, 0}};
static unsigned at[FNS];
static struct __piano_unit unit = {__piano_abi, FNS, fns, at, "", ""};

/* A declaration: NOLINTBEGIN(bugprone-macro-parentheses) */
#define PROBE(k)                                                                                   \
    void *probe_ __attribute__((cleanup(__piano_leave), unused)) = __piano_begin(&at[k])
/* NOLINTEND(bugprone-macro-parentheses) */

static void break_stack(struct piano__thread *t)
{
    struct piano__entry *entries = piano__entries(t);
    struct piano__slot *inner = &piano__slots(t)[entries[1].slot];
    assert_true(piano__span_is_valid(t));
    BREAKS(piano__span_is_valid(t), t->depth, 1);
    BREAKS(piano__span_is_valid(t), t->chain, 3);
    BREAKS(piano__span_is_valid(t), entries[1].slot, FNS);
    BREAKS(piano__span_is_valid(t), entries[1].slot, entries[0].slot);
    BREAKS(piano__span_is_valid(t), entries[1].seq, entries[0].seq);
    BREAKS(piano__span_is_valid(t), entries[1].seq, t->seq + 1);
    BREAKS(piano__span_is_valid(t), inner->open, 0);
    BREAKS(piano__span_is_valid(t), inner->open, 2);
}

static void break_lists(struct piano__thread *t)
{
    struct piano__slot *slots = piano__slots(t);
    assert_int_not_equal(t->now_list, 0);
    struct piano__slot *first = &slots[t->now_list - 1];
    BREAKS(piano__span_is_valid(t), t->now_list, 0);
    BREAKS(piano__span_is_valid(t), t->now_list, FNS + 1);
    BREAKS(piano__span_is_valid(t), first->in_now, 0);
    BREAKS(piano__span_is_valid(t), first->next_now, t->now_list);
    BREAKS(piano__span_is_valid(t), slots[OTHER].in_now, 1);
    BREAKS(piano__span_is_valid(t), slots[OTHER].in_kept, 1);
    BREAKS(piano__span_is_valid(t), slots[OTHER].in_sampled, 1);
    BREAKS(piano__span_is_valid(t), slots[OTHER].sampling, 1);
    BREAKS(piano__span_is_valid(t), t->sampled_list, OTHER + 1);
}

static __attribute__((noinline)) void inner(void)
{
    PROBE(INNER);
    struct piano__thread *t = piano__self_thread();
    assert_int_equal(t->depth, 2);
    break_stack(t);
    break_lists(t);
}

static __attribute__((noinline)) void outer(void)
{
    PROBE(OUTER);
    inner();
}

static void test_broken_span_stack(void **state)
{
    (void)state;
    char dir[256];
    temp_name(dir, sizeof dir, "piano-valid-XXXXXX");
    assert_non_null(mkdtemp(dir));
    setenv("PIANO_RUNS_DIR", dir, 1);
    __piano_register(&unit);
    outer();
    assert_true(piano__span_is_valid(piano__self_thread()));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_broken_chunks),
        TEST(test_broken_live_table),
        TEST(test_broken_stacks),
        cmocka_unit_test(test_broken_span_stack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
