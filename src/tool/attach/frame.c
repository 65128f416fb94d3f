/* The signal frame from which rt_sigreturn restores a thread: what the kernel would have put on its
 * stack for a signal at that moment. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <ucontext.h>

#include "tool/attach/remote.h"

/* The frame leaves the alternate signal stack alone: the kernel refuses these flags. */
enum { NO_STACK = 0xff };

#ifdef __x86_64__

/* What the kernel returns for an interrupted call that it restarts, and for one that it restarts
 * with the rest of its time, which rt_sigreturn cannot. */
enum { RESTART_FIRST = 512, RESTART_LAST = 514, RESTART_REST = 516, SYSCALL_BYTES = 2 };

enum {
    WITH_XSTATE = 1,
    WITH_SEGMENT = 2 | 4,
    SOFTWARE_AT = 464, /* bytes of the state that the kernel's software uses */
    MAGIC1 = 0x46505853,
    MAGIC2 = 0x46505845,
    ALIGNMENT = 64,
};

static void fill_registers(greg_t *to, const struct user_regs_struct *from)
{
    const greg_t values[] = {
        [REG_R8] = (greg_t)from->r8,
        [REG_R9] = (greg_t)from->r9,
        [REG_R10] = (greg_t)from->r10,
        [REG_R11] = (greg_t)from->r11,
        [REG_R12] = (greg_t)from->r12,
        [REG_R13] = (greg_t)from->r13,
        [REG_R14] = (greg_t)from->r14,
        [REG_R15] = (greg_t)from->r15,
        [REG_RDI] = (greg_t)from->rdi,
        [REG_RSI] = (greg_t)from->rsi,
        [REG_RBP] = (greg_t)from->rbp,
        [REG_RBX] = (greg_t)from->rbx,
        [REG_RDX] = (greg_t)from->rdx,
        [REG_RAX] = (greg_t)from->rax,
        [REG_RCX] = (greg_t)from->rcx,
        [REG_RSP] = (greg_t)from->rsp,
        [REG_RIP] = (greg_t)from->rip,
        [REG_EFL] = (greg_t)from->eflags,
        [REG_CSGSFS] = (greg_t)(from->cs | from->ss << 48),
    };
    memcpy(to, values, sizeof values);
    int64_t result = -(int64_t)from->rax;
    if ((int64_t)from->orig_rax < 0)
        return;
    if (result >= RESTART_FIRST && result <= RESTART_LAST) {
        to[REG_RAX] = (greg_t)from->orig_rax;
        to[REG_RIP] -= SYSCALL_BYTES;
    } else if (result == RESTART_REST) {
        to[REG_RAX] = -EINTR;
    }
}

size_t remote_frame(const struct remote *r, uint64_t at, unsigned char *bytes, size_t size)
{
    ucontext_t *uc = (ucontext_t *)(void *)bytes;
    const uint64_t state_at = (at + sizeof *uc + ALIGNMENT - 1) & ~(uint64_t)(ALIGNMENT - 1);
    unsigned char *state = bytes + (state_at - at);
    const size_t whole = (size_t)(state_at - at) + r->state_size + sizeof(uint32_t);
    const uint32_t magic[] = {MAGIC1, (uint32_t)r->state_size + (uint32_t)sizeof(uint32_t)};
    const uint32_t state_size = (uint32_t)r->state_size;
    const uint32_t end = MAGIC2;
    if (whole > size)
        return 0;
    memset(bytes, 0, whole);
    uc->uc_flags = WITH_XSTATE | WITH_SEGMENT;
    uc->uc_stack.ss_flags = NO_STACK;
    fill_registers(uc->uc_mcontext.gregs, &r->regs);
    uc->uc_mcontext.fpregs = (void *)(uintptr_t)state_at;
    memcpy(&uc->uc_sigmask, &r->mask, sizeof r->mask);
    memcpy(state, r->state, r->state_size);
    /* The features that the state contains are its first word here already. The same word stands
     * behind the sizes. */
    uint64_t features;
    memcpy(&features, r->state + SOFTWARE_AT, sizeof features);
    memcpy(state + SOFTWARE_AT, magic, sizeof magic);
    memcpy(state + SOFTWARE_AT + 8, &features, sizeof features);
    memcpy(state + SOFTWARE_AT + 16, &state_size, sizeof state_size);
    memcpy(state + r->state_size, &end, sizeof end);
    return whole;
}

#else

enum { FPSIMD = 0x46508001 };

/* The kernel has already set the registers back to before the interrupted call. */
size_t remote_frame(const struct remote *r, uint64_t at, unsigned char *bytes, size_t size)
{
    const size_t info = sizeof(siginfo_t);
    const size_t whole = info + sizeof(ucontext_t);
    struct {
        uint32_t magic, size, fpsr, fpcr;
        unsigned char registers[512];
    } vectors = {FPSIMD, sizeof vectors, 0, 0, {0}};
    (void)at;
    if (whole > size || r->state_size < sizeof vectors.registers + 8)
        return 0;
    memset(bytes, 0, whole);
    ucontext_t *uc = (ucontext_t *)(void *)(bytes + info);
    uc->uc_stack.ss_flags = NO_STACK;
    memcpy(&uc->uc_sigmask, &r->mask, sizeof r->mask);
    memcpy(uc->uc_mcontext.regs, r->regs.regs, sizeof uc->uc_mcontext.regs);
    uc->uc_mcontext.sp = r->regs.sp;
    uc->uc_mcontext.pc = r->regs.pc;
    uc->uc_mcontext.pstate = r->regs.pstate;
    memcpy(vectors.registers, r->state, sizeof vectors.registers);
    memcpy(&vectors.fpsr, r->state + 512, 4);
    memcpy(&vectors.fpcr, r->state + 516, 4);
    memcpy(uc->uc_mcontext.__reserved, &vectors, sizeof vectors);
    return whole;
}

#endif
