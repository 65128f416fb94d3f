/* The map of names, and the list of functions that both kinds of files fill.
 *
 * A map is text: "START SIZE NAME", numbers in hexadecimal, one function a line. It has no times: a
 * runtime that moves or replaces code appends a line, so the last line for an address counts. The
 * program may be killed in the middle of a line, so only lines with an end are read. */
#include "tool/symbol/jit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tool/symbol/jit_list.h"
#include "tool/util/order.h"
#include "tool/util/vec.h"

enum {
    MOST_CODES = 1 << 21,
    MOST_SCANNED = 4096, /* functions tried for one address */
    BLOCK = 1 << 16,
};

static const uint64_t MOST_MAP = (uint64_t)512 << 20;

/* ---- opening ---- */

/* Links inside of ROOT must not lead out of it. */
static int open_below(int root, const char *path)
{
    struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW,
                           .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
    long fd = syscall(__NR_openat2, root, path, &how, sizeof(how));
    return fd < 0 ? -errno : (int)fd;
}

static int checked(int fd, const unsigned *owners, size_t count)
{
    struct stat st;
    if (fd < 0)
        return fd;
    int err = fstat(fd, &st) != 0 ? -errno : !S_ISREG(st.st_mode) ? -ENODEV : -EPERM;
    for (size_t i = 0; i < count && err == -EPERM; i++)
        err = st.st_uid == owners[i] ? 0 : err;
    if (err == 0)
        return fd;
    close(fd);
    return err;
}

int jit_open(int root, const char *path, const unsigned *owners, size_t count)
{
    struct stat st;
    if (root >= 0)
        return checked(open_below(root, path), owners, count);
    /* Check before opening: opening a device can have side effects. */
    if (lstat(path, &st) != 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -ENODEV;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
    return checked(fd < 0 ? -errno : fd, owners, count);
}

/* ---- the list ---- */

int jit_add(struct jit_names *j, const struct jit_code *code)
{
    if (code->end <= code->start || code->end >> 48 || !code->name)
        return code->name ? 0 : -ENOMEM;
    if (j->count == MOST_CODES) {
        j->is_cut = true;
        return 0;
    }
    if (VEC_ROOM(j->list, j->count, j->cap) != 0)
        return -ENOMEM;
    j->list[j->count] = *code;
    j->list[j->count].order = (uint32_t)j->count;
    j->count++;
    return 0;
}

static int compare_codes(const void *a, const void *b)
{
    const struct jit_code *x = a, *y = b;
    return ORDER(x->start, y->start) ?: ORDER(x->order, y->order);
}

void jit_sort(struct jit_names *j)
{
    uint64_t reach = 0;
    if (j->count)
        qsort(j->list, j->count, sizeof(*j->list), compare_codes);
    for (size_t i = 0; i < j->count; i++) {
        reach = j->list[i].end > reach ? j->list[i].end : reach;
        j->list[i].reach = reach;
    }
}

/* Sorts FOUND, of COUNT, by time and order, the newest first, and adds CODE. */
static size_t insert(const struct jit_code **found, size_t count, size_t most,
                     const struct jit_code *code)
{
    size_t at = count;
    while (at > 0 && (ORDER(found[at - 1]->since, code->since)
                          ?: ORDER(found[at - 1]->order, code->order)) < 0)
        at--;
    if (at == most)
        return count;
    size_t moved = (count < most ? count : most - 1) - at;
    memmove(&found[at + 1], &found[at], moved * sizeof(*found));
    found[at] = code;
    return count < most ? count + 1 : most;
}

size_t jit_find(const struct jit_names *j, uint64_t pc, const struct jit_code **found, size_t most)
{
    size_t count = 0;
    for (size_t i = ORDER_BOUND(at, j->count, j->list[at].start <= pc), n = 0;
         i-- > 0 && j->list[i].reach > pc && n < MOST_SCANNED; n++)
        if (j->list[i].end > pc)
            count = insert(found, count, most, &j->list[i]);
    return count;
}

void jit_place(const struct jit_names *j, const struct jit_code *code, uint64_t pc,
               const char **file, uint32_t *line)
{
    *file = code->file;
    *line = code->line;
    for (uint32_t i = 0; i < code->line_count; i++) {
        const struct jit_line *l = &j->lines[code->first_line + i];
        if (l->offset > pc - code->start)
            break;
        *file = l->file;
        *line = l->line;
    }
}

void jit_release(struct jit_names *j)
{
    free(j->list);
    free(j->lines);
    *j = (struct jit_names){.strings = j->strings};
}

/* ---- names ---- */

static bool begins(const char *text, size_t len, const char *with)
{
    return len >= strlen(with) && memcmp(text, with, strlen(with)) == 0;
}

/* Cuts ":NUMBER" from the end of the text and returns the number; -1: there is none. */
static long cut_number(const char *text, size_t *len)
{
    size_t at = *len;
    long value = 0, scale = 1;
    for (; at > 0 && text[at - 1] >= '0' && text[at - 1] <= '9' && scale < 1000000000; at--) {
        value += (text[at - 1] - '0') * scale;
        scale *= 10;
    }
    if (at == *len || at == 0 || text[at - 1] != ':')
        return -1;
    *len = at - 1;
    return value;
}

/* "KIND:*name file:line:column", as V8 writes functions of JavaScript. All kinds of code of one
 * function (interpreted, compiled, optimised) get one name. */
static bool take_javascript(struct jit_names *j, struct jit_code *code, const char *text,
                            size_t len)
{
    static const char *const kinds[] = {
        "JS:", "LazyCompile:", "Function:", "Script:", "Eval:", "InterpretedFunction:"};
    size_t skip = 0, end = len;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds) && skip == 0; i++)
        skip = begins(text, len, kinds[i]) ? strlen(kinds[i]) : 0;
    if (skip == 0)
        return false;
    while (skip < len && strchr("*~^+=", text[skip]))
        skip++;
    long column = cut_number(text, &end), line = column < 0 ? -1 : cut_number(text, &end);
    const char *space = memchr(text + skip, ' ', len - skip);
    if (line < 0 || !space || space >= text + end)
        return false;
    size_t named = (size_t)(space - text) - skip;
    code->name = named ? strings_put(j->strings, text + skip, named)
                       : strings_puts(j->strings, "(anonymous)");
    code->file = strings_put(j->strings, space + 1, (size_t)(text + end - space - 1));
    code->line = (uint32_t)line;
    return true;
}

/* "py::name:file", as CPython writes functions. */
static bool take_python(struct jit_names *j, struct jit_code *code, const char *text, size_t len)
{
    const char *colon = begins(text, len, "py::") ? memchr(text + 4, ':', len - 4) : NULL;
    if (!colon || colon == text + 4)
        return false;
    code->name = strings_put(j->strings, text + 4, (size_t)(colon - text) - 4);
    code->file = strings_put(j->strings, colon + 1, (size_t)(text + len - colon - 1));
    return true;
}

void jit_name(struct jit_names *j, struct jit_code *code, const char *text, size_t len)
{
    enum { LONGEST = 4096 };
    len = len < LONGEST ? len : LONGEST;
    if (!take_javascript(j, code, text, len) && !take_python(j, code, text, len))
        code->name = len ? strings_put(j->strings, text, len)
                         : strings_puts(j->strings, "[code without a name]");
}

/* ---- the map ---- */

/* Reads a hexadecimal number, with or without 0x; false if there is none or it is too large. */
static bool take_number(const char **at, const char *end, uint64_t *value)
{
    const char *p = *at;
    unsigned digits = 0;
    *value = 0;
    if (end - p > 2 && p[0] == '0' && (p[1] | 32) == 'x')
        p += 2;
    for (; p < end && digits <= 16; p++, digits++) {
        char c = (char)(*p | 32);
        int digit = *p >= '0' && *p <= '9' ? *p - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (digit < 0)
            break;
        *value = *value << 4 | (unsigned)digit;
    }
    *at = p;
    return digits > 0 && digits <= 16;
}

/* Lines that make no sense are left out. */
static int take_line(struct jit_names *j, const char *line, size_t len)
{
    const char *at = line, *end = line + len;
    uint64_t start, size;
    if (!take_number(&at, end, &start) || at == end || *at++ != ' ' ||
        !take_number(&at, end, &size) || at == end || *at++ != ' ')
        return 0;
    if (size == 0 || start >> 48 || size >> 40)
        return 0;
    struct jit_code code = {.start = start, .end = start + size, .until = JIT_ALWAYS};
    jit_name(j, &code, at, (size_t)(end - at));
    return jit_add(j, &code);
}

/* Takes the whole lines of TEXT. Returns how many bytes they have, or -ENOMEM. */
static ssize_t take_lines(struct jit_names *j, const char *text, size_t len)
{
    size_t from = 0;
    const char *end;
    while ((end = memchr(text + from, '\n', len - from))) {
        size_t line = (size_t)(end - text) - from;
        if (take_line(j, text + from, line) != 0)
            return -ENOMEM;
        from += line + 1;
    }
    return (ssize_t)from;
}

int jit_read_map(struct jit_names *j, int fd)
{
    char *text = malloc(BLOCK);
    size_t kept = 0;
    uint64_t at = 0;
    ssize_t got, taken = text ? 0 : -ENOMEM;
    while (taken >= 0 && at < MOST_MAP &&
           (got = pread(fd, text + kept, BLOCK - kept, (off_t)at)) > 0) {
        at += (uint64_t)got;
        kept += (size_t)got;
        taken = take_lines(j, text, kept);
        if (taken > 0)
            memmove(text, text + taken, kept - (size_t)taken);
        kept -= taken > 0 ? (size_t)taken : 0;
        kept = kept == BLOCK ? 0 : kept; /* no line is this long: the rest of it makes no sense */
    }
    j->is_cut |= at >= MOST_MAP;
    free(text);
    return taken < 0 ? -ENOMEM : 0;
}
