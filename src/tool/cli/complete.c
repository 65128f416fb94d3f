/* `piano --complete`: what the completions of the shells need to know, as a table separated by tabs:
 *
 *     command  flag  value  how  excluded  explanation
 *
 * `-` stands for nothing. HOW says how the value is completed, or, in the line of a command, which has
 * no flag, its words: see tools/completion. EXCLUDED are flags that make no sense beside this one. */
#include <stdio.h>

#include "tool/cli/command.h"

static const char *or_dash(const char *text)
{
    return text && *text ? text : "-";
}

static void put_row(const char *command, const char *name, const struct flag *e,
                    const char *excluded)
{
    printf("%s\t%s\t%s\t%s%s\t%s\t", command, name, or_dash(e->value), e->words ? "words " : "",
           or_dash(e->words ? e->words : e->complete), or_dash(excluded));
    for (const char *c = or_dash(e->help); *c; c++)
        putchar(*c == '\n' ? ' ' : *c);
    putchar('\n');
}

void complete_print(const struct command *c)
{
    static const struct flag help = {"--help", "explain the command", .read = NULL};
    struct flag_entry entries[FLAGS_MOST];
    size_t count = flags_list(c->flags, entries);
    const struct flag words = {.help = c->summary, .complete = c->words.complete};
    put_row(c->name, "-", &words, NULL);
    for (size_t i = 0; i < count; i++) {
        const struct flag *e = entries[i].flag;
        if (e->read)
            put_row(c->name, e->name, e, e->alias ? e->alias : e->others);
        if (e->alias)
            put_row(c->name, e->alias, e, e->name);
    }
    put_row(c->name, help.name, &help, NULL);
}
