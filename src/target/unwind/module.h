/* Finds the program, library or vdso that contains an address. Lock-free and signal-safe: uses
 * _dl_find_object of glibc 2.35, or a copy of the dynamic linker's list (loaded.h). */
#ifndef PIANO_TARGET_UNWIND_MODULE_H
#define PIANO_TARGET_UNWIND_MODULE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/cfi.h"

struct piano__module_info {
    uintptr_t start, end; /* range of all its segments */
    uintptr_t bias;       /* address in memory - address in the file */
    const char *path;     /* never NULL; for a library, valid while it is loaded */
    uint8_t build_id[32];
    uint32_t build_id_len; /* 0 if it has none */
};

/* Returns false if PC is in no module. */
bool piano__module_find(uintptr_t pc, struct piano__module_info *out);

/* Finds the call frame information for PC, with size 0 if the module has none. Returns false if PC
 * is in no module. */
bool piano__module_cfi(uintptr_t pc, struct piano__cfi *cfi);

/* Returns whether the LEN bytes before PC are readable code of a module. */
bool piano__module_has_code(uintptr_t pc, uintptr_t len);

/* Call these before and after dlclose. */
void piano__module_unload_begins(void);
void piano__module_unload_ended(void);

/* Call it after a library was unloaded. */
void piano__module_unloaded(void);

/* Finds the range of libpiano.so. Returns false if this code is linked into something else. */
bool piano__module_own(uintptr_t *start, uintptr_t *end);

#endif
