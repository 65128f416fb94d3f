/* The program and the libraries of a running process, read from its memory: no question of which
 * file a path means in its container, or whether the file still exists. */
#ifndef PIANO_TOOL_ATTACH_MODULES_H
#define PIANO_TOOL_ATTACH_MODULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct modules_symbol {
    const char *name;
    uint64_t start, end;
};

struct module {
    char *path; /* in the process; "[vdso]" */
    uint64_t start, end;
    uint64_t bias;
    uint64_t entry;
    uint64_t code_start, code_end; /* the mapping with its code; the last if there are several */
    bool is_program;
    bool is_read;                   /* its symbols were read */
    struct modules_symbol *symbols; /* that it defines; unsorted */
    size_t symbol_count;
    char *strings;
};

struct modules {
    struct module *list;
    size_t count;
};

/* Returns 0 or negative errno. */
int modules_read(struct modules *m, pid_t pid);
void modules_release(struct modules *m);

struct module *modules_at(const struct modules *m, uint64_t address);
/* The first module whose path has BASE as its last component, or begins with it and a `.` or `-`. */
struct module *modules_named(const struct modules *m, const char *base);
/* The function NAME of MODULE; NULL if it defines none. Reads its symbols at the first call. */
const struct modules_symbol *module_find(struct module *module, pid_t pid, const char *name);
/* Is ADDRESS in a function of one of NAMES, which is NULL-terminated? */
bool module_is_in(struct module *module, pid_t pid, uint64_t address, const char *const *names);

#endif
