/* symbol/rust.c demangles Rust names; libstdc++ demangles C++ names, under limits. A mangled name
 * may refer to parts of itself, and each reference may double the output, so a few hundred hostile
 * bytes can expand to more text than fits into memory. A child process demangles names with too
 * many references, and is killed after 200 ms. Real names, even of long template code, need far
 * less. */
#include "tool/symbol/demangle.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tool/symbol/rust.h"

enum {
    NAME_MAX_BYTES = 16 * 1024, /* longest name shown; longer ones are cut */
    TRUSTED_REFERENCES = 40,
    CHILD_US = 200 * 1000,
};

/* From the C++ runtime, which has no C header for it. */
char *__cxa_demangle(const char *name, char *buffer, size_t *len, int *status);

bool demangle_likely(const char *name)
{
    return name[0] == '_' && (name[1] == 'Z' || name[1] == 'R');
}

/* Upper bound for the number of references in NAME to parts of itself: "S_", "S1A_", "T_",
 * "T0_". */
static size_t references(const char *name)
{
    size_t count = 0;
    for (const char *at = name; *at; at++)
        if (*at == 'S' || *at == 'T') {
            size_t digits = strspn(at + 1, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ");
            count += at[1 + digits] == '_';
        }
    return count;
}

static void child(const char *name, int out)
{
    const struct itimerval soon = {.it_value = {.tv_usec = CHILD_US}};
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    signal(SIGALRM, SIG_DFL);
    sigprocmask(SIG_UNBLOCK, &alarm, NULL);
    setitimer(ITIMER_REAL, &soon, NULL);
    char *text = __cxa_demangle(name, NULL, NULL, NULL);
    size_t len = text ? strnlen(text, NAME_MAX_BYTES) : 0;
    ssize_t done = 1;
    for (size_t at = 0; at < len && done > 0; at += (size_t)done)
        done = write(out, text + at, len - at);
    _exit(0);
}

/* Demangles NAME in a child process. Malloc'd; NULL on failure. */
static char *in_child(const char *name)
{
    int ends[2];
    char *text = malloc(NAME_MAX_BYTES + 1);
    if (!text || pipe2(ends, O_CLOEXEC) != 0) {
        free(text);
        return NULL;
    }
    pid_t pid = fork();
    if (pid == 0)
        child(name, ends[1]);
    close(ends[1]);
    size_t len = 0;
    while (pid > 0 && len < NAME_MAX_BYTES) {
        ssize_t got = read(ends[0], text + len, NAME_MAX_BYTES - len);
        if (got <= 0 && !(got < 0 && errno == EINTR))
            break;
        len += got > 0 ? (size_t)got : 0;
    }
    close(ends[0]);
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    text[len] = '\0';
    if (len == 0) {
        free(text);
        text = NULL;
    }
    return text;
}

const char *demangle(struct strings *strings, const char *name)
{
    char *text = NULL;
    if (demangle_likely(name) && strnlen(name, NAME_MAX_BYTES) < NAME_MAX_BYTES) {
        text = rust_demangle(name);
        if (!text)
            text = references(name) > TRUSTED_REFERENCES ? in_child(name)
                                                         : __cxa_demangle(name, NULL, NULL, NULL);
    }
    const char *kept = strings_put(strings, text ? text : name, NAME_MAX_BYTES);
    free(text);
    return kept;
}
