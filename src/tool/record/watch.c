/* While the program runs.
 *
 * One thread, one place where it waits: sigtimedwait, for the end of the program, for a signal to us, for the next
 * snapshot or for the end of the time the user gave it. All signals are blocked, so nothing interrupts anything else.
 *
 * The program is in our process group: Ctrl-C, Ctrl-\ and a hang-up of the terminal reach it from the kernel (SI_KERNEL),
 * and what it does then is its own business. The same signals sent to us alone are passed on. SIGUSR2 is for us:
 * one snapshot, now. We end after the program, never before. */
#include "tool/record/watch.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "tool/record/series.h"
#include "tool/util/say.h"

/* The longest wait, when there is nothing to wait for but signals. */
static const double LONG_S = 3600;

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* What to send the program next, and when. */
struct deadline {
    double at_s;
    int signal; /* 0 = nothing left to send */
};

static void pass_deadline(const struct record *r, pid_t pid, struct watch *w, struct deadline *d)
{
    kill(pid, d->signal);
    w->timed_out = true;
    d->signal = d->signal == SIGTERM && r->kill_s > 0 ? SIGKILL : 0;
    d->at_s += r->kill_s;
}

/* Seconds until something has to be done by the clock. */
static double patience(const struct deadline *d, const struct series *s, double now)
{
    double wait = LONG_S;
    if (d->signal)
        wait = fmin(wait, d->at_s - now);
    if (s->interval_s > 0)
        wait = fmin(wait, s->due_s - now);
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

static void handle(const siginfo_t *info, pid_t pid, struct recordings *recordings)
{
    if (info->si_signo == SIGUSR2)
        take_asked(recordings);
    else if (info->si_signo != SIGCHLD && info->si_code != SI_KERNEL)
        kill(pid, info->si_signo);
}

void watch_program(const struct record *r, struct recordings *recordings, const sigset_t *awaited,
                   struct watch *w)
{
    pid_t pid = recordings->program;
    struct series series;
    struct deadline d = {now_s() + r->duration_s, r->duration_s > 0 ? SIGTERM : 0};
    *w = (struct watch){0};
    series_start(&series, r->every_s, now_s());
    while (waitpid(pid, &w->status, WNOHANG) == 0) {
        double now = now_s();
        if (d.signal && now >= d.at_s) {
            pass_deadline(r, pid, w, &d);
            continue;
        }
        if (series_is_due(&series, now))
            take_due(recordings, &series, now);
        double wait = patience(&d, &series, now_s());
        struct timespec limit = {.tv_sec = (time_t)wait,
                                 .tv_nsec = (long)((wait - floor(wait)) * 1e9)};
        siginfo_t info;
        if (sigtimedwait(awaited, &info, &limit) > 0)
            handle(&info, pid, recordings);
    }
}
