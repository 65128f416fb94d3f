/* The files of a module: the one that was recorded, or a debug file with the same build-id.
 *
 * Every file is opened here and nowhere else: regular files only, and never so that it could block. */
#ifndef PIANO_TOOL_SYMBOL_DEBUGFILE_H
#define PIANO_TOOL_SYMBOL_DEBUGFILE_H

#include <elfutils/libdwfl.h>

#include "tool/symbol/debuginfod.h"

enum { DEBUGFILE_ID_MAX = 64 };

struct build_id {
    uint8_t bytes[DEBUGFILE_ID_MAX];
    size_t len; /* 0: none */
};

/* Where to look. */
struct debugfile_search {
    const char *dirs; /* colons between */
    struct debuginfod debuginfod;
};

/* A descriptor of the regular file PATH; or negative errno, -ENODEV when it is something else. */
int debugfile_open(const char *path);
/* Build-id of the ELF program, library or debug file FD; 0, or -ENOEXEC when it is none of these. */
int debugfile_id(int fd, struct build_id *id);
/* Same id? LEN bytes are known; ids longer than a recording has room for are compared that far. */
bool debugfile_same_id(const struct build_id *id, const uint8_t *known, size_t len);

/* A file with build-id ID: from the debug directories, then from debuginfod. *PATH (PATH_MAX bytes)
 * is where; empty when that is not known. A descriptor or -1. */
int debugfile_by_id(struct debugfile_search *search, const struct build_id *id, const char *what,
                    char *path);

/* For Dwfl_Callbacks; the user data of the module is its `struct debugfile_search`. */
int debugfile_find(Dwfl_Module *mod, void **userdata, const char *modname, Dwarf_Addr base,
                   const char *file_name, const char *debuglink_file, GElf_Word debuglink_crc,
                   char **debuginfo_file_name);

#endif
