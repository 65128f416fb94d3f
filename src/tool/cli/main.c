/* The entry point: finds the command, parses its flags and runs it. The commands are in cmd_NAME.c
 * beside it.
 *
 * A closed output pipe (`piano report | head`) is not a failure. SIGPIPE keeps its default action,
 * which ends the process silently. If our parent has set it to ignore, the write error is ignored
 * at the end instead. */
#include <errno.h>
#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool/build/wrap.h"
#include "tool/cli/command.h"
#include "tool/util/child.h"
#include "tool/util/nearest.h"
#include "tool/util/say.h"

#ifndef PIANO_VERSION
#define PIANO_VERSION "0"
#endif

#define COMMAND_ADDRESS(name) &command_##name,
static const struct command *const commands[] = {COMMANDS(COMMAND_ADDRESS)};

enum { COMMAND_COUNT = sizeof(commands) / sizeof(commands[0]) };

static const struct command *find(const char *name)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}

static void print_help(FILE *out)
{
    fputs(
        "piano is a profiler for C, C++ and Rust programs, and for Python: it shows\n"
        "slow functions and frames, who holds the memory, where the CPU time goes and\n"
        "which turns of an event loop were long.\n\nUsage: piano COMMAND [OPTIONS]\n\nCommands:\n",
        out);
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        fprintf(out, "  %-9s %s\n", commands[i]->name, commands[i]->summary);
    fputs("\nStart here, in a project with a Makefile, CMakeLists.txt, meson.build,\nCargo.toml or "
          "configure:\n"
          "  piano profile --fn update    measure the functions with `update` in their name\n"
          "  piano report --frames        then: which frames were slow, and why\n"
          "Or, with any program, as it is:\n"
          "  piano record PROGRAM         then: piano report, or piano view\n\n"
          "`piano help COMMAND` explains one command; `piano --version` prints the version.\n",
          out);
}

/* Is NAME a program that could be recorded? */
static bool is_program(const char *name)
{
    return strchr(name, '/') ? access(name, X_OK) == 0 : child_in_path(name);
}

static int unknown(const char *name)
{
    const char *names[COMMAND_COUNT + 2];
    size_t count = 0;
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        names[count++] = commands[i]->name;
    names[count++] = "--version";
    names[count++] = "--help";
    char safe[128];
    say_safe(safe, sizeof(safe), name);
    bool version = strcmp(name, "-v") == 0 || strcmp(name, "version") == 0;
    const char *near = version ? "--version" : nearest_name(name, names, count);
    if (near)
        return say_usage(NULL, "there is no command `%s`; did you mean `%s`?", safe, near);
    if (name[0] != '-' && is_program(name))
        return say_usage(NULL, "there is no command `%s`; to record that program: piano record %s",
                         safe, safe);
    return say_usage(NULL, "there is no command `%s`", safe);
}

static int help(int argc, char **argv)
{
    if (argc < 1) {
        print_help(stdout);
        return EXIT_DONE;
    }
    const struct command *c = find(argv[0]);
    if (!c)
        return unknown(argv[0]);
    help_print(c);
    return EXIT_DONE;
}

/* For the completions of the shells. */
static int complete(void)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        complete_print(commands[i]);
    puts("help\t-\t-\tcommands\t-\texplain a command");
    return EXIT_DONE;
}

/* Is --help or -h among WORDS? The words after `--` are another program's command line. If C takes
 * a program without `--`, the search ends at the first word that is not a flag: it may be the
 * program or the value of a flag, and only C knows which. */
static bool asks_for_help(const struct command *c, char **words)
{
    for (; *words && strcmp(*words, "--") != 0; words++) {
        if (flags_is_help(*words))
            return true;
        if (c->words.kind == WORDS_ARE_PROGRAM && (*words)[0] != '-')
            return false;
    }
    return false;
}

/* Reads the command line of C and runs it. */
static int run(const struct command *c, int argc, char **argv)
{
    bool needs_help = asks_for_help(c, argv + 1);
    void *request = calloc(1, c->size + 1);
    if (!request)
        return say_error(NULL, "out of memory");
    if (c->defaults)
        memcpy(request, c->defaults, c->size);
    int status = needs_help ? EXIT_DONE : flags_parse(c, argc, argv, request, &needs_help);
    if (needs_help)
        help_print(c);
    else if (status == EXIT_DONE)
        status = c->run(request);
    if (c->release)
        c->release(request);
    free(request);
    return status;
}

/* Checks that the output was written: a full disk is an error, a closed pipe is not. */
static int finish(int status)
{
    errno = 0;
    if ((fflush(stdout) == 0 && !ferror(stdout)) || errno == EPIPE)
        return status;
    return say_error(NULL, "cannot write the output: %s", strerror(errno ? errno : EIO));
}

int main(int argc, char **argv)
{
    setlocale(LC_CTYPE, "");
    if (argc < 2) {
        print_help(stderr);
        return EXIT_USAGE;
    }
    const char *name = argv[1];
    if (flags_is_help(name) || strcmp(name, "help") == 0)
        return finish(help(argc - 2, argv + 2));
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
        puts("piano " PIANO_VERSION);
        return finish(EXIT_DONE);
    }
    if (strcmp(name, "--complete") == 0)
        return finish(complete());
    if (strcmp(name, "cc-wrap") == 0) /* libpiano_exec.so runs it in place of a compiler */
        return argc > 2 ? finish(wrap_run(argc - 2, argv + 2))
                        : say_usage("cc-wrap", "no compiler is given");
    const struct command *c = find(name);
    if (!c)
        return unknown(name);
    return finish(run(c, argc - 1, argv + 1));
}
