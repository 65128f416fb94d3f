/* The build systems. */
#ifndef PIANO_TOOL_BUILD_WAYS_H
#define PIANO_TOOL_BUILD_WAYS_H

#include "tool/build/driver.h"

/* Runs the build that D's detection found, in D's mirror. Prints errors and returns an exit
 * status. */
int ways_build(struct driver *d);

#endif
