/* Serves one page to this machine until it is stopped. */
#ifndef PIANO_TOOL_VIEW_SERVER_H
#define PIANO_TOOL_VIEW_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Newer data for a page that is open. */
struct server_data {
    char note[160];   /* a line of JSON */
    const char *body; /* what follows it; valid until the next call that may change it */
    size_t len;
};

/* Gives what is newer than data number HAS. MAY_CHANGE: no client is reading an earlier body, so
 * its memory may be reused. */
typedef void server_newer(void *ctx, uint64_t has, bool may_change, struct server_data *data);

struct server_options {
    unsigned port;       /* 0: any */
    bool open;           /* in a browser */
    const char *policy;  /* content security policy of the page */
    server_newer *newer; /* NULL: the page does not change */
    void *ctx;
};

/* Prints the address on stdout and serves PAGE. Ends with Ctrl-C (SIGINT), SIGTERM or SIGHUP.
 * Returns an exit status. */
int server_run(const char *page, size_t len, const struct server_options *options);

#endif
