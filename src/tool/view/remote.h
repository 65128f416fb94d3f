/* What to do with a page that is served on a machine without a display. */
#ifndef PIANO_TOOL_VIEW_REMOTE_H
#define PIANO_TOOL_VIEW_REMOTE_H

/* Says how to look at the page at PORT from another machine, where this terminal comes through ssh or
 * there is no display; else says nothing. */
void remote_say(unsigned port);

#endif
