/* Runs the user's build under piano.
 *
 * `driver_build` does everything: paths, lock, how to build (detect.c), which products of the last
 * build to remove (refresh.c), the copy to build in (mirror.c), then the build's own steps
 * (ways.c).
 *
 * All files are written below ROOT/.piano, and every build runs on the mirror. This includes CMake
 * and Meson: they build out of tree, but many CMakeLists.txt write to their source directory all
 * the same (zlib's renames a header there).
 *
 * cmd_build.c and cmd_profile.c call this once per process. */
#include "tool/build/driver.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/owner.h"
#include "tool/build/mirror.h"
#include "tool/build/refresh.h"
#include "tool/build/rust.h"
#include "tool/build/ways.h"
#include "tool/util/buf.h"
#include "tool/util/owner.h"
#include "tool/util/paths.h"
#include "tool/util/say.h"

static int out_of_memory(void)
{
    say_error(NULL, "out of memory");
    return EXIT_FAILED;
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

/* --- paths ------------------------------------------------------------------------------------ */

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

static int say_denied(const char *path, int err, const char *usual)
{
    char room[PATH_MAX + 128];
    char safe[PATH_MAX];
    return say_error(owner_hint(room, sizeof room, path, err, usual), "cannot write %s: %s",
                     say_safe(safe, sizeof safe, path), strerror(-err));
}

static int make_places(struct driver *d)
{
    struct selection *s = &d->selection;
    d->root = paths_build_root();
    if (!d->root)
        return paths_say_failure();
    d->cwd = getcwd(NULL, 0);
    char *piano = d->root ? paths_join(d->root, ".piano") : NULL;
    d->state = piano ? paths_join(piano, "build") : NULL;
    d->log = d->state ? paths_join(d->state, "log") : NULL;
    s->root = d->root ? strdup(d->root) : NULL;
    s->runs = piano ? paths_join(piano, "runs") : NULL;
    s->lib = paths_runtime_dir();
    if (!d->cwd || !d->log || !s->root || !s->runs) {
        free(piano);
        return out_of_memory();
    }
    paths_say_project(d->root);
    int err = paths_make_dirs(d->state);
    if (err == 0)
        err = write_gitignore(piano);
    free(piano);
    if (err != 0)
        return say_denied(d->state, err, "a directory you can write to, or a copy of the project");
    if (!s->lib && getenv("PIANO_LIB"))
        return say_error("PIANO_LIB=DIR, where DIR is what `make CROSS=` put libpiano.so into",
                         "PIANO_LIB names %s, which has no libpiano.so", getenv("PIANO_LIB"));
    if (!s->lib)
        return say_error("`make` in piano's own directory, or install it again",
                         "the runtime libpiano.so is not beside the tool");
    return 0;
}

/* Allows one build at a time in a project. The lock ends with the process. */
static int take_lock(const struct driver *d)
{
    char *path = paths_join(d->state, "lock");
    int fd = path ? piano__owner_create(path, O_RDWR | O_CREAT, 0600) : -ENOMEM;
    free(path);
    if (fd < 0)
        return say_denied(d->state, fd, NULL);
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

/* `-- cmake --build build`: the objects in that directory are the user's and are not copied. */
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

/* --- what is left of the last build ----------------------------------------------------------- */

static void put_fingerprint(struct buf *b, const struct driver *d)
{
    static const char *const variables[] = {"CC",       "CXX",     "CFLAGS",
                                            "CXXFLAGS", "LDFLAGS", "CPPFLAGS"};
    char *tool = paths_tool();
    char *lib = paths_join(d->selection.lib, "libpiano.so");
    buf_puts(b, "state 1\n");
    if (tool)
        refresh_put_identity(b, tool);
    if (lib)
        refresh_put_identity(b, lib);
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        const char *value = getenv(variables[i]);
        if (value)
            buf_printf(b, "%s=%s\n", variables[i], value);
    }
    /* CMake and Meson each have one build directory, for one source directory. */
    if (d->detect.kind == DETECT_CMAKE || d->detect.kind == DETECT_MESON)
        buf_printf(b, "%d %s\n", (int)d->detect.kind, d->detect.dir);
    if (d->above > 0)
        buf_printf(b, "mirror %s\n", d->selection.mirror);
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
        return say_denied(d->state, err, NULL);
    return 0;
}

/* --- the mirror ------------------------------------------------------------------------------ */

static int sync_once(const struct driver *d, struct mirror_result *result)
{
    char *manifest = paths_join(d->state, "tree.manifest");
    struct mirror m = {d->root, d->selection.mirror, manifest, d->above};
    int err = manifest ? mirror_sync(&m, result) : -ENOMEM;
    free(manifest);
    return err;
}

static void say_unreadable(const struct mirror_result *r)
{
    char names[1024], more[64] = "";
    if (r->unreadable > MIRROR_MAX_NAMED)
        snprintf(more, sizeof more, " and %zu more", r->unreadable - MIRROR_MAX_NAMED);
    say("%zu file%s could not be read and %s missing from the build: %s%s", r->unreadable,
        r->unreadable == 1 ? "" : "s", r->unreadable == 1 ? "is" : "are",
        say_safe(names, sizeof names, r->unread_names ? r->unread_names : "?"), more);
}

static int update_mirror(struct driver *d)
{
    struct mirror_result result = {0};
    int err = sync_once(d, &result);
    if (err == -EISDIR || err == -ENOTDIR || err == -EEXIST) {
        /* A directory became a file or the reverse, and contains files of the build. */
        free(result.failed);
        free(result.unread_names);
        result = (struct mirror_result){0};
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
        say_unreadable(&result);
    free(result.failed);
    free(result.unread_names);
    return err == 0 ? 0 : EXIT_FAILED;
}

/* --- the whole build -------------------------------------------------------------------------- */

/* STATE/command: the words of the build command, or the flags for cargo, each ended by NUL; empty if
 * piano detected the build. choice.c reads it to know what was to be built. */
static int save_command(const struct driver *d)
{
    struct buf text = {0};
    char *path = paths_join(d->state, "command");
    for (size_t i = 0; d->command && d->command[i]; i++)
        buf_put(&text, d->command[i], strlen(d->command[i]) + 1);
    for (size_t i = 0; i < d->cargo.count; i++)
        buf_put(&text, d->cargo.items[i], strlen(d->cargo.items[i]) + 1);
    int err = path ? buf_write_file(&text, path) : -ENOMEM;
    buf_free(&text);
    free(path);
    return err;
}

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
    if (err == 0)
        err = save_command(d);
    free(units);
    free(links);
    free(selection);
    unlink(d->log);
    if (err == -EINVAL)
        return say_error("a directory without a line break in its name",
                         "the project's path or a name given holds a line break");
    return err == 0 ? 0 : say_denied(d->state, err, NULL);
}

static void forget_build_runs(const struct driver *d)
{
    char *runs = paths_join(d->state, "runs");
    if (runs)
        mirror_remove(runs);
    free(runs);
}

/* STATE/tree/NAME. If crates outside of the project are used, the names of the directories above come
 * before NAME, so that `../../libs/x` is found. */
static int place_mirror(struct driver *d)
{
    d->above = rust_climbs(d->detect.dir, d->root);
    const char *name = strrchr(d->root, '/');
    for (unsigned i = 0; i < d->above; i++) {
        const char *end = name;
        while (name > d->root && *--name != '/')
            ;
        if (name == end)
            break;
    }
    char *place = paths_join(d->state, "tree");
    d->selection.mirror = place ? paths_join(place, name && name[1] ? name + 1 : "root") : NULL;
    free(place);
    return d->selection.mirror ? 0 : out_of_memory();
}

int driver_build(struct driver *d)
{
    struct statx_timestamp since = owner_now();
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
        status = ways_build(d);
        forget_build_runs(d);
        owner_give_tree(d->state, since);
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
    for (size_t i = 0; i < d->cargo.count; i++)
        free(d->cargo.items[i]);
    free(d->cargo.items);
}
