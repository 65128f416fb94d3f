/* Formats times, sizes, counts and percentages. The unit is chosen by the rounded value: 999.96us
 * is printed as 1.0ms, never as 1000.0us. */
#include "tool/util/units.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct scale {
    const char *name;
    double size;
};

/* The limit of the first unit is the size of the second. */
static const struct scale times[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
static const struct scale sizes[] = {
    {"B", 1}, {"KB", 1024.0}, {"MB", 1048576.0}, {"GB", 1073741824.0}, {"TB", 1099511627776.0}};

/* Absolute value of VALUE; safe for INT64_MIN. */
static uint64_t magnitude(int64_t value)
{
    return value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
}

static const char *scaled(char *text, const char *plus, int64_t value, const struct scale *s,
                          size_t count)
{
    const char *sign = value < 0 ? "-" : value > 0 ? plus : "";
    double size = (double)magnitude(value), limit = s[1].size;
    size_t i = 1;
    while (i + 1 < count && size / s[i].size >= limit - 0.05)
        i++;
    if (size < limit)
        snprintf(text, UNITS_LEN, "%s%u%s", sign, (unsigned)size, s[0].name);
    else
        snprintf(text, UNITS_LEN, "%s%.1f%s", sign, size / s[i].size, s[i].name);
    return text;
}

const char *units_time(char *text, int64_t ns)
{
    return scaled(text, "", ns, times, sizeof(times) / sizeof(*times));
}

const char *units_time_signed(char *text, int64_t ns)
{
    return scaled(text, "+", ns, times, sizeof(times) / sizeof(*times));
}

const char *units_bytes(char *text, int64_t bytes)
{
    return scaled(text, "", bytes, sizes, sizeof(sizes) / sizeof(*sizes));
}

const char *units_bytes_signed(char *text, int64_t bytes)
{
    return scaled(text, "+", bytes, sizes, sizeof(sizes) / sizeof(*sizes));
}

const char *units_count(char *text, int64_t count)
{
    snprintf(text, UNITS_LEN, "%lld", (long long)count);
    return text;
}

const char *units_count_signed(char *text, int64_t count)
{
    snprintf(text, UNITS_LEN, "%+lld", (long long)count);
    if (count == 0)
        snprintf(text, UNITS_LEN, "0");
    return text;
}

const char *units_percent(char *text, double part)
{
    if (!isfinite(part))
        snprintf(text, UNITS_LEN, "-");
    else
        snprintf(text, UNITS_LEN, "%.1f%%", part * 100.0);
    return text;
}

const char *units_percent_signed(char *text, double part)
{
    if (!isfinite(part))
        snprintf(text, UNITS_LEN, "-");
    else if (fabs(part) >= 100.0)
        snprintf(text, UNITS_LEN, "%+.0f%%", part * 100.0);
    else
        snprintf(text, UNITS_LEN, "%+.1f%%", part * 100.0);
    return text;
}

const char *units_age(char *text, int64_t seconds)
{
    static const struct {
        int64_t size;
        const char *name;
    } steps[] = {{86400, "d"}, {3600, "h"}, {60, "m"}, {1, "s"}};
    snprintf(text, UNITS_LEN, "just now");
    for (size_t i = 0; i < 4; i++)
        if (seconds >= steps[i].size) {
            snprintf(text, UNITS_LEN, "%lld%s ago", (long long)(seconds / steps[i].size),
                     steps[i].name);
            break;
        }
    return text;
}

const char *units_plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

uint64_t units_parse_bytes(const char *text)
{
    static const char units[] = "BKMG";
    static const double MOST_BYTES = 0x1p48;
    char *at = NULL;
    if (*text < '0' || *text > '9' || strcspn(text, "xX") < strlen(text))
        return 0;
    double value = strtod(text, &at);
    char upper = (char)(*at >= 'a' && *at <= 'z' ? *at - 'a' + 'A' : *at);
    const char *unit = *at ? strchr(units, upper) : units;
    if (!unit)
        return 0;
    const char *rest = *at ? at + 1 : at;
    bool is_whole = !*rest || (unit > units && (!strcasecmp(rest, "B") || !strcasecmp(rest, "iB")));
    value = ldexp(value, 10 * (int)(unit - units));
    return is_whole && value >= 1 && value <= MOST_BYTES ? (uint64_t)value : 0;
}
