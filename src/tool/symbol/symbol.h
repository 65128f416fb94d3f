/* Maps addresses to functions, including inlined ones, with file and line.
 *
 * A file is opened when one of its addresses is first resolved, and only the needed parts are read.
 * A file is used only if it is the recorded one. If its build-id differs, its symbols would be
 * wrong, so a debug file with the right build-id is searched in the debug directories and, with
 * DEBUGINFOD_URLS, on the user's servers. Nothing here trusts the contents of a file.
 *
 * Names can also come from an earlier look-up that was stored while the files still existed
 * (`struct symbol_memory`). They are used if they include the line, so that no file has to be
 * opened, and if the files give no better answer. */
#ifndef PIANO_TOOL_SYMBOL_SYMBOL_H
#define PIANO_TOOL_SYMBOL_SYMBOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct symbols; /* not thread-safe */

/* A module as mapped: file address of a pc = pc - bias. */
struct symbol_module {
    const char *path; /* may end in " (deleted)"; "[vdso]" */
    const uint8_t *build_id;
    size_t build_id_len; /* 0: unknown, so the file at `path` is assumed to be the right one */
    uint64_t bias;
    uint64_t start, end;
};

/* All strings live as long as `symbols`, and equal strings have equal pointers. They come from
 * files: make them safe before printing. */
struct symbol_frame {
    const char *function; /* demangled; "module+0xoffset" if unknown; never NULL */
    const char *file;     /* NULL: unknown */
    unsigned line;        /* 0: unknown */
    bool inlined;         /* into the next frame */
    bool python;          /* a Python function, from `recording_code` */
    uint8_t origin;       /* set by profile/origin.c, which knows whose code it is */
    const char *module;   /* last component of its path; "[unknown]" without a module; never NULL */
};

/* A module that could not be read, and why: "replaced by another build". */
struct symbol_complaint {
    const char *module; /* its path */
    const char *reason;
};

/* Stored names of modules. */
struct symbol_memory {
    void *ctx;
    /* The number of MODULE, from 1; 0: nothing is stored. */
    uint32_t (*module)(void *ctx, const struct symbol_module *module);
    /* Fills in up to MOST frames at file address ADDR of module NUMBER. Returns their number, 0
     * when nothing is stored. The caller copies the strings and ignores `module` and `python`. */
    size_t (*find)(void *ctx, uint32_t number, uint64_t addr, struct symbol_frame *frames,
                   size_t most);
};

/* NULL: out of memory. */
struct symbols *symbols_new(void);
void symbols_free(struct symbols *s);

/* Frames of PC in MODULE (NULL: unknown address), innermost first: inlined functions, then the
 * function itself. For a return address, the caller has already subtracted 1 from PC. Returns their
 * number (>= 1). Cached. */
size_t symbols_resolve(struct symbols *s, const struct symbol_module *module, uint64_t pc,
                       const struct symbol_frame **frames);

/* SAY is called before work that may take long. WHAT contains the module's name from the recording
 * (make it safe) and is valid only during the call. */
void symbols_progress(struct symbols *s, void (*say)(void *ctx, const char *what), void *ctx);

/* Directories with separate debug files, separated by colons; default "/usr/lib/debug". */
void symbols_debug_dirs(struct symbols *s, const char *dirs);

/* Call this before the first address is resolved. */
void symbols_remember(struct symbols *s, const struct symbol_memory *memory);
/* Disables debuginfod. */
void symbols_offline(struct symbols *s);
/* Was the file of MODULE read? Call this after resolving one of its addresses. */
bool symbols_has(struct symbols *s, const struct symbol_module *module);

/* Modules that were needed but could not be read. LIST is valid until the next call to
 * `symbols_resolve`. Returns their number. */
size_t symbols_complaints(const struct symbols *s, const struct symbol_complaint **list);

#endif
