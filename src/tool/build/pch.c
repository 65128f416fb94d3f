/* Precompiled headers; see pch.h. */
#include "tool/build/pch.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool/build/marker.h"

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

static bool is_cmakes(const struct marker *m)
{
    static const char name[] = "/cmake_pch.h";
    return memmem(m->file, m->len, name, sizeof name - 1) != NULL;
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
        if (!marker_parse(line, (size_t)((newline ? newline : end) - line), &m))
            continue;
        if (marker_flag(&m, MARKER_BEGINS) && (depth > 0 || is_cmakes(&m)))
            depth++;
        else if (marker_flag(&m, MARKER_RETURNS) && depth > 0)
            depth--;
        char *system = depth > 0 ? marker_flag(&m, MARKER_SYSTEM) : NULL;
        if (system && marker_is_of_project(&m, s))
            *system = ' ';
    }
}
