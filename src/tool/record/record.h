/* `piano record`: runs a program and records it, or samples a process that already runs. */
#ifndef PIANO_TOOL_RECORD_RECORD_H
#define PIANO_TOOL_RECORD_RECORD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tool/record/flight.h"

struct record {
    char *const *words; /* the program and its arguments, NULL-terminated */
    const char *output; /* NULL: a new file in the runs directory */
    bool heap;          /* sample allocations */
    uint64_t heap_rate; /* mean bytes between two samples */
    bool cpu;           /* take CPU samples */
    unsigned cpu_hz;    /* samples per second of CPU time */
    bool cpu_inside;    /* by timers in the program: no perf events, or Python */
    int cpu_err;        /* negative errno: why no CPU samples are taken */
    bool kernel;        /* with the kernel's frames */
    bool events;        /* activity of event loops and workers */
    pid_t pid;          /* attach to this process; 0: run a program */
    bool is_all;        /* none of heap, CPU and events was requested: record what is possible */
    bool maps;          /* also anonymous mmap */
    bool children;      /* also record child processes, each in its own file */
    bool no_children;
    size_t most_processes; /* how many of them at a time */
    uint64_t family_bytes; /* of all of them together; 0: the default */
    double every_s;        /* between snapshots; 0: none, negative: the default series */
    uint64_t max_bytes;    /* of a recording; 0: the default */
    double duration_s;     /* 0: until it ends by itself */
    double kill_s;
    struct flight_wish flight;
    int tell; /* the process id and the path are written here once it runs; 0: nowhere */
};

/* Returns the exit status of the program, or EXIT_FAILED when it was not started. Prints errors and
 * the summary. */
int record_run(const struct record *r);

#endif
