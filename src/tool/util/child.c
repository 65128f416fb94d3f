/* Starts a process and waits for its end.
 *
 * The commands call this from the tool's only thread. The child stays in our process group, so that
 * it keeps the terminal: a Ctrl-C reaches both processes from the kernel. Signals sent to us alone
 * (kill PID, a CI time limit) are passed on. SI_KERNEL distinguishes the two: the kernel sets it in
 * signals that it sends to the group.
 *
 * While we wait, the signals are blocked and received with sigtimedwait, together with SIGCHLD, so
 * there are no handlers and no races. The child gets our original signal mask.
 *
 * A build is a tree of processes, and not all of them pass a signal on. For builds we become the
 * parent of orphans (a subreaper) and end the orphans after an interruption.
 *
 * Invariant: `child_run` never returns while the child lives. */
#include "tool/util/child.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const double TICK_S = 0.1;
/* How long orphans have to end by themselves after SIGTERM. */
static const double ORPHAN_S = 2;

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int prepare(const struct child_plan *plan, const sigset_t *mask,
                   posix_spawn_file_actions_t *actions, posix_spawnattr_t *attr)
{
    const int from[] = {plan->in, plan->out, plan->err};
    int err = 0;
    for (int fd = 0; fd < 3 && err == 0; fd++) {
        if (from[fd] >= 0)
            err = posix_spawn_file_actions_adddup2(actions, from[fd], fd);
    }
    if (err == 0 && plan->dir)
        err = posix_spawn_file_actions_addchdir_np(actions, plan->dir);
    if (err == 0)
        err = posix_spawnattr_setsigmask(attr, mask);
    if (err == 0)
        err = posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSIGMASK);
    return -err;
}

static int start(const struct child_plan *plan, const sigset_t *mask, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    int err = -posix_spawn_file_actions_init(&actions);
    if (err != 0)
        return err;
    err = -posix_spawnattr_init(&attr);
    if (err == 0) {
        err = prepare(plan, mask, &actions, &attr);
        if (err == 0)
            err = -posix_spawnp(pid, plan->argv[0], &actions, &attr, plan->argv, plan->envp);
        posix_spawnattr_destroy(&attr);
    }
    posix_spawn_file_actions_destroy(&actions);
    return err;
}

/* Waits up to SECONDS for a signal of SET. Returns 0 on timeout. */
static int next_signal(const sigset_t *set, double seconds, siginfo_t *info)
{
    double whole = floor(seconds);
    struct timespec wait = {.tv_sec = (time_t)whole, .tv_nsec = (long)((seconds - whole) * 1e9)};
    int sig = sigtimedwait(set, info, &wait);
    return sig > 0 ? sig : 0;
}

/* The deadline of a child: which signal to send next, and when. */
struct deadline {
    double at;
    int signal; /* 0: nothing left to send */
};

static void pass_deadline(const struct child_plan *plan, struct child_result *result,
                          struct deadline *d)
{
    kill(result->pid, d->signal);
    result->timed_out = true;
    bool escalate = d->signal == SIGTERM && plan->kill_s > 0;
    d->signal = escalate ? SIGKILL : 0;
    d->at += plan->kill_s;
}

static void wait_for_end(const struct child_plan *plan, const sigset_t *set,
                         struct child_result *result)
{
    int status = 0;
    struct deadline d = {now_s() + plan->duration_s, plan->duration_s > 0 ? SIGTERM : 0};
    while (waitpid(result->pid, &status, WNOHANG) == 0) {
        double wait = plan->tick ? TICK_S : 1.0;
        double left = d.signal ? d.at - now_s() : wait;
        if (left <= 0) {
            pass_deadline(plan, result, &d);
            continue;
        }
        siginfo_t info;
        int sig = next_signal(set, left < wait ? left : wait, &info);
        if (sig == 0 && plan->tick)
            plan->tick(plan->ctx);
        if (sig == 0 || sig == SIGCHLD)
            continue;
        result->interrupted = true;
        if (info.si_code != SI_KERNEL)
            kill(result->pid, sig);
    }
    result->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Consumes signals that arrived after the last wait. The child has ended, so waitpid can succeed
 * while a Ctrl-C to the group is still pending for us. Unblocked, it would end the tool before the
 * run is reported. */
static void take_pending(const sigset_t *set, struct child_result *result)
{
    siginfo_t info;
    for (int sig = next_signal(set, 0, &info); sig != 0; sig = next_signal(set, 0, &info)) {
        if (sig != SIGCHLD)
            result->interrupted = true;
    }
}

/* Sends SIG to all our children, which are now orphans of the build; false when there are none. */
static bool signal_orphans(int sig)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *file = fopen(path, "re");
    int pid;
    bool any = false;
    while (file && fscanf(file, "%d", &pid) == 1)
        any |= kill(pid, sig) == 0;
    if (file)
        fclose(file);
    return any;
}

static void end_orphans(void)
{
    const struct timespec pause = {.tv_nsec = 20000000};
    double last = now_s() + ORPHAN_S;
    while (signal_orphans(now_s() < last ? SIGTERM : SIGKILL)) {
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        nanosleep(&pause, NULL);
    }
}

/* Blocked signals are queued even when they are ignored. So signals that we were started to ignore
 * (by nohup, or by a script that runs us in the background) must not be blocked. */
static void choose_signals(sigset_t *set)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction now;
    sigemptyset(set);
    sigaddset(set, SIGCHLD);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        if (sigaction(ends[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaddset(set, ends[i]);
    }
}

int child_run(const struct child_plan *plan, struct child_result *result)
{
    sigset_t set;
    sigset_t old;
    *result = (struct child_result){0};
    choose_signals(&set);
    signal(SIGCHLD, SIG_DFL); /* our parent may have left it ignored */
    sigprocmask(SIG_BLOCK, &set, &old);
    prctl(PR_SET_CHILD_SUBREAPER, plan->whole_tree ? 1L : 0L, 0L, 0L, 0L);
    int err = start(plan, &old, &result->pid);
    if (err == 0) {
        wait_for_end(plan, &set, result);
        take_pending(&set, result);
    }
    if (result->interrupted && plan->whole_tree)
        end_orphans();
    prctl(PR_SET_CHILD_SUBREAPER, 0L, 0L, 0L, 0L);
    sigprocmask(SIG_SETMASK, &old, NULL);
    return err;
}

static bool is_replaced(const char *pair, char *const *set)
{
    size_t len = strcspn(pair, "=");
    for (; *set; set++) {
        if (strncmp(*set, pair, len) == 0 && ((*set)[len] == '=' || (*set)[len] == '\0'))
            return true;
    }
    return false;
}

char **child_env(char *const *set)
{
    extern char **environ;
    size_t count = 1;
    for (size_t i = 0; environ[i]; i++)
        count++;
    for (size_t i = 0; set[i]; i++)
        count++;
    char **env = calloc(count, sizeof *env);
    size_t at = 0;
    for (size_t i = 0; env && environ[i]; i++) {
        if (!is_replaced(environ[i], set))
            env[at++] = environ[i];
    }
    for (size_t i = 0; env && set[i]; i++) {
        if (strchr(set[i], '='))
            env[at++] = set[i];
    }
    return env;
}

bool child_in_path(const char *name)
{
    const char *path = getenv("PATH");
    char *copy = strdup(path ? path : "/usr/local/bin:/usr/bin:/bin");
    char *rest = copy;
    bool found = false;
    while (rest && !found) {
        const char *dir = strsep(&rest, ":");
        char file[4096];
        int len = snprintf(file, sizeof file, "%s/%s", *dir ? dir : ".", name);
        found = len > 0 && (size_t)len < sizeof file && access(file, X_OK) == 0;
    }
    free(copy);
    return found;
}
