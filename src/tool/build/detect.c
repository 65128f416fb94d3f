/* Finds the build by the files that exist.
 *
 * The nearest directory at or above the working directory counts (up to the project's root),
 * because the user would type `make` there. CMakeLists.txt and meson.build also exist in
 * subdirectories that cannot be built alone, so from one of those the search continues upwards as
 * long as the parent directory has one too.
 *
 * In a directory with several build files, CMake, Meson and then Cargo precede a Makefile: the first
 * two generate Makefiles, and projects with both keep the Makefile for convenience. But a tree that the user has
 * configured in place with configure is built the way it was configured. A Makefile precedes
 * configure, unless it only says "run configure first". A build system whose tool is not installed
 * is skipped if there is another. */
#include "tool/build/detect.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool/util/child.h"
#include "tool/util/buf.h"
#include "tool/util/paths.h"

static const char *const make_names[] = {"GNUmakefile", "makefile", "Makefile"};

static bool has(const char *dir, const char *name)
{
    char *path = paths_join(dir, name);
    bool found = path && access(path, R_OK) == 0;
    free(path);
    return found;
}

static bool has_makefile(const char *dir)
{
    for (size_t i = 0; i < sizeof make_names / sizeof make_names[0]; i++) {
        if (has(dir, make_names[i]))
            return true;
    }
    return false;
}

/* Is there a makefile that only says to run configure? Either a short Makefile that says so (zlib),
 * or a GNUmakefile that is used until configure makes the Makefile (gnulib). */
static bool makefile_is_notice(const char *dir)
{
    if (has(dir, "Makefile.in") && !has(dir, "Makefile"))
        return true;
    char *path = paths_join(dir, "Makefile");
    struct buf text = {0};
    bool notice = path && buf_read_file(&text, path) == 0 && text.data && text.len < 4096 &&
                  strcasestr(text.data, "configure first");
    buf_free(&text);
    free(path);
    return notice;
}

bool detect_is_build_dir(const char *path)
{
    return (has(path, "CMakeCache.txt") && !has(path, "CMakeLists.txt")) ||
           has(path, "meson-private");
}

bool detect_wants_autoreconf(const char *dir)
{
    return !has(dir, "configure") && (has(dir, "configure.ac") || has(dir, "configure.in"));
}

const char *detect_names(void)
{
    return "CMakeLists.txt, meson.build, Cargo.toml, Makefile, makefile, GNUmakefile, configure";
}

struct way {
    bool there;
    enum detect_kind kind;
    const char *tool;
};

static bool choose(struct detect *d, const char *dir, const char **missing)
{
    bool configure = has(dir, "configure");
    bool makefile = has_makefile(dir);
    bool configured = configure && makefile && has(dir, "config.status");
    bool notice = configure && makefile_is_notice(dir);
    const struct way ways[] = {
        {configured, DETECT_MAKE, "make"},
        {has(dir, "CMakeLists.txt"), DETECT_CMAKE, "cmake"},
        {has(dir, "meson.build"), DETECT_MESON, "meson"},
        {has(dir, "Cargo.toml"), DETECT_CARGO, "cargo"},
        {makefile && !notice, DETECT_MAKE, "make"},
        {configure, DETECT_CONFIGURE, "make"},
    };
    bool any = false;
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        if (!ways[i].there)
            continue;
        any = true;
        d->kind = ways[i].kind;
        *missing = child_in_path(ways[i].tool) ? NULL : ways[i].tool;
        if (!*missing)
            return true;
    }
    return any;
}

/* Removes the last component of DIR; false at ROOT. */
static bool go_up(char *dir, const char *root)
{
    char *slash = strrchr(dir, '/');
    if (strcmp(dir, root) == 0 || !slash || slash == dir)
        return false;
    *slash = '\0';
    return true;
}

static void climb_same_kind(struct detect *d, const char *root)
{
    const char *name = d->kind == DETECT_CMAKE   ? "CMakeLists.txt"
                       : d->kind == DETECT_MESON ? "meson.build"
                                                 : NULL;
    char *dir = name ? strdup(d->dir) : NULL;
    while (dir && go_up(dir, root) && has(dir, name)) {
        free(d->dir);
        d->dir = strdup(dir);
    }
    free(dir);
}

int detect_build(struct detect *d, const char *root, const char *cwd, const char **missing)
{
    *d = (struct detect){0};
    *missing = NULL;
    char *dir = strdup(cwd);
    if (!dir)
        return -ENOMEM;
    do {
        if (!detect_is_build_dir(dir) && choose(d, dir, missing)) {
            d->dir = dir;
            climb_same_kind(d, root);
            return *missing ? -ENOPKG : d->dir ? 0 : -ENOMEM;
        }
    } while (go_up(dir, root));
    free(dir);
    return -ENOENT;
}
