/* A server to watch. Runs for SECONDS: a poll loop with EVENTS turns per second that allocates a block
 * per turn and keeps every hundredth, and THREADS threads that together use half a CPU. */
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

static volatile unsigned long sink;
static volatile int over;
static void *kept[1 << 20];

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

__attribute__((noinline)) static void burn(double seconds)
{
    for (double end = now() + seconds; now() < end;)
        for (int i = 0; i < 1000; i++)
            sink += (unsigned long)i;
}

static void *work(void *part)
{
    while (!over) {
        burn(*(double *)part * 0.01);
        usleep((useconds_t)((1 - *(double *)part) * 10000));
    }
    return NULL;
}

int main(int argc, char **argv)
{
    double end = now() + atof(argv[1]), events = atof(argv[2]);
    int threads = argc > 3 ? atoi(argv[3]) : 2, fd = eventfd(1, 0);
    double part = 0.5 / threads;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    for (int i = 0; i < threads; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, work, &part);
    }
    double began = now();
    for (unsigned long turn = 0; now() < end; turn++) {
        poll(&p, 1, 1);
        void *block = malloc(1000);
        memset(block, 1, 1000);
        if (turn % 100 == 0 && turn / 100 < sizeof(kept) / sizeof(*kept))
            kept[turn / 100] = block;
        else
            free(block);
        double ahead = began + (double)turn / events - now();
        if (ahead > 0.001)
            usleep((useconds_t)(ahead * 1e6));
    }
    over = 1;
    return 0;
}
