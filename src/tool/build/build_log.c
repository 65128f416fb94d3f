/* Shows the output of a build that failed or did nothing. A parallel build continues for a while
 * after the first error, so the end of its output may not contain the cause. So the first line that
 * looks like an error is shown with the lines after it, then the end. Compilers print the paths of
 * the copies, but the user knows only the originals, so these paths are replaced. */
#include "tool/build/build_log.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool/build/mirror.h"
#include "tool/util/buf.h"
#include "tool/util/say.h"

enum { ERROR_LINES = 25, END_LINES = 15, SHORT_END_LINES = 10 };

static bool is_error(const char *line, size_t len)
{
    static const char *const signs[] = {
        "error:", "Error:", "undefined reference", "CMake Error", "ERROR:", "*** ", "error["};
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++) {
        if (memmem(line, len, signs[i], strlen(signs[i])))
            return true;
    }
    return false;
}

static void print_line(const char *line, size_t len)
{
    char copy[2048];
    char safe[4096];
    if (len >= sizeof copy)
        len = sizeof copy - 1;
    memcpy(copy, line, len);
    copy[len] = '\0';
    for (char *tab = strchr(copy, '\t'); tab; tab = strchr(tab, '\t'))
        *tab = ' ';
    fprintf(stderr, "  %s\n", say_safe(safe, sizeof safe, copy));
}

/* Calls print_line for the lines FROM..TO-1. */
static void print_range(const char *text, size_t from, size_t to)
{
    for (size_t i = 0; *text && i < to; i++) {
        size_t len = strcspn(text, "\n");
        if (i >= from)
            print_line(text, len);
        text += len + (text[len] == '\n');
    }
}

/* The log with the user's own paths, malloc'd; NULL when there is no log. */
static char *read_log(const char *path, const char *mirror, const char *root)
{
    struct buf raw = {0};
    char *text = NULL;
    if (buf_read_own_file(&raw, path) == 0 && raw.data && raw.len > 0) {
        size_t len = strlen(raw.data);
        text = mirror ? mirror_replace(raw.data, &len, mirror, root) : strdup(raw.data);
    }
    buf_free(&raw);
    return text;
}

void build_log_show_end(const char *path, const char *mirror, const char *root)
{
    char *text = read_log(path, mirror, root);
    size_t count = 0;
    for (const char *p = text; p && *p; count++) {
        p += strcspn(p, "\n");
        p += *p == '\n';
    }
    if (text)
        print_range(text, count > SHORT_END_LINES ? count - SHORT_END_LINES : 0, count);
    free(text);
}

void build_log_show(const char *path, const char *mirror, const char *root)
{
    char *text = read_log(path, mirror, root);
    size_t count = 0;
    size_t first = (size_t)-1;
    for (const char *p = text; p && *p; count++) {
        size_t line = strcspn(p, "\n");
        if (first == (size_t)-1 && is_error(p, line))
            first = count;
        p += line + (p[line] == '\n');
    }
    size_t end = count > END_LINES ? count - END_LINES : 0;
    /* the line before it is often "In function ..." or "In file included from" */
    size_t from = first == (size_t)-1 ? end : first > 2 ? first - 2 : 0;
    size_t to = from + ERROR_LINES < end ? from + ERROR_LINES : end;
    if (text && from < end)
        print_range(text, from, to);
    if (text && to < end && from < end)
        fprintf(stderr, "  ... %zu lines left out ...\n", end - to);
    if (text)
        print_range(text, from > end ? from : end, count);
    free(text);
}
