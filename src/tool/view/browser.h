/* The user's browser. */
#ifndef PIANO_TOOL_VIEW_BROWSER_H
#define PIANO_TOOL_VIEW_BROWSER_H

#include <stdbool.h>

/* Is there a display? */
bool browser_possible(void);
/* Opens URL and does not wait. Returns 0 or negative errno. */
int browser_open(const char *url);

#endif
