/* The start routine and its argument reach the new thread in a ticket from a small pool. If no
 * ticket is free, the thread is created without piano: its origin stays unknown and its CPU time is
 * not sampled. */
#include "target/main/handoff.h"

#include <stddef.h>

#include "target/cpu/threads.h"
#include "target/span/thread.h"

enum { TICKETS = 1024 };

struct ticket {
    bool taken;
    void *(*start)(void *);
    void *arg;
    struct piano__origin origin;
};

static struct ticket tickets[TICKETS];

static struct ticket *take_ticket(void)
{
    static unsigned hint;
    unsigned from = __atomic_fetch_add(&hint, 1, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < TICKETS; i++) {
        struct ticket *t = &tickets[(from + i) % TICKETS];
        /* Pairs with the release in `give_back`: the previous user has finished with the ticket. */
        if (!__atomic_test_and_set(&t->taken, __ATOMIC_ACQUIRE))
            return t;
    }
    return NULL;
}

static void give_back(struct ticket *ticket)
{
    /* Pairs with the acquire in `take_ticket`. */
    __atomic_clear(&ticket->taken, __ATOMIC_RELEASE);
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
