/* Replaces functions of the executable while the process starts: their entries jump to hooks. */
#ifndef PIANO_TARGET_ENTRY_PATCH_H
#define PIANO_TARGET_ENTRY_PATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "target/entry/symbols.h"

/* A function to replace. */
struct piano__patch_entry {
    uintptr_t at;
    size_t size; /* of the function */
    size_t room; /* until the next function begins */
    uintptr_t hook;
    uintptr_t *next; /* receives the address of the copy, which does what the function did */
};

/* Other code of these functions: the compiler puts unlikely parts elsewhere. */
struct piano__patch_part {
    uintptr_t at;
    size_t size;
};

struct piano__patch {
    const struct piano__patch_entry *entries;
    size_t count;
    const struct piano__patch_part *parts;
    size_t part_count;
};

enum { PIANO_PATCH_MOST = 192 };

/* Replaces all functions or none. Returns 0 or a negative errno; `next` means nothing then:
 *   -EILSEQ  the code of a function cannot be moved safely
 *   -EBUSY   the process has several threads, so one of them may be running that code
 *   -EACCES  the system does not allow to change code
 *   -ENOMEM  no free memory near enough
 *   -E2BIG   too many functions */
int piano__patch(const struct piano__patch *patch, const struct piano__symbols *symbols);

/* Threads are ignored: those of an emulator run no code of the program. */
extern bool piano__patch_threads_for_tests;

#endif
