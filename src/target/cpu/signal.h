/* The signal that interrupts threads to be sampled, and its handler. */
#ifndef PIANO_TARGET_CPU_SIGNAL_H
#define PIANO_TARGET_CPU_SIGNAL_H

#include <signal.h>
#include <stdbool.h>

#include "target/cpu/threads.h"

typedef int piano__sigaction_fn(int, const struct sigaction *, struct sigaction *);

/* The C library's sigaction, once its hook knows it (preload/signals.c); NULL: there is no hook. */
extern piano__sigaction_fn *piano__signal_next;

/* Takes a signal that the program does not use, and not AVOID, for samples as WISH says: its number, or -ENOTSUP when there is
 * none. */
int piano__signal_take(const struct piano__cpu_wish *wish, int avoid);
/* Gives it back as it was; whatever is still on its way is dropped. */
void piano__signal_give(void);
/* In a forked child. */
void piano__signal_forget(void);
/* Whether it is SIGNAL that was taken, by this process. */
bool piano__signal_is(int signal);
/* What the program had said about it. */
const struct sigaction *piano__signal_before(void);

#endif
