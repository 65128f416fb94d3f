/* Life of a run.
 *
 *   start   at the first instrumented call: runs directory, run file with header, live image. One
 *           thread does it. Others wait up to WAIT_NS; after that their calls are not recorded.
 *   going   threads append whole lines, one or more per write, to a descriptor opened for
 *           appending, so lines of different threads never mix.
 *   end     in a destructor at exit: the exiting thread closes its open calls, reads the blocks of
 *           the other threads, writes the end line (and the v1 file if nothing repeated) and
 *           removes the live image. A program that ends otherwise leaves the image for the tool.
 *   fork    the child starts from nothing and gets its own run at its first instrumented call. */
#include "target/span/run.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/lines.h"
#include "target/span/blocks.h"
#include "target/span/calibrate.h"
#include "target/span/frame.h"
#include "target/span/header.h"
#include "target/span/mode.h"
#include "target/span/onoff.h"
#include "target/span/registry.h"
#include "target/span/take.h"
#include "target/span/thread.h"
#include "target/span/toll.h"
#include "target/span/watch.h"
#include "target/sys/clock.h"
#include "target/sys/file.h"
#include "target/sys/runs.h"

enum {
    WAIT_NS = 50000000,
    MAX_LINE = 2 << 20,
    SYNC_LEAST_NS = 10000000,
    SYNC_MOST_NS = 1000000000
};

struct piano__run piano__run = {.fd = -1, .live_fd = -1};

/* Header until the live image exists, or for the whole run if there is no image. */
static struct piano__live_header private_header;
static struct piano__live_header prepared; /* calibrated once, copied for each run */

static int64_t epoch_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static bool make_path(char *path, size_t size, const char *ending)
{
    struct piano__text text = {path, path + size - 1, false};
    piano__text_puts(&text, piano__run.stem);
    piano__text_puts(&text, ending);
    *text.at = '\0';
    return !text.full;
}

static char run_path[PATH_MAX];

/* Sets `stem` and creates the run file. Returns the descriptor or negative errno. */
static int create_run_file(int64_t now_ms)
{
    const char *dir = piano__runs_dir();
    if (!dir)
        return -ENOENT;
    int err = piano__file_make_dirs(dir);
    if (err != 0)
        return err;
    static char cwd[PATH_MAX]; /* static: the first call may be on a small stack */
    if (!getcwd(cwd, sizeof cwd))
        cwd[0] = '\0';
    for (int try = 0; try < 100; try++) {
        struct piano__text text = {piano__run.stem, piano__run.stem + sizeof piano__run.stem - 1,
                                   false};
        if (dir[0] != '/') {
            piano__text_puts(&text, cwd);
            piano__text_puts(&text, "/");
        }
        piano__text_puts(&text, dir);
        piano__text_puts(&text, "/");
        piano__text_int(&text, now_ms + try);
        piano__text_puts(&text, "-");
        piano__text_int(&text, getpid());
        *text.at = '\0';
        if (text.full || !make_path(run_path, sizeof run_path, ".ndjson"))
            return -ENAMETOOLONG;
        int fd = piano__file_create(run_path, 1);
        if (fd != -EEXIST)
            return fd;
    }
    return -EEXIST;
}

static void plan_image(struct piano__live_header *h)
{
    uint32_t count = piano__registry_count();
    memcpy(h->magic, PIANO_LIVE_MAGIC, sizeof h->magic);
    h->header_bytes = PIANO_LIVE_HEADER_BYTES;
    h->thread_bytes = sizeof(struct piano__thread);
    h->head_bytes = sizeof(struct piano__head);
    h->slot_bytes = sizeof(struct piano__slot);
    h->entry_bytes = sizeof(struct piano__entry);
    h->fn_count = count;
    h->fn_capacity =
        (count + (count < 2048 ? 512 : count / 4) + 63) & ~63u; /* keeps slots aligned */
    piano__capacity = h->fn_capacity;
    size_t longest = piano__line_bound(h->fn_capacity);
    h->text_bytes = (uint32_t)(longest < MAX_LINE ? longest : MAX_LINE) + 64 * 1024;
    h->text_bytes = (h->text_bytes + 63) & ~63u; /* keeps what follows aligned */
    uint64_t size = sizeof(struct piano__thread) +
                    h->fn_capacity * (sizeof(struct piano__head) + sizeof(struct piano__slot)) +
                    PIANO_MAX_DEPTH * sizeof(struct piano__entry) + h->text_bytes +
                    sizeof(struct piano__merged);
    h->block_bytes = (size + 4095) / 4096 * 4096;
}

/* Moves the header into the live file if that can be created. */
static void create_image(void)
{
    static char path[PATH_MAX];
    piano__run.header = &private_header;
    if (!make_path(path, sizeof path, ".live"))
        return;
    int fd = piano__file_create(path, 0);
    if (fd < 0)
        return;
    struct piano__live_header *h = piano__memory_map_file(fd, 0, PIANO_LIVE_HEADER_BYTES);
    if (!h) {
        unlink(path);
        piano__file_close(fd);
        return;
    }
    *h = private_header;
    piano__run.header = h;
    piano__run.live_fd = piano__file_move_up(fd);
    piano__run.live_file = piano__file_id(piano__run.live_fd);
}

/* Measures the clock rate and the probe costs, once per process; forked children reuse them. This
 * takes a few ms, so it runs before the program starts. At the first call other threads would have
 * to wait. */
void piano__run_prepare(void)
{
    static bool begun;
    /* No partner: selects one of several callers. The constructors run in one thread. */
    if (__atomic_exchange_n(&begun, true, __ATOMIC_SEQ_CST))
        return;
    piano__clock_init();
    piano__mode_init();
    plan_image(&prepared);
    piano__run.header = &prepared;
    piano__calibrate(&prepared);
    piano__run.bias_alloc = prepared.bias.alloc;
    piano__watch_prepare(prepared.ns_per_tick_32);
    piano__toll_init(prepared.ns_per_tick_32);
    piano__onoff_init();
}

/* CLOCKS. Times in the file come from the counter, at the rate measured at the start. Other
 * recorders use CLOCK_MONOTONIC. The measured rate is off by a few ppm and the kernel adjusts its
 * clock. So both clocks are recorded together from time to time: often at first, then at intervals
 * as long as the run so far, and at least once per SYNC_MOST_NS. */
static int64_t ticks_of(int64_t ns)
{
    return (int64_t)(((__int128)ns << 32) / (__int128)piano__run.header->ns_per_tick_32);
}

static void plan_sync(int64_t now)
{
    int64_t gap = now - piano__run.header->start_ticks;
    int64_t least = ticks_of(SYNC_LEAST_NS), most = ticks_of(SYNC_MOST_NS);
    gap = gap < least ? least : gap > most ? most : gap;
    __atomic_store_n(&piano__run.next_sync, now + gap, __ATOMIC_RELAXED);
}

static void write_sync(void)
{
    char line[128];
    struct piano__text text = {line, line + sizeof line, false};
    const struct piano__live_header *h = piano__run.header;
    struct piano__clock_pair pair = piano__clock_pair();
    int64_t at = (int64_t)pair.ticks - h->start_ticks;
    if (pair.mono_ns == 0)
        return;
    piano__text_puts(&text, "{\"sync\":true");
    piano__text_field(&text, "at_ns", piano__ticks_ns(at, h->ns_per_tick_32));
    piano__text_field(&text, "mono_ns", (int64_t)pair.mono_ns);
    piano__text_puts(&text, "}\n");
    if (!text.full)
        piano__run_write(line, (size_t)(text.at - line));
}

void piano__run_sync(int64_t now)
{
    int64_t next = __atomic_load_n(&piano__run.next_sync, __ATOMIC_RELAXED);
    /* No partner: one thread wins the CAS and writes. If a signal handler jumps out of the write,
     * the next sync comes after SYNC_MOST_NS. */
    if (now < next ||
        !__atomic_compare_exchange_n(&piano__run.next_sync, &next, now + ticks_of(SYNC_MOST_NS),
                                     false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        return;
    write_sync();
    plan_sync(now);
}

static bool start_once(void)
{
    int64_t now_ms = epoch_ms();
    piano__run_prepare();
    private_header = prepared;
    plan_image(&private_header);
    piano__run.header = &private_header;
    piano__run.pid = getpid();
    piano__run.fd = create_run_file(now_ms);
    if (piano__run.fd < 0)
        return false;
    piano__run.fd = piano__file_move_up(piano__run.fd);
    piano__run.file = piano__file_id(piano__run.fd);
    create_image();
    struct piano__clock_pair start = piano__clock_pair();
    piano__run.header->start_ticks = start.mono_ns ? (int64_t)start.ticks : piano__ticks();
    piano__run.start_mono_ns = start.mono_ns;
    plan_sync(piano__run.header->start_ticks);
    piano__run.sums = piano__memory_map(private_header.fn_capacity * sizeof *piano__run.sums);
    uint32_t count = piano__registry_count();
    piano__header_write(now_ms, count);
    /* Pairs with the CAS in piano__run_functions_added(). */
    __atomic_store_n(&piano__run.announced_fns, count, __ATOMIC_SEQ_CST);
    return true;
}

static bool start_now(void)
{
    int saved = errno;
    /* Pairs with the load in wait_for_start(), in a signal handler of this thread. */
    __atomic_store_n(&piano__run.starter, (int)syscall(SYS_gettid), __ATOMIC_SEQ_CST);
    bool on = start_once();
    errno = saved;
    /* Pairs with the acquire in `piano__run_start`: a thread that reads ON sees the header. */
    __atomic_store_n(&piano__run.state, on ? PIANO_RUN_ON : PIANO_RUN_OFF, __ATOMIC_RELEASE);
    if (on)
        piano__run_functions_added();
    return on;
}

/* Waits for the start, a fraction of a millisecond, so that the thread's first calls are not lost.
 * The starting thread itself gets here only from a signal handler; that call is not recorded. After
 * one timeout no thread waits again: the starting thread may never return. */
static int wait_for_start(void)
{
    static bool too_long;
    int64_t deadline = piano__monotonic_ns() + WAIT_NS;
    int state = PIANO_RUN_STARTING;
    /* `state` and `starter` pair with start_now(); `too_long` has no partner. */
    while (state == PIANO_RUN_STARTING && !__atomic_load_n(&too_long, __ATOMIC_SEQ_CST) &&
           (int)syscall(SYS_gettid) != __atomic_load_n(&piano__run.starter, __ATOMIC_SEQ_CST) &&
           piano__monotonic_ns() < deadline) {
        syscall(SYS_sched_yield);
        state = __atomic_load_n(&piano__run.state, __ATOMIC_ACQUIRE);
    }
    if (state == PIANO_RUN_STARTING) {
        /* No partner: a counter, and a flag that may be seen late. */
        __atomic_fetch_add(&piano__run.missed, 1, __ATOMIC_SEQ_CST);
        if (piano__monotonic_ns() >= deadline)
            __atomic_store_n(&too_long, true, __ATOMIC_SEQ_CST);
    }
    return state;
}

bool piano__run_start(void)
{
    /* Pairs with the release in start_now(). The CAS selects the thread that starts the run. */
    int state = __atomic_load_n(&piano__run.state, __ATOMIC_ACQUIRE);
    if (state == PIANO_RUN_NONE &&
        __atomic_compare_exchange_n(&piano__run.state, &state, PIANO_RUN_STARTING, false,
                                    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        return start_now();
    if (state == PIANO_RUN_STARTING)
        state = wait_for_start();
    return state == PIANO_RUN_ON;
}

static void count_dropped_functions(uint32_t count)
{
    uint32_t capacity = piano__run.header->fn_capacity;
    uint64_t beyond = count > capacity ? count - capacity : 0;
    __atomic_store_n(&piano__run.header->dropped.functions, beyond + piano__registry_refused(),
                     __ATOMIC_RELAXED);
}

void piano__run_functions_added(void)
{
    /* Pairs with the release in start_now(). */
    if (__atomic_load_n(&piano__run.state, __ATOMIC_ACQUIRE) != PIANO_RUN_ON)
        return;
    uint32_t count = piano__registry_count();
    count_dropped_functions(count);
    /* Pairs with the store in start_once(). The CAS selects one thread for each function. */
    uint32_t from = __atomic_load_n(&piano__run.announced_fns, __ATOMIC_SEQ_CST);
    while (from < count && !__atomic_compare_exchange_n(&piano__run.announced_fns, &from, count,
                                                        true, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        ;
    if (from >= count)
        return;
    piano__run.header->fn_count = count;
    piano__header_write_more(from, count);
}

/* Some programs close all descriptors they do not know, and may have reused the number. Then the
 * file is reopened by its path. */
static __attribute__((noinline)) int reopen_file(size_t len)
{
    int fd = piano__file_append(run_path);
    if (fd < 0)
        return fd;
    int err = piano__file_check(fd, piano__run.file, len);
    if (err == 0)
        piano__run.fd = piano__file_move_up(fd);
    else
        piano__file_close(fd);
    return err;
}

void piano__run_write(const char *text, size_t len)
{
    if (getpid() != piano__run.pid)
        return; /* forked child that ran no atfork handlers */
    /* Other threads may write between the check and the write, so the check includes their
     * bytes. */
    size_t planned = __atomic_fetch_add(&piano__run.planned, len, __ATOMIC_RELAXED);
    int err = piano__file_check(piano__run.fd, piano__run.file, planned + len);
    if (err == -EBADF)
        err = reopen_file(planned + len);
    if (err == 0)
        err = piano__file_write(piano__run.fd, text, len);
    __atomic_fetch_sub(&piano__run.planned, len, __ATOMIC_RELAXED);
    if (err != 0)
        piano__dropped_add(&piano__run.header->dropped.write);
    else
        __atomic_fetch_add(&piano__run.file_bytes, len, __ATOMIC_RELAXED);
}

/* Sums for the v1 file. Field by field and without a lock: a signal handler may call exit() in the
 * middle, and the exit path reads the sums. */
void piano__run_sum(uint32_t id, const struct piano__tally *tally)
{
    if (__atomic_load_n(&piano__run.repeated, __ATOMIC_RELAXED) || !piano__run.sums)
        return;
    struct piano__tally *sum = &piano__run.sums[id];
    __atomic_fetch_add(&sum->calls, tally->calls, __ATOMIC_RELAXED);
    __atomic_fetch_add(&sum->self, tally->self, __ATOMIC_RELAXED);
    __atomic_fetch_add(&sum->total, tally->total, __ATOMIC_RELAXED);
    __atomic_fetch_add(&sum->alloc_count, tally->alloc_count, __ATOMIC_RELAXED);
    __atomic_fetch_add(&sum->alloc_bytes, tally->alloc_bytes, __ATOMIC_RELAXED);
    __atomic_fetch_add(&sum->free_count, tally->free_count, __ATOMIC_RELAXED);
    __atomic_fetch_add(&sum->free_bytes, tally->free_bytes, __ATOMIC_RELAXED);
}

static void write_end(int64_t now)
{
    char line[512];
    struct piano__text text = {line, line + sizeof line, false};
    const struct piano__live_header *h = piano__run.header;
    piano__text_puts(&text, "{\"end\":true");
    piano__text_field(&text, "wall_ns", piano__ticks_ns(now - h->start_ticks, h->ns_per_tick_32));
    piano__line_dropped(&text, "", &h->dropped);
    if (!text.full)
        piano__run_write(line, (size_t)(text.at - line));
}

static void remove_live(void)
{
    static char path[PATH_MAX];
    if (piano__run.live_fd >= 0 && make_path(path, sizeof path, ".live"))
        unlink(path);
}

__attribute__((destructor(101))) static void end_run(void)
{
    /* `state` pairs with start_now(). No partner: `missed` and `repeated` may still change. */
    if (__atomic_load_n(&piano__run.state, __ATOMIC_SEQ_CST) != PIANO_RUN_ON ||
        getpid() != piano__run.pid)
        return;
    int saved = errno;
    int64_t now = piano__ticks();
    piano__watch_end();
    piano__thread_detach();
    piano__run.header->dropped.busy += __atomic_load_n(&piano__run.missed, __ATOMIC_SEQ_CST);
    /* Pairs with the acquire in piano__run_start(): later calls are not recorded. */
    __atomic_store_n(&piano__run.state, PIANO_RUN_OFF, __ATOMIC_SEQ_CST);
    bool all = piano__take_write(now);
    if (!__atomic_load_n(&piano__run.repeated, __ATOMIC_SEQ_CST))
        piano__header_write_v1();
    write_sync();
    write_end(now);
    if (all && piano__run.header->dropped.write == 0)
        remove_live();
    errno = saved;
}

static void in_child(void)
{
    /* Pairs with start_now(), in the thread that forked. */
    int state = __atomic_load_n(&piano__run.state, __ATOMIC_SEQ_CST);
    piano__thread_forget();
    piano__onoff_forget();
    piano__watch_forget();
    piano__registry_forget();
    if (state == PIANO_RUN_ON || state == PIANO_RUN_STARTING) {
        piano__blocks_abandon();
        if (piano__file_check(piano__run.fd, piano__run.file, 0) != -EBADF)
            piano__file_close(piano__run.fd);
        if (piano__run.live_fd >= 0) {
            if (piano__file_check(piano__run.live_fd, piano__run.live_file, 0) != -EBADF)
                piano__file_close(piano__run.live_fd);
            piano__memory_unmap(piano__run.header, PIANO_LIVE_HEADER_BYTES);
        }
        memset(&private_header, 0, sizeof private_header);
        piano__run.header = &private_header;
        piano__run.fd = piano__run.live_fd = -1;
        piano__run.sums = NULL;
        /* No partner: a forked child has one thread. */
        __atomic_store_n(&piano__run.announced_fns, 0, __ATOMIC_SEQ_CST);
        __atomic_store_n(&piano__run.thread_numbers, 0, __ATOMIC_SEQ_CST);
        __atomic_store_n(&piano__run.frame_numbers, 0, __ATOMIC_SEQ_CST);
        __atomic_store_n(&piano__run.file_bytes, 0, __ATOMIC_SEQ_CST);
        __atomic_store_n(&piano__run.planned, 0, __ATOMIC_SEQ_CST);
        __atomic_store_n(&piano__run.repeated, false, __ATOMIC_SEQ_CST);
        __atomic_store_n(&piano__run.state, PIANO_RUN_NONE, __ATOMIC_SEQ_CST);
    }
}

__attribute__((constructor(101))) static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, in_child);
}
