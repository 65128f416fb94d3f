/* libdw checks offsets and forms; the other checks are here. Entries can be nested without limit,
 * so the walk uses its own stack with a maximum depth. Range lists can be shared, so a small file
 * can claim billions of ranges; a budget limits how many are read. libdw opens the split debug file
 * that a file names, so its path is checked first. */
#include "tool/symbol/dies.h"

#include <dwarf.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "tool/symbol/demangle.h"

void dies_walk(Dwarf_Die *root, bool (*visit)(void *ctx, Dwarf_Die *die, size_t depth), void *ctx)
{
    Dwarf_Die at[DIES_DEPTH];
    size_t depth = 0;
    if (dwarf_child(root, &at[0]) != 0)
        return;
    for (;;) {
        bool deeper = visit(ctx, &at[depth], depth);
        if (deeper && depth + 1 < DIES_DEPTH && dwarf_child(&at[depth], &at[depth + 1]) == 0) {
            depth++;
            continue;
        }
        while (dwarf_siblingof(&at[depth], &at[depth]) != 0)
            if (depth-- == 0)
                return;
    }
}

void dies_ranges(Dwarf_Die *die, struct ranges *ranges, uint32_t value, size_t *budget)
{
    Dwarf_Addr base, low, high;
    ptrdiff_t at = 0;
    while (*budget && (at = dwarf_ranges(die, at, &base, &low, &high)) > 0) {
        /* Address 0: a function that the linker discarded. */
        if (low != 0)
            ranges_add(ranges, low, high, value);
        --*budget;
    }
}

static const char *string_of(Dwarf_Die *die, unsigned int name)
{
    Dwarf_Attribute attr;
    return dwarf_attr_integrate(die, name, &attr) ? dwarf_formstring(&attr) : NULL;
}

struct die_name dies_name(Dwarf_Die *die, struct strings *strings)
{
    const char *name = string_of(die, DW_AT_linkage_name);
    if (!name)
        name = string_of(die, DW_AT_MIPS_linkage_name);
    if (name && *name)
        return (struct die_name){.text = demangle(strings, name), .mangled = true};
    name = string_of(die, DW_AT_name);
    return (struct die_name){.text = name && *name ? strings_puts(strings, name) : NULL};
}

void dies_call_site(Dwarf_Die *die, struct strings *strings, const char **file, unsigned *line)
{
    Dwarf_Attribute attr;
    Dwarf_Word number = 0, index = 0;
    Dwarf_Die unit;
    Dwarf_Files *files;
    size_t count;
    *file = NULL;
    *line = 0;
    if (dwarf_attr(die, DW_AT_call_line, &attr) && dwarf_formudata(&attr, &number) == 0 &&
        number <= UINT_MAX)
        *line = (unsigned)number;
    if (!dwarf_attr(die, DW_AT_call_file, &attr) || dwarf_formudata(&attr, &index) != 0)
        return;
    if (!dwarf_diecu(die, &unit, NULL, NULL) || dwarf_getsrcfiles(&unit, &files, &count) != 0)
        return;
    const char *name = index < count ? dwarf_filesrc(files, index, NULL, NULL) : NULL;
    *file = name ? strings_puts(strings, name) : NULL;
}

/* Is DIR/NAME something other than a regular file? libdw would open it and could block forever. */
static bool is_trap(const char *dir, const char *more, const char *name)
{
    char path[PATH_MAX];
    struct stat st;
    int len = snprintf(path, sizeof(path), "%s/%s/%s", dir, more, name);
    return len >= (int)sizeof(path) || (stat(path, &st) == 0 && !S_ISREG(st.st_mode));
}

/* Checks the places where libdw looks for the split file. */
static bool split_is_trap(Dwarf_Die *die, const char *beside)
{
    Dwarf_Attribute attr;
    const char *dir = NULL, *name = NULL;
    if (dwarf_attr(die, DW_AT_dwo_name, &attr) || dwarf_attr(die, DW_AT_GNU_dwo_name, &attr))
        name = dwarf_formstring(&attr);
    if (dwarf_attr(die, DW_AT_comp_dir, &attr))
        dir = dwarf_formstring(&attr);
    if (!name)
        return false;
    if (name[0] == '/')
        return is_trap("", "", name);
    if (is_trap(beside, "", name))
        return true;
    return dir && (dir[0] == '/' ? is_trap(dir, "", name) : is_trap(beside, dir, name));
}

void dies_unit(Dwarf_Die *die, const char *beside, Dwarf_Die *out)
{
    uint8_t type = 0;
    Dwarf_Die split;
    memset(&split, 0, sizeof(split));
    *out = *die;
    if (dwarf_cu_info(die->cu, NULL, &type, NULL, NULL, NULL, NULL, NULL) != 0 ||
        type != DW_UT_skeleton || split_is_trap(die, beside))
        return;
    if (dwarf_cu_info(die->cu, NULL, NULL, NULL, &split, NULL, NULL, NULL) == 0 && split.addr)
        *out = split;
}
