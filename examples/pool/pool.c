/* Every worker has a deque for the tasks that it spawns or wakes. Tasks from other threads go into one shared queue. A
 * worker that finds no task and can steal none parks.
 *
 * PARKING. A worker first counts itself as a sleeper and then looks for work again. A thread with new work first queues it and then
 * looks for sleepers. Both have a fence between their two steps, so at least one of them sees the other.
 *
 * A task is in at most one queue. `state` says whether it is queued, polled or waiting, and whether it was woken while polled. */
#include "pool.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "deque.h"
#include "trace.h"

enum state { QUEUED, POLLED, WOKEN, WAITING }; /* WOKEN: while it was polled */

struct worker {
    struct deque deque;
    struct pool *pool;
    pthread_t thread;
    unsigned number;
    unsigned victim; /* the worker to steal from next */
};

struct pool {
    unsigned count;
    _Atomic size_t alive; /* tasks not done yet */
    _Atomic unsigned sleepers;
    pthread_mutex_t lock; /* protects all fields below */
    pthread_cond_t work, idle;
    struct pool_task *first, **last; /* tasks from threads outside the pool */
    size_t outside;
    bool ending;
    struct worker workers[];
};

static _Thread_local struct worker *self;

/* ---- queues ---- */

static void put_outside(struct pool *p, struct pool_task *task)
{
    pthread_mutex_lock(&p->lock);
    task->next = NULL;
    *p->last = task;
    p->last = &task->next;
    p->outside++;
    TRACE_QUEUE(p->count, p->outside);
    pthread_mutex_unlock(&p->lock);
}

static struct pool_task *take_outside(struct pool *p)
{
    pthread_mutex_lock(&p->lock);
    struct pool_task *task = p->first;
    if (task) {
        p->first = task->next;
        p->last = p->first ? p->last : &p->first;
        p->outside--;
        TRACE_QUEUE(p->count, p->outside);
    }
    pthread_mutex_unlock(&p->lock);
    return task;
}

static void rouse(struct pool *p)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&p->sleepers, memory_order_relaxed) == 0)
        return;
    pthread_mutex_lock(&p->lock);
    pthread_cond_signal(&p->work);
    pthread_mutex_unlock(&p->lock);
}

static void enqueue(struct pool *p, struct pool_task *task)
{
    if (self && self->pool == p && deque_push(&self->deque, task))
        TRACE_QUEUE(self->number, deque_depth(&self->deque));
    else
        put_outside(p, task);
    rouse(p);
}

static struct pool_task *steal(struct worker *w)
{
    struct pool *p = w->pool;
    for (unsigned i = 0; i < p->count; i++) {
        struct worker *victim = &p->workers[w->victim++ % p->count];
        struct pool_task *task = victim == w ? NULL : deque_steal(&victim->deque);
        if (task) {
            TRACE_QUEUE(victim->number, deque_depth(&victim->deque));
            return task;
        }
    }
    return NULL;
}

static struct pool_task *find(struct worker *w)
{
    struct pool_task *task = deque_take(&w->deque);
    if (task)
        TRACE_QUEUE(w->number, deque_depth(&w->deque));
    if (!task)
        task = take_outside(w->pool);
    return task ? task : steal(w);
}

/* ---- workers ---- */

static bool is_work(struct pool *p)
{
    for (unsigned i = 0; i < p->count; i++)
        if (deque_depth(&p->workers[i].deque) > 0)
            return true;
    return p->first != NULL;
}

/* Returns false when the pool ends. */
static bool park(struct pool *p)
{
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add_explicit(&p->sleepers, 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    if (!p->ending && !is_work(p)) {
        TELL(park);
        pthread_cond_wait(&p->work, &p->lock);
        TELL(unpark);
    }
    atomic_fetch_sub_explicit(&p->sleepers, 1, memory_order_relaxed);
    bool goes_on = !p->ending;
    pthread_mutex_unlock(&p->lock);
    return goes_on;
}

static void task_done(struct pool *p)
{
    if (atomic_fetch_sub_explicit(&p->alive, 1, memory_order_acq_rel) > 1)
        return;
    pthread_mutex_lock(&p->lock);
    pthread_cond_signal(&p->idle);
    pthread_mutex_unlock(&p->lock);
}

static void poll_task(struct pool *p, struct pool_task *task)
{
    atomic_store_explicit(&task->state, POLLED, memory_order_relaxed);
    TRACE_BEGIN(task);
    enum pool_result result = task->function(task);
    TRACE_END();
    if (result == POOL_DONE) {
        TRACE_DONE(task); /* before another task can get its address */
        if (task->release)
            task->release(task);
        task_done(p);
        return;
    }
    int state = POLLED;
    if (atomic_compare_exchange_strong_explicit(&task->state, &state, WAITING, memory_order_acq_rel,
                                                memory_order_acquire))
        return;
    atomic_store_explicit(&task->state, QUEUED, memory_order_relaxed);
    enqueue(p, task);
}

static void *work(void *of)
{
    self = of;
    trace_worker(self->number);
    do {
        for (struct pool_task *task; (task = find(self));)
            poll_task(self->pool, task);
    } while (park(self->pool));
    TELL(worker_stop);
    return NULL;
}

/* ---- the pool ---- */

static void end_workers(struct pool *p, unsigned count)
{
    pthread_mutex_lock(&p->lock);
    p->ending = true;
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    for (unsigned i = 0; i < count; i++)
        pthread_join(p->workers[i].thread, NULL);
    for (unsigned i = 0; i < p->count; i++)
        deque_destroy(&p->workers[i].deque);
    pthread_cond_destroy(&p->idle);
    pthread_cond_destroy(&p->work);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

struct pool *pool_new(unsigned workers)
{
    size_t bytes = sizeof(struct pool) + workers * sizeof(struct worker);
    struct pool *p = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
    unsigned started = 0;
    if (!p)
        return NULL;
    *p = (struct pool){.count = workers, .last = &p->first};
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->work, NULL);
    pthread_cond_init(&p->idle, NULL);
    bool whole = true;
    for (unsigned i = 0; i < workers; i++) {
        p->workers[i] = (struct worker){.pool = p, .number = i, .victim = i + 1};
        whole = deque_init(&p->workers[i].deque) && whole;
    }
    while (whole && started < workers &&
           pthread_create(&p->workers[started].thread, NULL, work, &p->workers[started]) == 0)
        started++;
    if (started == workers)
        return p;
    end_workers(p, started);
    return NULL;
}

void pool_finish(struct pool *p)
{
    pthread_mutex_lock(&p->lock);
    while (atomic_load_explicit(&p->alive, memory_order_acquire) > 0)
        pthread_cond_wait(&p->idle, &p->lock);
    pthread_mutex_unlock(&p->lock);
    end_workers(p, p->count);
}

void pool_spawn(struct pool *p, struct pool_task *task, pool_function *function, const char *name,
                const char *place)
{
    task->function = function;
    task->pool = p;
    atomic_init(&task->state, QUEUED);
    atomic_fetch_add_explicit(&p->alive, 1, memory_order_relaxed);
    TRACE_SPAWN(task, name, place);
    enqueue(p, task);
}

/* Reported before the task is queued. Otherwise its poll could come before its spawn. */
void pool_wake(struct pool_task *task)
{
    struct pool *p = task->pool;
    int state = atomic_load_explicit(&task->state, memory_order_relaxed);
    TRACE_WAKE(task);
    for (;;) {
        if (state == QUEUED || state == WOKEN)
            return;
        int next = state == WAITING ? QUEUED : WOKEN;
        if (atomic_compare_exchange_weak_explicit(&task->state, &state, next, memory_order_acq_rel,
                                                  memory_order_relaxed))
            break;
    }
    if (state == WAITING)
        enqueue(p, task);
}
