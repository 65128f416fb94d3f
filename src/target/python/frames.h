/* Functions of Python in a stack, where the interpreter is that runs them. */
#ifndef PIANO_TARGET_PYTHON_FRAMES_H
#define PIANO_TARGET_PYTHON_FRAMES_H

#include "target/python/codes.h"
#include "target/unwind/walk.h"

/* Puts the functions that the calling thread is in into WALK, its stack, each group in place of the frame of the interpreter's loop
 * that runs them. Nothing happens where the program is not CPython, or of a version that is not known. ROOM is for signal
 * handlers; without one, the thread is in a call that the interpreter has made. */
void piano__python_merge(struct piano__walk *walk, struct piano__python_room *room);

#endif
