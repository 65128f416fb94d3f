/* Finds the project, its runs and the libraries. Every command uses these functions, so that all
 * commands agree on which project they are in and where its runs are. They only look up: nothing
 * except `paths_make_dirs` creates anything. */
#include "tool/util/paths.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/owner.h"
#include "tool/util/buf.h"
#include "tool/util/say.h"
#include "tool/util/trust.h"

static const char *const build_files[] = {"Makefile",       "makefile",    "GNUmakefile",
                                          "CMakeLists.txt", "meson.build", "Cargo.toml",
                                          "configure",      ".git"};

char *paths_join(const char *dir, const char *name)
{
    size_t a = dir ? strlen(dir) : 0, b = name ? strlen(name) : 0;
    char *out = malloc(a + b + 2);
    if (!out)
        return NULL;
    size_t at = 0;
    if (a > 0)
        memcpy(out, dir, a);
    at = a;
    if (a > 0 && b > 0 && dir[a - 1] != '/')
        out[at++] = '/';
    if (b > 0)
        memcpy(out + at, name, b);
    out[at + b] = '\0';
    return out;
}

static bool holds(const char *dir, const char *name)
{
    char *path = paths_join(dir, name);
    bool found = path && access(path, F_OK) == 0;
    free(path);
    return found;
}

static bool holds_build_file(const char *dir)
{
    for (size_t i = 0; i < sizeof(build_files) / sizeof(build_files[0]); i++)
        if (holds(dir, build_files[i]))
            return true;
    return false;
}

static bool holds_state(const char *dir)
{
    return holds(dir, ".piano");
}

/* The nearest directory at or above FROM for which PASSES returns true; NULL when there is none. */
static char *nearest_above(const char *from, bool (*passes)(const char *))
{
    char *dir = strdup(from);
    while (dir) {
        if (passes(dir))
            return dir;
        char *slash = strrchr(dir, '/');
        if (!slash || dir[1] == '\0')
            break;
        slash[slash == dir ? 1 : 0] = '\0';
    }
    free(dir);
    return NULL;
}

static bool holds_either(const char *dir)
{
    return holds_state(dir) || holds_build_file(dir);
}

/* The project that was refused last. */
static struct trust_foreign refused;

static bool is_trusted_build(const char *dir, struct trust_foreign *f)
{
    bool trusted = trust_has(dir, "", f) && trust_has(dir, ".piano", f);
    for (size_t i = 0; i < sizeof(build_files) / sizeof(build_files[0]) && trusted; i++)
        trusted = trust_has(dir, build_files[i], f);
    return trusted;
}

/* CMakeLists.txt and meson.build also exist in subdirectories that cannot be built alone. Moves
 * ROOT up as long as the parent directory has that file too and is trusted. */
static void climb_parts(char *root, const char *name)
{
    struct trust_foreign f;
    while (!holds_state(root) && holds(root, name)) {
        char *slash = strrchr(root, '/');
        if (!slash || slash == root)
            return;
        *slash = '\0';
        if (!holds(root, name) || !is_trusted_build(root, &f)) {
            *slash = '/';
            return;
        }
    }
}

/* Does the Cargo.toml of DIR describe a workspace? */
static bool is_workspace(const char *dir)
{
    char *path = paths_join(dir, "Cargo.toml");
    struct buf text = {0};
    bool found = path && buf_read_file(&text, path) == 0 && text.data &&
                 (strncmp(text.data, "[workspace", 10) == 0 || strstr(text.data, "\n[workspace"));
    buf_free(&text);
    free(path);
    return found;
}

/* A package of Cargo is built as a part of its workspace, which may be several directories above.
 * Cargo refuses to build it elsewhere, so this holds for a package with `.piano` too. */
static char *climb_workspace(char *root)
{
    if (!holds(root, "Cargo.toml") || is_workspace(root))
        return root;
    char *above = nearest_above(root, is_workspace);
    struct trust_foreign f;
    if (!above || !is_trusted_build(above, &f)) {
        free(above);
        return root;
    }
    free(root);
    return above;
}

/* The same if the workspace was built. */
static char *climb_built_workspace(char *root)
{
    char *copy = root ? strdup(root) : NULL;
    char *above = copy ? climb_workspace(copy) : NULL;
    if (!above || !holds_state(above) || strcmp(above, root) == 0) {
        free(above);
        return root;
    }
    free(root);
    return above;
}

/* Whether CWD has a build file, or no directory above it has one. */
static bool is_nearest_build(const char *cwd)
{
    char *root = nearest_above(cwd, holds_build_file);
    bool is_nearest = !root || strcmp(root, cwd) == 0;
    free(root);
    return is_nearest;
}

/* Returns ROOT if it is TRUSTED. Otherwise frees it and returns NULL. */
static char *unless_refused(char *root, bool trusted)
{
    if (trusted)
        return root;
    free(root);
    return NULL;
}

char *paths_build_root(void)
{
    char *cwd = getcwd(NULL, 0);
    if (!cwd)
        return strdup(".");
    char *root = nearest_above(cwd, holds_either);
    if (!root)
        return unless_refused(cwd, is_trusted_build(cwd, &refused));
    free(cwd);
    bool trusted = is_trusted_build(root, &refused);
    if (trusted) {
        climb_parts(root, "CMakeLists.txt");
        climb_parts(root, "meson.build");
        root = climb_workspace(root);
    }
    return unless_refused(root, trusted);
}

char *paths_program_root(void)
{
    char *cwd = getcwd(NULL, 0);
    char *root = cwd ? nearest_above(cwd, holds_state) : NULL;
    free(cwd);
    if (!root)
        return paths_build_root();
    bool trusted = trust_has(root, "", &refused) && trust_has(root, ".piano", &refused);
    return unless_refused(trusted ? climb_built_workspace(root) : root, trusted);
}

/* A user who changes to another user's directory has chosen it, and recordings run no code. So
 * `.piano` in the working directory may also belong to the owner of that directory. */
char *paths_project_root(void)
{
    char *cwd = getcwd(NULL, 0);
    char *state = cwd ? nearest_above(cwd, holds_state) : NULL;
    char *root = NULL;
    if (state && strcmp(state, cwd) == 0 && trust_is_of_owner(cwd, ".piano"))
        root = climb_built_workspace(strdup(cwd));
    else
        root = paths_program_root();
    if (!root && !state && cwd && is_nearest_build(cwd)) {
        refused.path[0] = '\0';
        root = strdup(cwd);
    }
    free(state);
    free(cwd);
    return root;
}

int paths_error(void)
{
    return refused.path[0] ? -EPERM : -ENOMEM;
}

void paths_failure(char *text, size_t size, char *hint, size_t hint_size)
{
    hint[0] = '\0';
    if (refused.path[0])
        trust_describe(&refused, text, size, hint, hint_size);
    else
        snprintf(text, size, "out of memory");
}

int paths_say_failure(void)
{
    char text[PATH_MAX + 128], hint[PATH_MAX + 256];
    paths_failure(text, sizeof text, hint, sizeof hint);
    return say_error(hint[0] ? hint : NULL, "%s", text);
}

void paths_say_project(const char *root)
{
    static bool said;
    char safe[PATH_MAX];
    char *cwd = getcwd(NULL, 0);
    if (cwd && !said && strcmp(cwd, root) != 0)
        say("project: %s", say_safe(safe, sizeof safe, root));
    said = true;
    free(cwd);
}

/* Makes DIR absolute, so that it means the same in a child process. */
static char *absolute(const char *dir)
{
    if (dir[0] == '/')
        return strdup(dir);
    char *cwd = getcwd(NULL, 0);
    char *out = paths_join(cwd ? cwd : ".", dir);
    free(cwd);
    return out;
}

char *paths_runs_dir(void)
{
    const char *set = getenv("PIANO_RUNS_DIR");
    if (set && *set)
        return absolute(set);
    char *root = paths_project_root();
    char *runs = root ? paths_join(root, ".piano/runs") : NULL;
    free(root);
    return runs;
}

char *paths_tool(void)
{
    char path[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 1);
    if (len <= 0)
        return strdup("piano");
    path[len] = '\0';
    return strdup(path);
}

char *paths_lib_dir(void)
{
    static const char *const places[] = {"lib", "../lib/piano"};
    char *tool = paths_tool();
    char *slash = tool ? strrchr(tool, '/') : NULL;
    if (!slash) {
        free(tool);
        return NULL;
    }
    *slash = '\0';
    char *found = NULL;
    for (size_t i = 0; i < 2 && !found; i++) {
        char *dir = paths_join(tool, places[i]);
        if (dir && holds(dir, "libpiano.so"))
            found = realpath(dir, NULL);
        free(dir);
    }
    free(tool);
    return found;
}

char *paths_runtime_dir(void)
{
    const char *other = getenv("PIANO_LIB");
    if (!other || !*other)
        return paths_lib_dir();
    return holds(other, "libpiano.so") ? realpath(other, NULL) : NULL;
}

const char *paths_base(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

char *paths_state_dir(void)
{
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    if (state && state[0] == '/')
        return paths_join(state, "piano");
    return home && home[0] == '/' ? paths_join(home, ".local/state/piano") : NULL;
}

const char *paths_short(char *text, size_t size, const char *path)
{
    char here[PATH_MAX];
    size_t len = getcwd(here, sizeof(here)) ? strlen(here) : 0;
    bool below = len > 1 && strncmp(path, here, len) == 0 && path[len] == '/';
    return say_safe(text, size, below ? path + len + 1 : path);
}

int paths_make_dirs(const char *path)
{
    if (!*path)
        return -ENOENT;
    char *dir = strdup(path);
    if (!dir)
        return -ENOMEM;
    int err = 0;
    for (char *p = dir + 1; err == 0; p++) {
        if (*p != '/' && *p != '\0')
            continue;
        char kept = *p;
        *p = '\0';
        struct stat st;
        err = piano__owner_mkdir(dir);
        if (err != 0) {
            if (err == -EEXIST)
                err = 0;
            if (err == 0 && stat(dir, &st) == 0 && !S_ISDIR(st.st_mode))
                err = -ENOTDIR;
            else if (err == -EROFS && stat(dir, &st) == 0 && S_ISDIR(st.st_mode))
                err = 0;
        }
        *p = kept;
        if (kept == '\0')
            break;
    }
    free(dir);
    return err;
}
