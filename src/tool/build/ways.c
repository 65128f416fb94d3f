/* The build systems: the commands for CMake, Meson, make, configure or a command of the user.
 *
 * Each has one or two steps. A step is a child process that works on the mirror. Steps that compile
 * have libpiano_exec.so preloaded (exec_hook.c), which runs `piano cc-wrap` instead of every
 * compiler. Steps that only configure do not, because their test programs are not the user's.
 *
 * The output of a step goes to .piano/build/log and is shown when the step fails (build_log.c). Its
 * input is empty, because the user would not see a question. Only driver.c calls this. */
#include "tool/build/ways.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool/build/build_log.h"
#include "tool/util/child.h"
#include "tool/build/mirror.h"
#include "tool/build/refresh.h"
#include "tool/build/rust.h"
#include "tool/build/words.h"
#include "tool/util/buf.h"
#include "tool/util/paths.h"
#include "tool/util/preload.h"
#include "tool/util/say.h"

enum { EXIT_INTERRUPTED = 130, MAX_WORDS = 12 };

static int out_of_memory(void)
{
    say_error(NULL, "out of memory");
    return EXIT_FAILED;
}

static char *in_mirror(const struct driver *d, const char *path)
{
    struct mirror m = {.root = d->root, .tree = d->selection.mirror};
    return mirror_map(&m, path);
}

struct step {
    char *const *argv;
    const char *dir;
    bool compiles;
};

/* The strings for a build's environment, NULL-terminated. */
struct settings {
    char *set[10];
};

static int fill_settings(struct settings *s, const struct driver *d, bool compiles)
{
    const char *preload = getenv("LD_PRELOAD");
    char *tool = paths_tool();
    char *runs = paths_join(d->state, "runs");
    char *lib = paths_lib_dir(); /* the hook is for the compilers, whatever their target */
    char *hook = lib ? preload_dir(lib) : NULL;
    *s = (struct settings){0};
    int bad = hook && tool && runs ? 0 : -1;
    /* Programs that the build itself runs leave their runs here, not with the user's. */
    bad |= asprintf(&s->set[0], "PIANO_RUNS_DIR=%s", runs);
    bad |= asprintf(&s->set[1], "CCACHE_DISABLE=1");
    bad |= asprintf(&s->set[2], compiles ? "PIANO_STATE=%s" : "PIANO_STATE", d->state);
    bad |= asprintf(&s->set[3], compiles ? "PIANO_TOOL=%s" : "PIANO_TOOL", tool);
    if (compiles)
        bad |= asprintf(&s->set[4], "LD_PRELOAD=%s/libpiano_exec.so%s%s", hook,
                        preload && *preload ? ":" : "", preload ? preload : "");
    if (d->has_cargo) {
        bad |= asprintf(&s->set[5], "CARGO_TARGET_DIR=%s/cargo", d->state);
        bad |= asprintf(&s->set[6], "CARGO_PROFILE_RELEASE_DEBUG=1");
        bad |= asprintf(&s->set[7], "CARGO_TERM_COLOR=never");
    }
    free(hook);
    free(tool);
    free(runs);
    free(lib);
    return bad < 0 ? -ENOMEM : 0;
}

static void settings_release(struct settings *s)
{
    for (size_t i = 0; i < sizeof s->set / sizeof s->set[0]; i++)
        free(s->set[i]);
}

static double file_s(const struct stat *st)
{
    return (double)st->st_mtim.tv_sec + (double)st->st_mtim.tv_nsec / 1e9;
}

/* Reads the source from the first line of a unit's record, `unit SOURCE OUTPUT`. */
static void read_source(int dir, const char *name, char *source, size_t size)
{
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    ssize_t len = fd < 0 ? 0 : read(fd, source, size - 1);
    source[len > 0 ? len : 0] = '\0';
    if (fd >= 0)
        close(fd);
    if (strncmp(source, "unit\t", 5) == 0)
        memmove(source, source + 5, strlen(source + 5) + 1);
    source[strcspn(source, "\t\n")] = '\0';
}

/* Progress: the number of records written since the build began, and the newest. */
static void show_progress(void *ctx)
{
    const struct driver *d = ctx;
    char *dir_path = paths_join(d->state, "units");
    DIR *dir = dir_path ? opendir(dir_path) : NULL;
    const struct dirent *e;
    unsigned count = 0;
    double newest = d->started_s;
    char source[512] = "";
    char safe[512];
    while (dir && (e = readdir(dir))) {
        struct stat st;
        if (!strstr(e->d_name, ".unit") || fstatat(dirfd(dir), e->d_name, &st, 0) != 0 ||
            file_s(&st) < d->started_s)
            continue;
        count++;
        if (file_s(&st) < newest)
            continue;
        newest = file_s(&st);
        read_source(dirfd(dir), e->d_name, source, sizeof source);
    }
    if (dir)
        closedir(dir);
    free(dir_path);
    say_progress("building [%u] %s", count, say_safe(safe, sizeof safe, source));
}

/* The user's name of the step: piano adds `env`. */
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

/* CMake writes absolute paths into makefiles, where a colon ends the name of a target. */
static bool is_colon_error(const struct driver *d)
{
    struct buf text = {0};
    bool is_it = strchr(d->root, ':') && buf_read_own_file(&text, d->log) == 0 && text.data &&
                 strstr(text.data, "target pattern");
    buf_free(&text);
    return is_it;
}

static const char *failure_hint(const struct driver *d)
{
    if (d->verbose)
        return NULL;
    if (is_colon_error(d))
        return "move the project: make cannot build where a path has a colon in it (the whole "
               "output: .piano/build/log)";
    return "the whole output: .piano/build/log";
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
    return say_error(failure_hint(d), "the build failed: `%s` ended with status %d",
                     step_name(step), result->status);
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
        plan.whole_tree = true;
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

/* Runs WORDS, NULL-terminated, in DIR. */
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

/* A build outside of the sources. */
struct outside {
    char *dir;    /* below the state */
    char *made;   /* a file in it, which the configuration makes */
    char *source; /* in the mirror */
    char jobs[24];
};

/* Returns 0 or an exit status. */
static int outside_open(struct outside *o, const struct driver *d, const char *dir,
                        const char *made)
{
    *o = (struct outside){.dir = paths_join(d->state, dir),
                          .made = paths_join(d->state, made),
                          .source = in_mirror(d, d->detect.dir)};
    snprintf(o->jobs, sizeof o->jobs, "-j%d", d->jobs);
    return o->dir && o->made && o->source ? 0 : out_of_memory();
}

static void outside_release(struct outside *o)
{
    free(o->dir);
    free(o->made);
    free(o->source);
}

static int build_cmake(struct driver *d)
{
    struct outside o;
    int status = outside_open(&o, d, "cmake", "cmake/CMakeCache.txt");
    if (status == 0 && access(o.made, F_OK) != 0) {
        const char *const words[] = {
            "cmake", "-S", o.source, "-B", o.dir, "-DCMAKE_BUILD_TYPE=RelWithDebInfo", NULL};
        status = run_words(d, words, o.source, false);
        /* A failed configuration must not be reused the next time. */
        if (status != 0)
            mirror_remove(o.dir);
    }
    if (status == 0) {
        const char *const words[] = {"cmake", "--build", o.dir, o.jobs, NULL};
        status = run_words(d, words, o.source, true);
    }
    outside_release(&o);
    return status;
}

static int build_meson(struct driver *d)
{
    struct outside o;
    int status = outside_open(&o, d, "meson", "meson/build.ninja");
    if (status == 0 && access(o.made, F_OK) != 0) {
        const char *const words[] = {"meson", "setup",  "--buildtype=debugoptimized",
                                     o.dir,   o.source, NULL};
        mirror_remove(o.dir);
        status = run_words(d, words, o.source, false);
    }
    if (status == 0) {
        const char *const words[] = {"meson", "compile", "-C", o.dir, o.jobs, NULL};
        status = run_words(d, words, o.source, true);
    }
    outside_release(&o);
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

/* The release profile, unless the user names another one. */
static int build_cargo(struct driver *d)
{
    struct words w = {0};
    char *dir = in_mirror(d, d->detect.dir);
    bool has_profile = false;
    for (size_t i = 0; i < d->cargo.count; i++)
        has_profile |= strcmp(d->cargo.items[i], "--profile") == 0;
    words_add(&w, "cargo");
    words_add(&w, "build");
    if (!has_profile)
        words_add(&w, "--release");
    words_addf(&w, "-j%d", d->jobs);
    for (size_t i = 0; i < d->cargo.count; i++)
        words_add(&w, d->cargo.items[i]);
    struct step step = {w.items, dir, true};
    int status = dir && !w.failed ? run_step(d, &step) : out_of_memory();
    words_release(&w);
    free(dir);
    return status;
}

/* Runs configure once, and again when it has changed. */
static int build_configure(struct driver *d)
{
    struct buf now = {0};
    struct buf last = {0};
    char *script = paths_join(d->detect.dir, "configure");
    char *stamp = paths_join(d->state, "configured");
    char *dir = in_mirror(d, d->detect.dir);
    int status = script && stamp && dir ? 0 : out_of_memory();
    if (status == 0) {
        refresh_put_identity(&now, script);
        bool done = buf_read_own_file(&last, stamp) == 0 && last.len == now.len &&
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

/* The command for the mirror: replaces the root's path by the mirror's in each word. Puts `env` in
 * front, because the hook works only inside processes that have it loaded, and we do not. Without
 * `env`, a command that is itself a compiler would be missed. */
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
        argv[i + 1] = len == 0 ? strdup("")
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

static int build(struct driver *d)
{
    switch (d->detect.kind) {
    case DETECT_CARGO:
        return build_cargo(d);
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

/* A command may be cargo, or a script that runs it. */
static bool wants_cargo(const struct driver *d, const char *dir)
{
    if (d->detect.kind == DETECT_CARGO)
        return true;
    bool is_cargo = d->command && strcmp(paths_base(d->command[0]), "cargo") == 0;
    return rust_is_project(dir) && (is_cargo || rust_can_read()) && child_in_path("cargo");
}

int ways_build(struct driver *d)
{
    struct rust rust = {0};
    char *dir = in_mirror(d, d->detect.dir);
    if (!dir)
        return out_of_memory();
    d->has_cargo = wants_cargo(d, dir);
    int status = d->has_cargo ? rust_prepare(&rust, d, dir) : 0;
    if (status == 0)
        status = build(d);
    rust_finish(&rust, d);
    free(dir);
    return status;
}
