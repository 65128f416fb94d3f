/* Symbols sorted by address, because libdwfl scans the whole table for every look-up.
 *
 * A symbol with a size covers exactly that range. A symbol without one (hand-written assembly)
 * extends to the next symbol or to the end of its section, and is used only where no sized symbol
 * is. Of several symbols at one address, the name that people use is kept: write rather than
 * __libc_write. */
#include "tool/symbol/symtab.h"

#include <stdlib.h>
#include <string.h>

#include "tool/symbol/plt.h"
#include "tool/symbol/ranges.h"
#include "tool/util/order.h"

struct symbol {
    uint64_t addr, size;
    const char *name;
    int rank; /* lower is better */
};

struct symtab {
    struct symbol *list;
    size_t count;
    struct ranges sections; /* with code */
    struct ranges sized, open;
    struct plt plt;
};

static void add_sections(struct symtab *t, Elf *elf, uint64_t bias)
{
    Elf_Scn *scn = NULL;
    GElf_Shdr header;
    while (elf && (scn = elf_nextscn(elf, scn)))
        if (gelf_getshdr(scn, &header) && (header.sh_flags & SHF_EXECINSTR) &&
            (header.sh_flags & SHF_ALLOC))
            ranges_add(&t->sections, header.sh_addr + bias, header.sh_addr + bias + header.sh_size,
                       0);
    ranges_sort(&t->sections);
}

static int rank_of(const GElf_Sym *sym, const char *name)
{
    int rank = 0;
    if (GELF_ST_TYPE(sym->st_info) == STT_NOTYPE)
        rank += 16;
    if (name[0] == '_' && name[1] != 'Z')
        rank += 3;
    switch (GELF_ST_BIND(sym->st_info)) {
    case STB_GLOBAL:
        return rank;
    case STB_WEAK:
        return rank + 2;
    default:
        return rank + 4;
    }
}

/* Can SYM name the code at ADDR? */
static bool is_code(const struct symtab *t, const GElf_Sym *sym, const char *name, uint64_t addr)
{
    if (!name || !*name || sym->st_shndx == SHN_UNDEF || sym->st_shndx == SHN_ABS)
        return false;
    switch (GELF_ST_TYPE(sym->st_info)) {
    case STT_FUNC:
    case STT_GNU_IFUNC:
        return true;
    case STT_NOTYPE: /* labels; compilers and linkers use the prefixes `.` and `$` */
        return name[0] != '.' && name[0] != '$' && ranges_find(&t->sections, addr);
    default:
        return false;
    }
}

static int by_address(const void *left, const void *right)
{
    const struct symbol *a = left, *b = right;
    return ORDER(a->addr, b->addr) ?: !a->size - !b->size ?: a->rank - b->rank
           ?: ORDER(strlen(a->name), strlen(b->name)) ?: strcmp(a->name, b->name);
}

static int read_symbols(struct symtab *t, Dwfl_Module *mod)
{
    int all = dwfl_module_getsymtab(mod);
    if (all <= 0)
        return 0;
    t->list = malloc((size_t)all * sizeof(*t->list));
    if (!t->list)
        return -1;
    for (int i = 1; i < all; i++) {
        GElf_Sym sym;
        GElf_Addr addr;
        const char *name = dwfl_module_getsym_info(mod, i, &sym, &addr, NULL, NULL, NULL);
        if (name && is_code(t, &sym, name, addr))
            t->list[t->count++] = (struct symbol){addr, sym.st_size, name, rank_of(&sym, name)};
    }
    if (t->count)
        qsort(t->list, t->count, sizeof(*t->list), by_address);
    return 0;
}

/* Turns the sorted symbols into ranges, using the first symbol at each address. */
static void make_ranges(struct symtab *t)
{
    for (size_t i = 0, next; i < t->count; i = next) {
        const struct symbol *s = &t->list[i];
        for (next = i + 1; next < t->count && t->list[next].addr == s->addr;)
            next++;
        if (s->size) {
            uint64_t end = s->addr + s->size;
            ranges_add(&t->sized, s->addr, end < s->addr ? UINT64_MAX : end, (uint32_t)i);
            continue;
        }
        const struct range *section = ranges_find(&t->sections, s->addr);
        uint64_t end = section ? section->high : s->addr;
        if (next < t->count && t->list[next].addr < end)
            end = t->list[next].addr;
        ranges_add(&t->open, s->addr, end, (uint32_t)i);
    }
    ranges_sort(&t->sized);
    ranges_sort(&t->open);
}

struct symtab *symtab_new(Dwfl_Module *mod, struct strings *strings)
{
    struct symtab *t = calloc(1, sizeof(*t));
    GElf_Addr bias = 0;
    if (!t)
        return NULL;
    Elf *elf = dwfl_module_getelf(mod, &bias);
    add_sections(t, elf, bias);
    if (read_symbols(t, mod) != 0) {
        symtab_free(t);
        return NULL;
    }
    make_ranges(t);
    plt_read(&t->plt, elf, bias, strings);
    return t;
}

void symtab_free(struct symtab *t)
{
    if (!t)
        return;
    ranges_release(&t->sections);
    ranges_release(&t->sized);
    ranges_release(&t->open);
    plt_release(&t->plt);
    free(t->list);
    free(t);
}

const char *symtab_find(const struct symtab *t, uint64_t addr)
{
    const struct range *range = ranges_find(&t->sized, addr);
    if (range)
        return t->list[range->value].name;
    const char *stub = plt_find(&t->plt, addr);
    if (stub)
        return stub;
    range = ranges_find(&t->open, addr);
    return range ? t->list[range->value].name : NULL;
}
