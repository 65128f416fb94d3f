/* Call frame information from real libraries, every row of it, and from any bytes: the reader never leaves its input or
 * loops for ever. ASan and UBSan detect that, and `make test` uses them. */
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/cfi.h"
#include "tool/util/buf.h"
#include "cfi_image.h"

/* Real libraries ------------------------------------------------------------------------------------ */

/* The segment of the ELF file in FILE that has the call frame information. */
static bool elf_cfi(const struct buf *file, struct piano__cfi *cfi)
{
    Elf64_Ehdr eh;
    Elf64_Phdr ph;
    if (file->len < sizeof eh)
        return false;
    memcpy(&eh, file->data, sizeof eh);
    if (memcmp(eh.e_ident, ELFMAG, SELFMAG) != 0 || eh.e_ident[EI_CLASS] != ELFCLASS64 ||
        !piano__cfi_registers(eh.e_machine))
        return false;
    *cfi = (struct piano__cfi){.machine = eh.e_machine};
    for (int pass = 0; pass < 2; pass++) {
        for (unsigned i = 0; i < eh.e_phnum; i++) {
            memcpy(&ph, file->data + eh.e_phoff + i * sizeof ph, sizeof ph);
            if (pass == 0 && ph.p_type == PT_GNU_EH_FRAME)
                cfi->header = ph.p_vaddr;
            if (pass == 1 && ph.p_type == PT_LOAD && cfi->header - ph.p_vaddr < ph.p_filesz) {
                cfi->bytes = (const unsigned char *)file->data + ph.p_offset;
                cfi->size = ph.p_filesz;
                cfi->address = ph.p_vaddr;
            }
        }
    }
    return cfi->size > 0;
}

struct tally {
    unsigned files, functions, rows, refused;
};

static void count_rows(const struct piano__cfi *cfi, const char *path, struct tally *tally)
{
    int64_t count = piano__cfi_count(cfi);
    if (count < 0) { /* a library of data only, such as ICU's, has no table */
        print_message("%s: no table\n", path);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        struct piano__cfi_row row;
        uint64_t pc, next = UINT64_MAX;
        int err;
        assert_int_equal(piano__cfi_function(cfi, (uint64_t)i, &pc), 0);
        (void)piano__cfi_function(cfi, (uint64_t)i + 1, &next);
        tally->functions++;
        while (pc < next && (err = piano__cfi_find(cfi, pc, &row)) != -ENOENT) {
            if (err != 0 && err != -ENOTSUP)
                print_message("%s: %#lx: %d\n", path, (unsigned long)pc, err);
            assert_true(err == 0 || err == -ENOTSUP);
            assert_int_equal(row.start, pc);
            assert_true(row.end > pc);
            tally->rows++;
            tally->refused += err != 0;
            pc = row.end;
        }
    }
}

static int count_file(const char *path, struct tally *tally)
{
    struct buf file = {0};
    struct piano__cfi cfi;
    if (*path && buf_read_file(&file, path) == 0 && elf_cfi(&file, &cfi)) {
        tally->files++;
        count_rows(&cfi, path, tally);
    }
    buf_free(&file);
    return 0;
}

static int count_loaded(struct dl_phdr_info *info, size_t size, void *tally)
{
    (void)size;
    if (strstr(info->dlpi_name, "libLLVM") || strstr(info->dlpi_name, "libclang"))
        return 0; /* like the others, but 100 000 functions */
    return count_file(info->dlpi_name, tally);
}

static void rows_of_real_libraries_are_understood(void **state)
{
    (void)state;
    struct tally tally = {0};
    dl_iterate_phdr(count_loaded, &tally);
    assert_true(tally.files > 0);
    count_file("/bin/bash", &tally);
    count_file("/usr/lib/x86_64-linux-gnu/libpython3.11.so.1.0", &tally);
    count_file("/usr/bin/python3", &tally);
    print_message("# %u files, %u functions, %u rows, %u refused\n", tally.files, tally.functions,
                  tally.rows, tally.refused);
    assert_true(tally.rows > 10000);
    assert_true((uint64_t)tally.refused * 1000 < tally.rows);
}

/* Any bytes ----------------------------------------------------------------------------------------- */

static uint32_t next_random(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    return *state ^= *state << 5;
}

static void read_everywhere(const struct piano__cfi *cfi, uint32_t *random)
{
    struct piano__cfi_row row;
    uint64_t pc = FUNCTION;
    for (int i = 0; i < 8; i++) {
        int err = piano__cfi_find(cfi, pc, &row);
        if (err == 0 || err == -ENOTSUP) {
            assert_true(row.start <= pc && pc < row.end);
            assert_int_equal(row.rule.cfa == PIANO_CFA_NONE, err == -ENOTSUP);
        }
        (void)piano__cfi_function(cfi, next_random(random), &pc);
        pc = FUNCTION + next_random(random) % FUNCTION_BYTES;
    }
}

static void random_cfi_programs_do_not_crash_the_reader(void **state)
{
    (void)state;
    uint32_t random = 4711;
    char program[64];
    for (int round = 0; round < 20000; round++) {
        size_t len = next_random(&random) % sizeof program;
        for (size_t i = 0; i < len; i++)
            program[i] = (char)(next_random(&random) % (round % 2 ? 256 : 48));
        struct image im = image_make(round % 3 ? &x86 : &arm, program, len);
        read_everywhere(&im.cfi, &random);
        free(im.bytes);
    }
}

static void random_damage_does_not_crash_the_reader(void **state)
{
    (void)state;
    uint32_t random = 815;
    static const char program[] = "\x41\x0e\x10\x86\x02\x43\x0d\x06\x0f\x03\x76\x78\x06\x0a\x0b";
    for (int round = 0; round < 20000; round++) {
        struct image im = image_make(&x86, program, sizeof program - 1);
        unsigned changes = 1 + next_random(&random) % 6;
        for (unsigned i = 0; i < changes; i++)
            im.bytes[next_random(&random) % im.len] = (unsigned char)next_random(&random);
        read_everywhere(&im.cfi, &random);
        free(im.bytes);
    }
}

/* The whole table of a real program, with changed bytes. */
static void damaged_library_does_not_crash_the_reader(void **state)
{
    (void)state;
    uint32_t random = 99;
    struct buf file = {0};
    struct piano__cfi cfi;
    assert_int_equal(buf_read_file(&file, "/proc/self/exe"), 0);
    assert_true(elf_cfi(&file, &cfi));
    unsigned char *copy = malloc(cfi.size);
    assert_non_null(copy);
    memcpy(copy, cfi.bytes, cfi.size);
    cfi.bytes = copy;
    int64_t count = piano__cfi_count(&cfi);
    assert_true(count >= 0); /* some libraries are all data */
    size_t header = cfi.header - cfi.address;
    for (int round = 0; round < 20000; round++) {
        size_t from = header + 12 + (round % 2 ? (size_t)count * 8 : 0);
        copy[from + next_random(&random) % (cfi.size - from)] = (unsigned char)next_random(&random);
        struct piano__cfi_row row;
        uint64_t pc;
        if (piano__cfi_function(&cfi, next_random(&random) % (uint64_t)count, &pc) == 0)
            (void)piano__cfi_find(&cfi, pc + next_random(&random) % 64, &row);
    }
    free(copy);
    buf_free(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_real_libraries_are_understood),
        cmocka_unit_test(random_cfi_programs_do_not_crash_the_reader),
        cmocka_unit_test(random_damage_does_not_crash_the_reader),
        cmocka_unit_test(damaged_library_does_not_crash_the_reader),
    };
    return cmocka_run_group_tests_name("cfi of any kind", tests, NULL, NULL);
}
