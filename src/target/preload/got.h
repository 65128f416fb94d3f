/* Redirects calls of modules that are already loaded. */
#ifndef PIANO_TARGET_PRELOAD_GOT_H
#define PIANO_TARGET_PRELOAD_GOT_H

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

#endif
