/* `piano build`: reads the flags, runs the driver, and reports the result. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool/build/driver.h"
#include "tool/build/choice.h"
#include "tool/build/program.h"
#include "tool/build/records.h"
#include "tool/build/summary.h"
#define REQUEST struct driver
#include "tool/cli/command.h"
#include "tool/cli/requests.h"
#include "tool/util/paths.h"
#include "tool/util/say.h"

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
    if (strstr(pattern, " as ")) /* Rust: <Circle as Draw>::draw */
        return;
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

static int add_to(struct selection_list *list, char *item)
{
    int err = item ? selection_add(list, item) : -ENOMEM;
    free(item);
    return err ? (say_error(NULL, "out of memory"), EXIT_USAGE) : EXIT_DONE;
}

static int read_pattern(const struct flag_line *line, const char *text, void *field)
{
    (void)line;
    char *item = strdup(text);
    if (item)
        cut_template_args(item);
    return add_to(field, item);
}

static int read_path(const struct flag_line *line, const char *text, void *field)
{
    (void)line;
    return add_to(field, from_root(text));
}

static int read_frame(const struct flag_line *line, const char *text, void *field)
{
    (void)line;
    char **frame = field;
    free(*frame);
    *frame = strdup(text);
    if (*frame)
        cut_template_args(*frame);
    return *frame ? EXIT_DONE : EXIT_USAGE;
}

static int read_jobs(const struct flag_line *line, const char *text, void *field)
{
    char *end = NULL;
    long jobs = strtol(text, &end, 10);
    if (end == text || *end != '\0' || jobs < 1 || jobs > 4096)
        return say_usage(line->command, "-j needs a number of processes, as in -j4");
    *(int *)field = (int)jobs;
    return EXIT_DONE;
}

/* Flags that cargo gets as they are. */
#define CARGO_FLAG(name, word)                                                                     \
    static int read_##name(const struct flag_line *line, const char *text, void *field)            \
    {                                                                                              \
        (void)line;                                                                                \
        int status = add_to(field, strdup(word));                                                  \
        return status ? status : add_to(field, strdup(text));                                      \
    }
CARGO_FLAG(package, "--package")
CARGO_FLAG(bin, "--bin")
CARGO_FLAG(example, "--example")
CARGO_FLAG(test, "--test")
CARGO_FLAG(bench, "--bench")
CARGO_FLAG(features, "--features")
CARGO_FLAG(profile, "--profile")

#define CARGO(label, read) FLAG_READ(label, read, struct selection_list, cargo)
#define LIST(label, read, member) FLAG_READ(label, read, struct selection_list, selection.member)
const struct flag build_flags[] = {
    {.help =
         "Which functions (--fn, --file and --dir add; none of them: all of the project's own):"},
    {"--fn", "those with PAT in their name (`update`, `Parser::parse`)",
     LIST("PAT", read_pattern, fns), .complete = "function"},
    {"--exact", "PAT is the whole name, with or without namespace and class",
     FLAG_SWITCH(selection.exact)},
    {"--file", "those of this file; the end of its path is enough", LIST("PATH", read_path, files),
     .complete = "file"},
    {"--dir", "those of the files below this directory", LIST("DIR", read_path, dirs),
     .complete = "directory"},
    {"--skip", "but not this one", LIST("NAME", read_pattern, skips), .complete = "function"},
    {"--frame", "each call of FN is a frame; default: frames are detected",
     FLAG_READ("FN", read_frame, char *, selection.frame), .complete = "function"},
    {.help =
         "In a Cargo project (the same as for cargo; the release profile unless you name one):"},
    {"-p", "build only this package", CARGO("MEMBER", read_package)},
    {"--bin", "build only this program", CARGO("NAME", read_bin)},
    {"--example", "build only this example", CARGO("NAME", read_example)},
    {"--test", "build only this test", CARGO("NAME", read_test)},
    {"--bench", "build only this benchmark", CARGO("NAME", read_bench)},
    {"--features", "with these features", CARGO("LIST", read_features)},
    {"--profile", "with this profile of Cargo.toml", CARGO("NAME", read_profile)},
    {.help = ""},
    {"-j", "number of parallel processes; default: one per processor",
     FLAG_READ("N", read_jobs, int, jobs)},
    {"--verbose", "show the build's own output", FLAG_SWITCH(verbose)},
    {0},
};

#undef REQUEST
#define REQUEST struct request
struct request {
    struct driver driver;
    bool list_skipped;
};

static const struct flag flags[] = {
    {.include = build_flags},
    {"--list-skipped", "build, then print what was left out and why", FLAG_SWITCH(list_skipped)},
    {0},
};

int build_check(const char *command, const struct driver *d)
{
    const struct selection *s = &d->selection;
    if (s->exact && s->fns.count == 0)
        return say_usage(command, "--exact says how --fn is meant; there is no --fn");
    for (size_t i = 0; s->frame && i < s->skips.count; i++) {
        if (strcmp(s->frame, s->skips.items[i]) == 0)
            return say_usage(command, "%s is both the frame and skipped", s->frame);
    }
    return EXIT_DONE;
}

/* A build without a program is not a failure, but there is nothing to run yet. */
static void print_program(const struct records *r, const char *state)
{
    struct choice_list programs;
    choice_load(&programs, r, state);
    if (programs.count == 0)
        (void)say_error(PROGRAM_NONE_HINT, PROGRAM_NONE);
    else if (!isatty(STDOUT_FILENO))
        puts(programs.items[0].path);
    choice_release(&programs);
}

static int tell(const struct driver *d, bool list_skipped)
{
    struct records records;
    if (records_load(&records, d->state) != 0) {
        records_release(&records);
        return say_error(NULL, "out of memory");
    }
    int status = EXIT_DONE;
    if (!list_skipped || summary_list_skipped(d, &records) == 0) {
        status = summary_check(d, &records);
        if (status == EXIT_DONE && list_skipped)
            say("nothing was left out");
        if (status == EXIT_DONE)
            summary_show(d, &records);
        if (status == EXIT_DONE && !list_skipped)
            print_program(&records, d->state);
    }
    records_release(&records);
    return status;
}

static int build(void *request)
{
    struct request *q = request;
    struct driver *d = &q->driver;
    if (d->command && !d->command[0])
        return say_usage("build", "there is no build command after `--`");
    int status = build_check("build", d);
    if (status == EXIT_DONE)
        status = driver_build(d);
    return status == EXIT_DONE ? tell(d, q->list_skipped) : status;
}

static void release(void *request)
{
    driver_release(&((struct request *)request)->driver);
}

const struct command command_build = {
    .name = "build",
    .summary = "build the project with chosen functions instrumented",
    .usage = "piano build [OPTIONS] [-- BUILD COMMAND]",
    .about = "Builds the project with the chosen functions instrumented. piano detects the build "
             "(CMakeLists.txt, meson.build, Cargo.toml, Makefile, configure), or you name the "
             "command after "
             "`--`. All work happens under .piano/; the project's own files and build products are "
             "not touched.",
    .flags = flags,
    .notes = "When stdout is not a terminal, it gets the path of the program that `piano run` "
             "would start.",
    .examples =
        "piano build --fn update\npiano build --dir src/physics --skip vec3_add\npiano build --fn "
        "update -- make -C game debug\npiano build --fn update -- cc -O2 game.c -o game -lm",
    .words = {WORDS_AFTER_DASHES, FLAG_FIELD(char *const *, driver.command), "command", 0, NULL},
    .run = build,
    .release = release,
    COMMAND_REQUEST(),
};
