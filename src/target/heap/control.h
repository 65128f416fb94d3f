/* When a recording begins and ends, and where it is put: by the environment `piano record` sets, or by the program itself. */
#ifndef PIANO_TARGET_HEAP_CONTROL_H
#define PIANO_TARGET_HEAP_CONTROL_H

enum { PIANO_DEFAULT_RATE = 512 * 1024 };

/* At the first allocation: begins what the environment asks for. Once; nothing before the C library knows its
 * environment. */
void piano__control_begin(void);
/* Creates the recording file: 0 or negative errno. */
int piano__control_create(void);
/* Lets go of a recording without touching its file: in a forked child, or when it could not be begun. */
void piano__heap_forget(void);

#endif
