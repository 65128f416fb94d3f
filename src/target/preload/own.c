/* Finds the functions of an allocator in the executable by their names in its symbol table, and
 * replaces their entries (entry/patch.h).
 *
 * It is all or nothing: if one function cannot be hooked, blocks would be allocated or freed unseen,
 * and all figures would be wrong. Then the allocator is hidden, and the recording says so.
 *
 * WHICH FUNCTIONS. Names with the prefixes of jemalloc (`je_`, `_rjem_`, or what comes before
 * `mallocx`), mimalloc and tcmalloc are what they seem. `malloc` without a prefix is the allocator if
 * libraries call it too (`is_first`), or if no other malloc is used: a program may have a local
 * function of that name. C++'s operators are hooked beside an allocator.
 *
 * RUST. A global allocator written in Rust is part of the same program as its callers, and the
 * compiler inlines it into them. So it cannot be hooked, and is hidden. Those that call one of the
 * allocators above, or malloc, are seen there. */
#include "target/preload/own.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <string.h>

#include "target/entry/patch.h"
#include "target/entry/symbols.h"
#include "target/preload/own_hooks.h"
#include "target/span/count.h"

enum { MOST_FUNCTIONS = PIANO_PATCH_MOST, MOST_PARTS = 256, MOST_PREFIXES = 6, PREFIX_LEN = 32 };
enum { NEXT_AT_MOST = 64 }; /* bytes after a function that matter */

/* The functions of one allocator have one prefix and belong to one family. */
enum family { PLAIN, PREFIXED, MIMALLOC, TCMALLOC, CXX, FAMILIES };

struct known {
    const char *name;
    enum piano__own_what what;
};
#define KNOWN(name, what) {#name, PIANO_OWN_##what},
static const struct known of_malloc[] = {PIANO_ALLOCATOR_MALLOC(KNOWN){NULL, 0}};
static const struct known of_mimalloc[] = {PIANO_ALLOCATOR_MIMALLOC(KNOWN){NULL, 0}};
static const struct known of_tcmalloc[] = {PIANO_ALLOCATOR_TCMALLOC(KNOWN){NULL, 0}};
static const struct known of_cxx[] = {PIANO_ALLOCATOR_CXX(KNOWN){NULL, 0}};

struct function {
    const char *name;
    uintptr_t at;
    size_t size;
    enum family family;
    unsigned prefix; /* of PREFIXED */
    enum piano__own_what what;
    bool is_local;
    bool is_other; /* it only has the same name */
};

static struct finder {
    struct piano__symbols symbols;
    char prefixes[MOST_PREFIXES][PREFIX_LEN];
    unsigned prefix_count;
    struct function functions[MOST_FUNCTIONS];
    size_t count;
    struct piano__patch_part parts[MOST_PARTS];
    size_t part_count;
    bool imports_malloc, imports_memalign;
    bool has_rust, has_rust_default; /* a program in Rust, with its default allocator */
    bool is_full, has_odd_alias;
} finder; /* used once */

static struct piano__own own;

/* ---- names ---- */

static void add_prefix(const char *prefix, size_t len)
{
    struct finder *f = &finder;
    if (len == 0 || len >= PREFIX_LEN || f->prefix_count == MOST_PREFIXES)
        return;
    for (unsigned i = 0; i < f->prefix_count; i++)
        if (strncmp(f->prefixes[i], prefix, len) == 0 && f->prefixes[i][len] == '\0')
            return;
    memcpy(f->prefixes[f->prefix_count++], prefix, len);
}

/* jemalloc is built with any prefix. No other allocator has a `mallocx`. */
static void find_prefixes(void)
{
    static const char mark[] = "mallocx"; /* with its NUL */
    const char *at = finder.symbols.names, *end = at + finder.symbols.names_len;
    add_prefix("je_", 3);
    add_prefix("_rjem_", 6);
    while ((at = memmem(at, (size_t)(end - at), mark, sizeof mark))) {
        const char *start = at;
        while (start > finder.symbols.names && start[-1])
            start--;
        bool is_version = memchr(start, '.', (size_t)(at - start)) != NULL;
        if (!is_version)
            add_prefix(start, (size_t)(at - start));
        at++;
    }
}

/* A name ends, or the compiler has appended the name of a part: `.cold`. */
static bool is_name(const char *text, const char *name)
{
    size_t len = strlen(name);
    return strncmp(text, name, len) == 0 && (text[len] == '\0' || text[len] == '.');
}

static const struct known *find_name(const struct known *list, const char *text)
{
    for (; list->name; list++)
        if (*list->name == *text && is_name(text, list->name))
            return list;
    return NULL;
}

/* Returns what the function NAME does, or NULL, and its family. */
static const struct known *classify(const char *name, struct function *out)
{
    const struct known *found = NULL;
    out->family = CXX;
    if (name[0] == '_' && name[1] == 'Z')
        return find_name(of_cxx, name);
    out->family = MIMALLOC;
    if (strncmp(name, "mi_", 3) == 0)
        return find_name(of_mimalloc, name + 3);
    out->family = TCMALLOC;
    if (strncmp(name, "tc_", 3) == 0)
        return find_name(of_tcmalloc, name + 3);
    out->family = PREFIXED;
    for (unsigned i = 0; i < finder.prefix_count && !found; i++) {
        size_t len = strlen(finder.prefixes[i]);
        out->prefix = i;
        if (strncmp(name, finder.prefixes[i], len) == 0)
            found = find_name(of_malloc, name + len);
    }
    if (found)
        return found;
    out->family = PLAIN;
    out->prefix = 0;
    return find_name(of_malloc, name);
}

/* ---- functions ---- */

static void add_part(uintptr_t at, size_t size)
{
    if (finder.part_count < MOST_PARTS)
        finder.parts[finder.part_count++] = (struct piano__patch_part){at, size};
    else
        finder.is_full = true;
}

/* The name of an imported function may end with its version: `malloc@GLIBC_2.2.5`. */
static bool is_import(const char *text, const char *name)
{
    size_t len = strlen(name);
    return strncmp(text, name, len) == 0 && (text[len] == '\0' || text[len] == '@');
}

static void take_symbol(size_t i)
{
    const struct piano__symbols *s = &finder.symbols;
    const char *name = piano__symbols_name(s, i);
    struct function new = {.name = name, .at = piano__symbols_code(s, i)};
    if (new.at == 0) {
        if (s->list[i].st_shndx == SHN_UNDEF) {
            finder.imports_malloc |= is_import(name, "malloc");
            finder.imports_memalign |= is_import(name, "posix_memalign");
        }
        return;
    }
    const struct known *known = classify(name, &new);
    if (!known) {
        finder.has_rust |= name[0] == '_' && strstr(name, "__rust_alloc");
        finder.has_rust_default |= name[0] == '_' && strstr(name, "__rdl_alloc");
        return;
    }
    new.size = s->list[i].st_size;
    new.what = known->what;
    new.is_local = ELF64_ST_BIND(s->list[i].st_info) == STB_LOCAL;
    if (strchr(name, '.'))
        add_part(new.at, new.size);
    else if (finder.count < MOST_FUNCTIONS)
        finder.functions[finder.count++] = new;
    else
        finder.is_full = true;
}

static bool has_plain(const char *name)
{
    for (size_t i = 0; i < finder.count; i++)
        if (finder.functions[i].family == PLAIN && strcmp(finder.functions[i].name, name) == 0)
            return true;
    return false;
}

/* The linker may have removed functions that nobody calls. */
static bool has_family(enum family family, unsigned prefix)
{
    bool takes = false, drops = false;
    for (size_t i = 0; i < finder.count; i++) {
        const struct function *f = &finder.functions[i];
        bool is_member = f->family == family && f->prefix == prefix;
        takes |= is_member && f->what <= PIANO_OWN_TAKE_AT;
        drops |= is_member && f->what == PIANO_OWN_DROP;
    }
    return takes && drops;
}

/* A global allocator of Rust that is not the C library's: System, which most others are built on,
 * calls posix_memalign. */
static bool is_rust_hidden(void)
{
    return finder.has_rust && !finder.has_rust_default && !finder.imports_memalign;
}

/* Whether `malloc` without a prefix is the program's allocator. */
static bool is_plain_used(bool is_first)
{
    bool is_local = false;
    for (size_t i = 0; i < finder.count; i++)
        is_local |= finder.functions[i].family == PLAIN && finder.functions[i].is_local;
    return is_first || (is_local && !finder.imports_malloc && has_family(PLAIN, 0));
}

/* Removes local functions that have the name of a global one: they belong to something else.
 * Returns false if there are several local ones, and no global one. */
static bool drop_strangers(void)
{
    struct finder *f = &finder;
    size_t kept = 0;
    for (size_t i = 0; i < f->count; i++) {
        struct function *one = &f->functions[i];
        bool is_other = false;
        for (size_t k = 0; k < f->count && one->is_local; k++) {
            const struct function *other = &f->functions[k];
            if (other->at == one->at || strcmp(other->name, one->name) != 0)
                continue;
            if (other->is_local)
                return false;
            is_other = true;
        }
        one->is_other = is_other;
    }
    for (size_t i = 0; i < f->count; i++)
        if (!f->functions[i].is_other)
            f->functions[kept++] = f->functions[i];
    f->count = kept;
    return true;
}

/* Keeps the functions of the families in use, each once. Returns false if one address has two
 * different names. */
static bool keep_used(const bool used[FAMILIES], const bool prefixes[MOST_PREFIXES])
{
    struct finder *f = &finder;
    size_t kept = 0;
    for (size_t i = 0; i < f->count; i++) {
        const struct function *one = &f->functions[i];
        size_t same = 0;
        if (!used[one->family] || (one->family == PREFIXED && !prefixes[one->prefix]))
            continue;
        while (same < kept && f->functions[same].at != one->at)
            same++;
        if (same == kept)
            f->functions[kept++] = *one;
        else if (f->functions[same].what != one->what)
            return false;
    }
    f->count = kept;
    return true;
}

/* Chooses the functions to hook. Returns 0, or -ENOENT if there is no allocator. */
static int choose(bool is_first)
{
    bool used[FAMILIES] = {false}, prefixes[MOST_PREFIXES] = {false};
    if (is_first && !has_plain("malloc"))
        return -ENODATA;
    used[PLAIN] = is_plain_used(is_first);
    used[MIMALLOC] = has_family(MIMALLOC, 0);
    used[TCMALLOC] = has_family(TCMALLOC, 0);
    for (unsigned i = 0; i < finder.prefix_count; i++)
        used[PREFIXED] |= prefixes[i] = has_family(PREFIXED, i);
    bool any = used[PLAIN] || used[MIMALLOC] || used[TCMALLOC] || used[PREFIXED];
    used[CXX] = any;
    bool is_jemalloc = used[PREFIXED] || (used[PLAIN] && has_plain("mallocx"));
    own.kind = used[MIMALLOC]   ? PIANO_OWN_MIMALLOC
               : used[TCMALLOC] ? PIANO_OWN_TCMALLOC
               : is_jemalloc    ? PIANO_OWN_JEMALLOC
                                : PIANO_OWN_MALLOC;
    if (!any && is_rust_hidden()) {
        own.kind = PIANO_OWN_RUST;
        return -EILSEQ;
    }
    if (!any)
        return -ENOENT;
    return keep_used(used, prefixes) && drop_strangers() ? 0 : -EILSEQ;
}

/* ---- hooks ---- */

static uintptr_t measure_of(const struct function *function)
{
    for (size_t i = 0; i < finder.count; i++) {
        const struct function *f = &finder.functions[i];
        bool is_same = f->family == function->family && f->prefix == function->prefix;
        if (f->what == PIANO_OWN_MEASURE && (is_same || function->family == CXX))
            return f->at;
    }
    return 0;
}

/* A linker may merge functions with equal code: then the entry belongs to others, too. */
static bool is_of_allocator(const char *name)
{
    static const char *const parts[] = {"alloc", "align", "free", "new", "delete", "_Zn", "_Zd"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strstr(name, parts[i]))
            return true;
    return false;
}

/* Finds where the next function begins. */
static void limit_entries(struct piano__patch_entry *entries, size_t count)
{
    const struct piano__symbols *s = &finder.symbols;
    uintptr_t low = UINTPTR_MAX, high = 0;
    for (size_t k = 0; k < count; k++) {
        uintptr_t end = entries[k].at + entries[k].size;
        low = entries[k].at < low ? entries[k].at : low;
        high = end > high ? end : high;
    }
    high = high + NEXT_AT_MOST < s->code_high ? high + NEXT_AT_MOST : s->code_high;
    for (size_t k = 0; k < count; k++)
        entries[k].room = high - entries[k].at;
    for (size_t i = 0; i < s->count; i++) {
        uintptr_t at = piano__symbols_code(s, i);
        for (size_t k = 0; at >= low && at < high && k < count; k++) {
            if (at > entries[k].at && at - entries[k].at < entries[k].room)
                entries[k].room = at - entries[k].at;
            else if (at == entries[k].at && !is_of_allocator(piano__symbols_name(s, i)))
                finder.has_odd_alias = true;
        }
    }
}

static int hook_all(void)
{
    static struct piano__patch_entry entries[MOST_FUNCTIONS];
    size_t count = 0;
    for (size_t i = 0; i < finder.count; i++) {
        const struct function *f = &finder.functions[i];
        if (f->what == PIANO_OWN_MEASURE)
            continue;
        struct piano__own_hook hook = piano__own_hook_take(f->what, measure_of(f));
        if (!hook.address)
            return -E2BIG;
        entries[count++] = (struct piano__patch_entry){f->at, f->size, 0, hook.address, hook.next};
    }
    limit_entries(entries, count);
    const struct piano__patch patch = {entries, count, finder.parts, finder.part_count};
    return finder.is_full         ? -E2BIG
           : finder.has_odd_alias ? -EILSEQ
                                  : piano__patch(&patch, &finder.symbols);
}

static enum piano__own_reason reason_of(int err)
{
    switch (err) {
    case -EILSEQ:
        return PIANO_OWN_CODE;
    case -EBUSY:
        return PIANO_OWN_THREADS;
    case -EALREADY:
        return PIANO_OWN_LATE;
    case -EACCES:
        return PIANO_OWN_DENIED;
    case -ENOMEM:
    case -E2BIG:
        return PIANO_OWN_NO_ROOM;
    default:
        return PIANO_OWN_STRIPPED;
    }
}

/* Returns whether this library was loaded by dlopen: the program may be anywhere, also in the code
 * that would be replaced. Then its symbols are not those of the program. */
static bool is_late(void)
{
    void *program = dlopen(NULL, RTLD_LAZY | RTLD_NOLOAD);
    if (!program)
        return true;
    bool is_found = dlsym(program, "piano_heap_start") != NULL;
    dlclose(program);
    (void)dlerror(); /* do not leave an error message for the program */
    return !is_found;
}

static int place(bool is_first)
{
    int err = piano__symbols_open(&finder.symbols);
    if (err != 0)
        return err;
    find_prefixes();
    for (size_t i = 0; i < finder.symbols.count; i++)
        take_symbol(i);
    err = choose(is_first);
    if (err == 0)
        err = is_late() ? -EALREADY : hook_all();
    piano__symbols_close(&finder.symbols);
    return err;
}

/* Returns whether the executable defines the malloc that all libraries call. Its own code calls that
 * directly. */
static bool is_in_executable(void)
{
    Dl_info info;
    struct link_map *map = NULL;
    void *symbol = NULL;
    void *first = dlsym(RTLD_DEFAULT, "malloc");
    bool found = first && dladdr1(first, &info, (void **)&map, RTLD_DL_LINKMAP) != 0 && map &&
                 dladdr1(first, &info, &symbol, RTLD_DL_SYMENT) != 0 && symbol;
    /* In a program that is not position-independent, the address may be that of a jump to these
     * hooks, with an undefined symbol. */
    return found && map->l_name[0] == '\0' && ((const ElfW(Sym) *)symbol)->st_shndx != SHN_UNDEF;
}

struct piano__own piano__own_place(bool is_preempted)
{
    static bool is_placed;
    if (is_placed)
        return own;
    is_placed = true;
    bool is_first = is_preempted && is_in_executable();
    int err = place(is_first);
    if (err == 0) {
        own.state = PIANO_OWN_SEEN;
        piano__hooks_nest = true;
        piano__count_is_hooked = is_first;
    } else if (err == -ENOENT) {
        own.state = PIANO_OWN_NONE;
    } else if (is_first || finder.count > 0 || own.kind == PIANO_OWN_RUST) {
        own.state = PIANO_OWN_HIDDEN;
        own.reason = reason_of(err);
        /* The program's malloc is counted by preload/wrap.c. */
        own.is_uncounted = !is_first;
    }
    return own;
}

struct piano__own piano__own_found(void)
{
    return own;
}
