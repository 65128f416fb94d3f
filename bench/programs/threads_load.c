/* usage: threads_load COUNT. Creates and joins threads, one at a time. Prints the nanoseconds per thread: wall time, and CPU
 * time of the process. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static int64_t now_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void *nothing(void *arg)
{
    return arg;
}

int main(int argc, char **argv)
{
    int64_t count = argc == 2 ? atoll(argv[1]) : 0;
    int64_t wall = now_ns(CLOCK_MONOTONIC), cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID);
    for (int64_t i = 0; i < count; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, nothing, NULL) != 0 || pthread_join(thread, NULL) != 0)
            return 1;
    }
    wall = now_ns(CLOCK_MONOTONIC) - wall;
    cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    printf("%.1f %.1f\n", (double)wall / (double)count, (double)cpu / (double)count);
    return count == 0 ? 2 : 0;
}
