/* See control.h. The environment, all set by `piano record`:
 *
 *   PIANO_RECORD      the recording to create
 *   PIANO_RECORD_PID  the process it is meant for; it keeps its pid when it executes another program, whose recording gets the
 *                     next free ending, .2 and so on
 *   PIANO_CHILDREN    1: also for every other process that inherits this; those have -PID behind the name
 *   PIANO_HEAP        sample allocations, one in so many bytes
 *   PIANO_MAPS        1: and anonymous mappings
 *
 * A program that starts a recording by itself has it in the runs directory. */
#include "target/heap/control.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/lines.h"
#include "piano.h"
#include "target/heap/heap.h"
#include "target/preload/place.h"
#include "target/span/registry.h"
#include "target/sys/clock.h"
#include "target/sys/file.h"
#include "target/sys/recording.h"

enum { MOST_IMAGES = 999 };

static bool is_child; /* forked, without an exec since */

static uint64_t number_of(const char *name)
{
    const char *text = secure_getenv(name);
    uint64_t value = 0;
    for (; text && *text >= '0' && *text <= '9' && value < UINT64_MAX / 16; text++)
        value = value * 10 + (uint64_t)(*text - '0');
    return value;
}

static bool is_for_us(void)
{
    return number_of("PIANO_RECORD_PID") == (uint64_t)getpid() || number_of("PIANO_CHILDREN") == 1;
}

static void put_stem(struct piano__text *text, const char *asked)
{
    if (asked) {
        piano__text_puts(text, asked);
        if (number_of("PIANO_RECORD_PID") != (uint64_t)getpid()) {
            piano__text_puts(text, "-");
            piano__text_int(text, getpid());
        }
        return;
    }
    const char *dir = secure_getenv("PIANO_RUNS_DIR");
    dir = dir && *dir ? dir : piano__registry_runs_dir();
    dir = dir && *dir ? dir : ".piano/runs";
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    (void)piano__file_make_dirs(dir);
    piano__text_puts(text, dir);
    piano__text_puts(text, "/");
    piano__text_int(text, now.tv_sec * 1000 + now.tv_nsec / 1000000);
    piano__text_puts(text, "-");
    piano__text_int(text, getpid());
    piano__text_puts(text, ".rec");
}

int piano__control_create(void)
{
    static char path[PATH_MAX];
    const char *asked = is_for_us() ? secure_getenv("PIANO_RECORD") : NULL;
    int err = -EEXIST;
    for (int image = 1; image <= MOST_IMAGES && err == -EEXIST; image++) {
        struct piano__text text = {path, path + sizeof path - 1, false};
        put_stem(&text, asked);
        if (image > 1) {
            piano__text_puts(&text, ".");
            piano__text_int(&text, image);
        }
        *text.at = '\0';
        if (text.full)
            return -ENAMETOOLONG;
        err = piano__recording_create(path);
    }
    if (err == 0 && is_child)
        piano__recording.view.header->flags |= PIANO_REC_CHILD;
    if (err == 0 && number_of("PIANO_MAPS") == 1)
        piano__recording.view.header->flags |= PIANO_REC_HAS_MAPS;
    return err;
}

bool piano__heap_wants_maps(void)
{
    const struct piano__rec_header *h = piano__heap_header();
    return h && h->flags & PIANO_REC_HAS_MAPS;
}

static void start_as_asked(void)
{
    const char *path = secure_getenv("PIANO_RECORD");
    if (piano__alloc_place && path && *path && is_for_us() && number_of("PIANO_HEAP") > 0)
        (void)piano__heap_start(number_of("PIANO_HEAP")); /* the tool sees that there is no file */
}

static void in_child(void)
{
    int saved = errno;
    bool was_recording = piano__recording.view.header != NULL;
    piano__heap_forget();
    is_child = true;
    if (was_recording && number_of("PIANO_CHILDREN") == 1)
        start_as_asked();
    errno = saved;
}

void piano__control_begin(void)
{
    static uint32_t begun;
    if (!environ || __atomic_exchange_n(&begun, 1, __ATOMIC_RELAXED))
        return;
    int saved = errno;
    pthread_atfork(NULL, NULL, in_child);
    start_as_asked();
    errno = saved;
}

/* At the latest; constructors of other libraries that allocate may come before this. */
__attribute__((constructor(103))) static void begin(void)
{
    piano__control_begin();
}

/* Blocks that are freed later, by destructors of other libraries, are still followed. A child that was forked behind the C
 * library's back has no header (heap.c, the gate), so no system call is needed to know it. */
__attribute__((destructor(101))) static void end(void)
{
    struct piano__rec_header *h = piano__recording.view.header;
    if (!piano__heap_header() || h->state == PIANO_REC_TERMINATED)
        return;
    h->end_mono_ns = (uint64_t)piano__monotonic_ns();
    __atomic_store_n(&h->state, PIANO_REC_ENDED, __ATOMIC_RELAXED);
}

#define EXPORT __attribute__((visibility("default")))

EXPORT int piano_heap_start(size_t mean_bytes)
{
    if (!piano__alloc_place)
        return -ENOSYS; /* linked statically: there are no hooks that could see anything */
    return mean_bytes == 0 ? -EINVAL : piano__heap_start(mean_bytes);
}

EXPORT int piano_heap_stop(void)
{
    return piano__heap_stop();
}

EXPORT int piano_heap_shutdown(void)
{
    return piano__heap_shutdown();
}

EXPORT int piano_heap_snapshot(void)
{
    return piano__heap_snapshot();
}

EXPORT int piano_heap_stats(struct piano_heap_stats *out)
{
    const struct piano__rec_header *h = piano__heap_header();
    if (!h)
        return -ENOTCONN;
    *out = (struct piano_heap_stats){
        .mean_bytes = h->rate,
        .samples = h->stats.samples,
        .live_samples = h->stats.samples - h->stats.freed,
        .freed_samples = h->stats.freed,
        .stacks = h->stats.stacks,
        .dropped = h->stats.dropped_live + h->stats.dropped_stacks + h->stats.dropped_memory +
                   h->stats.dropped_busy,
        .live_bytes = h->live_bytes,
        .live_objects = h->live_objects,
        .allocated_bytes = h->allocated_bytes,
        .peak_bytes = h->peak_bytes,
        .live_variance = h->live_variance,
    };
    return 0;
}
