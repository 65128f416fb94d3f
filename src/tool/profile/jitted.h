/* Names of code outside of all files, which the program made while it ran (JIT).
 *
 * `piano record` stores them in the recording. Without them, the files of the program's runtime are
 * read if they still exist (tool/symbol/jit.h). */
#ifndef PIANO_TOOL_PROFILE_JITTED_H
#define PIANO_TOOL_PROFILE_JITTED_H

#include "tool/load/recording.h"
#include "tool/symbol/symbol.h"

/* "[JIT]", the same pointer in all frames. */
extern const char jitted_module[];

struct jitted;

/* NULL: out of memory. REC must outlive it. Reads the files of the runtimes unless REC has names. */
struct jitted *jitted_new(const struct recording *rec);
void jitted_free(struct jitted *j);

/* Whether PC is in code outside of files. M is its module at GENERATION, or NULL. */
bool jitted_is(const struct recording_module *m, uint64_t pc, uint64_t generation);
/* Whether the name of FRAME is that of all JIT code without names. */
bool jitted_is_unnamed(const struct symbol_frame *frame);
/* The frame at PC in STACK of REC. Code without a name has one name for the whole process. */
struct symbol_frame jitted_resolve(struct jitted *j, uint32_t stack, uint64_t pc);

/* A stack of which some samples were taken in one function and some in another, at the same
 * addresses, becomes several. REC is the one of `jitted_new`. 0 or -ENOMEM. */
int jitted_split(struct jitted *j, struct recording *rec);

/* A function that was at an address. */
struct jitted_meaning {
    uint64_t since, until;
    const char *function, *file; /* FILE may be NULL */
    uint32_t pid, line;
};

/* Fills in up to MOST functions that the files have for PC, those first that count. Returns their
 * number. */
size_t jitted_meanings(struct jitted *j, uint64_t pc, struct jitted_meaning *out, size_t most);
/* Whether any file with names was found. */
bool jitted_has_files(const struct jitted *j);
/* Why the names in a file were not used, safe to print; NULL: no reason. */
const char *jitted_complaint(const struct jitted *j);

#endif
