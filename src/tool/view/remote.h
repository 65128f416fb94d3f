/* How to see a page that is served on a machine without a display. */
#ifndef PIANO_TOOL_VIEW_REMOTE_H
#define PIANO_TOOL_VIEW_REMOTE_H

/* Prints how to see the page at PORT from another machine, if this terminal is an ssh session or
 * there is no display; else nothing. */
void remote_say(unsigned port);

#endif
