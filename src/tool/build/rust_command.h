/* A command that runs rustc. */
#ifndef PIANO_TOOL_BUILD_RUST_COMMAND_H
#define PIANO_TOOL_BUILD_RUST_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "tool/build/words.h"

struct rust_command {
    struct words words; /* without response files: with the words in them */
    size_t root;        /* index of the root file; 0: none */
    bool is_long;       /* it has response files, as it is too long for the kernel */
};

/* 0 or negative errno. The caller releases C in any case. */
int rust_command_read(struct rust_command *c, char *const argv[]);
void rust_command_release(struct rust_command *c);

/* The word that names the root file, or NULL. */
const char *rust_command_root(const struct rust_command *c);
/* Is there a word FLAG, or FLAG=VALUE? */
bool rust_command_has(const struct rust_command *c, const char *flag);
/* The value of FLAG, or NULL. */
const char *rust_command_value(const struct rust_command *c, const char *flag);

enum rust_command_kind {
    RUST_COMMAND_AS_IS,
    RUST_COMMAND_CHECK, /* without what it would write */
};
/* Adds its words to W. ROOT, if not NULL, takes the place of an absolute root file. */
void rust_command_words(struct words *w, const struct rust_command *c, enum rust_command_kind kind,
                        const char *root);
/* Replaces the words of a long command by a response file below STATE, until rust_command_unpack. */
int rust_command_pack(struct words *w, const struct rust_command *c, const char *state);
void rust_command_unpack(const struct words *w, const struct rust_command *c);

/* The list of dependencies that the command wrote names files below ROOT, if its root file does: names
 * those in MIRROR instead. */
void rust_command_fix_dependencies(const struct rust_command *c, const char *root,
                                   const char *mirror);

#endif
