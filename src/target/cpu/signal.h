/* The signal that interrupts threads for samples, and its handler. */
#ifndef PIANO_TARGET_CPU_SIGNAL_H
#define PIANO_TARGET_CPU_SIGNAL_H

#include <signal.h>
#include <stdbool.h>

#include "target/cpu/threads.h"

typedef int piano__sigaction_fn(int, const struct sigaction *, struct sigaction *);

/* The C library's sigaction, set by the hook (preload/signals.c); NULL: there is no hook. */
extern piano__sigaction_fn *piano__signal_next;

/* Takes a signal that the program does not use, other than AVOID, for samples as WISH says. Returns
 * its number, or -ENOTSUP if there is none. */
int piano__signal_take(const struct piano__cpu_wish *wish, int avoid);
/* Restores the previous action. Drops pending signals. */
void piano__signal_give(void);
/* Call in a forked child. */
void piano__signal_forget(void);
/* Returns whether this process has taken SIGNAL. */
bool piano__signal_is(int signal);
/* Returns the program's action for the taken signal. */
const struct sigaction *piano__signal_before(void);

#endif
