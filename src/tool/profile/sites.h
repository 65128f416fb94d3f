/* The sites of a profile; for profile.c. */
#ifndef PIANO_TOOL_PROFILE_SITES_H
#define PIANO_TOOL_PROFILE_SITES_H

#include "tool/profile/profile.h"

/* Makes the sites again if there are some. 0 or -ENOMEM. */
int sites_make(struct profile *p);

/* The next of COUNT frames outwards from AT that is another function, and neither plumbing nor a
 * wrapper, nor of a standard library unless the frame at AT is; COUNT if there is none. */
size_t sites_caller(const struct symbol_frame *const *frames, size_t count, size_t at);

/* ---- wrappers.c ---- */

/* Finds functions that the sites of P show to be wrappers, and adds them to `found`. FRAMES has
 * room for PROFILE_MAX_FRAMES. Returns how many are new, or -ENOMEM. */
int wrappers_find(struct profile *p, const struct symbol_frame **frames);
/* Adds FUNCTION to the wrappers found, unless it is there already or there is no room. */
void wrappers_add(struct profile *p, const char *function);

#endif
