/* Recognises runs by their first bytes. A run is JSON: an object with `format_version` or
 * `functions` near its beginning. Any other file gets the best description its first bytes
 * allow. */
#include "tool/load/foreign.h"
#include "tool/util/file.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

enum { GLANCE = 4096 };

static bool begins(const char *data, size_t len, const char *with)
{
    size_t n = strlen(with);
    return len >= n && memcmp(data, with, n) == 0;
}

static bool holds(const char *data, size_t len, const char *what)
{
    return memmem(data, len, what, strlen(what)) != NULL;
}

/* Returns whether DATA has control characters that do not occur in text. */
static bool is_binary(const char *data, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)data[i];
        if (c < 0x20 && !strchr("\t\n\r\f\b\x1b", c))
            return true;
    }
    return memchr(data, '\0', len) != NULL;
}

static const char *known_kind(const char *data, size_t len)
{
    static const struct {
        const char *magic, *what;
    } kinds[] = {
        {"\x7f"
         "ELF",
         "an ELF file: a program, a library or a core"},
        {"\x1f\x8b", "a gzip file: gunzip it first"},
        {"\x28\xb5\x2f\xfd", "a zstd file: unzstd it first"},
        {"\xfd"
         "7zXZ",
         "an xz file: unxz it first"},
        {"PERFILE2", "a perf.data file"},
        {"heap profile:", "a heap profile of gperftools or jemalloc"},
        {"heap_v2/", "a heap profile of jemalloc"},
        {"SQLite format 3", "a database of SQLite"},
        {"PK\x03\x04", "a zip file"},
        {"#!", "a script"},
        {"events: ", "a profile of callgrind"},
        {"desc: ", "a profile of valgrind"},
        {"<", "XML or HTML"},
    };
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
        if (begins(data, len, kinds[i].magic))
            return kinds[i].what;
    return NULL;
}

const char *foreign_kind(const char *data, size_t len)
{
    size_t at = 0;
    const char *known = known_kind(data, len);
    if (known)
        return known;
    while (at < len && strchr(" \t\r\n", data[at]) && data[at])
        at++;
    if (at == len)
        return "empty, or blank";
    size_t glance = len < GLANCE ? len : GLANCE;
    if (is_binary(data, glance))
        return "binary data";
    if (data[at] == '[')
        return "JSON, but a list and not a run";
    if (data[at] != '{')
        return "text";
    bool whole = len <= GLANCE; /* otherwise the keys may come later */
    if (holds(data, glance, "\"format_version\"") || holds(data, glance, "\"functions\"") ||
        holds(data, glance, "\"run_id\"") || (!whole && holds(data, len, "\"functions\"")))
        return NULL;
    return holds(data, glance, "\"$schema\"") || holds(data, glance, "\"traceEvents\"")
               ? "JSON of another profiler, or an export"
               : "JSON of something else";
}

const char *foreign_kind_of(const char *path)
{
    char data[GLANCE];
    int fd = file_open(path, O_RDONLY);
    ssize_t got = fd >= 0 ? pread(fd, data, sizeof(data), 0) : -1;
    if (fd >= 0)
        close(fd);
    return got < 0 ? NULL : foreign_kind(data, (size_t)got);
}
