/* pthread_create, interposed before the C library's. So a new thread knows which thread started it,
 * and is sampled from its start if the program samples itself. See main/handoff.c.
 *
 * A C11 thread is like any other. Its function returns an int. thrd_join uses the lower half of the
 * return register, like the C library's own. */
#include <errno.h>
#include <string.h>
#include <threads.h>

#include "target/preload/next.h"
#include "target/main/handoff.h"

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
