/* Parses a gcc or clang command line: its steps, sources and output, and for each word the step
 * (preprocess, compile, link) it belongs to. */
#ifndef PIANO_TOOL_BUILD_ARGS_H
#define PIANO_TOOL_BUILD_ARGS_H

#include <stdbool.h>
#include <stddef.h>

#include "tool/build/words.h"

enum args_lang {
    LANG_NONE, /* not a source: an object, a library */
    LANG_C,
    LANG_CXX,
    LANG_ASM,
    LANG_OTHER, /* other sources, left alone: preprocessed, headers, other languages */
};

enum args_role {
    ARG_FLAG,       /* any step, or unknown: goes everywhere */
    ARG_PREPROCESS, /* -I, -D, -include: only needed to preprocess */
    ARG_DEPEND,     /* -M...: written by the preprocessing step */
    ARG_MODE,       /* -c, -S */
    ARG_OUTPUT,     /* -o */
    ARG_LANG,       /* -x */
    ARG_STRICT,     /* -Werror and the like: not for generated text */
    ARG_DROP,       /* by-products that only the original command makes (-save-temps) */
    ARG_LINK,       /* linker flags and libraries */
    ARG_INPUT,      /* any input other than C and C++ sources */
    ARG_SOURCE,     /* a C or C++ source */
};

struct arg {
    enum args_role role;
    size_t at;           /* index of the first word in `words` */
    size_t words;        /* number of words */
    enum args_lang lang; /* of inputs */
    const char *forced;  /* value of the -x that applies to an input; NULL: by suffix */
};

enum args_mode { ARGS_LINK, ARGS_COMPILE, ARGS_ASSEMBLE };

struct args {
    struct words words; /* the command, response files expanded */
    bool expanded;      /* response files were expanded */
    size_t command;     /* leading words that name the compiler (2 with a launcher: ccache cc) */
    struct arg *list;   /* everything after them, in order */
    size_t count;
    size_t sources; /* of role ARG_SOURCE */
    size_t foreign; /* inputs of LANG_ASM and LANG_OTHER */
    enum args_mode mode;
    bool cxx;            /* the driver is for C++ (g++): it treats .c files as C++ */
    bool clang;          /* the driver is clang */
    const char *output;  /* value of -o, or NULL */
    const char *std;     /* value of -std=, or NULL */
    const char *depfile; /* value of -MF, or NULL */
    bool depends;        /* -MD or -MMD */
    bool dep_target;     /* -MT or -MQ is given */
    bool by_products;    /* -save-temps and the like: files that only the original command makes */
    bool side_files;     /* writes files beside the object (coverage, split debug info) */
    bool shared, is_static, relocatable, sanitized;
    bool query;          /* compiles nothing to instrument: -E, --version, -fsyntax-only */
    const char *refusal; /* the word that requires sources to be compiled untouched, or NULL */
};

/* Returns 0 or -ENOMEM. ARGV[0] is the compiler. The caller releases A in any case. */
int args_parse(struct args *a, int argc, char *const argv[]);
void args_release(struct args *a);

/* The file name of an input. */
const char *args_input(const struct args *a, const struct arg *arg);
/* "dir/game.c" -> "game". The caller frees. */
char *args_stem(const char *path);
/* The file that the command makes from SOURCE (or links). The caller frees. */
char *args_output_of(const struct args *a, const struct arg *source);

/* The command that preprocesses SOURCE to standard output and writes its dependency file to the
 * same place as the whole command. */
void args_preprocess(const struct args *a, const struct arg *source, struct words *out);
/* The command that compiles TEXT, the preprocessed SOURCE, to OBJECT. OBJECT NULL: to the output of
 * the command itself. */
void args_compile(const struct args *a, const struct arg *source, const char *text,
                  const char *object, struct words *out);

#endif
