/* Why a program did not start. */
#ifndef PIANO_TOOL_RECORD_UNSTARTED_H
#define PIANO_TOOL_RECORD_UNSTARTED_H

#include <stdbool.h>

/* The exit status of loaders and shells for what they could not start. */
enum { UNSTARTED_STATUS = 127 };

/* For a program that ended with UNSTARTED_STATUS and left nothing: asks its loader what is missing. Says so and returns
 * true if something is. ENV is the environment the program had; NAME is what the user calls it. */
bool unstarted_say(const char *name, const char *path, char *const *env);

/* For a PATH that could not be executed: ERR is a negative errno. Returns EXIT_FAILED. */
int unstarted_say_exec(const char *path, int err);

#endif
