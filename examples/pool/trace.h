/* The pool's calls of piano. Without libpiano.so, each call only tests a pointer. */
#include <piano.h>
#include <stdio.h>
#pragma weak piano_worker_start
#pragma weak piano_worker_stop
#pragma weak piano_task_spawn
#pragma weak piano_task_end
#pragma weak piano_poll_begin
#pragma weak piano_poll_end
#pragma weak piano_park
#pragma weak piano_unpark
#pragma weak piano_wake
#pragma weak piano_queue_depth
#define TELL(what, ...) (piano_##what ? piano_##what(__VA_ARGS__) : (void)0)
#define TASK(task) ((uint64_t)(uintptr_t)(task))

#define TRACE_SPAWN(task, name, place) TELL(task_spawn, TASK(task), name, place)
#define TRACE_WAKE(task) TELL(wake, TASK(task))
#define TRACE_BEGIN(task) TELL(poll_begin, TASK(task))
#define TRACE_END() TELL(poll_end)
#define TRACE_DONE(task) TELL(task_end, TASK(task))
#define TRACE_QUEUE(queue, depth) TELL(queue_depth, queue, depth)

static inline void trace_worker(unsigned number)
{
    char name[32];
    snprintf(name, sizeof name, "worker %u", number);
    TELL(worker_start, number, name);
}
