/* The ways to build a project. */
#ifndef PIANO_TOOL_BUILD_WAYS_H
#define PIANO_TOOL_BUILD_WAYS_H

#include "tool/build/driver.h"

/* Runs the build that D's detection found, in D's mirror. Exit status; errors are said. */
int ways_build(struct driver *d);

#endif
