/* Runs one of the programs that a build made; choice.c chooses it.
 *
 * `piano run a b`: if `a` names a program of the build, it is run with `b`, else the chosen program
 * is run with both. But if `a` is the path of another program, the user probably meant to run that
 * one, and this is an error. The program keeps the user's working directory and descriptors. The
 * run file is found by the process id in its name, or is the newest one since the start, for
 * programs that hand over to another process. */
#include "tool/build/program.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tool/util/child.h"
#include "tool/build/choice.h"
#include "tool/util/unstarted.h"
#include "tool/util/buf.h"
#include "tool/util/owner.h"
#include "tool/util/paths.h"
#include "tool/util/preload.h"
#include "tool/util/say.h"

enum { MAX_OTHERS_SHOWN = 5 };

/* Is WORD the end of PATH, by whole components? The user may give the path of the program in the
 * user's own build. */
static bool has_tail(const char *path, const char *word)
{
    while (strncmp(word, "./", 2) == 0)
        word += 2;
    size_t len = strlen(path);
    size_t tail = strlen(word);
    return tail > 0 && len > tail && path[len - tail - 1] == '/' &&
           strcmp(path + len - tail, word) == 0;
}

/* The program that WORD names, by path or by last component; NULL when there is none. */
static const char *find_named(const struct choice_list *l, const char *word)
{
    for (size_t i = 0; i < l->count; i++) {
        if (strcmp(l->items[i].path, word) == 0)
            return l->items[i].path;
    }
    for (size_t i = 0; i < l->count; i++) {
        if (has_tail(l->items[i].path, word))
            return l->items[i].path;
    }
    /* A path in the user's own tree names the program at the same place in the mirror. Any other
     * existing file is an argument: `-- data/game`. */
    if (!strchr(word, '/'))
        return NULL;
    char *real = realpath(word, NULL);
    char *root = paths_program_root();
    const char *found = NULL;
    size_t root_len = root ? strlen(root) : 0;
    if (real && root && strncmp(real, root, root_len) == 0 && real[root_len] == '/') {
        for (size_t i = 0; i < l->count && !found; i++) {
            if (has_tail(l->items[i].path, real + root_len + 1))
                found = l->items[i].path;
        }
    }
    free(real);
    free(root);
    return found;
}

/* Adds the directory of the shared library OUTPUT to the value of LD_LIBRARY_PATH in B. */
static void add_search_path(struct buf *b, const char *output, size_t len)
{
    char *dir = strndup(output, len);
    char *path = dir ? preload_search_path(dir) : NULL;
    if (path) {
        buf_puts(b, b->len ? ":" : "LD_LIBRARY_PATH=");
        buf_puts(b, path);
    }
    free(path);
    free(dir);
}

/* LD_LIBRARY_PATH with the directories of the shared libraries that PROGRAM names: the instrumented
 * libraries of the project must precede those that the user has built. NULL when it needs none. */
static char *library_path(const struct records *r, const char *program)
{
    struct buf b = {0};
    for (size_t i = 0; i < r->link_count; i++) {
        const char *output = r->links[i].output;
        const char *name = paths_base(output);
        if (!r->links[i].shared || name == output || !choice_uses_library(program, output))
            continue;
        add_search_path(&b, output, (size_t)(name - output) - 1);
    }
    const char *old = getenv("LD_LIBRARY_PATH");
    if (b.len > 0 && old && *old)
        buf_printf(&b, ":%s", old);
    if (!b.failed)
        return b.data;
    buf_free(&b);
    return NULL;
}

/* The time and process id in the name of a run file; false when it is not a run file. */
static bool parse_run_name(const char *name, long long *ms, long *pid)
{
    int end = 0;
    if (sscanf(name, "%lld-%ld%n", ms, pid, &end) != 2)
        return false;
    const char *dot = strrchr(name, '.');
    return dot && (strcmp(dot, ".ndjson") == 0 || strcmp(dot, ".json") == 0);
}

static char *find_run(const char *runs, long long since_ms, pid_t child)
{
    DIR *dir = opendir(runs);
    const struct dirent *e;
    char best[NAME_MAX + 1] = "";
    long long best_ms = 0;
    bool best_is_child = false;
    while (dir && (e = readdir(dir))) {
        long long ms;
        long pid;
        if (!parse_run_name(e->d_name, &ms, &pid) || ms < since_ms)
            continue;
        bool is_child = pid == (long)child;
        if (best[0] && (best_is_child != is_child ? best_is_child : ms <= best_ms))
            continue;
        snprintf(best, sizeof best, "%s", e->d_name);
        best_ms = ms;
        best_is_child = is_child;
    }
    if (dir)
        closedir(dir);
    return best[0] ? paths_join(runs, best) : NULL;
}

static long long now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (long long)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* The program's argv: PATH and then ARGS. */
static char **make_argv(const char *path, char *const *args)
{
    size_t count = 0;
    while (args[count])
        count++;
    char **argv = calloc(count + 2, sizeof *argv);
    if (!argv)
        return NULL;
    memcpy(&argv[0], &path, sizeof path); /* posix_spawn does not write to it */
    memcpy(argv + 1, args, count * sizeof *argv);
    return argv;
}

static int launch(struct program_run *p, const struct records *r, const char *path,
                  char *const *args, struct child_result *result)
{
    char *runs = paths_runs_dir();
    char *setting = NULL;
    int err = runs && asprintf(&setting, "PIANO_RUNS_DIR=%s", runs) > 0 ? 0 : -ENOMEM;
    char *library = library_path(r, path);
    static char every_call[] = "PIANO_TIMING=all";
    char *set[] = {setting, NULL, NULL, NULL};
    size_t count = 1;
    if (p->every_call)
        set[count++] = every_call;
    set[count] = library;
    char **env = err == 0 ? child_env(set) : NULL;
    char **argv = make_argv(path, args);
    if (!env || !argv)
        err = -ENOMEM;
    if (err == 0) {
        long long start = now_ms();
        struct child_plan plan = {.argv = argv, .envp = env, .in = -1, .err = -1};
        plan.out = p->out_to_err ? STDERR_FILENO : -1;
        plan.duration_s = p->duration_s;
        plan.kill_s = p->kill_s;
        err = child_run(&plan, result);
        if (err == 0)
            p->run = find_run(runs, start, result->pid);
        if (err == 0 && !p->run && result->status == UNSTARTED_STATUS)
            p->unstarted = unstarted_say(paths_base(path), path, env);
    }
    free(runs);
    free(setting);
    free(library);
    free(env);
    free(argv);
    return err;
}

/* Is WORD the path of a program that piano did not build? */
static bool is_foreign_program(const char *word)
{
    struct stat st;
    return strchr(word, '/') && stat(word, &st) == 0 && S_ISREG(st.st_mode) &&
           access(word, X_OK) == 0;
}

/* The names of all programs except the one that runs: "lua, luac". */
static void put_others(struct buf *b, const struct choice_list *l, const char *running)
{
    size_t shown = 0;
    char safe[NAME_MAX * 4 + 1];
    for (size_t i = 0; i < l->count; i++) {
        if (l->items[i].path == running)
            continue;
        if (shown++ == MAX_OTHERS_SHOWN) {
            buf_puts(b, ", ...");
            return;
        }
        buf_printf(b, "%s%s", shown > 1 ? ", " : "",
                   say_safe(safe, sizeof safe, paths_base(l->items[i].path)));
    }
}

static void say_choice(const struct choice_list *l)
{
    char running[NAME_MAX * 4 + 1];
    char other[NAME_MAX * 4 + 1];
    struct buf others = {0};
    put_others(&others, l, l->items[0].path);
    if (!others.failed)
        say("running %s (also built: %s; piano run %s ...)",
            say_safe(running, sizeof running, paths_base(l->items[0].path)), others.data,
            say_safe(other, sizeof other, paths_base(l->items[1].path)));
    buf_free(&others);
}

/* Says that the user chose the program before, and how to choose another one. */
static void say_remembered(const struct choice_list *l, const char *command)
{
    char running[PATH_MAX];
    char other[PATH_MAX];
    say("running %s, which you chose before (to choose again: piano %s%s -- %s)",
        choice_name(running, sizeof running, l, l->items[0].path), command,
        strcmp(command, "run") == 0 ? "" : " ...",
        choice_name(other, sizeof other, l, l->items[1].path));
}

/* The state of a build is unknown if its directory cannot be read. */
static void say_no_program(void)
{
    char room[PATH_MAX + 128];
    char safe[PATH_MAX];
    char *root = paths_program_root();
    char *state = root ? paths_join(root, ".piano") : NULL;
    bool is_denied = state && access(state, R_OK | X_OK) != 0 && errno == EACCES;
    if (is_denied)
        say_error(owner_hint(room, sizeof room, state, -EACCES, NULL), "%s: %s",
                  say_safe(safe, sizeof safe, state), strerror(EACCES));
    else
        say_error("piano build --fn NAME", "there is no instrumented program to run");
    free(state);
    free(root);
}

static void say_foreign(const struct choice_list *l, const char *word)
{
    char safe[PATH_MAX];
    struct buf hint = {0};
    say_safe(safe, sizeof safe, word);
    buf_printf(&hint,
               "piano run %s ...   (or %s %s ... to pass it as an argument; or piano record %s)",
               paths_base(l->items[0].path), paths_base(l->items[0].path), safe, safe);
    say_error(hint.data, "%s is not a program that piano built", safe);
    buf_free(&hint);
}

/* The program to run. Sets *NAMED when the first word names it. Prints the error and returns NULL
 * when there is none. */
static const char *choose(const struct program_run *p, const struct records *r,
                          const struct choice_list *l, const char *state, bool *named)
{
    const char *command = p->command ? p->command : "run";
    const char *word = p->words[0];
    const char *path = word ? find_named(l, word) : NULL;
    *named = path;
    if (path) {
        choice_remember(l, state, path);
        return path;
    }
    if (l->count == 0) {
        if (r->unit_count > 0)
            say_error(PROGRAM_NONE_HINT, PROGRAM_NONE);
        else
            say_no_program();
        return NULL;
    }
    if (word && is_foreign_program(word)) {
        say_foreign(l, word);
        return NULL;
    }
    if (l->meant > 1) {
        path = choice_ask(l, command);
        if (path)
            choice_remember(l, state, path);
        return path;
    }
    if (l->is_remembered)
        say_remembered(l, command);
    else if (l->count > 1)
        say_choice(l);
    return l->items[0].path;
}

static int run_one(struct program_run *p, const struct records *r, const char *state, bool *started)
{
    struct choice_list programs;
    choice_load(&programs, r, state);
    bool named = false;
    const char *path = choose(p, r, &programs, state, &named);
    struct child_result result = {0};
    int err = 0;
    if (path) {
        err = launch(p, r, path, p->words + (named ? 1 : 0), &result);
        if (err != 0)
            (void)unstarted_say_exec(path, err);
    }
    *started = path && err == 0;
    choice_release(&programs);
    p->interrupted = result.interrupted;
    p->status = !*started            ? EXIT_FAILED
                : result.interrupted ? 130
                : result.timed_out   ? 0
                                     : result.status;
    return p->status;
}

/* The program may find libpiano.so through a link that was removed after it was built: create it
 * again. */
static void renew_run_path(void)
{
    char *lib = paths_lib_dir();
    char *path = lib ? preload_run_path(lib) : NULL;
    free(path);
    free(lib);
}

int program_run(struct program_run *p, bool *started)
{
    struct records records = {0};
    char *root = paths_program_root();
    char *state = root ? paths_join(root, ".piano/build") : NULL;
    *started = false;
    p->run = NULL;
    p->status = EXIT_FAILED;
    if (!root)
        return paths_say_failure();
    paths_say_project(root);
    int err = state ? records_load(&records, state) : -ENOMEM;
    if (err == 0) {
        renew_run_path();
        run_one(p, &records, state, started);
    } else {
        say_error(NULL, "cannot read %s: %s", state ? state : ".piano/build", strerror(-err));
    }
    records_release(&records);
    free(root);
    free(state);
    return p->status;
}

void program_run_release(struct program_run *p)
{
    free(p->run);
    p->run = NULL;
}

/* Why no file can be created in DIR, which itself is created when needed; 0 when one can. */
static int writing_error(const char *dir)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s", dir);
    while (access(path, W_OK | X_OK) != 0) {
        char *slash = strrchr(path, '/');
        if (errno != ENOENT)
            return -errno;
        if (!slash || slash == path)
            return 0;
        *slash = '\0';
    }
    return 0;
}

int program_no_run(void)
{
    char safe[PATH_MAX];
    char *runs = paths_runs_dir();
    int err = runs ? writing_error(runs) : -ENOMEM;
    say_safe(safe, sizeof safe, runs ? runs : "the runs directory");
    free(runs);
    if (err != 0)
        return say_error("PIANO_RUNS_DIR=DIR, a directory that can be written",
                         "the program left no run: cannot write to %s: %s", safe, strerror(-err));
    return say_error("choose functions that are called: piano build --list-skipped",
                     "the program left no run in %s: none of the instrumented functions was called",
                     safe);
}
