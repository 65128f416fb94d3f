/* Whether an address lies on the calling thread's own stack. */
#ifndef PIANO_TARGET_SYS_STACK_H
#define PIANO_TARGET_SYS_STACK_H

#include <stdbool.h>
#include <stdint.h>

struct piano__thread;

/* Asks the kernel the first time and when the stack has grown; remembers the answer in T. */
bool piano__stack_holds(struct piano__thread *t, uintptr_t address);

#endif
