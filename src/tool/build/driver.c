/* Running the user's build under piano.
 *
 * `driver_build` is the whole of it: places, lock, how to build (detect.c), what of the last build
 * to throw away (refresh.c), the copy to build in (mirror.c), then the build's own steps. The steps
 * that compile have libpiano_exec.so preloaded (exec_hook.c), which puts `piano cc-wrap` before
 * every compiler; those that only configure do not, since their test programs are not the user's.
 *
 * Everything written lies under ROOT/.piano, and every build runs on the mirror, those of CMake and
 * Meson too: they build out of tree, but many a CMakeLists.txt writes to its source directory all
 * the same (zlib's renames a header there). The build's output goes to .piano/build/log and is shown when it fails, with the mirror's paths
 * turned back into the user's own.
 *
 * Called once per process, by cmd_build.c and cmd_profile.c. */
#include "tool/build/driver.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tool/build/build_log.h"
#include "tool/build/child.h"
#include "tool/build/mirror.h"
#include "tool/build/refresh.h"
#include "tool/util/buf.h"
#include "tool/util/paths.h"
#include "tool/util/say.h"

enum { EXIT_INTERRUPTED = 130, MAX_WORDS = 12 };

static int out_of_memory(void)
{
    return say_error(NULL, "out of memory");
}

static double wall_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int processors(void)
{
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return count > 0 ? count : 1;
}

/* --- places ---------------------------------------------------------------------------------- */

static int write_gitignore(const char *dir)
{
    char *path = paths_join(dir, ".gitignore");
    struct buf text = {0};
    buf_puts(&text, "*\n");
    int err = path ? 0 : -ENOMEM;
    if (path && access(path, F_OK) != 0)
        err = buf_write_file(&text, path);
    buf_free(&text);
    free(path);
    return err;
}

static int make_places(struct driver *d)
{
    struct selection *s = &d->selection;
    d->root = paths_project_root();
    d->cwd = getcwd(NULL, 0);
    char *piano = d->root ? paths_join(d->root, ".piano") : NULL;
    d->state = piano ? paths_join(piano, "build") : NULL;
    d->log = d->state ? paths_join(d->state, "log") : NULL;
    s->root = d->root ? strdup(d->root) : NULL;
    s->runs = piano ? paths_join(piano, "runs") : NULL;
    s->lib = paths_lib_dir();
    if (!d->cwd || !d->log || !s->root || !s->runs) {
        free(piano);
        return out_of_memory();
    }
    int err = paths_make_dirs(d->state);
    if (err == 0)
        err = write_gitignore(piano);
    free(piano);
    if (err != 0)
        return say_error("a directory you can write to, or a copy of the project",
                         "cannot write %s: %s", d->state, strerror(-err));
    if (!s->lib)
        return say_error("`make` in piano's own directory, or install it again",
                         "the runtime libpiano.so is not beside the tool");
    return 0;
}

/* One build at a time in a project. The lock goes with the process. */
static int take_lock(const struct driver *d)
{
    char *path = paths_join(d->state, "lock");
    int fd = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    free(path);
    if (fd < 0)
        return say_error(NULL, "cannot open the lock in %s: %s", d->state, strerror(errno));
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        return 0;
    say("waiting for another `piano build` in %s", d->root);
    while (flock(fd, LOCK_EX) != 0) {
        if (errno != EINTR)
            return say_error(NULL, "cannot lock %s: %s", d->state, strerror(errno));
    }
    return 0;
}

/* --- how to build ---------------------------------------------------------------------------- */

static int say_nothing_found(const struct driver *d)
{
    if (detect_is_build_dir(d->cwd))
        return say_error("cd to the directory with CMakeLists.txt or meson.build and type "
                         "`piano build` there",
                         "%s is a build directory; piano makes its own beside it", d->cwd);
    if (detect_wants_autoreconf(d->cwd))
        return say_error("autoreconf -i, then `piano build` again",
                         "%s has configure.ac but no configure script", d->cwd);
    return say_error("cd to the project, or name the command: piano build -- cc -O2 main.c -o main",
                     "found no build in %s (looked for %s)", d->cwd, detect_names());
}

/* `-- cmake --build build`: that directory's objects are the user's and are not copied. */
static int refuse_build_dirs(const struct driver *d)
{
    if (detect_is_build_dir(d->cwd))
        return say_nothing_found(d);
    for (size_t i = 0; d->command[i]; i++) {
        const char *word = d->command[i];
        bool takes_dir = strcmp(word, "--build") == 0 || strcmp(word, "-C") == 0;
        const char *dir = takes_dir ? d->command[i + 1] : NULL;
        if (strncmp(word, "-C", 2) == 0 && word[2])
            dir = word + 2;
        if (dir && detect_is_build_dir(dir))
            return say_error("piano build   (without a command: it makes a build directory of its "
                             "own under .piano)",
                             "%s is your own build directory, which piano does not touch", dir);
    }
    return 0;
}

static int find_build(struct driver *d)
{
    if (d->command) {
        d->detect.kind = DETECT_COMMAND;
        d->detect.dir = strdup(d->cwd);
        return d->detect.dir ? refuse_build_dirs(d) : out_of_memory();
    }
    const char *missing = NULL;
    int err = detect_build(&d->detect, d->root, d->cwd, &missing);
    if (err == -ENOENT)
        return say_nothing_found(d);
    if (err == -ENOPKG)
        return say_error("install it, or name another command after `--`",
                         "%s is built with %s, which is not installed", d->detect.dir, missing);
    return err == 0 ? 0 : out_of_memory();
}

/* --- what of the last build holds ------------------------------------------------------------ */

static void put_file_identity(struct buf *b, const char *path)
{
    struct stat st;
    if (stat(path, &st) == 0)
        buf_printf(b, "%s %lld %lld.%09ld\n", path, (long long)st.st_size,
                   (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
}

static void put_fingerprint(struct buf *b, const struct driver *d)
{
    static const char *const variables[] = {"CC",       "CXX",     "CFLAGS",
                                            "CXXFLAGS", "LDFLAGS", "CPPFLAGS"};
    char *tool = paths_tool();
    char *lib = paths_join(d->selection.lib, "libpiano.so");
    buf_puts(b, "state 1\n");
    if (tool)
        put_file_identity(b, tool);
    if (lib)
        put_file_identity(b, lib);
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        const char *value = getenv(variables[i]);
        if (value)
            buf_printf(b, "%s=%s\n", variables[i], value);
    }
    /* CMake and Meson keep a directory each, bound to one source directory. */
    if (d->detect.kind == DETECT_CMAKE || d->detect.kind == DETECT_MESON)
        buf_printf(b, "%d %s\n", (int)d->detect.kind, d->detect.dir);
    free(tool);
    free(lib);
}

static int drop_outdated(struct driver *d)
{
    struct buf fingerprint = {0};
    put_fingerprint(&fingerprint, d);
    int err = fingerprint.failed ? -ENOMEM : refresh_fingerprint(d->state, fingerprint.data);
    buf_free(&fingerprint);
    if (err == 0)
        err = refresh_selection(d->state, &d->selection);
    if (err != 0)
        return say_error(NULL, "cannot clear the last build in %s: %s", d->state, strerror(-err));
    return 0;
}

/* --- the mirror ------------------------------------------------------------------------------ */

static int sync_once(const struct driver *d, struct mirror_result *result)
{
    char *manifest = paths_join(d->state, "tree.manifest");
    struct mirror m = {d->root, d->selection.mirror, manifest};
    int err = manifest ? mirror_sync(&m, result) : -ENOMEM;
    free(manifest);
    return err;
}

static int update_mirror(struct driver *d)
{
    struct mirror_result result;
    int err = sync_once(d, &result);
    if (err == -EISDIR || err == -ENOTDIR || err == -EEXIST) {
        /* A directory became a file or the other way round, with the build's files in it. */
        free(result.failed);
        err = refresh_all(d->state);
        if (err == 0)
            err = sync_once(d, &result);
    }
    if (err == -EFBIG)
        say_error("a directory of the project's own; the nearest one at or above the working "
                  "directory with a build file, .git or .piano counts as the project",
                  "%s is too large to be copied into .piano", d->root);
    else if (err != 0)
        say_error(NULL, "cannot copy %s/%s into %s: %s", d->root,
                  result.failed ? result.failed : "", d->selection.mirror, strerror(-err));
    if (err == 0 && result.unreadable > 0)
        say("%zu files could not be read and are missing from the build", result.unreadable);
    free(result.failed);
    return err == 0 ? 0 : EXIT_FAILED;
}

static char *in_mirror(const struct driver *d, const char *path)
{
    struct mirror m = {d->root, d->selection.mirror, NULL};
    return mirror_map(&m, path);
}

/* --- steps ----------------------------------------------------------------------------------- */

struct step {
    char *const *argv;
    const char *dir;
    bool compiles;
};

/* The strings put into a build's environment; ended by NULL. */
struct settings {
    char *set[8];
};

static int fill_settings(struct settings *s, const struct driver *d, bool compiles)
{
    const char *preload = getenv("LD_PRELOAD");
    char *tool = paths_tool();
    char *runs = paths_join(d->state, "runs");
    *s = (struct settings){0};
    int bad = tool && runs ? 0 : -1;
    /* Programs that the build itself runs leave their runs here, not among the user's. */
    bad |= asprintf(&s->set[0], "PIANO_RUNS_DIR=%s", runs);
    bad |= asprintf(&s->set[1], "CCACHE_DISABLE=1");
    bad |= asprintf(&s->set[2], compiles ? "PIANO_STATE=%s" : "PIANO_STATE", d->state);
    bad |= asprintf(&s->set[3], compiles ? "PIANO_TOOL=%s" : "PIANO_TOOL", tool);
    if (compiles)
        bad |= asprintf(&s->set[4], "LD_PRELOAD=%s/libpiano_exec.so%s%s", d->selection.lib,
                        preload && *preload ? ":" : "", preload ? preload : "");
    free(tool);
    free(runs);
    return bad < 0 ? -ENOMEM : 0;
}

static void settings_release(struct settings *s)
{
    for (size_t i = 0; i < sizeof s->set / sizeof s->set[0]; i++)
        free(s->set[i]);
}

/* Progress: the newest of the records written since the build began. */
static void show_progress(void *ctx)
{
    const struct driver *d = ctx;
    char *dir_path = paths_join(d->state, "units");
    DIR *dir = dir_path ? opendir(dir_path) : NULL;
    const struct dirent *e;
    unsigned count = 0;
    while (dir && (e = readdir(dir))) {
        struct stat st;
        if (e->d_name[0] != '.' && fstatat(dirfd(dir), e->d_name, &st, 0) == 0 &&
            (double)st.st_mtim.tv_sec + 1 > d->started_s)
            count++;
    }
    if (dir)
        closedir(dir);
    free(dir_path);
    say_progress("building: %u files compiled, %.0f s", count, wall_s() - d->started_s);
}

/* The user's word for the step: `env` is ours. */
static const char *step_name(const struct step *step)
{
    return strcmp(step->argv[0], "env") == 0 && step->argv[1] ? step->argv[1] : step->argv[0];
}

static int open_output(const struct driver *d, const struct step *step)
{
    if (d->verbose)
        return dup(STDERR_FILENO);
    int fd = open(d->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    struct buf line = {0};
    buf_puts(&line, "$");
    for (size_t i = step_name(step) == step->argv[0] ? 0 : 1; step->argv[i]; i++)
        buf_printf(&line, " %s", step->argv[i]);
    buf_putc(&line, '\n');
    if (fd >= 0 && !line.failed && write(fd, line.data, line.len) < 0) {
        close(fd);
        fd = -1;
    }
    buf_free(&line);
    return fd;
}

static int say_step_failed(const struct driver *d, const struct step *step,
                           const struct child_result *result)
{
    if (result->interrupted) {
        say("build interrupted");
        return EXIT_INTERRUPTED;
    }
    if (!d->verbose)
        build_log_show(d->log, d->selection.mirror, d->root);
    return say_error(d->verbose ? NULL : "the whole output: .piano/build/log",
                     "the build failed: `%s` ended with status %d", step_name(step),
                     result->status);
}

static int run_step(struct driver *d, const struct step *step)
{
    struct settings settings;
    struct child_result result = {0};
    int err = fill_settings(&settings, d, step->compiles);
    char **env = err == 0 ? child_env(settings.set) : NULL;
    int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int out = open_output(d, step);
    if (err == 0)
        err = !env ? -ENOMEM : out < 0 ? -errno : 0;
    if (err == 0) {
        struct child_plan plan = {
            .argv = step->argv, .envp = env, .dir = step->dir, .in = in, .out = out, .err = out};
        plan.tick = isatty(STDERR_FILENO) && !d->verbose ? show_progress : NULL;
        plan.ctx = d;
        err = child_run(&plan, &result);
    }
    if (in >= 0)
        close(in);
    if (out >= 0)
        close(out);
    free(env);
    settings_release(&settings);
    say_progress_done();
    if (err != 0)
        return say_error(err == -ENOENT ? "is it installed, and is the name right?" : NULL,
                         "cannot start `%s`: %s", step->argv[0], strerror(-err));
    if (result.status != 0 || result.interrupted)
        return say_step_failed(d, step, &result);
    return 0;
}

static void free_words(char **argv)
{
    for (size_t i = 0; argv && argv[i]; i++)
        free(argv[i]);
    free(argv);
}

/* Runs WORDS, ended by NULL, in DIR. */
static int run_words(struct driver *d, const char *const *words, const char *dir, bool compiles)
{
    char *argv[MAX_WORDS + 1] = {0};
    bool whole = true;
    size_t count = 0;
    for (; words[count] && count < MAX_WORDS; count++) {
        argv[count] = strdup(words[count]);
        whole = whole && argv[count];
    }
    struct step step = {argv, dir, compiles};
    int status = whole ? run_step(d, &step) : out_of_memory();
    for (size_t i = 0; i < count; i++)
        free(argv[i]);
    return status;
}

static int build_cmake(struct driver *d)
{
    char jobs[24];
    char *dir = paths_join(d->state, "cmake");
    char *cache = paths_join(d->state, "cmake/CMakeCache.txt");
    char *source = in_mirror(d, d->detect.dir);
    int status = dir && cache && source ? 0 : out_of_memory();
    snprintf(jobs, sizeof jobs, "-j%d", d->jobs);
    if (status == 0 && access(cache, F_OK) != 0) {
        const char *const words[] = {"cmake",
                                     "-S",
                                     source,
                                     "-B",
                                     dir,
                                     "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
                                     "-DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON",
                                     NULL};
        status = run_words(d, words, source, false);
        /* A configuration that failed is not to be taken for one the next time. */
        if (status != 0)
            mirror_remove(dir);
    }
    if (status == 0) {
        const char *const words[] = {"cmake", "--build", dir, jobs, NULL};
        status = run_words(d, words, source, true);
    }
    free(dir);
    free(cache);
    free(source);
    return status;
}

static int build_meson(struct driver *d)
{
    char jobs[24];
    char *dir = paths_join(d->state, "meson");
    char *ninja = paths_join(d->state, "meson/build.ninja");
    char *source = in_mirror(d, d->detect.dir);
    int status = dir && ninja && source ? 0 : out_of_memory();
    snprintf(jobs, sizeof jobs, "%d", d->jobs);
    if (status == 0 && access(ninja, F_OK) != 0) {
        const char *const words[] = {"meson", "setup", "--buildtype=debugoptimized",
                                     dir,     source,  NULL};
        mirror_remove(dir);
        status = run_words(d, words, source, false);
    }
    if (status == 0) {
        const char *const words[] = {"meson", "compile", "-C", dir, "-j", jobs, NULL};
        status = run_words(d, words, source, true);
    }
    free(dir);
    free(ninja);
    free(source);
    return status;
}

static int build_make(struct driver *d)
{
    char jobs[24];
    char *dir = in_mirror(d, d->detect.dir);
    const char *flags = getenv("MAKEFLAGS");
    bool shared_jobs = flags && strstr(flags, "jobserver");
    snprintf(jobs, sizeof jobs, "-j%d", d->jobs);
    const char *const words[] = {"make", shared_jobs ? NULL : jobs, NULL};
    int status = dir ? run_words(d, words, dir, true) : out_of_memory();
    free(dir);
    return status;
}

/* configure runs once, and again when it has changed. */
static int build_configure(struct driver *d)
{
    struct buf now = {0};
    struct buf last = {0};
    char *script = paths_join(d->detect.dir, "configure");
    char *stamp = paths_join(d->state, "configured");
    char *dir = in_mirror(d, d->detect.dir);
    int status = script && stamp && dir ? 0 : out_of_memory();
    if (status == 0) {
        put_file_identity(&now, script);
        bool done = buf_read_file(&last, stamp) == 0 && last.len == now.len &&
                    memcmp(last.data, now.data, now.len) == 0;
        const char *const words[] = {"./configure", NULL};
        if (!done)
            status = run_words(d, words, dir, false);
        if (!done && status == 0 && buf_write_file(&now, stamp) != 0)
            status = say_error(NULL, "cannot write %s", stamp);
    }
    if (status == 0)
        status = build_make(d);
    buf_free(&now);
    buf_free(&last);
    free(script);
    free(stamp);
    free(dir);
    return status;
}

/* The command as it runs in the mirror: each word with the root's path turned into the mirror's.
 * `env` goes in front because the hook sees only what a hooked process starts, and we are none:
 * without it, a command that is itself a compiler would be missed. */
static char **command_argv(const struct driver *d)
{
    size_t count = 0;
    while (d->command[count])
        count++;
    char **argv = calloc(count + 2, sizeof *argv);
    if (argv)
        argv[0] = strdup("env");
    bool whole = argv && argv[0];
    for (size_t i = 0; i < count && whole; i++) {
        size_t len = strlen(d->command[i]);
        argv[i + 1] = len == 0
                          ? strdup("")
                          : mirror_replace(d->command[i], &len, d->root, d->selection.mirror);
        whole = argv[i + 1];
    }
    if (whole)
        return argv;
    free_words(argv);
    return NULL;
}

static int build_command(struct driver *d)
{
    const char *name = d->command[0];
    if (!strchr(name, '/') && !child_in_path(name))
        return say_error("is it installed, and is the name right?", "there is no command `%s`",
                         name);
    char **argv = command_argv(d);
    char *dir = in_mirror(d, d->detect.dir);
    struct step step = {argv, dir, true};
    int status = argv && dir ? run_step(d, &step) : out_of_memory();
    free_words(argv);
    free(dir);
    return status;
}

static int build_with(struct driver *d)
{
    switch (d->detect.kind) {
    case DETECT_CMAKE:
        return build_cmake(d);
    case DETECT_MESON:
        return build_meson(d);
    case DETECT_MAKE:
        return build_make(d);
    case DETECT_CONFIGURE:
        return build_configure(d);
    case DETECT_COMMAND:
        break;
    }
    return build_command(d);
}

/* --- all of it ------------------------------------------------------------------------------- */

static int make_state(struct driver *d)
{
    char *units = paths_join(d->state, "units");
    char *links = paths_join(d->state, "links");
    char *selection = paths_join(d->state, "selection");
    int err = units && links && selection ? paths_make_dirs(units) : -ENOMEM;
    if (err == 0)
        err = paths_make_dirs(links);
    if (err == 0)
        err = selection_save(&d->selection, selection);
    free(units);
    free(links);
    free(selection);
    unlink(d->log);
    if (err == -EINVAL)
        return say_error("a directory without a line break in its name",
                         "the project's path or a name given holds a line break");
    if (err != 0)
        return say_error(NULL, "cannot write %s: %s", d->state, strerror(-err));
    return 0;
}

static void forget_build_runs(const struct driver *d)
{
    char *runs = paths_join(d->state, "runs");
    if (runs)
        mirror_remove(runs);
    free(runs);
}

static int place_mirror(struct driver *d)
{
    const char *slash = strrchr(d->root, '/');
    char *place = paths_join(d->state, "tree");
    d->selection.mirror = place ? paths_join(place, slash && slash[1] ? slash + 1 : "root") : NULL;
    free(place);
    return d->selection.mirror ? 0 : out_of_memory();
}

int driver_build(struct driver *d)
{
    d->started_s = wall_s();
    if (d->jobs <= 0)
        d->jobs = processors();
    int status = make_places(d);
    status = status ? status : take_lock(d);
    status = status ? status : find_build(d);
    status = status ? status : place_mirror(d);
    status = status ? status : drop_outdated(d);
    status = status ? status : update_mirror(d);
    status = status ? status : make_state(d);
    if (status == 0) {
        status = build_with(d);
        forget_build_runs(d);
    }
    return status;
}

void driver_release(struct driver *d)
{
    selection_release(&d->selection);
    free(d->root);
    free(d->cwd);
    free(d->state);
    free(d->log);
    free(d->detect.dir);
}
