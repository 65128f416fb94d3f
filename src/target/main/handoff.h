/* Attributes a new thread to the function that started it. */
#ifndef PIANO_TARGET_MAIN_HANDOFF_H
#define PIANO_TARGET_MAIN_HANDOFF_H

#include <pthread.h>

typedef int piano__create_fn(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

/* Calls CREATE (the real pthread_create) and tells the new thread which function started it. */
int __piano_create(piano__create_fn *create, pthread_t *thread, const pthread_attr_t *attr,
                   void *(*start)(void *), void *arg) __attribute__((visibility("default")));

#endif
