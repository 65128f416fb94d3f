/* Starts the profilers that the environment requests (record/control.c), starts again in a forked
 * child, and ends the recording at exit. */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "target/cpu/cpu.h"
#include "target/heap/heap.h"
#include "target/heap/hidden.h"
#include "target/heap/hooks.h"
#include "target/record/control.h"
#include "target/record/family.h"
#include "target/record/gate.h"
#include "target/record/session.h"
#include "target/sys/clock.h"
#include "target/sys/recording.h"
#include "target/trace/events.h"

/* If another profiler has created the recording, it says why there are no CPU samples. */
static void note_cpu(int err)
{
    struct piano__rec_header *h = piano__recording.view.header;
    if (err < 0 && h)
        h->trace.cpu_error = (uint64_t)-err;
}

/* Starts what the environment requests. Failures are ignored: the tool sees that the data is
 * missing in the file. */
static void start_as_asked(void)
{
    const char *path = secure_getenv("PIANO_RECORD");
    if (!path || !*path || !piano__control_is_for_us())
        return;
    uint64_t rate = piano__control_number("PIANO_HEAP");
    if (piano__alloc_place && rate > 0 && piano__heap_start(rate) == -ENOTSUP)
        piano__hidden_record(rate);
    if (piano__control_number("PIANO_EVENTS") == 1)
        (void)piano__events_start(piano__control_number("PIANO_EVENTS_MAX"));
    uint64_t hz = piano__control_number("PIANO_CPU");
    const struct piano__cpu_wish wish = {.hz = (uint32_t)hz, .source = PIANO_CPU_TIMERS};
    if (hz > 0 && hz <= PIANO_CPU_MOST_HZ)
        note_cpu(piano__cpu_start(&wish));
}

static void in_child(void)
{
    int saved = errno;
    bool was_recording = piano__recording.view.header != NULL;
    piano__control_forked();
    piano__cpu_forget();
    bool interrupted = piano__events_forget();
    interrupted |= piano__heap_forget();
    piano__control_forget(interrupted);
    if (was_recording && !interrupted && piano__control_number("PIANO_CHILDREN") == 1)
        start_as_asked();
    errno = saved;
}

void piano__control_begin(void)
{
    static uint32_t begun;
    /* Relaxed: only one of several first callers must proceed. */
    if (!environ || __atomic_exchange_n(&begun, 1, __ATOMIC_RELAXED))
        return;
    int saved = errno;
    pthread_atfork(NULL, NULL, in_child);
    start_as_asked();
    errno = saved;
}

/* At the latest here. Constructors of other libraries may run and allocate before this. */
__attribute__((constructor(103))) static void begin(void)
{
    piano__control_begin();
}

static void end_recording(void)
{
    struct piano__rec_header *h = piano__recording.view.header;
    piano__events_end();
    piano__cpu_end();
    struct piano__clock_pair now = piano__clock_pair();
    h->trace.end_ticks = now.ticks;
    h->trace.end_mono_ns = now.mono_ns;
    if (h->state == PIANO_REC_TERMINATED)
        return;
    h->end_mono_ns = now.mono_ns;
    piano__family_leave();
    /* Rule 5: a reader that sees ENDED also sees the end times. */
    __atomic_store_n(&h->state, PIANO_REC_ENDED, __ATOMIC_RELEASE);
}

/* Called at exit. Frees and events in later destructors of other libraries are still recorded. In a
 * child that was forked without the C library's fork(), the gate is shut, so no system call is
 * needed to detect it. In an attached process, another thread may be taking the recording away. */
__attribute__((destructor(101))) static void end(void)
{
    if (!piano__gate_is_open(&piano__gate->recording))
        return;
    uintptr_t before = piano__session_enter();
    if (piano__gate_is_open(&piano__gate->recording) && piano__recording.view.header)
        end_recording();
    piano__session_leave(before);
}
