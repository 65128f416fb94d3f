/* Asks which program is meant. The question goes to stderr, so that stdout belongs to the program.
 * The answer is read byte by byte, because the input after it belongs to the program. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool/build/choice.h"
#include "tool/util/buf.h"
#include "tool/util/order.h"
#include "tool/util/paths.h"
#include "tool/util/say.h"

enum { MAX_SHOWN = 20, MAX_TRIES = 5, LINE = 256 };

static void show(const struct choice_list *l, bool numbered)
{
    char name[PATH_MAX];
    say("%zu programs were built, and it is not clear which one you mean:", l->meant);
    for (size_t i = 0; i < l->meant && i < MAX_SHOWN; i++) {
        choice_name(name, sizeof name, l, l->items[i].path);
        if (numbered)
            fprintf(stderr, "  %2zu  %s\n", i + 1, name);
        else
            fprintf(stderr, "  %s\n", name);
    }
    if (l->meant > MAX_SHOWN)
        fprintf(stderr, "  and %zu more\n", l->meant - MAX_SHOWN);
}

/* Prints how to name the program, for COMMAND. */
static void say_how(const struct choice_list *l, const char *command)
{
    char name[PATH_MAX];
    choice_name(name, sizeof name, l, l->items[0].path);
    if (strcmp(command, "run") == 0)
        fprintf(stderr, "  try: piano run %s\n", name);
    else
        fprintf(stderr, "  try: piano %s ... -- %s\n", command, name);
}

/* Reads one line from the terminal into TEXT; false at the end of input. */
static bool read_line(char *text, size_t size)
{
    size_t len = 0;
    char c;
    ssize_t got;
    while ((got = read(STDIN_FILENO, &c, 1)) == 1 && c != '\n') {
        if (len + 1 < size)
            text[len++] = c;
    }
    text[len] = '\0';
    return got == 1;
}

/* The program that ANSWER names, by number or by name; NULL when there is none. */
static const char *answered(const struct choice_list *l, const char *answer)
{
    char *end = NULL;
    unsigned long number = strtoul(answer, &end, 10);
    if (end != answer && *end == '\0' && answer[0] != '-' && number >= 1 && number <= l->meant)
        return l->items[number - 1].path;
    for (size_t i = 0; i < l->count; i++) {
        char name[PATH_MAX];
        if (strcmp(paths_base(l->items[i].path), answer) == 0 ||
            strcmp(choice_name(name, sizeof name, l, l->items[i].path), answer) == 0)
            return l->items[i].path;
    }
    return NULL;
}

/* L is sorted, so that a program keeps its number from build to build. */
static const char *ask(const struct choice_list *l, const char *command)
{
    bool asks = isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1;
    const char *found = NULL;
    char line[LINE];
    show(l, asks);
    for (int tries = 0; asks && !found && tries < MAX_TRIES; tries++) {
        fprintf(stderr, "which one? ");
        fflush(stderr);
        if (!read_line(line, sizeof line) || strcmp(line, "q") == 0)
            break;
        found = answered(l, line);
        if (!found)
            fprintf(stderr, "a number from 1 to %zu, a name, or q\n", l->meant);
    }
    if (!found)
        say_how(l, command);
    return found;
}

const char *choice_ask(const struct choice_list *l, const char *command)
{
    struct choice_list sorted = *l;
    sorted.items = malloc(l->count * sizeof *sorted.items);
    if (!sorted.items)
        return NULL;
    memcpy(sorted.items, l->items, l->count * sizeof *sorted.items);
    qsort(sorted.items, sorted.meant, sizeof *sorted.items, order_text);
    const char *found = ask(&sorted, command); /* the paths belong to L */
    free(sorted.items);
    return found;
}
