/* Call frame information: every kind of rule, from hand-written bytes, for both machines. */
#include <elf.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/cfi.h"
#include "cfi_image.h"

static void assert_cfa(const struct piano__rule *r, unsigned kind, unsigned reg, int offset)
{
    assert_int_equal(r->cfa, kind);
    assert_int_equal(r->cfa_register, reg);
    assert_int_equal(r->cfa_offset, offset);
}

static void assert_at(unsigned at, int words, unsigned want_at, int want_words)
{
    assert_int_equal(at, want_at);
    if (at != PIANO_AT_NOWHERE && at != PIANO_AT_REGISTER)
        assert_int_equal(words, want_words);
}

static void rows_of_a_function_with_a_frame_pointer_are_found(void **state)
{
    (void)state;
    /* push %rbp; mov %rsp,%rbp; ... leave; ret */
    static const char program[] = "\x41\x0e\x10\x86\x02"
                                  "\x43\x0d\x06"
                                  "\x02\x40\x0c\x07\x08";
    struct piano__cfi_row row;
    assert_int_equal(FIND(&x86, program, 0, &row), 0);
    assert_cfa(&row.rule, PIANO_CFA_REGISTER, 7, 8);
    assert_at(row.rule.ra_at, row.rule.ra, PIANO_AT_CFA, -1);
    assert_at(row.rule.fp_at, row.rule.fp, PIANO_AT_REGISTER, 0);
    assert_at(row.rule.base_at, row.rule.base, PIANO_AT_REGISTER, 0);
    assert_int_equal(row.start, FUNCTION);
    assert_int_equal(row.end, FUNCTION + 1);
    assert_int_equal(FIND(&x86, program, 1, &row), 0);
    assert_cfa(&row.rule, PIANO_CFA_REGISTER, 7, 16);
    assert_at(row.rule.fp_at, row.rule.fp, PIANO_AT_CFA, -2);
    assert_int_equal(FIND(&x86, program, 0x43, &row), 0);
    assert_cfa(&row.rule, PIANO_CFA_REGISTER, 6, 16);
    assert_int_equal(row.start, FUNCTION + 4);
    assert_int_equal(row.end, FUNCTION + 0x44);
    assert_int_equal(FIND(&x86, program, 0x44, &row), 0);
    assert_cfa(&row.rule, PIANO_CFA_REGISTER, 7, 8);
    assert_int_equal(row.end, FUNCTION + FUNCTION_BYTES);
    assert_int_equal(FIND(&x86, program, FUNCTION_BYTES, &row), -ENOENT);
    assert_int_equal(FIND(&x86, program, -1, &row), -ENOENT);
}

static void remember_and_restore_state_are_applied(void **state)
{
    (void)state;
    static const char program[] = "\x41\x0e\x10\x83\x02" /* push %rbx */
                                  "\x41\x0a\x0e\x08\xc3" /* pop it, on the way out */
                                  "\x41\x0b";            /* the rest of the body */
    struct piano__cfi_row row;
    assert_int_equal(FIND(&x86, program, 1, &row), 0);
    assert_at(row.rule.base_at, row.rule.base, PIANO_AT_CFA, -2);
    assert_int_equal(FIND(&x86, program, 2, &row), 0);
    assert_cfa(&row.rule, PIANO_CFA_REGISTER, 7, 8);
    assert_at(row.rule.base_at, row.rule.base, PIANO_AT_REGISTER, 0);
    assert_int_equal(FIND(&x86, program, 3, &row), 0);
    assert_cfa(&row.rule, PIANO_CFA_REGISTER, 7, 16);
    assert_at(row.rule.base_at, row.rule.base, PIANO_AT_CFA, -2);
    assert_int_equal(FIND(&x86, "\x0b", 0, &row), -EINVAL); /* nothing to restore */
    assert_int_equal(FIND(&x86, "\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a", 0, &row), -EINVAL);
}

static void advances_of_every_size_are_applied(void **state)
{
    (void)state;
    struct piano__cfi_row row;
    assert_int_equal(FIND(&x86, "\x02\x10\x0e\x10", 0x10, &row), 0);
    assert_int_equal(row.rule.cfa_offset, 16);
    assert_int_equal(FIND(&x86, "\x03\x10\x00\x0e\x18", 0x10, &row), 0);
    assert_int_equal(row.rule.cfa_offset, 24);
    assert_int_equal(FIND(&x86, "\x04\x10\x00\x00\x00\x0e\x20", 0x10, &row), 0);
    assert_int_equal(row.rule.cfa_offset, 32);
    assert_int_equal(FIND(&x86, "\x04\x10\x00\x00\x00\x0e\x20", 0xf, &row), 0);
    assert_int_equal(row.rule.cfa_offset, 8);
    assert_int_equal(FIND(&x86, "\x01\x00\x10\x40\x00", 0, &row), -EINVAL); /* set_loc */
}

static void saved_registers_are_found_by_every_kind_of_rule(void **state)
{
    (void)state;
    struct piano__cfi_row row;
    assert_int_equal(FIND(&x86, "\x05\x06\x03", 0, &row), 0); /* offset_extended */
    assert_at(row.rule.fp_at, row.rule.fp, PIANO_AT_CFA, -3);
    assert_int_equal(FIND(&x86, "\x11\x06\x7e", 0, &row), 0); /* offset_extended_sf */
    assert_at(row.rule.fp_at, row.rule.fp, PIANO_AT_CFA, 2);
    assert_int_equal(FIND(&x86, "\x2f\x06\x02", 0, &row), 0); /* GNU_negative_offset_extended */
    assert_at(row.rule.fp_at, row.rule.fp, PIANO_AT_CFA, 2);
    assert_int_equal(FIND(&x86, "\x86\x02\x06\x06", 0, &row), 0); /* restore_extended */
    assert_at(row.rule.fp_at, row.rule.fp, PIANO_AT_REGISTER, 0);
    assert_int_equal(FIND(&x86, "\x86\x02\x08\x06", 0, &row), 0); /* same_value */
    assert_at(row.rule.fp_at, row.rule.fp, PIANO_AT_REGISTER, 0);
    assert_int_equal(FIND(&x86, "\x07\x06", 0, &row), 0); /* undefined */
    assert_at(row.rule.fp_at, row.rule.fp, PIANO_AT_NOWHERE, 0);
    assert_int_equal(FIND(&x86, "\x14\x06\x02", 0, &row),
                     0); /* val_offset: cannot be said, but the rest can */
    assert_at(row.rule.fp_at, row.rule.fp, PIANO_AT_NOWHERE, 0);
    assert_int_equal(FIND(&x86, "\x15\x06\x7e", 0, &row),
                     0); /* val_offset: not representable, but the rest is */
    assert_at(row.rule.fp_at, row.rule.fp, PIANO_AT_NOWHERE, 0);
    assert_int_equal(FIND(&x86, "\x16\x06\x01\x30", 0, &row), 0); /* val_expression */
    assert_at(row.rule.fp_at, row.rule.fp, PIANO_AT_NOWHERE, 0);
    assert_int_equal(FIND(&x86, "\x10\x06\x02\x76\x70", 0, &row), 0); /* expression: rbp-16 */
    assert_at(row.rule.fp_at, row.rule.fp, PIANO_AT_FP, -2);
    assert_int_equal(FIND(&x86, "\x10\x06\x02\x23\x18", 0, &row), 0); /* expression: CFA+24 */
    assert_at(row.rule.fp_at, row.rule.fp, PIANO_AT_CFA, 3);
    assert_int_equal(FIND(&x86, "\x10\x03\x03\x77\x80\x01", 0, &row), 0); /* expression: rsp+128 */
    assert_at(row.rule.base_at, row.rule.base, PIANO_AT_SP, 16);
    assert_int_equal(FIND(&x86, "\x10\x0c\x02\x76\x60\x8c\x05\x0e\x18", 0, &row), 0); /* unknown */
    assert_cfa(&row.rule, PIANO_CFA_REGISTER, 7, 24);
    assert_int_equal(FIND(&x86, "\x2e\x20\x0e\x18", 0, &row), 0); /* GNU_args_size */
    assert_cfa(&row.rule, PIANO_CFA_REGISTER, 7, 24);
    assert_int_equal(FIND(&x86, "\x3f", 0, &row), -EINVAL);
}

static void return_address_register_follows_its_rule(void **state)
{
    (void)state;
    struct piano__cfi_row row;
    assert_int_equal(FIND(&x86, "\x07\x10", 0, &row), 0); /* undefined: outermost */
    assert_at(row.rule.ra_at, 0, PIANO_AT_NOWHERE, 0);
    assert_int_equal(FIND(&x86, "\x09\x10\x05", 0, &row), -ENOTSUP); /* in rdi */
    assert_int_equal(row.rule.cfa, PIANO_CFA_NONE);
    assert_int_equal(row.start, FUNCTION);
    assert_int_equal(row.end, FUNCTION + FUNCTION_BYTES);
    assert_int_equal(FIND(&x86, "\x08\x10", 0, &row),
                     -ENOTSUP); /* in a link register that it does not have */
    assert_int_equal(FIND(&x86, "\x10\x10\x03\x77\xa8\x01", 0, &row), 0);
    assert_at(row.rule.ra_at, row.rule.ra, PIANO_AT_SP, 21);
}

static void cfa_is_computed_by_every_kind_of_rule(void **state)
{
    (void)state;
    struct piano__cfi_row row;
    assert_int_equal(FIND(&x86, "\x0c\x0a\x00", 0, &row), 0); /* r10: before a stack is realigned */
    assert_cfa(&row.rule, PIANO_CFA_REGISTER, 10, 0);
    assert_int_equal(FIND(&x86, "\x0f\x03\x76\x78\x06", 0, &row), 0); /* after it: *(rbp-8) */
    assert_cfa(&row.rule, PIANO_CFA_MEMORY, 6, -8);
    assert_int_equal(row.rule.cfa_plus, 0);
    assert_int_equal(FIND(&x86, "\x0f\x05\x77\x28\x06\x23\x08", 0, &row), 0); /* *(rsp+40)+8 */
    assert_cfa(&row.rule, PIANO_CFA_MEMORY, 7, 40);
    assert_int_equal(row.rule.cfa_plus, 8);
    assert_int_equal(FIND(&x86, "\x0f\x04\x76\x10\x38\x1c", 0, &row), 0); /* rbp+16-8 */
    assert_cfa(&row.rule, PIANO_CFA_REGISTER, 6, 8);
    assert_int_equal(FIND(&x86, "\x0f\x04\x38\x76\x10\x22", 0, &row), 0); /* 8+(rbp+16) */
    assert_cfa(&row.rule, PIANO_CFA_REGISTER, 6, 24);
    assert_int_equal(FIND(&x86, "\x12\x06\x7e", 0, &row), 0); /* def_cfa_sf */
    assert_cfa(&row.rule, PIANO_CFA_REGISTER, 6, 16);
    assert_int_equal(FIND(&x86, "\x13\x7c", 0, &row), 0); /* def_cfa_offset_sf */
    assert_cfa(&row.rule, PIANO_CFA_REGISTER, 7, 32);
    assert_int_equal(FIND(&x86, "\x0e\x80\x80\x80\x80\x08", 0, &row), -ENOTSUP); /* 2 GB */
    assert_int_equal(FIND(&x86, "\x0f\x04\x77\x00\x06\x06", 0, &row), -ENOTSUP); /* **rsp */
    assert_int_equal(FIND(&x86, "\x0f\x01\x38", 0, &row), -ENOTSUP);             /* a number */
    assert_int_equal(FIND(&x86, "\x0f\x00", 0, &row), -ENOTSUP);
    assert_int_equal(FIND(&x86, "\x0f\x01\x22", 0, &row), -ENOTSUP); /* + of nothing */
    assert_int_equal(FIND(&x86, "\x0f\x09\x12\x12\x38\x12\x12\x12\x12\x12\x12", 0, &row), -ENOTSUP);
}

static void cfa_expression_of_a_lazy_plt_entry_is_evaluated(void **state)
{
    (void)state;
    /* rsp + 8 + ((rip & 15) >= 11) * 8, as linkers write it */
    static const char program[] = "\x0f\x0b\x77\x08\x80\x00\x3f\x1a\x3b\x2a\x33\x24\x22";
    struct piano__cfi_row row;
    for (unsigned at = 0; at < 32; at++) {
        assert_int_equal(FIND(&x86, program, at, &row), 0);
        assert_cfa(&row.rule, PIANO_CFA_REGISTER, 7, at % 16 >= 11 ? 16 : 8);
    }
}

static void a_signal_frame(void **state)
{
    (void)state;
    struct spec spec = {.machine = EM_X86_64,
                        .augmentation = "zRS",
                        .augmentation_data = "\x1b",
                        .augmentation_len = 1};
    static const char program[] = "\x0f\x04\x77\xa0\x01\x06"
                                  "\x10\x06\x03\x77\xf8\x00"
                                  "\x10\x10\x03\x77\xa8\x01";
    struct piano__cfi_row row;
    assert_int_equal(FIND(&spec, program, 1, &row), 0);
    assert_cfa(&row.rule, PIANO_CFA_MEMORY, 7, 160);
    assert_at(row.rule.ra_at, row.rule.ra, PIANO_AT_SP, 21);
    assert_at(row.rule.fp_at, row.rule.fp, PIANO_AT_SP, 15);
    assert_true(row.rule.is_signal);
    assert_int_equal(FIND(&x86, program, 1, &row), 0);
    assert_false(row.rule.is_signal);
}

static void augmentations(void **state)
{
    (void)state;
    struct piano__cfi_row row;
    struct spec cxx = {.machine = EM_X86_64,
                       .augmentation = "zPLR",
                       .augmentation_data = "\x9b\x01\x02\x03\x04\x1b\x1b",
                       .augmentation_len = 7};
    assert_int_equal(FIND(&cxx, "\x0e\x10", 0, &row), 0);
    assert_int_equal(row.rule.cfa_offset, 16);
    struct spec none = {.machine = EM_X86_64,
                        .augmentation = "zPR",
                        .augmentation_data = "\xff\x1b",
                        .augmentation_len = 2}; /* a personality left out */
    assert_int_equal(FIND(&none, "\x0e\x10", 0, &row), 0);
    struct spec foreign = {.machine = EM_X86_64,
                           .augmentation = "zQR",
                           .augmentation_data = "\x1b\x1b",
                           .augmentation_len = 2};
    assert_int_equal(FIND(&foreign, "\x0e\x10", 0, &row), -EINVAL);
    struct spec old = {.machine = EM_X86_64,
                       .augmentation = "eh",
                       .augmentation_data = "\0\0\0\0\0\0\0\0",
                       .augmentation_len = 8};
    assert_int_equal(FIND(&old, "\x0e\x10", 0, &row), -EINVAL);
    struct spec indirect = {.machine = EM_X86_64,
                            .augmentation = "zR",
                            .augmentation_data = "\x9b",
                            .augmentation_len = 1};
    assert_int_equal(FIND(&indirect, "\x0e\x10", 0, &row), -EINVAL);
    struct spec short_data = {.machine = EM_X86_64,
                              .augmentation = "zPLR",
                              .augmentation_data = "\x9b\x01",
                              .augmentation_len = 2};
    assert_int_equal(FIND(&short_data, "\x0e\x10", 0, &row), -EINVAL);
    for (uint8_t version = 1; version < 6; version++) {
        struct spec spec = {.machine = EM_X86_64, .version = version};
        bool known = version == 1 || version == 3 || version == 4;
        assert_int_equal(FIND(&spec, "\x0e\x10", 0, &row), known ? 0 : -EINVAL);
    }
    struct spec key_b = {.machine = EM_AARCH64,
                         .augmentation = "zRB",
                         .augmentation_data = "\x1b",
                         .augmentation_len = 1};
    assert_int_equal(FIND(&key_b, "\x0e\x10", 0, &row), 0);
    struct spec machine = {.machine = EM_RISCV};
    assert_int_equal(FIND(&machine, "\x0e\x10", 0, &row), -EINVAL);
}

static void aarch64_rows(void **state)
{
    (void)state;
    /* paciasp; stp x29,x30,[sp,-32]!; mov x29,sp; ...; ldp; autiasp; ret */
    static const char program[] = "\x44\x2d\x44\x0e\x20\x9d\x04\x9e\x03"
                                  "\x44\x0d\x1d"
                                  "\x50\xde\xdd\x0c\x1f\x00\x44\x2d";
    struct piano__cfi_row row;
    assert_int_equal(FIND(&arm, program, 0, &row), 0);
    assert_cfa(&row.rule, PIANO_CFA_REGISTER, 31, 0);
    assert_at(row.rule.ra_at, 0, PIANO_AT_REGISTER, 0);
    assert_int_equal(FIND(&arm, program, 8, &row), 0);
    assert_cfa(&row.rule, PIANO_CFA_REGISTER, 31, 32);
    assert_at(row.rule.fp_at, row.rule.fp, PIANO_AT_CFA, -4);
    assert_at(row.rule.ra_at, row.rule.ra, PIANO_AT_CFA, -3);
    assert_int_equal(FIND(&arm, program, 12, &row), 0);
    assert_cfa(&row.rule, PIANO_CFA_REGISTER, 29, 32);
    assert_int_equal(FIND(&arm, program, 28, &row), 0);
    assert_cfa(&row.rule, PIANO_CFA_REGISTER, 31, 0);
    assert_at(row.rule.ra_at, 0, PIANO_AT_REGISTER, 0);
    /* a frame of 128 KB, its pair of registers at the near end */
    assert_int_equal(FIND(&arm, "\x0e\x80\x80\x08\x9d\x80\x80\x01\x9e\xff\x7f", 0, &row), 0);
    assert_at(row.rule.fp_at, row.rule.fp, PIANO_AT_CFA, -16384);
    assert_at(row.rule.ra_at, row.rule.ra, PIANO_AT_CFA, -16383);
    assert_int_equal(FIND(&arm, "\x07\x1e", 0, &row), 0);
    assert_at(row.rule.ra_at, 0, PIANO_AT_NOWHERE, 0);
    struct spec in_x15 = {.machine = EM_AARCH64, .ra = "\x0f"};
    assert_int_equal(FIND(&in_x15, "\x44\x0e\x10", 0, &row), -ENOTSUP);
    assert_int_equal(row.end, FUNCTION + 4);
    assert_int_equal(FIND(&arm, "\x9e\x80\x80\x20", 0, &row), -ENOTSUP); /* 4 MB away */
}

static void addresses_are_relative_to_the_load_address(void **state)
{
    (void)state;
    struct image im = image_make(&x86, "\x0e\x10", 2);
    struct piano__cfi_row row;
    uint64_t start;
    im.cfi.address += 0x7f0000000000;
    im.cfi.header += 0x7f0000000000;
    assert_int_equal(piano__cfi_find(&im.cfi, FUNCTION, &row), -ENOENT);
    assert_int_equal(piano__cfi_find(&im.cfi, 0x7f0000000000 + FUNCTION, &row), 0);
    assert_int_equal(row.rule.cfa_offset, 16);
    assert_int_equal(piano__cfi_count(&im.cfi), 1);
    assert_int_equal(piano__cfi_function(&im.cfi, 0, &start), 0);
    assert_int_equal(start, 0x7f0000000000 + FUNCTION);
    assert_int_equal(piano__cfi_function(&im.cfi, 1, &start), -ENOENT);
    im.cfi.header = 1;
    assert_int_equal(piano__cfi_find(&im.cfi, FUNCTION, &row), -EINVAL);
    assert_int_equal(piano__cfi_count(&im.cfi), -EINVAL);
    free(im.bytes);
}

static void truncated_tables_are_refused_or_read_correctly(void **state)
{
    (void)state;
    static const char program[] = "\x41\x0e\x10\x86\x02\x43\x0d\x06\x02\x40\x0c\x07\x08";
    struct image im = image_make(&x86, program, sizeof program - 1);
    struct piano__cfi_row row;
    for (size_t size = 0; size < im.len; size++) {
        unsigned char *cut = malloc(size ? size : 1);
        assert_non_null(cut);
        memcpy(cut, im.bytes, size);
        struct piano__cfi cfi = im.cfi;
        cfi.bytes = cut;
        cfi.size = size;
        assert_int_equal(piano__cfi_find(&cfi, FUNCTION + 4, &row), -EINVAL);
        free(cut);
    }
    free(im.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_a_function_with_a_frame_pointer_are_found),
        cmocka_unit_test(remember_and_restore_state_are_applied),
        cmocka_unit_test(advances_of_every_size_are_applied),
        cmocka_unit_test(saved_registers_are_found_by_every_kind_of_rule),
        cmocka_unit_test(return_address_register_follows_its_rule),
        cmocka_unit_test(cfa_is_computed_by_every_kind_of_rule),
        cmocka_unit_test(cfa_expression_of_a_lazy_plt_entry_is_evaluated),
        cmocka_unit_test(a_signal_frame),
        cmocka_unit_test(augmentations),
        cmocka_unit_test(aarch64_rows),
        cmocka_unit_test(addresses_are_relative_to_the_load_address),
        cmocka_unit_test(truncated_tables_are_refused_or_read_correctly),
    };
    return cmocka_run_group_tests_name("cfi", tests, NULL, NULL);
}
