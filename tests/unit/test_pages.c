/* Pieces of a file on a kernel whose pages are larger than 4 KB: a mapping begins with the page that the piece begins in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <unistd.h>

#include "target/sys/file.h"
#include "target/sys/maps.h"

enum { LARGE = 65536, PIECE = 65536 };

static void test_a_piece_in_the_middle_of_a_page(void **state)
{
    (void)state;
    char path[] = "/tmp/piano-pages-XXXXXX", byte = 0;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    unlink(path);
    piano__page_for_tests = LARGE;
    const off_t offsets[] = {0, 4096, 4096 + PIECE, 2 * LARGE};
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
        struct piano__maps_range range;
        char *at = piano__memory_map_file(fd, offsets[i], PIECE);
        assert_non_null(at);
        at[0] = at[PIECE - 1] = (char)(i + 1);
        assert_int_equal(pread(fd, &byte, 1, offsets[i]), 1);
        assert_int_equal(byte, i + 1);
        assert_int_equal(pread(fd, &byte, 1, offsets[i] + PIECE - 1), 1);
        assert_int_equal(byte, i + 1);
        assert_true(piano__maps_find(&range, (uintptr_t)at));
        assert_int_equal(((uintptr_t)at - range.low) % LARGE, offsets[i] % LARGE);
    }
    piano__page_for_tests = 0;
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_piece_in_the_middle_of_a_page)};
    return cmocka_run_group_tests_name("pages", tests, NULL, NULL);
}
