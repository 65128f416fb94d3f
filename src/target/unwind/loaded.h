/* The modules of the dynamic linker, for glibc before 2.35, which lacks _dl_find_object. Lock-free
 * and signal-safe. */
#ifndef PIANO_TARGET_UNWIND_LOADED_H
#define PIANO_TARGET_UNWIND_LOADED_H

#include <stdbool.h>
#include <stdint.h>

struct piano__loaded {
    uintptr_t start, end; /* range of all its segments */
    uintptr_t bias;
    uintptr_t eh_frame_hdr; /* 0: none */
    const char *name;       /* empty for the program itself */
};

/* Returns false if PC is in no module, or in one that did not fit into the table. */
bool piano__loaded_find(uintptr_t pc, struct piano__loaded *out);

/* Call these before and after dlclose. In between, the list is read anew each time. */
void piano__loaded_unload_begins(void);
void piano__loaded_unload_ended(void);

/* Reads the list again. Call it after a library has been unloaded. */
void piano__loaded_forget(void);

#endif
