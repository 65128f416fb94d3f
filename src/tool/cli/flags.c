/* Parses the command line of a command by its table of flags. getopt is not used, because it can
 * neither suggest a name nor share flags between commands. */
#include <stdio.h>
#include <string.h>

#include "tool/cli/command.h"
#include "tool/util/nearest.h"
#include "tool/util/say.h"

enum { LEAST_PREFIX = 4 }; /* including dashes */

static size_t list(const struct flag *table, size_t field, struct flag_entry *entries, size_t count)
{
    for (const struct flag *e = table; e && (e->help || e->read || e->include); e++)
        if (e->include)
            count = list(e->include, field + e->field, entries, count);
        else if (count < FLAGS_MOST)
            entries[count++] = (struct flag_entry){e, field + e->field};
    return count;
}

size_t flags_list(const struct flag *table, struct flag_entry entries[FLAGS_MOST])
{
    return list(table, 0, entries, 0);
}

bool flags_has(const char *list, const char *word)
{
    size_t len = strlen(word);
    for (const char *at = list; at; at = strchr(at, ' ')) {
        at += *at == ' ';
        if (strncmp(at, word, len) == 0 && (at[len] == '\0' || at[len] == ' '))
            return true;
    }
    return false;
}

bool flags_is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

static bool is_attached(const struct flag *flag)
{
    return flag->name[1] != '-';
}

/* Is WORD the flag NAME, with or without a value in the same word? */
static bool is_flag(const char *word, const struct flag *flag, const char *name)
{
    size_t len = name ? strlen(name) : 0;
    return name && strncmp(word, name, len) == 0 &&
           (!word[len] || is_attached(flag) || (flag->value && word[len] == '='));
}

/* Finds the entry that reads the current word; -1: none. */
static int find(struct flag_line *line)
{
    const char *word = line->argv[line->at];
    for (size_t i = 0; i < line->entry_count; i++) {
        const struct flag *e = line->flag = line->entries[i].flag;
        line->name = e->read && is_flag(word, e, e->name) ? e->name : e->alias;
        if (e->read && is_flag(word, e, line->name))
            return (int)i;
    }
    return -1;
}

/* Finds the value of the current flag, in its word or in the next one. */
static int take_value(struct flag_line *line, const char **text)
{
    const char *rest = line->argv[line->at] + strlen(line->name);
    char *next = line->at + 1 < line->argc ? line->argv[line->at + 1] : NULL;
    *text = NULL;
    if (!line->flag->value)
        return EXIT_DONE;
    if (is_attached(line->flag)) { /* the reader rejects an empty text */
        *text = *rest ? rest : next ? next : "";
        line->at += *text == next;
        return EXIT_DONE;
    }
    if (*rest == '=')
        *text = rest + 1;
    if (line->flag->value[0] == '[')
        return EXIT_DONE;
    if (!*text && (!next || strcmp(next, "--") == 0))
        return say_usage(line->command, "%s needs a value", line->name);
    if (!*text) {
        *text = next;
        line->at++;
    }
    if (!**text)
        return say_usage(line->command, "%s needs a value that is not empty", line->name);
    return EXIT_DONE;
}

static int take_flag(struct flag_line *line, int entry, char *request)
{
    const char *text;
    int status = take_value(line, &text);
    if (status != EXIT_DONE)
        return status;
    line->given[entry] = true;
    say_safe(line->safe, sizeof(line->safe), text ? text : "");
    return line->flag->read(line, text, request + line->entries[entry].field);
}

/* Puts a name before the names that start with it, so that `--cp` means --cpu, not --cpu-time. */
static void add_name(const char **names, size_t *count, const char *name)
{
    size_t i = 0;
    while (i < *count && strncmp(names[i], name, strlen(name)) != 0)
        i++;
    memmove(names + i + 1, names + i, ((*count)++ - i) * sizeof(*names));
    names[i] = name;
}

/* Reports a word that is no flag of the command, with the nearest flag. */
static int say_unknown(const struct flag_line *line)
{
    const char *word = line->argv[line->at], *names[2 * FLAGS_MOST + 1], *near = NULL;
    size_t count = 0, len = strcspn(word, "=");
    char name[128], safe[128];
    for (size_t i = 0; i < line->entry_count; i++) {
        const struct flag *e = line->entries[i].flag;
        if (e->read)
            add_name(names, &count, e->name);
        if (e->alias)
            add_name(names, &count, e->alias);
    }
    add_name(names, &count, "--help");
    snprintf(name, sizeof(name), "%.*s", (int)len, word);
    for (size_t i = 0; i < count && len >= LEAST_PREFIX && !near; i++)
        if (strncmp(names[i], name, len) == 0)
            near = names[i]; /* abbreviated rather than mistyped */
    if (!near)
        near = nearest_name(name, names, count);
    say_safe(safe, sizeof(safe), word);
    if (near)
        return say_usage(line->command, "there is no flag `%s`; did you mean `%s`?", safe, near);
    return say_usage(line->command, "there is no flag `%s`", safe);
}

/* Stores a word that is not a flag as the next of the command's words. */
static int take_word(const struct flag_line *line, const struct command_words *w, char *request)
{
    const char *word = line->argv[line->at], **words = (const char **)(request + w->field);
    char safe[128];
    say_safe(safe, sizeof(safe), word);
    if (word[0] == '-' && (word[1] || w->kind != WORDS_LISTED))
        return say_unknown(line);
    if (w->kind == WORDS_AFTER_DASHES) /* a command that builds */
        return say_usage(line->command,
                         "`%s` is not a flag; a function: piano %s --fn %s; a command: piano %s "
                         "-- %s ...",
                         safe, line->command, safe, line->command, safe);
    for (size_t i = 0; i < w->most; i++)
        if (!words[i]) {
            words[i] = word;
            return EXIT_DONE;
        }
    return say_usage(line->command, "%s", w->too_many);
}

static int check_clashes(const struct flag_line *line)
{
    for (size_t i = 0; i < line->entry_count; i++)
        for (size_t k = 0; line->given[i] && k < line->entry_count; k++)
            if (line->given[k] &&
                flags_has(line->entries[i].flag->others, line->entries[k].flag->name))
                return say_usage(line->command, "%s", line->entries[i].flag->clash);
    return EXIT_DONE;
}

int flags_parse(const struct command *c, int argc, char **argv, void *request, bool *help)
{
    struct flag_line line = {.command = c->name, .argc = argc, .argv = argv, .at = 1};
    bool is_program = c->words.kind == WORDS_ARE_PROGRAM;
    int status = EXIT_DONE;
    line.entry_count = flags_list(c->flags, line.entries);
    char **rest = is_program ? argv + argc : NULL;
    for (; line.at < argc && status == EXIT_DONE; line.at++) {
        const char *word = argv[line.at];
        bool dashes = strcmp(word, "--") == 0;
        *help = flags_is_help(word);
        if (*help)
            return EXIT_DONE;
        if (c->words.kind != WORDS_LISTED && (dashes || (is_program && word[0] != '-'))) {
            rest = argv + line.at + dashes;
            break;
        }
        int entry = find(&line);
        status =
            entry >= 0 ? take_flag(&line, entry, request) : take_word(&line, &c->words, request);
    }
    if (rest)
        memcpy((char *)request + c->words.field, &rest, sizeof(rest));
    return status == EXIT_DONE ? check_clashes(&line) : status;
}
