/* pthread_create in front of the C library's: a new thread knows who started it, and is sampled from its beginning where the
 * program samples itself. See span/handoff.c.
 *
 * A thread of C11 is one like others. Its function returns an int, of which thrd_join takes the lower half of what was in the register,
 * as the C library's own does. */
#include <errno.h>
#include <string.h>
#include <threads.h>

#include "target/preload/next.h"
#include "target/span/handoff.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *),
                          void *arg)
{
    static piano__create_fn *next;
    if (!next)
        piano__next_find(&next, "pthread_create");
    return __piano_create(next, thread, attr, start, arg);
}

EXPORT int thrd_create(thrd_t *thread, thrd_start_t start, void *arg)
{
    void *(*begin)(void *);
    _Static_assert(sizeof begin == sizeof start && sizeof(thrd_t) == sizeof(pthread_t), "alike");
    memcpy(&begin, &start, sizeof begin);
    int err = pthread_create(thread, NULL, begin, arg);
    return err == 0 ? thrd_success : err == ENOMEM ? thrd_nomem : thrd_error;
}
