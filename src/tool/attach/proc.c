/* Reads /proc and refuses what cannot work, before the process is touched. */
#include "tool/attach/proc.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool/util/say.h"
#include "tool/util/vec.h"

void attach_fail(struct attach_failure *f, const char *hint, const char *fmt, ...)
{
    va_list words;
    va_start(words, fmt);
    vsnprintf(f->why, sizeof f->why, fmt, words);
    va_end(words);
    snprintf(f->hint, sizeof f->hint, "%s", hint ? hint : "");
}

bool attach_is_over(struct attach_failure *f)
{
    sigset_t pending;
    if (sigpending(&pending) != 0 ||
        (!sigismember(&pending, SIGINT) && !sigismember(&pending, SIGTERM) &&
         !sigismember(&pending, SIGHUP) && !sigismember(&pending, SIGQUIT)))
        return false;
    attach_fail(f, NULL, "interrupted before the recording began");
    return true;
}

bool proc_status(pid_t pid, const char *name, char *text, size_t size)
{
    char line[512];
    size_t len = strlen(name);
    bool found = false;
    snprintf(line, sizeof line, "/proc/%d/status", (int)pid);
    FILE *f = fopen(line, "re");
    while (f && !found && fgets(line, sizeof line, f)) {
        found = strncmp(line, name, len) == 0 && line[len] == ':';
        if (found)
            snprintf(text, size, "%s", line + len + 1 + strspn(line + len + 1, " \t"));
    }
    if (f)
        fclose(f);
    text[strcspn(text, "\n")] = '\0';
    return found;
}

long proc_number(pid_t pid, const char *name, long otherwise)
{
    char text[64] = "";
    return proc_status(pid, name, text, sizeof text) ? strtol(text, NULL, 10) : otherwise;
}

static bool is_asleep(pid_t pid, pid_t tid)
{
    char line[512] = "";
    snprintf(line, sizeof line, "/proc/%d/task/%d/stat", (int)pid, (int)tid);
    FILE *f = fopen(line, "re");
    const char *behind = f && fgets(line, sizeof line, f) ? strrchr(line, ')') : NULL;
    if (f)
        fclose(f);
    return behind && behind[1] == ' ' && behind[2] == 'S';
}

pid_t *proc_threads(pid_t pid, size_t *count)
{
    char path[64];
    pid_t *list = NULL;
    size_t asleep = 0;
    const struct dirent *e;
    *count = 0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *dir = opendir(path);
    while (dir && (e = readdir(dir))) {
        pid_t tid = (pid_t)strtol(e->d_name, NULL, 10);
        if (tid <= 0)
            continue;
        if (VEC_DOUBLE(list, *count) != 0)
            break;
        list[(*count)++] = tid;
        if (is_asleep(pid, tid)) {
            list[*count - 1] = list[asleep];
            list[asleep++] = tid;
        }
    }
    if (dir)
        closedir(dir);
    return list;
}

/* The name of a process, for messages. */
static const char *name_of(pid_t pid, char *safe, size_t size)
{
    char name[64] = "";
    proc_status(pid, "Name", name, sizeof name);
    return say_safe(safe, size, name);
}

static int64_t number_in(const char *path, int64_t otherwise)
{
    long long value = otherwise;
    FILE *f = fopen(path, "re");
    if (f && fscanf(f, "%lld", &value) != 1)
        value = otherwise;
    if (f)
        fclose(f);
    return value;
}

void proc_explain(pid_t pid, int err, struct attach_failure *f)
{
    int64_t scope = number_in("/proc/sys/kernel/yama/ptrace_scope", 0);
    long uid = proc_number(pid, "Uid", -1);
    long tracer = proc_number(pid, "TracerPid", 0);
    char name[256];
    if (err == -ESRCH) {
        attach_fail(f, NULL, "process %d ended", (int)pid);
    } else if (err != -EPERM && err != -EACCES) {
        attach_fail(f, NULL, "process %d cannot be stopped: %s", (int)pid, strerror(-err));
    } else if (tracer > 0) {
        attach_fail(f, "end that first", "process %d is traced already, by %s (process %ld)",
                    (int)pid, name_of((pid_t)tracer, name, sizeof name), tracer);
    } else if (uid >= 0 && geteuid() != 0 && uid != (long)geteuid()) {
        attach_fail(f, "the same as root, or as the user whose process it is",
                    "process %d belongs to another user", (int)pid);
    } else if (scope >= 3) {
        attach_fail(f, "a start with `piano record PROGRAM`, or a reboot without this setting",
                    "kernel.yama.ptrace_scope is %lld: no process may be attached to",
                    (long long)scope);
    } else if (scope > 0 && geteuid() != 0) {
        attach_fail(f,
                    scope == 1 ? "the same as root, or: sudo sysctl kernel.yama.ptrace_scope=0"
                               : "the same as root",
                    "kernel.yama.ptrace_scope is %lld: only root may attach to process %d",
                    (long long)scope, (int)pid);
    } else {
        attach_fail(f, "the same as root; in a container: --cap-add SYS_PTRACE",
                    "process %d may not be attached to: it has more rights than piano, or has "
                    "forbidden it (prctl PR_SET_DUMPABLE)",
                    (int)pid);
    }
}

static bool check_state(pid_t pid, struct attach_failure *f)
{
    char state[64] = "";
    char name[256];
    proc_status(pid, "State", state, sizeof state);
    long tracer = proc_number(pid, "TracerPid", 0);
    long group = proc_number(pid, "Tgid", pid);
    if (*state == 'Z' || *state == 'X')
        attach_fail(f, NULL, "process %d has ended, and its parent has not asked how (a zombie)",
                    (int)pid);
    else if (tracer > 0)
        attach_fail(f, "end that first", "process %d is traced already, by %s (process %ld)",
                    (int)pid, name_of((pid_t)tracer, name, sizeof name), tracer);
    else if (*state == 'T' || *state == 't')
        attach_fail(f, "kill -CONT, then the same again", "process %d is stopped", (int)pid);
    else if (group != pid)
        attach_fail(f, "--pid with the number of the process", "%d is a thread of process %ld",
                    (int)pid, group);
    else
        return true;
    return false;
}

bool proc_check(pid_t pid, struct attach_failure *f)
{
    char path[64];
    char exe[PATH_MAX];
    unsigned char ident[EI_NIDENT] = {0};
    snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
    if (kill(pid, 0) != 0 && errno == ESRCH) {
        attach_fail(f, "ps -e", "there is no process %d", (int)pid);
        return false;
    }
    if (!check_state(pid, f))
        return false;
    if (readlink(path, exe, sizeof exe) < 0) {
        if (errno == ENOENT)
            attach_fail(f, NULL, "process %d is a thread of the kernel", (int)pid);
        else
            proc_explain(pid, -EPERM, f);
        return false;
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t got = fd >= 0 ? pread(fd, ident, sizeof ident, 0) : -1;
    if (fd >= 0)
        close(fd);
    if (got == (ssize_t)sizeof ident && ident[EI_CLASS] == ELFCLASS32) {
        attach_fail(f, NULL, "process %d is a 32-bit program, and libpiano.so is not", (int)pid);
        return false;
    }
    return true;
}

bool proc_check_modules(pid_t pid, struct modules *m, bool with_heap, struct attach_failure *f)
{
    struct module *program = NULL;
    for (size_t i = 0; i < m->count && !program; i++)
        program = m->list[i].is_program ? &m->list[i] : NULL;
    bool is_hidden = with_heap && program && module_find(program, pid, "malloc");
    struct module *libc = modules_named(m, "libc");
    if (modules_named(m, "ld-musl-x86_64") || modules_named(m, "ld-musl-aarch64") ||
        (libc && strstr(libc->path, "musl")))
        attach_fail(f, ATTACH_WITHOUT_LIBRARY,
                    "process %d uses musl, and libpiano.so glibc: the one cannot be loaded into "
                    "the other",
                    (int)pid);
    else if (!libc || !module_find(libc, pid, "gnu_get_libc_version"))
        attach_fail(f, ATTACH_WITHOUT_LIBRARY,
                    "process %d is statically linked, or has another C library than glibc: "
                    "nothing can be loaded into it",
                    (int)pid);
    else if (is_hidden)
        attach_fail(f, ATTACH_WITHOUT_HEAP,
                    "process %d has a malloc of its own in its executable, which cannot be "
                    "redirected while it runs",
                    (int)pid);
    else
        return true;
    f->is_heap = is_hidden;
    return false;
}
