/* The programs and libraries that addresses in the recording lie in, so that they can be named later; for stacks, and for
 * whatever else has an address in it. Any thread. */
#ifndef PIANO_TARGET_RECORD_MODULES_H
#define PIANO_TARGET_RECORD_MODULES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/recording.h"
#include "target/unwind/module.h"

/* The module at PC is in the recording from now on. The caller must not be left by a fork in the middle of it: it is `inside`
 * (trace/events.h, heap/heap.h). */
void piano__modules_note(uintptr_t pc);
/* Those of COUNT return addresses; false when another thread was at it for too long. */
bool piano__modules_note_all(const uint64_t *pcs, uint32_t count);
/* The generation COUNT return addresses belong to together, see modules.c; lock-free but for addresses that a library has
 * left since. */
uint32_t piano__modules_generation(const uint64_t *pcs, uint32_t count);
/* Libraries may have been unloaded: their addresses may mean something else from now on. */
void piano__modules_unloaded(void);
/* The recording is another one, or none. */
void piano__modules_forget(void);

/* A record of the log, for whoever has one of his own: INFO is good for the stacks of generations SINCE to UNTIL. ROOM of PATH_MAX
 * bytes is for its path: a library that was loaded as ./x.so has that for a name, and is made whole as long as the directory is still the
 * same. */
const char *piano__module_path(const struct piano__module_info *info, char *room);
uint32_t piano__module_bytes(const char *path);
void piano__module_fill(struct piano__module *m, const struct piano__module_info *info,
                        const char *path, uint32_t since, uint32_t until);

#endif
