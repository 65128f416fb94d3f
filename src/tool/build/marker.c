/* Line markers of a preprocessed text; see marker.h. */
#include "tool/build/marker.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

bool marker_parse(char *line, size_t len, struct marker *m)
{
    char *end = line + len;
    char *quote = len > 4 && line[0] == '#' && line[1] == ' ' && isdigit((unsigned char)line[2])
                      ? memchr(line, '"', len)
                      : NULL;
    char *last = quote ? memrchr(quote + 1, '"', (size_t)(end - quote - 1)) : NULL;
    if (!last)
        return false;
    *m = (struct marker){quote + 1, (size_t)(last - quote - 1), last + 1, (size_t)(end - last - 1)};
    return true;
}

char *marker_flag(const struct marker *m, char flag)
{
    return memchr(m->flags, flag, m->flag_len);
}

bool marker_is_of_project(const struct marker *m, const struct selection *s)
{
    char *path = strndup(m->file, m->len);
    bool own = path && selection_relative(s, path)[0] != '/';
    free(path);
    return own;
}
