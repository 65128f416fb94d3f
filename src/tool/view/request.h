/* A request to the server of a page, as far as it matters. */
#ifndef PIANO_TOOL_VIEW_REQUEST_H
#define PIANO_TOOL_VIEW_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

struct request {
    const char *method, *target;
    const char *host, *origin; /* NULL: none */
};

/* What the server is known by. */
struct request_rules {
    const char *path; /* "/" and what cannot be guessed and "/" */
    unsigned port;
};

/* Is the head of a request whole? */
bool request_whole(const char *text, size_t len);
/* Takes TEXT apart, in place; LEN bytes, which are whole, and a NUL. False: it is no request. */
bool request_parse(char *text, size_t len, struct request *r);
/* The status it is to be answered with: 200, or why not. */
int request_judge(const struct request *r, const struct request_rules *rules);

#endif
