/* The kernel's list of mappings, with file names that look like lines of the list. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "target/sys/maps.h"
#include "temp.h"

enum { PAGE = 4096, DIRS = 3, NAME = 250 };

static void *map(int flags, int fd, size_t size)
{
    void *p = mmap(NULL, size, PROT_READ, MAP_PRIVATE | flags, fd, 0);
    assert_true(p != MAP_FAILED);
    return p;
}

static void test_mappings_of_every_kind_are_read(void **state)
{
    (void)state;
    struct piano__maps_range range;
    int fd = open("/proc/self/exe", O_RDONLY);
    char *file = map(0, fd, PAGE), *none = map(MAP_ANONYMOUS, -1, 4 * PAGE);
    assert_true(piano__maps_find(&range, (uintptr_t)file));
    assert_true(range.is_file);
    assert_true(piano__maps_find(&range, (uintptr_t)none + PAGE + 5));
    assert_false(range.is_file);
    assert_true(range.low <= (uintptr_t)none && range.high >= (uintptr_t)none + 4 * PAGE);
    assert_true(piano__maps_find(&range, (uintptr_t)&range));
    assert_false(piano__maps_find(&range, 5));
    munmap(file, PAGE);
    munmap(none, 4 * PAGE);
    close(fd);
}

/* A buffer may end anywhere in it; it contains zeroes, a dash and the largest address. */
static void test_file_names_that_look_like_mappings_are_read_as_names(void **state)
{
    (void)state;
    static const char tail[] = "-ffffffffffffffff";
    char path[PAGE], name[NAME + 1] = "";
    struct piano__maps_range range;
    assert_non_null(mkdtemp(temp_name(path, sizeof path, "piano_maps_XXXXXX")));
    size_t base = strlen(path);
    memset(name, '0', NAME);
    memcpy(name + NAME - (sizeof tail - 1), tail, sizeof tail - 1);
    for (int i = 0; i < DIRS; i++) {
        strcat(strcat(path, "/"), name);
        if (i < DIRS - 1)
            assert_int_equal(mkdir(path, 0700), 0);
    }
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, PAGE), 0);
    char *file = map(0, fd, PAGE);
    assert_true(piano__maps_find(&range, (uintptr_t)file));
    assert_true(range.is_file && range.low == (uintptr_t)file && range.high == range.low + PAGE);
    assert_false(piano__maps_find(&range, 5));
    munmap(file, PAGE);
    close(fd);
    unlink(path);
    for (int i = 0; i < DIRS; i++) {
        *strrchr(path, '/') = '\0';
        rmdir(path);
    }
    assert_int_equal(strlen(path), base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mappings_of_every_kind_are_read),
        cmocka_unit_test(test_file_names_that_look_like_mappings_are_read_as_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
