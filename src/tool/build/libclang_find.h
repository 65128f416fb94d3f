/* Finds files on this machine that may be a libclang. */
#ifndef PIANO_TOOL_BUILD_LIBCLANG_FIND_H
#define PIANO_TOOL_BUILD_LIBCLANG_FIND_H

#include <stdbool.h>
#include <stddef.h>

struct libclang_file {
    char *path;
    unsigned version; /* of LLVM, from the path; 0: unknown */
};

struct libclang_files {
    struct libclang_file *list;
    size_t count, cap;
};

/* Newest version first; of equal versions, those in LD_LIBRARY_PATH first. Returns 0 or negative
 * errno; release F in any case. */
int libclang_find(struct libclang_files *f);
void libclang_files_free(struct libclang_files *f);

/* `libclang.so`, `libclang.so.13`, `libclang-19.so.19`: yes. `libclang-cpp.so`, `libclang.a`:
 * no. */
bool libclang_is_name(const char *name);

/* The highest number in PATH that is a version: llvm-19/, libclang-19, .so.19. */
unsigned libclang_path_version(const char *path);

#endif
