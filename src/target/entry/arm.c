/* Copies the first instructions of a function of aarch64.
 *
 * A jump to a hook is one instruction. If the first instruction allows calls through a pointer (bti,
 * paciasp), a `bti c` stays in its place, and the jump follows it. Instructions that are relative to
 * their address: `b` is written anew, `adr` and `adrp` become a load of the address. All others are
 * refused. */
#include "target/entry/arm.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

enum { WORD = 4 };

static const uint32_t bti_c = 0xd503245f, bti_jc = 0xd50324df;
static const uint32_t paciasp = 0xd503233f, pacibsp = 0xd503237f;
static const int64_t branch_reach = (int64_t)1 << 27;

struct writer {
    const struct piano__code *code;
    size_t at;
    int err;
};

static void put(struct writer *w, const void *bytes, size_t count)
{
    if (w->err == 0 && count > w->code->copy_room - w->at)
        w->err = -ENOSPC;
    if (w->err != 0)
        return;
    memcpy(w->code->copy + w->at, bytes, count);
    w->at += count;
}

static void put_branch(struct writer *w, uintptr_t target)
{
    int64_t distance = (int64_t)(target - ((uintptr_t)w->code->copy + w->at));
    uint32_t word = 0x14000000 | ((uint32_t)(distance >> 2) & 0x03ffffff);
    if (w->err == 0 && (distance < -branch_reach || distance >= branch_reach))
        w->err = -ERANGE;
    put(w, &word, sizeof word);
}

/* ldr xN, the value after the next instruction; b after it */
static void put_address(struct writer *w, unsigned reg, uint64_t value)
{
    const uint32_t words[] = {0x58000040 | reg, 0x14000003};
    put(w, words, sizeof words);
    put(w, &value, sizeof value);
}

static int64_t sign_extend(uint32_t value, unsigned bits)
{
    return (int64_t)((uint64_t)value << (64 - bits)) >> (64 - bits);
}

static bool is_branch(uint32_t word)
{
    return (word & 0xfc000000) == 0x14000000;
}

static bool is_address(uint32_t word)
{
    return (word & 0x1f000000) == 0x10000000;
}

/* Where WORD at AT jumps to, or 0: b, bl, b.cond, cbz, cbnz, tbz, tbnz. */
static uintptr_t target_of(uint32_t word, uintptr_t at)
{
    int64_t words = 0;
    if ((word & 0x7c000000) == 0x14000000)
        words = sign_extend(word & 0x03ffffff, 26);
    else if ((word & 0xfe000000) == 0x54000000 || (word & 0x7e000000) == 0x34000000)
        words = sign_extend(word >> 5 & 0x7ffff, 19);
    else if ((word & 0x7e000000) == 0x36000000)
        words = sign_extend(word >> 5 & 0x3fff, 14);
    else
        return 0;
    return at + (uintptr_t)(words * WORD);
}

/* The value of adr or adrp. */
static uint64_t address_of(uint32_t word, uintptr_t at)
{
    int64_t value = sign_extend((word >> 5 & 0x7ffff) << 2 | (word >> 29 & 3), 21);
    if (word >> 31)
        return (at & ~(uintptr_t)4095) + (uint64_t)value * 4096;
    return at + (uint64_t)value;
}

static bool is_literal_load(uint32_t word)
{
    return (word & 0x3b000000) == 0x18000000;
}

/* Returns whether the next instruction follows. */
static bool copy_one(struct writer *w, uint32_t word, uintptr_t at)
{
    bool is_return = (word & 0xfe1ff000) == 0xd61f0000; /* br, blr, ret, retaa and so on */
    bool is_call = is_return && (word >> 21 & 3) == 1;
    if (is_branch(word))
        put_branch(w, target_of(word, at));
    else if (is_address(word))
        put_address(w, word & 31, address_of(word, at));
    else if (target_of(word, at) != 0 || is_literal_load(word) || is_call)
        w->err = -EILSEQ;
    else
        put(w, &word, sizeof word);
    return !is_branch(word) && !is_return;
}

int piano__arm_move(const struct piano__code *code, struct piano__code_plan *plan)
{
    struct writer w = {.code = code};
    uint32_t first;
    if (code->size < WORD)
        return -EILSEQ;
    memcpy(&first, code->function, sizeof first);
    bool is_signed = first == paciasp || first == pacibsp;
    size_t start = first == bti_c || first == bti_jc ? WORD : 0;
    size_t end = is_signed || start ? (size_t)2 * WORD : WORD;
    bool goes_on = true;
    if (end > code->size)
        return -EILSEQ;
    for (size_t at = start; at < end; at += WORD) {
        uint32_t word;
        if (!goes_on)
            return -EILSEQ;
        memcpy(&word, code->function + at, sizeof word);
        goes_on = copy_one(&w, word, (uintptr_t)code->function + at);
    }
    if (goes_on)
        put_branch(&w, (uintptr_t)code->function + end);
    *plan = (struct piano__code_plan){start, end - start, w.at};
    return w.err;
}

int piano__arm_jumps_into(const uint8_t *code, size_t size, uintptr_t low, uintptr_t high)
{
    for (size_t at = 0; at + WORD <= size; at += WORD) {
        uint32_t word;
        memcpy(&word, code + at, sizeof word);
        uintptr_t target = target_of(word, (uintptr_t)code + at);
        if (target > low && target < high)
            return 1;
    }
    return 0;
}
