/* The sites of a profile; for profile.c. */
#ifndef PIANO_TOOL_PROFILE_SITES_H
#define PIANO_TOOL_PROFILE_SITES_H

#include "tool/profile/profile.h"

/* Makes the sites again if there are some. 0 or -ENOMEM. */
int sites_make(struct profile *p);

#endif
