/* Parses command lines, and flags that several commands accept. */
#ifndef PIANO_TOOL_CLI_FLAGS_H
#define PIANO_TOOL_CLI_FLAGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tool/build/driver.h"
#include "tool/build/program.h"
#include "tool/report/heap.h"

/* A command line being parsed. */
struct flags {
    const char *command; /* for messages */
    int argc;
    char **argv;
    const char *const *names; /* all flags of the command, for suggestions; NULL-terminated */
    int at;                   /* index of the current word */
};

enum flag_taken {
    FLAG_BAD = -1, /* a usage error, already printed */
    FLAG_NO = 0,   /* not this one */
    FLAG_YES = 1,  /* accepted; `at` is its last word */
};

/* Is the word `--NAME VALUE` or `--NAME=VALUE`? */
enum flag_taken flags_value(struct flags *f, const char *name, const char **value);
/* The same for a number of at least MIN. */
enum flag_taken flags_number(struct flags *f, const char *name, double min, double *value);
/* The same for a time above zero with its unit (ns, us, ms or s), in nanoseconds. */
enum flag_taken flags_time(struct flags *f, const char *name, int64_t *ns);
/* Is the word exactly `--NAME`? Sets *VALUE. */
enum flag_taken flags_switch(const struct flags *f, const char *name, bool *value);

/* --output FILE or -o FILE. */
enum flag_taken flags_output(struct flags *f, const char **path);
/* --top N. */
enum flag_taken flags_top(struct flags *f, size_t *top);

/* --skip PATTERN, repeatable, and --no-skip: which frames of a heap recording are wrappers. */
enum flag_taken flags_skip(struct flags *f, struct heap_skip *skip);

/* --by FIGURE: sets *BY. CHURN: also accept churn. */
enum flag_taken flags_by(struct flags *f, bool churn, enum heap_by *by);
/* Handles a word that is not a known flag: stores it as the next of WORDS, up to MOST (TOO_MANY is
 * the message for more), or reports an unknown flag. Returns an exit status. */
int flags_word(const struct flags *f, const char *too_many, const char **words, size_t most);

/* Flags of `piano build`: the selection, -j and so on. */
enum flag_taken flags_build(struct flags *f, struct driver *d);
/* Flags of `piano run`: --duration, --kill-timeout and --every-call. */
enum flag_taken flags_run(struct flags *f, struct program_run *p);
/* Checks for contradicting flags. Returns an exit status. */
int flags_check_build(const struct flags *f, const struct driver *d);

/* Is WORD --help or -h? */
bool flags_is_help(const char *word);

/* For a word that no reader accepted: prints a usage error with the nearest of the command's
 * flags. */
int flags_unknown(const struct flags *f);

#endif
