/* The part of OpenMP's tool interface (OMPT, OpenMP 5.1, chapter 4) that is used here. The numbers
 * and signatures are from the specification, so no compiler header is needed. */
#ifndef PIANO_TARGET_PRELOAD_OMPT_H
#define PIANO_TARGET_PRELOAD_OMPT_H

#include <stdint.h>

/* The tool's own word in the runtime's objects: initially 0, and never read by the runtime. */
union ompt_data {
    uint64_t value;
    void *ptr;
};

struct ompt_frame;

enum ompt_event {
    OMPT_THREAD_BEGIN = 1,
    OMPT_THREAD_END = 2,
    OMPT_PARALLEL_BEGIN = 3,
    OMPT_PARALLEL_END = 4,
    OMPT_TASK_CREATE = 5,
    OMPT_TASK_SCHEDULE = 6,
    OMPT_IMPLICIT_TASK = 7,
    OMPT_SYNC_REGION_WAIT = 16,
};

enum ompt_thread { OMPT_THREAD_INITIAL = 1, OMPT_THREAD_WORKER = 2 };

enum ompt_endpoint { OMPT_BEGIN = 1, OMPT_END = 2 };

enum ompt_task_flag {
    OMPT_TASK_INITIAL = 1,
    OMPT_TASK_TASKWAIT = 0x10,
    OMPT_TASK_UNTIED = 0x10000000
};

enum ompt_task_status {
    OMPT_TASK_COMPLETE = 1,
    OMPT_TASK_CANCEL = 3,
    OMPT_TASK_EARLY_FULFILL = 5,
    OMPT_TASK_LATE_FULFILL = 6,
    OMPT_TASK_TASKWAIT_COMPLETE = 8,
};

enum ompt_sync {
    OMPT_SYNC_BARRIER_IMPLICIT = 2,
    OMPT_SYNC_TASKWAIT = 5,
    OMPT_SYNC_TASKGROUP = 6,
    OMPT_SYNC_BARRIER_PARALLEL = 9, /* at the end of a parallel region; older runtimes use 2 */
};

typedef void ompt_function(void);
typedef ompt_function *ompt_lookup(const char *name);
typedef int ompt_set_callback(int event, ompt_function *callback);

struct ompt_tool {
    int (*initialize)(ompt_lookup *lookup, int device, union ompt_data *tool);
    void (*finalize)(union ompt_data *tool);
    union ompt_data data;
};

/* The runtime calls this when it starts; NULL: no tool. */
struct ompt_tool *ompt_start_tool(unsigned version, const char *runtime);

#endif
