/* A cache of the rules in .eh_frame.
 *
 *   cache    pc -> number of a rule, one 64-bit word each, in sets of WAYS words
 *   known    the distinct rules: a few hundred in a large program, since most functions look alike
 *
 * A cache entry is one word, so it is read and written without a lock and cannot be torn:
 *
 *   63       48 47                     12 11        0
 *   generation  rest of the scrambled pc  rule number
 *
 * The 48 bits of a pc are multiplied by an odd number, which is reversible. The upper 12 bits of
 * the product select the set, and the word contains the lower 36. A word of another generation than
 * the current one is void. The current generation is never 0, so zeroes are void too.
 *
 * A READY rule never changes, because it does not depend on an address. The thread that changed its
 * state from FREE to TAKEN writes it. Other threads, and a signal handler that interrupted the
 * writer, skip a TAKEN place. If the table is full, rules are read from .eh_frame each time. */
#include "target/unwind/rules.h"

#include <errno.h>
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
    GENERATIONS = 0x8000, /* bit 15 is always set, so that no generation is 0 */
};
_Static_assert(REST_BITS + RULE_BITS == 48, "the generation has 16 bits");

enum state { FREE, TAKEN, READY };

static _Alignas(64) uint64_t cache[SETS][WAYS];
static _Alignas(64) struct piano__rule known[RULES];
static uint8_t states[RULES];
static uint64_t forgotten; /* number of calls of piano__rules_forget() */

static uint64_t generation(void)
{
    /* Pairs with the acq_rel add in piano__rules_forget(). */
    return __atomic_load_n(&forgotten, __ATOMIC_ACQUIRE) % GENERATIONS | GENERATIONS;
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

/* Uses a void word of the set, else the one that the pc selects: no replacement state is needed. */
static void cache_put(uint64_t gen, uint64_t scrambled, uint64_t rule)
{
    uint64_t *set = cache[scrambled >> REST_BITS];
    uint64_t *place = &set[scrambled % WAYS];
    for (unsigned i = 0; i < WAYS; i++) {
        if (__atomic_load_n(&set[i], __ATOMIC_RELAXED) >> 48 != gen) {
            place = &set[i];
            break;
        }
    }
    /* Pairs with the acquire in piano__rules_find(): the rule is READY. */
    __atomic_store_n(place, cache_word(gen, scrambled, rule), __ATOMIC_RELEASE);
}

static bool write_rule(unsigned place, const struct piano__rule *rule)
{
    uint8_t expected = FREE;
    /* No partner: FREE is never stored. Then only this thread writes the rule until READY. */
    if (!__atomic_compare_exchange_n(&states[place], &expected, TAKEN, false, __ATOMIC_ACQUIRE,
                                     __ATOMIC_RELAXED))
        return false;
    known[place] = *rule;
    /* Pairs with the acquire in intern(): the rule is complete. */
    __atomic_store_n(&states[place], READY, __ATOMIC_RELEASE);
    return true;
}

/* Returns the number of RULE, and adds it if it is new. Returns -1 if there is no free place within
 * PROBES. */
static int intern(const struct piano__rule *rule)
{
    uint64_t half[2];
    memcpy(half, rule, sizeof half);
    uint64_t hash = (half[0] ^ (half[1] << 23 | half[1] >> 41)) * UINT64_C(0x9e3779b97f4a7c15);
    for (unsigned i = 0; i < PROBES; i++) {
        unsigned place = (unsigned)((hash >> (64 - RULE_BITS)) + i) % RULES;
        /* Pairs with the release in write_rule(). */
        uint8_t state = __atomic_load_n(&states[place], __ATOMIC_ACQUIRE);
        if (state == READY && memcmp(&known[place], rule, sizeof *rule) == 0)
            return (int)place;
        if (state == FREE && write_rule(place, rule))
            return (int)place;
    }
    return -1;
}

/* Finds the rule for PC in its module and caches it. Code outside of modules is never cached: it
 * can be unmapped without notice. (cold: keeps this out of the caller's code.) */
static __attribute__((cold, noinline)) const struct piano__rule *learn(uintptr_t pc,
                                                                       struct piano__rule *room)
{
    uint64_t gen = generation(); /* before the look-up: a concurrent dlclose voids this entry */
    struct piano__cfi cfi;
    struct piano__cfi_row row = {.rule = {.cfa = PIANO_CFA_NONE}};
    if (!piano__module_cfi(pc, &cfi))
        return NULL;
    if (cfi.size > 0)
        (void)piano__cfi_find(&cfi, pc, &row); /* on failure, the rule stays PIANO_CFA_NONE */
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
    uint64_t *set = cache[scrambled >> REST_BITS];
    const struct piano__rule *rule = NULL;
    for (unsigned i = 0; i < WAYS && !rule; i++) {
        /* Pairs with the release in cache_put(): the rule is complete. */
        uint64_t word = __atomic_load_n(&set[i], __ATOMIC_ACQUIRE);
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

/* Generation numbers wrap around. Once per cycle the whole cache is cleared, so that no word is
 * left when its number returns. */
void piano__rules_forget(void)
{
    /* Pairs with the acquire in generation(). */
    uint64_t times = __atomic_fetch_add(&forgotten, 1, __ATOMIC_ACQ_REL) + 1;
    if (times % GENERATIONS != GENERATIONS / 2)
        return;
    for (unsigned i = 0; i < SETS * WAYS; i++)
        /* Relaxed: a zero word refers to no rule. */
        __atomic_store_n(&cache[i / WAYS][i % WAYS], 0, __ATOMIC_RELAXED);
}
