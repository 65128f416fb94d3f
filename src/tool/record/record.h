/* `piano record`: a program is run and recorded, or one that runs already is sampled. */
#ifndef PIANO_TOOL_RECORD_RECORD_H
#define PIANO_TOOL_RECORD_RECORD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct record {
    char *const *words; /* the program and its arguments, ended by NULL */
    const char *output; /* NULL = a new file in the runs directory */
    bool heap;          /* sample allocations */
    uint64_t heap_rate; /* mean bytes between two samples */
    bool cpu;           /* sample what the CPU does */
    unsigned cpu_hz;    /* so often in a second of CPU time */
    bool cpu_inside;    /* by timers in the program, since the kernel refuses perf events */
    bool kernel;        /* with the frames of the kernel */
    bool events;        /* what event loops and workers do */
    pid_t pid;          /* attach to this process; 0 = run a program */
    bool maps;          /* anonymous mmap too */
    bool children;      /* processes it starts have recordings of their own */
    double every_s;     /* between snapshots; 0 = none, negative = the usual series */
    uint64_t max_bytes; /* of a recording; 0 = the usual */
    double duration_s;  /* 0 = until it ends by itself */
    double kill_s;
};

/* The exit status of the program, or EXIT_FAILED when it was not started. Says what went wrong, and in the end what
 * was recorded. */
int record_run(const struct record *r);

#endif
