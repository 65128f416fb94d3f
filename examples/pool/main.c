/* Requests on a pool of workers. Each request spawns its chunks as separate tasks and waits for them; the last chunk wakes it. One
 * other task takes 80 ms, and the tasks after it in its worker's queue wait that long.
 *
 *   pool [REQUESTS [WORKERS]]
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "pool.h"

enum { CHUNKS = 8, CHUNK_BYTES = 4096, SLOW_MS = 80 };

struct request {
    struct pool_task task; /* first, so that releasing it releases the request */
    _Atomic unsigned left;
    _Atomic unsigned sum;
    unsigned polls;
};

struct chunk {
    struct pool_task task;
    struct request *of;
    unsigned number;
};

static struct pool *pool;
static _Atomic unsigned answered, total;

static void *must(void *memory)
{
    if (!memory) {
        perror("pool");
        exit(1);
    }
    return memory;
}

static void release(struct pool_task *task)
{
    free(task);
}

static enum pool_result add_up(struct pool_task *task)
{
    struct chunk *c = (struct chunk *)task;
    unsigned sum = c->number;
    for (unsigned i = 0; i < CHUNK_BYTES; i++)
        sum = sum * 31 + i;
    atomic_fetch_add(&c->of->sum, sum);
    if (atomic_fetch_sub(&c->of->left, 1) == 1)
        pool_wake(&c->of->task);
    return POOL_DONE;
}

/* The first poll spawns the chunks; the second, after the wake, computes the answer. */
static enum pool_result serve(struct pool_task *task)
{
    struct request *r = (struct request *)task;
    if (r->polls++ > 0) {
        atomic_fetch_add(&total, atomic_load(&r->sum));
        atomic_fetch_add(&answered, 1);
        return POOL_DONE;
    }
    atomic_store(&r->left, CHUNKS);
    for (unsigned i = 0; i < CHUNKS; i++) {
        struct chunk *c = must(calloc(1, sizeof *c));
        c->task.release = release;
        c->of = r;
        c->number = i;
        POOL_SPAWN(pool, &c->task, add_up);
    }
    return POOL_WAIT;
}

static enum pool_result rebuild_index(struct pool_task *task)
{
    struct timespec from, now;
    volatile unsigned long x = 1;
    (void)task;
    clock_gettime(CLOCK_MONOTONIC, &from);
    do {
        for (int i = 0; i < 10000; i++)
            x = x * 6364136223846793005UL + 1442695040888963407UL;
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - from.tv_sec) * 1000 + (now.tv_nsec - from.tv_nsec) / 1000000 < SLOW_MS);
    return POOL_DONE;
}

int main(int argc, char **argv)
{
    static struct pool_task slow;
    int requests = argc > 1 ? atoi(argv[1]) : 200, workers = argc > 2 ? atoi(argv[2]) : 3;
    pool = must(pool_new(workers > 0 ? (unsigned)workers : 1));
    for (int i = 0; i < requests; i++) {
        struct request *r = must(calloc(1, sizeof *r));
        r->task.release = release;
        POOL_SPAWN(pool, &r->task, serve);
        if (i == requests / 2)
            POOL_SPAWN(pool, &slow, rebuild_index);
    }
    pool_finish(pool);
    printf("%u requests answered, sum %u\n", answered, total);
    return answered == (unsigned)requests ? 0 : 1;
}
