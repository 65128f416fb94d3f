/* The table of .eh_frame_hdr is sorted by address and has one entry per function; common/cfi.h
 * reads it. With it, all addresses in a function get the same name, `module+0xbeginning`, and a
 * report shows them in one row. */
#include "tool/symbol/starts.h"

#include <errno.h>
#include <gelf.h>

static bool find_segment(Elf *elf, uint64_t address, GElf_Phdr *found)
{
    size_t count;
    if (elf_getphdrnum(elf, &count) != 0)
        return false;
    for (size_t i = 0; i < count; i++)
        if (gelf_getphdr(elf, (int)i, found) && found->p_type == PT_LOAD &&
            address - found->p_vaddr < found->p_filesz)
            return true;
    return false;
}

static bool find_table(Elf *elf, GElf_Phdr *found)
{
    size_t count;
    if (elf_getphdrnum(elf, &count) != 0)
        return false;
    for (size_t i = 0; i < count; i++)
        if (gelf_getphdr(elf, (int)i, found) && found->p_type == PT_GNU_EH_FRAME)
            return true;
    return false;
}

static void read_table(struct starts *starts, Dwfl_Module *mod)
{
    GElf_Addr bias;
    GElf_Ehdr header;
    GElf_Phdr table, segment;
    Elf *elf = dwfl_module_getelf(mod, &bias);
    starts->read = true;
    if (!elf || !gelf_getehdr(elf, &header) || !find_table(elf, &table) ||
        !find_segment(elf, table.p_vaddr, &segment))
        return;
    const Elf_Data *data =
        elf_getdata_rawchunk(elf, (int64_t)segment.p_offset, segment.p_filesz, ELF_T_BYTE);
    if (!data || !data->d_buf)
        return;
    starts->cfi = (struct piano__cfi){.bytes = data->d_buf,
                                      .size = data->d_size,
                                      .address = segment.p_vaddr + bias,
                                      .header = table.p_vaddr + bias,
                                      .machine = header.e_machine};
}

uint64_t starts_find(struct starts *starts, Dwfl_Module *mod, uint64_t addr)
{
    struct piano__cfi_row row;
    if (!starts->read)
        read_table(starts, mod);
    if (!starts->cfi.bytes)
        return addr;
    int err = piano__cfi_find(&starts->cfi, addr, &row);
    if (err != 0 && err != -ENOTSUP)
        return addr; /* not inside a function of the table */
    int64_t low = 0;
    int64_t high = piano__cfi_count(&starts->cfi);
    uint64_t best = addr, start;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (piano__cfi_function(&starts->cfi, (uint64_t)middle, &start) != 0)
            return addr;
        if (start <= addr) {
            best = start;
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return best;
}
