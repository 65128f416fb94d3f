/* The program, library or vdso that an address belongs to. Lock-free and signal-safe, by _dl_find_object of glibc 2.35,
 * or by a copy of the dynamic linker's list (loaded.h). */
#ifndef PIANO_TARGET_UNWIND_MODULE_H
#define PIANO_TARGET_UNWIND_MODULE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/cfi.h"

struct piano__module_info {
    uintptr_t start, end; /* of all its segments together */
    uintptr_t bias;       /* address in memory - address in the file */
    const char *path;     /* never NULL; of a library, it lives as long as that is loaded */
    uint8_t build_id[32];
    uint32_t build_id_len; /* 0 when it has none */
};

/* False when PC is in none. */
bool piano__module_find(uintptr_t pc, struct piano__module_info *out);

/* Its call frame information; one of size 0 when it has none. */
bool piano__module_cfi(uintptr_t pc, struct piano__cfi *cfi);

/* Whether the LEN bytes before PC are its code, and may be read. */
bool piano__module_has_code(uintptr_t pc, uintptr_t len);

/* To be called after a library was unloaded. */
void piano__module_unloaded(void);

/* The addresses of libpiano.so; false when this code is linked into something else. */
bool piano__module_own(uintptr_t *start, uintptr_t *end);

#endif
