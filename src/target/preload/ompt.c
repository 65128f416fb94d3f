/* OpenMP programs, by the tool interface of their runtime (LLVM's libomp, Intel's libiomp5; GNU's libgomp has none).
 *
 *   a thread of the runtime          a worker
 *   a parallel region                a task, spawned where the region is entered
 *   a thread's part of it            a poll of that task, from its beginning to the barrier at the end of the region
 *   a task, taskloop                 a task
 *   a wait at a barrier, taskwait,   a park. What the thread does for other tasks meanwhile is not a part of it
 *   taskgroup; between two regions
 *
 * The runtime keeps a word for us in every region and task, so there are no tables here. A region's is its number. A task's is
 * an address and, in the uppermost bits, its state. The address is its number, of an explicit task; of an implicit one, the call
 * that began the region, if this thread did that.
 *
 *   EXPLICIT
 *   RUNNING   of an explicit task: it has begun and is not over, so a switch to it is the end of another one's part. A switch
 *             to one without this is the beginning of a part of it
 *   UNTIED    of an explicit task
 *   BEHIND    what the thread waited for when it began this part, and goes on to wait for behind it
 *   POLLED    of an implicit task: its poll is still open
 *
 * RUNNING without EXPLICIT is what an explicit task has when it has ended. The word of a worker's implicit task has to be 0 when
 * its poll is over, and that of a taskwait always: libomp 14 asserts that.
 *
 * What a thread waits for is kept with the thread: for some waits the runtime shows a copy of the task's word.
 *
 * UNTIED TASKS. The end of such a task is told by the thread that leaves its code last. When one thread has put the rest of the
 * task into its queue, and another has run that before the first is back, it is the first that tells the end, and the other is
 * never told that its part is over: it is, when the thread is found at something else (`find`). The time of that may be much
 * later, so who tells the end of a task that runs elsewhere leaves the time behind (`over`). With tied tasks nothing is to be
 * found: who makes the tasks of a long taskloop is shown in the place of another thread's task.
 *
 * Workers are told that a region is over when they notice, which may be when they are needed for the next one. So a poll ends with
 * the wait at the end of the region, and not with the implicit task. libomp 14 has no name of its own for this wait: a worker's has
 * no address, and that of the thread which began the region has the address that the region began with.
 *
 * When nothing is recorded, the runtime is told that there is no tool. */
#include "target/preload/ompt.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "target/heap/heap.h"
#include "target/record/control.h"
#include "target/record/modules.h"
#include "target/sys/clock.h"
#include "target/trace/events.h"

#define EXPORT __attribute__((visibility("default")))

#define EXPLICIT ((uint64_t)1 << 63)
#define RUNNING ((uint64_t)1 << 62)
#define POLLED ((uint64_t)1 << 61)
#define UNTIED ((uint64_t)1 << 60)
#define BEHIND ((uint64_t)0xf << BEHIND_AT) /* enum piano__park, 0: none */
#define ADDRESS (((uint64_t)1 << 56) - 1)

enum { SITES = 256, OVER = 64, NUMBER_BITS = 16, BEHIND_AT = 56 };

/* Numbers of regions are in a range that addresses, small numbers, and other runtimes leave free. */
#define FIRST_REGION ((uint64_t)1 << 41)

static uint64_t regions;
static uint32_t threads;

static __thread struct {
    uintptr_t began_at;      /* the newest region of this thread */
    uint64_t untied;         /* the untied task it runs a part of, 0: none */
    enum piano__park behind; /* BEHIND of that */
    enum piano__park wait;   /* 0: it does not */
} self __attribute__((tls_model("initial-exec")));

/* Tasks that are over, and since when. The one that is told last stays, where two have the same place. */
static struct {
    uint64_t task;
    int64_t ticks;
} over[OVER];

/* ---- names ---- */

/* A call and the number of its name in one word: (address << 16) | number. */
static uint64_t region_sites[SITES], task_sites[SITES];

/* "omp task@call:0x55d0c0ffee00": the tool finds the line. */
static void write_name(char *text, const char *what, uintptr_t at)
{
    int digits = 1;
    while (digits < (int)(2 * sizeof at) && at >> (4 * digits))
        digits++;
    char *to = stpcpy(stpcpy(text, what), "@call:0x");
    while (digits-- > 0)
        *to++ = "0123456789abcdef"[at >> (4 * digits) & 15];
    *to = '\0';
}

/* A signal handler that forks in the middle of this finds a sample at work, and leaves its tables alone. */
static void note_module(uintptr_t pc)
{
    uintptr_t before = piano__heap_self.inside;
    if (!before)
        piano__heap_self.inside = piano__stack_pointer();
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (!before)
        piano__modules_note(pc);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    piano__heap_self.inside = before;
}

static uint32_t name_of(uint64_t *sites, const char *what, const void *codeptr)
{
    uintptr_t at = (uintptr_t)codeptr;
    uint64_t *site = &sites[(at ^ at >> 8 ^ at >> 16) % SITES];
    uint64_t known = __atomic_load_n(site, __ATOMIC_RELAXED);
    char text[64];
    if (at == 0)
        return piano__events_name(what);
    if (known >> NUMBER_BITS == at)
        return (uint16_t)known;
    int saved = errno;
    note_module(at - 1);
    write_name(text, what, at - 1);
    uint32_t number = piano__events_name(text);
    errno = saved;
    if (number > 0 && number <= UINT16_MAX && at >> (64 - NUMBER_BITS) == 0)
        __atomic_store_n(site, (uint64_t)at << NUMBER_BITS | number, __ATOMIC_RELAXED);
    return number;
}

/* Numbers of names are those of one recording. */
static void in_child(void)
{
    memset(region_sites, 0, sizeof region_sites);
    memset(task_sites, 0, sizeof task_sites);
    memset(over, 0, sizeof over);
    memset(&self, 0, sizeof self);
}

/* ---- waits ---- */

static void begin_wait(enum piano__park kind)
{
    self.wait = kind;
    piano__events_park(kind);
    piano__events_self.parked = 1; /* what the runtime waits with is a part of this */
}

static void end_wait(void)
{
    if (self.wait == 0)
        return;
    self.wait = 0;
    piano__events_self.parked = 0;
    piano__events_unpark(-1);
}

/* ---- parts of tasks that are over without a word ---- */

static size_t place_of(uint64_t task)
{
    return (task >> 6 ^ task >> 12) % OVER;
}

/* Before anyone can be told of another task at this address. */
static void note_over(uint64_t task)
{
    size_t at = place_of(task);
    __atomic_store_n(&over[at].task, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&over[at].ticks, piano__ticks(), __ATOMIC_RELEASE);
    __atomic_store_n(&over[at].task, task, __ATOMIC_RELEASE);
}

static void forget_over(uint64_t task)
{
    size_t at = place_of(task);
    if (__atomic_load_n(&over[at].task, __ATOMIC_RELAXED) == task)
        __atomic_store_n(&over[at].task, 0, __ATOMIC_RELAXED);
}

static int64_t over_since(uint64_t task)
{
    size_t at = place_of(task);
    bool is_known = __atomic_load_n(&over[at].task, __ATOMIC_ACQUIRE) == task;
    int64_t ticks = __atomic_load_n(&over[at].ticks, __ATOMIC_ACQUIRE);
    /* Not when another one's was written there meanwhile. */
    is_known = is_known && __atomic_load_n(&over[at].task, __ATOMIC_RELAXED) == task;
    return is_known ? ticks : piano__ticks();
}

static uint64_t explicit_task(uint64_t word)
{
    return word & EXPLICIT ? word & ADDRESS : 0;
}

static enum piano__park behind(uint64_t word)
{
    return (enum piano__park)((word & BEHIND) >> BEHIND_AT);
}

/* This thread goes on with the task of WORD. */
static void runs(uint64_t word)
{
    bool is_untied = word & EXPLICIT && word & UNTIED && word & RUNNING;
    self.untied = is_untied ? word & ADDRESS : 0;
    self.behind = is_untied ? behind(word) : 0;
}

/* This thread is in the task of WORD, so its part of any other is over. */
static void find(uint64_t word)
{
    bool has_ended = word & RUNNING && !(word & EXPLICIT); /* and those behind it are being begun */
    if (self.untied == 0 || self.untied == explicit_task(word) || has_ended)
        return;
    piano__events_poll_ended(over_since(self.untied), self.behind);
    self.wait = self.behind;
    piano__events_self.parked = self.behind != 0;
    runs(word);
}

static bool is_end_of_region(int kind, const union ompt_data *task, const void *codeptr)
{
    return kind == OMPT_SYNC_BARRIER_PARALLEL ||
           (kind == OMPT_SYNC_BARRIER_IMPLICIT &&
            (!codeptr || (task->value & ADDRESS) == (uintptr_t)codeptr));
}

static void on_wait(int kind, int endpoint, union ompt_data *parallel, union ompt_data *task,
                    const void *codeptr)
{
    (void)parallel;
    bool for_tasks = kind == OMPT_SYNC_TASKWAIT || kind == OMPT_SYNC_TASKGROUP;
    find(task ? task->value : 0);
    end_wait();
    if (endpoint != OMPT_BEGIN)
        return;
    if (task && task->value & POLLED && is_end_of_region(kind, task, codeptr)) {
        task->value &= ~POLLED;
        piano__events_poll_end();
    }
    begin_wait(for_tasks ? PIANO_PARK_TASKS : PIANO_PARK_BARRIER);
}

/* ---- threads and regions ---- */

static void on_thread_begin(int type, union ompt_data *thread)
{
    (void)thread;
    char name[32] = "omp thread ";
    uint32_t number = __atomic_fetch_add(&threads, 1, __ATOMIC_RELAXED);
    char *at = name + strlen(name);
    for (uint32_t scale = 1000000000; scale > 0; scale /= 10)
        if (number >= scale || scale == 1)
            *at++ = (char)('0' + number / scale % 10);
    *at = '\0';
    piano__events_worker_start((uintptr_t)&self, name);
    if (type == OMPT_THREAD_WORKER)
        begin_wait(PIANO_PARK_IDLE);
}

static void on_thread_end(union ompt_data *thread)
{
    (void)thread;
    end_wait();
    piano__events_worker_stop();
}

static void on_parallel_begin(union ompt_data *from, const struct ompt_frame *frame,
                              union ompt_data *parallel, unsigned asked, int flags,
                              const void *codeptr)
{
    (void)frame, (void)asked, (void)flags;
    find(from ? from->value : 0);
    parallel->value = FIRST_REGION + __atomic_fetch_add(&regions, 1, __ATOMIC_RELAXED);
    self.began_at = (uintptr_t)codeptr;
    runs(0);
    piano__events_task_spawn_by(parallel->value, name_of(region_sites, "omp parallel", codeptr), 0);
}

static void on_parallel_end(union ompt_data *parallel, union ompt_data *from, int flags,
                            const void *codeptr)
{
    (void)flags, (void)codeptr;
    runs(from ? from->value : 0);
    piano__events_task_end(parallel->value);
}

/* An initial task is the program itself, outside of all regions. */
static void on_implicit_task(int endpoint, union ompt_data *parallel, union ompt_data *task,
                             unsigned threads_of_it, unsigned index, int flags)
{
    (void)threads_of_it;
    if (!task)
        return;
    if (flags & OMPT_TASK_INITIAL) {
        task->value = 0;
    } else if (endpoint == OMPT_BEGIN) {
        find(0);
        end_wait();
        task->value = (index == 0 ? self.began_at & ADDRESS : 0) | POLLED;
        piano__events_poll_begin(parallel ? parallel->value : 0);
    } else {
        find(0);
        end_wait();
        if (task->value & POLLED)
            piano__events_poll_end();
        task->value = 0;
        if (index != 0)
            begin_wait(PIANO_PARK_IDLE);
    }
}

/* ---- tasks ---- */

static void on_task_create(union ompt_data *from, const struct ompt_frame *frame,
                           union ompt_data *task, int flags, int depends, const void *codeptr)
{
    (void)frame, (void)depends;
    find(from ? from->value : 0);
    if (!task || flags & (OMPT_TASK_INITIAL | OMPT_TASK_TASKWAIT))
        return;
    task->value = ((uintptr_t)task & ADDRESS) | EXPLICIT | (flags & OMPT_TASK_UNTIED ? UNTIED : 0);
    piano__events_task_spawn_by(task->value & ADDRESS, name_of(task_sites, "omp task", codeptr), 0);
}

static void begin_part(union ompt_data *task)
{
    task->value = (task->value & ~BEHIND) | RUNNING | (uint64_t)self.wait << BEHIND_AT;
    end_wait();
    runs(task->value);
    if (self.untied)
        forget_over(self.untied);
    piano__events_poll_begin(task->value & ADDRESS);
}

static void end_task(union ompt_data *task)
{
    piano__events_task_end(task->value & ADDRESS);
    task->value = RUNNING;
}

/* The part of TASK is over; on this thread, if IS_HERE. */
static void end_part(union ompt_data *task, bool is_over, bool is_here)
{
    enum piano__park wait = is_here ? behind(task->value) : 0;
    if (is_here) {
        task->value &= ~RUNNING;
        end_wait();
        piano__events_poll_end();
    } else if (is_over) {
        note_over(task->value & ADDRESS);
    }
    if (is_over)
        end_task(task);
    if (wait)
        begin_wait(wait);
}

static void on_task_schedule(union ompt_data *prior, int status, union ompt_data *next)
{
    if (status == OMPT_TASK_EARLY_FULFILL || status == OMPT_TASK_TASKWAIT_COMPLETE || !prior)
        return;
    uint64_t task = explicit_task(prior->value);
    if (status == OMPT_TASK_LATE_FULFILL) { /* detached: it has been run before */
        if (task)
            end_task(prior);
    } else if (next && next->value & EXPLICIT && !(next->value & RUNNING)) {
        if (next != prior) /* else it was left just now, and is run at once */
            find(prior->value);
        begin_part(next);
    } else if (task) {
        end_part(prior, status == OMPT_TASK_COMPLETE || status == OMPT_TASK_CANCEL,
                 prior->value & UNTIED ? task == self.untied : prior->value & RUNNING);
        runs(next ? next->value : 0);
    }
}

/* ---- the tool ---- */

static int initialize(ompt_lookup *lookup, int device, union ompt_data *tool)
{
    (void)device, (void)tool;
    static const struct {
        int event;
        ompt_function *callback;
    } wanted[] = {
        {OMPT_THREAD_BEGIN, (ompt_function *)on_thread_begin},
        {OMPT_THREAD_END, (ompt_function *)on_thread_end},
        {OMPT_PARALLEL_BEGIN, (ompt_function *)on_parallel_begin},
        {OMPT_PARALLEL_END, (ompt_function *)on_parallel_end},
        {OMPT_TASK_CREATE, (ompt_function *)on_task_create},
        {OMPT_TASK_SCHEDULE, (ompt_function *)on_task_schedule},
        {OMPT_IMPLICIT_TASK, (ompt_function *)on_implicit_task},
        {OMPT_SYNC_REGION_WAIT, (ompt_function *)on_wait},
    };
    ompt_set_callback *set = (ompt_set_callback *)lookup("ompt_set_callback");
    if (!set)
        return 0;
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        (void)set(wanted[i].event, wanted[i].callback);
    pthread_atfork(NULL, NULL, in_child);
    return 1;
}

static void finalize(union ompt_data *tool)
{
    (void)tool;
}

/* Another tool, in a library behind us or in the runtime's own search from there on. */
static struct ompt_tool *others(unsigned version, const char *runtime)
{
    __typeof__(ompt_start_tool) *next =
        (__typeof__(ompt_start_tool) *)dlsym(RTLD_NEXT, "ompt_start_tool");
    return next ? next(version, runtime) : NULL;
}

EXPORT struct ompt_tool *ompt_start_tool(unsigned version, const char *runtime)
{
    static struct ompt_tool ours = {.initialize = initialize, .finalize = finalize};
    int saved = errno;
    const char *libraries = getenv("OMP_TOOL_LIBRARIES");
    struct ompt_tool *tool = others(version, runtime);
    piano__control_begin();
    if (!tool && piano__events_on() && !(libraries && *libraries))
        tool = &ours;
    errno = saved;
    return tool;
}
