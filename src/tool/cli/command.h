/* A command and its flags, each declared in one place. The parser, --help, the suggestions for
 * typing errors and the completions of all shells work from these tables alone. CONTRIBUTING.md
 * says how to add a flag or a command. */
#ifndef PIANO_TOOL_CLI_COMMAND_H
#define PIANO_TOOL_CLI_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct flag_line;

/* Stores TEXT, the value of a flag, in FIELD of the request. TEXT is NULL for a switch, and for an
 * optional value that is not given. Prints a usage error. Returns an exit status. */
typedef int flag_reader(const struct flag_line *line, const char *text, void *field);

/* One flag. An entry without name is a heading of the help, or includes another table. A table ends
 * with an empty entry. */
struct flag {
    const char *name;     /* "--top"; the value of a name with one dash may follow at once: -j4 */
    const char *help;     /* wrapped when it is printed */
    const char *alias;    /* "-o" */
    const char *value;    /* name of the value, "N"; "[=N]" is optional; NULL: a switch */
    flag_reader *read;    /* NULL: another line of help for a flag that is declared above */
    size_t field;         /* offset in the request */
    double least;         /* the smallest number */
    const char *words;    /* the possible values, separated by blanks */
    const char *complete; /* how a shell completes the value, see tools/completion */
    const char *others;   /* flags that it cannot be combined with, separated by blanks */
    const char *clash;    /* the message if it is */
    const struct flag *include; /* a table whose fields are relative to `field` */
};

/* The type of a command's request, unless its file defines another one. */
#ifndef REQUEST
#define REQUEST struct request
#endif
/* The offset of MEMBER, which must be a TYPE, in the request. */
#define FLAG_FIELD(type, member)                                                                   \
    (offsetof(REQUEST, member) +                                                                   \
     0 * sizeof(                                                                                   \
             char[__builtin_types_compatible_p(type, __typeof__(((REQUEST *)0)->member)) ? 1       \
                                                                                         : -1]))
#define FLAG_READ(label, reader, type, member)                                                     \
    .value = (label), .read = (reader), .field = FLAG_FIELD(type, member)
#define FLAG_SWITCH(member) FLAG_READ(NULL, flag_switch, bool, member)
#define FLAG_TEXT(label, member) FLAG_READ(label, flag_text, const char *, member)
#define FLAG_COUNT(member) FLAG_READ("N", flag_count, size_t, member), .least = 1
#define FLAG_TIME(member) FLAG_READ("TIME", flag_time, int64_t, member)
/* The flags --from and --to, for a member `range` (struct range_asked). */
#define FLAGS_RANGE                                                                                \
    {"--from",                                                                                     \
     "from here on: time since the start, or before the end if negative: 10s, 250ms, -2s",         \
     FLAG_READ("TIME", flag_range, struct range_end, range.from)},                                 \
    {                                                                                              \
        "--to", "up to here", FLAG_READ("TIME", flag_range, struct range_end, range.to)            \
    }
/* The flag --process, for a member `process`. */
#define FLAG_PROCESS                                                                               \
    {                                                                                              \
        "--process", "of a recording of several processes: those with this name or number alone",  \
            FLAG_TEXT("NAME|PID", process)                                                         \
    }
#define FLAG_SECONDS(member, min) FLAG_READ("S", flag_number, double, member), .least = (min)

flag_reader flag_switch, flag_text;
flag_reader flag_number; /* a double of at least `least` */
flag_reader flag_count;  /* the same, as a size_t */
flag_reader flag_time;   /* with its unit (ns, us, ms or s), above zero, in nanoseconds */
flag_reader flag_range;  /* an end of a range of time, for struct range_end */
flag_reader flag_skip;   /* a wrapper of malloc, for struct heap_skip; may be repeated */
flag_reader flag_by;     /* one of `words` as an enum figure, in an int */

/* Words that are not flags. */
struct command_words {
    enum {
        WORDS_LISTED,       /* up to `most`, in an array of const char * */
        WORDS_AFTER_DASHES, /* only after `--`; the field is a char ** */
        WORDS_ARE_PROGRAM,  /* from the first word that is not a flag on, or after `--` */
    } kind;
    size_t field; /* offset in the request */
    const char *complete;
    size_t most;
    const char *too_many; /* the message for more */
};

struct command {
    const char *name, *summary;
    const char *usage; /* one line per form */
    const char *about;
    const struct flag *flags;
    const char *notes;    /* printed after the flags */
    const char *examples; /* one per line */
    struct command_words words;
    int (*run)(void *request);      /* returns the exit status of the tool */
    void (*release)(void *request); /* frees what the flags hold, also after a usage error */
    size_t size;                    /* of the request */
    const void *defaults;
};
#define COMMAND_REQUEST(...)                                                                       \
    .size = sizeof(REQUEST), .defaults = &(const REQUEST)                                          \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

/* All commands, in the order of `piano help`. */
#define COMMANDS(X)                                                                                \
    X(profile)                                                                                     \
    X(build)                                                                                       \
    X(run) X(record) X(top) X(snapshot) X(report) X(diff) X(export) X(view) X(list) X(tag) X(doctor)
#define COMMAND_DECLARE(name) extern const struct command command_##name;
COMMANDS(COMMAND_DECLARE)

/* Flags that `piano profile` takes too. The requests are struct driver, struct program_run and
 * struct report_request. */
extern const struct flag build_flags[], run_flags[], report_flags[];

enum { FLAGS_MOST = 64 }; /* of one command, with headings */

/* An entry of a command's tables. */
struct flag_entry {
    const struct flag *flag;
    size_t field; /* offset in the request of the command */
};

/* Lists the entries of TABLE, and of the tables it includes. Returns their number. */
size_t flags_list(const struct flag *table, struct flag_entry entries[FLAGS_MOST]);

/* Is WORD one of LIST, which is separated by blanks? */
bool flags_has(const char *list, const char *word);

/* A command line being parsed. */
struct flag_line {
    const char *command; /* for messages */
    int argc;
    char **argv;
    int at;                  /* index of the current word */
    const struct flag *flag; /* the flag being read */
    const char *name;        /* as typed */
    char safe[64];           /* its value, for messages */
    struct flag_entry entries[FLAGS_MOST];
    size_t entry_count;
    bool given[FLAGS_MOST];
};

/* Reads ARGV into REQUEST. *HELP: stopped at --help. Prints usage errors. Returns an exit
 * status. */
int flags_parse(const struct command *c, int argc, char **argv, void *request, bool *help);
/* Is WORD --help or -h? */
bool flags_is_help(const char *word);

/* Prints the help of a command. */
void help_print(const struct command *c);
/* Prints the rows of a command for the completions of the shells. */
void complete_print(const struct command *c);

#endif
