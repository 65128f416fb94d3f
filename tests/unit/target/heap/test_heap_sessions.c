/* Recordings that are taken away, one after the other: what a thread keeps from the time in between. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "target/heap/heap.h"
#include "target/record/session.h"
#include "temp.h"

static pthread_barrier_t step;

/* As the hooks of an attached process do. */
static bool allocate(const void *p)
{
    if (!piano__heap_is_current())
        piano__heap_renew();
    return piano__heap_allocated(p, 100, 0);
}

/* Is in a hook when the recording is taken away, and allocates again in the next one. */
static void *late_thread(void *block)
{
    bool is_early = allocate(block);
    pthread_barrier_wait(&step);
    pthread_barrier_wait(&step);
    bool is_counted = allocate((char *)block + 128);
    return (void *)(uintptr_t)(!is_early && is_counted);
}

static void allocation_between_recordings_hides_none_of_the_next(void **state)
{
    (void)state;
    static char block[256];
    char path[256], pid[32], name[64];
    pthread_t thread;
    void *is_good = NULL;
    snprintf(name, sizeof name, "piano-sessions-%d.rec", (int)getpid());
    temp_name(path, sizeof path, name);
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    setenv("PIANO_RECORD", path, 1);
    setenv("PIANO_RECORD_PID", pid, 1);
    if (!piano__session_prepare())
        skip();
    piano__session_next();
    pthread_barrier_init(&step, NULL, 2);
    assert_int_equal(pthread_create(&thread, NULL, late_thread, block), 0);
    pthread_barrier_wait(&step);
    assert_int_equal(piano__heap_start(1), 0);
    pthread_barrier_wait(&step);
    pthread_join(thread, &is_good);
    assert_non_null(is_good);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocation_between_recordings_hides_none_of_the_next),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
