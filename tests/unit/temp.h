/* Files of unit tests: tests/run sets TMPDIR to a directory that it removes after the test, also if the test fails. */
#ifndef PIANO_TESTS_UNIT_TEMP_H
#define PIANO_TESTS_UNIT_TEMP_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Writes TMPDIR/NAME to PATH and returns it; /tmp/NAME if that is too long. */
static inline char *temp_name(char *path, size_t size, const char *name)
{
    const char *dir = getenv("TMPDIR");
    if (!dir || !*dir || strlen(dir) + strlen(name) + 2 > size)
        dir = "/tmp";
    snprintf(path, size, "%s/%s", dir, name);
    return path;
}

#endif
