/* Moves time from a caller to a function whose long call was only counted.
 *
 * Samples cut a caller's own time into pieces. A long call that was only counted, or an interrupt
 * in it, makes one piece much longer than usual. The piece may also be the caller's own work. Two
 * sources decide:
 *
 * LOOKS. Every millisecond the watcher records which function a thread is in. If it looked inside a
 * long piece, that function gets the piece. A piece without a look is divided in the proportions of
 * the looks inside other such pieces of this caller.
 *
 * THE RESERVE. Timed calls show which part of the function's time goes to rare long calls and
 * interrupts. That part of the counted calls' time forms the `reserve`, which pays for long pieces.
 * It may be overdrawn by a few rare calls.
 *
 * Time without a look is uncertain. A piece so long that the watcher always sees it stays with the
 * caller. The reader moves it together with the time waited in it (tool/load/estimates.c). */
#include "target/span/pay.h"

#include "common/lines.h"
#include "target/span/frame.h"
#include "target/span/run.h"
#include "target/span/stratum.h"

enum {
    RESERVE = 64,    /* most rare long calls held in the reserve */
    RARE_PIECES = 4, /* the reserve pays for at most this many rare long calls per piece */
    LOOKS_MOST = 1024,
    LOOKS_OF_OTHERS = 4,
    SIZE_NS = 32000
};

static double square(double x)
{
    return x * x;
}

static int64_t ns_of(int64_t ticks)
{
    return piano__ticks_ns(ticks, piano__run.header->ns_per_tick_32);
}

void piano__pay_reserve(struct piano__slot *slot, int64_t price)
{
    if (slot->rare_ever == 0)
        return;
    int64_t most = RESERVE * slot->rare_usual;
    slot->reserve += (int64_t)((double)price * slot->stratum * slot->rare_ever / slot->seen_ever);
    slot->reserve = slot->reserve < most ? slot->reserve : most;
}

/* Returns whether PIECE is much longer than usual. Also adapts *USUAL so that 1 in 15 pieces
 * exceeds it. */
static bool is_long(struct piano__entry *e, int64_t *usual, int64_t piece)
{
    bool is_long = piano__stratum_is_rare(piece, *usual > e->noise ? *usual : e->noise);
    piece = piece < 0 ? -piece : piece;
    if (piece > *usual)
        *usual += (*usual + piano__stratum_rare()) / 4;
    else
        *usual -= *usual / 64;
    return is_long;
}

/* Returns the size class of a long piece. Pieces of one class are treated alike. */
static int size_of(int64_t excess)
{
    int size = 0;
    for (int64_t least = SIZE_NS; size < PIANO_PIECE_SIZES - 1 && ns_of(excess) >= least; size++)
        least *= 4;
    return size;
}

/* Piece of the own time of a call. */
struct piece {
    enum piano__piece which;
    int64_t own; /* ticks, including earlier pieces */
    int64_t start, now;
};

/* Records that a look inside a long piece found SLOT. A new function replaces the least found
 * one. */
static void note_look(struct piano__looks *looks, uint32_t slot)
{
    int at = 0;
    for (int i = 0; i < PIANO_PAYEES; i++) {
        if (looks->payee[i] == slot + 1) {
            looks->count[i]++;
            return;
        }
        at = looks->count[i] < looks->count[at] ? i : at;
    }
    looks->payee[at] = slot + 1;
    looks->count[at] = 1;
}

/* Returns the number of looks, and halves the counts when there are many, so that old looks
 * fade. */
static unsigned looks_in_all(struct piano__looks *looks)
{
    unsigned all = looks->own;
    for (int i = 0; i < PIANO_PAYEES; i++)
        all += looks->count[i];
    for (int i = 0; all > LOOKS_MOST && i < PIANO_PAYEES; i++)
        looks->count[i] /= 2;
    looks->own /= all > LOOKS_MOST ? 2 : 1;
    return all;
}

static void give(struct piano__thread *t, struct piano__slot *slot, int64_t ticks, double variance)
{
    if (!slot->in_now)
        piano__frame_touch(t, slot);
    slot->now.self += ticks;
    slot->now.raw += ticks;
    slot->now.total += ticks;
    slot->now.self_var += variance;
    slot->now.total_var += variance;
}

/* Returns the function that the watcher found inside P. Returns NULL if it did not look, or if the
 * look proves nothing:
 * - It found another function with every call timed: that one already has its time.
 * - It found a callee so near to an end of P that it may have met one of the usual calls there,
 *   which took CALLS ticks together. */
static struct piano__slot *seen_in(struct piano__thread *t, const struct piano__slot *caller,
                                   const struct piece *p, int64_t calls)
{
    /* Pairs with the release in watch.c: the function is then written, too. */
    int64_t tick = __atomic_load_n(&t->look_tick, __ATOMIC_ACQUIRE);
    if (tick <= p->start)
        return NULL;
    struct piano__slot *found = &piano__slots(t)[__atomic_load_n(&t->look_slot, __ATOMIC_RELAXED)];
    if (found == caller)
        return found;
    bool is_inside = tick - p->start > calls && p->now - tick > calls;
    return found->mode == PIANO_SAMPLED && is_inside ? found : NULL;
}

/* Pays EXCESS, ticks of a long piece P of CALLER, as the looks indicate. FOUND is the function that
 * a look inside P found, or NULL. */
static struct piano__paid divide(struct piano__thread *t, struct piano__slot *caller,
                                 const struct piece *p, int64_t excess, struct piano__slot *found)
{
    struct piano__looks *looks = &caller->looks[p->which][size_of(excess)];
    struct piano__paid paid = {0};
    if (found == caller) {
        looks->own++;
        return paid;
    }
    if (found) {
        note_look(looks, (uint32_t)(found - piano__slots(t)));
        give(t, found, excess, 0);
        paid.ticks = excess;
        return paid;
    }
    double all = looks_in_all(looks);
    if (all == 0) { /* the first and last pieces have no looks: use those of inner pieces */
        struct piano__looks *inner = &caller->looks[PIANO_PIECE_INNER][size_of(excess)];
        double others = looks_in_all(inner);
        looks = others >= LOOKS_OF_OTHERS ? inner : looks;
        all = others >= LOOKS_OF_OTHERS ? others : 0;
    }
    for (int i = 0; i < PIANO_PAYEES && looks->count[i] > 0; i++) {
        double part = looks->count[i] / all;
        double variance = square((double)excess) * (looks->count[i] + 1) *
                          (all - looks->count[i] + 1) / square(all + 2);
        int64_t ticks = (int64_t)(part * (double)excess);
        give(t, &piano__slots(t)[looks->payee[i] - 1], ticks, variance);
        paid.ticks += ticks;
        paid.variance += variance;
    }
    if (all == 0)
        paid.variance = square((double)excess) / 4;
    return paid;
}

/* Pays what the looks left unpaid out of the reserve, as far as it goes. */
static int64_t pay_from_reserve(struct piano__thread *t, struct piano__slot *payee,
                                struct piano__entry *e)
{
    int64_t most = payee->reserve + RARE_PIECES * payee->rare_usual;
    int64_t paid = e->unpaid < most ? e->unpaid : most > 0 ? most : 0;
    if (paid <= 0)
        return 0;
    e->unpaid -= paid;
    payee->reserve -= paid;
    give(t, payee, paid, square((double)paid));
    return paid;
}

/* Returns whether EXCESS can be rare long calls of PAYEE like those that were timed. Not if it is
 * much longer than those, or if most of the piece was the caller's. */
static bool may_be_rare(const struct piano__slot *payee, const struct piece *p, int64_t excess,
                        int64_t usual)
{
    return excess < RARE_PIECES * payee->rare_usual && 2 * usual < p->now - p->start - excess;
}

static struct piano__paid pay(struct piano__thread *t, struct piano__slot *payee,
                              struct piano__entry *e, const struct piece *p)
{
    struct piano__slot *caller = &piano__slots(t)[e->slot];
    int64_t length = p->own - e->own, usual = caller->piece[p->which];
    struct piano__paid paid = {0};
    usual = usual > e->noise ? usual : e->noise;
    int64_t excess = length - usual;
    if (is_long(e, &caller->piece[p->which], length) && excess < piano__mode_long()) {
        struct piano__slot *found = seen_in(t, caller, p, p->now - p->start - length);
        paid = divide(t, caller, p, excess, found);
        if (!found && may_be_rare(payee, p, excess, usual))
            e->unpaid += excess - paid.ticks;
    }
    int64_t more = pay_from_reserve(t, payee, e);
    paid.ticks += more;
    paid.variance += square((double)more);
    e->own = p->own - paid.ticks;
    return paid;
}

struct piano__paid piano__pay_sample(struct piano__thread *t, struct piano__slot *slot,
                                     struct piano__entry *caller, int64_t own, int64_t now)
{
    struct piece p = {PIANO_PIECE_INNER, own, caller->piece_start, now};
    if (!caller->payee)
        p = (struct piece){PIANO_PIECE_FIRST, own, caller->start, now};
    caller->payee = (uint32_t)(slot - piano__slots(t)) + 1;
    caller->piece_start = now;
    return pay(t, slot, caller, &p);
}

struct piano__paid piano__pay_end(struct piano__thread *t, struct piano__entry *caller, int64_t own,
                                  int64_t now)
{
    struct piece p = {PIANO_PIECE_LAST, own, caller->piece_start, now};
    return pay(t, &piano__slots(t)[caller->payee - 1], caller, &p);
}
