/* One perf event per thread, on any CPU, with a ring buffer of one page. The kernel sends the
 * signal to the thread itself when it returns to user mode. So the handler finds the program's
 * registers unchanged, and in the ring buffer what the kernel was doing. No other thread reads the
 * ring buffer.
 *
 * The signal must not be a real-time signal: if too many of those are queued, the kernel sends
 * SIGIO instead, which would end the program. Other signals are never queued twice. The samples in
 * between are in the ring buffer and are added up.
 *
 * A program may close descriptors that it does not know, and reuse the number. The kernel's id of
 * the event detects this. */
#include "target/cpu/perf.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "target/sys/file.h"
#include "target/record/stats.h"

enum { SECOND = 1000000000 };

static const uint64_t KERNEL_SPACE = UINT64_C(0xffff800000000000);
static const uint64_t CONTEXTS = (uint64_t)-4096; /* PERF_CONTEXT_*: markers between addresses */

/* A sample in the ring buffer. */
struct record {
    struct perf_event_header header;
    uint64_t period;
    uint64_t count; /* number of addresses that follow, if kernel frames are requested */
};

static int open_event(uint32_t tid, const struct piano__cpu_wish *wish)
{
    struct perf_event_attr a = {.size = sizeof a,
                                .type = PERF_TYPE_SOFTWARE,
                                .config = PERF_COUNT_SW_CPU_CLOCK,
                                .sample_type = PERF_SAMPLE_PERIOD,
                                .disabled = 1,
                                .exclude_kernel = !wish->kernel,
                                .exclude_hv = 1,
                                .exclude_callchain_user = 1,
                                .wakeup_events = 1};
    if (wish->kernel)
        a.sample_type |= PERF_SAMPLE_CALLCHAIN;
    if (wish->source == PIANO_CPU_CYCLES) {
        a.type = PERF_TYPE_HARDWARE;
        a.config = PERF_COUNT_HW_CPU_CYCLES;
        a.freq = 1;
        a.sample_freq = wish->hz;
    } else {
        a.sample_period = SECOND / wish->hz;
    }
    long fd = syscall(SYS_perf_event_open, &a, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
    return fd < 0 ? -errno : (int)fd;
}

static int aim(int fd, uint32_t tid, int signal)
{
    const struct f_owner_ex owner = {.type = F_OWNER_TID, .pid = (pid_t)tid};
    if (syscall(SYS_fcntl, fd, F_SETSIG, signal) != 0 ||
        syscall(SYS_fcntl, fd, F_SETOWN_EX, &owner) != 0 ||
        syscall(SYS_fcntl, fd, F_SETFL, O_ASYNC | O_NONBLOCK) != 0)
        return -errno;
    return 0;
}

/* The mapping has one page with the kernel's indices, then one page of records. */
static size_t ring_bytes(void)
{
    return 2 * piano__page_size();
}

void piano__cpu_perf_free(struct piano__cpu_thread *t)
{
    if (t->ring)
        piano__memory_unmap(t->ring, ring_bytes());
    t->ring = NULL;
}

int piano__cpu_perf_open(struct piano__cpu_thread *t, const struct piano__cpu_wish *wish,
                         int signal)
{
    int saved = errno;
    piano__cpu_perf_free(t);
    int fd = open_event(t->tid, wish);
    if (fd < 0) {
        errno = saved;
        return fd;
    }
    t->fd = fd = piano__file_move_up(fd);
    void *ring =
        (void *)syscall(SYS_mmap, NULL, ring_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    int err = ring == MAP_FAILED ? -ENOMEM : ioctl(fd, PERF_EVENT_IOC_ID, &t->fd_id);
    t->ring = ring == MAP_FAILED ? NULL : ring;
    if (err == 0)
        err = aim(fd, t->tid, signal);
    if (err == 0 && ioctl(fd, PERF_EVENT_IOC_ENABLE, 0) != 0)
        err = -errno;
    if (err != 0) {
        piano__cpu_perf_free(t);
        piano__file_close(fd);
        t->fd_id = 0;
    }
    errno = saved;
    return err;
}

static bool is_still_open(const struct piano__cpu_thread *t)
{
    uint64_t id = 0;
    return t->fd_id && ioctl(t->fd, PERF_EVENT_IOC_ID, &id) == 0 && id == t->fd_id;
}

/* The mapped ring buffer keeps the event alive, so closing the descriptor is not enough. A signal
 * from another CPU may be about to be sent; clearing O_ASYNC stops that. Signals sent before are
 * pending in their threads, and dropped there (signal.c). */
void piano__cpu_perf_close(struct piano__cpu_thread *t)
{
    int saved = errno;
    if (is_still_open(t)) {
        ioctl(t->fd, PERF_EVENT_IOC_DISABLE, 0);
        syscall(SYS_fcntl, t->fd, F_SETFL, O_NONBLOCK);
        piano__file_close(t->fd);
    }
    /* If the program has closed the descriptor, the event ends with the mapping of the ring buffer.
     * Zeroes replace it for a handler that is just reading it. */
    if (t->ring)
        (void)piano__memory_renew(t->ring, ring_bytes());
    t->fd_id = 0;
    t->fd = -1;
    errno = saved;
}

/* Drops a pending signal that the thread blocks. A signal that is not from the event is sent
 * again. */
static void drop_blocked(int signal)
{
    const uint64_t set = UINT64_C(1) << (signal - 1);
    const struct timespec now = {0, 0};
    siginfo_t info;
    if (syscall(SYS_rt_sigtimedwait, &set, &info, &now, sizeof set) == signal &&
        !(info.si_code >= POLL_IN && info.si_code <= POLL_HUP))
        syscall(SYS_tgkill, syscall(SYS_getpid), syscall(SYS_gettid), signal);
}

void piano__cpu_perf_pause(const struct piano__cpu_thread *t, bool is_pause, int signal)
{
    int saved = errno;
    if (is_still_open(t)) {
        ioctl(t->fd, is_pause ? PERF_EVENT_IOC_DISABLE : PERF_EVENT_IOC_ENABLE, 0);
        if (is_pause)
            drop_blocked(signal);
    }
    errno = saved;
}

/* The event continues in the parent. The child has no copy of its ring buffer. */
void piano__cpu_perf_drop(const struct piano__cpu_thread *t)
{
    int saved = errno;
    if (is_still_open(t))
        piano__file_close(t->fd);
    errno = saved;
}

static void copy_out(const struct piano__cpu_thread *t, uint64_t at, void *to, size_t size)
{
    size_t page = piano__page_size(); /* a power of two */
    const char *data = (const char *)t->ring + page;
    for (size_t i = 0; i < size; i++)
        ((char *)to)[i] = data[(at + i) & (page - 1)];
}

static void take_chain(struct piano__cpu_thread *t, uint64_t at, uint64_t count)
{
    struct piano__cpu_chain *chain = &t->chain;
    chain->depth = 0;
    for (uint64_t i = 0; i < count && chain->depth < PIANO_MAX_FRAMES / 2; i++) {
        uint64_t pc;
        copy_out(t, at + 8 * i, &pc, sizeof pc);
        if (pc < KERNEL_SPACE || pc >= CONTEXTS)
            continue;
        /* The first address is not a return address. */
        chain->pcs[chain->depth] = pc + (chain->depth == 0);
        chain->depth++;
    }
}

/* Reads all records in the ring buffer. Adds up the periods and keeps the newest chain. */
static uint64_t drain(struct piano__cpu_thread *t, const struct piano__cpu_wish *wish)
{
    struct perf_event_mmap_page *page = t->ring;
    /* Pairs with the kernel's release of `data_head`: the records are complete. */
    uint64_t head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
    uint64_t at = page->data_tail;
    uint64_t sum = 0;
    while (head - at >= sizeof(struct perf_event_header) && head - at <= piano__page_size()) {
        struct record r = {.count = 0};
        copy_out(t, at, &r, sizeof r);
        if (r.header.size < sizeof r.header || r.header.size > head - at)
            break;
        uint64_t room = (r.header.size - sizeof r.header) / 8;
        if (r.header.type == PERF_RECORD_SAMPLE && room >= 1) {
            sum += r.period;
            if (wish->kernel && room >= 2 && r.count <= room - 2)
                take_chain(t, at + sizeof r, r.count);
        } else if (r.header.type == PERF_RECORD_LOST && room >= 2) {
            piano__trace_add(&piano__trace_stats()->samples_lost, r.count);
        }
        at += r.header.size;
    }
    /* Pairs with the kernel's acquire of `data_tail`: the records have been read. */
    __atomic_store_n(&page->data_tail, head, __ATOMIC_RELEASE);
    return sum;
}

uint64_t piano__cpu_perf_take(struct piano__cpu_thread *t, const struct piano__cpu_wish *wish)
{
    t->chain.depth = 0;
    uint64_t sum = t->ring ? drain(t, wish) : 0;
    if (sum == 0 || wish->source != PIANO_CPU_CYCLES)
        return sum;
    /* The duration of a cycle varies, so the CPU time is used. */
    struct timespec now;
    if (syscall(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, &now) != 0)
        return 0;
    uint64_t now_ns = (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
    sum = now_ns - t->last_ns;
    t->last_ns = now_ns;
    return sum;
}
