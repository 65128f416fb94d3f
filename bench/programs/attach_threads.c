/* For bench/attach.py: THREADS threads. One in four allocates now and then, and the others wait. One
 * more thread reads the clock all the time. For each line of input, the program prints the largest gap
 * between two readings since the last line, in nanoseconds: how long the thread was stopped. */
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static long longest;

static long now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000 + t.tv_nsec;
}

static void *allocate(void *unused)
{
    for (;;) {
        free(malloc(1000));
        poll(NULL, 0, 10);
    }
    return unused;
}

static void *rest(void *unused)
{
    pthread_mutex_lock(&mutex);
    for (;;)
        pthread_cond_wait(&never, &mutex);
    return unused;
}

static void *look(void *unused)
{
    for (long before = now();;) {
        long at = now();
        if (at - before > __atomic_load_n(&longest, __ATOMIC_RELAXED))
            __atomic_store_n(&longest, at - before, __ATOMIC_RELAXED);
        before = at;
    }
    return unused;
}

int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 100;
    char line[8];
    pthread_t thread;
    for (int i = 0; i < count; i++)
        pthread_create(&thread, NULL, i % 4 ? rest : allocate, NULL);
    pthread_create(&thread, NULL, look, NULL);
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        printf("%ld\n", __atomic_exchange_n(&longest, 0, __ATOMIC_RELAXED));
        fflush(stdout);
    }
    return 0;
}
