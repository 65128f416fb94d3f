/* Prints the help of a command from its table. */
#include <stdio.h>
#include <string.h>

#include "tool/cli/command.h"

enum { WIDTH = 80, INDENT = 2, GAP = 2 };

/* Prints TEXT, wrapped, with its lines after the first indented by COLUMN. */
static void put_wrapped(const char *text, size_t column)
{
    size_t at = column, len;
    for (; *text; text += len) {
        len = strcspn(text, " \n");
        if (at > column && at + 1 + len > WIDTH) {
            printf("\n%*s", (int)column, "");
            at = column;
        }
        at += (size_t)printf("%s%.*s", at > column ? " " : "", (int)len, text);
        for (; text[len] == ' ' || text[len] == '\n'; len++)
            if (text[len] == '\n') {
                printf("\n%*s", text[len + 1] == '\n' ? 0 : (int)column, "");
                at = column;
            }
    }
    putchar('\n');
}

/* Prints the lines of TEXT: FIRST before the first one, PREFIX before the others. */
static void put_lines(const char *text, const char *first, const char *prefix)
{
    for (size_t len; *text; text += len + (text[len] == '\n')) {
        len = strcspn(text, "\n");
        printf("%s%.*s\n", first, (int)len, text);
        first = prefix;
    }
}

static void put_paragraph(const char *text)
{
    if (text) {
        putchar('\n');
        put_wrapped(text, 0);
    }
}

/* "--top N" */
static size_t make_label(const struct flag *e, char label[WIDTH])
{
    const char *value = e->value ? e->value : "", *blank = *value && *value != '[' ? " " : "";
    return (size_t)snprintf(label, WIDTH, "%s%s%s", e->name, blank, value);
}

static void put_flag(const struct flag *e, size_t column)
{
    char label[WIDTH];
    size_t len = make_label(e, label);
    if (e->alias)
        printf("  %s %s, %s\n%*s", e->alias, e->value, label, (int)column, "");
    else
        printf("  %s%*s", label, (int)(column - INDENT - len), "");
    put_wrapped(e->help, column);
}

/* The widest label decides where the explanations begin. */
static void put_flags(const struct flag *table)
{
    struct flag_entry entries[FLAGS_MOST];
    char label[WIDTH];
    size_t count = flags_list(table, entries), column = 0;
    for (size_t i = 0; i < count; i++) {
        const struct flag *e = entries[i].flag;
        size_t width = e->name && e->help ? INDENT + make_label(e, label) + GAP : 0;
        column = width > column ? width : column;
    }
    if (column > 0)
        putchar('\n');
    for (size_t i = 0; i < count && column > 0; i++) {
        const struct flag *e = entries[i].flag;
        if (e->name && e->help)
            put_flag(e, column);
        else if (e->help)
            put_wrapped(e->help, 0);
    }
}

void help_print(const struct command *c)
{
    put_lines(c->usage, "Usage: ", "       ");
    put_paragraph(c->about);
    put_flags(c->flags);
    put_paragraph(c->notes);
    printf("\nExample%s:\n", strchr(c->examples, '\n') ? "s" : "");
    put_lines(c->examples, "  ", "  ");
}
