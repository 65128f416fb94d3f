/* Inserts Python functions into a stack, in place of the interpreter that runs them. */
#ifndef PIANO_TARGET_PYTHON_FRAMES_H
#define PIANO_TARGET_PYTHON_FRAMES_H

#include "target/python/codes.h"
#include "target/unwind/walk.h"

/* Inserts the Python functions that the calling thread is in into WALK, its stack. Each group
 * replaces the frame of the interpreter's loop that runs it. Does nothing if the program is not
 * CPython, or of an unknown version. ROOM is for signal handlers. Without it, the thread must be in
 * a call that the interpreter has made. */
void piano__python_merge(struct piano__walk *walk, struct piano__python_room *room);

#endif
