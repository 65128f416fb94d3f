/* Records the programs and libraries that addresses in the recording belong to, so that the tool
 * can resolve them later. For stacks, and for any other addresses. Any thread. */
#ifndef PIANO_TARGET_RECORD_MODULES_H
#define PIANO_TARGET_RECORD_MODULES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/recording.h"
#include "target/unwind/module.h"

/* Records the module at PC. The caller must have set `inside` (trace/events.h, heap/heap.h), so
 * that a fork in a signal handler is detected. */
void piano__modules_note(uintptr_t pc);
/* The same for COUNT return addresses. Returns false if the lock was not available in time. */
bool piano__modules_note_all(const uint64_t *pcs, uint32_t count);
/* Returns the generation of a stack of COUNT return addresses, see modules.c. Lock-free, except for
 * addresses of libraries that were unloaded since the last check. */
uint32_t piano__modules_generation(const uint64_t *pcs, uint32_t count);
/* Called when libraries may have been unloaded: their addresses may get another meaning. */
void piano__modules_unloaded(void);
/* Call it when the recording is replaced or discarded. */
void piano__modules_forget(void);

/* Write a record of the log, for callers that keep their own module log. INFO is valid for the
 * stacks of generations SINCE to UNTIL. ROOM of PATH_MAX bytes is for the path: a library that
 * was loaded as ./x.so gets an absolute path, which is right if the working directory has not
 * changed. */
const char *piano__module_path(const struct piano__module_info *info, char *room);
uint32_t piano__module_bytes(const char *path);
void piano__module_fill(struct piano__module *m, const struct piano__module_info *info,
                        const char *path, uint32_t since, uint32_t until);

#endif
