/* Limits on the recordings of further processes (`piano record` follows children). */
#ifndef PIANO_TARGET_RECORD_FAMILY_H
#define PIANO_TARGET_RECORD_FAMILY_H

#include <stdbool.h>
#include <stdint.h>

/* In the program, once its recording exists: sets the limits. */
void piano__family_begin(uint32_t most, uint64_t bytes);
/* In another process: takes one of the places that the recording PATH of the program has. Returns
 * whether this process may be recorded. */
bool piano__family_enter(const char *path);
/* After the recording of this process was created, as the file of its IMAGE-th program; 0: it was
 * not. */
void piano__family_entered(int image);
/* At the exit of the process: removes the recording and gives its place back, if there is nothing in
 * it and places are rare. */
void piano__family_leave(void);

#endif
