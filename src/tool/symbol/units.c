/* Debug information is large and most of it is never needed. So there are three indexes, each built
 * on first use:
 *
 *   addresses -> units        of a file: reads only the first entry of every unit
 *   addresses -> functions    of a unit: walks its entries once
 *   inlined functions         of a function: walks the entries below it
 *
 * .debug_aranges would be faster to read than the units. But it may be missing, for the whole file
 * or for units whose compiler does not write it, and a look-up that fails in it has to read the
 * units anyway. */
#include "tool/symbol/units.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "tool/symbol/dies.h"
#include "tool/symbol/ranges.h"
#include "tool/symbol/scopes.h"
#include "tool/util/vec.h"

enum {
    UNITS_MAX = 4 << 20,     /* of a file */
    RANGES_MAX = 4 << 20,    /* of one index */
    FUNCTIONS_MAX = 2 << 20, /* of a unit; more are not plausible */
};

/* An inlined call. The list is in preorder, so a parent precedes its children. */
struct inlined {
    Dwarf_Die die;
    int64_t parent; /* -1: the function itself */
    const char *name;
    const char *file; /* of the call */
    unsigned line;
    bool named;
};

struct function {
    Dwarf_Die die;
    struct die_name name;
    struct inlined *inlined;
    size_t inlined_count, inlined_cap;
    struct ranges inlined_ranges; /* not sorted: in the order of `inlined` */
    bool named, walked;
};

struct unit {
    Dwarf_Die die;
    struct function *functions;
    size_t function_count, function_cap;
    struct ranges ranges;
    struct scopes scopes; /* if `mangles` */
    size_t budget;
    bool walked;
    bool mangles; /* its language has linkage names that differ from source names */
};

struct units {
    struct strings *strings;
    char *beside;
    struct unit *list;
    size_t count, cap;
    struct ranges ranges;
};

struct units *units_new(Dwarf *dwarf, const char *beside, struct strings *strings)
{
    struct units *u = calloc(1, sizeof(*u));
    Dwarf_CU *cu = NULL;
    Dwarf_Die die;
    size_t budget = RANGES_MAX;
    if (!u || !(u->beside = strdup(beside))) {
        free(u);
        return NULL;
    }
    u->strings = strings;
    while (u->count < UNITS_MAX && dwarf_get_units(dwarf, cu, &cu, NULL, NULL, &die, NULL) == 0) {
        size_t before = u->ranges.count;
        if (!die.addr || VEC_ROOM(u->list, u->count, u->cap) != 0)
            continue;
        dies_ranges(&die, &u->ranges, (uint32_t)u->count, &budget);
        if (u->ranges.count > before)
            u->list[u->count++] = (struct unit){.die = die, .budget = RANGES_MAX};
    }
    ranges_sort(&u->ranges);
    return u;
}

void units_free(struct units *u)
{
    if (!u)
        return;
    for (size_t i = 0; i < u->count; i++) {
        struct unit *unit = &u->list[i];
        for (size_t k = 0; k < unit->function_count; k++) {
            free(unit->functions[k].inlined);
            ranges_release(&unit->functions[k].inlined_ranges);
        }
        free(unit->functions);
        ranges_release(&unit->ranges);
        scopes_release(&unit->scopes);
    }
    free(u->list);
    ranges_release(&u->ranges);
    free(u->beside);
    free(u);
}

/* Visits an entry of a unit. Records functions at any level, including inside types and other
 * functions. */
static bool visit_unit(void *ctx, Dwarf_Die *die, size_t depth)
{
    struct unit *unit = ctx;
    if (unit->mangles)
        scopes_see(&unit->scopes, die, depth);
    switch (dwarf_tag(die)) {
    case DW_TAG_subprogram:
        if (unit->function_count < FUNCTIONS_MAX &&
            VEC_ROOM(unit->functions, unit->function_count, unit->function_cap) == 0) {
            size_t before = unit->ranges.count;
            dies_ranges(die, &unit->ranges, (uint32_t)unit->function_count, &unit->budget);
            if (unit->ranges.count > before)
                unit->functions[unit->function_count++] = (struct function){.die = *die};
        }
        return true;
    case DW_TAG_namespace:
    case DW_TAG_module:
    case DW_TAG_class_type:
    case DW_TAG_structure_type:
    case DW_TAG_union_type:
    case DW_TAG_lexical_block:
    case DW_TAG_try_block:
    case DW_TAG_catch_block:
        return true;
    default:
        return false;
    }
}

static bool language_mangles(Dwarf_Die *unit)
{
    switch (dwarf_srclang(unit)) {
    case DW_LANG_C89:
    case DW_LANG_C:
    case DW_LANG_C99:
    case DW_LANG_C11:
    case DW_LANG_Mips_Assembler:
        return false;
    default:
        return true;
    }
}

static void walk_unit(struct units *u, struct unit *unit)
{
    Dwarf_Die whole;
    unit->walked = true;
    dies_unit(&unit->die, u->beside, &whole);
    unit->mangles = language_mangles(&whole);
    dies_walk(&whole, visit_unit, unit);
    ranges_sort(&unit->ranges);
}

struct inlined_walk {
    struct function *function;
    int64_t above[DIES_DEPTH + 1]; /* innermost inlined function around entries at each depth */
    size_t budget;
};

static bool visit_function(void *ctx, Dwarf_Die *die, size_t depth)
{
    struct inlined_walk *walk = ctx;
    struct function *f = walk->function;
    walk->above[depth + 1] = walk->above[depth];
    switch (dwarf_tag(die)) {
    case DW_TAG_inlined_subroutine:
        if (VEC_ROOM(f->inlined, f->inlined_count, f->inlined_cap) != 0)
            return false;
        f->inlined[f->inlined_count] = (struct inlined){.die = *die, .parent = walk->above[depth]};
        walk->above[depth + 1] = (int64_t)f->inlined_count;
        dies_ranges(die, &f->inlined_ranges, (uint32_t)f->inlined_count++, &walk->budget);
        return true;
    case DW_TAG_lexical_block:
    case DW_TAG_try_block:
    case DW_TAG_catch_block:
        return true;
    default:
        return false;
    }
}

static void walk_function(struct function *f)
{
    struct inlined_walk walk = {.function = f, .above = {-1}, .budget = RANGES_MAX};
    f->walked = true;
    dies_walk(&f->die, visit_function, &walk);
}

/* Finds the inlined functions around PC, outermost first. Returns their number. */
static size_t inlined_at(struct function *f, uint64_t pc, struct inlined *found[], size_t max)
{
    int64_t innermost = -1;
    size_t count = 0;
    for (size_t i = 0; i < f->inlined_ranges.count && count < max; i++) {
        const struct range *range = &f->inlined_ranges.list[i];
        struct inlined *in = &f->inlined[range->value];
        if (pc < range->low || pc >= range->high || in->parent != innermost)
            continue;
        innermost = range->value;
        found[count++] = in;
    }
    return count;
}

/* The name of function DIE, with its scope if that is known. */
static struct die_name name_of(struct units *u, const struct unit *unit, Dwarf_Die *die)
{
    struct die_name name = dies_name(die, u->strings);
    if (name.text && !name.mangled && unit->mangles) {
        const char *full = scopes_name(&unit->scopes, die, name.text, u->strings);
        name.text = full ? full : name.text;
    }
    return name;
}

static void name_inlined(struct units *u, const struct unit *unit, struct inlined *in)
{
    if (!in->named) {
        in->name = name_of(u, unit, &in->die).text;
        dies_call_site(&in->die, u->strings, &in->file, &in->line);
        in->named = true;
    }
}

/* Sets file and line of PC from the line table. */
static void find_line(struct units *u, struct unit *unit, uint64_t pc, struct symbol_frame *frame)
{
    int number = 0;
    Dwarf_Line *line = dwarf_getsrc_die(&unit->die, pc);
    const char *file = line ? dwarf_linesrc(line, NULL, NULL) : NULL;
    if (line && dwarf_lineno(line, &number) == 0 && number > 0)
        frame->line = (unsigned)number;
    frame->file = file ? strings_puts(u->strings, file) : NULL;
}

/* The inlined part of a probe (common/probe.h) does not belong to the program: its samples are
 * attributed to the function that contains it. */
static bool is_probe(const char *function)
{
    return strncmp(function, "__piano_", strlen("__piano_")) == 0;
}

size_t units_find(struct units *u, uint64_t pc, struct symbol_frame frames[UNITS_FRAMES],
                  bool *scoped)
{
    struct inlined *found[UNITS_FRAMES - 1];
    const struct range *range = ranges_find(&u->ranges, pc);
    *scoped = true;
    if (!range)
        return 0;
    struct unit *unit = &u->list[range->value];
    if (!unit->walked)
        walk_unit(u, unit);
    size_t count = 0;
    struct symbol_frame next = {0};
    find_line(u, unit, pc, &next);
    range = ranges_find(&unit->ranges, pc);
    if (range) {
        struct function *f = &unit->functions[range->value];
        if (!f->walked)
            walk_function(f);
        size_t depth = inlined_at(f, pc, found, UNITS_FRAMES - 1);
        while (depth-- > 0) {
            name_inlined(u, unit, found[depth]);
            next.function = found[depth]->name ? found[depth]->name : "[inlined]";
            next.inlined = true;
            if (!is_probe(next.function))
                frames[count++] = next;
            next = (struct symbol_frame){.file = found[depth]->file, .line = found[depth]->line};
        }
        if (!f->named) {
            f->name = name_of(u, unit, &f->die);
            f->named = true;
        }
        next.function = f->name.text;
        *scoped = f->name.mangled || !unit->mangles;
    }
    frames[count++] = next;
    return count;
}
