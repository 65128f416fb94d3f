/* The callee, not its caller, pays for interrupts and rare long calls that meet counted calls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "target/span/pay.h"
#include "target/span/run.h"
#include "target/span/watch.h"

/* In ticks, which are nanoseconds here. */
enum { PIECE = 1000, INTERRUPT = 20000, PIECES = 3000, EVERY = 30 };

static struct piano__live_header header = {.ns_per_tick_32 = (uint64_t)1 << 32};
static struct {
    struct piano__thread t;
    struct piano__head heads[4]; /* slots are aligned */
    struct piano__slot slots[4];
} block;
static struct piano__slot *caller, *callee;
static struct piano__entry entry;
static int64_t own, now, paid_in_all;
static double variance;

static struct piano__slot *other(void)
{
    return &piano__slots(&block.t)[2];
}

static int begin(void **state)
{
    (void)state;
    piano__run.header = &header;
    piano__watch_ticks = 1000000;
    memset(&block, 0, sizeof block);
    memset(&entry, 0, sizeof entry);
    piano__capacity = 4;
    caller = &piano__slots(&block.t)[0];
    callee = &piano__slots(&block.t)[1];
    caller->in_now = callee->in_now = other()->in_now = 1;
    callee->mode = other()->mode = PIANO_SAMPLED;
    own = now = paid_in_all = 0;
    return 0;
}

/* The caller's own time grows by TICKS and that of calls by CALLS; then a sample is taken. Returns what the callee is paid. */
static int64_t piece_with(int64_t ticks, int64_t calls)
{
    own += ticks;
    now += ticks + calls;
    int64_t before = callee->now.self;
    struct piano__paid paid = piano__pay_sample(&block.t, callee, &entry, own, now);
    own -= paid.ticks;
    paid_in_all += paid.ticks;
    variance = paid.variance;
    return callee->now.self - before;
}

static int64_t piece(int64_t ticks)
{
    return piece_with(ticks, 20 * PIECE);
}

static void many_pieces(int64_t interrupt)
{
    for (int i = 1; i <= PIECES; i++)
        piece(i % EVERY ? PIECE : PIECE + interrupt);
}

static void rare_calls_are_known(int64_t reserve)
{
    callee->rare_usual = INTERRUPT;
    callee->reserve = reserve;
}

static void test_the_callee_pays_for_interrupts(void **state)
{
    (void)state;
    rare_calls_are_known((int64_t)INTERRUPT * PIECES);
    many_pieces(INTERRUPT);
    int64_t truth = (int64_t)INTERRUPT * (PIECES / EVERY);
    assert_in_range(paid_in_all, truth * 8 / 10, truth);
    assert_true(own >= (int64_t)PIECE * PIECES);
}

static void test_callee_pays_no_more_than_its_timed_calls_show(void **state)
{
    (void)state;
    rare_calls_are_known(10 * INTERRUPT);
    many_pieces(INTERRUPT);
    assert_in_range(paid_in_all, 8 * INTERRUPT, 15 * INTERRUPT); /* a few may be overdrawn */
}

static void test_callee_pays_nothing_without_long_calls(void **state)
{
    (void)state;
    many_pieces(INTERRUPT);
    assert_int_equal(paid_in_all, 0);
}

static void test_regular_long_pieces_belong_to_the_caller(void **state)
{
    (void)state;
    rare_calls_are_known((int64_t)INTERRUPT * PIECES);
    for (int i = 0; i < PIECES; i++)
        piece(i % 5 ? PIECE : 12 * PIECE);           /* a separate rhythm */
    assert_in_range(paid_in_all, 0, 20 * INTERRUPT); /* until it is known */
    paid_in_all = 0;
    for (int i = 0; i < PIECES; i++)
        piece(i % 5 ? PIECE : 12 * PIECE);
    assert_int_equal(paid_in_all, 0);
}

/* The same rare calls, but the caller's spike is independent. */
static void test_a_spike_of_the_caller_stays_there(void **state)
{
    (void)state;
    rare_calls_are_known((int64_t)INTERRUPT * PIECES);
    many_pieces(0);
    assert_int_equal(piece(100 * INTERRUPT), 0);
    assert_true(variance > 0); /* no look */
}

static void test_callee_pays_nothing_when_the_caller_takes_most_of_the_time(void **state)
{
    (void)state;
    rare_calls_are_known((int64_t)INTERRUPT * PIECES);
    for (int i = 0; i < PIECES; i++)
        piece_with(PIECE, PIECE / 2);
    assert_int_equal(piece_with(PIECE + INTERRUPT, PIECE / 2), 0);
}

static void test_debt_is_paid_when_the_callee_has_reserve(void **state)
{
    (void)state;
    rare_calls_are_known(-4 * INTERRUPT); /* overdrawn to the limit */
    many_pieces(0);
    assert_int_equal(piece(PIECE + INTERRUPT), 0);
    assert_true(variance > 0);
    assert_in_range(entry.unpaid, INTERRUPT * 8 / 10, INTERRUPT + 2 * PIECE);
    callee->reserve = 2 * INTERRUPT;
    assert_in_range(piece(PIECE), INTERRUPT * 8 / 10, INTERRUPT + 2 * PIECE);
    assert_int_equal(entry.unpaid, 0);
}

enum { LONG = 500000 };

/* The watcher finds SLOT after AFTER ticks of the next piece. */
static void look_after(int64_t after, const struct piano__slot *slot)
{
    block.t.look_tick = now + after;
    block.t.look_slot = (uint32_t)(slot - piano__slots(&block.t));
}

static void look_at(const struct piano__slot *slot)
{
    look_after(LONG / 2, slot);
}

static void long_pieces_seen_in(const struct piano__slot *slot)
{
    for (int i = 0; i < 40; i++) {
        if (i % 2 == 0)
            look_at(slot);
        piece(PIECE + LONG);
        for (int k = 0; k < EVERY; k++)
            piece(PIECE);
    }
}

/* A call of half a millisecond that was only counted: the watcher sees every other one. */
static void test_watcher_attributes_long_pieces_to_the_callee(void **state)
{
    (void)state;
    many_pieces(0);
    long_pieces_seen_in(callee);
    assert_in_range(callee->now.self, 39 * (LONG - PIECE), 40 * (LONG + PIECE));
    look_at(callee);
    piece(PIECE + LONG);
    assert_true(variance == 0);
}

/* A function that the caller calls, directly or not, whose last sample was not a call from it. */
static void test_watcher_attributes_long_pieces_to_another_function(void **state)
{
    (void)state;
    many_pieces(0);
    long_pieces_seen_in(other());
    assert_in_range(other()->now.self, 39 * (LONG - PIECE), 40 * (LONG + PIECE));
    assert_int_equal(callee->now.self, 0);
}

/* Its time was subtracted from the caller already. */
static void test_looks_that_find_a_function_of_which_every_call_is_timed(void **state)
{
    (void)state;
    other()->mode = PIANO_FENCED;
    many_pieces(0);
    long_pieces_seen_in(other());
    assert_int_equal(paid_in_all, 0);
}

/* The reader moves it, with its waits. */
static void test_pieces_long_enough_for_the_watcher_are_left_to_the_reader(void **state)
{
    (void)state;
    many_pieces(0);
    look_at(callee);
    assert_int_equal(piece(PIECE + 8 * LONG), 0);
    assert_true(variance == 0);
}

static void test_looks_that_find_the_caller(void **state)
{
    (void)state;
    rare_calls_are_known((int64_t)INTERRUPT * PIECES);
    many_pieces(0);
    paid_in_all = 0;
    long_pieces_seen_in(caller);
    assert_int_equal(paid_in_all, 0);
}

/* Interrupts belong to the callee. Pieces of another length do not count as interrupts. */
static void test_watcher_samples_count_only_for_pieces_of_similar_length(void **state)
{
    (void)state;
    for (int i = 0; i < 400; i++) {
        look_after(6500, callee);
        piece_with(PIECE + 10000, 2 * PIECE);
        for (int k = 0; k < EVERY; k++)
            piece(PIECE);
    }
    assert_true(paid_in_all > 0);
    assert_int_equal(piece(PIECE + LONG), 0);
    assert_true(variance > 0);
}

/* A long piece ends with usual calls, and the look met one of those. That proves nothing about the long part. */
static void test_looks_near_the_end_of_a_piece_do_not_count(void **state)
{
    (void)state;
    many_pieces(0);
    for (int i = 0; i < 40; i++) {
        look_after(LONG + 2 * PIECE, callee);
        piece(PIECE + LONG);
        for (int k = 0; k < EVERY; k++)
            piece(PIECE);
    }
    assert_int_equal(paid_in_all, 0);
}

/* The call's work before its first sample is separate from the time between samples. */
static void test_few_looks_between_samples_say_nothing_of_the_first_piece(void **state)
{
    (void)state;
    many_pieces(0);
    look_at(callee);
    piece(PIECE + LONG);
    paid_in_all = 0;
    memset(&entry, 0, sizeof entry);
    own = 0;
    entry.start = entry.piece_start = now;
    assert_int_equal(piece(PIECE + LONG), 0);
    assert_true(variance > 0);
}

/* More functions than slots: the counts stay within bounds. */
static void test_watcher_samples_of_many_functions_stay_in_bounds(void **state)
{
    (void)state;
    many_pieces(0);
    for (int i = 0; i < 3000; i++) {
        look_at(&piano__slots(&block.t)[1 + i % 3]);
        piano__slots(&block.t)[3].in_now = 1;
        piano__slots(&block.t)[3].mode = PIANO_SAMPLED;
        piece(PIECE + LONG);
        for (int k = 0; k < EVERY; k++)
            piece(PIECE);
    }
    assert_in_range(paid_in_all, 2990 * (int64_t)(LONG - PIECE), 3000 * (int64_t)(LONG + PIECE));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_the_callee_pays_for_interrupts, begin),
        cmocka_unit_test_setup(test_callee_pays_no_more_than_its_timed_calls_show, begin),
        cmocka_unit_test_setup(test_callee_pays_nothing_without_long_calls, begin),
        cmocka_unit_test_setup(test_regular_long_pieces_belong_to_the_caller, begin),
        cmocka_unit_test_setup(test_a_spike_of_the_caller_stays_there, begin),
        cmocka_unit_test_setup(test_callee_pays_nothing_when_the_caller_takes_most_of_the_time,
                               begin),
        cmocka_unit_test_setup(test_debt_is_paid_when_the_callee_has_reserve, begin),
        cmocka_unit_test_setup(test_watcher_attributes_long_pieces_to_the_callee, begin),
        cmocka_unit_test_setup(test_watcher_attributes_long_pieces_to_another_function, begin),
        cmocka_unit_test_setup(test_looks_that_find_a_function_of_which_every_call_is_timed, begin),
        cmocka_unit_test_setup(test_pieces_long_enough_for_the_watcher_are_left_to_the_reader,
                               begin),
        cmocka_unit_test_setup(test_looks_that_find_the_caller, begin),
        cmocka_unit_test_setup(test_looks_near_the_end_of_a_piece_do_not_count, begin),
        cmocka_unit_test_setup(test_few_looks_between_samples_say_nothing_of_the_first_piece,
                               begin),
        cmocka_unit_test_setup(test_watcher_samples_of_many_functions_stay_in_bounds, begin),
        cmocka_unit_test_setup(test_watcher_samples_count_only_for_pieces_of_similar_length, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
