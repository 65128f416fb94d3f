/* Paths: the only place that decides on the project root, the runs directory and the libraries, for
 * every command. Results are malloc'd, and NULL only when out of memory or as documented.
 * Exceptions: `paths_base` returns a part of PATH, and `paths_short` writes to TEXT. */
#ifndef PIANO_TOOL_UTIL_PATHS_H
#define PIANO_TOOL_UTIL_PATHS_H

#include <stddef.h>

/* Projects of other users are not used, see trust.h. The functions below that return a project or its
 * runs then return NULL. Why the last of them did: -EPERM, or -ENOMEM if memory was missing. */
int paths_error(void);
/* Writes that as a message to TEXT, and a hint, or "", to HINT. */
void paths_failure(char *text, size_t size, char *hint, size_t hint_size);
/* Prints that message. Returns EXIT_FAILED. */
int paths_say_failure(void);

/* The project with the recordings: the nearest directory at or above the working directory that
 * holds `.piano`; else the result of `paths_build_root`. In a directory of another user, this is the
 * working directory itself at most. */
char *paths_project_root(void);

/* The same for starting programs that were built there: the whole project must be trusted. */
char *paths_program_root(void);

/* Where `piano build` builds: the nearest directory at or above the working directory that holds
 * `.piano`, a build file or `.git`; else the working directory. So a project inside another one is
 * separate. A build creates `.piano` there, and `paths_project_root` then returns the same
 * directory. */
char *paths_build_root(void);

/* Prints "project: ROOT" once per process, if ROOT is not the working directory. */
void paths_say_project(const char *root);

/* `PIANO_RUNS_DIR`, else ROOT/.piano/runs. Does not create it. */
char *paths_runs_dir(void);

/* Directory with libpiano.so: `lib` beside the tool, or `../lib/piano`. NULL when neither has
 * it. */
char *paths_lib_dir(void);
/* The same for programs that `piano build` makes. PIANO_LIB in the environment, if set, names a
 * different directory with a libpiano.so, for example for another machine. NULL when that directory
 * has none. */
char *paths_runtime_dir(void);

/* Where piano keeps state of its user: XDG_STATE_HOME/piano or ~/.local/state/piano. Does not create
 * it. NULL when the environment names neither. */
char *paths_state_dir(void);

/* Absolute path of the running tool. */
char *paths_tool(void);

/* "a/b"; either part may be NULL or empty. */
char *paths_join(const char *dir, const char *name);

/* The file name: the last component of PATH. */
const char *paths_base(const char *path);

/* PATH relative to the working directory if it is below it, safe to print; written to TEXT. */
const char *paths_short(char *text, size_t size, const char *path);

/* Like mkdir -p, with mode 0700 for new directories. Returns 0 or negative errno. */
int paths_make_dirs(const char *path);

#endif
