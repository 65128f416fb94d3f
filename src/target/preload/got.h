/* Redirecting calls of modules that are already loaded. */
#ifndef PIANO_TARGET_PRELOAD_GOT_H
#define PIANO_TARGET_PRELOAD_GOT_H

#include <stddef.h>

struct piano__redirect {
    const char *name;
    void *from; /* what the name means to the program now */
    void *to;
};

/* In every loaded module but the runtime's own and the one that holds REDIRECTS[0].from, entries of the global
 * offset table that lead to `from` are made to lead to `to`. Entries bound to anything else stay. */
void piano__got_redirect(const struct piano__redirect *redirects, size_t count);

#endif
