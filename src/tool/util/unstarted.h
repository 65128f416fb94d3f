/* Finds out why a program did not start. */
#ifndef PIANO_TOOL_UTIL_UNSTARTED_H
#define PIANO_TOOL_UTIL_UNSTARTED_H

#include <stdbool.h>

/* The exit status of loaders and shells for a program that they could not start. */
enum { UNSTARTED_STATUS = 127 };

/* For a program that ended with UNSTARTED_STATUS and left no recording: asks its loader what is
 * missing. Prints it and returns true if something is. ENV is the environment of the program; NAME
 * is the name that the user gave. */
bool unstarted_say(const char *name, const char *path, char *const *env);

/* For a PATH that exec could not run; ERR is a negative errno. Returns EXIT_FAILED. */
int unstarted_say_exec(const char *path, int err);

#endif
