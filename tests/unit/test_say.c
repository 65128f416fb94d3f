/* What reaches a terminal: no name from a run file may carry an escape to it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
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

static void a_small_room_is_never_left(void **state)
{
    (void)state;
    for (size_t size = 1; size < 12; size++) {
        char *room = malloc(size); /* exactly: one byte more is seen by ASan */
        assert_non_null(room);
        say_safe(room, size, "ab\x1b\xc3\xa9\xf0\x9f\x98\x80");
        assert_true(strlen(room) < size);
        free(room);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(escapes_become_visible),
        cmocka_unit_test(a_small_room_is_never_left),
    };
    return cmocka_run_group_tests_name("say", tests, NULL, NULL);
}
