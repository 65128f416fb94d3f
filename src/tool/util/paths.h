/* Where things are: the one place that decides on the project root, the runs directory and the
 * libraries, for every command. All results are malloc'd; NULL only when out of memory or, where
 * said, when there is no such thing. Not so `paths_base`, a part of PATH,
 * and `paths_short`, which writes to TEXT. */
#ifndef PIANO_TOOL_UTIL_PATHS_H
#define PIANO_TOOL_UTIL_PATHS_H

#include <stddef.h>

/* Where what was built and recorded is: the nearest directory at or above the working directory that
 * holds `.piano`; else what `paths_build_root` says. */
char *paths_project_root(void);

/* Where `piano build` builds: the nearest directory at or above the working directory that holds
 * `.piano`, a build file or `.git`, so that a project inside another one is a project of its own;
 * else the working directory. Once it was built there, `paths_project_root` says the same. */
char *paths_build_root(void);

/* "project: ROOT", once per process, when that is not the working directory. */
void paths_say_project(const char *root);

/* `PIANO_RUNS_DIR`, else ROOT/.piano/runs. Not created. */
char *paths_runs_dir(void);

/* Directory with libpiano.so: beside the tool (`lib`) or `../lib/piano`. NULL when neither has it. */
char *paths_lib_dir(void);
/* The same for programs that `piano build` makes: PIANO_LIB in the environment, if it is set, names another directory, that of a
 * libpiano.so for another machine. NULL when there is none in it. */
char *paths_runtime_dir(void);

/* Absolute path of the running tool. */
char *paths_tool(void);

/* "a/b"; either part may be NULL or empty. */
char *paths_join(const char *dir, const char *name);

/* The last part of PATH: its file name. */
const char *paths_base(const char *path);

/* PATH as seen from the working directory where it lies below it, safe to print; into TEXT. */
const char *paths_short(char *text, size_t size, const char *path);

/* mkdir -p with mode 0700 for what is missing; 0 or negative errno. */
int paths_make_dirs(const char *path);

#endif
