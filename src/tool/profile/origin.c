/* Decides whose code a frame is. Three things tell: the name of the function, the directory of its
 * source file, and the module it is in. Each may lower the origin; a frame is the user's own if
 * none does. docs/heap.md explains each rule.
 *
 *   name     functions of allocators and of standard libraries, and wrappers
 *   source   /usr/include, /rustc/HASH/library, the cache of cargo, site-packages and so on:
 *            code of libraries that is compiled into the program
 *   module   libraries in /usr and /lib, unless the program itself is there: if it was installed
 *            by a package (postgres, perl), its libraries are part of what is examined */
#include "tool/profile/origin.h"

#include <string.h>

#include "tool/profile/jitted.h"
#include "tool/util/paths.h"

#define COUNT(list) (sizeof(list) / sizeof(*(list)))

/* ---- plumbing, by name ---- */

static const char *const plumbing_modules[] = {
    "libc.so",     "libc-",       "libc.musl", "ld-linux",   "ld-musl",     "libstdc++.so",
    "libc++.so",   "libc++abi",   "libgcc_s",  "libpthread", "libpiano.so", "libjemalloc",
    "libtcmalloc", "libmimalloc", "libdl",     "libsupc++"};

static const char *const plumbing_functions[] = {
    "malloc",        "calloc",   "realloc",  "reallocarray",  "posix_memalign", "aligned_alloc",
    "memalign",      "valloc",   "pvalloc",  "strdup",        "strndup",        "__strdup",
    "__strndup",     "wcsdup",   "asprintf", "vasprintf",     "__asprintf",     "__vasprintf",
    "__libc_malloc", "getdelim", "getline",  "__getdelim",    "open_memstream", "realpath",
    "mmap",          "mmap64",   "__mmap",   "__libc_calloc", "__libc_realloc", "_start"};

static const char *const plumbing_prefixes[] = {
    "std::", "__gnu_cxx::", "__cxxabiv1::", "operator new"};

static bool begins_with_any(const char *text, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (*text == *list[i] && strncmp(text, list[i], strlen(list[i])) == 0)
            return true;
    return false;
}

/* Start of the qualified name in a demangled one: after the return type, which template
 * instances have. */
const char *profile_qualified(const char *name)
{
    const char *start = name;
    int depth = 0;
    for (const char *p = name; *p; p++) {
        if (strncmp(p, "operator", 8) == 0 && depth == 0)
            break;
        if (*p == '<' || *p == '{')
            depth++;
        else if ((*p == '>' || *p == '}') && depth > 0)
            depth--;
        else if (*p == '(' && depth == 0 && strncmp(p, "(anonymous", 10) != 0)
            break;
        else if (*p == ' ' && depth == 0 && strncmp(p, " namespace)", 11) != 0)
            start = p + 1;
    }
    while (*start == '*' || *start == '&')
        start++;
    return start;
}

bool profile_is_plumbing(const struct symbol_frame *frame)
{
    if (frame->python)
        return false; /* whatever its name */
    if (begins_with_any(frame->module, plumbing_modules, COUNT(plumbing_modules)) ||
        begins_with_any(profile_qualified(frame->function), plumbing_prefixes,
                        COUNT(plumbing_prefixes)))
        return true;
    for (size_t i = 0; i < COUNT(plumbing_functions); i++)
        if (strcmp(frame->function, plumbing_functions[i]) == 0)
            return true;
    return false;
}

/* ---- Rust and Go, by name ---- */

static const char *const rust_allocators[] = {
    "__rust_",      "__rdl_",           "__rg_", "alloc::alloc::", "<alloc::alloc::Global",
    "std::alloc::", "std::sys::alloc::"};
static const char *const rust_crates[] = {
    "alloc::", "core::", "std::", "hashbrown::", "rustc_demangle", "compiler_builtins::"};
static const char *const go_runtime[] = {"runtime.", "_cgo_", "x_cgo_", "crosscall"};

static bool ends_with(const char *text, const char *end)
{
    size_t len = strlen(text), wanted = strlen(end);
    return len >= wanted && strcmp(text + len - wanted, end) == 0;
}

/* Names of C++ end with their parameters. Other names may belong to Rust. */
static bool may_be_rust(const struct symbol_frame *f)
{
    return f->file ? ends_with(f->file, ".rs")
                   : !ends_with(f->function, ")") && !ends_with(f->function, ") const");
}

/* Whether the type or path at NAME is one of the standard library, or has no crate: `T`, `u8`. */
static bool is_standard_path(const char *name)
{
    static const char *const marks[] = {"&", "*const ", "*mut ", "mut ", "dyn ", "[", "(", "<"};
    for (size_t i = 0; i < COUNT(marks); i++)
        if (strncmp(name, marks[i], strlen(marks[i])) == 0) {
            name += strlen(marks[i]);
            i = (size_t)-1;
        }
    size_t crate = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
    return begins_with_any(name, rust_crates, COUNT(rust_crates)) ||
           strncmp(name + crate, "::", 2) != 0;
}

/* The trait in "<Type as Trait>::method"; NULL if there is none. */
static const char *trait_of(const char *name)
{
    int depth = 0;
    for (; *name; name++) {
        depth += *name == '<' || *name == '[' || *name == '(';
        depth -= (*name == '>' && name[-1] != '-') || *name == ']' || *name == ')';
        if (depth == 1 && strncmp(name, " as ", 4) == 0)
            return name + 4;
        if (depth == 0)
            return NULL;
    }
    return NULL;
}

/* A method of a trait is standard if both the type and the trait are: it may be in either crate. */
static bool is_rust_standard(const char *name)
{
    if (*name != '<')
        return begins_with_any(name, rust_crates, COUNT(rust_crates));
    const char *trait = trait_of(name);
    return trait ? is_standard_path(name + 1) && is_standard_path(trait)
                 : begins_with_any(name + 1, rust_crates, COUNT(rust_crates));
}

enum profile_origin origin_of_name(const struct symbol_frame *frame)
{
    const char *name = frame->function;
    if (frame->python)
        return ORIGIN_OWN;
    if (jitted_is_unnamed(frame))
        return ORIGIN_STANDARD;
    if (may_be_rust(frame)) {
        if (begins_with_any(name, rust_allocators, COUNT(rust_allocators)))
            return ORIGIN_PLUMBING;
        if (is_rust_standard(name))
            return ORIGIN_STANDARD;
    }
    if (profile_is_plumbing(frame))
        return ORIGIN_PLUMBING;
    return begins_with_any(name, go_runtime, COUNT(go_runtime)) ? ORIGIN_STANDARD : ORIGIN_OWN;
}

/* ---- directories ---- */

struct place {
    const char *part;
    enum profile_origin origin;
    bool is_start; /* at the start of the path, not anywhere in it */
};

/* The first that matches counts. */
static const struct place sources[] = {
    {"/include/c++/", ORIGIN_STANDARD, false},      /* libstdc++ and libc++ */
    {"/rustc/", ORIGIN_STANDARD, true},             /* as rustup delivers Rust */
    {"/rustlib/src/rust/", ORIGIN_STANDARD, false}, /* with the component rust-src */
    {"/usr/src/rustc-", ORIGIN_STANDARD, true},     /* as Debian builds Rust */
    {"library/std/src/", ORIGIN_STANDARD, true},    /* Rust, paths cut by a package */
    {"library/alloc/src/", ORIGIN_STANDARD, true},
    {"library/core/src/", ORIGIN_STANDARD, true},
    {"/cargo/registry/", ORIGIN_LIBRARY, false},
    {"/.cargo/registry/", ORIGIN_LIBRARY, false},
    {"/.cargo/git/checkouts/", ORIGIN_LIBRARY, false},
    {"/usr/local/go/src/", ORIGIN_STANDARD, true},
    {"/usr/lib/go-", ORIGIN_STANDARD, true},
    {"/usr/lib/go/", ORIGIN_STANDARD, true},
    {"/pkg/mod/", ORIGIN_LIBRARY, false}, /* modules of Go */
    {"<frozen ", ORIGIN_STANDARD, true},  /* Python */
    {"/site-packages/", ORIGIN_LIBRARY, false},
    {"/dist-packages/", ORIGIN_LIBRARY, false},
    {"/lib/python3", ORIGIN_STANDARD, false},
    {"/node_modules/", ORIGIN_LIBRARY, false},
    {"node:", ORIGIN_STANDARD, true},
    {"/usr/src/debug/", ORIGIN_LIBRARY, true},
    {"/usr/src/glibc", ORIGIN_PLUMBING, true},
    {"/usr/src/", ORIGIN_OWN, true}, /* the usual place in containers */
    {"/usr/local/include/", ORIGIN_LIBRARY, true},
    {"/usr/local/", ORIGIN_OWN, true},
    {"/usr/", ORIGIN_LIBRARY, true},
};

/* "/usr/bin/meson", "venv/bin/pytest": the script that starts an installed Python program. */
static bool is_installed_script(const char *file)
{
    const char *base = paths_base(file);
    return base - file >= 5 && strncmp(base - 5, "/bin/", 5) == 0 && !strchr(base, '.');
}

enum profile_origin origin_of_file(const char *file)
{
    for (size_t i = 0; file && i < COUNT(sources); i++) {
        const char *found = strstr(file, sources[i].part);
        if (found && (found == file || !sources[i].is_start))
            return sources[i].origin;
    }
    return file && is_installed_script(file) ? ORIGIN_LIBRARY : ORIGIN_OWN;
}

bool origin_is_system(const char *path)
{
    static const char *const own[] = {"/usr/local/", "/usr/src/"};
    static const char *const system[] = {"/usr/",       "/lib",        "/bin/", "/sbin/",
                                         "/nix/store/", "/gnu/store/", "/snap/"};
    return !begins_with_any(path, own, COUNT(own)) && begins_with_any(path, system, COUNT(system));
}

/* ---- all frames ---- */

static enum profile_origin lower(enum profile_origin a, enum profile_origin b)
{
    return a < b ? a : b;
}

/* IS_LIBRARY: the frame is in a module of the system that is not examined itself. */
static enum profile_origin origin_of(const struct profile *p, const struct symbol_frame *f,
                                     bool is_library)
{
    enum profile_origin origin = origin_of_name(f);
    if (origin > ORIGIN_WRAPPER && heap_skip_is(p, f))
        origin = ORIGIN_WRAPPER;
    if (p->skip.none)
        return origin >= ORIGIN_STANDARD ? ORIGIN_OWN : origin;
    if (is_library)
        origin = lower(origin, ORIGIN_LIBRARY);
    return lower(origin, origin_of_file(f->file));
}

/* Whether the module PATH was installed for an interpreter: a part of Python, or of a package. */
static bool is_extension(const char *path)
{
    static const char *const dirs[] = {"/lib-dynload/", "/site-packages/", "/dist-packages/",
                                       "/node_modules/"};
    for (size_t i = 0; i < COUNT(dirs); i++)
        if (strstr(path, dirs[i]))
            return true;
    return false;
}

void origin_set_all(struct profile *p)
{
    bool is_installed = origin_is_system(p->rec.header.program);
    for (size_t i = 0; i < p->pc_count; i++) {
        struct profile_pc *pc = &p->pcs[i];
        const char *module = pc->module ? pc->module->path : "";
        bool is_library = is_extension(module) || (!is_installed && origin_is_system(module));
        for (uint32_t k = 0; k < pc->count; k++)
            pc->frames[k].origin = (uint8_t)origin_of(p, &pc->frames[k], is_library);
    }
}
