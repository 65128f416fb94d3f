/* A pool of threads that steal work from each other. A task is polled by some worker until it is done; one that waits for others
 * returns POOL_WAIT, and is polled again when it has been woken. */
#ifndef POOL_H
#define POOL_H

#include <stdatomic.h>
#include <stddef.h>

struct pool;
struct pool_task;

enum pool_result { POOL_DONE, POOL_WAIT };
typedef enum pool_result pool_function(struct pool_task *task);

/* Yours to allocate, as a part of what the task works on. All zero before it is spawned, but for `release`. */
struct pool_task {
    void (*release)(
        struct pool_task *task); /* when it is done: nobody needs it any more; may be NULL */
    pool_function *function;
    struct pool *pool;
    struct pool_task *next; /* in the queue of those that come from outside */
    _Atomic int state;
};

/* WORKERS is 1 or more. NULL: no memory, or no threads. */
struct pool *pool_new(unsigned workers);
/* Waits for every task to be done, and ends the workers. */
void pool_finish(struct pool *pool);

/* TASK is polled soon, by whoever is free. NAME and PLACE are literals. */
void pool_spawn(struct pool *pool, struct pool_task *task, pool_function *function,
                const char *name, const char *place);
#define POOL_SPAWN(pool, task, function)                                                           \
    pool_spawn(pool, task, function, #function, __FILE__ ":" POOL_TEXT(__LINE__))
#define POOL_TEXT(x) POOL_TEXT_(x)
#define POOL_TEXT_(x) #x

/* TASK is polled once more; any thread, at any time before it is done. */
void pool_wake(struct pool_task *task);

#endif
