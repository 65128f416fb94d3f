/* The files of a program that replaces itself by exec: FILE, then FILE.2, FILE.3. When the last one
 * has ended, its recording is renamed to FILE, and the first one to FILE.1. */
#include "tool/load/recording.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

uint32_t recording_process(const char *path)
{
    struct piano__rec_header h = {.pid = 0};
    const size_t size = offsetof(struct piano__rec_header, flags);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    bool is_one = fd >= 0 && pread(fd, &h, size, 0) == (ssize_t)size &&
                  memcmp(h.magic, PIANO_REC_MAGIC, sizeof(h.magic)) == 0;
    if (fd >= 0)
        close(fd);
    return is_one ? h.pid : 0;
}

/* Is FILE.N a recording of the same process as FILE? */
static bool is_there(const char *base, unsigned number)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s.%u", base, number);
    uint32_t pid = recording_process(path);
    return pid > 0 && pid == recording_process(base);
}

/* Bytes of PATH before a suffix ".N"; 0: it has none. */
static size_t stem_of(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot && dot[1] && dot[1 + strspn(dot + 1, "0123456789")] == '\0' ? (size_t)(dot - path)
                                                                           : 0;
}

char *recording_latest(const char *base)
{
    char *path = NULL;
    unsigned number = 1;
    if (stem_of(base) > 0 && recording_process(base) == 0) /* it was renamed at the end */
        return strndup(base, stem_of(base));
    while (!is_there(base, 1) && is_there(base, number + 1))
        number++;
    if (number == 1)
        return strdup(base);
    return asprintf(&path, "%s.%u", base, number) < 0 ? NULL : path;
}
