/* Interrupts and rare long calls that meet counted calls are paid by the callee, not by its caller. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "target/span/mode.h"
#include "target/span/run.h"

/* In ticks, which are nanoseconds here. */
enum { PIECE = 1000, INTERRUPT = 20000, PIECES = 3000, EVERY = 30 };

static struct piano__live_header header = {.ns_per_tick_32 = (uint64_t)1 << 32};
static struct piano__slot caller, callee;
static struct piano__entry entry;
static int64_t own, paid_in_all;

static int begin(void **state)
{
    (void)state;
    piano__run.header = &header;
    memset(&caller, 0, sizeof caller);
    memset(&callee, 0, sizeof callee);
    memset(&entry, 0, sizeof entry);
    own = paid_in_all = 0;
    return 0;
}

/* The caller's own time goes on by TICKS, then a sample is taken. Returns what the callee is paid. */
static int64_t piece(int64_t ticks)
{
    own += ticks;
    int64_t paid = piano__mode_pay(&callee, &caller, &entry, own, PIANO_PIECE_INNER);
    own -= paid;
    paid_in_all += paid;
    return paid;
}

static void many_pieces(int64_t interrupt)
{
    for (int i = 1; i <= PIECES; i++)
        piece(i % EVERY ? PIECE : PIECE + interrupt);
}

static void rare_calls_are_known(int64_t reserve)
{
    callee.rare_usual = INTERRUPT;
    callee.reserve = reserve;
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

static void test_no_more_than_its_timed_calls_say(void **state)
{
    (void)state;
    rare_calls_are_known(10 * INTERRUPT);
    many_pieces(INTERRUPT);
    assert_in_range(paid_in_all, 8 * INTERRUPT, 15 * INTERRUPT); /* a few may be overdrawn */
}

static void test_nothing_without_long_calls(void **state)
{
    (void)state;
    many_pieces(INTERRUPT);
    assert_int_equal(paid_in_all, 0);
}

static void test_usual_pieces_are_the_caller_s(void **state)
{
    (void)state;
    rare_calls_are_known((int64_t)INTERRUPT * PIECES);
    for (int i = 0; i < PIECES; i++)
        piece(i % 5 ? PIECE : 12 * PIECE);           /* a rhythm of its own */
    assert_in_range(paid_in_all, 0, 20 * INTERRUPT); /* until it is known */
    paid_in_all = 0;
    for (int i = 0; i < PIECES; i++)
        piece(i % 5 ? PIECE : 12 * PIECE);
    assert_int_equal(paid_in_all, 0);
}

static void test_a_spike_of_the_caller_stays_there(void **state)
{
    (void)state;
    rare_calls_are_known((int64_t)INTERRUPT * PIECES);
    many_pieces(0);
    assert_in_range(piece(100 * INTERRUPT), 1, 4 * INTERRUPT);
}

static void test_what_was_not_paid_is_told(void **state)
{
    (void)state;
    rare_calls_are_known(-4 * INTERRUPT); /* overdrawn as far as it may be */
    many_pieces(0);
    assert_int_equal(piece(PIECE + INTERRUPT), 0);
    assert_in_range(entry.unpaid, INTERRUPT * 8 / 10, INTERRUPT + PIECE);
    callee.reserve = 2 * INTERRUPT;
    assert_in_range(piece(PIECE), INTERRUPT * 8 / 10, INTERRUPT + PIECE);
    assert_int_equal(entry.unpaid, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_the_callee_pays_for_interrupts, begin),
        cmocka_unit_test_setup(test_no_more_than_its_timed_calls_say, begin),
        cmocka_unit_test_setup(test_nothing_without_long_calls, begin),
        cmocka_unit_test_setup(test_usual_pieces_are_the_caller_s, begin),
        cmocka_unit_test_setup(test_a_spike_of_the_caller_stays_there, begin),
        cmocka_unit_test_setup(test_what_was_not_paid_is_told, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
