/* Runs code in a stopped thread, so that the thread survives whatever happens to the tool.
 *
 * Nothing here raises a signal in the process, not even SIGTRAP: the kernel would reset its handler
 * if it were blocked or ignored. The thread stops at its system calls instead.
 *
 * While it runs foreign code, the thread has a way back of its own: a signal frame with all its
 * registers, which the code ends in. It is used only if the tool has been killed, or has given up
 * waiting. Then a wait with a timeout that was interrupted ends with EINTR. Otherwise the tool
 * restores the registers, and the kernel restarts the interrupted call. */
#include "tool/attach/remote.h"

#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/machine.h"

enum {
    SPINS = 200,
    NAP_NS = 50000,
    SYSCALL_STOP = SIGTRAP | 0x80,
    RED_ZONE = 256,
    PAGE = 4096,
    MOST_PARTS = 65 + 1,
    FRAME_REST = 8192, /* more than the frame needs beside the state */
};

/* On a busy machine, a thread may have to wait for a CPU before it can stop. */
static const int64_t LONGEST_NS = 5000000000;

#ifdef __x86_64__
enum { STATE = NT_X86_XSTATE };
#else
enum { STATE = NT_PRFPREG };
#endif

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Waits until the thread stops. Returns 0 or negative errno. */
static int wait_for_stop(const struct remote *r, int64_t limit_ns, int *status)
{
    const struct timespec nap = {0, NAP_NS};
    int64_t end = now_ns() + limit_ns;
    for (unsigned i = 0;; i++) {
        pid_t got = waitpid(r->tid, status, __WALL | WNOHANG);
        if (got == r->tid)
            return WIFSTOPPED(*status) ? 0 : -ESRCH;
        if (got < 0 && errno != EINTR)
            return -ESRCH;
        if (now_ns() > end)
            return -ETIMEDOUT;
        if (i >= SPINS)
            nanosleep(&nap, NULL);
    }
}

static bool is_event_stop(int status)
{
    return status >> 16 == PTRACE_EVENT_STOP;
}

/* A signal on its way to the thread is delivered when it continues. */
static int signal_of(int status)
{
    bool is_signal = status >> 16 == 0 && WSTOPSIG(status) != SYSCALL_STOP;
    return is_signal ? WSTOPSIG(status) : 0;
}

static bool proceed(const struct remote *r, int request, int signal)
{
    return ptrace(request, r->tid, NULL, (void *)(intptr_t)signal) == 0;
}

int remote_stop(struct remote *r, pid_t pid, pid_t tid)
{
    int status;
    *r = (struct remote){.pid = pid, .tid = tid};
    if (ptrace(PTRACE_SEIZE, tid, NULL, (void *)PTRACE_O_TRACESYSGOOD) != 0 ||
        ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) != 0)
        return -errno;
    for (;;) {
        int err = wait_for_stop(r, LONGEST_NS, &status);
        if (err != 0)
            return err;
        if (is_event_stop(status))
            break;
        if (!proceed(r, PTRACE_CONT, signal_of(status)))
            return -ESRCH;
    }
    struct iovec io = {&r->regs, sizeof r->regs};
    if (ptrace(PTRACE_GETREGSET, tid, (void *)NT_PRSTATUS, &io) == 0)
        return 0;
    int err = -errno;
    remote_release(r);
    return err;
}

void remote_release(struct remote *r)
{
    proceed(r, PTRACE_DETACH, 0);
}

static bool set_regs(const struct remote *r, struct user_regs_struct *regs)
{
    struct iovec io = {regs, sizeof *regs};
    return ptrace(PTRACE_SETREGSET, r->tid, (void *)NT_PRSTATUS, &io) == 0;
}

static bool get_regs(const struct remote *r, struct user_regs_struct *regs)
{
    struct iovec io = {regs, sizeof *regs};
    return ptrace(PTRACE_GETREGSET, r->tid, (void *)NT_PRSTATUS, &io) == 0;
}

static bool set_mask(const struct remote *r, uint64_t mask)
{
    return ptrace(PTRACE_SETSIGMASK, r->tid, (void *)sizeof mask, &mask) == 0;
}

int remote_prepare(struct remote *r)
{
    struct iovec io = {r->state, sizeof r->state};
    if (ptrace(PTRACE_GETREGSET, r->tid, (void *)STATE, &io) != 0 ||
        ptrace(PTRACE_GETSIGMASK, r->tid, (void *)sizeof r->mask, &r->mask) != 0)
        return -errno;
    r->state_size = io.iov_len;
    return io.iov_len < sizeof r->state && set_mask(r, UINT64_MAX) ? 0 : -EINVAL;
}

/* Registers ------------------------------------------------------------------------------------ */

#ifdef __x86_64__
#define REG_PC rip
#define REG_SP rsp
#define REG_RESULT rax

/* orig_rax of -1: the kernel restarts nothing. */
static void set_call(struct user_regs_struct *regs, uint64_t at, long number, const uint64_t a[6])
{
    regs->rip = at;
    regs->rax = (uint64_t)number;
    regs->orig_rax = UINT64_MAX;
    regs->rdi = a[0];
    regs->rsi = a[1];
    regs->rdx = a[2];
    regs->r10 = a[3];
    regs->r8 = a[4];
    regs->r9 = a[5];
}

/* The call returns to SIGRETURN, with FRAME at the stack pointer then. */
static bool set_way_back(const struct remote *r, struct user_regs_struct *regs, uint64_t sigreturn,
                         uint64_t frame)
{
    regs->rsp = frame - sizeof sigreturn;
    return remote_write(r->pid, regs->rsp, &sigreturn, sizeof sigreturn);
}

static void set_run(struct user_regs_struct *regs, uint64_t start, uint64_t room, uint64_t stack)
{
    regs->rip = start;
    regs->orig_rax = UINT64_MAX;
    regs->rbx = room;
    regs->rsp = stack;
    regs->eflags &= ~(uint64_t)0x400; /* the direction flag, as the C library expects it */
}
#else
#define REG_PC pc
#define REG_SP sp
#define REG_RESULT regs[0]

static void set_call(struct user_regs_struct *regs, uint64_t at, long number, const uint64_t a[6])
{
    regs->pc = at;
    regs->regs[8] = (uint64_t)number;
    for (int i = 0; i < 6; i++)
        regs->regs[i] = a[i];
}

static bool set_way_back(const struct remote *r, struct user_regs_struct *regs, uint64_t sigreturn,
                         uint64_t frame)
{
    (void)r;
    regs->regs[30] = sigreturn;
    regs->sp = frame;
    return true;
}

static void set_run(struct user_regs_struct *regs, uint64_t start, uint64_t room, uint64_t stack)
{
    regs->pc = start;
    regs->regs[19] = room;
    regs->sp = stack;
}
#endif

uint64_t remote_pc(const struct remote *r)
{
    return r->regs.REG_PC;
}

uint64_t remote_sp(const struct remote *r)
{
    return r->regs.REG_SP;
}

/* Running -------------------------------------------------------------------------------------- */

/* Lets the thread run to its next system call, or out of it, past group stops. All its signals are
 * blocked: another stop is a fault, or its end. */
static int run_to_call(const struct remote *r, int64_t limit_ns)
{
    int status;
    for (;;) {
        if (!proceed(r, PTRACE_SYSCALL, 0))
            return -ESRCH;
        int err = wait_for_stop(r, limit_ns, &status);
        if (err != 0)
            return err;
        if (status >> 16 == 0 && WSTOPSIG(status) == SYSCALL_STOP)
            return 0;
        if (!is_event_stop(status))
            return -EFAULT;
    }
}

/* Stops the thread on its way from a system call to the program. */
static int run_out_of_call(const struct remote *r)
{
    int status;
    if (ptrace(PTRACE_INTERRUPT, r->tid, NULL, NULL) != 0)
        return -ESRCH;
    for (;;) {
        if (!proceed(r, PTRACE_CONT, 0))
            return -ESRCH;
        int err = wait_for_stop(r, LONGEST_NS, &status);
        if (err != 0)
            return err;
        if (is_event_stop(status))
            return 0;
    }
}

/* The result is known when the thread comes out of the call. It stays at that stop. */
int64_t remote_call(struct remote *r, const struct remote_calls *calls, long number,
                    const uint64_t arguments[6])
{
    unsigned char frame[REMOTE_MOST_STATE + FRAME_REST];
    struct user_regs_struct regs = r->regs;
    uint64_t at = (remote_sp(r) - RED_ZONE - r->state_size - FRAME_REST) & ~(uint64_t)63;
    size_t size = remote_frame(r, at, frame, sizeof frame);
    if (size == 0 || at < calls->below || !remote_write(r->pid, at, frame, size) ||
        !set_way_back(r, &regs, calls->sigreturn, at))
        return -ENOBUFS;
    set_call(&regs, calls->instruction, number, arguments);
    r->is_in_call = true;
    if (!set_regs(r, &regs) || run_to_call(r, LONGEST_NS) != 0 || run_to_call(r, LONGEST_NS) != 0 ||
        !get_regs(r, &regs))
        return -ECANCELED;
    return (int64_t)regs.REG_RESULT;
}

int remote_run(struct remote *r, uint64_t start, uint64_t mark, uint64_t room, uint64_t stack)
{
    struct user_regs_struct regs = r->regs;
    int64_t end = now_ns() + LONGEST_NS;
    set_run(&regs, start, room, stack);
    int err = set_regs(r, &regs) ? 0 : -ESRCH;
    while (err == 0) {
        int64_t left = end - now_ns();
        err = run_to_call(r, left > 0 ? left : 0);
        if (err == 0 && (!get_regs(r, &regs) || regs.REG_PC == mark))
            break;
    }
    if (err == 0)
        err = run_out_of_call(r);
    r->is_in_call = err != 0;
    return err;
}

/* The thread must be at a stop before it returns to its program, where the kernel decides whether
 * to restart the system call that was interrupted. */
void remote_restore(struct remote *r)
{
    struct iovec io = {r->state, r->state_size};
    if (r->is_in_call && run_out_of_call(r) != 0)
        return; /* it brings itself back, when the calling thread ends */
    set_regs(r, &r->regs);
    ptrace(PTRACE_SETREGSET, r->tid, (void *)STATE, &io);
    set_mask(r, r->mask);
    remote_release(r);
}

/* Memory --------------------------------------------------------------------------------------- */

bool remote_read(pid_t pid, uint64_t at, void *to, size_t size)
{
    struct iovec local = {to, size};
    struct iovec remote = {(void *)(uintptr_t)at, size};
    return process_vm_readv(pid, &local, 1, &remote, 1, 0) == (ssize_t)size;
}

/* The kernel copies an element whole or not at all. */
size_t remote_read_some(pid_t pid, uint64_t at, void *to, size_t size)
{
    struct iovec parts[MOST_PARTS];
    struct iovec local = {to, size};
    unsigned long count = 0;
    for (size_t done = 0; done < size && count < MOST_PARTS; count++) {
        size_t part = PAGE - (at + done) % PAGE;
        part = part < size - done ? part : size - done;
        parts[count] = (struct iovec){(void *)(uintptr_t)(at + done), part};
        done += part;
    }
    ssize_t got = process_vm_readv(pid, &local, 1, parts, count, 0);
    return got > 0 ? (size_t)got : 0;
}

bool remote_write(pid_t pid, uint64_t at, const void *from, size_t size)
{
    struct iovec local = {(void *)(uintptr_t)from, size};
    struct iovec remote = {(void *)(uintptr_t)at, size};
    return process_vm_writev(pid, &local, 1, &remote, 1, 0) == (ssize_t)size;
}

bool remote_write_code(const struct remote *r, uint64_t at, const unsigned char *from, size_t size)
{
    for (size_t i = 0; i < size; i += sizeof(long)) {
        long word = 0;
        size_t rest = size - i < sizeof word ? size - i : sizeof word;
        memcpy(&word, from + i, rest);
        if (ptrace(PTRACE_POKEDATA, r->tid, (void *)(uintptr_t)(at + i), (void *)word) != 0)
            return false;
    }
    return true;
}
