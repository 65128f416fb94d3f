/* Downloads files from the user's debuginfod servers by build-id. Only if DEBUGINFOD_URLS is
 * set. */
#ifndef PIANO_TOOL_SYMBOL_DEBUGINFOD_H
#define PIANO_TOOL_SYMBOL_DEBUGINFOD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct debuginfod {
    void (*say)(void *ctx, const char *what); /* may be NULL */
    void *ctx;
    /* Private state. */
    void *library, *client;
    bool tried, off;
    const char *what;
    long bytes;
    int64_t moved_ms, spent_ms, began_ms;
};

enum debuginfod_kind { DEBUGINFOD_DEBUG, DEBUGINFOD_PROGRAM };

/* Returns a descriptor of the file with build-id ID, or -1. WHAT: the module's name for progress
 * messages. */
int debuginfod_fetch(struct debuginfod *d, enum debuginfod_kind kind, const uint8_t *id,
                     size_t id_len, const char *what);
void debuginfod_release(struct debuginfod *d);

#endif
