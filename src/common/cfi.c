/* Reads .eh_frame.
 *
 * .eh_frame_hdr is a sorted table that maps a function to its FDE. An FDE describes one function
 * and points back to a CIE, which several functions share. Both end with a program (cfi_program.c).
 * It builds a table, row by row: from this instruction on, the CFA is ..., and register r was saved
 * at ... A rule in that table may be an expression (cfi_expression.c).
 *
 * No byte is trusted. All reads go through cfi_bytes.h, every iteration of every loop consumes a
 * byte, and sums wrap (-fwrapv). A value that is too large for a rule is refused at the end.
 * DW_CFA_set_loc is not supported: no compiler for these machines emits it. */
#include "common/cfi.h"

#include <elf.h>
#include <errno.h>
#include <stddef.h>

#include "common/cfi_bytes.h"
#include "common/cfi_program.h"

/* DW_EH_PE_*: how a pointer is encoded. */
enum encoding {
    ENCODING_OMIT = 0xff,
    ENCODING_INDIRECT = 0x80,
    ENCODING_RELATIVE = 0x70,
    ENCODING_PC_RELATIVE = 0x10,
    ENCODING_ALIGNED = 0x50,
    ENCODING_TABLE = 0x3b, /* relative to the header, 4 signed bytes: what every linker writes */
    ENCODING_FORMAT = 0x0f,
    FORMAT_POINTER = 0x0,
    FORMAT_ULEB = 0x1,
    FORMAT_UDATA2 = 0x2,
    FORMAT_UDATA4 = 0x3,
    FORMAT_UDATA8 = 0x4,
    FORMAT_SLEB = 0x9,
    FORMAT_SDATA2 = 0xa,
    FORMAT_SDATA4 = 0xb,
    FORMAT_SDATA8 = 0xc,
};

struct cie {
    uint64_t code_align;
    int64_t data_align;
    unsigned encoding;
    uint64_t ra_register;
    bool has_lengths, is_signal;
    struct piano__bytes program;
};

struct fde {
    struct cie cie;
    uint64_t start, end;
    struct piano__bytes program;
};

const struct piano__cfi_registers *piano__cfi_registers(uint16_t machine)
{
    static const struct piano__cfi_registers x86_64 = {.sp = 7, .fp = 6, .base = 3, .ra = 16};
    static const struct piano__cfi_registers aarch64 = {.sp = 31, .fp = 29, .base = 19, .ra = 30};
    return machine == EM_X86_64 ? &x86_64 : machine == EM_AARCH64 ? &aarch64 : NULL;
}

static struct piano__bytes read_from(const struct piano__cfi *cfi, uint64_t address)
{
    struct piano__bytes r = {cfi->bytes, cfi->bytes + cfi->size, false};
    if (address - cfi->address > cfi->size)
        r.bad = true;
    else
        r.at += address - cfi->address;
    return r;
}

static uint64_t address_of(const struct piano__cfi *cfi, const struct piano__bytes *r)
{
    return cfi->address + (uint64_t)(r->at - cfi->bytes);
}

static uint64_t take_format(struct piano__bytes *r, unsigned encoding)
{
    switch (encoding & ENCODING_FORMAT) {
    case FORMAT_POINTER:
    case FORMAT_UDATA8:
    case FORMAT_SDATA8:
        return piano__bytes_take(r, 8);
    case FORMAT_ULEB:
        return piano__bytes_unsigned(r);
    case FORMAT_SLEB:
        return (uint64_t)piano__bytes_signed(r);
    case FORMAT_UDATA2:
        return piano__bytes_take(r, 2);
    case FORMAT_SDATA2:
        return (uint64_t)piano__bytes_take_signed(r, 2);
    case FORMAT_UDATA4:
        return piano__bytes_take(r, 4);
    case FORMAT_SDATA4:
        return (uint64_t)piano__bytes_take_signed(r, 4);
    default:
        r->bad = true;
        return 0;
    }
}

/* Reads a pointer. Sets `bad` for an indirect pointer, and for one relative to an unknown base. */
static uint64_t take_pointer(const struct piano__cfi *cfi, struct piano__bytes *r,
                             unsigned encoding)
{
    unsigned how = encoding & (ENCODING_RELATIVE | ENCODING_INDIRECT);
    uint64_t base = how == ENCODING_PC_RELATIVE ? address_of(cfi, r) : 0;
    if (how != 0 && how != ENCODING_PC_RELATIVE)
        r->bad = true;
    return base + take_format(r, encoding);
}

/* Returns the contents of the entry at ADDRESS, without its length field. */
static struct piano__bytes read_entry(const struct piano__cfi *cfi, uint64_t address)
{
    struct piano__bytes r = read_from(cfi, address);
    uint64_t length = piano__bytes_take(&r, 4);
    if (length == UINT32_MAX)
        length = piano__bytes_take(&r, 8);
    return piano__bytes_block(&r, length);
}

/* Reads what one augmentation letter stands for. Returns false for an unknown letter: the length of
 * its data is unknown, so nothing after it can be read. */
static bool read_letter(struct piano__bytes *r, char letter, struct cie *cie)
{
    unsigned encoding;
    switch (letter) {
    case 'P': /* the personality routine: skipped */
        encoding = (unsigned)piano__bytes_take(r, 1);
        if ((encoding & ENCODING_RELATIVE) == ENCODING_ALIGNED)
            return false;
        if (encoding != ENCODING_OMIT)
            take_format(r, encoding);
        return true;
    case 'L':
        piano__bytes_take(r, 1);
        return true;
    case 'R':
        cie->encoding = (unsigned)piano__bytes_take(r, 1);
        return true;
    case 'S':
        cie->is_signal = true;
        return true;
    case 'B': /* aarch64: return addresses are signed with the B key */
    case 'G': /* aarch64: memory is tagged */
        return true;
    default:
        return false;
    }
}

static bool read_augmentation(struct piano__bytes *r, const unsigned char *letters, struct cie *cie)
{
    if (!*letters)
        return true;
    if (*letters++ != 'z')
        return false;
    cie->has_lengths = true;
    struct piano__bytes data = piano__bytes_block(r, piano__bytes_unsigned(r));
    while (*letters) {
        if (!read_letter(&data, (char)*letters++, cie))
            return false;
    }
    return !data.bad;
}

static int read_cie(const struct piano__cfi *cfi, uint64_t address, struct cie *cie)
{
    struct piano__bytes r = read_entry(cfi, address);
    uint64_t mark = piano__bytes_take(&r, 4);
    uint64_t version = piano__bytes_take(&r, 1);
    const unsigned char *letters = r.at;
    while (piano__bytes_take(&r, 1) != 0)
        continue;
    if (version == 4)
        piano__bytes_take(&r, 2); /* the sizes of an address and of a segment selector */
    *cie = (struct cie){.code_align = piano__bytes_unsigned(&r)};
    cie->data_align = piano__bytes_signed(&r);
    cie->ra_register = version == 1 ? piano__bytes_take(&r, 1) : piano__bytes_unsigned(&r);
    bool known = version == 1 || version == 3 || version == 4;
    if (r.bad || mark != 0 || !known || !read_augmentation(&r, letters, cie))
        return -EINVAL;
    cie->program = r;
    return r.bad ? -EINVAL : 0;
}

static int read_fde(const struct piano__cfi *cfi, uint64_t address, struct fde *fde)
{
    struct piano__bytes r = read_entry(cfi, address);
    uint64_t here = address_of(cfi, &r);
    uint64_t back = piano__bytes_take(&r, 4);
    if (r.bad || back == 0)
        return -EINVAL;
    int err = read_cie(cfi, here - back, &fde->cie);
    if (err)
        return err;
    fde->start = take_pointer(cfi, &r, fde->cie.encoding);
    fde->end = fde->start + take_format(&r, fde->cie.encoding);
    if (fde->cie.has_lengths)
        piano__bytes_block(&r, piano__bytes_unsigned(&r));
    fde->program = r;
    return r.bad || fde->end < fde->start ? -EINVAL : 0;
}

/* Returns the search table: pairs of function and FDE, both relative to the header. */
static struct piano__bytes read_table(const struct piano__cfi *cfi, uint64_t *count)
{
    struct piano__bytes r = read_from(cfi, cfi->header);
    uint64_t version = piano__bytes_take(&r, 1);
    unsigned eh_frame = (unsigned)piano__bytes_take(&r, 1);
    unsigned counter = (unsigned)piano__bytes_take(&r, 1);
    uint64_t table = piano__bytes_take(&r, 1);
    take_format(&r, eh_frame);
    *count = take_pointer(cfi, &r, counter);
    if (version != 1 || table != ENCODING_TABLE || *count > UINT32_MAX)
        r.bad = true;
    return piano__bytes_block(&r, *count * 8);
}

/* Returns word INDEX of TABLE as an address. The caller checks that TABLE is long enough. */
static uint64_t table_word(const struct piano__cfi *cfi, const struct piano__bytes *table,
                           uint64_t index)
{
    int32_t word;
    memcpy(&word, table->at + 4 * index, sizeof word);
    return cfi->header + (uint64_t)(int64_t)word;
}

/* Finds the FDE of the last function that begins at or before PC. */
static int search(const struct piano__cfi *cfi, uint64_t pc, uint64_t *fde)
{
    uint64_t low = 0, high;
    struct piano__bytes table = read_table(cfi, &high);
    if (table.bad)
        return -EINVAL;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (table_word(cfi, &table, 2 * middle) <= pc)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return -ENOENT;
    *fde = table_word(cfi, &table, 2 * low - 1);
    return 0;
}

int piano__cfi_entry(const struct piano__cfi *cfi, uint64_t address, uint64_t *start,
                     uint64_t *next)
{
    struct fde fde;
    struct piano__bytes r = read_entry(cfi, address);
    if (r.bad || r.at == r.end)
        return -ENODATA;
    *next = cfi->address + (uint64_t)(r.end - cfi->bytes);
    if (read_fde(cfi, address, &fde) != 0)
        return -ENOENT;
    *start = fde.start;
    return 0;
}

int64_t piano__cfi_count(const struct piano__cfi *cfi)
{
    uint64_t count;
    return read_table(cfi, &count).bad ? -EINVAL : (int64_t)count;
}

int piano__cfi_function(const struct piano__cfi *cfi, uint64_t index, uint64_t *start)
{
    uint64_t count;
    struct piano__bytes table = read_table(cfi, &count);
    if (table.bad)
        return -EINVAL;
    if (index >= count)
        return -ENOENT;
    *start = table_word(cfi, &table, 2 * index);
    return 0;
}

int piano__cfi_find(const struct piano__cfi *cfi, uint64_t pc, struct piano__cfi_row *row)
{
    const struct piano__cfi_registers *registers = piano__cfi_registers(cfi->machine);
    struct fde fde;
    uint64_t address;
    *row = (struct piano__cfi_row){{0}, 0, 0};
    int err = registers ? search(cfi, pc, &address) : -EINVAL;
    if (err == 0)
        err = read_fde(cfi, address, &fde);
    if (err)
        return err;
    if (pc < fde.start || pc >= fde.end)
        return -ENOENT;

    struct piano__cfi_program program = {.registers = registers,
                                         .machine = cfi->machine,
                                         .pc = pc,
                                         .code_align = fde.cie.code_align,
                                         .data_align = fde.cie.data_align,
                                         .row_start = fde.start,
                                         .row_end = fde.end};
    if (!piano__cfi_program_run(&program, fde.cie.program, fde.program))
        return -EINVAL;
    row->start = program.row_start;
    row->end = program.row_end;
    if (fde.cie.ra_register != registers->ra) /* hand-written code that keeps it in another
                                               * register */
        return -ENOTSUP;
    if (!piano__cfi_program_rule(&program, &row->rule))
        return -ENOTSUP;
    row->rule.is_signal = fde.cie.is_signal;
    return 0;
}
