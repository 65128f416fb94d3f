/* The library that is preloaded into a build command.
 *
 * A build is a tree of processes (make, ninja, shells, Python, ccache), and the leaves are
 * compilers. Each process has this library loaded. When one is about to start a compiler, it starts
 * `$PIANO_TOOL cc-wrap COMPILER ARGS...` instead, which instruments and then runs the same
 * COMPILER. Replacing the exec, not a `CC=` variable or a PATH of fake compilers, also catches
 * compilers called by absolute path. It leaves everything that the build system knows about its
 * compiler (its name, its path, its answers to probes) unchanged.
 *
 * Rules for this code:
 *  - The caller may be a child of vfork, which shares its parent's memory: this code does not
 *    allocate from the heap, take a lock, or write to memory other than its stack or mapping.
 *  - The environment for the new program decides. Without PIANO_STATE and PIANO_TOOL in it the call
 *    is passed through unchanged; the wrapper runs the real compiler in this way.
 *  - A program that cannot have this library in front of its own starts without it: one with a
 *    sanitizer's runtime, which must be the first library, or one of another loader (exec_image.c).
 *  - In any doubt (no such file, name too long, not a compiler for this machine) the call is passed
 *    through unchanged. If the wrapper cannot be started, the original call is made.
 *
 * glibc's exec functions call each other internally, so each has to be interposed. The programs
 * that the compiler driver starts (cc1, collect2, as, ld) have names that are not in the table
 * below and are never touched. */
#include <alloca.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/execl.h"
#include "tool/build/exec_image.h"

#define EXPORT __attribute__((visibility("default")))

/* Maximum number of arguments for which argv is on the stack; others get a mapping. */
enum { STACK_ARGS = 2048 };

typedef int execve_fn(const char *, char *const[], char *const[]);
typedef int execvp_fn(const char *, char *const[]);
typedef int spawn_fn(pid_t *, const char *, const posix_spawn_file_actions_t *,
                     const posix_spawnattr_t *, char *const[], char *const[]);

extern char **environ;

/* The next definitions in symbol order. Written by `find_next` before main. */
static execve_fn *next_execve;
static execve_fn *next_execvpe;
static spawn_fn *next_spawn;
static spawn_fn *next_spawnp;

__attribute__((constructor)) static void find_next(void)
{
    next_execve = (execve_fn *)dlsym(RTLD_NEXT, "execve");
    next_execvpe = (execve_fn *)dlsym(RTLD_NEXT, "execvpe");
    next_spawn = (spawn_fn *)dlsym(RTLD_NEXT, "posix_spawn");
    next_spawnp = (spawn_fn *)dlsym(RTLD_NEXT, "posix_spawnp");
}

/* A library's constructor may call exec before our constructor has run. */
#define NEXT(cached, name) ((cached) ? (cached) : (__typeof__(cached))dlsym(RTLD_NEXT, name))

/* The rewritten exec. */
struct rewrite {
    const char *tool;
    char *const *args; /* the compiler's arguments, without its name */
    size_t arg_count;
    char compiler[PATH_MAX];
    char **argv; /* tool, "cc-wrap", compiler, args..., NULL */
    size_t mapped_bytes;
};

static const char *value_of(char *const envp[], const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; envp && envp[i]; i++) {
        if (strncmp(envp[i], name, len) == 0 && envp[i][len] == '=')
            return envp[i] + len + 1;
    }
    return NULL;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool equals(const char *s, size_t len, const char *word)
{
    return strlen(word) == len && memcmp(s, word, len) == 0;
}

static bool has_prefix(const char *s, size_t len, const char *arch)
{
    return len > strlen(arch) && memcmp(s, arch, strlen(arch)) == 0;
}

/* Is this a triplet of this machine, such as `x86_64-linux-gnu-`? The runtime cannot be loaded into
 * programs for other machines, unless PIANO_LIB names a runtime for them. */
static bool is_known_prefix(const char *s, size_t len, char *const envp[])
{
    const char *other = value_of(envp, "PIANO_LIB");
    bool has_other = other && *other;
    bool is_x86 = has_prefix(s, len, "x86_64-"), is_arm = has_prefix(s, len, "aarch64-");
#if defined(__x86_64__)
    bool is_known = is_x86 || (has_other && is_arm);
#elif defined(__aarch64__)
    bool is_known = is_arm || (has_other && is_x86);
#else
    bool is_known = has_other && (is_x86 || is_arm);
#endif
    return is_known && memmem(s, len, "linux-gnu", 9) && !memmem(s, len, "x32", 3);
}

static size_t without_version(const char *name)
{
    size_t len = strlen(name);
    size_t end = len;
    while (end > 0 && ((name[end - 1] >= '0' && name[end - 1] <= '9') || name[end - 1] == '.'))
        end--;
    return end < len && end > 0 && name[end - 1] == '-' ? end - 1 : len;
}

/* rustc, rustc-1.80, or what the user names for cargo. */
static bool is_rustc(const char *name, size_t len, char *const envp[])
{
    const char *own = value_of(envp, "RUSTC");
    return equals(name, len, "rustc") || (own && *own && strcmp(base_name(own), name) == 0);
}

static bool is_compiler(const char *path, char *const envp[])
{
    static const char *const known[] = {"cc", "c++", "gcc", "g++", "clang", "clang++"};
    const char *name = base_name(path);
    size_t len = without_version(name);
    if (is_rustc(name, len, envp)) /* rustup's rustc starts another one */
        return !value_of(envp, "PIANO_RUSTC");
    const char *stem = name;
    for (size_t i = 0; i < len; i++) {
        if (name[i] == '-')
            stem = name + i + 1;
    }
    if (stem != name && !is_known_prefix(name, (size_t)(stem - name), envp))
        return false;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (equals(stem, len - (size_t)(stem - name), known[i]))
            return true;
    }
    return false;
}

static bool is_ccache(const char *path)
{
    const char *name = base_name(path);
    return strcmp(name, "ccache") == 0 || strcmp(name, "sccache") == 0;
}

/* A child of vfork may not call snprintf. */
static void put_decimal(char *out, int value)
{
    char digits[12];
    size_t count = 0;
    do {
        digits[count++] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    while (count > 0)
        *out++ = digits[--count];
    *out = '\0';
}

/* Is PATH a link that ends at ccache (`/usr/lib/ccache/gcc`)? The kernel resolves it. */
static bool leads_to_ccache(const char *path)
{
    char link[32] = "/proc/self/fd/";
    char target[PATH_MAX];
    int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0)
        return false;
    put_decimal(link + strlen(link), fd);
    ssize_t len = readlink(link, target, sizeof target - 1);
    close(fd);
    if (len <= 0)
        return false;
    target[len] = '\0';
    return is_ccache(target);
}

/* The first executable NAME in PATH that is not a link to ccache. */
static bool find_in_path(const char *name, const char *path, char out[PATH_MAX])
{
    size_t name_len = strlen(name);
    for (const char *dir = path ? path : "/usr/local/bin:/usr/bin:/bin"; dir;) {
        const char *colon = strchr(dir, ':');
        size_t dir_len = colon ? (size_t)(colon - dir) : strlen(dir);
        if (dir_len > 0 && dir_len + name_len + 2 <= PATH_MAX) {
            memcpy(out, dir, dir_len);
            out[dir_len] = '/';
            memcpy(out + dir_len + 1, name, name_len + 1);
            if (access(out, X_OK) == 0 && !leads_to_ccache(out))
                return true;
        }
        dir = colon ? colon + 1 : NULL;
    }
    return false;
}

/* The real compiler for WORD, a path or a bare name. */
static bool find_compiler(const char *word, char *const envp[], char out[PATH_MAX])
{
    const char *path = value_of(envp, "PATH");
    if (!is_compiler(word, envp))
        return false;
    if (!strchr(word, '/'))
        return find_in_path(word, path, out);
    if (access(word, X_OK) != 0)
        return false;
    if (leads_to_ccache(word))
        return find_in_path(base_name(word), path, out);
    size_t len = strlen(word);
    if (len >= PATH_MAX)
        return false;
    memcpy(out, word, len + 1);
    return true;
}

/* Should the exec of FILE be rewritten? Fills all of R except `argv`. */
static bool plan(struct rewrite *r, const char *file, char *const argv[], char *const envp[])
{
    if (!file || !argv || !argv[0])
        return false;
    if (!is_compiler(file, envp) && !is_ccache(file))
        return false;
    r->tool = value_of(envp, "PIANO_TOOL");
    if (!r->tool || !*r->tool || !value_of(envp, "PIANO_STATE"))
        return false;
    r->args = argv + 1;
    if (is_ccache(file)) {
        /* `ccache gcc ...`; with an option first (`ccache -s`) it is not a compilation. */
        if (!argv[1] || !find_compiler(argv[1], envp, r->compiler))
            return false;
        r->args = argv + 2;
    } else if (!find_compiler(file, envp, r->compiler)) {
        return false;
    }
    /* clang starts itself */
    if (r->args[0] && strncmp(r->args[0], "-cc1", 4) == 0)
        return false;
    r->arg_count = 0;
    while (r->args[r->arg_count])
        r->arg_count++;
    return true;
}

static size_t argv_bytes(const struct rewrite *r)
{
    return (r->arg_count + 4) * sizeof(char *);
}

static void fill(struct rewrite *r, void *room)
{
    r->argv = room;
    /* exec takes `char *const[]` for historical reasons and never writes to the strings */
    memcpy(&r->argv[0], &r->tool, sizeof r->tool);
    static const char wrap[] = "cc-wrap";
    const char *word = wrap;
    memcpy(&r->argv[1], &word, sizeof word);
    r->argv[2] = r->compiler;
    memcpy(r->argv + 3, r->args, (r->arg_count + 1) * sizeof(char *));
}

static void *map_room(struct rewrite *r)
{
    r->mapped_bytes = argv_bytes(r);
    void *room =
        mmap(NULL, r->mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return room == MAP_FAILED ? NULL : room;
}

/* Memory for the new argv: on the stack of the caller of this macro, or a mapping; or NULL. */
#define ROOM(r) ((r)->arg_count <= STACK_ARGS ? alloca(argv_bytes(r)) : map_room(r))

static void give_back(struct rewrite *r)
{
    if (r->mapped_bytes > 0)
        munmap(r->argv, r->mapped_bytes);
}

/* --- starting without this library ------------------------------------------------------------ */

/* Limits for the copy of an environment, which is on the stack. */
enum { MAX_VARIABLES = 4096, MAX_PRELOAD = 8192 };

static const char PRELOAD[] = "LD_PRELOAD=";

/* Does ITEM, LEN bytes of LD_PRELOAD, name this library? */
static bool is_hook(const char *item, size_t len)
{
    static const char name[] = "libpiano_exec.so";
    const size_t want = sizeof name - 1;
    return len >= want && memcmp(item + len - want, name, want) == 0 &&
           (len == want || item[len - want - 1] == '/');
}

/* Copies the items of LIST but this library to OUT, separated by colons. Returns their length. */
static size_t without_hook(const char *list, char *out)
{
    char *at = out;
    while (*list) {
        size_t len = strcspn(list, ": ");
        if (len > 0 && !is_hook(list, len)) {
            if (at > out)
                *at++ = ':';
            memcpy(at, list, len);
            at += len;
        }
        list += len + (list[len] != '\0');
    }
    *at = '\0';
    return (size_t)(at - out);
}

struct plain_env {
    char *entries[MAX_VARIABLES + 1];
    char preload[sizeof PRELOAD + MAX_PRELOAD];
};

/* Fills E with ENVP without this library. Returns false if it is too large to copy. */
static bool fill_plain(struct plain_env *e, char *const envp[])
{
    size_t count = 0;
    const size_t key = sizeof PRELOAD - 1;
    for (size_t i = 0; envp[i]; i++) {
        char *entry = envp[i];
        if (count == MAX_VARIABLES)
            return false;
        if (strncmp(entry, PRELOAD, key) == 0) {
            if (strlen(entry + key) >= MAX_PRELOAD)
                return false;
            memcpy(e->preload, PRELOAD, key);
            if (without_hook(entry + key, e->preload + key) == 0)
                continue;
            entry = e->preload;
        }
        e->entries[count++] = entry;
    }
    e->entries[count] = NULL;
    return true;
}

/* Does ENVP load this library into FILE, which cannot have it? SEARCHES: a name without a slash is
 * searched in PATH. */
static bool must_be_plain(const char *file, char *const envp[], bool searches)
{
    const char *list = value_of(envp, "LD_PRELOAD");
    char path[PATH_MAX];
    if (!file || !list || !strstr(list, "libpiano_exec.so"))
        return false;
    if (searches && !strchr(file, '/')) {
        if (!find_in_path(file, value_of(environ, "PATH"), path))
            return false;
        file = path;
    }
    return !exec_image_takes_library(file);
}

/* The environment for FILE: ENVP, or a copy on the stack of the caller of this macro. */
#define ENV_FOR(file, envp, searches)                                                              \
    (must_be_plain(file, envp, searches) ? copy_plain(alloca(sizeof(struct plain_env)), envp)      \
                                         : (envp))

static char *const *copy_plain(struct plain_env *e, char *const envp[])
{
    return fill_plain(e, envp) ? e->entries : envp;
}

/* --- the interposed functions ----------------------------------------------------------------- */

/* Returns only if FILE is to be started unchanged. */
static void exec_wrapped(const char *file, char *const argv[], char *const envp[])
{
    struct rewrite r = {.mapped_bytes = 0};
    int saved = errno;
    void *room = plan(&r, file, argv, envp) ? ROOM(&r) : NULL;
    if (room) {
        fill(&r, room);
        NEXT(next_execve, "execve")(r.tool, r.argv, envp);
        give_back(&r);
    }
    errno = saved;
}

EXPORT int execve(const char *file, char *const argv[], char *const envp[])
{
    exec_wrapped(file, argv, envp);
    return NEXT(next_execve, "execve")(file, argv, ENV_FOR(file, envp, false));
}

EXPORT int execvpe(const char *file, char *const argv[], char *const envp[])
{
    exec_wrapped(file, argv, envp);
    return NEXT(next_execvpe, "execvpe")(file, argv, ENV_FOR(file, envp, true));
}

EXPORT int execv(const char *file, char *const argv[])
{
    return execve(file, argv, environ);
}

EXPORT int execvp(const char *file, char *const argv[])
{
    return execvpe(file, argv, environ);
}

EXPORT PIANO_EXEC_LIST(execl, execve(path, argv, environ));
EXPORT PIANO_EXEC_LIST(execlp, execvpe(path, argv, environ));
EXPORT PIANO_EXEC_LIST_ENV(execve(path, argv, envp));

/* Returns 0 when the wrapper was started instead of FILE. */
static int spawn_wrapped(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                         const posix_spawnattr_t *attr, char *const argv[], char *const envp[])
{
    struct rewrite r = {.mapped_bytes = 0};
    int err = ENOENT;
    void *room = plan(&r, file, argv, envp) ? ROOM(&r) : NULL;
    if (room) {
        fill(&r, room);
        err = NEXT(next_spawn, "posix_spawn")(pid, r.tool, actions, attr, r.argv, envp);
        give_back(&r);
    }
    return err;
}

EXPORT int posix_spawn(pid_t *restrict pid, const char *restrict file,
                       const posix_spawn_file_actions_t *restrict actions,
                       const posix_spawnattr_t *restrict attr, char *const argv[restrict],
                       char *const envp[restrict])
{
    if (spawn_wrapped(pid, file, actions, attr, argv, envp) == 0)
        return 0;
    return NEXT(next_spawn, "posix_spawn")(pid, file, actions, attr, argv,
                                           ENV_FOR(file, envp, false));
}

EXPORT int posix_spawnp(pid_t *restrict pid, const char *restrict file,
                        const posix_spawn_file_actions_t *restrict actions,
                        const posix_spawnattr_t *restrict attr, char *const argv[restrict],
                        char *const envp[restrict])
{
    if (spawn_wrapped(pid, file, actions, attr, argv, envp) == 0)
        return 0;
    return NEXT(next_spawnp, "posix_spawnp")(pid, file, actions, attr, argv,
                                             ENV_FOR(file, envp, true));
}
