/* Some executables have many names: Debian's redis-server is a link to redis-check-rdb, and busybox
 * has hundreds of links. The name of the executable says little then. */
#include "tool/util/program.h"

#include <stdio.h>
#include <string.h>

#include "tool/util/paths.h"

const char *program_called(char *text, size_t size, const char *program, const char *command)
{
    size_t len = strcspn(command, " \t\n"); /* a server may put its whole title here */
    int most = len < size ? (int)len : (int)size - 1;
    const char *own = paths_base(program);
    snprintf(text, size, "%.*s", most, command);
    const char *called = paths_base(text);
    size_t given = strlen(called);
    /* A quote, or a name cut at a space: not the name of a program. */
    if (given == 0 || called[given - 1] == '/' || called[given - 1] == ':' ||
        strpbrk(called, "'\"") || strncmp(command, program, strlen(program)) == 0)
        snprintf(text, size, "%s", own);
    else
        memmove(text, called, given + 1);
    return text;
}
