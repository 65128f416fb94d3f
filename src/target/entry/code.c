/* The parts of code.h that depend on the machine. */
#include "target/entry/code.h"

#include <stdbool.h>
#include <string.h>

#include "target/entry/arm.h"
#include "target/entry/x86.h"

#if defined(__x86_64__)

const int64_t piano__code_reach = INT64_C(1) << 31;

int piano__code_move(const struct piano__code *code, struct piano__code_plan *plan)
{
    return piano__x86_move(code, plan);
}

int piano__code_jumps_into(const uint8_t *code, size_t size, uintptr_t low, uintptr_t high)
{
    return piano__x86_jumps_into(code, size, low, high);
}

size_t piano__code_jump(uint8_t out[PIANO_CODE_JUMP], uintptr_t from, uintptr_t to,
                        const struct piano__code_plan *plan)
{
    int64_t distance = (int64_t)(to - (from + plan->replaced));
    int32_t narrow = (int32_t)distance;
    if (narrow != distance)
        return 0;
    out[0] = 0xe9;
    memcpy(out + 1, &narrow, sizeof narrow);
    return plan->replaced;
}

size_t piano__code_far_jump(uint8_t out[PIANO_CODE_FAR], uintptr_t to)
{
    static const uint8_t jump[] = {0xff, 0x25, 0, 0, 0, 0}; /* jmp *(%rip) */
    memcpy(out, jump, sizeof jump);
    memcpy(out + sizeof jump, &to, sizeof to);
    return sizeof jump + sizeof to;
}

bool piano__code_checks_returns(void)
{
    uint64_t shadow = 0;
    __asm__ volatile("rdsspq %0" : "+r"(shadow)); /* does nothing without a shadow stack */
    return shadow != 0;
}

#else

const int64_t piano__code_reach = INT64_C(1) << 27;

int piano__code_move(const struct piano__code *code, struct piano__code_plan *plan)
{
    return piano__arm_move(code, plan);
}

int piano__code_jumps_into(const uint8_t *code, size_t size, uintptr_t low, uintptr_t high)
{
    return piano__arm_jumps_into(code, size, low, high);
}

size_t piano__code_jump(uint8_t out[PIANO_CODE_JUMP], uintptr_t from, uintptr_t to,
                        const struct piano__code_plan *plan)
{
    static const uint32_t bti_c = 0xd503245f;
    size_t before = plan->replaced - sizeof(uint32_t);
    int64_t distance = (int64_t)(to - (from + before));
    uint32_t jump = 0x14000000 | ((uint32_t)(distance >> 2) & 0x03ffffff);
    if (distance < -piano__code_reach || distance >= piano__code_reach)
        return 0;
    memcpy(out, &bti_c, before); /* none or one instruction */
    memcpy(out + before, &jump, sizeof jump);
    return plan->replaced;
}

size_t piano__code_far_jump(uint8_t out[PIANO_CODE_FAR], uintptr_t to)
{
    static const uint32_t jump[] = {0x58000050, 0xd61f0200}; /* ldr x16, the value; br x16 */
    memcpy(out, jump, sizeof jump);
    memcpy(out + sizeof jump, &to, sizeof to);
    return sizeof jump + sizeof to;
}

bool piano__code_checks_returns(void)
{
    return false;
}

#endif
