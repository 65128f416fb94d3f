/* Notices that a user sees once, not every time. */
#ifndef PIANO_TOOL_UTIL_ONCE_H
#define PIANO_TOOL_UTIL_ONCE_H

#include <stdbool.h>

/* Was the notice NAME (a file name) already shown to this user with the same TEXT? If not, records
 * it below XDG_STATE_HOME or ~/.local/state. Also returns false when it cannot be recorded: a
 * repeated notice is better than a missing one. */
bool once_was_said(const char *name, const char *text);

#endif
