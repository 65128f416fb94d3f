/* Reads the CPU time of threads and their time in the run queue; see onoff.h.
 *
 * schedstat stays open, one descriptor per thread, numbered above those of the program. At most a
 * sixteenth of the descriptor limit, and at most MAX_FILES, is used for that. Other threads have no
 * schedstat, and their time off the CPU is not split. The same holds for kernels and containers
 * without schedstat. */
#include "target/span/onoff.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/lines.h"
#include "common/offcpu.h"
#include "target/span/run.h"
#include "target/span/thread.h"
#include "target/sys/clock.h"
#include "target/sys/file.h"

enum {
    AFFORD = 256, /* a reading may cost 1/AFFORD of the time it covers */
    LEAST_NS = 50000,
    RECENT_NS = 2000,
    OFF_NS = 20000, /* read schedstat only after this much time off the CPU */
    TRIES = 16,
    TORN_NS = 20000, /* clock reads this far apart do not describe the same moment */
    MEDIUM_PART = 16,
    MOST_MEDIUMS = 1000, /* most calls that one checked call may stand for */
    STALE_PART = 20,     /* a reading may precede a frame by 1/STALE_PART of its length */
    MAX_FILES = 256,
    CROWDED = 256, /* expect more waits for so many times the length of one */
};

int64_t piano__onoff_least = INT64_MAX;
int64_t piano__onoff_medium = INT64_MAX;
int64_t piano__onoff_recent = INT64_MAX;
int64_t piano__onoff_torn = INT64_MAX;

/* `owner` is a tid, or 0. Each thread claims and releases its own file. */
static struct {
    int owner;
    int fd;
    struct piano__file_id id;
} files[MAX_FILES];

static uint64_t scale(void)
{
    return piano__run.header->ns_per_tick_32;
}

static int64_t ticks_of(int64_t ns)
{
    return (int64_t)(((__int128)ns << 32) / (__int128)scale());
}

/* ---- CPU time ---- */

static int64_t clock_ns(clockid_t clock)
{
    struct timespec ts;
    int saved = errno;
    int err = clock_gettime(clock, &ts);
    errno = saved;
    return err ? -1 : (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* CPU time and clock at the same moment, and the ticks that the reads took. A preemption between
 * the reads makes `cost` large. */
struct moment {
    int64_t tick;
    int64_t cpu_ns; /* -1: no such clock */
    int64_t cost;
};

static struct moment read_moment(clockid_t clock)
{
    struct moment m = {0, -1, INT64_MAX};
    for (int i = 0; i < 3 && m.cost > piano__onoff_torn; i++) {
        int64_t before = piano__ticks();
        m.cpu_ns = clock_ns(clock);
        m.cost = piano__ticks() - before;
        m.tick = before + m.cost / 2;
    }
    return m;
}

/* Not yet `off`: the clock counts from the start of the run, CPU time from the start of the
 * thread. */
static int64_t clock_less_cpu(struct moment m)
{
    return piano__ticks_ns(m.tick - piano__run.header->start_ticks, scale()) - m.cpu_ns;
}

void piano__onoff_init(void)
{
    int64_t least = INT64_MAX;
    piano__onoff_torn = ticks_of(TORN_NS);
    for (int i = 0; i < TRIES; i++) {
        struct moment m = read_moment(CLOCK_THREAD_CPUTIME_ID);
        if (m.cpu_ns < 0)
            return;
        least = m.cost < least ? m.cost : least;
    }
    int64_t afford = least * AFFORD;
    piano__onoff_recent = ticks_of(RECENT_NS);
    piano__onoff_least = afford > ticks_of(LEAST_NS) ? afford : ticks_of(LEAST_NS);
    piano__onoff_medium = piano__onoff_least / MEDIUM_PART;
}

/* ---- the wait for a CPU ---- */

static uint32_t files_allowed(void)
{
    struct rlimit limit;
    int saved = errno;
    uint64_t most = getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur / 16 : 0;
    errno = saved;
    return most < MAX_FILES ? (uint32_t)most : MAX_FILES;
}

/* Opens the calling thread's schedstat as files[I]. */
static bool open_file(uint32_t i)
{
    int fd = piano__file_open("/proc/thread-self/schedstat", O_RDONLY);
    if (fd < 0)
        return false;
    files[i].fd = piano__file_move_up(fd);
    if (files[i].fd == fd) { /* no high number free: leave low ones to the program */
        piano__file_close(fd);
        return false;
    }
    files[i].id = piano__file_id(files[i].fd);
    return true;
}

static void take_file(struct piano__thread *t)
{
    uint32_t allowed = files_allowed();
    t->runq_file = 0;
    for (uint32_t i = 0; i < allowed; i++) {
        int unowned = 0;
        /* Takes the entry, as a lock: rule 6; pairs with the stores of 0 below. */
        if (!__atomic_compare_exchange_n(&files[i].owner, &unowned, t->tid, false, __ATOMIC_SEQ_CST,
                                         __ATOMIC_SEQ_CST))
            continue;
        if (open_file(i))
            t->runq_file = i + 1;
        else
            __atomic_store_n(&files[i].owner, 0, __ATOMIC_SEQ_CST); /* rule 6 */
        return;
    }
}

/* Some programs close all descriptors they do not know, and may have reused the number. */
static bool is_ours(uint32_t i)
{
    struct piano__file_id id = piano__file_id(files[i].fd);
    return id.inode == files[i].id.inode && id.device == files[i].id.device;
}

static void close_file(uint32_t i)
{
    if (is_ours(i))
        piano__file_close(files[i].fd);
    __atomic_store_n(&files[i].owner, 0, __ATOMIC_SEQ_CST); /* rule 6 */
}

/* Returns the second number of text like "3828374 9283744 12\n", or -1. */
static int64_t second_number(const char *text, long len)
{
    long at = 0;
    int64_t value = 0;
    while (at < len && text[at] != ' ')
        at++;
    long first = ++at;
    for (; at < len && text[at] >= '0' && text[at] <= '9'; at++)
        value = value * 10 + (text[at] - '0');
    return at > first && at < len ? value : -1;
}

/* Returns the ns that the calling thread has waited for a CPU, or -1 if unknown. */
static int64_t read_runq(const struct piano__thread *t)
{
    char text[80];
    if (t->runq_file == 0)
        return -1;
    uint32_t i = t->runq_file - 1;
    if (!is_ours(i) && !open_file(i)) {
        files[i].fd = -1;
        return -1;
    }
    int saved = errno;
    long len = syscall(SYS_pread64, files[i].fd, text, sizeof text, 0L);
    errno = saved;
    return second_number(text, len);
}

/* ---- readings ---- */

/* Adds the reading M to LOOK. The measured counter rate is off by a few ppm, so on a thread that
 * never waits, clock minus CPU time can drift backwards. *BASE follows the drift; otherwise the
 * next wait would have to make up for it. */
static void advance(struct piano__offcpu *look, struct moment m, int64_t *base)
{
    int64_t raw = clock_less_cpu(m);
    if (raw - *base > look->off)
        look->off = raw - *base;
    else
        *base = raw - look->off;
    look->tick = m.tick;
}

/* Stores the last reading as the begin of all open calls that started after it. Must run before
 * `look` changes. */
static void settle_open_calls(struct piano__thread *t)
{
    struct piano__entry *entries = piano__entries(t);
    for (uint32_t i = t->looked_depth; i < t->depth; i++)
        entries[i].look = t->look;
    t->looked_depth = t->depth;
}

static void plan_next(struct piano__thread *t)
{
    t->look_soon = t->look.tick + piano__onoff_recent;
    t->look_late = t->look.tick + piano__onoff_least;
}

static void set_runq(struct piano__offcpu *look, int64_t waited)
{
    if (waited > look->runq)
        look->runq = waited < look->off ? waited : look->off;
}

/* Excludes time off the CPU since BEGAN, when the profiler was working: the kernel often switches
 * threads in its system calls. Returns the excluded ns. */
static int64_t skip_own(struct piano__thread *t, struct moment m, int64_t began)
{
    int64_t window = m.tick - began;
    if (window < piano__onoff_torn)
        return 0;
    int64_t off = piano__within(clock_less_cpu(m) - t->off_base - t->look.off, 0,
                                piano__ticks_ns(window, scale()));
    t->off_base += off;
    t->off_skipped += off;
    return off;
}

static void take_runq(struct piano__thread *t, int64_t skipped)
{
    if (t->look.off - t->runq_off + skipped < OFF_NS)
        return;
    int64_t before = t->look.runq + t->runq_base;
    int64_t runq = t->look.runq < 0 ? -1 : read_runq(t);
    int64_t waited = runq < 0 ? t->look.off - t->runq_off + skipped : runq - before;
    int64_t until = t->look.tick + CROWDED * ticks_of(waited);
    if (waited >= OFF_NS && until > t->crowded_until)
        t->crowded_until = until;
    if (runq < 0) {
        t->look.runq = -1;
    } else {
        int64_t own = piano__within(runq - t->runq_base - t->look.runq, 0, skipped);
        t->runq_base += own;
        t->runq_skipped += own;
        set_runq(&t->look, runq - t->runq_base);
    }
    t->runq_off = t->look.off;
}

void piano__onoff_look(struct piano__thread *t, int64_t began)
{
    if (piano__onoff_least == INT64_MAX || t->look.tick == 0)
        return; /* there are no readings on this machine, or on this thread */
    settle_open_calls(t);
    for (int i = 0; i < 3; i++) {
        struct moment m = read_moment(CLOCK_THREAD_CPUTIME_ID);
        if (m.cpu_ns < 0)
            return;
        int64_t skipped = skip_own(t, m, began);
        advance(&t->look, m, &t->off_base);
        take_runq(t, skipped);
        plan_next(t);
        began = m.tick;
        if (piano__ticks() - began < piano__onoff_torn)
            return;
    }
}

void piano__onoff_look_piece(struct piano__thread *t, struct piano__entry *e, int64_t called,
                             int64_t began)
{
    struct piano__offcpu before = t->look;
    int64_t from = e->start > t->last_tick ? e->start : t->last_tick;
    from = from > before.tick ? from : before.tick;
    piano__onoff_look(t, began);
    if (called > from && t->look.off - before.off >= OFF_NS)
        piano__offcpu_piece(&t->look, &before, called - from, scale(), &e->piece_off,
                            &e->piece_runq);
}

int64_t piano__onoff_after(struct piano__thread *t, int64_t began)
{
    int64_t now = piano__ticks();
    if (now - began < piano__onoff_torn || t->look.tick == 0)
        return now;
    if (now - t->look.tick >= piano__onoff_torn)
        piano__onoff_look(t, began > t->look.tick ? began : t->look.tick);
    return piano__ticks();
}

void piano__onoff_attach(struct piano__thread *t)
{
    t->look = (struct piano__offcpu){.runq = -1};
    t->runq_off = t->off_skipped = t->runq_skipped = 0;
    t->runq_file = t->looked_depth = 0;
    t->look_soon = t->look_late = INT64_MAX;
    if (piano__onoff_least == INT64_MAX)
        return;
    take_file(t);
    t->runq_base = read_runq(t);
    t->look.runq = t->runq_base >= 0 ? 0 : -1;
    struct moment m = read_moment(CLOCK_THREAD_CPUTIME_ID);
    t->off_base = clock_less_cpu(m);
    t->look.tick = m.tick;
    plan_next(t);
}

void piano__onoff_detach(struct piano__thread *t)
{
    if (t->look.tick == 0)
        return;
    piano__onoff_look(t, piano__ticks());
    if (t->runq_file)
        close_file(t->runq_file - 1);
    t->runq_file = 0;
}

void piano__onoff_forget(void)
{
    for (uint32_t i = 0; i < MAX_FILES; i++)
        if (__atomic_load_n(&files[i].owner, __ATOMIC_SEQ_CST)) /* rule 7: one thread */
            close_file(i);
}

bool piano__onoff_look_at(const struct piano__thread *t, struct piano__offcpu *look)
{
    if (t->look.tick == 0)
        return false;
    /* Same clock id as pthread_getcpuclockid returns for the thread. */
    struct moment m = read_moment((clockid_t)((~(uint32_t)t->tid << 3) | 6));
    if (m.cpu_ns < 0)
        return false;
    int64_t base = t->off_base;
    *look = t->look;
    advance(look, m, &base);
    char path[64], text[80];
    struct piano__text to = {path, path + sizeof path - 1, false};
    piano__text_puts(&to, "/proc/self/task/");
    piano__text_int(&to, t->tid);
    piano__text_puts(&to, "/schedstat");
    *to.at = '\0';
    int64_t runq = look->runq < 0 || to.full
                       ? -1
                       : second_number(text, piano__file_read(path, text, sizeof text));
    if (runq >= 0)
        set_runq(look, runq - t->runq_base);
    return true;
}

/* ---- calls ---- */

/* Returns how many calls of SLOT the call of ELAPSED ticks stands for; 0 if it is not checked. Also
 * decides whether the next call is checked. STALE: ticks from the last reading to the begin of the
 * call. */
static uint32_t weigh(struct piano__slot *slot, int64_t elapsed, int64_t stale)
{
    if (elapsed >= piano__onoff_least) {
        slot->was_long = 1;
        return 1;
    }
    uint32_t mediums = slot->mediums < MOST_MEDIUMS ? slot->mediums + 1 : MOST_MEDIUMS;
    if (slot->was_long && stale <= piano__onoff_recent) {
        slot->was_long = 0;
        slot->mediums = 0;
        slot->medium_time = 0;
        return mediums;
    }
    slot->mediums = mediums;
    slot->medium_time += elapsed;
    slot->was_long = slot->medium_time >= piano__onoff_least;
    return 0;
}

void piano__onoff_close(struct piano__thread *t, struct piano__slot *slot,
                        const struct piano__entry *entry, int64_t now, int64_t self, int64_t total)
{
    int64_t began = piano__ticks();
    settle_open_calls(t);
    int64_t stale = entry->start - entry->look.tick;
    struct piano__call call = {.elapsed = now - entry->start,
                               .stale = stale > piano__onoff_recent ? stale : 0,
                               .self = self,
                               .total = total,
                               .weight = weigh(slot, now - entry->start, stale)};
    if (call.weight == 0)
        return;
    if (now - t->look.tick >= piano__onoff_recent)
        piano__onoff_look(t, now);
    piano__offcpu_share(&t->look, &entry->look, &call, scale(), &slot->now);
    if (!(entry->flags & PIANO_ENTRY_FRAME)) { /* else `piano__frame_end` adds the time since NOW */
        int64_t took = (piano__ticks() - began) * 256;
        t->overhead += took;
        t->frame_work += took;
    }
}

struct piano__onoff piano__onoff_frame(const struct piano__thread *t,
                                       const struct piano__entry *entry, int64_t took,
                                       int64_t wall_ns)
{
    struct piano__onoff known = {-1, -1};
    int64_t stale = entry->start - entry->look.tick;
    if (took < piano__onoff_least || (stale > piano__onoff_recent && stale > took / STALE_PART))
        return known;
    int64_t off = piano__within(t->look.off - entry->look.off, 0, wall_ns);
    known.cpu_ns = wall_ns - off;
    if (t->look.runq >= 0 && entry->look.runq >= 0)
        known.runq_ns = piano__within(t->look.runq - entry->look.runq, 0, off);
    return known;
}
