/* Addresses to functions, inlined ones included, with file and line.
 *
 * Every file is looked into the first time one of its addresses is asked for, and only the parts that are
 * needed. A file is used only if it is the one that was recorded: where the build-ids differ, its
 * symbols would be wrong, so the debug file with the right one is looked for instead, in the debug
 * directories and (DEBUGINFOD_URLS) on the user's servers. Nothing here trusts what a file says.
 *
 * Somebody may have put down what addresses meant when their files were there (`struct symbol_memory`). That is taken where it
 * says the line, so that no file has to be looked into; and where the files have nothing better to say. */
#ifndef PIANO_TOOL_SYMBOL_SYMBOL_H
#define PIANO_TOOL_SYMBOL_SYMBOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct symbols; /* one thread at a time */

/* A module as it was mapped: file address of a pc = pc - bias. */
struct symbol_module {
    const char *path; /* may end in " (deleted)"; "[vdso]" */
    const uint8_t *build_id;
    size_t build_id_len; /* 0: not known, so the file at `path` is taken for the right one */
    uint64_t bias;
    uint64_t start, end;
};

/* All strings live as long as `symbols`, and equal ones are the same pointer. They come from files and are
 * to be made safe before they are shown. */
struct symbol_frame {
    const char *function; /* demangled; "module+0xoffset" if there is nothing better; never NULL */
    const char *file;     /* NULL: unknown */
    unsigned line;        /* 0: unknown */
    bool inlined;         /* into the next frame */
    bool python;          /* a function of Python, by `recording_code` */
    const char *module;   /* last part of its path; "[unknown]" without a module; never NULL */
};

/* A module that could not be looked into, and why: "replaced by another build". */
struct symbol_complaint {
    const char *module; /* its path */
    const char *reason;
};

/* What is remembered of modules. */
struct symbol_memory {
    void *ctx;
    /* The number of MODULE, from 1; 0: nothing is remembered of it. */
    uint32_t (*module)(void *ctx, const struct symbol_module *module);
    /* The frames at file address ADDR of module NUMBER, MOST of them: how many, 0 when it is not remembered. Their strings are
     * copied, `module` and `python` not looked at. */
    size_t (*find)(void *ctx, uint32_t number, uint64_t addr, struct symbol_frame *frames,
                   size_t most);
};

/* NULL: out of memory. */
struct symbols *symbols_new(void);
void symbols_free(struct symbols *s);

/* Frames of PC in MODULE (NULL: unknown address), innermost first: inlined ones, then the function
 * itself. PC is already the call (return address - 1). Returns their number (>= 1). Cached. */
size_t symbols_resolve(struct symbols *s, const struct symbol_module *module, uint64_t pc,
                       const struct symbol_frame **frames);

/* Called with what is being done whenever that may take long. WHAT names the module as the recording
 * does (make it safe), and is gone after the call. */
void symbols_progress(struct symbols *s, void (*say)(void *ctx, const char *what), void *ctx);

/* Where separate debug files are: directories, colons between; "/usr/lib/debug" unless told. */
void symbols_debug_dirs(struct symbols *s, const char *dirs);

/* Before the first address is asked for. */
void symbols_remember(struct symbols *s, const struct symbol_memory *memory);
/* No server is asked from now on. */
void symbols_offline(struct symbols *s);
/* Is MODULE, one of whose addresses was asked for, a file that could be looked into? */
bool symbols_has(struct symbols *s, const struct symbol_module *module);

/* Modules asked for so far that could not be looked into. LIST is valid until the next call to
 * `symbols_resolve`. Returns their number. */
size_t symbols_complaints(const struct symbols *s, const struct symbol_complaint **list);

#endif
