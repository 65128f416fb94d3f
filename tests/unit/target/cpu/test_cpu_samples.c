/* CPU samples that the program takes itself, read back from the file: many handlers at once, the running handler, signals that are
 * passed on, new, ended and existing threads, forks. Runs under ASan, UBSan and TSan. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "emulated.h"
#include "piano.h"
#include "target/cpu/cpu.h"
#include "target/cpu/samples.h"
#include "target/cpu/signal.h"
#include "target/record/control.h"
#include "target/sys/recording.h"
#include "temp.h"

/* Contents of the file ---------------------------------------------------------------------------------- */

struct file {
    char *data;
    size_t size;
};

static char path[256];

static struct file read_file(void)
{
    struct file f = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    f.size = (size_t)lseek(fd, 0, SEEK_END);
    f.data = malloc(f.size);
    assert_non_null(f.data);
    assert_int_equal(pread(fd, f.data, f.size, 0), f.size);
    close(fd);
    return f;
}

/* The next record of TYPE after *AT, which is 0 at first; NULL if there is none. */
static const void *next_record(const struct file *f, uint32_t type, size_t *at)
{
    for (size_t from = PIANO_REC_HEADER_BYTES; from < f->size; from += PIANO_REC_CHUNK_BYTES) {
        const struct piano__chunk *c = (const void *)(f->data + from);
        size_t first = from + sizeof *c;
        if (*at >= first + c->used || !c->ready || c->type != type || c->used == 0)
            continue;
        size_t here = *at < first ? first : *at;
        const uint32_t *bytes = (const void *)(f->data + here);
        assert_true(*bytes >= 8 && *bytes % 8 == 0 && here + *bytes <= first + c->used);
        *at = here + *bytes;
        return bytes;
    }
    return NULL;
}

static const struct piano__stack *stack_of(const struct file *f, uint32_t id)
{
    const struct piano__stack *s;
    size_t at = 0;
    while ((s = next_record(f, PIANO_CHUNK_STACKS, &at)) && s->id != id)
        ;
    return s;
}

static bool has_module(const struct file *f, uint64_t pc, uint64_t generation)
{
    const struct piano__module *m;
    size_t at = 0;
    while ((m = next_record(f, PIANO_CHUNK_MODULES, &at)) &&
           !(pc >= m->start && pc < m->end && m->since <= generation && generation < m->until))
        ;
    return m;
}

static struct piano__rec_header *header(void)
{
    return piano__recording.view.header;
}

static int begin(void **state)
{
    static int number;
    char pid[16];
    (void)state;
    char name[64];
    snprintf(name, sizeof name, "piano-cpu-%d-%d.rec", (int)getpid(), number++);
    temp_name(path, sizeof path, name);
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    setenv("PIANO_RECORD", path, 1);
    setenv("PIANO_RECORD_PID", pid, 1);
    return 0;
}

static int end(void **state)
{
    (void)state;
    (void)piano__cpu_stop();
    piano__gate_shut();
    piano__cpu_forget();
    piano__recording_forget();
    unlink(path);
    return 0;
}

/* Work -------------------------------------------------------------------------------------------------- */

static __attribute__((noinline)) void burn(int ms)
{
    struct timespec from;
    struct timespec now;
    int64_t ns = 0;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    while (ns < (int64_t)ms * 1000000) {
        for (volatile int i = 0; i < 20000; i++)
            ;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        ns = (now.tv_sec - from.tv_sec) * 1000000000 + (now.tv_nsec - from.tv_nsec);
    }
}

/* Many at once ------------------------------------------------------------------------------------------ */

enum { WRITERS = 8, PUTS = 3000, STACKS = 500 };

/* The work of a handler, without the signal. */
static void *write_samples(void *arg)
{
    static __thread struct piano__cpu_thread t;
    t.tid = (uint32_t)syscall(SYS_gettid);
    for (uintptr_t i = 0; i < PUTS; i++) {
        uintptr_t number = (i + (uintptr_t)arg) % STACKS;
        t.walk.depth = 1 + (uint32_t)(number % 20);
        t.walk.flags = 0;
        for (uint32_t k = 0; k < t.walk.depth; k++)
            t.walk.pcs[k] = (uintptr_t)&write_samples + 1 + number % 16 + k;
        t.walk.pcs[0] = number + 1; /* distinguishes them, and is in no module */
        piano__cpu_samples_put(&t, number);
    }
    return NULL;
}

static void test_samples_of_concurrent_handlers_are_all_stored(void **state)
{
    pthread_t threads[WRITERS];
    const struct piano__sample *s;
    size_t count = 0;
    size_t at = 0;
    (void)state;
    assert_int_equal(piano__control_open(), 0);
    assert_true(piano__cpu_samples_init());
    for (uintptr_t i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_samples, (void *)(37 * i)), 0);
    for (int i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(header()->trace.samples, WRITERS * PUTS); /* there is a lane for each thread */
    assert_int_equal(header()->trace.samples_unwound, WRITERS * PUTS);
    assert_int_equal(header()->trace.samples_lost, 0);
    struct file f = read_file();
    while ((s = next_record(&f, PIANO_CHUNK_SAMPLES, &at))) {
        assert_int_equal(s->bytes, sizeof *s);
        assert_int_equal(s->kind, PIANO_SAMPLE_CPU);
        assert_true(s->stack > PIANO_CPU_STACK);
        if (count++ % 97 != 0)
            continue;
        const struct piano__stack *stack = stack_of(&f, s->stack);
        assert_non_null(stack);
        assert_int_equal(stack->pcs[0], s->value + 1);
        assert_true(stack->generation > PIANO_CPU_STACK);
        if (stack->depth > 1)
            assert_true(has_module(&f, stack->pcs[1] - 1, stack->generation));
    }
    assert_int_equal(count, WRITERS * PUTS);
    size_t stacks = 0;
    for (at = 0; next_record(&f, PIANO_CHUNK_STACKS, &at); stacks++)
        ;
    assert_in_range(stacks, STACKS, (size_t)STACKS * WRITERS);
    free(f.data);
}

static void test_stacks_get_a_new_generation_after_a_restart(void **state)
{
    static struct piano__cpu_thread t = {.tid = 1, .walk = {.depth = 1}};
    const struct piano__sample *a;
    const struct piano__sample *b;
    size_t at = 0;
    (void)state;
    t.walk.pcs[0] = (uintptr_t)&write_samples + 1;
    assert_int_equal(piano__control_open(), 0);
    assert_true(piano__cpu_samples_init());
    piano__cpu_samples_put(&t, 1);
    piano__cpu_samples_put(&t, 1);
    assert_true(piano__cpu_samples_init()); /* as after a stop and a start */
    piano__cpu_samples_put(&t, 1);
    struct file f = read_file();
    a = next_record(&f, PIANO_CHUNK_SAMPLES, &at);
    b = next_record(&f, PIANO_CHUNK_SAMPLES, &at);
    assert_int_equal(a->stack, b->stack);
    b = next_record(&f, PIANO_CHUNK_SAMPLES, &at);
    assert_int_not_equal(a->stack, b->stack);
    const struct piano__stack *old = stack_of(&f, a->stack);
    const struct piano__stack *young = stack_of(&f, b->stack);
    assert_true(has_module(&f, old->pcs[0] - 1, old->generation));
    assert_true(has_module(&f, young->pcs[0] - 1, young->generation));
    assert_true(old->generation < young->generation);
    free(f.data);
}

/* The handler ------------------------------------------------------------------------------------------- */

/* A virtual machine may be stopped for longer than some ticks, and many programs may share its processors, but not so long that no
 * tick finds the test running in this time. */
enum { MOST_MS = 2000 };

static uint64_t samples(void)
{
    return __atomic_load_n(&header()->trace.samples, __ATOMIC_RELAXED);
}

static void test_handler_samples_the_running_function_and_keeps_errno(void **state)
{
    const struct piano__sample *s;
    struct piano_cpu_stats stats;
    const struct piano_cpu_options options = {.size = sizeof options, .frequency_hz = 1000};
    size_t at = 0;
    uint64_t sum = 0;
    size_t inside = 0;
    (void)state;
    assert_int_equal(piano_cpu_stats(&stats), -ENOTCONN);
    assert_int_equal(piano_cpu_start(&options), 0);
    assert_int_equal(piano_cpu_start(&options), -EALREADY);
    errno = 4711;
    unsigned burnt_ms = 0;
    do {
        burn(100);
        burnt_ms += 100;
    } while (burnt_ms < 300 || (samples() < 3 && burnt_ms < MOST_MS));
    assert_int_equal(errno, 4711);
    assert_int_equal(piano_cpu_stop(), 0);
    assert_int_equal(piano_cpu_stats(&stats), 0);
    assert_int_equal(stats.source, PIANO_SOURCE_TIMERS);
    assert_int_equal(stats.is_sampling, 0);
    assert_true(stats.samples >= 3); /* one sample represents several if signals come late */
    uint64_t lost_ns = header()->trace.samples_lost * 1000000;
    struct file f = read_file();
    while ((s = next_record(&f, PIANO_CHUNK_SAMPLES, &at))) {
        const struct piano__stack *stack = stack_of(&f, s->stack);
        assert_non_null(stack);
        assert_int_equal(s->tid, getpid());
        assert_int_equal(s->value % 1000000, 0);
        for (uint32_t i = 0; i < stack->depth; i++)
            inside += stack->pcs[i] - (uintptr_t)&burn < 4096;
        sum += s->value;
    }
    assert_true(inside + 2 >= stats.samples * 9 / 10); /* a busy machine gives few samples */
    /* The kernel checks such a clock when its own tick finds the thread running, so it loses the time after the last tick. */
    assert_in_range(sum + lost_ns, 850000 * burnt_ms, 1300000 * burnt_ms);
    free(f.data);
}

static void default_action(int signal)
{
    struct sigaction now;
    assert_int_equal(sigaction(signal, NULL, &now), 0);
    assert_true(now.sa_handler == SIG_DFL);
}

static void test_signal_has_its_default_action_after_stop(void **state)
{
    const struct piano__cpu_wish wish = {.hz = 10000, .source = PIANO_CPU_TIMERS};
    (void)state;
    for (int i = 0; i < 20 || (samples() == 0 && i < 500); i++) {
        assert_int_equal(piano__cpu_start(&wish), 0);
        assert_true(piano__signal_is(SIGPROF));
        burn(5);
        assert_int_equal(piano__cpu_stop(), 0);
        default_action(SIGPROF); /* another one of ours would end the program now */
    }
    assert_int_equal(piano__cpu_stop(), -ENOTCONN);
    assert_true(samples() > 0);
}

static void nothing(int signal)
{
    (void)signal;
}

static bool goes_on(void)
{
    uint64_t before = samples();
    for (int ms = 0; ms < MOST_MS && samples() == before; ms += 20)
        burn(20);
    return samples() > before;
}

static void test_sampling_uses_another_signal_when_the_program_takes_sigprof(void **state)
{
    const struct piano__cpu_wish wish = {.hz = 1000, .source = PIANO_CPU_TIMERS};
    (void)state;
    assert_int_equal(piano__cpu_start(&wish), 0);
    burn(30);
    piano__cpu_yield(SIGPROF);
    default_action(SIGPROF);
    assert_true(piano__cpu_is_on());
    assert_true(goes_on());
    assert_int_equal(piano__cpu_stop(), 0);
    /* A handler of the program itself is not replaced. */
    signal(SIGPROF, nothing);
    assert_int_equal(piano__cpu_start(&wish), 0);
    assert_false(piano__signal_is(SIGPROF));
    assert_true(goes_on());
    assert_int_equal(piano__cpu_stop(), 0);
    assert_true(signal(SIGPROF, SIG_DFL) == nothing);
}

static void test_start_fails_when_no_signal_is_free(void **state)
{
    const struct piano__cpu_wish wish = {.hz = 1000, .source = PIANO_CPU_TIMERS};
    (void)state;
    signal(SIGPROF, SIG_IGN);
    for (int i = SIGRTMIN; i <= SIGRTMAX; i++)
        signal(i, nothing);
    assert_int_equal(piano__cpu_start(&wish), -ENOTSUP);
    assert_false(piano__cpu_is_on());
    for (int i = SIGRTMIN; i <= SIGRTMAX; i++)
        signal(i, SIG_DFL);
    signal(SIGPROF, SIG_DFL);
    assert_int_equal(access(path, F_OK), -1); /* nothing was started */
    assert_int_equal(piano__cpu_start(&wish), 0);
}

/* Threads and processes --------------------------------------------------------------------------------- */

static uint32_t is_over;

static void *burn_on(void *arg)
{
    if (arg)
        piano__cpu_threads_attach();
    while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED))
        burn(2);
    return NULL;
}

static size_t threads_sampled(void)
{
    const struct piano__thread_record *t;
    struct file f = read_file();
    size_t at = 0;
    size_t count = 0;
    while ((t = next_record(&f, PIANO_CHUNK_THREADS, &at)))
        count += t->pid == (uint32_t)getpid();
    free(f.data);
    return count;
}

static void test_threads_started_before_and_after_are_sampled(void **state)
{
    const struct piano__cpu_wish wish = {.hz = 2000, .source = PIANO_CPU_TIMERS};
    pthread_t old;
    pthread_t young;
    struct piano_cpu_stats stats;
    (void)state;
    is_over = 0;
    pthread_create(&old, NULL, burn_on, NULL);
    assert_int_equal(piano__cpu_start(&wish), 0);
    pthread_create(&young, NULL, burn_on, &is_over);
    for (int ms = 0; ms < MOST_MS && threads_sampled() < 3; ms += 20)
        burn(20);
    assert_true(threads_sampled() >= 3);
    assert_int_equal(piano_cpu_stats(&stats), 0);
    assert_true(stats.threads >= 3); /* a sanitizer may have one */
    __atomic_store_n(&is_over, 1, __ATOMIC_RELAXED);
    pthread_join(old, NULL);
    pthread_join(young, NULL);
    assert_int_equal(piano_cpu_stats(&stats), 0);
    assert_true(stats.threads >= 2); /* the end of the old one is detected later */
    assert_int_equal(piano__cpu_stop(), 0);
}

static void test_forked_child_is_not_sampled(void **state)
{
    const struct piano__cpu_wish wish = {.hz = 10000, .source = PIANO_CPU_TIMERS};
    int status;
    (void)state;
    assert_int_equal(piano__cpu_start(&wish), 0);
    for (int i = 0; i < 10; i++) {
        pid_t child = fork();
        if (child == 0) {
            struct sigaction now;
            burn(10);
            sigaction(SIGPROF, NULL, &now);
            _exit(piano__cpu_is_on() || now.sa_handler != SIG_DFL ? 1 : 7);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 7);
        burn(2);
    }
    assert_int_equal(piano__cpu_stop(), 0);
    const struct piano__sample *s;
    struct file f = read_file();
    size_t at = 0;
    while ((s = next_record(&f, PIANO_CHUNK_SAMPLES, &at)))
        assert_int_equal(s->tid, getpid());
    free(f.data);
}

/* A process forked without the C library's knowledge has no timers either, and a closed gate. */
static void test_child_of_a_raw_clone_is_not_sampled(void **state)
{
    const struct piano__cpu_wish wish = {.hz = 10000, .source = PIANO_CPU_TIMERS};
    int status;
    (void)state;
    need_wipe_on_fork();
    assert_int_equal(piano__cpu_start(&wish), 0);
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        for (volatile long i = 0; i < 20000000; i++)
            ;
        syscall(SYS_exit_group, piano__cpu_is_on() ? 1 : 7);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 7);
}

int main(void)
{
    unsetenv("PIANO_CPU");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_samples_of_concurrent_handlers_are_all_stored, begin,
                                        end),
        cmocka_unit_test_setup_teardown(test_stacks_get_a_new_generation_after_a_restart, begin,
                                        end),
        cmocka_unit_test_setup_teardown(test_handler_samples_the_running_function_and_keeps_errno,
                                        begin, end),
        cmocka_unit_test_setup_teardown(test_signal_has_its_default_action_after_stop, begin, end),
        cmocka_unit_test_setup_teardown(
            test_sampling_uses_another_signal_when_the_program_takes_sigprof, begin, end),
        cmocka_unit_test_setup_teardown(test_start_fails_when_no_signal_is_free, begin, end),
        cmocka_unit_test_setup_teardown(test_threads_started_before_and_after_are_sampled, begin,
                                        end),
        cmocka_unit_test_setup_teardown(test_forked_child_is_not_sampled, begin, end),
        cmocka_unit_test_setup_teardown(test_child_of_a_raw_clone_is_not_sampled, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
