/* The runs directory: lists runs and resolves names of runs. */
#ifndef PIANO_TOOL_LOAD_RUNS_H
#define PIANO_TOOL_LOAD_RUNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tool/load/run.h"

struct runs_entry {
    char *path;
    char *stem; /* file name without extension */
    int64_t timestamp_ms;
    uint64_t bytes;
    bool recording; /* not a run of an instrumented program */
    bool further;   /* of another process, or a later program of the same one */
    size_t more;    /* files of further processes that `runs_fold` has joined to it */
};

enum runs_kind { RUNS_ANY, RUNS_SPANS, RUNS_RECORDING };

struct runs {
    char *dir;
    struct runs_entry *entries; /* newest first */
    size_t count;
};

/* Reads DIR (NULL: the project's); a missing directory has no runs. 0 or negative errno. */
int runs_list(struct runs *runs, const char *dir);
/* Joins the entries of further processes (FILE-PID) to that of their recording (FILE), if it is
 * there. */
void runs_fold(struct runs *runs);
void runs_release(struct runs *runs);
/* Describes an error ERR of `runs_list`, and what to try. */
void runs_fail(const struct runs *runs, int err, struct run_error *error);

/* Several paths, malloc'd. */
struct runs_paths {
    char **paths;
    size_t count;
};

/* Resolves WORD: a path, a tag, a run id or file name in the runs directory, a directory of runs
 * (its newest), or several of these joined by commas; NULL: the newest run. 0, or negative errno
 * with ERROR filled. */
int runs_resolve(const char *word, struct runs_paths *out, struct run_error *error);
/* The same, but prefers KIND where there is a choice (the newest, a directory, a tag with several
 * runs). A run given by name is used as it is. */
int runs_resolve_kind(const char *word, enum runs_kind kind, struct runs_paths *out,
                      struct run_error *error);
/* Returns the newest path, by name. PATHS must not be empty. */
const char *runs_paths_newest(const struct runs_paths *paths);
void runs_paths_release(struct runs_paths *paths);

#endif
