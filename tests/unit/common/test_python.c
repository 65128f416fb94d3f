/* What both halves know about CPython: the line table of a code object, and the text of a `str`. Also reads of objects
 * that may not exist. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "emulated.h"
#include "common/python.h"
#include "target/unwind/memory.h"

static void test_python_pc_holds_code_and_instruction(void **state)
{
    (void)state;
    uint64_t pc = piano__python_pc(77, 1234);
    assert_true(piano__python_is(pc));
    assert_int_equal(piano__python_code_of(pc), 77);
    assert_int_equal(piano__python_instruction_of(pc), 1234);
    pc = piano__python_pc(PIANO_PYTHON_MOST, UINT32_MAX);
    assert_true(piano__python_is(pc));
    assert_int_equal(piano__python_code_of(pc), PIANO_PYTHON_MOST);
    assert_int_equal(piano__python_instruction_of(pc), PIANO_PYTHON_MOST);
    assert_false(piano__python_is(0x00007fffffffffff));
    assert_false(piano__python_is(0xffff800000000000));
    assert_false(piano__python_is(0));
}

/* One entry of each kind. The first byte: kind << 3, instructions less one, and bit 7. */
static void test_line_table_entries_of_every_kind_are_read(void **state)
{
    (void)state;
    static const uint8_t table[] = {
        0x80 | 13 << 3 | 0, 0x00,                         /* 0: line 10 */
        0x80 | 3 << 3 | 1,  0x11,                         /* 1, 2: the same line */
        0x80 | 11 << 3 | 0, 0x01, 0x02,                   /* 3: one more */
        0x80 | 12 << 3 | 0, 0x01, 0x02,                   /* 4: two more */
        0x80 | 14 << 3 | 2, 0x4a, 0x01, 0x00, 0x02, 0x03, /* 5 to 7: 37 more, in two bytes */
        0x80 | 15 << 3 | 0,                               /* 8: none */
        0x80 | 13 << 3 | 0, 0x03,                         /* 9: one less */
        0x80 | 10 << 3 | 7, 0x01, 0x02,                   /* 10 to 17: the same */
    };
    static const unsigned lines[] = {10, 10, 10, 11, 13, 50, 50, 50, 0, 49,
                                     49, 49, 49, 49, 49, 49, 49, 49, 0};
    for (uint32_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        assert_int_equal(piano__python_line(10, table, sizeof table, i), lines[i]);
    assert_int_equal(piano__python_line(10, table, 0, 0), 0);
}

/* Truncated anywhere, and bytes that are not a table: decoding ends, and reads nothing outside. */
static void test_random_line_tables_do_not_crash_the_reader(void **state)
{
    (void)state;
    srand(3);
    for (int turn = 0; turn < 20000; turn++) {
        size_t len = (size_t)rand() % 40;
        uint8_t *table = malloc(len ? len : 1);
        for (size_t i = 0; i < len; i++)
            table[i] = (uint8_t)(rand() >> 7);
        unsigned line = piano__python_line((uint32_t)rand(), table, len, (uint32_t)rand() % 64);
        assert_true(line <= INT32_MAX);
        free(table);
    }
}

static void expect_text(const void *chars, size_t len, unsigned width, const char *wanted)
{
    char text[64];
    assert_int_equal(piano__python_text(chars, len, width, text, sizeof text), strlen(wanted));
    assert_string_equal(text, wanted);
}

static void test_str_of_every_width_becomes_utf8(void **state)
{
    (void)state;
    static const uint16_t two[] = {0x6570, 'x', 0xdcff, 0xd800};
    static const uint32_t four[] = {0x1f40d, 'y', 0x110000};
    expect_text("plain", 5, 1, "plain");
    expect_text("gr\xf6\xdf"
                "e",
                5, 1,
                "gr\xc3\xb6\xc3\x9f"
                "e");
    expect_text(two, sizeof two, 2, "\xe6\x95\xb0x\xff\xef\xbf\xbd");
    expect_text(four, sizeof four, 4, "\xf0\x9f\x90\x8dy\xef\xbf\xbd");
    expect_text("a\0b", 3, 1, "a b");
    expect_text("odd", 3, 3, "");
    expect_text("odd", 3, 0, "");
    char small[4];
    assert_int_equal(piano__python_text("\xf6\xf6\xf6", 3, 1, small, sizeof small), 2);
    assert_string_equal(small, "\xc3\xb6");
    assert_int_equal(piano__python_text("abc", 3, 1, small, 0), 0);
}

/* A part of it is not mapped: the part before it is read. */
static void test_memory_gather_stops_at_unreadable_memory(void **state)
{
    (void)state;
    need_vm_readv();
    const size_t page = 4096;
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pages != MAP_FAILED);
    memcpy(pages, "first", 5);
    memcpy(pages + page - 4, "last", 4);
    assert_int_equal(mprotect(pages + page, page, PROT_NONE), 0);
    char one[5] = "", two[4] = "", three[4] = "", four[5] = "";
    const struct iovec to[] = {{one, 5}, {two, 4}, {three, 4}, {four, 5}};
    const struct iovec from[] = {
        {pages, 5}, {pages + page - 4, 4}, {pages + page - 2, 4}, {pages, 5}};
    assert_int_equal(piano__memory_gather(to, from, 4), 2);
    assert_memory_equal(one, "first", 5);
    assert_memory_equal(two, "last", 4);
    assert_int_equal(piano__memory_gather(to, from, 0), 0);
    assert_int_equal(piano__memory_gather(to, (const struct iovec[]){{NULL, 5}}, 1), 0);
    munmap(pages, 2 * page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_python_pc_holds_code_and_instruction),
        cmocka_unit_test(test_line_table_entries_of_every_kind_are_read),
        cmocka_unit_test(test_random_line_tables_do_not_crash_the_reader),
        cmocka_unit_test(test_str_of_every_width_becomes_utf8),
        cmocka_unit_test(test_memory_gather_stops_at_unreadable_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
