/* Reads the command lines of the commands. Each command offers every word to the readers of its
 * flags, so that `profile` accepts all flags of `build` and `run` without a second table. getopt is
 * not used, because it can neither suggest a name nor share flags between commands. */
#include "tool/cli/flags.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool/util/nearest.h"
#include "tool/util/paths.h"
#include "tool/util/say.h"

enum { LEAST_PREFIX = 4 }; /* including dashes */

enum flag_taken flags_value(struct flags *f, const char *name, const char **value)
{
    const char *word = f->argv[f->at];
    size_t len = strlen(name);
    if (strncmp(word, name, len) != 0 || (word[len] != '\0' && word[len] != '='))
        return FLAG_NO;
    if (word[len] == '=') {
        *value = word + len + 1;
    } else {
        if (f->at + 1 >= f->argc || strcmp(f->argv[f->at + 1], "--") == 0) {
            say_usage(f->command, "%s needs a value", name);
            return FLAG_BAD;
        }
        *value = f->argv[++f->at];
    }
    if (**value == '\0') {
        say_usage(f->command, "%s needs a value that is not empty", name);
        return FLAG_BAD;
    }
    return FLAG_YES;
}

enum flag_taken flags_number(struct flags *f, const char *name, double min, double *value)
{
    const char *text = NULL;
    enum flag_taken taken = flags_value(f, name, &text);
    if (taken != FLAG_YES)
        return taken;
    char *end = NULL;
    *value = strtod(text, &end);
    if (*end != '\0' || !isfinite(*value) || *value < min || *value > 1e9) {
        char safe[64];
        say_usage(f->command, "%s %s: not a number of at least %g", name,
                  say_safe(safe, sizeof safe, text), min);
        return FLAG_BAD;
    }
    return FLAG_YES;
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
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        double ns = value * units[i].ns;
        if (strcmp(end, units[i].name) == 0 && ns >= 1 && ns <= 86400e9)
            return llround(ns);
    }
    return 0;
}

enum flag_taken flags_time(struct flags *f, const char *name, int64_t *ns)
{
    const char *text = NULL;
    enum flag_taken taken = flags_value(f, name, &text);
    if (taken != FLAG_YES)
        return taken;
    *ns = parse_time(text);
    if (*ns == 0) {
        char safe[64];
        say_usage(f->command, "%s %s: not a time such as 16.6ms; the units are ns, us, ms and s",
                  name, say_safe(safe, sizeof safe, text));
        return FLAG_BAD;
    }
    return FLAG_YES;
}

enum flag_taken flags_switch(const struct flags *f, const char *name, bool *value)
{
    if (strcmp(f->argv[f->at], name) != 0)
        return FLAG_NO;
    *value = true;
    return FLAG_YES;
}

enum flag_taken flags_output(struct flags *f, const char **path)
{
    enum flag_taken taken = flags_value(f, "--output", path);
    return taken ? taken : flags_value(f, "-o", path);
}

enum flag_taken flags_top(struct flags *f, size_t *top)
{
    double value = 0;
    enum flag_taken taken = flags_number(f, "--top", 1, &value);
    if (taken == FLAG_YES)
        *top = (size_t)value;
    return taken;
}

enum flag_taken flags_skip(struct flags *f, struct heap_skip *skip)
{
    const char *pattern = NULL;
    enum flag_taken taken = flags_switch(f, "--no-skip", &skip->none);
    taken = taken ? taken : flags_value(f, "--skip", &pattern);
    if (taken == FLAG_YES && pattern && heap_skip_add(skip, pattern) != 0) {
        say_usage(f->command, "--skip: %d patterns at most", HEAP_SKIPS);
        return FLAG_BAD;
    }
    return taken;
}

enum flag_taken flags_by(struct flags *f, bool churn, enum heap_by *by)
{
    const char *text = NULL;
    char safe[64];
    enum flag_taken taken = flags_value(f, "--by", &text);
    if (taken != FLAG_YES)
        return taken;
    for (int i = 0; i < HEAP_ALL_BYS; i++)
        if ((churn || i != HEAP_CHURN) && strcmp(text, heap_by_names[i]) == 0) {
            *by = (enum heap_by)i;
            return FLAG_YES;
        }
    say_usage(f->command, "--by %s: there are live, allocated%s, cpu and off-cpu",
              say_safe(safe, sizeof safe, text), churn ? ", peak and churn" : " and peak");
    return FLAG_BAD;
}

int flags_word(const struct flags *f, const char *too_many, const char **words, size_t most)
{
    const char *word = f->argv[f->at];
    if (word[0] == '-' && word[1])
        return flags_unknown(f);
    for (size_t i = 0; i < most; i++)
        if (!words[i]) {
            words[i] = word;
            return EXIT_DONE;
        }
    return say_usage(f->command, "%s", too_many);
}

/* Converts a path relative to the working directory to one relative to the root; malloc'd. A path
 * that does not exist is not changed: the end of a path is sufficient. */
static char *from_root(const char *path)
{
    char *real = realpath(path, NULL);
    char *root = paths_build_root();
    char *out = NULL;
    size_t len = root ? strlen(root) : 0;
    if (real && root && strncmp(real, root, len) == 0 && (real[len] == '/' || real[len] == '\0'))
        out = strdup(real[len] ? real + len + 1 : ".");
    else
        out = strdup(path);
    free(real);
    free(root);
    return out;
}

/* Removes template arguments from a pattern, because names do not have them: `Cache<int>::get`
 * means `Cache::get`, and `Cache<` means `Cache`. Keeps the brackets of operators. */
static void cut_template_args(char *pattern)
{
    static const char operator_word[] = "operator";
    const size_t word = sizeof operator_word - 1;
    size_t kept = 0;
    int depth = 0;
    for (const char *p = pattern; *p; p++) {
        bool is_operator = kept >= word && memcmp(pattern + kept - word, operator_word, word) == 0;
        if (depth == 0 && is_operator) {
            size_t sign = strspn(p, "<=>-");
            memmove(pattern + kept, p, sign + 1);
            kept += sign + 1;
            p += sign;
            if (!*p)
                return;
            continue;
        }
        if (*p == '<')
            depth++;
        if (depth == 0)
            pattern[kept++] = *p;
        if (*p == '>' && depth > 0)
            depth--;
    }
    if (kept > 0)
        pattern[kept] = '\0';
}

static enum flag_taken add_to(struct flags *f, const char *name, struct selection_list *list,
                              bool is_path)
{
    const char *value = NULL;
    enum flag_taken taken = flags_value(f, name, &value);
    if (taken != FLAG_YES)
        return taken;
    char *item = is_path ? from_root(value) : strdup(value);
    if (item && !is_path)
        cut_template_args(item);
    int err = item ? selection_add(list, item) : -ENOMEM;
    free(item);
    if (err != 0) {
        say_error(NULL, "out of memory");
        return FLAG_BAD;
    }
    return FLAG_YES;
}

static enum flag_taken take_jobs(struct flags *f, struct driver *d)
{
    const char *word = f->argv[f->at];
    if (strncmp(word, "-j", 2) != 0)
        return FLAG_NO;
    const char *text = word[2] ? word + 2 : f->at + 1 < f->argc ? f->argv[++f->at] : "";
    char *end = NULL;
    long jobs = strtol(text, &end, 10);
    if (end == text || *end != '\0' || jobs < 1 || jobs > 4096) {
        say_usage(f->command, "-j needs a number of processes, as in -j4");
        return FLAG_BAD;
    }
    d->jobs = (int)jobs;
    return FLAG_YES;
}

static enum flag_taken take_frame(struct flags *f, struct driver *d)
{
    const char *value = NULL;
    enum flag_taken taken = flags_value(f, "--frame", &value);
    if (taken != FLAG_YES)
        return taken;
    free(d->selection.frame);
    d->selection.frame = strdup(value);
    if (d->selection.frame)
        cut_template_args(d->selection.frame);
    return d->selection.frame ? FLAG_YES : FLAG_BAD;
}

enum flag_taken flags_build(struct flags *f, struct driver *d)
{
    struct selection *s = &d->selection;
    enum flag_taken taken = add_to(f, "--fn", &s->fns, false);
    taken = taken ? taken : add_to(f, "--file", &s->files, true);
    taken = taken ? taken : add_to(f, "--dir", &s->dirs, true);
    taken = taken ? taken : add_to(f, "--skip", &s->skips, false);
    taken = taken ? taken : take_frame(f, d);
    taken = taken ? taken : flags_switch(f, "--exact", &s->exact);
    taken = taken ? taken : flags_switch(f, "--verbose", &d->verbose);
    return taken ? taken : take_jobs(f, d);
}

enum flag_taken flags_run(struct flags *f, struct program_run *p)
{
    enum flag_taken taken = flags_number(f, "--duration", 0.001, &p->duration_s);
    taken = taken ? taken : flags_switch(f, "--every-call", &p->every_call);
    return taken ? taken : flags_number(f, "--kill-timeout", 0, &p->kill_s);
}

int flags_check_build(const struct flags *f, const struct driver *d)
{
    const struct selection *s = &d->selection;
    if (s->exact && s->fns.count == 0)
        return say_usage(f->command, "--exact says how --fn is meant; there is no --fn");
    for (size_t i = 0; s->frame && i < s->skips.count; i++) {
        if (strcmp(s->frame, s->skips.items[i]) == 0)
            return say_usage(f->command, "%s is both the frame and skipped", s->frame);
    }
    return EXIT_DONE;
}

bool flags_is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

static bool has_flag(const struct flags *f, const char *name)
{
    for (size_t i = 0; f->names[i]; i++)
        if (strcmp(f->names[i], name) == 0)
            return true;
    return false;
}

int flags_unknown(const struct flags *f)
{
    const char *word = f->argv[f->at];
    char safe[128];
    say_safe(safe, sizeof safe, word);
    if (word[0] != '-' && has_flag(f, "--fn"))
        return say_usage(f->command,
                         "`%s` is not a flag; a function: piano %s --fn %s; a command: piano %s "
                         "-- %s ...",
                         safe, f->command, safe, f->command, safe);
    if (word[0] != '-')
        return say_usage(f->command, "`%s` is not a flag; the command goes after `--`", safe);
    char name[128];
    size_t len = strcspn(word, "=");
    if (len >= sizeof name)
        len = sizeof name - 1;
    memcpy(name, word, len);
    name[len] = '\0';
    size_t count = 0;
    const char *longer = NULL; /* a flag with this prefix: abbreviated rather than mistyped */
    for (; f->names[count]; count++)
        if (len >= LEAST_PREFIX && !longer && strncmp(f->names[count], name, len) == 0)
            longer = f->names[count];
    const char *near = longer ? longer : nearest_name(name, f->names, count);
    if (near)
        return say_usage(f->command, "there is no flag `%s`; did you mean `%s`?", safe, near);
    return say_usage(f->command, "there is no flag `%s`", safe);
}
