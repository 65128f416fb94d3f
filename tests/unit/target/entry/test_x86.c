/* Reading instructions of x86-64, and copying them. tests/e2e/test_instructions.py compares the lengths with objdump's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <errno.h>

#include "target/entry/x86.h"

#define CODE(text) (const uint8_t *)(text), sizeof(text) - 1

static void test_lengths(void **state)
{
    (void)state;
    static const char *const whole[] = {
        "\x55",                                     /* push %rbp */
        "\xf3\x0f\x1e\xfa",                         /* endbr64 */
        "\x48\x89\xe5",                             /* mov %rsp, %rbp */
        "\x48\x81\xec\x08\x10\x20\x10",             /* sub $..., %rsp */
        "\x48\xb8\x01\x02\x03\x04\x05\x06\x07\x08", /* movabs */
        "\x66\xb8\x01\x02",                         /* mov $..., %ax */
        "\x64\x48\x8b\x04\x25\x28\x02\x03\x04",     /* mov %fs:..., %rax */
        "\xf6\x47\x08\x01",                         /* testb $1, 8(%rdi) */
        "\xf7\xd8",                                 /* neg %eax */
        "\xf7\xc7\x01\x02\x03\x04",                 /* test $..., %edi */
        "\x66\x2e\x0f\x1f\x84\x01\x02\x03\x04\x05", /* nopw */
        "\xc5\xf8\x77",                             /* vzeroupper */
        "\xc4\xe3\x7d\x39\xc1\x01",                 /* vextracti128 */
        "\x62\xf1\xfe\x48\x6f\x47\x01",             /* vmovdqu64 64(%rdi), %zmm0 */
        "\x66\x0f\x3a\x0f\xc1\x08",                 /* palignr */
        "\x0f\x38\xf0\x07",                         /* movbe */
        "\xf0\x48\x0f\xb1\x17",                     /* lock cmpxchg */
        "\xc8\x01\x02\x03",                         /* enter */
        "\x0f\xba\xe0\x05",                         /* bt */
    };
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        struct piano__x86_insn insn;
        size_t len = strlen(whole[i]);
        assert_true(piano__x86_read((const uint8_t *)whole[i], len, &insn));
        assert_int_equal(insn.length, len);
        assert_int_equal(insn.flow, PIANO_X86_NEXT);
        /* A partial instruction is not read beyond its end. */
        for (size_t cut = 1; cut < len; cut++) {
            uint8_t *part = malloc(cut);
            memcpy(part, whole[i], cut);
            bool known = piano__x86_read(part, cut, &insn);
            assert_true(!known || insn.length <= cut);
            free(part);
        }
    }
}

static void check_flow(const uint8_t *code, size_t len, enum piano__x86_flow flow, int64_t target)
{
    struct piano__x86_insn insn;
    assert_true(piano__x86_read(code, len, &insn));
    assert_int_equal(insn.length, len);
    assert_int_equal(insn.flow, flow);
    assert_int_equal(insn.target, target);
}

static void test_flow(void **state)
{
    (void)state;
    check_flow(CODE("\xeb\xfe"), PIANO_X86_JUMP, 0);
    check_flow(CODE("\xe9\x10\x00\x00\x00"), PIANO_X86_JUMP, 0x15);
    check_flow(CODE("\x74\xfc"), PIANO_X86_JUMP_IF, -2);
    check_flow(CODE("\x0f\x84\x00\x01\x00\x00"), PIANO_X86_JUMP_IF, 0x106);
    check_flow(CODE("\xe8\xfb\xff\xff\xff"), PIANO_X86_CALL, 0);
    check_flow(CODE("\xe3\x03"), PIANO_X86_OTHER, 5);
    check_flow(CODE("\xc3"), PIANO_X86_STOP, 0);
    check_flow(CODE("\xff\x25\x00\x00\x00\x00"), PIANO_X86_STOP, 0);
    check_flow(CODE("\xff\x15\x00\x00\x00\x00"), PIANO_X86_OTHER, 0);
    check_flow(CODE("\xff\xd0"), PIANO_X86_OTHER, 0);
    check_flow(CODE("\xff\xc0"), PIANO_X86_NEXT, 0);
    check_flow(CODE("\x0f\x0b"), PIANO_X86_STOP, 0);
}

static void test_unknown(void **state)
{
    struct piano__x86_insn insn;
    (void)state;
    assert_false(piano__x86_read(CODE("\x06"), &insn));
    assert_false(piano__x86_read(CODE("\xea\x01\x02\x03\x04\x05\x06\x07"), &insn));
    assert_false(piano__x86_read(
        CODE("\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x90"), &insn));
    assert_false(piano__x86_read((const uint8_t *)"", 0, &insn));
}

/* Any bytes: nothing is read beyond them (a sanitizer would detect it), and lengths are valid. */
static void test_any_bytes(void **state)
{
    uint64_t x = 88172645463325252u;
    (void)state;
    for (int i = 0; i < 200000; i++) {
        struct piano__x86_insn insn;
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        size_t len = x % 17;
        uint8_t *code = malloc(len ? len : 1);
        for (size_t k = 0; k < len; k++)
            code[k] = (uint8_t)((x * (k + 1) * 0x9e3779b97f4a7c15u) >> 56);
        if (piano__x86_read(code, len, &insn))
            assert_true(insn.length > 0 && insn.length <= len && insn.length <= 15);
        free(code);
    }
}

/* Copies CODE of LEN bytes, of which the function has SIZE. */
static int move(const uint8_t *code, size_t len, size_t size, uint8_t copy[64],
                struct piano__code_plan *plan)
{
    const struct piano__code c = {code, size, len, copy, 64};
    return piano__x86_move(&c, plan);
}

static int32_t distance_at(const uint8_t *at)
{
    int32_t distance;
    memcpy(&distance, at, sizeof distance);
    return distance;
}

static void test_moves(void **state)
{
    static uint8_t code[32], copy[64];
    struct piano__code_plan plan;
    (void)state;
    /* plain instructions: copied, then a jump to the rest */
    memcpy(code, "\x55\x48\x89\xe5\x53\x90", 6);
    assert_int_equal(move(code, 32, 32, copy, &plan), 0);
    assert_int_equal(plan.at, 0);
    assert_int_equal(plan.replaced, 5);
    assert_int_equal(plan.copied, 4 + 5 + 5);
    assert_memory_equal(copy + 4, code, 5);
    assert_int_equal(copy[9], 0xe9);
    assert_ptr_equal(copy + 14 + distance_at(copy + 10), code + 5);
    /* rip-relative: the copy refers to the same address */
    memcpy(code, "\x48\x8b\x05\x10\x00\x00\x00", 7);
    assert_int_equal(move(code, 32, 32, copy, &plan), 0);
    assert_ptr_equal(copy + 11 + distance_at(copy + 7), code + 7 + 0x10);
    /* the same, with a value after the address */
    memcpy(code, "\x83\x3d\x10\x00\x00\x00\x07", 7);
    assert_int_equal(move(code, 32, 32, copy, &plan), 0);
    assert_ptr_equal(copy + 11 + distance_at(copy + 6), code + 7 + 0x10);
    assert_int_equal(copy[10], 7);
    /* endbr64 stays */
    memcpy(code, "\xf3\x0f\x1e\xfa\x55\x48\x89\xe5\x53\x90", 10);
    assert_int_equal(move(code, 32, 32, copy, &plan), 0);
    assert_int_equal(plan.at, 4);
    /* a short jump becomes a long one */
    memcpy(code, "\x74\x10\x48\x89\xe5", 5);
    assert_int_equal(move(code, 32, 32, copy, &plan), 0);
    assert_memory_equal(copy + 4, "\x0f\x84", 2);
    assert_ptr_equal(copy + 10 + distance_at(copy + 6), code + 2 + 0x10);
    /* a call: its return address must be the original's */
    memcpy(code, "\xe8\x10\x00\x00\x00", 5);
    assert_int_equal(move(code, 32, 32, copy, &plan), 0);
    uintptr_t back;
    memcpy(&back, copy + 15, sizeof back);
    assert_int_equal(back, (uintptr_t)code + 5);
    assert_ptr_equal(copy + 15 + distance_at(copy + 11), code + 5 + 0x10);
}

static void test_short_functions(void **state)
{
    static uint8_t code[32], copy[64];
    struct piano__code_plan plan;
    (void)state;
    memset(code, 0x90, sizeof code);
    code[0] = 0xc3;
    assert_int_equal(move(code, 16, 1, copy, &plan), 0);
    assert_int_equal(plan.copied, 5);
    /* the next function begins too early */
    assert_int_equal(move(code, 4, 1, copy, &plan), -EILSEQ);
    /* the bytes after it are not padding */
    memset(code + 1, 0x55, 8);
    assert_int_equal(move(code, 16, 1, copy, &plan), -EILSEQ);
    /* it does not end with a return */
    memset(code, 0x90, 4);
    assert_int_equal(move(code, 16, 4, copy, &plan), -EILSEQ);
    /* there is no room for the copy */
    memcpy(code, "\x55\x48\x89\xe5\x53\x90", 6);
    const struct piano__code c = {code, 32, 32, copy, 10};
    assert_int_equal(piano__x86_move(&c, &plan), -ENOSPC);
}

static void test_jumps_into(void **state)
{
    static uint8_t code[16] = {0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x75, 0, 0xc3};
    uintptr_t start = (uintptr_t)code;
    (void)state;
    for (int target = -2; target < 9; target++) {
        code[7] = (uint8_t)(target - 8);
        assert_int_equal(piano__x86_jumps_into(code, 9, start, start + 5),
                         target > 0 && target < 5);
    }
    code[2] = 0x06;
    assert_int_equal(piano__x86_jumps_into(code, 9, start, start + 5), -EILSEQ);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lengths),    cmocka_unit_test(test_flow),
        cmocka_unit_test(test_unknown),    cmocka_unit_test(test_any_bytes),
        cmocka_unit_test(test_moves),      cmocka_unit_test(test_short_functions),
        cmocka_unit_test(test_jumps_into),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
