/* Serves one page to this machine until it is stopped. */
#ifndef PIANO_TOOL_VIEW_SERVER_H
#define PIANO_TOOL_VIEW_SERVER_H

#include <stdbool.h>
#include <stddef.h>

struct server_options {
    unsigned port;      /* 0: any */
    bool open;          /* in a browser */
    const char *policy; /* content security policy of the page */
};

/* Prints the address on stdout and serves PAGE. Ends with Ctrl-C (SIGINT), SIGTERM or SIGHUP.
 * Returns an exit status. */
int server_run(const char *page, size_t len, const struct server_options *options);

#endif
