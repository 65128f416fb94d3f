/* A path for LD_PRELOAD and for the run path of a program.
 *
 * The loader splits LD_PRELOAD at spaces and colons, has no quoting, and expands `$ORIGIN` and
 * similar names. A library whose path contains one of these is loaded through a symbolic link in a
 * directory of the user without them. */
#ifndef PIANO_TOOL_UTIL_PRELOAD_H
#define PIANO_TOOL_UTIL_PRELOAD_H

/* Returns DIR, or a directory with links to the libraries in DIR whose path can be used in
 * LD_PRELOAD. Malloc'd. NULL, after printing an error, when no such directory can be made. */
char *preload_dir(const char *dir);

/* The same for a program's run path, which the loader splits at colons only and in which it expands
 * `$`. */
char *preload_run_path(const char *dir);

#endif
