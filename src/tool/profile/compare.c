#include "tool/profile/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double matters = 0.01; /* smaller shares fail no build */

int compare_groups(void *parts, size_t count, size_t size, compare_order *order,
                   compare_order *same, int (*add)(void *ctx, void *parts, size_t count), void *ctx)
{
    char *list = parts;
    int err = 0;
    if (count)
        qsort(parts, count, size, order);
    for (size_t from = 0, to; from < count && err == 0; from = to) {
        for (to = from + 1; to < count && same(list + from * size, list + to * size) == 0; to++)
            continue;
        err = add(ctx, list + from * size, to - from);
    }
    return err;
}

int compare_texts(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "");
}

double compare_percent(const double v[2])
{
    return v[0] > 0 ? (v[1] - v[0]) / v[0] * 100.0 : v[1] > 0 ? INFINITY : 0;
}

bool compare_grew(const double v[2], double percent, double weight, double all)
{
    return v[1] > v[0] && compare_percent(v) > percent && weight >= matters * all;
}

bool compare_apart(const double a[2], const double b[2])
{
    return a[0] > b[1] || b[0] > a[1];
}
