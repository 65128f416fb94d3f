/* The modules of the dynamic linker, for a glibc before 2.35, which has no _dl_find_object. Lock-free and signal-safe. */
#ifndef PIANO_TARGET_UNWIND_LOADED_H
#define PIANO_TARGET_UNWIND_LOADED_H

#include <stdbool.h>
#include <stdint.h>

struct piano__loaded {
    uintptr_t start, end; /* of all its segments together */
    uintptr_t bias;
    uintptr_t eh_frame_hdr; /* 0 none */
    const char *name;       /* of the program itself, it is empty */
};

/* False when PC is in no module, or in one beyond those there is room for. */
bool piano__loaded_find(uintptr_t pc, struct piano__loaded *out);

/* To be called when a library has been unloaded: the list is read anew. */
void piano__loaded_forget(void);

#endif
