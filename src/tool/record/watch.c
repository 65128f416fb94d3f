/* The time while the program runs.
 *
 * There is one thread, which waits in one place: in poll, for the end of the program, a signal to
 * us, a ring of samples that is filling up, the next snapshot, or the end of the time limit. All
 * signals are blocked and read from a descriptor, so nothing is interrupted.
 *
 * The program is in our process group: Ctrl-C, Ctrl-\ and a hang-up of the terminal reach it from
 * the kernel (SI_KERNEL), and it handles them as it likes. The same signals sent to us alone are
 * passed on. SIGUSR2 is for us: it takes a snapshot. We end after the program, never before. A
 * process that we did not start is not disturbed: then all these signals end the recording. */
#include "tool/record/watch.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tool/record/lookout.h"
#include "tool/record/process.h"
#include "tool/record/series.h"
#include "tool/util/say.h"

/* The longest wait, if there are only signals to wait for. */
static const double LONG_S = 3600;
static const double CHILDREN_S = 0.2; /* between two looks for children */

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* What is waited for --------------------------------------------------------------------------- */

enum { SIGNALS, SOCKET, RINGS };

struct waits {
    struct pollfd *list; /* first the signals, then a socket, then the rings */
    size_t count;
};

static bool waits_open(struct waits *w, const sigset_t *awaited, int socket,
                       const struct sampler *cpu)
{
    size_t rings = cpu && cpu->is_open ? cpu->perf.cpu_count : 0;
    *w = (struct waits){.list = calloc(rings + RINGS, sizeof *w->list)};
    if (!w->list)
        return false;
    w->list[w->count++] =
        (struct pollfd){.fd = signalfd(-1, awaited, SFD_CLOEXEC | SFD_NONBLOCK), .events = POLLIN};
    w->list[w->count++] = (struct pollfd){.fd = socket, .events = POLLIN};
    for (size_t i = 0; i < rings; i++) {
        if (cpu->perf.cpus[i].samples_fd >= 0)
            w->list[w->count++] =
                (struct pollfd){.fd = cpu->perf.cpus[i].samples_fd, .events = POLLIN};
    }
    return true;
}

/* The rings are closed: their descriptors may soon be those of other files. */
static void waits_forget_rings(struct waits *w)
{
    w->count = w->count < RINGS ? w->count : RINGS;
}

static void waits_close(struct waits *w)
{
    if (w->list && w->list[SIGNALS].fd >= 0)
        close(w->list[SIGNALS].fd);
    free(w->list);
}

/* Waits for at most WAIT_S. Returns whether a signal arrived, in *INFO. */
static bool waits_for(struct waits *w, const sigset_t *awaited, double wait_s,
                      struct signalfd_siginfo *info)
{
    struct timespec limit = {.tv_sec = (time_t)wait_s,
                             .tv_nsec = (long)((wait_s - floor(wait_s)) * 1e9)};
    if (!w->list || w->list[SIGNALS].fd < 0) { /* no memory or descriptor: wait for signals only */
        siginfo_t plain;
        if (sigtimedwait(awaited, &plain, &limit) <= 0)
            return false;
        *info = (struct signalfd_siginfo){.ssi_signo = (uint32_t)plain.si_signo,
                                          .ssi_code = plain.si_code};
        return true;
    }
    ppoll(w->list, w->count, &limit, NULL);
    for (size_t i = RINGS; i < w->count; i++) {
        if (w->list[i].revents & (POLLHUP | POLLERR | POLLNVAL)) /* the thread has ended */
            w->list[i].fd = -1;
    }
    return read(w->list[SIGNALS].fd, info, sizeof *info) == (ssize_t)sizeof *info;
}

/* What is done by the clock -------------------------------------------------------------------- */

/* The signal to send to the program next, and when. */
struct deadline {
    double at_s;
    int signal; /* 0: nothing left to send */
};

static void pass_deadline(const struct record *r, pid_t pid, struct watch *w, struct deadline *d)
{
    kill(pid, d->signal);
    w->timed_out = true;
    d->signal = d->signal == SIGTERM && r->kill_s > 0 ? SIGKILL : 0;
    d->at_s += r->kill_s;
}

/* Seconds until the next timed action. */
static double patience(const struct deadline *d, const struct series *s, const struct lookout *l,
                       const struct sampler *cpu, bool children, double now)
{
    double wait = LONG_S;
    if (d->signal)
        wait = fmin(wait, d->at_s - now);
    if (s->interval_s > 0)
        wait = fmin(wait, s->due_s - now);
    wait = fmin(wait, lookout_due(l, now + LONG_S) - now);
    if (cpu && cpu->is_open)
        wait = fmin(wait, sampler_patience(cpu));
    else if (children)
        wait = fmin(wait, CHILDREN_S);
    return fmax(wait, 0);
}

static void take_due(struct recordings *recordings, struct series *s, double now)
{
    uint64_t bytes = 0;
    recordings_snapshot(recordings, PIANO_SNAPSHOT_TIMER, &bytes);
    series_advance(s, now, bytes);
}

static void take_asked(struct recordings *recordings)
{
    uint64_t bytes = 0;
    if (recordings_snapshot(recordings, PIANO_SNAPSHOT_ASKED, &bytes) == 0)
        say("no snapshot: %s", recordings->refused ? "there is no room for it in the recording"
                                                   : "there is no recording yet");
}

/* Samples go into the newest recording of the program. */
static void take_samples(struct recordings *recordings, struct sampler *cpu, bool is_last)
{
    if (!cpu)
        return;
    recordings_find(recordings);
    const char *newest = recordings_newest(recordings);
    if (newest && (!cpu->journal.path || strcmp(newest, cpu->journal.path) != 0))
        (void)journal_move(&cpu->journal, newest); /* on failure, retry the next time */
    sampler_drain(cpu, is_last);
}

static void handle(const struct signalfd_siginfo *info, pid_t pid, struct recordings *recordings)
{
    if (info->ssi_signo == SIGUSR2) {
        take_asked(recordings);
    } else if (info->ssi_signo != SIGCHLD && info->ssi_code != SI_KERNEL) {
        kill(pid, (int)info->ssi_signo);
        if (info->ssi_signo == SIGINT && process_ignores(pid, SIGINT))
            say("SIGINT is ignored by the program, as by everything that a script starts in the "
                "background; kill -TERM %d ends it",
                (int)getpid());
    }
}

/* Is this a request to end the recording of a process that is not ours? Ctrl-C is not, if we were
 * started with SIGINT ignored. */
static bool is_end(const struct signalfd_siginfo *info, const struct launch_signals *signals)
{
    if (info->ssi_signo == SIGINT && info->ssi_code == SI_KERNEL && signals->ignores_int)
        return false;
    return info->ssi_signo != SIGCHLD && info->ssi_signo != SIGUSR2;
}

static uint64_t time_ns(struct timeval t)
{
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_usec * 1000u;
}

/* The CPU time of the process alone is available after its end and before it is waited for. */
static bool is_over(pid_t pid, struct watch *w)
{
    siginfo_t info = {.si_pid = 0};
    if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0)
        return false;
    struct rusage used = {.ru_utime = {0}};
    w->end_ns = (uint64_t)(now_s() * 1e9);
    if (!w->is_cut)
        w->cpu_ns = process_cpu_ns(pid);
    wait4(pid, &w->status, 0, &used);
    w->family_user_ns = time_ns(used.ru_utime);
    w->family_ns = w->family_user_ns + time_ns(used.ru_stime);
    return true;
}

/* The recording has ended, and the program goes on: takes no more snapshots, and waits for no more
 * samples. */
static void cut(pid_t pid, struct watch *w, struct waits *waits, struct series *series)
{
    w->is_cut = true;
    w->cpu_ns = process_cpu_ns(pid);
    series->interval_s = 0;
    waits_forget_rings(waits);
}

void watch_program(const struct record *r, struct recordings *recordings, struct sampler *cpu,
                   const struct launch_signals *signals, struct watch *w)
{
    const sigset_t *awaited = &signals->awaited;
    pid_t pid = recordings->program;
    struct waits waits;
    struct series series;
    struct lookout lookout;
    struct deadline d = {now_s() + r->duration_s, r->duration_s > 0 ? SIGTERM : 0};
    *w = (struct watch){0};
    waits_open(&waits, awaited, -1, cpu);
    series_start(&series, r->heap ? r->every_s : 0, now_s());
    lookout_start(&lookout, r, now_s());
    while (!is_over(pid, w)) {
        double now = now_s();
        struct signalfd_siginfo info;
        if (d.signal && now >= d.at_s) {
            pass_deadline(r, pid, w, &d);
            continue;
        }
        if (series_is_due(&series, now))
            take_due(recordings, &series, now);
        take_samples(recordings, cpu, false);
        if (!cpu && r->children)
            recordings_find(recordings);
        if (lookout_step(&lookout, recordings, cpu, now))
            cut(pid, w, &waits, &series);
        if (waits_for(&waits, awaited, patience(&d, &series, &lookout, cpu, r->children, now_s()),
                      &info))
            handle(&info, pid, recordings);
    }
    lookout_stop(&lookout, recordings);
    take_samples(recordings, cpu, true);
    waits_close(&waits);
}

/* Has process PID ended? PIDFD is -1 if the kernel does not support it. */
static bool has_ended(pid_t pid, int pidfd)
{
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    if (pidfd >= 0)
        return poll(&p, 1, 0) > 0;
    return (kill(pid, 0) != 0 && errno == ESRCH) || process_is_zombie(pid);
}

/* Updates the CPU time since BEGIN_NS. A process that is gone has no clock: then the newest value
 * remains. */
static void note_use(pid_t pid, uint64_t begin_ns, struct watch *w)
{
    uint64_t now = process_cpu_ns(pid);
    w->cpu_ns = now > begin_ns ? now - begin_ns : w->cpu_ns;
}

/* Does what is due. Returns whether the recording has ended. */
static bool work(struct recordings *recordings, struct sampler *cpu, struct series *series,
                 struct lookout *lookout)
{
    if (series_is_due(series, now_s()))
        take_due(recordings, series, now_s());
    if (cpu)
        sampler_drain(cpu, false);
    return lookout_step(lookout, recordings, cpu, now_s());
}

bool watch_process(const struct record *r, struct recordings *recordings, int socket,
                   struct sampler *cpu, const struct launch_signals *signals, struct watch *w)
{
    const sigset_t *awaited = &signals->awaited;
    struct waits waits;
    struct series series;
    struct lookout lookout;
    struct signalfd_siginfo info;
    double end_s = now_s() + (r->duration_s > 0 ? r->duration_s : INFINITY);
    const struct deadline none = {0, 0};
    int pidfd = (int)syscall(SYS_pidfd_open, r->pid, 0);
    uint64_t begin_ns = process_cpu_ns(r->pid);
    *w = (struct watch){0};
    waits_open(&waits, awaited, socket, cpu);
    series_start(&series, r->heap ? r->every_s : 0, now_s());
    lookout_start(&lookout, r, now_s());
    bool ended;
    while (!(ended = has_ended(r->pid, pidfd)) && now_s() < end_s) {
        note_use(r->pid, begin_ns, w);
        if (work(recordings, cpu, &series, &lookout))
            break;
        double next_s = patience(&none, &series, &lookout, cpu, false, now_s());
        double wait = fmax(fmin(next_s, end_s - now_s()), 0);
        bool is_signal = waits_for(&waits, awaited, wait, &info);
        if (is_signal && info.ssi_signo == SIGUSR2 && r->heap)
            take_asked(recordings);
        if ((is_signal && is_end(&info, signals)) || (waits.list && waits.list[SOCKET].revents))
            break;
    }
    note_use(r->pid, begin_ns, w);
    lookout_stop(&lookout, recordings);
    waits_close(&waits);
    if (pidfd >= 0)
        close(pidfd);
    return ended;
}
