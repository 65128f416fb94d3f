/* Readers of the values that flags of several commands have. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tool/cli/command.h"
#include "tool/load/range.h"
#include "tool/report/heap.h"
#include "tool/util/say.h"

int flag_switch(const struct flag_line *line, const char *text, void *field)
{
    (void)line, (void)text;
    *(bool *)field = true;
    return EXIT_DONE;
}

int flag_text(const struct flag_line *line, const char *text, void *field)
{
    (void)line;
    *(const char **)field = text;
    return EXIT_DONE;
}

int flag_number(const struct flag_line *line, const char *text, void *field)
{
    char *end = NULL;
    double value = strtod(text, &end), least = line->flag->least;
    *(double *)field = value;
    if (*end == '\0' && isfinite(value) && value >= least && value <= 1e9)
        return EXIT_DONE;
    return say_usage(line->command, "%s %s: not a number of at least %g", line->name, line->safe,
                     least);
}

int flag_count(const struct flag_line *line, const char *text, void *field)
{
    double value = 0;
    int status = flag_number(line, text, &value);
    if (status == EXIT_DONE)
        *(size_t *)field = (size_t)value;
    return status;
}

/* Parses nanoseconds from TEXT ("16.6ms"); 0: not a time, zero, or longer than a day. */
static int64_t parse_time(const char *text)
{
    static const struct {
        const char *name;
        double ns;
    } units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
    size_t digits = strspn(text, "0123456789.");
    char *end = NULL;
    double value = strtod(text, &end); /* sign, hex, exponent, inf and nan fail below */
    if (digits == 0 || end != text + digits)
        return 0;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        double ns = value * units[i].ns;
        if (strcmp(end, units[i].name) == 0 && ns >= 1 && ns <= 86400e9)
            return llround(ns);
    }
    return 0;
}

int flag_time(const struct flag_line *line, const char *text, void *field)
{
    int64_t ns = parse_time(text);
    *(int64_t *)field = ns;
    if (ns > 0)
        return EXIT_DONE;
    return say_usage(line->command,
                     "%s %s: not a time such as 16.6ms; the units are ns, us, ms and s", line->name,
                     line->safe);
}

int flag_range(const struct flag_line *line, const char *text, void *field)
{
    if (range_parse(text, field))
        return EXIT_DONE;
    return say_usage(line->command,
                     "%s %s: not a time such as 10s, 12.5 (seconds), 250ms or -2s (before the end)",
                     line->name, line->safe);
}

int flag_skip(const struct flag_line *line, const char *text, void *field)
{
    if (heap_skip_add(field, text) == 0)
        return EXIT_DONE;
    return say_usage(line->command, "--skip: %d patterns at most", HEAP_SKIPS);
}

int flag_by(const struct flag_line *line, const char *text, void *field)
{
    for (int i = 0; i < FIGURES; i++)
        if (flags_has(line->flag->words, text) && strcmp(text, figure_names[i]) == 0) {
            *(int *)field = i;
            return EXIT_DONE;
        }
    return say_usage(line->command, "--by %s: not one of: %s", line->safe, line->flag->words);
}
