/* Suggestions for mistyped options, commands, functions and tags.
 *
 * Uses the optimal string alignment distance, in which swapping two adjacent letters counts as one
 * error. A pattern for functions often has the wrong case or an extra prefix. So a name that
 * contains the word, or is contained in it, is near too and ranks just after a name with one typing
 * error. */
#include "tool/util/nearest.h"

#include <stdint.h>
#include <string.h>
#include <strings.h>

enum { LONGEST = 127, MAX_FOUND = 16 };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t nearest_distance(const char *a, const char *b, size_t limit)
{
    size_t rows[3][LONGEST + 1];
    size_t a_len = strlen(a);
    size_t b_len = strlen(b);
    size_t gap = a_len > b_len ? a_len - b_len : b_len - a_len;
    if (gap > limit || a_len > LONGEST || b_len > LONGEST)
        return limit + 1;
    for (size_t j = 0; j <= b_len; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a_len; i++) {
        size_t *row = rows[i % 3];
        const size_t *above = rows[(i - 1) % 3];
        const size_t *above2 = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            size_t cost = a[i - 1] == b[j - 1] ? 0 : 1;
            row[j] = least(least(above[j] + 1, row[j - 1] + 1), above[j - 1] + cost);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], above2[j - 2] + 1);
        }
    }
    return least(rows[a_len % 3][b_len], limit + 1);
}

static const char *bare_part(const char *name)
{
    const char *bare = name;
    for (const char *p = strstr(name, "::"); p; p = strstr(p + 2, "::"))
        bare = p + 2;
    return bare;
}

/* Distance from WANT to NAME in edits, or SIZE_MAX when NAME is not near. */
static size_t farness(const char *want, const char *name)
{
    size_t len = strlen(want);
    size_t limit = len / 3 > 0 ? len / 3 : 1;
    size_t d = nearest_distance(want, name, limit);
    const char *bare = bare_part(name);
    if (bare != name)
        d = least(d, nearest_distance(want, bare, limit));
    if (d <= limit)
        return d;
    if (len >= 2 && (strcasestr(name, want) || (strlen(bare) >= 3 && strcasestr(want, bare))))
        return 2;
    return SIZE_MAX;
}

size_t nearest_find(const char *want, const char *const *names, size_t count, const char **out,
                    size_t max)
{
    size_t far[MAX_FOUND];
    size_t found = 0;
    max = least(max, MAX_FOUND);
    for (size_t i = 0; i < count; i++) {
        size_t d = farness(want, names[i]);
        size_t at = found;
        for (size_t j = 0; j < found && d != SIZE_MAX; j++) {
            if (strcmp(out[j], names[i]) == 0)
                d = SIZE_MAX;
        }
        while (at > 0 && far[at - 1] > d)
            at--;
        if (d == SIZE_MAX || at == max)
            continue;
        found = least(found + 1, max);
        memmove(out + at + 1, out + at, (found - at - 1) * sizeof out[0]);
        memmove(far + at + 1, far + at, (found - at - 1) * sizeof far[0]);
        out[at] = names[i];
        far[at] = d;
    }
    return found;
}

const char *nearest_name(const char *want, const char *const *names, size_t count)
{
    const char *best = NULL;
    return nearest_find(want, names, count, &best, 1) > 0 ? best : NULL;
}
