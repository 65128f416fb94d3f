/* The files of a module: the recorded one, or a debug file with the same build-id.
 *
 * Only these functions open files. They open only regular files, and never block. */
#ifndef PIANO_TOOL_SYMBOL_DEBUGFILE_H
#define PIANO_TOOL_SYMBOL_DEBUGFILE_H

#include <elfutils/libdwfl.h>

#include "tool/symbol/debuginfod.h"

enum { DEBUGFILE_ID_MAX = 64 };

struct build_id {
    uint8_t bytes[DEBUGFILE_ID_MAX];
    size_t len; /* 0: none */
};

/* Where to search. */
struct debugfile_search {
    const char *dirs; /* separated by colons */
    struct debuginfod debuginfod;
};

/* Reads the build-id of the ELF program, library or debug file FD. Returns 0, or -ENOEXEC for any
 * other file. */
int debugfile_id(int fd, struct build_id *id);
/* Is ID the KNOWN build-id of LEN bytes? A recording truncates long build-ids, so only LEN bytes of
 * those are compared. */
bool debugfile_same_id(const struct build_id *id, const uint8_t *known, size_t len);

/* Finds a file with build-id ID in the debug directories, then with debuginfod. PATH (PATH_MAX
 * bytes) receives its path; empty when unknown. Returns a descriptor or -1. */
int debugfile_by_id(struct debugfile_search *search, const struct build_id *id, const char *what,
                    char *path);

/* For Dwfl_Callbacks. The user data of the module is its `struct debugfile_search`. */
int debugfile_find(Dwfl_Module *mod, void **userdata, const char *modname, Dwarf_Addr base,
                   const char *file_name, const char *debuglink_file, GElf_Word debuglink_crc,
                   char **debuginfo_file_name);

#endif
