/* Builds for tests define PIANO_CHECK. They contain walkers, piano__..._is_valid(), which read a
 * whole structure and return whether its invariants hold, and stop the program where one does not.
 * Releases contain neither (tools/check-layers). */
#ifndef PIANO_TARGET_SYS_CHECK_H
#define PIANO_TARGET_SYS_CHECK_H

#ifdef PIANO_CHECK
#define piano__check(is_valid) ((is_valid) ? (void)0 : __builtin_trap())
#else
#define piano__check(is_valid) ((void)0)
#endif

#endif
