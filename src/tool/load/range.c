/* Parses ranges of time and cuts times at their ends. */
#include "tool/load/range.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool/load/run.h"
#include "tool/util/say.h"
#include "tool/util/units.h"

static const double LONGEST_NS = 1e17; /* three years */

bool range_parse(const char *text, struct range_end *out)
{
    static const struct {
        const char *name;
        double ns;
    } units[] = {{"", 1e9}, {"s", 1e9},  {"ms", 1e6},   {"us", 1e3},
                 {"ns", 1}, {"m", 60e9}, {"min", 60e9}, {"h", 3600e9}};
    *out = (struct range_end){.given = true};
    if (strcmp(text, "end") == 0) {
        out->is_last = out->from_end = true;
        return true;
    }
    out->from_end = *text == '-';
    text += out->from_end;
    size_t digits = strspn(text, "0123456789.");
    char *end = NULL;
    double value = strtod(text, &end); /* hex, exponent, inf and nan fail below */
    if (digits == 0 || end != text + digits)
        return false;
    for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++) {
        double ns = value * units[i].ns;
        if (strcmp(end, units[i].name) != 0)
            continue;
        out->is_number = i == 0 && !out->from_end && !memchr(text, '.', digits);
        out->ns = ns <= LONGEST_NS ? llround(ns) : 0;
        return ns <= LONGEST_NS;
    }
    return false;
}

/* END as a time since the start, in a recording of LENGTH. Can be before its start. */
static int64_t place(const struct range_end *end, int64_t length)
{
    return end->from_end ? length - end->ns : end->ns;
}

int range_resolve(struct range *r, const struct range_asked *asked, uint64_t start_ns,
                  uint64_t end_ns, const char *path, struct run_error *error)
{
    char safe[300], a[UNITS_LEN], b[UNITS_LEN];
    *r = (struct range){.given = asked->from.given || asked->to.given};
    if (!r->given)
        return 0;
    int64_t length = end_ns > start_ns ? (int64_t)(end_ns - start_ns) : 0;
    int64_t from = asked->from.given ? place(&asked->from, length) : 0;
    int64_t to = asked->to.given ? place(&asked->to, length) : length;
    bool is_backwards = from >= to && from < length && to > 0;
    from = from > 0 ? from : 0;
    if (from >= length || to <= from) {
        *error = (struct run_error){.text = ""};
        say_safe(safe, sizeof(safe), path);
        if (is_backwards)
            snprintf(error->text, sizeof(error->text),
                     "%s: the range ends at %s, before it begins at %s", safe, units_time(a, to),
                     units_time(b, from));
        else
            snprintf(error->text, sizeof(error->text),
                     "%s: the range is outside of it: it is %s long", safe, units_time(a, length));
        snprintf(error->hint, sizeof(error->hint), "--from -2s, for the last two seconds");
        return -ERANGE;
    }
    r->from_ns = start_ns + (uint64_t)from;
    /* The last event or sample is at the end itself. */
    r->to_ns = start_ns + (uint64_t)(to < length ? to : length + 1);
    return 0;
}

bool range_has(const struct range *r, uint64_t at_ns)
{
    return !r->given || (at_ns >= r->from_ns && at_ns < r->to_ns);
}

bool range_clip(const struct range *r, uint64_t *from_ns, uint64_t *to_ns)
{
    if (!r->given)
        return true;
    *from_ns = *from_ns > r->from_ns ? *from_ns : r->from_ns;
    *to_ns = *to_ns < r->to_ns ? *to_ns : r->to_ns;
    return *from_ns < *to_ns;
}
