/* A thread that is inside the allocator or the loader holds their locks, and pthread_create would
 * wait for them forever. So the whole stack of the thread is walked from outside. Every frame must
 * belong to a known module. None may be in the loader, in an allocator, or in code without a file
 * (JIT). If the allocator is in the executable, any of its functions may be the allocator's. Then
 * the thread must wait for input or for a child, as no allocator does. Frames of the C library come in groups. Each group was entered by a call from other code,
 * and that call must be of a function that waits and holds no lock of the C library. Only its
 * exported functions have names, so the group is judged by its outermost frame. At the bottom of
 * the stack are the functions in which the C library starts the thread.
 *
 * Libraries come and go while the process runs. So the modules of the frames are compared with the
 * list of mappings again, while the thread is stopped: it keeps the modules on its stack loaded. */
#include "tool/attach/safe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool/util/vec.h"

enum { SOME_STACK = 16 * 1024, MOST_STACK = 256 * 1024, START_BYTES = 64, MOST_STARTS = 2 };

enum kind { OTHER, C_LIBRARY, LOADER, ALLOCATOR, PIANO, PROGRAM_WITH_ALLOCATOR };

struct safe {
    pid_t pid;
    struct modules *modules;
    enum kind *kinds;
    struct unwinder *unwinder;
    struct space space;
    uint32_t generations;
    struct unwind_stack stack;
    unsigned char bytes[MOST_STACK];
};

/* Functions that wait, or do one system call. */
static const char *const waits[] = {
    "read", "readv", "pread", "pread64", "write", "writev", "pwrite", "pwrite64", "recv",
    "recvfrom", "recvmsg", "recvmmsg", "send", "sendto", "sendmsg", "sendmmsg", "accept", "accept4",
    "connect", "poll", "ppoll", "__poll_chk", "__ppoll_chk", "select", "pselect", "epoll_wait",
    "epoll_pwait", "epoll_pwait2", "nanosleep", "clock_nanosleep", "usleep", "sleep", "thrd_sleep",
    "pause", "sigsuspend", "sigwait", "sigwaitinfo", "sigtimedwait", "wait", "waitpid", "wait3",
    "wait4", "waitid", "pthread_cond_wait", "pthread_cond_timedwait", "pthread_cond_clockwait",
    "cnd_wait", "cnd_timedwait", "pthread_join", "pthread_timedjoin_np", "pthread_clockjoin_np",
    "thrd_join", "pthread_mutex_lock", "pthread_mutex_timedlock", "pthread_mutex_clocklock",
    "mtx_lock", "pthread_rwlock_rdlock", "pthread_rwlock_wrlock", "pthread_rwlock_timedrdlock",
    "pthread_rwlock_timedwrlock", "pthread_barrier_wait", "sem_wait", "sem_timedwait",
    "sem_clockwait", "syscall", "msgrcv", "msgsnd", "semop", "semtimedop", "flock", "fcntl",
    "fcntl64", "ioctl", "sched_yield", "fsync", "fdatasync", "mq_receive", "mq_timedreceive",
    "sendfile", "sendfile64", "splice", "eventfd_read",
    /* where older versions of the library have them */
    "__read", "__write", "__poll", "__select", "__nanosleep", "__clock_nanosleep", "__recv",
    "__send", "__connect", "__wait", "__waitpid", "__sched_yield", "__fcntl", NULL};

/* Functions that read a stream. While one of them waits in `read`, it holds the lock of the stream
 * alone. */
static const char *const reads[] = {"fgets",
                                    "fgetc",
                                    "getc",
                                    "getchar",
                                    "fread",
                                    "getline",
                                    "getdelim",
                                    "__getdelim",
                                    "_IO_getline",
                                    "_IO_getline_info",
                                    "_IO_file_underflow",
                                    "_IO_file_read",
                                    "_IO_file_xsgetn",
                                    "_IO_default_uflow",
                                    "_IO_sgetn",
                                    "_IO_getc",
                                    "__uflow",
                                    "__underflow",
                                    "fgets_unlocked",
                                    "fread_unlocked",
                                    "getc_unlocked",
                                    NULL};

/* Functions that an allocator does not call. */
static const char *const inputs[] = {
    "poll",        "ppoll",        "__poll_chk",  "__ppoll_chk",  "__poll", "select",     "pselect",
    "__select",    "epoll_wait",   "epoll_pwait", "epoll_pwait2", "accept", "accept4",    "recv",
    "recvfrom",    "recvmsg",      "recvmmsg",    "__recv",       "pause",  "sigsuspend", "sigwait",
    "sigwaitinfo", "sigtimedwait", "wait",        "waitpid",      "wait3",  "wait4",      "waitid",
    "__wait",      "__waitpid",    NULL};

static const char *const starts[] = {"clone", "__clone", "clone3", "__libc_start_main", NULL};

static bool begins(const char *path, const char *base)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    size_t len = strlen(base);
    return strncmp(name, base, len) == 0 && (name[len] == '.' || name[len] == '-');
}

static enum kind kind_of(struct module *m, pid_t pid)
{
    if (begins(m->path, "libc") || begins(m->path, "libpthread"))
        return C_LIBRARY;
    if (begins(m->path, "ld-linux-x86-64") || begins(m->path, "ld-linux-aarch64") ||
        begins(m->path, "ld"))
        return LOADER;
    if (strstr(m->path, "libpiano.so"))
        return PIANO;
    if (!module_find(m, pid, "malloc"))
        return OTHER;
    return m->is_program ? PROGRAM_WITH_ALLOCATOR : ALLOCATOR;
}

/* Opens all files now: it takes longer than a thread should be stopped. */
static void add_modules(struct safe *s)
{
    struct codes *codes = unwinder_codes(s->unwinder);
    for (size_t i = 0; i < s->modules->count; i++) {
        struct module *m = &s->modules->list[i];
        s->kinds[i] = kind_of(m, s->pid);
        space_map(&s->space, m->start, m->end, 0, codes_get(codes, m->path, 0), &s->generations);
        struct mapping *known = space_find(&s->space, codes, m->start);
        if (known)
            known->bias = m->bias;
    }
}

struct safe *safe_new(pid_t pid, struct modules *modules)
{
    struct safe *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->pid = pid;
    s->modules = modules;
    s->generations = SPACE_FIRST_GENERATION;
    s->unwinder = unwinder_new();
    s->kinds = calloc(modules->count + 1, sizeof *s->kinds);
    space_init(&s->space, pid, &s->generations);
    if (!s->unwinder || !s->kinds) {
        safe_free(s);
        return NULL;
    }
    add_modules(s);
    return s;
}

void safe_free(struct safe *s)
{
    if (!s)
        return;
    space_release(&s->space);
    unwinder_free(s->unwinder);
    free(s->kinds);
    free(s);
}

/* The list of mappings ------------------------------------------------------------------------- */

struct seen {
    uint64_t sp, low, high; /* the mapping of the stack */
    uint64_t found;         /* frames whose module is mapped where it was */
};

static void look_at_line(const struct safe *s, char *line, struct seen *seen)
{
    unsigned long long start, end;
    int at = 0;
    if (sscanf(line, "%llx-%llx %*s %*x %*x:%*x %*u %n", &start, &end, &at) < 2 || at == 0)
        return;
    if (seen->sp >= start && seen->sp < end) {
        seen->low = start;
        seen->high = end;
    }
    line[strcspn(line, "\n")] = '\0';
    for (uint32_t i = 0; i < s->stack.depth; i++) {
        uint64_t pc = s->stack.pcs[i] - 1;
        const struct module *m = pc >= start && pc < end ? modules_at(s->modules, pc) : NULL;
        seen->found += m && strcmp(m->path, line + at) == 0;
    }
}

static bool look_at_mappings(const struct safe *s, struct seen *seen)
{
    char path[64];
    char *line = NULL;
    size_t size = 0;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)s->pid);
    FILE *f = fopen(path, "re");
    while (f && getline(&line, &size, f) > 0)
        look_at_line(s, line, seen);
    free(line);
    if (f)
        fclose(f);
    return seen->high > 0;
}

/* The stack ------------------------------------------------------------------------------------ */

static struct unwind_regs registers(const struct remote *r)
{
    struct unwind_regs regs = {.pc = remote_pc(r)};
#ifdef __x86_64__
    const struct user_regs_struct *u = &r->regs;
    const uint64_t general[] = {u->rax, u->rdx, u->rcx, u->rbx, u->rsi, u->rdi, u->rbp, u->rsp,
                                u->r8,  u->r9,  u->r10, u->r11, u->r12, u->r13, u->r14, u->r15};
    memcpy(regs.general, general, sizeof general);
#else
    memcpy(regs.general, r->regs.regs, 31 * sizeof *regs.general);
    regs.general[UNWIND_SP] = r->regs.sp;
#endif
    return regs;
}

static bool walk_within(struct safe *s, const struct remote *r, size_t most)
{
    struct unwind_regs regs = registers(r);
    uint64_t sp = remote_sp(r);
    struct unwind_memory memory = {s->bytes, sp, remote_read_some(s->pid, sp, s->bytes, most)};
    s->stack.depth = s->stack.flags = 0;
    unwind(s->unwinder, &s->space, &regs, &memory, &s->stack);
    return !(s->stack.flags & (PIANO_STACK_LOST | PIANO_STACK_FULL));
}

static bool walk(struct safe *s, const struct remote *r)
{
    return walk_within(s, r, SOME_STACK) || walk_within(s, r, MOST_STACK);
}

static struct module *module_of(const struct safe *s, uint32_t frame)
{
    return modules_at(s->modules, s->stack.pcs[frame] - 1);
}

static enum kind kind_at(const struct safe *s, uint32_t frame)
{
    return s->kinds[module_of(s, frame) - s->modules->list];
}

static bool has_name(const struct safe *s, uint32_t frame, const char *const *names)
{
    return module_is_in(module_of(s, frame), s->pid, s->stack.pcs[frame] - 1, names);
}

static bool is_nameless(const struct safe *s, uint32_t frame)
{
    const struct module *m = module_of(s, frame);
    uint64_t pc = s->stack.pcs[frame] - 1;
    for (size_t i = 0; i < m->symbol_count; i++) {
        if (pc >= m->symbols[i].start && pc < m->symbols[i].end)
            return false;
    }
    return true;
}

/* The number of frames without those that started the thread; 0 if they are not recognised. */
static uint32_t without_start(const struct safe *s)
{
    uint32_t depth = s->stack.depth;
    const struct module *last = depth > 0 ? module_of(s, depth - 1) : NULL;
    if (last && last->is_program && s->stack.pcs[depth - 1] - 1 - last->entry < START_BYTES)
        depth--;
    for (int i = 0; i < MOST_STARTS && depth > 0 && kind_at(s, depth - 1) == C_LIBRARY; i++) {
        bool is_start = is_nameless(s, depth - 1) || (i == 0 && has_name(s, depth - 1, starts));
        if (!is_start)
            return i > 0 ? depth : 0;
        depth--;
    }
    return depth < s->stack.depth ? depth : 0;
}

/* Frames FIRST to LAST are in the C library, and LAST was called by other code. */
static bool is_waiting(const struct safe *s, uint32_t first, uint32_t last)
{
    if (has_name(s, last, waits))
        return true;
    bool is_reading = has_name(s, last, reads);
    uint32_t inner = first;
    while (inner < last && is_nameless(s, inner))
        inner++;
    is_reading = is_reading && has_name(s, inner, waits);
    for (uint32_t i = inner + 1; i < last && is_reading; i++)
        is_reading = is_nameless(s, i) || has_name(s, i, reads);
    return is_reading;
}

/* Is the frame a hook of libpiano.so around a function that waits? A thread that has waited since an
 * earlier recording returns through it. */
static bool is_waiting_hook(const struct safe *s, uint32_t frame)
{
    return frame > 0 && kind_at(s, frame - 1) == C_LIBRARY && has_name(s, frame, waits);
}

/* Does the thread wait for input in the C library, called from other code? */
static bool is_at_input(const struct safe *s)
{
    uint32_t last = 0;
    while (last + 1 < s->stack.depth && module_of(s, last + 1) && kind_at(s, last + 1) == C_LIBRARY)
        last++;
    return kind_at(s, 0) == C_LIBRARY && has_name(s, last, inputs);
}

static const char *judge(const struct safe *s)
{
    bool has_allocator = false;
    for (uint32_t i = 0; i < s->stack.depth; i++) {
        if (!module_of(s, i))
            return "all its threads run code without a file, as of a just-in-time compiler";
        switch (kind_at(s, i)) {
        case LOADER:
            return "all its threads are in the dynamic loader";
        case ALLOCATOR:
            return "all its threads are in its allocator";
        case PIANO:
            if (!is_waiting_hook(s, i))
                return "all its threads are in libpiano.so";
            break;
        case PROGRAM_WITH_ALLOCATOR:
            has_allocator = true;
            break;
        default:
            break;
        }
    }
    if (has_allocator && !is_at_input(s))
        return "the allocator is in its executable, and none of its threads waits for input";
    uint32_t depth = without_start(s);
    if (depth == 0)
        return "the stacks of its threads do not begin where the C library starts threads";
    for (uint32_t first = 0, i = 0; i < depth; i++) {
        bool is_last = i + 1 == depth || kind_at(s, i + 1) != C_LIBRARY;
        if (kind_at(s, i) != C_LIBRARY)
            first = i + 1;
        else if (is_last && !is_waiting(s, first, i))
            return "all its threads are in functions of the C library that may hold its locks";
    }
    return NULL;
}

bool safe_is(struct safe *s, const struct remote *r, uint64_t *below, const char **why)
{
    struct seen seen = {.sp = remote_sp(r)};
    if (!walk(s, r)) {
        *why = "the stacks of its threads cannot be walked to their end";
        return false;
    }
    *why = judge(s);
    if (*why)
        return false;
    if (look_at_mappings(s, &seen) && seen.found == s->stack.depth) {
        *below = seen.low;
        return true;
    }
    *why = "it loads and unloads libraries all the time";
    return false;
}
