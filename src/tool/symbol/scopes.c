/* A lambda or a function in an anonymous namespace that was inlined everywhere has no linkage name,
 * and its own name is only `operator()` or `next`. The position of the entry shows its scope, but
 * an entry does not refer to its parent. So the walk over the entries records the parent of each,
 * in 16 bytes per entry that can be a scope. */
#include "tool/symbol/scopes.h"

#include <dwarf.h>
#include <stdlib.h>

#include "tool/util/buf.h"
#include "tool/util/order.h"
#include "tool/util/vec.h"

enum { LEVELS = 16, HOPS = 4 };

struct scope {
    uint64_t offset; /* first: the list is sorted by it */
    uint32_t parent; /* 1 + index; 0: none */
};

static bool is_scope(int tag)
{
    return tag == DW_TAG_namespace || tag == DW_TAG_class_type || tag == DW_TAG_structure_type ||
           tag == DW_TAG_union_type || tag == DW_TAG_subprogram;
}

void scopes_see(struct scopes *s, Dwarf_Die *die, size_t depth)
{
    s->above[depth + 1] = s->above[depth];
    if (!is_scope(dwarf_tag(die)) || s->count >= UINT32_MAX / 2)
        return;
    if (VEC_ROOM(s->list, s->count, s->cap) != 0)
        return;
    s->unit = die->cu;
    s->list[s->count++] = (struct scope){dwarf_dieoffset(die), s->above[depth]};
    s->above[depth + 1] = (uint32_t)s->count;
}

/* The entry that declares FUNCTION: it is inside the scope. */
static Dwarf_Die declaration_of(const Dwarf_Die *function)
{
    Dwarf_Die at = *function, next;
    Dwarf_Attribute attr;
    for (int hop = 0; hop < HOPS; hop++) {
        if (!dwarf_attr(&at, DW_AT_abstract_origin, &attr) &&
            !dwarf_attr(&at, DW_AT_specification, &attr))
            break;
        if (!dwarf_formref_die(&attr, &next))
            break;
        at = next;
    }
    return at;
}

/* The name of entry DIE as a scope, or NULL. */
static const char *scope_text(Dwarf_Die *die)
{
    const char *name = dwarf_diename(die);
    if (name && *name)
        return name;
    return dwarf_tag(die) == DW_TAG_namespace ? "(anonymous namespace)" : NULL;
}

const char *scopes_name(const struct scopes *s, Dwarf_Die *function, const char *name,
                        struct strings *strings)
{
    const char *parts[LEVELS];
    size_t count = 0;
    Dwarf_Die die = declaration_of(function);
    uint64_t offset = dwarf_dieoffset(&die);
    if (!s->count || die.cu != s->unit)
        return NULL;
    const struct scope *at = bsearch(&offset, s->list, s->count, sizeof(*at), order_u64);
    while (at && at->parent && count < LEVELS) {
        at = &s->list[at->parent - 1];
        if (!dwarf_offdie(dwarf_cu_getdwarf(s->unit), at->offset, &die))
            break;
        parts[count] = scope_text(&die);
        count += parts[count] != NULL;
    }
    if (!count)
        return NULL;
    struct buf text = {0};
    while (count-- > 0)
        buf_printf(&text, "%s::", parts[count]);
    buf_puts(&text, name);
    const char *kept = text.failed ? NULL : strings_put(strings, text.data, text.len);
    buf_free(&text);
    return kept;
}

void scopes_release(struct scopes *s)
{
    free(s->list);
    *s = (struct scopes){0};
}
