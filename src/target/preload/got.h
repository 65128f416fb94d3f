/* Redirects calls of modules that are already loaded. */
#ifndef PIANO_TARGET_PRELOAD_GOT_H
#define PIANO_TARGET_PRELOAD_GOT_H

#include <stdbool.h>
#include <stddef.h>

struct piano__redirect {
    const char *name;
    void *from; /* current definition of the name in the program */
    void *to;
};

/* In every loaded module except the runtime and the one that contains REDIRECTS[0].from: makes the
 * entries of the global offset table that point to `from` point to `to`. Entries bound to anything
 * else stay. */
void piano__got_redirect(const struct piano__redirect *redirects, size_t count);

/* The same for an attached process. The module that contains ALSO, the C library, is changed too,
 * even if it contains REDIRECTS[0].from: its own calls are those of the program. BACK: makes the
 * entries that point to `to` point to `from` again. Returns the number of entries that were
 * changed. */
unsigned piano__got_redirect_late(const struct piano__redirect *redirects, size_t count,
                                  const void *also, bool back);

#endif
