/* The cache in front of .eh_frame.
 *
 *   cache    pc -> number of a rule, one 64-bit word each, in sets of WAYS words
 *   known    the distinct rules: there are some hundreds in a large program, since most functions look alike
 *
 * A word of the cache is whole by itself, so it is read and written without a lock and cannot be torn:
 *
 *   63       48 47                     12 11        0
 *   generation  rest of the scrambled pc  rule number
 *
 * The 48 bits of a pc are multiplied by an odd number, which loses nothing: the upper 12 bits of the product are the number
 * of the set, the lower 36 are kept in the word. A word of another generation than now is void; generation 0 is never now, so
 * zeroes are void too.
 *
 * A rule, once READY, never changes: it says nothing about an address. It is written by the thread that took its state from
 * FREE to TAKEN; whoever meets a TAKEN one (a signal handler on top of the writer, another thread) looks for another place. A
 * full table only means that the rule is read from .eh_frame each time. */
#include "target/unwind/rules.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "target/unwind/module.h"

enum {
    PC_BITS = 48,
    SET_BITS = 12,
    REST_BITS = PC_BITS - SET_BITS,
    RULE_BITS = 12,
    WAYS = 4,
    SETS = 1 << SET_BITS,
    RULES = 1 << RULE_BITS,
    PROBES = 32,
    GENERATIONS = 0x8000, /* numbered from there on, so that none is 0 */
};
_Static_assert(REST_BITS + RULE_BITS == 48, "the generation has 16 bits");

enum state { FREE, TAKEN, READY };

static _Alignas(64) _Atomic uint64_t cache[SETS][WAYS];
static _Alignas(64) struct piano__rule known[RULES];
static _Atomic uint8_t states[RULES];
static _Atomic uint64_t forgotten; /* how often */

static uint64_t generation(void)
{
    return atomic_load_explicit(&forgotten, memory_order_acquire) % GENERATIONS | GENERATIONS;
}

static uint64_t scramble(uintptr_t pc)
{
    return (pc * UINT64_C(0x9e3779b97f4b)) & (((uint64_t)1 << PC_BITS) - 1);
}

static uint64_t cache_word(uint64_t gen, uint64_t scrambled, uint64_t rule)
{
    uint64_t rest = scrambled & (((uint64_t)1 << REST_BITS) - 1);
    return gen << 48 | rest << RULE_BITS | rule;
}

/* A void word of the set, else the one that the pc itself picks: no clock to keep. */
static void cache_put(uint64_t gen, uint64_t scrambled, uint64_t rule)
{
    _Atomic uint64_t *set = cache[scrambled >> REST_BITS];
    _Atomic uint64_t *place = &set[scrambled % WAYS];
    for (unsigned i = 0; i < WAYS; i++) {
        if (atomic_load_explicit(&set[i], memory_order_relaxed) >> 48 != gen) {
            place = &set[i];
            break;
        }
    }
    atomic_store_explicit(place, cache_word(gen, scrambled, rule), memory_order_release);
}

static bool write_rule(unsigned place, const struct piano__rule *rule)
{
    uint8_t expected = FREE;
    if (!atomic_compare_exchange_strong_explicit(&states[place], &expected, TAKEN,
                                                 memory_order_acquire, memory_order_relaxed))
        return false;
    known[place] = *rule;
    atomic_store_explicit(&states[place], READY, memory_order_release);
    return true;
}

/* The number of RULE among those known; -1 when there is no room near its place. */
static int intern(const struct piano__rule *rule)
{
    uint64_t half[2];
    memcpy(half, rule, sizeof half);
    uint64_t hash = (half[0] ^ (half[1] << 23 | half[1] >> 41)) * UINT64_C(0x9e3779b97f4a7c15);
    for (unsigned i = 0; i < PROBES; i++) {
        unsigned place = (unsigned)((hash >> (64 - RULE_BITS)) + i) % RULES;
        uint8_t state = atomic_load_explicit(&states[place], memory_order_acquire);
        if (state == READY && memcmp(&known[place], rule, sizeof *rule) == 0)
            return (int)place;
        if (state == FREE && write_rule(place, rule))
            return (int)place;
    }
    return -1;
}

/* Only what a module says is remembered: other code comes and goes without a word. (cold: kept out of the way of its caller.) */
static __attribute__((cold, noinline)) const struct piano__rule *learn(uintptr_t pc,
                                                                       struct piano__rule *room)
{
    uint64_t gen = generation(); /* before looking: a dlclose meanwhile makes this void */
    struct piano__cfi cfi;
    struct piano__cfi_row row = {.rule = {.cfa = PIANO_CFA_NONE}};
    if (!piano__module_cfi(pc, &cfi))
        return NULL;
    if (cfi.size > 0)
        (void)piano__cfi_find(&cfi, pc, &row); /* where it fails, the rule is none */
    *room = row.rule;
    int rule = pc >> PC_BITS ? -1 : intern(room);
    if (rule >= 0)
        cache_put(gen, scramble(pc), (uint64_t)rule);
    return room;
}

const struct piano__rule *piano__rules_find(uintptr_t pc, struct piano__rule *room)
{
    uint64_t scrambled = scramble(pc);
    uint64_t wanted = cache_word(generation(), scrambled, 0);
    _Atomic uint64_t *set = cache[scrambled >> REST_BITS];
    const struct piano__rule *rule = NULL;
    for (unsigned i = 0; i < WAYS && !rule; i++) {
        uint64_t word = atomic_load_explicit(&set[i], memory_order_acquire);
        if ((word ^ wanted) < RULES)
            rule = &known[word % RULES];
    }
    if (!rule || pc >> PC_BITS)
        rule = learn(pc, room);
    return rule && rule->cfa != PIANO_CFA_NONE ? rule : NULL;
}

bool piano__rules_begin(uintptr_t pc)
{
    struct piano__cfi cfi;
    struct piano__cfi_row row;
    return piano__module_cfi(pc, &cfi) && cfi.size > 0 &&
           piano__cfi_find(&cfi, pc - 1, &row) == -ENOENT && piano__cfi_find(&cfi, pc, &row) == 0 &&
           row.start == pc;
}

/* The numbers of generations come round again. Half a round before that everything is wiped, so that none of the words that
 * bear one is left when its turn comes. */
void piano__rules_forget(void)
{
    uint64_t times = atomic_fetch_add_explicit(&forgotten, 1, memory_order_acq_rel) + 1;
    if (times % GENERATIONS != GENERATIONS / 2)
        return;
    for (unsigned i = 0; i < SETS * WAYS; i++)
        atomic_store_explicit(&cache[i / WAYS][i % WAYS], 0, memory_order_relaxed);
}
