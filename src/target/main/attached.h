/* Starts and ends a recording of a process that runs already. */
#ifndef PIANO_TARGET_MAIN_ATTACHED_H
#define PIANO_TARGET_MAIN_ATTACHED_H

#include <stdbool.h>
#include <stdint.h>

#include "common/attach.h"

/* Takes FD. Fills in `failure` and `err`. The hooks are in place, but pass all calls on. */
void piano__attached_start(int fd, const struct piano__attach_order *order,
                           struct piano__attach_answer *answer);
/* Ends what was started. Returns whether the memory of the recording was released. The hooks have
 * been taken out. */
bool piano__attached_stop(void);
/* The first half of that: from now on nothing is recorded. */
void piano__attached_pause(void);

#endif
