/* A program that walks its own stack in many situations and compares each walk with libgcc's, pc by pc. Compiled and run by
 * test_unwind.py, for the machines it can find. Compiles as C and as C++. */
#include <alloca.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

#ifdef __cplusplus
extern "C" {
#endif
#include "target/unwind/walk.h"
#ifdef __cplusplus
}
#include <stdexcept>
#endif

#define FRAME __attribute__((noinline))

struct other {
    unsigned depth;
    unsigned long pcs[256];
};

static __thread struct piano__walker walker;
static __thread volatile int turns;
static unsigned wanted_flags; /* of the walks to come */
static int walks, failures;

static _Unwind_Reason_Code add(struct _Unwind_Context *context, void *arg)
{
    struct other *o = (struct other *)arg;
    int is_exact = 0;
    unsigned long pc = _Unwind_GetIPInfo(context, &is_exact);
    if (pc == 0 || o->depth == 256)
        return _URC_END_OF_STACK;
    if (is_exact && o->depth > 0)
        o->pcs[o->depth - 1]++; /* the trampoline: a handler returns to its first byte */
    o->pcs[o->depth++] = pc + (is_exact ? 1 : 0);
    return _URC_NO_REASON;
}

static void show(const char *what, const struct piano__walk *ours, const struct other *theirs)
{
    printf("%s: different, flags %u\n", what, ours->flags);
    for (unsigned i = 0; i < ours->depth || i < theirs->depth; i++)
        printf("  %lx %lx\n", i < ours->depth ? (unsigned long)ours->pcs[i] : 0,
               i < theirs->depth ? theirs->pcs[i] : 0);
}

static FRAME void compare(const char *what)
{
    struct piano__walk ours;
    struct other theirs;
    theirs.depth = 0;
    piano__walk_here(&walker, &ours);
    _Unwind_Backtrace(add, &theirs);
    bool is_same = ours.flags == wanted_flags;
    if (!(ours.flags & PIANO_STACK_LOST)) {
        is_same = is_same && ours.depth == theirs.depth;
        for (unsigned i = 1; is_same && i < ours.depth; i++)
            is_same = ours.pcs[i] == theirs.pcs[i];
    }
    walks++;
    if (!is_same) {
        failures++;
        show(what, &ours, &theirs);
    }
}

static FRAME void recurse(int n, const char *what)
{
    if (n)
        recurse(n - 1, what);
    else
        compare(what);
    turns++;
}

static int by_size(const void *a, const void *b)
{
    recurse(2, "qsort");
    return *(const int *)a - *(const int *)b;
}

static FRAME void with_alloca(size_t n)
{
    char *room = (char *)alloca(n);
    memset(room, 1, n);
    compare("alloca");
    turns += room[3];
}

static FRAME void large(void)
{
    char room[100000];
    memset(room, 1, sizeof room);
    __asm__ volatile("" ::"r"(room) : "memory");
    compare("large frame");
    turns += room[turns & 1023];
}

/* Signals ------------------------------------------------------------------------------------------- */

static void on_signal(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)info;
    struct piano__regs regs;
    struct piano__walk ours;
    compare("signal");
    piano__regs_of_signal(&regs, context);
    piano__walk_from(&walker, &regs, &ours);
    if (ours.flags != 0 || ours.depth < 4) {
        failures++;
        printf("interrupted: depth %u, flags %u\n", ours.depth, ours.flags);
    }
#ifdef __aarch64__
    ((ucontext_t *)context)->uc_mcontext.pc += 4; /* behind the brk */
#endif
}

/* It has touched neither stack nor link register. */
static FRAME int leaf(int n)
{
#ifdef __aarch64__
    __asm__ volatile("brk #0");
#else
    __asm__ volatile("int3");
#endif
    return n + 1;
}

#ifdef __aarch64__
/* What the kernel's vdso has; an emulator has it in a page of its own, which only the kernel could read safely. */
__asm__(".text\nback_to_kernel:\n\tmov x8, #139\n\tsvc #0\n");
extern char back_to_kernel[];

static void take_signals(unsigned long flags)
{
    struct {
        void (*handler)(int, siginfo_t *, void *);
        unsigned long flags;
        void *restorer;
        unsigned long mask;
    } action = {on_signal, flags | SA_SIGINFO | 0x04000000, back_to_kernel, 0};
    syscall(SYS_rt_sigaction, SIGTRAP, &action, NULL, 8);
}
#else
static void take_signals(unsigned long flags)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | (int)flags;
    sigaction(SIGTRAP, &action, NULL);
}
#endif

/* Other stacks -------------------------------------------------------------------------------------- */

static ucontext_t outside, inside;

static void coroutine(void)
{
    recurse(4, "coroutine");
    swapcontext(&inside, &outside);
}

static void run_coroutine(void)
{
    static char room[65536];
    getcontext(&inside);
    inside.uc_stack.ss_sp = room;
    inside.uc_stack.ss_size = sizeof room;
    inside.uc_link = &outside;
    makecontext(&inside, coroutine, 0);
    swapcontext(&outside, &inside);
}

static void *thread(void *arg)
{
    recurse(5, "thread");
    return arg;
}

static bool can_ask_the_kernel(void)
{
    char from = 1, to = 0;
    struct iovec local = {&to, 1}, remote = {&from, 1};
    return syscall(SYS_process_vm_readv, getpid(), &local, 1, &remote, 1, 0) == 1;
}

#ifdef __cplusplus
struct Guard {
    ~Guard()
    {
        compare("destructor");
    }
};

static FRAME void thrower(int n)
{
    Guard guard;
    if (n == 0)
        throw std::runtime_error("thrown");
    thrower(n - 1);
    turns++;
}

static FRAME void exceptions(void)
{
    for (int i = 0; i < 20; i++) {
        try {
            thrower(i);
        } catch (const std::exception &) {
            compare("catch");
        }
        compare("after the catch");
    }
}
#else
static void exceptions(void)
{
}
#endif

int main(void)
{
    int numbers[] = {3, 1, 2};
    pthread_t id;
    compare("main");
    recurse(20, "recursion");
    qsort(numbers, 3, sizeof *numbers, by_size);
    with_alloca(500);
    large();
    pthread_create(&id, NULL, thread, NULL);
    pthread_join(id, NULL);
    exceptions();
    take_signals(0);
    turns += leaf(1);
    if (!can_ask_the_kernel()) {
        wanted_flags = PIANO_STACK_LOST;
        printf("process_vm_readv is refused: other stacks are not walked\n");
    }
    run_coroutine();
    static char room[65536];
    stack_t stack;
    memset(&stack, 0, sizeof stack);
    stack.ss_sp = room;
    stack.ss_size = sizeof room;
    sigaltstack(&stack, NULL);
    take_signals(SA_ONSTACK);
    turns += leaf(1);
    printf("%d walks, %d failures\n", walks, failures);
    return failures != 0;
}
