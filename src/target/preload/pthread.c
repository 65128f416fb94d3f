/* pthread_create in front of the C library's: a new thread knows who started it, and is sampled from its beginning where the
 * program samples itself. See span/handoff.c. */
#include <dlfcn.h>
#include <string.h>

#include "target/span/handoff.h"

__attribute__((visibility("default"))) int
pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *), void *arg)
{
    static piano__create_fn *next;
    if (!next) {
        void *found = dlsym(RTLD_NEXT, "pthread_create");
        memcpy(&next, &found, sizeof found);
    }
    return __piano_create(next, thread, attr, start, arg);
}
