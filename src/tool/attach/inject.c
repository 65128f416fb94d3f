/* One thread is stopped at a time, and only for as long as it takes to look at its stack, or to
 * start the new thread. All others continue. A thread that looks safe is checked twice. After the
 * first check it continues while the unwinder reads its tables, so that the second check is short.
 *
 * All this happens in a thread of the tool that ends afterwards. When it ends, the kernel detaches
 * from all threads that it still traces. */
#include "tool/attach/inject.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/attach.h"
#include "common/machine.h"
#include "tool/attach/filter.h"
#include "tool/attach/remote.h"
#include "tool/attach/safe.h"
#include "tool/attach/stub.h"
#include "tool/util/say.h"

enum {
    ROUNDS = 3000, /* over all threads */
    NAP_NS = 500000,
    FRAME_AT = 512, /* of the signal frame in the room, see stub.c */
    NEAR = 64,      /* bytes of `syscall` in which its instruction is searched */
    MOST_CODE = 16 << 20,
    WITH_EXEC = 0x10, /* MFD_EXEC, since Linux 6.3 */
    HIGHEST = -20,    /* as of nice */
};
static const double LONGEST_S = 10;

#ifdef __x86_64__
static const unsigned char call_instruction[] = {0x0f, 0x05};
#else
static const unsigned char call_instruction[] = {0x01, 0x00, 0x00, 0xd4};
#endif

struct addresses {
    uint64_t create, detach, open, find, complain, unmap;
    uint64_t entry; /* of the library, if it is loaded */
    struct remote_calls calls;
};

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* What is where in the process ----------------------------------------------------------------- */

/* In older versions, libc consists of several libraries. */
static uint64_t find_function(const struct modules *m, pid_t pid, const char *name)
{
    static const char *const parts[] = {"libc", "libpthread", "libdl"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        struct module *module = modules_named(m, parts[i]);
        const struct modules_symbol *s = module ? module_find(module, pid, name) : NULL;
        if (s)
            return s->start;
    }
    return 0;
}

static uint64_t find_either(const struct modules *m, pid_t pid, const char *name, const char *other)
{
    uint64_t found = find_function(m, pid, name);
    return found ? found : find_function(m, pid, other);
}

/* The address of WORD between START and END; 0 if it is not there. */
static uint64_t find_bytes(pid_t pid, uint64_t start, uint64_t end, const void *word, size_t len)
{
    size_t size = end > start && end - start <= MOST_CODE ? end - start : 0;
    unsigned char *bytes = malloc(size + 1);
    uint64_t found = 0;
    if (bytes && size > 0 && remote_read(pid, start, bytes, size)) {
        const unsigned char *at = memmem(bytes, size, word, len);
        found = at ? start + (uint64_t)(at - bytes) : 0;
    }
    free(bytes);
    return found;
}

/* Code that ends a signal handler is in the C library, or in the vdso. */
static uint64_t find_sigreturn(const struct modules *m, pid_t pid)
{
    static const char *const places[] = {"libc", "libpthread", "[vdso]"};
    uint64_t found = 0;
    for (size_t i = 0; !found && i < sizeof places / sizeof *places; i++) {
        const struct module *module = NULL;
        for (size_t n = 0; !module && n < m->count; n++)
            module = strcmp(m->list[n].path, places[i]) == 0 ? &m->list[n] : NULL;
        if (!module)
            module = modules_named(m, places[i]);
        if (module)
            found = find_bytes(pid, module->code_start, module->code_end, PIANO_SIGRETURN,
                               sizeof PIANO_SIGRETURN - 1);
    }
    return found;
}

/* Finds the entry function of the library, loaded by path or from a memory file. */
static uint64_t find_entry(const struct modules *m, pid_t pid, bool *is_loaded)
{
    *is_loaded = false;
    for (size_t i = 0; i < m->count; i++) {
        if (!strstr(m->list[i].path, "libpiano.so"))
            continue;
        const struct modules_symbol *s = module_find(&m->list[i], pid, PIANO_ATTACH_ENTRY);
        *is_loaded = true;
        if (s)
            return s->start;
    }
    return 0;
}

static bool find_addresses(const struct modules *m, pid_t pid, struct addresses *a,
                           struct attach_failure *f)
{
    bool is_loaded;
    uint64_t call = find_function(m, pid, "syscall");
    *a = (struct addresses){
        .create = find_function(m, pid, "pthread_create"),
        .detach = find_function(m, pid, "pthread_detach"),
        .open = find_either(m, pid, "dlopen", "__libc_dlopen_mode"),
        .find = find_either(m, pid, "dlsym", "__libc_dlsym"),
        .complain = find_function(m, pid, "dlerror"),
        .unmap = find_function(m, pid, "munmap"),
        .entry = find_entry(m, pid, &is_loaded),
        .calls = {.sigreturn = find_sigreturn(m, pid)},
    };
    a->calls.instruction =
        call ? find_bytes(pid, call, call + NEAR, call_instruction, sizeof call_instruction) : 0;
    if (is_loaded && !a->entry)
        attach_fail(f, "a new start of the process",
                    "process %d contains a libpiano.so of an older piano", (int)pid);
    else if (!a->create || !a->detach)
        attach_fail(f, ATTACH_WITHOUT_LIBRARY,
                    "process %d has a C library from before glibc 2.34, without its threads",
                    (int)pid);
    else if (!a->open || !a->find || !a->unmap || !a->calls.instruction || !a->calls.sigreturn)
        attach_fail(f, ATTACH_WITHOUT_LIBRARY,
                    "the C library of process %d lacks functions that are needed", (int)pid);
    else
        return true;
    return false;
}

/* In the stopped thread ------------------------------------------------------------------------ */

static void fill_room(struct piano__attach_room *room, const struct addresses *a, uint64_t start)
{
    bool knows_exec = access("/proc/sys/vm/memfd_noexec", F_OK) == 0;
    *room = (struct piano__attach_room){
        .create = a->create,
        .detach = a->detach,
        .open = a->open,
        .find = a->find,
        .complain = a->complain ? a->complain : a->unmap,
        .unmap = a->unmap,
        .entry = a->entry,
        .start = start,
        .size = PIANO_ATTACH_CODE + PIANO_ATTACH_DATA,
        .sockets = {-1, -1},
        .memory = -1,
        .mode = RTLD_NOW | RTLD_LOCAL,
        .result = -EINTR,
        .poll_events = 1, /* POLLIN */
        .memory_flags = MFD_CLOEXEC | (knows_exec ? WITH_EXEC : 0),
        .code = start + (uint64_t)(attach_stub_thread - attach_stub),
        .symbol = PIANO_ATTACH_ENTRY,
        .path = "libpiano.so",
    };
}

/* Maps memory in the process: code, which is never writable for it, and data. Returns its address,
 * or negative errno. */
static int64_t map_room(struct remote *r, const struct addresses *a)
{
    const uint64_t size = PIANO_ATTACH_CODE + PIANO_ATTACH_DATA;
    const uint64_t map[6] = {0,          size, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS,
                             UINT64_MAX, 0};
    int64_t start = remote_call(r, &a->calls, SYS_mmap, map);
    if (start < 0 && start > -4096)
        return start;
    const uint64_t protect[6] = {(uint64_t)start + PIANO_ATTACH_CODE, PIANO_ATTACH_DATA,
                                 PROT_READ | PROT_WRITE};
    int64_t err = remote_call(r, &a->calls, SYS_mprotect, protect);
    return err < 0 ? err : start;
}

static int fill(struct remote *r, const struct addresses *a, uint64_t start)
{
    unsigned char frame[REMOTE_MOST_STATE + 4096];
    struct piano__attach_room room;
    uint64_t at = start + PIANO_ATTACH_CODE;
    size_t size = remote_frame(r, at + FRAME_AT, frame, sizeof frame);
    fill_room(&room, a, start);
    bool done = size > 0 && remote_write(r->pid, at, &room, sizeof room) &&
                remote_write(r->pid, at + FRAME_AT, frame, size) &&
                remote_write_code(r, start, attach_stub, (size_t)(attach_stub_end - attach_stub));
    return done ? 0 : -EFAULT;
}

/* Runs the code. Returns 0 with the room in *ROOM, or negative errno. The thread is at a stop where
 * it can be restored, unless the result is -ECANCELED. */
static int run(struct remote *r, const struct addresses *a, uint64_t *at,
               struct piano__attach_room *room)
{
    int64_t start = map_room(r, a);
    if (start < 0 && start > -4096)
        return (int)start;
    *at = (uint64_t)start + PIANO_ATTACH_CODE;
    int err = fill(r, a, (uint64_t)start);
    if (err == 0 &&
        remote_run(r, (uint64_t)start, (uint64_t)start + (uint64_t)(attach_stub_mark - attach_stub),
                   *at, *at + PIANO_ATTACH_DATA - 256) != 0)
        return -ECANCELED;
    if (err == 0)
        err = remote_read(r->pid, *at, room, sizeof *room) ? (int)room->result : -EFAULT;
    const uint64_t unmap[6] = {(uint64_t)start, PIANO_ATTACH_CODE + PIANO_ATTACH_DATA};
    if (err != 0)
        (void)remote_call(r, &a->calls, SYS_munmap, unmap);
    return err;
}

/* The result of trying one thread. */
enum outcome { DONE, UNSAFE, FAILED };

struct job {
    struct injection *in;
    struct modules modules;
    struct addresses addresses;
    struct safe *safe;
    const char *why; /* the last thread was not safe */
    struct piano__attach_room room;
    uint64_t room_at;
};

static void explain(struct job *j, int err)
{
    static const char *const steps[] = {
        [0] = "memory cannot be mapped",
        [PIANO_ATTACH_SOCKETS] = "sockets cannot be opened",
        [PIANO_ATTACH_MEMORY] = "a memory file cannot be opened",
        [PIANO_ATTACH_THREAD] = "a thread cannot be started",
    };
    uint64_t step = j->room.step < PIANO_ATTACH_STARTED ? j->room.step : 0;
    const char *hint = err == -EMFILE ? "a higher limit of open files (ulimit -n)"
                       : err == -EAGAIN || err == -ENOMEM ? "a higher limit (ulimit -u, ulimit -v)"
                                                          : ATTACH_WITHOUT_LIBRARY;
    if (err == -ECANCELED)
        attach_fail(&j->in->failure, "the same again",
                    "process %d did not start the thread in time; it goes on as before",
                    (int)j->in->pid);
    else
        attach_fail(&j->in->failure, hint, "in process %d %s: %s", (int)j->in->pid, steps[step],
                    strerror(-err));
}

/* The thread has been stopped and is safe. */
static enum outcome use(struct job *j, struct remote *r)
{
    int err = remote_prepare(r);
    if (err != 0) {
        remote_release(r);
        explain(j, err);
        return FAILED;
    }
    err = run(r, &j->addresses, &j->room_at, &j->room);
    if (err == -ECANCELED)
        remote_release(r);
    else
        remote_restore(r);
    if (err == -ENOBUFS) {
        j->why = "the stacks of its threads are full";
        return UNSAFE; /* and restored */
    }
    if (err != 0)
        explain(j, err);
    return err == 0 ? DONE : FAILED;
}

/* Stops thread TID. Uses it, if it is safe and IS_DRY is not set. */
static enum outcome try_thread(struct job *j, pid_t tid, bool is_dry)
{
    struct remote r;
    int64_t start = now_ns();
    int err = remote_stop(&r, j->in->pid, tid);
    if (err == -ESRCH)
        return UNSAFE;
    if (err != 0) {
        proc_explain(j->in->pid, err, &j->in->failure);
        return FAILED;
    }
    enum outcome outcome = UNSAFE;
    bool is_safe = safe_is(j->safe, &r, &j->addresses.calls.below, &j->why);
    if (is_safe && is_dry)
        outcome = filter_allows(j->in->pid, tid, &j->in->failure) ? DONE : FAILED;
    if (is_safe && !is_dry)
        outcome = use(j, &r);
    else
        remote_release(&r);
    int64_t took = now_ns() - start;
    j->in->stood_ns += took;
    j->in->longest_ns = took > j->in->longest_ns ? took : j->in->longest_ns;
    j->in->stops++;
    return outcome;
}

/* Looks for a thread that is safe, and uses it. */
static bool use_some_thread(struct job *j)
{
    const struct timespec nap = {0, NAP_NS};
    int64_t end = now_ns() + (int64_t)(LONGEST_S * 1e9);
    for (int round = 0; round < ROUNDS && now_ns() < end; round++) {
        size_t count;
        pid_t *list = proc_threads(j->in->pid, &count);
        enum outcome outcome = UNSAFE;
        for (size_t i = 0; i < count && outcome == UNSAFE && now_ns() < end; i++) {
            if (attach_is_over(&j->in->failure))
                outcome = FAILED;
            else
                outcome = try_thread(j, list[i], true);
            if (outcome == DONE)
                outcome = try_thread(j, list[i], false);
        }
        free(list);
        if (outcome != UNSAFE)
            return outcome == DONE;
        if (count == 0) {
            proc_explain(j->in->pid, -ESRCH, &j->in->failure);
            return false;
        }
        nanosleep(&nap, NULL);
    }
    attach_fail(&j->in->failure, "the same again; or --cpu, which loads nothing",
                "process %d is never at a point where a library can be loaded: %s", (int)j->in->pid,
                j->why ? j->why : "it has no threads");
    return false;
}

/* After that ----------------------------------------------------------------------------------- */

/* Takes descriptor FD out of the process. */
static int take(pid_t pid, int fd)
{
    /* glibc 2.31 has no SYS_pidfd_getfd. */
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    int taken = pidfd >= 0 ? (int)syscall(__NR_pidfd_getfd, pidfd, fd, 0) : -1;
    int err = errno;
    if (pidfd >= 0)
        close(pidfd);
    return taken >= 0 ? taken : -err;
}

static int copy_library(const char *library, int memory)
{
    struct stat st;
    off_t at = 0;
    int fd = open(library, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int err = fstat(fd, &st) == 0 ? 0 : -errno;
    while (err == 0 && at < st.st_size) {
        if (sendfile(memory, fd, &at, (size_t)(st.st_size - at)) <= 0)
            err = errno ? -errno : -EIO;
    }
    close(fd);
    return err;
}

/* The new thread waits for this. */
static int send_library(struct job *j)
{
    char path[sizeof j->room.path];
    const uint64_t word = PIANO_ATTACH_VERSION;
    if (!j->addresses.entry) {
        int memory = take(j->in->pid, j->room.memory);
        int err = memory >= 0 ? copy_library(j->in->library, memory) : memory;
        if (memory >= 0)
            close(memory);
        snprintf(path, sizeof path, PIANO_ATTACH_PATH "%d", j->room.memory);
        if (err == 0 &&
            !remote_write(j->in->pid, j->room_at + offsetof(struct piano__attach_room, path), path,
                          sizeof path))
            err = -EFAULT;
        if (err != 0)
            return err;
    }
    return send(j->in->socket, &word, sizeof word, MSG_NOSIGNAL) == sizeof word ? 0 : -errno;
}

static void *work(void *of)
{
    struct job *j = of;
    struct injection *in = j->in;
    /* On a busy machine, a stopped thread waits for this one. Only root may raise its priority. */
    (void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), HIGHEST);
    if (!use_some_thread(j))
        return NULL;
    in->socket = take(in->pid, j->room.sockets[1]);
    int err = in->socket >= 0 ? send_library(j) : in->socket;
    if (err == 0)
        return j;
    attach_fail(&in->failure, err == -ENOSYS ? "Linux 5.6 or newer" : NULL,
                "the library cannot be passed to process %d: %s", (int)in->pid, strerror(-err));
    if (in->socket >= 0)
        close(in->socket);
    in->socket = -1;
    return NULL;
}

bool inject(struct injection *in)
{
    struct job j = {.in = in};
    pthread_t thread;
    void *result = NULL;
    in->socket = -1;
    int err = modules_read(&j.modules, in->pid);
    if (err != 0) {
        proc_explain(in->pid, err, &in->failure);
    } else if (proc_check_modules(in->pid, &j.modules, in->with_heap, &in->failure) &&
               find_addresses(&j.modules, in->pid, &j.addresses, &in->failure)) {
        j.safe = safe_new(in->pid, &j.modules);
        if (j.safe && pthread_create(&thread, NULL, work, &j) == 0)
            pthread_join(thread, &result);
        else
            attach_fail(&in->failure, NULL, "out of memory");
    }
    safe_free(j.safe);
    modules_release(&j.modules);
    return result != NULL;
}
