/* Creates a key for a thread's own value. */
#ifndef PIANO_TARGET_SYS_KEY_H
#define PIANO_TARGET_SYS_KEY_H

#include <pthread.h>
#include <stdbool.h>

/* As pthread_key_create. Returns whether it worked. */
bool piano__key_create(pthread_key_t *key, void (*at_end)(void *));

#endif
