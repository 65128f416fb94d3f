/* Takes the blocks of running threads when the program exits. */
#ifndef PIANO_TARGET_SPAN_TAKE_H
#define PIANO_TARGET_SPAN_TAKE_H

#include <stdbool.h>
#include <stdint.h>

/* Writes the data of all threads that still run, as of NOW. Returns false if some of it stays in
 * the live image. */
bool piano__take_write(int64_t now);

#endif
