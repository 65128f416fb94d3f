/* The relevant parts of a request to the server of a page. */
#ifndef PIANO_TOOL_VIEW_REQUEST_H
#define PIANO_TOOL_VIEW_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct request {
    const char *method, *target;
    const char *host, *origin; /* NULL: none */
    bool is_live;              /* asks for the newest data, not for the page */
    uint64_t has;              /* the number of the data that the page has */
};

/* What the server accepts. */
struct request_rules {
    const char *path; /* "/", a random token, "/" */
    unsigned port;
    bool live; /* the path followed by "live/" and a number is valid, too */
};

/* Is the head of a request complete? */
bool request_whole(const char *text, size_t len);
/* Parses TEXT in place: LEN bytes, complete, and a NUL. False: not a valid request. */
bool request_parse(char *text, size_t len, struct request *r);
/* The status of the answer: 200, or an error. Sets `is_live` and `has`. */
int request_judge(struct request *r, const struct request_rules *rules);

#endif
