/* Precompiled headers; see pch.h. */
#include "tool/build/pch.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool/util/paths.h"

static const struct arg *only_input(const struct args *a)
{
    const struct arg *found = NULL;
    for (size_t i = 0; i < a->count; i++) {
        if (a->list[i].role != ARG_INPUT)
            continue;
        if (found)
            return NULL;
        found = &a->list[i];
    }
    return found;
}

void pch_add_header(const struct args *a)
{
    const struct arg *input = only_input(a);
    size_t len = a->output ? strlen(a->output) : 0;
    if (len <= 4 || a->sources > 0 || !input ||
        (strcmp(a->output + len - 4, ".gch") != 0 && strcmp(a->output + len - 4, ".pch") != 0))
        return;
    struct buf text = {0};
    char *header = strndup(a->output, len - 4);
    char *source = realpath(args_input(a, input), NULL);
    if (header && source && !strpbrk(source, "\"\n") && access(header, F_OK) != 0) {
        buf_printf(&text, "#include \"%s\"\n", source);
        (void)buf_write_file(&text, header); /* without it, units stay untouched */
    }
    buf_free(&text);
    free(header);
    free(source);
}

/* A line marker: `# LINE "FILE" FLAGS`. */
struct marker {
    const char *file;
    size_t len;
    char *flags; /* up to the end of the line */
    size_t flag_len;
};

static bool parse_marker(char *line, size_t len, struct marker *m)
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

static char *find_flag(const struct marker *m, char flag)
{
    return memchr(m->flags, flag, m->flag_len);
}

static bool is_cmakes(const struct marker *m)
{
    static const char name[] = "/cmake_pch.h";
    return memmem(m->file, m->len, name, sizeof name - 1) != NULL;
}

static bool is_of_project(const struct marker *m, const struct selection *s)
{
    char *path = strndup(m->file, m->len);
    bool own = path && selection_relative(s, path)[0] != '/';
    free(path);
    return own;
}

void pch_unmark(struct buf *text, const struct selection *s)
{
    size_t depth = 0; /* of files inside cmake_pch.hxx, and that file itself; 0: outside */
    if (!text->data || !memmem(text->data, text->len, "/cmake_pch.h", 12))
        return;
    char *end = text->data + text->len;
    for (char *line = text->data, *next; line < end; line = next) {
        struct marker m;
        char *newline = memchr(line, '\n', (size_t)(end - line));
        next = newline ? newline + 1 : end;
        if (!parse_marker(line, (size_t)((newline ? newline : end) - line), &m))
            continue;
        if (find_flag(&m, '1') && (depth > 0 || is_cmakes(&m)))
            depth++;
        else if (find_flag(&m, '2') && depth > 0)
            depth--;
        char *system = depth > 0 ? find_flag(&m, '3') : NULL;
        if (system && is_of_project(&m, s))
            *system = ' ';
    }
}
