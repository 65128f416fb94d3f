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
#include "target/span/thread.h"
#include "target/span/toll.h"
#include "target/span/watch.h"
#include "target/sys/clock.h"
#include "target/sys/file.h"

enum {
    WAIT_NS = 50000000,
    BUSY_NS = 2000000,
    TAKE_NS = 50000000,
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

static const char *runs_dir(void)
{
    const char *dir = secure_getenv("PIANO_RUNS_DIR");
    return dir && *dir ? dir : piano__registry_runs_dir();
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
    const char *dir = runs_dir();
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
    static _Atomic bool begun;
    if (atomic_exchange(&begun, true))
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
    atomic_store_explicit(&piano__run.next_sync, now + gap, memory_order_relaxed);
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
    int64_t next = atomic_load_explicit(&piano__run.next_sync, memory_order_relaxed);
    /* One thread wins the CAS and writes. If a signal handler jumps out of the write, the next sync
     * comes after SYNC_MOST_NS. */
    if (now < next ||
        !atomic_compare_exchange_strong(&piano__run.next_sync, &next, now + ticks_of(SYNC_MOST_NS)))
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
    atomic_store(&piano__run.announced_fns, count);
    return true;
}

static bool start_now(void)
{
    int saved = errno;
    atomic_store(&piano__run.starter, (int)syscall(SYS_gettid));
    bool on = start_once();
    errno = saved;
    /* Pairs with the acquire in `piano__run_start`: a thread that reads ON sees the header. */
    atomic_store_explicit(&piano__run.state, on ? PIANO_RUN_ON : PIANO_RUN_OFF,
                          memory_order_release);
    if (on)
        piano__run_functions_added();
    return on;
}

/* Waits for the start, a fraction of a millisecond, so that the thread's first calls are not lost.
 * The starting thread itself gets here only from a signal handler; that call is not recorded. After
 * one timeout no thread waits again: the starting thread may never return. */
static int wait_for_start(void)
{
    static _Atomic bool too_long;
    int64_t deadline = piano__monotonic_ns() + WAIT_NS;
    int state = PIANO_RUN_STARTING;
    while (state == PIANO_RUN_STARTING && !atomic_load(&too_long) &&
           (int)syscall(SYS_gettid) != atomic_load(&piano__run.starter) &&
           piano__monotonic_ns() < deadline) {
        syscall(SYS_sched_yield);
        state = atomic_load_explicit(&piano__run.state, memory_order_acquire);
    }
    if (state == PIANO_RUN_STARTING) {
        atomic_fetch_add(&piano__run.missed, 1);
        if (piano__monotonic_ns() >= deadline)
            atomic_store(&too_long, true);
    }
    return state;
}

bool piano__run_start(void)
{
    int state = atomic_load_explicit(&piano__run.state, memory_order_acquire);
    if (state == PIANO_RUN_NONE &&
        atomic_compare_exchange_strong(&piano__run.state, &state, PIANO_RUN_STARTING))
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
    if (atomic_load_explicit(&piano__run.state, memory_order_acquire) != PIANO_RUN_ON)
        return;
    uint32_t count = piano__registry_count();
    count_dropped_functions(count);
    uint32_t from = atomic_load(&piano__run.announced_fns);
    while (from < count && !atomic_compare_exchange_weak(&piano__run.announced_fns, &from, count))
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
    size_t planned = atomic_fetch_add_explicit(&piano__run.planned, len, memory_order_relaxed);
    int err = piano__file_check(piano__run.fd, piano__run.file, planned + len);
    if (err == -EBADF)
        err = reopen_file(planned + len);
    if (err == 0)
        err = piano__file_write(piano__run.fd, text, len);
    atomic_fetch_sub_explicit(&piano__run.planned, len, memory_order_relaxed);
    if (err != 0)
        piano__dropped_add(&piano__run.header->dropped.write);
    else
        atomic_fetch_add_explicit(&piano__run.file_bytes, len, memory_order_relaxed);
}

/* Sums for the v1 file. Field by field and without a lock: a signal handler may call exit() in the
 * middle, and the exit path reads the sums. */
void piano__run_sum(uint32_t id, const struct piano__tally *tally)
{
    if (atomic_load_explicit(&piano__run.repeated, memory_order_relaxed) || !piano__run.sums)
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

static void write_sink(void *ctx, const char *text, size_t len)
{
    (void)ctx;
    piano__run_write(text, len);
}

static bool is_changing(const struct piano__thread *t)
{
    return __atomic_load_n(&t->claim, __ATOMIC_ACQUIRE) &
           (PIANO_CLAIM_CHANGING | PIANO_CLAIM_WRITING);
}

/* Claims the blocks of threads that still run (commit.c). Waits up to BUSY_NS for a thread inside a
 * probe, and up to TAKE_NS, yielding the CPU, for a thread that is writing a line: it may have been
 * preempted. */
static void take_blocks(void)
{
    uint32_t count = piano__blocks_count();
    int64_t begin = piano__monotonic_ns();
    for (uint32_t i = 0; i < count; i++)
        if (piano__blocks_at(i))
            __atomic_fetch_or(&piano__blocks_at(i)->claim, PIANO_CLAIM_TAKEN, __ATOMIC_SEQ_CST);
    for (uint32_t i = 0; i < count; i++) {
        const struct piano__thread *t = piano__blocks_at(i);
        if (!t || __atomic_load_n(&t->state, __ATOMIC_ACQUIRE) != PIANO_THREAD_RUNNING)
            continue;
        while (__atomic_load_n(&t->busy, __ATOMIC_ACQUIRE) &&
               piano__monotonic_ns() < begin + BUSY_NS)
            ;
        while (is_changing(t) && piano__monotonic_ns() < begin + TAKE_NS)
            syscall(SYS_sched_yield);
    }
}

/* Writes the data of a thread that still runs. Data that could not be written stays in the image,
 * as does all data of a thread that is in the middle of its own write. */
static bool write_block(struct piano__thread *t, int64_t now)
{
    if (__atomic_load_n(&t->claim, __ATOMIC_ACQUIRE) & PIANO_CLAIM_WRITING)
        return false;
    uint64_t failed = __atomic_load_n(&piano__run.header->dropped.write, __ATOMIC_RELAXED);
    struct piano__offcpu look;
    bool looked = piano__onoff_look_at(t, &look);
    piano__live_thread(piano__run.header, t, now, looked ? &look : NULL, write_sink, NULL);
    if (__atomic_load_n(&piano__run.header->dropped.write, __ATOMIC_RELAXED) != failed)
        return false;
    __atomic_store_n(&t->state, PIANO_THREAD_ENDED, __ATOMIC_RELEASE);
    return true;
}

static bool write_blocks(int64_t now)
{
    bool all = true;
    take_blocks();
    for (uint32_t i = 0; i < piano__blocks_count(); i++) {
        struct piano__thread *t = piano__blocks_at(i);
        if (t && t->state == PIANO_THREAD_RUNNING && !write_block(t, now))
            all = false;
    }
    return all;
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
    if (atomic_load(&piano__run.state) != PIANO_RUN_ON || getpid() != piano__run.pid)
        return;
    int saved = errno;
    int64_t now = piano__ticks();
    piano__watch_end();
    piano__thread_detach();
    piano__run.header->dropped.busy += atomic_load(&piano__run.missed);
    atomic_store(&piano__run.state, PIANO_RUN_OFF);
    bool all = write_blocks(now);
    if (!atomic_load(&piano__run.repeated))
        piano__header_write_v1();
    write_sync();
    write_end(now);
    if (all && piano__run.header->dropped.write == 0)
        remove_live();
    errno = saved;
}

static void in_child(void)
{
    int state = atomic_load(&piano__run.state);
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
        atomic_store(&piano__run.announced_fns, 0);
        atomic_store(&piano__run.thread_numbers, 0);
        atomic_store(&piano__run.frame_numbers, 0);
        atomic_store(&piano__run.file_bytes, 0);
        atomic_store(&piano__run.planned, 0);
        atomic_store(&piano__run.repeated, false);
        atomic_store(&piano__run.state, PIANO_RUN_NONE);
    }
}

__attribute__((constructor(101))) static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, in_child);
}
