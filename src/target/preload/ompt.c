/* OpenMP programs, through the tool interface of their runtime (LLVM's libomp, Intel's libiomp5;
 * GNU's libgomp has none).
 *
 *   a thread of the runtime          a worker
 *   a parallel region                a task, spawned where the region is entered
 *   a thread's part of a region      a poll of that task, from its start to the barrier at the end
 *   a task, taskloop                 a task
 *   a wait at a barrier, taskwait,   a park. Other tasks that the thread runs meanwhile are not
 *   taskgroup; between two regions   part of it
 *
 * The runtime keeps a word for the tool in every region and task, so there are no tables here. The
 * word of a region is its number. The word of a task is an address, with its state in the uppermost
 * bits. For an explicit task, the address is its number. For an implicit task, it is the call that
 * began the region, if this thread did that.
 *
 *   EXPLICIT
 *   RUNNING   explicit task: it has begun and is not finished. A switch to a task with this flag
 *             ends the part of another task. A switch to a task without it begins a part
 *   UNTIED    explicit task
 *   BEHIND    what the thread waited for before this part, and waits for again after it
 *   POLLED    implicit task: its poll is still open
 *
 * RUNNING without EXPLICIT marks an explicit task that has ended. The word of a worker's implicit
 * task must be 0 when its poll is over, and that of a taskwait always: libomp 14 asserts this.
 *
 * What a thread waits for is stored per thread, because for some waits the runtime passes a copy of
 * the task's word.
 *
 * UNTIED TASKS. The thread that leaves the code of such a task last reports its end. Suppose one
 * thread has put the rest of the task into its queue, and another thread has run the rest before
 * the first returns. Then the first thread reports the end, and nothing reports that the other
 * thread's part is over. That is detected when the other thread is found in something else
 * (`find`). This may be much later, so the thread that reports the end of a task that runs
 * elsewhere stores the time (`over`). This is not done for tied tasks: the thread that creates the
 * tasks of a long taskloop is reported in the place of another thread's task.
 *
 * The next thread may also begin the rest before the first has left its part. Then the task is
 * RUNNING, and the part of the next thread has no poll. So that such a thread does not take the
 * other's part for its own when it comes back to the task, each thread stores which parts it began
 * (`parts`).
 *
 * Workers are notified of the end of a region late, possibly when they are needed for the next one.
 * So a poll ends with the wait at the end of the region, and not with the implicit task. libomp 14
 * has no separate kind for this wait. For a worker it has no address, and for the thread that began
 * the region it has the address that the region began with.
 *
 * If nothing is recorded, ompt_start_tool() does not return piano's tool. */
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
#define BEHIND ((uint64_t)0xf << BEHIND_AT) /* enum piano__park; 0: none */
#define ADDRESS (((uint64_t)1 << 56) - 1)

enum { SITES = 256, OVER = 64, PARTS = 16, NUMBER_BITS = 16, BEHIND_AT = 56 };

/* Numbers of regions are in a range that addresses, small numbers and other runtimes do not use. */
#define FIRST_REGION ((uint64_t)1 << 41)

static uint64_t regions;
static uint32_t threads;

static __thread struct {
    uintptr_t began_at;      /* call of the newest region of this thread */
    uint64_t untied;         /* the untied task that it runs a part of; 0: none */
    enum piano__park behind; /* BEHIND of that task */
    enum piano__park wait;   /* 0: it does not wait */
    /* Untied tasks of which this thread has begun a part that is not over. If they are more than
     * PARTS, the others are only counted. */
    uint32_t part_count;
    uint64_t parts[PARTS];
} self __attribute__((tls_model("initial-exec")));

/* Tasks that are over, and since when. If two have the same place, the later one stays. */
static struct {
    uint64_t task;
    int64_t ticks;
} over[OVER];

/* ---- names ---- */

/* The address of a call and the number of its name, in one word: (address << 16) | number. */
static uint64_t region_sites[SITES], task_sites[SITES];

/* Writes "omp task@call:0x55d0c0ffee00". The tool resolves the line. */
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

/* Sets `inside`, so that a fork in a signal handler leaves the tables alone. */
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
    /* Relaxed: one word, which refers to nothing else. */
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

/* The numbers of names are only valid for one recording. */
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
    piano__events_self.parked = 1; /* waits of the runtime itself are part of this park */
}

static void end_wait(void)
{
    if (self.wait == 0)
        return;
    self.wait = 0;
    piano__events_self.parked = 0;
    piano__events_unpark(-1);
}

/* ---- parts of tasks whose end is not reported ---- */

static size_t place_of(uint64_t task)
{
    return (task >> 6 ^ task >> 12) % OVER;
}

/* Called before another task can get this address. */
static void note_over(uint64_t task)
{
    size_t at = place_of(task);
    __atomic_store_n(&over[at].task, 0, __ATOMIC_RELAXED);
    /* Both pair with the acquire loads in over_since(), which checks `task` before and after
     * `ticks`. */
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
    /* Pairs with the release stores in note_over(). */
    bool is_known = __atomic_load_n(&over[at].task, __ATOMIC_ACQUIRE) == task;
    int64_t ticks = __atomic_load_n(&over[at].ticks, __ATOMIC_ACQUIRE);
    /* False if another task was stored there meanwhile. */
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

static void add_part(uint64_t task)
{
    if (self.part_count < PARTS)
        self.parts[self.part_count] = task;
    self.part_count++;
}

static bool has_part(uint64_t task)
{
    for (uint32_t i = 0; i < self.part_count && i < PARTS; i++)
        if (self.parts[i] == task)
            return true;
    return self.part_count > PARTS;
}

/* Removes the newest part of TASK. */
static void remove_part(uint64_t task)
{
    uint32_t at = self.part_count;
    if (at > PARTS) {
        self.part_count--;
        return;
    }
    while (at > 0 && self.parts[at - 1] != task)
        at--;
    if (at == 0)
        return;
    for (; at < self.part_count; at++)
        self.parts[at - 1] = self.parts[at];
    self.part_count--;
}

/* This thread now runs the task of WORD. */
static void runs(uint64_t word)
{
    bool is_untied = word & EXPLICIT && word & UNTIED && word & RUNNING && has_part(word & ADDRESS);
    self.untied = is_untied ? word & ADDRESS : 0;
    self.behind = is_untied ? behind(word) : 0;
}

/* This thread is in the task of WORD, so its part of any other task is over. */
static void find(uint64_t word)
{
    /* Has ended: the tasks after it are being started. */
    bool has_ended = word & RUNNING && !(word & EXPLICIT);
    if (self.untied == 0 || self.untied == explicit_task(word) || has_ended)
        return;
    piano__events_poll_ended(over_since(self.untied), self.behind);
    remove_part(self.untied);
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
    /* Relaxed: only the number must be unique. */
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
    /* Relaxed: only the number must be unique. */
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
    if (task->value & UNTIED)
        add_part(task->value & ADDRESS);
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
        remove_part(task->value & ADDRESS);
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
    if (status == OMPT_TASK_LATE_FULFILL) { /* detached: it ran before */
        if (task)
            end_task(prior);
    } else if (next && next->value & EXPLICIT && !(next->value & RUNNING)) {
        if (next != prior) /* else it was left just now, and continues at once */
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

/* Returns another tool, in a library after this one in the lookup order. */
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
