/* Copies the first instructions of a function of x86-64.
 *
 * A jump to a hook takes five bytes. `endbr64` stays where it is, because the function may be called
 * through a pointer. What the copy changes:
 *   - addresses relative to the instruction: the copy must be within 2 GB of them;
 *   - jumps: they become long ones to the same place;
 *   - a call: its return address is pushed, then the copy jumps. So the function called returns to
 *     the original, and unwinding finds the original's tables. */
#include "target/entry/x86.h"

#include <errno.h>
#include <string.h>

enum { JUMP = 5, ENDBR = 4 };

static const uint8_t endbr[ENDBR] = {0xf3, 0x0f, 0x1e, 0xfa};

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

/* Writes the distance from the next instruction, which begins after REST more bytes, to TARGET. */
static void put_distance(struct writer *w, uintptr_t target, size_t rest)
{
    int64_t distance =
        (int64_t)(target - ((uintptr_t)w->code->copy + w->at + sizeof(int32_t) + rest));
    int32_t narrow = (int32_t)distance;
    if (w->err == 0 && narrow != distance)
        w->err = -ERANGE;
    put(w, &narrow, sizeof narrow);
}

static void put_jump(struct writer *w, uintptr_t target)
{
    put(w, "\xe9", 1);
    put_distance(w, target, 0);
}

static void put_jump_if(struct writer *w, uint8_t opcode, uintptr_t target)
{
    const uint8_t bytes[] = {0x0f, (uint8_t)(0x80 | (opcode & 15))};
    put(w, bytes, sizeof bytes);
    put_distance(w, target, 0);
}

static void put_call(struct writer *w, uintptr_t target, uintptr_t back)
{
    static const uint8_t push[] = {0xff, 0x35, JUMP, 0, 0, 0}; /* what follows the jump */
    put(w, push, sizeof push);
    put_jump(w, target);
    put(w, &back, sizeof back);
}

static void put_plain(struct writer *w, const uint8_t *from, const struct piano__x86_insn *insn)
{
    int32_t distance;
    if (!insn->relative) {
        put(w, from, insn->length);
        return;
    }
    memcpy(&distance, from + insn->relative, sizeof distance);
    size_t after = insn->relative + sizeof distance;
    put(w, from, insn->relative);
    put_distance(w, (uintptr_t)from + insn->length + (uintptr_t)(intptr_t)distance,
                 insn->length - after);
    put(w, from + after, insn->length - after);
}

/* Between functions there are only instructions without effect, or zeroes. */
static bool is_padding(const struct piano__code *code, size_t from, size_t to)
{
    static const uint8_t known[] = {0x00, 0x0f, 0x1f, 0x2e, 0x40, 0x44,
                                    0x66, 0x80, 0x84, 0x90, 0xcc};
    if (from < code->size || to > code->room)
        return false;
    for (; from < to; from++)
        if (!memchr(known, code->function[from], sizeof known))
            return false;
    return true;
}

/* Copies the instruction at AT. Returns whether the next one follows it. */
static bool copy_one(struct writer *w, size_t at, const struct piano__x86_insn *insn)
{
    const uint8_t *from = w->code->function + at;
    uintptr_t target = (uintptr_t)from + (uintptr_t)insn->target;
    switch (insn->flow) {
    case PIANO_X86_JUMP:
        put_jump(w, target);
        return false;
    case PIANO_X86_JUMP_IF:
        put_jump_if(w, from[insn->opcode], target);
        return true;
    case PIANO_X86_CALL:
        put_call(w, target, (uintptr_t)from + insn->length);
        return false;
    case PIANO_X86_OTHER:
        w->err = -EILSEQ;
        return false;
    default:
        put_plain(w, from, insn);
        return insn->flow == PIANO_X86_NEXT;
    }
}

int piano__x86_move(const struct piano__code *code, struct piano__code_plan *plan)
{
    struct writer w = {.code = code};
    const uint8_t *function = code->function;
    bool has_endbr = code->size >= ENDBR && memcmp(function, endbr, ENDBR) == 0;
    size_t start = has_endbr ? ENDBR : 0, at = start;
    bool goes_on = true;
    put(&w, endbr, ENDBR);
    while (goes_on && at < start + JUMP && w.err == 0) {
        struct piano__x86_insn insn;
        if (at >= code->size || !piano__x86_read(function + at, code->size - at, &insn))
            return -EILSEQ;
        goes_on = copy_one(&w, at, &insn);
        at += insn.length;
    }
    if (goes_on)
        put_jump(&w, (uintptr_t)function + at);
    else if (w.err == 0 && at < start + JUMP && !is_padding(code, at, start + JUMP))
        return -EILSEQ;
    *plan = (struct piano__code_plan){start, JUMP, w.at};
    return w.err;
}

int piano__x86_jumps_into(const uint8_t *code, size_t size, uintptr_t low, uintptr_t high)
{
    struct piano__x86_insn insn;
    for (size_t at = 0; at < size; at += insn.length) {
        if (!piano__x86_read(code + at, size - at, &insn))
            return -EILSEQ;
        uintptr_t target = (uintptr_t)code + at + (uintptr_t)insn.target;
        if (insn.target != 0 && target > low && target < high)
            return 1;
    }
    return 0;
}
