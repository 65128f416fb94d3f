/* Long calls that were merely counted: what of a caller's time is moved to the function it called.
 *
 * Samples cut a caller's own time into pieces. A long call that was merely counted, or an interrupt in it, shows as a
 * piece that is far longer than usual. It may also be the caller's own work. Two things tell:
 *
 * LOOKS. The watcher looks every millisecond which function a thread is in. A look inside a long piece says whose it was.
 * A piece without a look is divided as the looks at other such pieces were.
 *
 * THE RESERVE. Timed calls tell what part of the function's time rare long calls take, interrupts among them. That part of
 * the counted calls' time is the `reserve`, out of which long pieces are paid. It may be overdrawn by a few.
 *
 * What nobody looked at is uncertain for both functions. */
#include "target/span/pay.h"

#include "common/lines.h"
#include "target/span/run.h"
#include "target/span/stratum.h"

enum {
    RESERVE = 64,    /* rare long calls that can be paid in advance */
    RARE_PIECES = 4, /* the reserve pays for so many rare long calls in a piece at most */
    LOOKS_MOST = 1024,
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

/* Ticks for which the watcher found the thread in SLOT since this was last asked. */
static int64_t looked(struct piano__slot *slot)
{
    int64_t now = __atomic_load_n(&slot->looked, __ATOMIC_RELAXED);
    int64_t since = now - slot->looked_paid;
    slot->looked_paid = now;
    return since;
}

/* Whether PIECE is far longer than such pieces are; learns how long they are: one in 15 is longer than `usual`. */
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

/* Long pieces of similar length are alike. */
static int size_of(int64_t excess)
{
    int size = 0;
    for (int64_t least = SIZE_NS; size < PIANO_PIECE_SIZES - 1 && ns_of(excess) >= least; size++)
        least *= 4;
    return size;
}

/* Divides EXCESS, ticks of a long piece, by what looks say: MINE ticks of them at the payee, THEIRS at the caller; where there are
 * none, by LOOKS at others. */
static struct piano__paid divide(uint16_t looks[2], int64_t excess, int64_t mine, int64_t theirs)
{
    double part = 0, unsure = 0.25;
    if (mine > 0 || theirs > 0) {
        looks[0] += theirs > 0;
        looks[1] += mine > 0;
        part = (double)mine / (double)(mine + theirs);
        unsure = mine > 0 && theirs > 0 ? 0.25 : 0;
    } else if (looks[0] + looks[1] > 0) {
        double all = looks[0] + looks[1];
        part = looks[1] / all;
        unsure = (looks[0] + 1) * (looks[1] + 1) / square(all + 2);
    }
    for (int i = 0; looks[0] + looks[1] > LOOKS_MOST && i < 2; i++)
        looks[i] /= 2;
    return (struct piano__paid){(int64_t)(part * (double)excess), unsure * square((double)excess)};
}

/* What the looks have left to the caller is paid out of the reserve, as far as it reaches. */
static int64_t pay_from_reserve(struct piano__slot *payee, struct piano__entry *e)
{
    int64_t most = payee->reserve + RARE_PIECES * payee->rare_usual;
    int64_t paid = e->unpaid < most ? e->unpaid : most > 0 ? most : 0;
    e->unpaid -= paid;
    return paid;
}

/* A piece of the own time of a call. */
struct piece {
    enum piano__piece which;
    int64_t own;     /* ticks, with those of earlier pieces */
    int64_t elapsed; /* ticks, callees included */
};

/* Whether EXCESS may be rare long calls of PAYEE such as have been timed: not if it is far longer than these, or if the
 * piece was the caller's for the most part. */
static bool may_be_rare(const struct piano__slot *payee, const struct piece *p, int64_t excess,
                        int64_t usual)
{
    return excess < RARE_PIECES * payee->rare_usual && 2 * usual < p->elapsed - excess;
}

static struct piano__paid pay(struct piano__slot *payee, struct piano__slot *caller,
                              struct piano__entry *e, const struct piece *p)
{
    int64_t length = p->own - e->own, usual = caller->piece[p->which];
    int64_t mine = looked(payee), theirs = payee == caller ? 0 : looked(caller);
    struct piano__paid paid = {0};
    usual = usual > e->noise ? usual : e->noise;
    if (is_long(e, &caller->piece[p->which], length)) {
        int64_t excess = length - usual;
        paid = divide(payee->looks[p->which][size_of(excess)], excess, mine, theirs);
        if (theirs == 0 && may_be_rare(payee, p, excess, usual))
            e->unpaid += excess - paid.ticks;
    }
    int64_t more = pay_from_reserve(payee, e);
    paid.ticks += more;
    paid.variance += square((double)more);
    payee->reserve -= paid.ticks;
    if (payee->reserve < -RARE_PIECES * payee->rare_usual)
        payee->reserve = -RARE_PIECES * payee->rare_usual;
    e->own = p->own - paid.ticks;
    return paid;
}

struct piano__paid piano__pay_sample(struct piano__thread *t, struct piano__slot *slot,
                                     struct piano__entry *caller, int64_t own, int64_t now)
{
    struct piece p = {PIANO_PIECE_INNER, own, now - caller->piece_start};
    if (!caller->payee)
        p = (struct piece){PIANO_PIECE_FIRST, own, now - caller->start};
    caller->payee = (uint32_t)(slot - piano__slots(t)) + 1;
    caller->piece_start = now;
    return pay(slot, &piano__slots(t)[caller->slot], caller, &p);
}

struct piano__paid piano__pay_end(struct piano__thread *t, struct piano__entry *caller, int64_t own,
                                  int64_t now)
{
    struct piece p = {PIANO_PIECE_LAST, own, now - caller->piece_start};
    return pay(&piano__slots(t)[caller->payee - 1], &piano__slots(t)[caller->slot], caller, &p);
}
