/* piano.h: the interface of the runtime that `piano build` links into a program. Including it is never
 * needed to be profiled; it is for programs that want to know. */
#ifndef PIANO_H
#define PIANO_H

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the runtime, "MAJOR.MINOR.PATCH". Any thread, signal-safe. */
const char *piano_version(void);

/* 1 while calls of this process are being recorded, 0 before the first instrumented call, after the run has
 * ended, or when its file could not be created. Any thread, signal-safe. */
int piano_is_recording(void);

#ifdef __cplusplus
}
#endif

#endif
