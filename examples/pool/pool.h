/* A pool of threads that steal work from each other. A worker polls a task until it is done. A task that waits returns
 * POOL_WAIT, and is polled again after it was woken. */
#ifndef POOL_H
#define POOL_H

#include <stdatomic.h>
#include <stddef.h>

struct pool;
struct pool_task;

enum pool_result { POOL_DONE, POOL_WAIT };
typedef enum pool_result pool_function(struct pool_task *task);

/* The caller allocates it, usually as part of the task's data. All fields but `release` must be 0 before it is spawned. */
struct pool_task {
    void (*release)(
        struct pool_task *task); /* called when the pool no longer needs the task; may be NULL */
    pool_function *function;
    struct pool *pool;
    struct pool_task *next; /* in the shared queue */
    _Atomic int state;
};

/* WORKERS is 1 or more. Returns NULL if there is no memory or no thread. */
struct pool *pool_new(unsigned workers);
/* Waits until all tasks are done, and ends the workers. */
void pool_finish(struct pool *pool);

/* Queues TASK for any free worker. NAME and PLACE must be literals. */
void pool_spawn(struct pool *pool, struct pool_task *task, pool_function *function,
                const char *name, const char *place);
#define POOL_SPAWN(pool, task, function)                                                           \
    pool_spawn(pool, task, function, #function, __FILE__ ":" POOL_TEXT(__LINE__))
#define POOL_TEXT(x) POOL_TEXT_(x)
#define POOL_TEXT_(x) #x

/* Queues TASK for another poll. Any thread may call it until the task is done. */
void pool_wake(struct pool_task *task);

#endif
