/* Finds out whether a stopped thread may be made to call the C library. */
#ifndef PIANO_TOOL_ATTACH_SAFE_H
#define PIANO_TOOL_ATTACH_SAFE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tool/attach/modules.h"
#include "tool/attach/remote.h"
#include "tool/unwind/walk.h"

struct safe;

/* NULL when out of memory. MODULES must stay. */
struct safe *safe_new(pid_t pid, struct modules *modules);
void safe_free(struct safe *s);

/* May the stopped thread call functions that allocate? Then *BELOW is the lowest address of its
 * stack. If the answer is no, the reason is in *WHY, static. */
bool safe_is(struct safe *s, const struct remote *r, uint64_t *below, const char **why);

#endif
