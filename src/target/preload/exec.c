/* The exec functions, interposed before the C library's. A signal for a sample that is pending at
 * an exec would end the new program (cpu/threads.c). All variants are hooked, since the C library's
 * own do not call each other through the hooks. */
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/execl.h"
#include "target/cpu/cpu.h"
#include "target/preload/next.h"

#define EXPORT __attribute__((visibility("default")))

/* Declared by glibc since 2.34. */
int execveat(int fd, const char *path, char *const argv[], char *const envp[], int flags);

static struct {
    __typeof__(execve) *execve;
    __typeof__(execv) *execv;
    __typeof__(execvp) *execvp;
    __typeof__(execvpe) *execvpe;
    __typeof__(execveat) *execveat;
    __typeof__(fexecve) *fexecve;
} next;

/* Before the program starts: a child of vfork or a signal handler must not look up functions. */
__attribute__((constructor(101))) static void find_all(void)
{
    if (next.fexecve)
        return;
    piano__next_find(&next.execve, "execve");
    piano__next_find(&next.execv, "execv");
    piano__next_find(&next.execvp, "execvp");
    piano__next_find(&next.execvpe, "execvpe");
    piano__next_find(&next.execveat, "execveat");
    piano__next_find(&next.fexecve, "fexecve");
}

static void begin(void)
{
    find_all();
    piano__cpu_pause();
}

/* exec returns only on failure. */
static int end(int result)
{
    piano__cpu_resume();
    return result;
}

EXPORT int execve(const char *path, char *const argv[], char *const envp[])
{
    begin();
    return end(next.execve(path, argv, envp));
}

EXPORT int execv(const char *path, char *const argv[])
{
    begin();
    return end(next.execv(path, argv));
}

EXPORT int execvp(const char *file, char *const argv[])
{
    begin();
    return end(next.execvp(file, argv));
}

EXPORT int execvpe(const char *file, char *const argv[], char *const envp[])
{
    begin();
    return end(next.execvpe(file, argv, envp));
}

EXPORT int execveat(int fd, const char *path, char *const argv[], char *const envp[], int flags)
{
    begin();
    if (!next.execveat)
        return end((int)syscall(SYS_execveat, fd, path, argv, envp, flags));
    return end(next.execveat(fd, path, argv, envp, flags));
}

EXPORT int fexecve(int fd, char *const argv[], char *const envp[])
{
    begin();
    return end(next.fexecve(fd, argv, envp));
}

/* ---- variants with a list of arguments ---- */

EXPORT PIANO_EXEC_LIST(execl, execv(path, argv));
EXPORT PIANO_EXEC_LIST(execlp, execvp(path, argv));
EXPORT PIANO_EXEC_LIST_ENV(execve(path, argv, envp));
