/* Children that are single-stepped between two marks, and interrupted after a number of instructions.
 *
 * For handlers, the child steps itself with the trap flag, and the handler of SIGTRAP is the handler. For SIGKILL, and on machines
 * without a trap flag, the parent steps it with ptrace. */
#ifndef PIANO_TESTS_STEPPED_H
#define PIANO_TESTS_STEPPED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "common/live.h"
#pragma GCC diagnostic ignored "-Wclobbered" /* the probe of a function that lands a longjmp */
#include "target/span/commit.h"
#include "target/span/onoff.h"
#include "tool/util/buf.h"
#include "temp.h"

enum {
    POINTS = 40,
    STEPS = 200000, /* of all children of a test, about */
    LIMIT_S = 200   /* of a child: a step takes microseconds, or a hundred on a busy machine */
};

static char dir[256];
static struct __piano_unit unit; /* of the test */

static struct piano__thread *self(void)
{
    return (struct piano__thread *)__piano_self;
}

/* Stepping. A child that steps itself has `handler`; `left` counts down to its call. */
static __attribute__((unused)) void (*handler)(int);
static long *left; /* shared with the parent */
/* Stepping is so slow that the runtime reads the CPU time again at every call, which takes 30 times as many instructions as the
 * rest. So there are also children without these readings, as if the kernel had no such clock: more points for the same steps. */
static bool reads_cpu_time;

#ifdef __x86_64__
enum { TRAP_FLAG = 0x100 };

static void trapped(int signal, siginfo_t *info, void *context)
{
    (void)info;
    if (--*left != 0)
        return;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
    handler(signal);
}

static __attribute__((noinline)) void set_trap_flag(bool on)
{
    if (on)
        __asm__ __volatile__("lea -128(%%rsp), %%rsp; pushfq; orq $0x100, (%%rsp); popfq; "
                             "lea 128(%%rsp), %%rsp" ::
                                 : "memory", "cc");
    else
        __asm__ __volatile__("lea -128(%%rsp), %%rsp; pushfq; andq $~0x100, (%%rsp); popfq; "
                             "lea 128(%%rsp), %%rsp" ::
                                 : "memory", "cc");
}
#endif

static void begin(void)
{
    self()->last_flush =
        INT64_MAX /
        2; /* no flush: a trap in it kills the child, because signals are blocked there */
#ifdef __x86_64__
    if (handler) {
        struct sigaction action = {.sa_sigaction = trapped, .sa_flags = SA_SIGINFO | SA_NODEFER};
        sigaction(SIGTRAP, &action, NULL);
        set_trap_flag(true);
        return;
    }
#endif
    raise(SIGSTOP);
}

static void end(void)
{
#ifdef __x86_64__
    if (handler) {
        set_trap_flag(false);
        return;
    }
#endif
    raise(SIGSTOP);
}

/* Calls FUNCTION at the chosen instruction. */
static void handle(void (*function)(int))
{
#ifdef __x86_64__
    handler = function;
#else
    signal(SIGUSR1, function);
#endif
}

/* The result of a child. */
struct outcome {
    int status;
    bool reached;    /* the instruction; otherwise the second mark came first */
    struct buf text; /* the run file */
    struct buf live; /* additional lines of the image */
};

static void append(void *ctx, const char *text, size_t len)
{
    buf_put(ctx, text, len);
}

static void read_image(struct outcome *o, const char *path)
{
    struct buf image = {0};
    assert_int_equal(buf_read_file(&image, path), 0);
    void *aligned = aligned_alloc(4096, (image.len + 4095) / 4096 * 4096);
    memcpy(aligned, image.data, image.len);
    struct piano__written written = {o->text.data, o->text.len};
    assert_int_equal(piano__live_lines(aligned, image.len, written, append, &o->live), 0);
    free(aligned);
    buf_free(&image);
}

static void collect(struct outcome *o)
{
    char live[512] = "", path[512];
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (strstr(e->d_name, ".ndjson"))
            assert_int_equal(buf_read_file(&o->text, path), 0);
        if (strstr(e->d_name, ".live"))
            strcpy(live, path);
        else
            unlink(path);
    }
    closedir(d);
    if (*live) {
        read_image(o, live);
        unlink(live);
    }
    rmdir(dir);
}

/* Steps CHILD, which is at the first mark; true after STEPS instructions, false at the second mark. */
static bool step(pid_t child, long steps, long *done)
{
    int status;
    for (*done = 0; *done < steps; ++*done) {
        assert_int_equal(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP)
            return false;
    }
    return true;
}

static bool steps_itself(int signal)
{
#ifdef __x86_64__
    return signal != SIGKILL;
#else
    (void)signal;
    return false;
#endif
}

static void trace(struct outcome *o, pid_t child, long steps, int signal, long *done)
{
    assert_int_equal(waitpid(child, &o->status, 0), child);
    assert_true(WIFSTOPPED(o->status) && WSTOPSIG(o->status) == SIGSTOP);
    o->reached = step(child, steps, done);
    signal = o->reached ? signal : 0;
    assert_int_equal(ptrace(PTRACE_DETACH, child, NULL, (void *)(long)signal), 0);
    do { /* a handler that returns continues to the second mark */
        kill(child, SIGCONT);
        assert_int_equal(waitpid(child, &o->status, WUNTRACED), child);
    } while (WIFSTOPPED(o->status));
}

/* Runs SCENARIO and sends SIGNAL after STEPS instructions. */
static struct outcome interrupt(void (*scenario)(void), long steps, int signal, long *done)
{
    struct outcome o = {.reached = false};
    temp_name(dir, sizeof dir, "piano-stepped-XXXXXX");
    assert_non_null(mkdtemp(dir));
    setenv("PIANO_RUNS_DIR", dir, 1);
    *left = steps;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (!steps_itself(signal))
            ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        __piano_register(&unit);
        if (!reads_cpu_time)
            piano__onoff_least = piano__onoff_medium = piano__onoff_recent = INT64_MAX;
        alarm(LIMIT_S); /* a hang ends with SIGALRM */
        scenario();
        exit(0);
    }
    if (steps_itself(signal)) {
        assert_int_equal(waitpid(child, &o.status, 0), child);
        *done = steps - *left;
        o.reached = *left == 0;
    } else {
        trace(&o, child, steps, signal, done);
    }
    collect(&o);
    return o;
}

static void release(struct outcome *o)
{
    buf_free(&o->text);
    buf_free(&o->live);
    *o = (struct outcome){0};
}

/* Calls CHECK for at least FEWEST places between the marks of SCENARIO. Returns its length in steps. It may be shorter
 * than the first time, because the runtime reads the CPU time after some time has passed: the last places may be after its end. */
static long at_points(void (*scenario)(void), int signal, void (*check)(struct outcome *, long),
                      long fewest)
{
    static struct outcome
        o; /* reachable when a check fails: the children of the next test look for leaks */
    long length, done;
    release(&o);
    o = interrupt(scenario, 10000000, signal, &length);
    assert_int_equal(o.status, 0);
    assert_false(o.reached);
    const char *wanted = getenv("POINTS"); /* for a finer test than each time */
    long most = 2 * STEPS / length;        /* a sanitizer turns one instruction into many */
    long points = wanted ? atol(wanted) : most < fewest ? fewest : most < POINTS ? most : POINTS;
    long reached = 0;
    for (long i = 0; i < points; i++) {
        release(&o);
        o = interrupt(scenario, (length - 50) * (2 * i + 1) / (2 * points) + i % 7, signal, &done);
        if (o.reached)
            check(&o, done);
        else
            assert_int_equal(o.status, 0);
        reached += o.reached;
    }
    assert_true(reached >= points * 3 / 4);
    return length;
}

static void at_many_points(void (*scenario)(void), int signal,
                           void (*check)(struct outcome *, long))
{
    reads_cpu_time = false;
    long length = at_points(scenario, signal, check, 4);
    reads_cpu_time = true;
    if (length <=
        STEPS / 2) /* otherwise, under a sanitizer, a single point takes half a million steps */
        at_points(scenario, signal, check, 1);
}

static const char *next_of(const struct buf *text, const char *from, const char *needle)
{
    return from ? memmem(from, (size_t)(text->data + text->len - from), needle, strlen(needle))
                : NULL;
}

static long long sum_of(const struct buf *text, int id, const char *field)
{
    char head[32], key[32];
    long long total = 0;
    snprintf(head, sizeof head, "{\"id\":%d,", id);
    snprintf(key, sizeof key, "\"%s\":", field);
    for (const char *s = text->data; (s = next_of(text, s, head)); s++) {
        const char *stop =
            next_of(text, s, "}"); /* no further: most have no such field, and the text is long */
        const char *value = stop ? memmem(s, (size_t)(stop - s), key, strlen(key)) : NULL;
        if (value)
            total += atoll(value + strlen(key));
    }
    return total;
}

static long long sum(const struct outcome *o, int id, const char *field)
{
    return sum_of(&o->text, id, field) + sum_of(&o->live, id, field);
}

static int count(const struct buf *text, const char *needle)
{
    int n = 0;
    for (const char *s = text->data; (s = next_of(text, s, needle)); s++)
        n++;
    return n;
}

#endif
