/* A filter may kill the process for a system call that it does not expect. So piano reads the
 * filters, which only root may do, and evaluates them for every call that it will make. If piano
 * cannot read the filters, or they refuse a call, it does not touch the process. Filters that check
 * arguments get the relevant ones. */
#include "tool/attach/filter.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "common/attach.h"

enum { MOST_FILTERS = 64, WORDS = 16 };

#ifdef __x86_64__
enum { ARCHITECTURE = (int)AUDIT_ARCH_X86_64 };
#else
enum { ARCHITECTURE = (int)AUDIT_ARCH_AARCH64 };
#endif

struct call {
    const char *name;
    long number;
    bool may_fail; /* an error is fine, but not a signal */
    uint64_t arguments[6];
};

#define CALL(name, ...)                                                                            \
    {                                                                                              \
#name, SYS_##name, false,                                                                  \
        {                                                                                          \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
#define TRY(name, ...)                                                                             \
    {                                                                                              \
#name, SYS_##name, true,                                                                   \
        {                                                                                          \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
static const struct call calls[] = {
    CALL(mmap, 0, PIANO_ATTACH_CODE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, UINT64_MAX,
         0),
    CALL(mprotect, 0, PIANO_ATTACH_DATA, PROT_READ | PROT_WRITE),
    CALL(munmap, 0),
    CALL(madvise, 0),
    CALL(socketpair, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0),
    CALL(memfd_create, 0, MFD_CLOEXEC),
    CALL(getpid, 0),
    CALL(gettid, 0),
    CALL(rt_sigreturn, 0),
    CALL(rt_sigprocmask, 0),
    CALL(clone, 0x3d0f00), /* the flags of pthread_create */
    TRY(clone3, 0),
    CALL(set_robust_list, 0),
    TRY(rseq, 0),
    CALL(ppoll, 0),
    CALL(recvfrom, 0),
    CALL(recvmsg, 0),
    CALL(sendto, 0),
    CALL(close, 0),
    CALL(openat, 0),
    CALL(read, 0),
    CALL(pread64, 0),
    CALL(pwrite64, 0),
    CALL(fstat, 0),
    TRY(newfstatat, 0),
    CALL(fallocate, 0),
    CALL(ftruncate, 0),
    CALL(fcntl, 0),
    CALL(prlimit64, 0),
    CALL(futex, 0),
    CALL(exit, 0),
    CALL(nanosleep, 0),
    CALL(prctl, 15), /* PR_SET_NAME */
    CALL(membarrier, 0),
    TRY(getrandom, 0),
    TRY(process_vm_readv, 0),
    TRY(tgkill, 0),
    TRY(sigaltstack, 0),
    TRY(readlinkat, 0),
    TRY(getcwd, 0),
    TRY(clock_gettime, 0),
#ifdef __x86_64__
    CALL(poll, 0),
#endif
};
#undef CALL
#undef TRY

struct machine {
    uint32_t a, x;
    uint32_t words[WORDS];
};

/* Returns whether the operation is known. */
static bool calculate(struct machine *m, unsigned code, uint32_t k)
{
    uint32_t b = BPF_SRC(code) == BPF_X ? m->x : k;
    switch (BPF_OP(code)) {
    case BPF_ADD:
        m->a += b;
        break;
    case BPF_SUB:
        m->a -= b;
        break;
    case BPF_MUL:
        m->a *= b;
        break;
    case BPF_DIV:
        m->a = b ? m->a / b : 0;
        break;
    case BPF_MOD:
        m->a = b ? m->a % b : 0;
        break;
    case BPF_OR:
        m->a |= b;
        break;
    case BPF_AND:
        m->a &= b;
        break;
    case BPF_XOR:
        m->a ^= b;
        break;
    case BPF_LSH:
        m->a = b < 32 ? m->a << b : 0;
        break;
    case BPF_RSH:
        m->a = b < 32 ? m->a >> b : 0;
        break;
    case BPF_NEG:
        m->a = -m->a;
        break;
    default:
        return false;
    }
    return true;
}

static bool compare(const struct machine *m, unsigned code, uint32_t k)
{
    uint32_t b = BPF_SRC(code) == BPF_X ? m->x : k;
    switch (BPF_OP(code)) {
    case BPF_JEQ:
        return m->a == b;
    case BPF_JGT:
        return m->a > b;
    case BPF_JGE:
        return m->a >= b;
    default:
        return m->a & b; /* BPF_JSET */
    }
}

static bool load(struct machine *m, unsigned code, uint32_t k, const struct seccomp_data *data)
{
    uint32_t value;
    if (BPF_MODE(code) == BPF_IMM)
        value = k;
    else if (BPF_MODE(code) == BPF_LEN)
        value = sizeof *data;
    else if (BPF_MODE(code) == BPF_MEM && k < WORDS)
        value = m->words[k];
    else if (BPF_MODE(code) == BPF_ABS && k <= sizeof *data - sizeof value)
        memcpy(&value, (const char *)data + k, sizeof value);
    else
        return false;
    *(BPF_CLASS(code) == BPF_LD ? &m->a : &m->x) = value;
    return true;
}

/* One instruction that neither jumps nor returns. */
static bool step(struct machine *m, const struct sock_filter *i, const struct seccomp_data *data)
{
    switch (BPF_CLASS(i->code)) {
    case BPF_LD:
    case BPF_LDX:
        return load(m, i->code, i->k, data);
    case BPF_ST:
    case BPF_STX:
        if (i->k >= WORDS)
            return false;
        m->words[i->k] = BPF_CLASS(i->code) == BPF_ST ? m->a : m->x;
        return true;
    case BPF_ALU:
        return calculate(m, i->code, i->k);
    case BPF_MISC:
        if (BPF_MISCOP(i->code) == BPF_TAX)
            m->x = m->a;
        else
            m->a = m->x;
        return true;
    default:
        return false;
    }
}

uint32_t filter_run(const struct sock_filter *code, size_t count, long number,
                    const uint64_t arguments[6])
{
    struct machine m = {0};
    struct seccomp_data data = {.nr = (int)number, .arch = (uint32_t)ARCHITECTURE};
    memcpy(data.args, arguments, sizeof data.args);
    for (size_t at = 0; at < count; at++) {
        const struct sock_filter *i = &code[at];
        if (BPF_CLASS(i->code) == BPF_RET)
            return BPF_RVAL(i->code) == BPF_A ? m.a : i->k;
        if (BPF_CLASS(i->code) == BPF_JMP)
            at += BPF_OP(i->code) == BPF_JA ? i->k : compare(&m, i->code, i->k) ? i->jt : i->jf;
        else if (!step(&m, i, &data))
            break;
    }
    return SECCOMP_RET_KILL_PROCESS;
}

static bool passes(const struct call *c, uint32_t result)
{
    uint32_t action = result & SECCOMP_RET_ACTION_FULL;
    return action == SECCOMP_RET_ALLOW || action == SECCOMP_RET_LOG ||
           (c->may_fail && action == SECCOMP_RET_ERRNO);
}

/* The first call that the filter refuses, or NULL. */
static const char *refused_by(const struct sock_filter *code, size_t count)
{
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        if (!passes(&calls[i], filter_run(code, count, calls[i].number, calls[i].arguments)))
            return calls[i].name;
    }
    return NULL;
}

/* Reads filter NUMBER, malloc'd. Returns its instructions, 0 after the last, or negative errno. */
static long read_filter(pid_t tid, unsigned long number, struct sock_filter **code)
{
    long count = ptrace(PTRACE_SECCOMP_GET_FILTER, tid, (void *)number, NULL);
    *code = NULL;
    if (count <= 0)
        return errno == ENOENT ? 0 : -errno;
    *code = calloc((size_t)count, sizeof **code);
    if (!*code)
        return -ENOMEM;
    if (ptrace(PTRACE_SECCOMP_GET_FILTER, tid, (void *)number, *code) == count)
        return count;
    free(*code);
    *code = NULL;
    return -EIO;
}

bool filter_allows(pid_t pid, pid_t tid, struct attach_failure *f)
{
    long mode = proc_number(tid, "Seccomp", 0);
    long count = 1;
    if (mode == 0)
        return true;
    for (unsigned long i = 0; mode == SECCOMP_MODE_FILTER && i < MOST_FILTERS && count > 0; i++) {
        struct sock_filter *code;
        count = read_filter(tid, i, &code);
        const char *refused = count > 0 ? refused_by(code, (size_t)count) : NULL;
        free(code);
        if (refused) {
            attach_fail(f, ATTACH_WITHOUT_LIBRARY,
                        "process %d has a filter of system calls (seccomp) that refuses %s",
                        (int)pid, refused);
            return false;
        }
    }
    if (mode == SECCOMP_MODE_FILTER && count == 0)
        return true;
    attach_fail(f,
                mode == SECCOMP_MODE_STRICT ? ATTACH_WITHOUT_LIBRARY
                                            : "the same as root; or --cpu, which loads nothing",
                mode == SECCOMP_MODE_STRICT
                    ? "process %d is in seccomp's strict mode, which allows almost no system call"
                    : "process %d has a filter of system calls (seccomp), and piano may not read "
                      "what it allows",
                (int)pid);
    return false;
}
