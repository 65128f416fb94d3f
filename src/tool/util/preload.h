/* Paths for LD_PRELOAD, for LD_LIBRARY_PATH and for the run path of a program.
 *
 * The loader splits LD_PRELOAD at spaces and colons, LD_LIBRARY_PATH at colons and semicolons, and a
 * run path at colons. It has no quoting, and expands `$ORIGIN` and similar names. A library whose
 * path contains one of these is loaded through a symbolic link in a directory of the user without
 * them. */
#ifndef PIANO_TOOL_UTIL_PRELOAD_H
#define PIANO_TOOL_UTIL_PRELOAD_H

/* Returns DIR, or a directory with links to the libraries in DIR whose path can be used in
 * LD_PRELOAD. Malloc'd. NULL, after printing an error, when no such directory can be made. */
char *preload_dir(const char *dir);

/* The same for a program's run path. The program may be started long after the build and without
 * piano, so the links are made in the user's state directory if possible: unlike /tmp, it is not
 * emptied, and other users cannot write to it. */
char *preload_run_path(const char *dir);

/* The same for LD_LIBRARY_PATH and any directory DIR: returns DIR, or the path of a link to it. */
char *preload_search_path(const char *dir);

#endif
