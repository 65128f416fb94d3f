/* The symbol table of the executable that this process runs, read from its file. */
#ifndef PIANO_TARGET_ENTRY_SYMBOLS_H
#define PIANO_TARGET_ENTRY_SYMBOLS_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct piano__symbols {
    const char *file; /* mapped */
    size_t file_len;
    const Elf64_Sym *list;
    size_t count;
    const char *names; /* NUL-terminated as a whole */
    size_t names_len;
    uintptr_t bias;                /* address in memory - address in the file */
    uintptr_t code_low, code_high; /* the executable segments */
    uintptr_t image_low;           /* the start of the first segment */
};

/* Returns 0 or a negative errno: -ENODATA if the executable has no symbol table, -ENOEXEC if the
 * file is not the one that runs or is damaged. Close it only after success. */
int piano__symbols_open(struct piano__symbols *s);
void piano__symbols_close(struct piano__symbols *s);

/* Returns the name of symbol I, which may be empty. */
const char *piano__symbols_name(const struct piano__symbols *s, size_t i);
/* Returns the address of symbol I if it is code in this process, else 0. */
uintptr_t piano__symbols_code(const struct piano__symbols *s, size_t i);

#endif
