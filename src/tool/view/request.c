/* Parses a request and decides on it.
 *
 * A page on another site can make a browser request anything from 127.0.0.1. It can also give that
 * address its own name (DNS rebinding), so that the browser lets it read the answer. But it cannot
 * make the browser send a false Host or Origin: both must be ours. This is checked first, so that
 * other clients learn nothing about paths. */
#include "tool/view/request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool request_whole(const char *text, size_t len)
{
    return memmem(text, len, "\r\n\r\n", 4) != NULL;
}

/* The word at *AT, up to END, which is replaced by a NUL; NULL: there is none. */
static char *word(char **at, char end)
{
    char *from = *at, *to = strchr(from, end);
    if (!to || to == from)
        return NULL;
    *to = '\0';
    *at = to + 1;
    return from;
}

static char *line(char **at)
{
    char *from = *at, *to = strstr(from, "\r\n");
    if (!to)
        return NULL;
    *to = '\0';
    *at = to + 2;
    return from;
}

/* The value after the colon, without surrounding blanks. */
static char *value_of(char *text)
{
    while (*text == ' ' || *text == '\t')
        text++;
    size_t len = strlen(text);
    while (len > 0 && (text[len - 1] == ' ' || text[len - 1] == '\t'))
        text[--len] = '\0';
    return text;
}

static bool take_header(char *text, struct request *r)
{
    char *colon = strchr(text, ':');
    if (!colon || colon == text || *text == ' ' || *text == '\t')
        return false;
    *colon = '\0';
    const char **to = strcasecmp(text, "host") == 0     ? &r->host
                      : strcasecmp(text, "origin") == 0 ? &r->origin
                                                        : NULL;
    if (to && *to)
        return false; /* duplicate header: ambiguous */
    if (to)
        *to = value_of(colon + 1);
    return true;
}

bool request_parse(char *text, size_t len, struct request *r)
{
    *r = (struct request){.method = NULL};
    if (memchr(text, '\0', len))
        return false;
    char *at = text, *first = line(&at), *header;
    if (!first)
        return false;
    r->method = word(&first, ' ');
    r->target = r->method ? word(&first, ' ') : NULL;
    if (!r->target || (strcmp(first, "HTTP/1.1") != 0 && strcmp(first, "HTTP/1.0") != 0))
        return false;
    while ((header = line(&at)) && *header)
        if (!take_header(header, r))
            return false;
    return header != NULL;
}

/* Is AUTHORITY this machine, at our port? */
static bool is_ours(const char *authority, unsigned port)
{
    static const char *const names[] = {"127.0.0.1", "localhost"};
    char text[64];
    for (size_t i = 0; i < 2; i++) {
        snprintf(text, sizeof(text), "%s:%u", names[i], port);
        if (strcasecmp(authority, text) == 0 ||
            (port == 80 && strcasecmp(authority, names[i]) == 0))
            return true;
    }
    return false;
}

static bool is_our_origin(const char *origin, unsigned port)
{
    static const char scheme[] = "http://";
    size_t len = sizeof(scheme) - 1;
    return strncasecmp(origin, scheme, len) == 0 && is_ours(origin + len, port);
}

/* Takes the same time for every path of one length, so that a guess cannot be improved by
 * measuring. */
static bool begins_with(const char *text, const char *path)
{
    size_t len = strlen(path);
    unsigned differ = 0;
    if (strlen(text) < len)
        return false;
    for (size_t i = 0; i < len; i++)
        differ |= (unsigned char)(text[i] ^ path[i]);
    return differ == 0;
}

/* Reads "live/17", the part of the path after the token. */
static bool read_live(struct request *r, const char *rest)
{
    static const char name[] = "live/";
    enum { DIGITS = 15 };
    size_t len = sizeof(name) - 1, digits;
    if (strncmp(rest, name, len) != 0)
        return false;
    digits = strspn(rest + len, "0123456789");
    if (digits == 0 || digits > DIGITS || rest[len + digits])
        return false;
    r->is_live = true;
    r->has = strtoull(rest + len, NULL, 10);
    return true;
}

int request_judge(struct request *r, const struct request_rules *rules)
{
    if (!r->host || !is_ours(r->host, rules->port))
        return 403;
    if (r->origin && !is_our_origin(r->origin, rules->port))
        return 403;
    if (strcmp(r->method, "GET") != 0 && strcmp(r->method, "HEAD") != 0)
        return 405;
    if (!begins_with(r->target, rules->path))
        return 404;
    const char *rest = r->target + strlen(rules->path);
    return !*rest || (rules->live && read_live(r, rest)) ? 200 : 404;
}
