/* What a user need be told once, not each time. */
#ifndef PIANO_TOOL_UTIL_ONCE_H
#define PIANO_TOOL_UTIL_ONCE_H

#include <stdbool.h>

/* Was the notice NAME, a file name, shown to this user before with the same TEXT? If not, that is noted, below XDG_STATE_HOME or
 * ~/.local/state. False too when it cannot be noted: better twice than never. */
bool once_was_said(const char *name, const char *text);

#endif
