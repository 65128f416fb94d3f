/* Processes and threads, from the kernel's records. A process exists as long as it has a thread. */
#include "tool/record/tasks.h"

#include <stdlib.h>
#include <string.h>

void tasks_init(struct tasks *t)
{
    *t = (struct tasks){.generations = SPACE_FIRST_GENERATION};
}

static void free_process(struct process *p)
{
    space_release(&p->space);
    free(p);
}

void tasks_release(struct tasks *t)
{
    for (size_t i = 0; i < TASK_BUCKETS; i++) {
        while (t->threads[i]) {
            struct thread *one = t->threads[i];
            t->threads[i] = one->next;
            free(one);
        }
        while (t->processes[i]) {
            struct process *one = t->processes[i];
            t->processes[i] = one->next;
            free_process(one);
        }
    }
}

struct thread *tasks_find(const struct tasks *t, uint32_t tid)
{
    struct thread *one = t->threads[tid % TASK_BUCKETS];
    while (one && one->tid != tid)
        one = one->next;
    return one;
}

static struct process *find_process(const struct tasks *t, uint32_t pid)
{
    struct process *one = t->processes[pid % TASK_BUCKETS];
    while (one && one->pid != pid)
        one = one->next;
    return one;
}

static struct process *add_process(struct tasks *t, uint32_t pid, struct space *from)
{
    struct process *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->pid = pid;
    if (from)
        (void)space_copy(&p->space, from, (pid_t)pid, &t->generations);
    else
        space_init(&p->space, (pid_t)pid, &t->generations);
    p->next = t->processes[pid % TASK_BUCKETS];
    t->processes[pid % TASK_BUCKETS] = p;
    return p;
}

static void drop_process(struct tasks *t, struct process *p)
{
    struct process **at = &t->processes[p->pid % TASK_BUCKETS];
    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    free_process(p);
}

static struct thread *add_thread(struct tasks *t, struct process *p, uint32_t tid)
{
    struct thread *one = calloc(1, sizeof *one);
    if (!one)
        return NULL;
    one->tid = tid;
    one->process = p;
    p->threads++;
    one->next = t->threads[tid % TASK_BUCKETS];
    t->threads[tid % TASK_BUCKETS] = one;
    return one;
}

void tasks_name(struct thread *t, const char *name)
{
    memset(t->name, 0, sizeof t->name);
    memcpy(t->name, name, strnlen(name, sizeof t->name - 1));
    t->is_told = false;
}

void tasks_exit(struct tasks *t, uint32_t tid)
{
    struct thread **at = &t->threads[tid % TASK_BUCKETS];
    while (*at && (*at)->tid != tid)
        at = &(*at)->next;
    struct thread *one = *at;
    if (!one)
        return;
    *at = one->next;
    if (--one->process->threads == 0)
        drop_process(t, one->process);
    free(one);
}

struct thread *tasks_get(struct tasks *t, uint32_t pid, uint32_t tid)
{
    struct thread *one = tasks_find(t, tid);
    if (one && one->process->pid == pid)
        return one;
    /* A thread of another process: its exit record is missing. */
    tasks_exit(t, tid);
    struct process *p = find_process(t, pid);
    if (!p)
        p = add_process(t, pid, NULL);
    one = p ? add_thread(t, p, tid) : NULL;
    if (p && p->threads == 0)
        drop_process(t, p);
    return one;
}

struct thread *tasks_fork(struct tasks *t, uint32_t parent, uint32_t pid, uint32_t tid)
{
    tasks_exit(t, tid);
    struct process *from = find_process(t, parent);
    struct process *p = find_process(t, pid);
    if (pid != parent && p)
        return NULL; /* it has threads, so it is alive: the record is out of order */
    if (!p)
        p = add_process(t, pid, from && pid != parent ? &from->space : NULL);
    struct thread *one = p ? add_thread(t, p, tid) : NULL;
    if (p && p->threads == 0)
        drop_process(t, p);
    return one;
}
