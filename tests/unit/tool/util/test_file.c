/* Opening files that may be anything: a FIFO does not block, and only regular files are read. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "tool/util/file.h"

static char dir[] = "/tmp/piano-file-XXXXXX";

static int enter(void **state)
{
    (void)state;
    return mkdtemp(dir) && chdir(dir) == 0 ? 0 : -1;
}

static int leave(void **state)
{
    static const char *const names[] = {"pipe", "link", "text", "empty"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unlink(names[i]);
    return rmdir(dir);
}

static void put(const char *name, const char *text)
{
    FILE *out = fopen(name, "w");
    assert_non_null(out);
    fputs(text, out);
    fclose(out);
}

static void only_regular_files_are_opened(void **state)
{
    (void)state;
    alarm(20); /* the old open waited for a writer */
    assert_int_equal(mkfifo("pipe", 0600), 0);
    assert_int_equal(file_open("pipe", O_RDONLY), -EINVAL);
    assert_int_equal(file_open("pipe", O_RDWR | O_NOFOLLOW), -EINVAL);
    assert_int_equal(file_open("/dev/null", O_RDONLY), -EINVAL);
    assert_int_equal(file_open(".", O_RDONLY), -EINVAL);
    assert_int_equal(file_open("absent", O_RDONLY), -ENOENT);
}

static void link_is_followed_unless_the_file_is_our_own(void **state)
{
    (void)state;
    put("text", "abc");
    assert_int_equal(symlink("text", "link"), 0);
    int fd = file_open("link", O_RDONLY);
    assert_true(fd >= 0);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    close(fd);
    assert_int_equal(file_open("link", O_RDONLY | O_NOFOLLOW), -ELOOP);
}

static void files_are_mapped_and_copied(void **state)
{
    (void)state;
    struct file_map m;
    put("text", "abc");
    put("empty", "");
    assert_int_equal(file_map(&m, "text"), 0);
    assert_int_equal(m.len, 3);
    assert_memory_equal(m.data, "abc", 3);
    file_unmap(&m);
    assert_int_equal(file_copy(&m, "text", 3), 0);
    assert_int_equal(m.len, 3);
    assert_memory_equal(m.data, "abc", 3);
    assert_int_equal((uintptr_t)m.data % 4096, 0);
    file_unmap(&m);
    assert_int_equal(file_copy(&m, "text", 2), -EFBIG);
    assert_null(m.data);
    assert_int_equal(file_map(&m, "empty"), 0);
    assert_null(m.data);
    assert_int_equal(file_copy(&m, "empty", 3), 0);
    assert_null(m.data);
    file_unmap(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_regular_files_are_opened),
        cmocka_unit_test(link_is_followed_unless_the_file_is_our_own),
        cmocka_unit_test(files_are_mapped_and_copied),
    };
    return cmocka_run_group_tests_name("file", tests, enter, leave);
}
