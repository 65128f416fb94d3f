/* A PLT stub jumps through a slot of the global offset table, and a relocation names the symbol of
 * that slot. All sections of stubs (.plt, .plt.sec, .plt.got, with or without endbr64) are read the
 * same way: by the jump instruction in each stub. */
#include "tool/symbol/plt.h"

#include <stdlib.h>
#include <string.h>

#include "tool/symbol/demangle.h"
#include "tool/util/order.h"
#include "tool/util/vec.h"

enum { STUBS_MAX = 1 << 20, STUB_BYTES = 16 };

/* A slot of the global offset table and its symbol. */
struct slot {
    uint64_t addr; /* first: the list is sorted by it */
    const char *name;
};

struct slots {
    struct slot *list;
    size_t count, cap;
};

/* Reads the relocations of section SCN. */
static void read_slots(struct slots *slots, Elf *elf, Elf_Scn *scn, const GElf_Shdr *header)
{
    Elf_Data *relocations = elf_getdata(scn, NULL);
    Elf_Scn *table = elf_getscn(elf, header->sh_link);
    GElf_Shdr table_header;
    Elf_Data *symbols = table ? elf_getdata(table, NULL) : NULL;
    if (!relocations || !symbols || !gelf_getshdr(table, &table_header))
        return;
    size_t count = relocations->d_size / sizeof(Elf64_Rela);
    for (size_t i = 0; i < count && i < INT32_MAX && slots->count < STUBS_MAX; i++) {
        GElf_Rela rela;
        GElf_Sym sym;
        if (!gelf_getrela(relocations, (int)i, &rela) ||
            (GELF_R_TYPE(rela.r_info) != R_X86_64_JUMP_SLOT &&
             GELF_R_TYPE(rela.r_info) != R_X86_64_GLOB_DAT) ||
            !gelf_getsym(symbols, (int)GELF_R_SYM(rela.r_info), &sym))
            continue;
        const char *name = elf_strptr(elf, table_header.sh_link, sym.st_name);
        if (!name || !*name)
            continue;
        if (VEC_ROOM(slots->list, slots->count, slots->cap) != 0)
            return;
        slots->list[slots->count++] = (struct slot){rela.r_offset, name};
    }
}

static void add_stub(struct plt *p, uint64_t addr, size_t bytes, const char *name,
                     struct strings *strings)
{
    const char *plain = demangle(strings, name);
    const char *text = plain ? strings_printf(strings, "%s@plt", plain) : NULL;
    if (!text || VEC_ROOM(p->names, p->count, p->cap) != 0)
        return;
    ranges_add(&p->stubs, addr, addr + bytes, (uint32_t)p->count);
    p->names[p->count++] = text;
}

/* Finds the stubs in section SCN by their `jmp *slot(%rip)`. */
static void read_stubs(struct plt *p, Elf_Scn *scn, const GElf_Shdr *header, uint64_t bias,
                       const struct slots *slots, struct strings *strings)
{
    Elf_Data *code = elf_getdata(scn, NULL);
    if (!code || !code->d_buf)
        return;
    size_t step = header->sh_entsize == 8 ? 8 : STUB_BYTES;
    for (size_t at = 0; at + step <= code->d_size && p->count < STUBS_MAX; at += step) {
        const unsigned char *bytes = (const unsigned char *)code->d_buf + at;
        for (size_t i = 0; i + 6 <= step; i++) {
            int32_t distance;
            if (bytes[i] != 0xff || bytes[i + 1] != 0x25)
                continue;
            memcpy(&distance, bytes + i + 2, sizeof(distance));
            uint64_t addr = header->sh_addr + at + i + 6 + (uint64_t)(int64_t)distance;
            const struct slot *slot =
                bsearch(&addr, slots->list, slots->count, sizeof(*slot), order_u64);
            if (slot)
                add_stub(p, header->sh_addr + bias + at, step, slot->name, strings);
            break;
        }
    }
}

static bool is_plt(Elf *elf, const GElf_Shdr *header)
{
    size_t names;
    const char *name =
        elf_getshdrstrndx(elf, &names) == 0 ? elf_strptr(elf, names, header->sh_name) : NULL;
    return name && header->sh_type == SHT_PROGBITS && (header->sh_flags & SHF_EXECINSTR) &&
           strncmp(name, ".plt", 4) == 0;
}

void plt_read(struct plt *p, Elf *elf, uint64_t bias, struct strings *strings)
{
    struct slots slots = {0};
    GElf_Ehdr ehdr;
    GElf_Shdr header;
    Elf_Scn *scn = NULL;
    if (!elf || !gelf_getehdr(elf, &ehdr) || ehdr.e_machine != EM_X86_64 ||
        gelf_getclass(elf) != ELFCLASS64)
        return;
    while ((scn = elf_nextscn(elf, scn)))
        if (gelf_getshdr(scn, &header) && header.sh_type == SHT_RELA &&
            (header.sh_flags & SHF_ALLOC))
            read_slots(&slots, elf, scn, &header);
    if (slots.count) {
        qsort(slots.list, slots.count, sizeof(*slots.list), order_u64);
        while ((scn = elf_nextscn(elf, scn)))
            if (gelf_getshdr(scn, &header) && is_plt(elf, &header))
                read_stubs(p, scn, &header, bias, &slots, strings);
    }
    free(slots.list);
    ranges_sort(&p->stubs);
}

const char *plt_find(const struct plt *p, uint64_t addr)
{
    const struct range *range = ranges_find(&p->stubs, addr);
    return range ? p->names[range->value] : NULL;
}

void plt_release(struct plt *p)
{
    ranges_release(&p->stubs);
    free(p->names);
    *p = (struct plt){0};
}
