/* The kernel's records name every process that was sampled from outside. Without them, and after the
 * last of them, a process is recognised by the variable PIANO_RECORD in its environment, which it
 * inherited from the program. A process that has cleared its environment is not found. */
#include "tool/record/survivors.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool/record/process.h"

static void add(struct survivors *s, pid_t pid)
{
    s->first = s->count == 0 || pid < s->first ? pid : s->first;
    s->count++;
}

static bool is_running(pid_t pid)
{
    return (kill(pid, 0) == 0 || errno == EPERM) && !process_is_zombie(pid);
}

static void find_sampled(struct survivors *s, const struct sampler *cpu, pid_t program)
{
    for (size_t i = 0; i < TASK_BUCKETS; i++) {
        for (const struct process *p = cpu->tasks.processes[i]; p; p = p->next) {
            if ((pid_t)p->pid != program && is_running((pid_t)p->pid))
                add(s, (pid_t)p->pid);
        }
    }
}

/* Does the environment of PID have VARIABLE, "NAME=VALUE"? */
static bool has_variable(pid_t pid, const char *variable)
{
    char path[64];
    char *line = NULL;
    size_t size = 0;
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    FILE *f = fopen(path, "re");
    while (f && !found && getdelim(&line, &size, '\0', f) > 0)
        found = strcmp(line, variable) == 0;
    free(line);
    if (f)
        fclose(f);
    return found;
}

static bool is_sampled(const struct sampler *cpu, pid_t pid)
{
    return cpu && tasks_find(&cpu->tasks, (uint32_t)pid);
}

/* Without those that CPU knows. */
static void find_inherited(struct survivors *s, const struct recordings *recordings,
                           const struct sampler *cpu)
{
    char *variable = NULL;
    const struct dirent *e;
    if (asprintf(&variable, "PIANO_RECORD=%s", recordings->path) < 0)
        return;
    DIR *dir = opendir("/proc");
    while (dir && (e = readdir(dir))) {
        pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
        if (pid > 0 && pid != recordings->program && !is_sampled(cpu, pid) &&
            has_variable(pid, variable) && is_running(pid))
            add(s, pid);
    }
    if (dir)
        closedir(dir);
    free(variable);
}

struct survivors survivors_find(const struct recordings *recordings, const struct sampler *cpu)
{
    struct survivors s = {.count = 0};
    if (cpu && (cpu->is_open || cpu->is_stopped))
        find_sampled(&s, cpu, recordings->program);
    if (!cpu || !cpu->is_open)
        find_inherited(&s, recordings, cpu);
    return s;
}
