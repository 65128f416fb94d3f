/* Samples a process that is already running.
 *
 * Each thread listed in /proc gets its events; threads and processes that it starts later inherit
 * them. A thread may have been started in between. If its parent already had events, the kernel
 * reports the new thread. Otherwise it is found by reading the list again, until there is nothing
 * new. Names and mappings are read afterwards; the kernel reports later changes. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool/record/sampler.h"

enum { ROUNDS = 10 };

/* Reads the next thread id from DIR; 0 at the end. */
static pid_t next_thread(DIR *dir)
{
    const struct dirent *e;
    while ((e = readdir(dir))) {
        long tid = strtol(e->d_name, NULL, 10);
        if (tid > 0)
            return (pid_t)tid;
    }
    return 0;
}

static DIR *open_threads(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    return opendir(path);
}

/* All CPUs that the threads of PID may run on. */
static int read_mask(pid_t pid, cpu_set_t *all)
{
    DIR *dir = open_threads(pid);
    cpu_set_t one;
    pid_t tid;
    if (!dir)
        return errno == ENOENT ? -ESRCH : -errno;
    CPU_ZERO(all);
    while ((tid = next_thread(dir))) {
        if (sched_getaffinity(tid, sizeof one, &one) == 0)
            CPU_OR(all, all, &one);
    }
    closedir(dir);
    return CPU_COUNT(all) > 0 ? 0 : -ESRCH;
}

static void read_name(struct thread *t)
{
    char path[96];
    char name[TASK_NAME + 1] = "";
    snprintf(path, sizeof path, "/proc/%u/task/%u/comm", t->process->pid, t->tid);
    FILE *f = fopen(path, "re");
    if (f && fgets(name, sizeof name, f))
        name[strcspn(name, "\n")] = '\0';
    if (f)
        fclose(f);
    tasks_name(t, name);
}

/* Adds the new threads. Returns their number, or negative errno. */
static int add_threads(struct sampler *c, pid_t pid)
{
    DIR *dir = open_threads(pid);
    int added = 0;
    pid_t tid;
    if (!dir)
        return errno == ENOENT ? -ESRCH : -errno;
    while (added >= 0 && (tid = next_thread(dir))) {
        if (tasks_find(&c->tasks, (uint32_t)tid))
            continue;
        int err = perf_add(&c->perf, tid);
        if (err == -ESRCH) /* it has ended */
            continue;
        struct thread *t = err == 0 ? tasks_get(&c->tasks, (uint32_t)pid, (uint32_t)tid) : NULL;
        if (t)
            read_name(t);
        added = err != 0 ? err : added + 1;
    }
    closedir(dir);
    return added;
}

/* Decodes "\012", a newline; there are no other escapes. */
static void resolve_escapes(char *path)
{
    char *out = path;
    for (const char *in = path; *in; out++) {
        bool is_escape = strncmp(in, "\\012", 4) == 0;
        *out = is_escape ? '\n' : *in;
        in += is_escape ? 4 : 1;
    }
    *out = '\0';
}

static void read_line(struct sampler *c, struct space *space, char *line)
{
    unsigned long long start;
    unsigned long long end;
    unsigned long long offset;
    unsigned long long inode;
    char rights[8];
    int at = 0;
    if (sscanf(line, "%llx-%llx %7s %llx %*x:%*x %llu %n", &start, &end, rights, &offset, &inode,
               &at) < 5 ||
        at == 0 || rights[2] != 'x')
        return;
    char *path = line + at;
    path[strcspn(path, "\n")] = '\0';
    resolve_escapes(path);
    const struct mapped m = {path, start, end, offset, inode};
    sampler_map(c, space, &m);
}

static void read_maps(struct sampler *c, pid_t pid)
{
    char path[64];
    char *line = NULL;
    size_t size = 0;
    struct thread *t = tasks_get(&c->tasks, (uint32_t)pid, (uint32_t)pid);
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    FILE *f = t ? fopen(path, "re") : NULL;
    while (f && getline(&line, &size, f) > 0)
        read_line(c, &t->process->space, line);
    free(line);
    if (f)
        fclose(f);
}

int sampler_attach(struct sampler *c, pid_t pid)
{
    cpu_set_t mask;
    int err = read_mask(pid, &mask);
    if (err == 0)
        err = perf_open(&c->perf, &c->wish, &mask, pid, false);
    if (err != 0)
        return err;
    c->is_open = true;
    struct thread *t = tasks_get(&c->tasks, (uint32_t)pid, (uint32_t)pid);
    if (t)
        read_name(t);
    int added = t ? 1 : -ENOMEM;
    for (int i = 0; added > 0 && i < ROUNDS; i++) {
        sampler_drain(c, false);
        added = add_threads(c, pid);
    }
    if (added < 0)
        return added;
    read_maps(c, pid);
    return 0;
}
