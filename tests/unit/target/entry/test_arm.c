/* Copying the first instructions of functions of aarch64. tests/unit/target/entry/test_patch.c runs such copies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <errno.h>

#include "target/entry/arm.h"

enum { NOP = 0xd503201fu, BTI_C = 0xd503245fu, PACIASP = 0xd503233fu, RET = 0xd65f03c0u };

static uint32_t code[8], copy[16];

static int move(const uint32_t *words, size_t count, struct piano__code_plan *plan)
{
    memcpy(code, words, count * sizeof *words);
    memset(copy, 0, sizeof copy);
    const struct piano__code c = {(const uint8_t *)code, sizeof code, sizeof code, (uint8_t *)copy,
                                  sizeof copy};
    return piano__arm_move(&c, plan);
}

/* The target of the `b` in the copy at INDEX. */
static uintptr_t branch_at(size_t index)
{
    int32_t words = (int32_t)(copy[index] << 6) >> 6;
    assert_int_equal(copy[index] >> 26, 5);
    return (uintptr_t)&copy[index] + (uintptr_t)((int64_t)words * 4);
}

static void test_plain(void **state)
{
    const uint32_t words[] = {0xa9bf7bfd /* stp x29, x30, [sp, #-16]! */, NOP};
    struct piano__code_plan plan;
    (void)state;
    assert_int_equal(move(words, 2, &plan), 0);
    assert_int_equal(plan.at, 0);
    assert_int_equal(plan.replaced, 4);
    assert_int_equal(copy[0], words[0]);
    assert_int_equal(branch_at(1), (uintptr_t)&code[1]);
}

static void test_landing_pads(void **state)
{
    const uint32_t bti[] = {BTI_C, 0xa9bf7bfd, NOP}, pac[] = {PACIASP, 0xa9bf7bfd, NOP};
    struct piano__code_plan plan;
    (void)state;
    assert_int_equal(move(bti, 3, &plan), 0);
    assert_int_equal(plan.at, 4);
    assert_int_equal(plan.replaced, 4);
    assert_int_equal(copy[0], 0xa9bf7bfd);
    assert_int_equal(branch_at(1), (uintptr_t)&code[2]);
    /* paciasp is one too, but the return address must not be signed twice: both are replaced */
    assert_int_equal(move(pac, 3, &plan), 0);
    assert_int_equal(plan.at, 0);
    assert_int_equal(plan.replaced, 8);
    assert_int_equal(copy[0], PACIASP);
    assert_int_equal(branch_at(2), (uintptr_t)&code[2]);
}

static void check_address(uint32_t word, uint64_t expected)
{
    struct piano__code_plan plan;
    uint64_t value;
    assert_int_equal(move(&word, 1, &plan), 0);
    memcpy(&value, &copy[2], sizeof value);
    assert_int_equal(copy[0], 0x58000040 | (word & 31)); /* ldr, 8 bytes further */
    assert_int_equal(branch_at(1), (uintptr_t)&copy[4]);
    assert_int_equal(value, expected);
    assert_int_equal(branch_at(4), (uintptr_t)&code[1]);
}

static void test_addresses(void **state)
{
    uintptr_t at = (uintptr_t)code, page = at & ~(uintptr_t)4095;
    (void)state;
    check_address(0x10000083, at + 16);       /* adr x3, .+16 */
    check_address(0x70ffffe3, at - 1);        /* adr x3, .-1 */
    check_address(0x90000009, page);          /* adrp x9, 0 */
    check_address(0xb0000009, page + 4096);   /* adrp x9, 1 */
    check_address(0xf0ffffe9, page - 4096);   /* adrp x9, -1 */
    check_address(0x90000029, page + 0x4000); /* adrp x9, 4 */
}

static void test_jumps(void **state)
{
    const uint32_t ahead = 0x14000004, back = 0x17ffffff, ret = RET;
    struct piano__code_plan plan;
    (void)state;
    assert_int_equal(move(&ahead, 1, &plan), 0);
    assert_int_equal(branch_at(0), (uintptr_t)&code[4]);
    assert_int_equal(plan.copied, 4);
    assert_int_equal(move(&back, 1, &plan), 0);
    assert_int_equal(branch_at(0), (uintptr_t)code - 4);
    assert_int_equal(move(&ret, 1, &plan), 0);
    assert_int_equal(plan.copied, 4);
}

static void test_refused(void **state)
{
    const uint32_t words[] = {
        0x94000004, /* bl */
        0x54000040, /* b.eq */
        0xb4000040, /* cbz */
        0x36000040, /* tbz */
        0x58000043, /* ldr of a literal */
        0x1c000043, /* the same, floating point */
        0xd63f0200, /* blr */
    };
    struct piano__code_plan plan;
    (void)state;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        assert_int_equal(move(&words[i], 1, &plan), -EILSEQ);
    const struct piano__code c = {(const uint8_t *)code, 0, 16, (uint8_t *)copy, sizeof copy};
    assert_int_equal(piano__arm_move(&c, &plan), -EILSEQ);
}

static void test_jumps_into(void **state)
{
    static const uint32_t back[] = {0x17fffffe, 0x54ffffc0, 0xb4ffffc0, 0x3607ffc0,
                                    0x97fffffe}; /* two instructions */
    uint32_t words[] = {PACIASP, NOP, NOP, NOP, RET};
    uintptr_t start = (uintptr_t)words;
    (void)state;
    assert_int_equal(piano__arm_jumps_into((const uint8_t *)words, sizeof words, start, start + 8),
                     0);
    for (size_t i = 0; i < sizeof back / sizeof *back; i++) {
        words[3] = back[i];
        assert_int_equal(
            piano__arm_jumps_into((const uint8_t *)words, sizeof words, start, start + 8), 1);
        assert_int_equal(
            piano__arm_jumps_into((const uint8_t *)words, sizeof words, start, start + 4), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),     cmocka_unit_test(test_landing_pads),
        cmocka_unit_test(test_addresses), cmocka_unit_test(test_jumps),
        cmocka_unit_test(test_refused),   cmocka_unit_test(test_jumps_into),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
