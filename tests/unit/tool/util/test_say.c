/* Text for a terminal: no name from a run file may send it an escape sequence. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "tool/util/say.h"

static void escapes_become_visible(void **state)
{
    (void)state;
    static const struct {
        const char *raw, *safe;
    } cases[] = {
        {"a\033[31mb\r\n", "a\\x1b[31mb\\x0d\\x0a"},
        {"Gr\303\266\303\237e", "Gr\303\266\303\237e"}, /* good UTF-8 stays */
        {"\377x\303", "\\xffx\\xc3"},                   /* bad UTF-8 shows */
        {"a\342\200\256b", "a\\u{202e}b"},              /* right-to-left override */
        {"\302\2332J", "\\u{9b}2J"},                    /* the one-byte form of ESC [ */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char safe[128];
        assert_string_equal(say_safe(safe, sizeof safe, cases[i].raw), cases[i].safe);
    }
}

static void escaped_text_never_exceeds_the_buffer(void **state)
{
    (void)state;
    for (size_t size = 1; size < 12; size++) {
        char *room = malloc(size); /* exact size, so that ASan detects one byte more */
        assert_non_null(room);
        say_safe(room, size, "ab\x1b\xc3\xa9\xf0\x9f\x98\x80");
        assert_true(strlen(room) < size);
        free(room);
    }
}

/* Appends the output of the terminal FD so far to TEXT. */
static const char *read_more(int fd, char *text, size_t size)
{
    size_t len = strlen(text);
    ssize_t got = read(fd, text + len, size - 1 - len);
    text[len + (got > 0 ? (size_t)got : 0)] = '\0';
    return text;
}

/* A progress line is not rewritten if its text stays the same, because it would flicker. */
static void progress_is_written_once(void **state)
{
    (void)state;
    static char text[65536];
    int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK), kept = dup(STDERR_FILENO);
    assert_true(terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
    int far = open(ptsname(terminal), O_RDWR | O_NOCTTY);
    assert_true(far >= 0 && dup2(far, STDERR_FILENO) >= 0);
    while (!strstr(read_more(terminal, text, sizeof text), "reading"))
        say_progress("reading");
    for (int i = 0; i < 100; i++)
        say_progress("reading");
    say_progress("naming");
    while (!strstr(read_more(terminal, text, sizeof text), "naming"))
        continue;
    say_progress_done();
    dup2(kept, STDERR_FILENO);
    close(kept);
    close(far);
    close(terminal);
    assert_null(strstr(strstr(text, "reading") + 1, "reading"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(escapes_become_visible),
        cmocka_unit_test(escaped_text_never_exceeds_the_buffer),
        cmocka_unit_test(progress_is_written_once),
    };
    return cmocka_run_group_tests_name("say", tests, NULL, NULL);
}
