/* For tests of the reader and the reports: a run from text, and output to text. */
#ifndef PIANO_TESTS_UNIT_LOADED_H
#define PIANO_TESTS_UNIT_LOADED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool/load/run.h"
#include "temp.h"

#define HEADER(functions)                                                                          \
    "{\"format_version\":2,\"run_id\":\"7_1000\",\"timestamp_ms\":1000,\"functions\":[" functions  \
    "]}\n"

static struct run_error loaded_error;

/* Loads LEN bytes as the file TMPDIR/piano-test-XXXXXX/NAME; returns the status of `run_load`. */
static inline int loaded_bytes(struct run *run, const char *name, const char *text, size_t len,
                               const struct run_options *options)
{
    char dir[256], path[512];
    temp_name(dir, sizeof(dir), "piano-test-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(text, 1, len, f) != len || fclose(f) != 0)
        return -1;
    int err = run_load(run, path, options, &loaded_error);
    unlink(path);
    rmdir(dir);
    return err;
}

static inline int loaded(struct run *run, const char *text)
{
    return loaded_bytes(run, "1000-7.ndjson", text, strlen(text), NULL);
}

/* A stream that writes malloc'd text to *TEXT. */
static inline FILE *captured(char **text)
{
    static size_t len;
    return open_memstream(text, &len);
}

static inline const struct run_fn *fn(const struct run *run, const char *name)
{
    for (size_t i = 0; i < run->fn_count; i++)
        if (strcmp(run->fns[i].name, name) == 0)
            return &run->fns[i];
    fail_msg("no function %s", name);
    return NULL;
}

#endif
