/* Compares walks with libgcc's unwinder, pc by pc: through code without frame pointers, libc, signal handlers on either stack, coroutines,
 * threads, and frames of changing size. */
#include <alloca.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <search.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include <cmocka.h>

#include "emulated.h"
#include "target/unwind/module.h"
#include "target/unwind/walk.h"
#include "walks.h"

#ifdef __SANITIZE_THREAD__
#define UNDER_TSAN 1
#else
#define UNDER_TSAN 0
#endif

static __thread struct piano__walker walker;
static __thread unsigned walks;        /* compared */
static __thread unsigned depth;        /* of the last */
static __thread unsigned wanted_flags; /* of the next; others are failures */

/* Compares a walk from here with libgcc's. Their first frames are two calls in this function. */
static FRAME void compare_here(void)
{
    struct piano__walk ours;
    struct other_walk theirs = {0};
    piano__walk_here(&walker, &ours);
    other_walk(&theirs);
    expect_same(&ours, 1, &theirs, 1);
    assert_int_equal(ours.flags, wanted_flags);
    depth = ours.depth;
    walks++;
}

static __thread volatile int turns; /* written after calls, so that they are calls */

static FRAME void recurse(int n, void (*then)(void))
{
    if (n > 0)
        recurse(n - 1, then);
    else
        then();
    turns++;
}

static void recursion_is_walked_at_any_depth(void **state)
{
    (void)state;
    compare_here();
    unsigned first = depth;
    for (int n = 1; n < 90; n += 11) {
        recurse(n, compare_here);
        assert_int_equal(depth, first + (unsigned)n + 1);
    }
}

static void stack_beyond_the_maximum_depth_is_truncated_and_marked(void **state)
{
    (void)state;
    wanted_flags = PIANO_STACK_FULL;
    recurse(300, compare_here);
    wanted_flags = 0;
    assert_int_equal(depth, PIANO_MAX_FRAMES);
}

static int compare_numbers(const void *a, const void *b)
{
    recurse(3, compare_here);
    return *(const int *)a - *(const int *)b;
}

static void visit(const void *node, VISIT which, int level)
{
    (void)node;
    (void)level;
    if (which == leaf || which == endorder)
        compare_here();
    turns++;
}

static void callbacks_of_the_c_library(void **state)
{
    (void)state;
    int numbers[] = {5, 3, 9, 1, 7};
    int key = 7;
    void *root = NULL;
    unsigned before = walks;
    qsort(numbers, 5, sizeof *numbers, compare_numbers);
    assert_non_null(bsearch(&key, numbers, 5, sizeof *numbers, compare_numbers));
    for (int i = 0; i < 5; i++)
        tsearch(&numbers[i], &root, compare_numbers);
    twalk(root, visit);
    for (int i = 0; i < 5; i++)
        tdelete(&numbers[i], &root, compare_numbers);
    assert_true(walks > before + 10);
}

/* A frame whose size is known at run time only, so the CFA goes by the frame pointer. */
static FRAME void with_alloca(size_t bytes)
{
    char *room = alloca(bytes);
    memset(room, 0xa5, bytes);
    compare_here();
    turns += room[bytes / 2];
}

/* A frame with a stronger alignment than the stack's; with a variable size besides, gcc keeps the CFA in memory. */
static FRAME void with_alignment(size_t bytes)
{
    _Alignas(64) char aligned[128];
    char *room = alloca(bytes);
    memset(aligned, 1, sizeof aligned);
    memset(room, 2, bytes);
    __asm__ volatile("" ::"r"(aligned), "r"(room) : "memory");
    compare_here();
    turns += aligned[3] + room[bytes / 2];
}

static FRAME void with_large_frame(void)
{
    char room[100000];
    memset(room, 3, sizeof room);
    __asm__ volatile("" ::"r"(room) : "memory");
    compare_here();
    turns += room[turns & 1023];
}

static void frames_of_every_shape(void **state)
{
    (void)state;
    for (size_t bytes = 1; bytes < 5000; bytes += 777) {
        with_alloca(bytes);
        with_alignment(bytes);
    }
    with_large_frame();
}

static void *thread_main(void *arg)
{
    recurse(20, compare_here);
    with_alloca(100);
    struct piano__stack_bounds *b = &walker.stack;
    assert_true((uintptr_t)&arg >= b->low && (uintptr_t)&arg < b->high);
    assert_true((uintptr_t)&errno >= b->high); /* TLS is behind the frames */
    return arg;
}

static void threads_have_stacks_of_their_own(void **state)
{
    (void)state;
    pthread_attr_t attributes;
    size_t size = 1 << 20;
    pthread_attr_init(&attributes);
    void *given = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(given, MAP_FAILED);
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        if (i == 2)
            assert_int_equal(pthread_attr_setstack(&attributes, given, size), 0);
        assert_int_equal(pthread_create(&thread, &attributes, thread_main, NULL), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
    pthread_attr_destroy(&attributes);
    munmap(given, size);
}

/* The first thread's stack grows during the walk. */
static FRAME void go_down(unsigned levels)
{
    char room[32768];
    memset(room, 4, sizeof room);
    __asm__ volatile("" ::"r"(room) : "memory");
    if (levels > 0) {
        go_down(levels - 1);
    } else {
        compare_here();
        assert_true(walker.stack.low <=
                    (uintptr_t)room); /* known, instead of asking the kernel for each word */
    }
    turns += room[turns & 1023];
}

static void a_growing_stack(void **state)
{
    (void)state;
    compare_here();
    go_down(100);
}

/* Signals ------------------------------------------------------------------------------------------- */

static void *on_which_stack;

/* Inside a handler: walks from the handler, and from the interrupted code. */
static void on_signal(int number, siginfo_t *info, void *context)
{
    (void)info;
    (void)number;
    struct piano__walk ours;
    struct piano__regs regs;
    struct other_walk theirs = {0};
    on_which_stack = &ours;
    compare_here();
    piano__regs_of_signal(&regs, context);
    piano__walk_from(&walker, &regs, &ours);
    assert_int_equal(ours.flags, 0);
    other_walk(&theirs);
    expect_tail(&ours, &theirs);
}

static void handle(int number, int flags)
{
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | flags};
    sigemptyset(&action.sa_mask);
    assert_int_equal(sigaction(number, &action, NULL), 0);
}

static void trap(void)
{
#ifdef __x86_64__
    __asm__ volatile("int3" ::: "memory");
#else
    raise(SIGTRAP);
#endif
    turns++;
}

static void a_signal_handler(void **state)
{
    (void)state;
    need_vdso();
    handle(SIGTRAP, 0);
    unsigned before = walks;
    trap();
    recurse(10, trap);
    assert_int_equal(walks, before + 2);
    signal(SIGTRAP, SIG_DFL);
}

static void an_alternate_stack(void **state)
{
    (void)state;
    need_vdso();
    size_t size = 256 * 1024;
    char *room = malloc(size);
    assert_non_null(room);
    stack_t stack = {.ss_sp = room, .ss_size = size}, before;
    assert_int_equal(sigaltstack(&stack, &before), 0);
    handle(SIGTRAP, SA_ONSTACK);
    recurse(10, trap);
    assert_true((char *)on_which_stack >= room && (char *)on_which_stack < room + size);
    signal(SIGTRAP, SIG_DFL);
    sigaltstack(&before, NULL);
    free(room);
}

/* Other stacks -------------------------------------------------------------------------------------- */

static ucontext_t outside, inside;

static void coroutine(void)
{
    recurse(12, compare_here);
    assert_true((uintptr_t)&errno != 0);
    swapcontext(&inside, &outside);
    with_alloca(200);
}

static void run_coroutine(char *room, size_t size)
{
    getcontext(&inside);
    inside.uc_stack.ss_sp = room;
    inside.uc_stack.ss_size = size;
    inside.uc_link = &outside;
    makecontext(&inside, coroutine, 0);
    swapcontext(&outside, &inside);
    compare_here();
    swapcontext(&outside, &inside);
}

static void *coroutine_first(void *arg)
{
    run_coroutine(arg, 128 * 1024);
    return arg;
}

static void a_coroutine(void **state)
{
    (void)state;
    need_vm_readv();
    if (UNDER_TSAN)
        skip(); /* TSan takes the switch of stacks for a race */
    size_t size = 128 * 1024;
    char *room = malloc(size);
    assert_non_null(room);
    unsigned before = walks;
    run_coroutine(room, size);
    assert_int_equal(walks, before + 3);
    /* a thread whose first walk is in a coroutine */
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, coroutine_first, room), 0);
    pthread_join(thread, NULL);
    free(room);
}

/* Modules ------------------------------------------------------------------------------------------- */

static void modules_are_found(void **state)
{
    (void)state;
    struct piano__module_info m;
    Dl_info of_libc;
    char exe[4096] = "";
    assert_true(readlink("/proc/self/exe", exe, sizeof exe - 1) > 0);
    assert_true(piano__module_find((uintptr_t)modules_are_found, &m));
    assert_string_equal(m.path, exe);
    assert_true((uintptr_t)modules_are_found >= m.start && (uintptr_t)modules_are_found < m.end);
    void *qsort_of_libc = dlsym(RTLD_NEXT, "qsort_r");
    assert_non_null(qsort_of_libc);
    assert_int_not_equal(dladdr(qsort_of_libc, &of_libc), 0);
    assert_true(piano__module_find((uintptr_t)qsort_of_libc, &m));
    assert_string_equal(m.path, of_libc.dli_fname);
    assert_ptr_equal(m.start, of_libc.dli_fbase);
    assert_ptr_equal(m.bias, of_libc.dli_fbase);
    assert_int_equal(m.build_id_len, 20);
    if (getauxval(AT_SYSINFO_EHDR)) {
        assert_true(piano__module_find(getauxval(AT_SYSINFO_EHDR) + 64, &m));
        assert_string_equal(m.path, "[vdso]");
    }
    assert_false(piano__module_find((uintptr_t)&m, &m));
    assert_false(piano__module_find(0, &m));
    uintptr_t start, end;
    assert_false(piano__module_own(&start, &end)); /* linked into a test */
}

static void walks_are_the_same_after_the_rule_cache_is_cleared(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) {
        piano__walk_forget();
        recurse(5, compare_here);
    }
    for (int i = 0; i < 140000; i++) /* generations wrap around */
        piano__walk_forget();
    recurse(5, compare_here);
}

static void *walk_all_the_time(void *stop)
{
    struct piano__walk out;
    while (!__atomic_load_n((int *)stop, __ATOMIC_RELAXED)) {
        piano__walk_here(&walker, &out);
        assert_int_equal(out.flags, 0);
        recurse(8, compare_here);
    }
    return NULL;
}

static void threads_share_the_rule_cache(void **state)
{
    (void)state;
    int stop = 0;
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, walk_all_the_time, &stop), 0);
    for (int i = 0; i < 2000; i++) {
        piano__walk_forget();
        recurse(i % 16, compare_here);
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recursion_is_walked_at_any_depth),
        cmocka_unit_test(stack_beyond_the_maximum_depth_is_truncated_and_marked),
        cmocka_unit_test(callbacks_of_the_c_library),
        cmocka_unit_test(frames_of_every_shape),
        cmocka_unit_test(threads_have_stacks_of_their_own),
        cmocka_unit_test(a_growing_stack),
        cmocka_unit_test(a_signal_handler),
        cmocka_unit_test(an_alternate_stack),
        cmocka_unit_test(a_coroutine),
        cmocka_unit_test(modules_are_found),
        cmocka_unit_test(walks_are_the_same_after_the_rule_cache_is_cleared),
        cmocka_unit_test(threads_share_the_rule_cache),
    };
    return cmocka_run_group_tests_name("unwind", tests, NULL, NULL);
}
