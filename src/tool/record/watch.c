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

#include "tool/record/flights.h"
#include "tool/record/forecast.h"
#include "tool/record/process.h"
#include "tool/record/series.h"
#include "tool/util/say.h"
#include "tool/util/units.h"

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

struct waits {
    struct pollfd *list; /* first the signals, then a socket, then the rings */
    size_t count;
};

static bool waits_open(struct waits *w, const sigset_t *awaited, int socket,
                       const struct sampler *cpu)
{
    size_t rings = cpu && cpu->is_open ? cpu->perf.cpu_count : 0;
    *w = (struct waits){.list = calloc(rings + 2, sizeof *w->list)};
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

static void waits_close(struct waits *w)
{
    if (w->list && w->list[0].fd >= 0)
        close(w->list[0].fd);
    free(w->list);
}

/* Waits for at most WAIT_S. Returns whether a signal arrived, in *INFO. */
static bool waits_for(struct waits *w, const sigset_t *awaited, double wait_s,
                      struct signalfd_siginfo *info)
{
    struct timespec limit = {.tv_sec = (time_t)wait_s,
                             .tv_nsec = (long)((wait_s - floor(wait_s)) * 1e9)};
    if (!w->list || w->list[0].fd < 0) { /* no memory or descriptor: wait for signals only */
        siginfo_t plain;
        if (sigtimedwait(awaited, &plain, &limit) <= 0)
            return false;
        *info = (struct signalfd_siginfo){.ssi_signo = (uint32_t)plain.si_signo,
                                          .ssi_code = plain.si_code};
        return true;
    }
    ppoll(w->list, w->count, &limit, NULL);
    for (size_t i = 2; i < w->count; i++) {
        if (w->list[i].revents & (POLLHUP | POLLERR)) /* the process or thread has ended */
            w->list[i].fd = -1;
    }
    return read(w->list[0].fd, info, sizeof *info) == (ssize_t)sizeof *info;
}

/* Follows the newest recording of the program. */
struct lookout {
    const struct flight_wish *wish;
    struct flight *flight; /* NULL: no recording yet */
    char *path;            /* of it */
    double due_s;          /* 0: not asked for, or over */
    double forecast_s;     /* the same, for the room for events */
    double again_s;        /* no condition comes true before */
    struct flights others; /* of processes that the program started */
};

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
    if (l->due_s > 0)
        wait = fmin(wait, l->due_s - now);
    if (l->forecast_s > 0)
        wait = fmin(wait, l->forecast_s - now);
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

/* Watching the recording itself ---------------------------------------------------------------- */

static const double AGAIN_S = 10; /* between two times that a condition comes true */

static const double FORECAST_S = 0.25;

/* Looks less and less often: the forecast is wanted before the ring is full. */
static void look_ahead(struct lookout *l, struct recordings *recordings, double now)
{
    struct piano__rec_header h;
    char text[300];
    recordings_find(recordings);
    const char *newest = recordings_newest(recordings);
    double since = now - (double)recordings->since_ns / 1e9;
    l->forecast_s = now + fmax(FORECAST_S, since / 8);
    if (!newest || recordings_header(newest, &h) != 0 ||
        !forecast(text, sizeof text, &h, (uint64_t)(now * 1e9)))
        return;
    say("%s", text);
    l->forecast_s = 0;
}

static void lookout_start(struct lookout *l, const struct record *r, double now)
{
    *l = (struct lookout){.wish = &r->flight};
    l->due_s = flight_is_asked(l->wish) ? now : 0;
    l->forecast_s = r->events && isatty(STDERR_FILENO) == 1 ? now + FORECAST_S : 0;
}

/* Ends the recording or takes a snapshot. Returns whether it was ended. */
static bool act(struct recordings *recordings, struct sampler *cpu,
                const struct piano__fired *fired)
{
    char text[300], at[UNITS_LEN];
    uint64_t bytes = 0;
    bool is_end = fired->action == PIANO_FIRED_END;
    recordings_snapshot(recordings, PIANO_SNAPSHOT_ASKED, &bytes);
    recordings_fire(recordings, fired);
    if (is_end && cpu)
        sampler_stop(cpu);
    say("after %s: %s; %s", units_time(at, (int64_t)(fired->at_ns - recordings->since_ns)),
        flight_text(text, sizeof text, fired),
        is_end ? "the recording ends here, the program goes on" : "a snapshot was taken");
    return is_end;
}

/* After an exec the program writes to another recording. */
static bool follow_newest(struct lookout *l, struct recordings *recordings)
{
    recordings_find(recordings);
    const char *newest = recordings_newest(recordings);
    if (newest && (!l->path || strcmp(newest, l->path) != 0)) {
        flight_close(l->flight, now_s());
        free(l->path);
        l->path = strdup(newest);
        l->flight = l->path ? flight_open(newest, l->wish) : NULL;
    }
    return l->flight != NULL;
}

/* A short program may have ended before its recording was found. */
static void lookout_stop(struct lookout *l, struct recordings *recordings)
{
    if (l->due_s > 0)
        (void)follow_newest(l, recordings);
    flight_close(l->flight, now_s());
    flights_close(&l->others, now_s());
    free(l->path);
    *l = (struct lookout){.due_s = 0};
}

static void look_out(struct lookout *l, struct recordings *recordings, struct sampler *cpu,
                     struct series *series, double now)
{
    struct piano__fired fired;
    l->due_s = now + 1.0 / FLIGHT_STEPS;
    bool is_fired = follow_newest(l, recordings) && flight_step(l->flight, now, &fired);
    is_fired = is_fired || flights_step(&l->others, recordings, l->wish, now, &fired);
    if (!is_fired || now < l->again_s)
        return;
    l->again_s = now + AGAIN_S;
    if (!act(recordings, cpu, &fired))
        return;
    series->interval_s = 0; /* no more snapshots */
    lookout_stop(l, recordings);
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
    w->cpu_ns = process_cpu_ns(pid);
    wait4(pid, &w->status, 0, &used);
    w->family_user_ns = time_ns(used.ru_utime);
    w->family_ns = w->family_user_ns + time_ns(used.ru_stime);
    return true;
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
        if (lookout.due_s > 0 && now >= lookout.due_s)
            look_out(&lookout, recordings, cpu, &series, now);
        if (lookout.forecast_s > 0 && now >= lookout.forecast_s)
            look_ahead(&lookout, recordings, now);
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

bool watch_process(const struct record *r, struct recordings *recordings, int socket,
                   struct sampler *cpu, const struct launch_signals *signals, struct watch *w)
{
    const sigset_t *awaited = &signals->awaited;
    struct waits waits;
    struct series series;
    struct signalfd_siginfo info;
    double end_s = now_s() + (r->duration_s > 0 ? r->duration_s : INFINITY);
    const struct deadline none = {0, 0};
    const struct lookout nothing = {0};
    int pidfd = (int)syscall(SYS_pidfd_open, r->pid, 0);
    uint64_t begin_ns = process_cpu_ns(r->pid);
    *w = (struct watch){0};
    waits_open(&waits, awaited, socket, cpu);
    series_start(&series, r->heap ? r->every_s : 0, now_s());
    bool ended;
    while (!(ended = has_ended(r->pid, pidfd)) && now_s() < end_s) {
        note_use(r->pid, begin_ns, w);
        if (series_is_due(&series, now_s()))
            take_due(recordings, &series, now_s());
        if (cpu)
            sampler_drain(cpu, false);
        double next_s = patience(&none, &series, &nothing, cpu, false, now_s());
        double wait = fmax(fmin(next_s, end_s - now_s()), 0);
        bool is_signal = waits_for(&waits, awaited, wait, &info);
        if (is_signal && info.ssi_signo == SIGUSR2 && r->heap)
            take_asked(recordings);
        if ((is_signal && is_end(&info, signals)) || (waits.list && waits.list[1].revents))
            break;
    }
    note_use(r->pid, begin_ns, w);
    waits_close(&waits);
    if (pidfd >= 0)
        close(pidfd);
    return ended;
}
