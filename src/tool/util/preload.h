/* A path for LD_PRELOAD and for the run path of a program.
 *
 * LD_PRELOAD is a list that the loader splits at spaces and colons; it knows no quotes, and replaces `$ORIGIN` and the like. A
 * library whose path has one of these is reached through a symbolic link, in a directory of the user's without them. */
#ifndef PIANO_TOOL_UTIL_PRELOAD_H
#define PIANO_TOOL_UTIL_PRELOAD_H

/* DIR, or a directory with links to the libraries in DIR, whose path can stand in LD_PRELOAD. Malloc'd; NULL, and said, when no such
 * directory can be made. */
char *preload_dir(const char *dir);

/* The same for a program's run path, which is split at colons only. */
char *preload_run_path(const char *dir);

#endif
