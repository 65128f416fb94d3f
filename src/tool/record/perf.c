/* Opens perf events.
 *
 * There are three events per thread and CPU. One reports threads, names and mappings. The others
 * fire when a thread leaves its CPU, one with more of its stack than the other; only one of them is
 * on at a time. New threads and processes inherit all. This requires one event per CPU, because the
 * kernel gives inherited events no ring otherwise.
 *
 * Samples are taken by CPU cycles or, if they cannot be counted, by the CPU clock. If the kernel
 * allows it, one event per CPU samples whatever runs there, and the caller ignores other programs.
 * Otherwise the first event of each thread samples too. But a thread starts with a whole period,
 * so a thread that is shorter than a period has no sample, and what a thread does after its last
 * sample has none either.
 *
 * perf_event_paranoid decides what is allowed. First everything is requested, then the same without
 * the kernel's part. In that case time spent in the kernel is not sampled and the events that fire
 * when a thread leaves are refused.
 *
 * Rings count as locked memory. The size of all rings is halved until the kernel accepts it; rings
 * for switches have half the size. */
#include "tool/record/perf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "tool/record/perf_attr.h"
#include "tool/util/vec.h"

enum {
    RING_MOST = 2 << 20,
    RING_LEAST = 64 << 10,
    RINGS_TOGETHER = 128 << 20,
    PROBE_NS = 3000000,
};

/* Do the cycles advance? On some virtual machines they do not. */
static bool cycles_run(struct perf_wish *w)
{
    struct perf_event_attr a = {.size = sizeof a,
                                .type = PERF_TYPE_HARDWARE,
                                .config = PERF_COUNT_HW_CPU_CYCLES,
                                .exclude_kernel = w->without_kernel,
                                .exclude_hv = 1};
    struct timespec from;
    struct timespec now;
    uint64_t count = 0;
    int64_t ns = 0;
    int fd = perf_attr_open(&a, 0, -1);
    if (fd < 0)
        return false;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    while (ns < PROBE_NS) {
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        ns = (now.tv_sec - from.tv_sec) * 1000000000 + (now.tv_nsec - from.tv_nsec);
    }
    bool good = read(fd, &count, sizeof count) == (ssize_t)sizeof count && count > PROBE_NS / 100;
    close(fd);
    w->ns_per_cycle = good ? (double)ns / (double)count : 0;
    return good;
}

static int try_samples(const struct perf_wish *w)
{
    struct perf_event_attr a;
    perf_attr_thread(&a, w);
    int fd = perf_attr_open(&a, 0, -1);
    if (fd >= 0)
        close(fd);
    return fd < 0 ? fd : 0;
}

static bool may_sample_cpus(const struct perf_wish *w)
{
    struct perf_event_attr a;
    perf_attr_cpu(&a, w);
    int fd = perf_attr_open(&a, -1, sched_getcpu());
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static bool is_refusal(int err)
{
    return err == -EACCES || err == -EPERM;
}

int perf_probe(struct perf_wish *w)
{
    struct perf_event_attr a;
    w->source = PIANO_CPU_CLOCK;
    w->without_kernel = w->without_switches = w->by_cpu = false;
    int err = try_samples(w);
    if (is_refusal(err)) {
        w->without_kernel = true;
        w->kernel_chain = false;
        err = try_samples(w);
    }
    if (err != 0)
        return err;
    if (cycles_run(w)) {
        w->source = PIANO_CPU_CYCLES;
        if (try_samples(w) != 0)
            w->source = PIANO_CPU_CLOCK;
    }
    perf_attr_switches(&a, w, PERF_SWITCH_STACK);
    int fd = w->without_kernel ? -EACCES : perf_attr_open(&a, 0, -1);
    w->without_switches = fd < 0;
    if (fd >= 0)
        close(fd);
    w->by_cpu = !w->without_kernel && may_sample_cpus(w);
    return 0;
}

int perf_paranoid(void)
{
    char text[16];
    int fd = open("/proc/sys/kernel/perf_event_paranoid", O_RDONLY | O_CLOEXEC);
    ssize_t len = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
    if (fd >= 0)
        close(fd);
    text[len > 0 ? len : 0] = '\0';
    return len > 0 ? atoi(text) : -1;
}

const char *perf_why(int err, const char **hint)
{
    *hint = NULL;
    switch (err) {
    case -EACCES:
        *hint = PERF_CURE "   (or run piano with sudo or CAP_PERFMON)";
        return "the kernel refuses perf events to this user (perf_event_paranoid)";
    case -EPERM:
        *hint = "in a container: --cap-add PERFMON and a seccomp profile that allows "
                "perf_event_open";
        return "perf events are forbidden here (a seccomp filter, or perf_event_paranoid)";
    case -ENOSYS:
        return "this kernel has no perf events, or a seccomp filter hides them";
    case -EINVAL:
        *hint = "--cpu=99, or a larger kernel.perf_event_max_sample_rate";
        return "the kernel allows fewer samples per second, or is too old";
    case -ESRCH:
        return "there is no such process";
    case -EMFILE:
    case -ENFILE:
        *hint = "ulimit -n, with a larger number";
        return "it needs a file descriptor for every thread and CPU, and the limit is lower";
    case -ENOMEM:
        return "no memory for the kernel's rings (ulimit -l, perf_event_mlock_kb)";
    default:
        return strerror(-err);
    }
}

/* Opens an event of thread TID on the CPU and adds it to LIST. Its records go to the ring of event
 * INTO, if there is one. */
static int add_event(struct perf_fds *list, struct perf_event_attr *a, pid_t tid, int cpu, int into)
{
    int fd = perf_attr_open(a, tid, cpu);
    if (fd < 0)
        return fd;
    if (into >= 0 && ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, into) != 0) {
        int err = -errno;
        close(fd);
        return err;
    }
    if (VEC_ROOM(list->list, list->count, list->capacity) != 0) {
        close(fd);
        return -ENOMEM;
    }
    list->list[list->count++] = fd;
    return fd;
}

/* Closes all events but the first COUNT. */
static void cut(struct perf_fds *list, size_t count)
{
    for (size_t i = count; i < list->count; i++)
        close(list->list[i]);
    list->count = count;
}

/* Opens the ring of event FD, unless it is open or there is no such event. */
static int open_ring(struct perf_ring *r, int fd, size_t size)
{
    int err = fd < 0 || r->page ? 0 : perf_ring_open(r, fd, size);
    return err == -EPERM ? -ENOMEM : err; /* here EPERM means the limit for locked memory */
}

static int add_switches(struct perf *p, pid_t tid, struct perf_cpu *c, size_t ring_size)
{
    struct perf_event_attr a;
    perf_attr_switches(&a, &p->wish, PERF_SWITCH_STACK);
    a.wakeup_watermark = (uint32_t)ring_size;
    a.enable_on_exec = p->on_exec;
    int fd = add_event(&p->long_stacks, &a, tid, c->cpu, c->switches_fd);
    if (fd < 0)
        return fd;
    if (c->switches_fd < 0)
        c->switches_fd = fd;
    int err = open_ring(&c->switches, c->switches_fd, ring_size / 2);
    if (err != 0 || p->without_short)
        return err;
    perf_attr_switches(&a, &p->wish, PERF_SHORT_STACK);
    a.wakeup_watermark = (uint32_t)ring_size;
    fd = add_event(&p->short_stacks, &a, tid, c->cpu, c->switches_fd);
    return fd < 0 ? fd : 0;
}

/* Opens the events of thread TID on all CPUs. Skips CPUs that are offline. */
static int add_thread(struct perf *p, pid_t tid, size_t ring_size)
{
    struct perf_event_attr a;
    for (size_t i = 0; i < p->cpu_count; i++) {
        struct perf_cpu *c = &p->cpus[i];
        perf_attr_thread(&a, &p->wish);
        a.wakeup_watermark = (uint32_t)(ring_size / 3);
        a.enable_on_exec = p->on_exec;
        int fd = add_event(&p->samples, &a, tid, c->cpu, c->samples_fd);
        if (fd == -ENODEV)
            continue;
        if (fd < 0)
            return fd;
        if (c->samples_fd < 0)
            c->samples_fd = fd;
        int err = p->wish.without_switches ? 0 : add_switches(p, tid, c, ring_size);
        if (err != 0)
            return err;
    }
    return 0;
}

/* Opens the events that sample CPUs. Skips CPUs that are offline. */
static int add_cpus(struct perf *p, size_t ring_size)
{
    struct perf_event_attr a;
    for (size_t i = 0; i < p->cpu_count && p->wish.by_cpu; i++) {
        perf_attr_cpu(&a, &p->wish);
        a.wakeup_watermark = (uint32_t)(ring_size / 3);
        int fd = add_event(&p->samples, &a, -1, p->cpus[i].cpu, -1);
        if (fd == -ENODEV)
            continue;
        if (fd < 0)
            return fd;
        p->cpus[i].samples_fd = fd;
    }
    p->cpu_fds = p->samples.count;
    return 0;
}

/* Opens the rings for samples that are not open. */
static int open_rings(struct perf *p, size_t size)
{
    int err = 0;
    for (size_t i = 0; i < p->cpu_count && err == 0; i++)
        err = open_ring(&p->cpus[i].samples, p->cpus[i].samples_fd, size);
    return err;
}

/* Records can be redirected only to a ring that is open. */
static int open_all(struct perf *p, pid_t tid, size_t size)
{
    int err = add_cpus(p, size);
    if (err == 0)
        err = open_rings(p, size);
    if (err == 0)
        err = add_thread(p, tid, size);
    if (err == 0 && p->samples.count == 0)
        err = -ENODEV;
    return err == 0 ? open_rings(p, size) : err;
}

static void close_all(struct perf *p)
{
    for (size_t i = 0; i < p->cpu_count; i++) {
        struct perf_cpu *c = &p->cpus[i];
        perf_ring_close(&c->samples);
        perf_ring_close(&c->switches);
        c->samples_fd = c->switches_fd = -1;
    }
    cut(&p->samples, 0);
    cut(&p->long_stacks, 0);
    cut(&p->short_stacks, 0);
}

/* With too few descriptors, does without short stacks. */
static int open_all_or_less(struct perf *p, pid_t tid, size_t size)
{
    int err = open_all(p, tid, size);
    if (err != -EMFILE || p->without_short)
        return err;
    close_all(p);
    p->without_short = true;
    return open_all(p, tid, size);
}

/* Starts the events from FROM to TO. */
static void switch_on(const struct perf_fds *list, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        ioctl(list->list[i], PERF_EVENT_IOC_ENABLE, 0);
}

static void switch_off(const struct perf_fds *list)
{
    for (size_t i = 0; i < list->count; i++)
        ioctl(list->list[i], PERF_EVENT_IOC_DISABLE, 0);
}

static const struct perf_fds *stacks_now(const struct perf *p)
{
    return p->is_short ? &p->short_stacks : &p->long_stacks;
}

/* Starts the newest events: those for samples from SAMPLES on, those for stacks from STACKS on. */
static void start(const struct perf *p, size_t samples, size_t stacks)
{
    switch_on(&p->samples, samples, p->samples.count);
    switch_on(stacks_now(p), stacks, stacks_now(p)->count);
}

/* The kernel does the same with the events that threads have inherited. */
void perf_shorten(struct perf *p, bool is_short)
{
    if (is_short == p->is_short || (is_short && p->without_short))
        return;
    const struct perf_fds *before = stacks_now(p);
    p->is_short = is_short;
    switch_on(stacks_now(p), 0, stacks_now(p)->count);
    switch_off(before);
}

/* Every thread needs up to three events per CPU, which soon exceeds the usual limit of 1024
 * descriptors. */
static void raise_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static int list_cpus(struct perf *p, const cpu_set_t *mask)
{
    p->cpus = calloc((size_t)CPU_COUNT(mask) + 1, sizeof *p->cpus);
    if (!p->cpus)
        return -ENOMEM;
    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (CPU_ISSET(i, mask))
            p->cpus[p->cpu_count++] =
                (struct perf_cpu){.cpu = i, .samples_fd = -1, .switches_fd = -1};
    }
    return 0;
}

int perf_open(struct perf *p, const struct perf_wish *wish, const cpu_set_t *mask, pid_t tid,
              bool on_exec)
{
    *p = (struct perf){.wish = *wish, .on_exec = on_exec};
    if (!on_exec)
        raise_limit();
    int err = list_cpus(p, mask);
    size_t size = wish->by_cpu ? 2 * RING_MOST : RING_MOST; /* other programs take room too */
    while (err == 0 && size * p->cpu_count > RINGS_TOGETHER && size > RING_LEAST)
        size /= 2;
    if (err == 0)
        err = open_all_or_less(p, tid, size);
    while (err == -ENOMEM && size > RING_LEAST) {
        close_all(p);
        size /= 2;
        err = open_all_or_less(p, tid, size);
    }
    if (err == 0) {
        switch_on(&p->samples, 0, p->cpu_fds);
        if (!on_exec) /* else the exec starts them */
            start(p, p->cpu_fds, 0);
    } else {
        perf_close(p);
    }
    return err;
}

int perf_add(struct perf *p, pid_t tid)
{
    size_t samples = p->samples.count;
    size_t long_stacks = p->long_stacks.count;
    size_t short_stacks = p->short_stacks.count;
    int err = add_thread(p, tid, RING_MOST);
    if (err == -EMFILE && !p->without_short) {
        perf_shorten(p, false);
        p->without_short = true;
        cut(&p->samples, samples);
        cut(&p->long_stacks, long_stacks);
        cut(&p->short_stacks, 0);
        err = add_thread(p, tid, RING_MOST);
    }
    if (err == 0)
        start(p, samples, p->is_short ? short_stacks : long_stacks);
    return err;
}

void perf_close(struct perf *p)
{
    close_all(p);
    free(p->samples.list);
    free(p->long_stacks.list);
    free(p->short_stacks.list);
    free(p->cpus);
    *p = (struct perf){0};
}

/* The ring with the oldest record, and that record; NULL when none is older than UNTIL. Of records
 * with equal times, the stack of a switch comes first, because it is taken before the switch
 * record. */
static struct perf_ring *oldest(struct perf *p, uint64_t until, const unsigned char **bytes,
                                size_t *size, bool *is_switch)
{
    struct perf_ring *found = NULL;
    uint64_t best = until;
    for (size_t i = 0; i < 2 * p->cpu_count; i++) {
        size_t n;
        bool of_switch = i < p->cpu_count;
        struct perf_ring *r = of_switch ? &p->cpus[i].switches : &p->cpus[i - p->cpu_count].samples;
        const unsigned char *at = perf_ring_peek(r, &n);
        uint64_t time = at ? perf_event_time(at, n) : best;
        if (!at || time >= best)
            continue;
        best = time;
        found = r;
        *bytes = at;
        *size = n;
        *is_switch = of_switch;
    }
    return found;
}

void perf_drain(struct perf *p, uint64_t until,
                void (*take)(void *ctx, const struct perf_event *e, bool is_switch), void *ctx)
{
    const unsigned char *bytes = NULL;
    size_t size = 0;
    bool is_switch = false;
    struct perf_ring *r;
    for (size_t i = 0; i < p->cpu_count; i++) {
        perf_ring_look(&p->cpus[i].samples);
        perf_ring_look(&p->cpus[i].switches);
    }
    while ((r = oldest(p, until, &bytes, &size, &is_switch))) {
        struct perf_event e;
        if (perf_event_parse(bytes, size, p->wish.kernel_chain, &e))
            take(ctx, &e, is_switch);
        perf_ring_next(r, size);
        perf_ring_give_back(r);
    }
}
