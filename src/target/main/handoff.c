/* The start routine and its argument reach the new thread in a ticket from a small pool. If no
 * ticket is free, the thread is created without piano: its origin stays unknown and its CPU time is
 * not sampled. */
#include "target/main/handoff.h"

#include <stdatomic.h>
#include <stddef.h>

#include "target/cpu/threads.h"
#include "target/span/thread.h"

enum { TICKETS = 1024 };

struct ticket {
    atomic_flag taken;
    void *(*start)(void *);
    void *arg;
    struct piano__origin origin;
};

static struct ticket tickets[TICKETS];

static struct ticket *take_ticket(void)
{
    static _Atomic unsigned hint;
    unsigned from = atomic_fetch_add_explicit(&hint, 1, memory_order_relaxed);
    for (unsigned i = 0; i < TICKETS; i++) {
        struct ticket *t = &tickets[(from + i) % TICKETS];
        /* Pairs with the release in `give_back`: the previous user has finished with the ticket. */
        if (!atomic_flag_test_and_set_explicit(&t->taken, memory_order_acquire))
            return t;
    }
    return NULL;
}

static void give_back(struct ticket *ticket)
{
    atomic_flag_clear_explicit(&ticket->taken, memory_order_release);
}

static void *begin(void *arg)
{
    struct ticket *ticket = arg;
    void *(*start)(void *) = ticket->start;
    void *start_arg = ticket->arg;
    piano__thread_adopt(ticket->origin);
    give_back(ticket);
    piano__cpu_threads_attach();
    return start(start_arg);
}

int __piano_create(piano__create_fn *create, pthread_t *thread, const pthread_attr_t *attr,
                   void *(*start)(void *), void *arg)
{
    struct piano__origin origin = piano__thread_origin();
    struct ticket *ticket = origin.thread || piano__cpu_is_on() ? take_ticket() : NULL;
    if (!ticket)
        return create(thread, attr, start, arg);
    ticket->start = start;
    ticket->arg = arg;
    ticket->origin = origin;
    int err = create(thread, attr, begin, ticket);
    if (err != 0)
        give_back(ticket);
    return err;
}
