/* A recording with names: opened once, named once. Reports, exports and the page read it.
 *
 * A site is the place that allocates memory: the innermost frame of a stack that is in the user's
 * own code (see `sites.c`). It is identified by function, file, line and the calling function. All
 * stacks of a site form one row. */
#ifndef PIANO_TOOL_PROFILE_PROFILE_H
#define PIANO_TOOL_PROFILE_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tool/load/recording.h"
#include "tool/symbol/symbol.h"
#include "tool/util/map.h"

enum {
    PROFILE_MAX_INLINES = 32, /* frames of one address, including the function itself */
    PROFILE_MAX_PCS = 1 << 20,
    PROFILE_MAX_FRAMES = PIANO_MAX_FRAMES * PROFILE_MAX_INLINES,
};

/* An address in a module, with names. */
struct profile_pc {
    uint64_t pc; /* address of the call */
    const struct recording_module *module;
    struct symbol_frame *frames; /* innermost first */
    uint32_t count;
};

struct profile_stack {
    uint32_t *pcs; /* indices in `pcs` of the profile; NULL: no samples */
    uint32_t depth;
    uint32_t site;
    uint32_t site_frame;   /* index of the site's frame, including inlined frames */
    uint32_t caller_frame; /* frame of its caller, in another function; PROFILE_NO_FRAME: none */
};
#define PROFILE_NO_FRAME UINT32_MAX

struct heap_site {
    const char *function, *file, *module; /* file may be NULL */
    unsigned line;
    const char *caller; /* the calling function; NULL: none */
    bool mmap;
    struct recording_sum sum;
    uint32_t first, stacks; /* its stacks: `stacks` entries of `site_stacks`, from FIRST on */
};

enum { HEAP_SKIPS = 64 };

/* Wrappers of malloc, in addition to the well-known ones. */
struct heap_skip {
    const char *patterns[HEAP_SKIPS]; /* shell patterns; not owned */
    size_t count;
    bool none; /* the innermost frame outside of the C and C++ libraries is the site */
};

enum { HEAP_FOUND = 64 };

/* Functions that the recording shows to be wrappers (wrappers.c). */
struct heap_found {
    char *names[HEAP_FOUND];
    size_t count;
};

struct jitted;

enum profile_instrument { PROFILE_HEAP = 1, PROFILE_CPU = 2, PROFILE_EVENTS = 4 };

/* Notices that were printed, so that each is printed once. */
struct profile_said {
    bool reading;      /* about the file */
    bool samples;      /* about CPU samples that are missing */
    size_t complaints; /* about modules without names: how many */
    bool jitted;       /* about JIT code without names */
};

struct profile {
    struct recording rec;
    unsigned instruments; /* enum profile_instrument; see `profile_instruments` */
    struct profile_said said;
    struct symbols *symbols;
    struct jitted *jitted; /* names of code outside of files */
    bool shares_symbols;   /* they belong to the caller */
    struct profile_pc *pcs;
    size_t pc_count, pc_cap;
    struct map pc_index;          /* of `pcs`, by a hash of address and module */
    struct profile_stack *stacks; /* in the order of `rec` */
    struct heap_site *sites;
    size_t site_count;
    uint32_t *site_stacks; /* numbers of stacks, by site */
    struct heap_skip skip;
    struct heap_found found;
    const char *wrapper; /* a wrapper that was skipped to find a site; NULL: none */
    const char *library; /* the same for a function of a library */
};

/* The figure to show. Those from FIGURES_OF_HEAP on are CPU samples, in nanoseconds. */
enum figure {
    FIGURE_LIVE,
    FIGURE_ALLOCATED,
    FIGURE_PEAK,
    FIGURE_CHURN,
    FIGURES_OF_HEAP,
    FIGURE_CPU = FIGURES_OF_HEAP,
    FIGURE_OFF_CPU,
    FIGURES
};
extern const char *const figure_names[FIGURES]; /* "live", ... */
/* Formats a figure into TEXT of UNITS_LEN. */
const char *figure_text(char *text, double figure, enum figure by);
double figure_value(const struct recording_sum *sum, enum figure by);

/* The instruments of a recording, from its header; 0 if the header does not name them. Without the
 * heap if its figures are not known (load/own.h). */
unsigned profile_instruments(const struct recording *rec);
/* Reads the header of a recording: enough for `rec.header` and `instruments`. 0, or negative errno
 * with ERROR filled. */
int profile_peek(struct profile *p, const char *path, struct run_error *error);
/* The same with the further processes of the recording (load/family.h). PROCESS: name or number of
 * those that are wanted; NULL: all. */
int profile_peek_all(struct profile *p, const char *path, const char *process,
                     struct run_error *error);
/* Makes P use SYMBOLS of the caller, who reads the recording again and again while it is written.
 * Call it before `profile_read`. If the recording has stored names, these are used. */
void profile_share(struct profile *p, struct symbols *symbols);
struct symbols *profile_names_new(void); /* NULL: out of memory */
void profile_names_free(struct symbols *names);
/* Reads the rest, without names; shows progress on stderr. Closes P if that fails. */
int profile_read(struct profile *p, struct run_error *error);
/* The same, but only what is not in SEEN, and no events (`recording_read_new`). */
int profile_read_new(struct profile *p, struct recording_seen *seen, struct run_error *error);
/* Does both. */
int profile_open(struct profile *p, const char *path, struct run_error *error);
/* The same with further processes, for the samples and events in RANGE. */
int profile_open_range(struct profile *p, const char *path, const char *process,
                       const struct range_asked *range, struct run_error *error);
/* Resolves the frames of STACK, once. 0 or -ENOMEM. */
int profile_name_stack(struct profile *p, uint32_t stack);
void profile_close(struct profile *p);

/* Module name of the program itself: the last part of its path. */
const char *profile_program(const struct profile *p);
/* Returns NAME, except for an address in PROGRAM without a name: for "program+0x1139" it returns
 * "+0x1139". This makes two recordings comparable even if the files of their programs have
 * different names. */
const char *profile_name_within(const char *name, const char *program);

/* The only frame of a stack that is not known. */
extern const struct symbol_frame profile_no_stack;
/* Writes the frames of a stack, innermost first, into FRAMES of PROFILE_MAX_FRAMES. An unknown
 * stack has one frame. Returns the number of frames. */
size_t profile_frames(const struct profile *p, uint32_t stack, const struct symbol_frame **frames);

/* Names the stacks of allocations and assigns them to sites. Skips the wrappers of SKIP, too, if it
 * is not NULL. 0, or negative errno with ERROR filled. */
int profile_make_sites(struct profile *p, const struct heap_skip *skip, struct run_error *error);
/* Whether STACK allocated memory: only such stacks have sites. */
bool profile_has_site(const struct profile *p, uint32_t stack);
/* Whether this frame is plumbing between a program and its memory. */
bool profile_is_plumbing(const struct symbol_frame *frame);
/* Whether NAME is a function of an allocator that may be in the executable (allocators.c). */
bool allocator_is_function(const char *name);
/* Whether FRAME is a wrapper. */
bool heap_skip_is(const struct profile *p, const struct symbol_frame *frame);
/* Makes the sites of both sides with the wrappers that were found in either, so that they can be
 * compared. 0 or -ENOMEM. */
int profile_share_wrappers(struct profile sides[2]);
/* Removes the frames inside the sites from the stacks. */
void heap_trim(struct profile *p);
/* PATTERN must outlive SKIP. 0, or -E2BIG. */
int heap_skip_add(struct heap_skip *skip, const char *pattern);
/* Start of the qualified name in a demangled one, after the return type. */
const char *profile_qualified(const char *name);
/* Indices of all sites with a figure above 0, largest first; malloc'd, or NULL. */
uint32_t *heap_sorted(const struct profile *p, enum figure by, size_t *count);

/* ---- text ---- */

int64_t figure_whole(double v); /* rounded, within int64_t */
const char *figure_bytes(char *text, double v);
/* A name that is safe to show, with " (mmap)" for mappings; malloc'd, or NULL. */
char *profile_safe_name(const char *function, bool mmap);

/* ---- the callers of a site ---- */

/* Of several ways to a site, the callers shown are those of the stack that leads by the figure that
 * orders the table. */
typedef double stack_figure(const void *ctx, const struct profile *p, uint32_t stack);

/* The stack of SITE that leads by OF; of equal ones, the one that allocated more. */
uint32_t heap_leader_by(const struct profile *p, const struct heap_site *site, stack_figure *of,
                        const void *ctx);
/* The same by a figure of the whole recording. */
uint32_t heap_leader(const struct profile *p, const struct heap_site *site, enum figure by);

enum { HEAP_CALLERS = 2 };

/* Fills in the functions that called the site of STACK, nearest first. Returns how many. */
size_t heap_callers(const struct profile *p, uint32_t stack, const char *callers[HEAP_CALLERS]);
/* "f < g (3 ways)": the callers of SITE in STACK; malloc'd, or NULL. */
char *heap_callers_text(const struct profile *p, const struct heap_site *site, uint32_t stack);

#endif
