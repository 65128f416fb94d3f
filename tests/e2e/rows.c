/* Prints every row of call frame information that piano finds in an ELF file, for test_unwind.py to compare with readelf's. A
 * line is: start, end, CFA, then where ra and the frame pointer are. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "common/cfi.h"

static void print_at(unsigned at, int words)
{
    static const char *const names[] = {"same", "cfa", "sp", "fp", "none"};
    printf(" %s%+d", names[at], words * 8);
}

static void print_row(const struct piano__cfi_row *row)
{
    static const char *const kinds[] = {"none", "reg", "mem"};
    const struct piano__rule *r = &row->rule;
    printf("%" PRIx64 " %" PRIx64 " %s %u %d", row->start, row->end, kinds[r->cfa], r->cfa_register,
           r->cfa_offset);
    print_at(r->ra_at, r->ra);
    print_at(r->fp_at, r->fp);
    printf("\n");
}

static void print_rows(const struct piano__cfi *cfi)
{
    int64_t count = piano__cfi_count(cfi);
    for (int64_t i = 0; i < count; i++) {
        struct piano__cfi_row row;
        uint64_t pc, next = UINT64_MAX;
        int err = piano__cfi_function(cfi, (uint64_t)i, &pc);
        (void)piano__cfi_function(cfi, (uint64_t)i + 1, &next);
        for (; err == 0 && pc < next; pc = row.end) {
            int found = piano__cfi_find(cfi, pc, &row);
            if (found != 0 && found != -ENOTSUP)
                break;
            print_row(&row);
        }
    }
}

int main(int argc, char **argv)
{
    struct stat st;
    int fd = argc > 1 ? open(argv[1], O_RDONLY) : -1;
    if (fd < 0 || fstat(fd, &st) != 0)
        return 1;
    const unsigned char *file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (file == MAP_FAILED)
        return 1;
    const Elf64_Ehdr *eh = (const void *)file;
    const Elf64_Phdr *ph = (const void *)(file + eh->e_phoff);
    struct piano__cfi cfi = {.machine = eh->e_machine};
    for (unsigned i = 0; i < eh->e_phnum; i++) {
        if (ph[i].p_type == PT_GNU_EH_FRAME)
            cfi.header = ph[i].p_vaddr;
    }
    for (unsigned i = 0; i < eh->e_phnum; i++) {
        if (ph[i].p_type == PT_LOAD && cfi.header - ph[i].p_vaddr < ph[i].p_filesz) {
            cfi.bytes = file + ph[i].p_offset;
            cfi.size = ph[i].p_filesz;
            cfi.address = ph[i].p_vaddr;
        }
    }
    print_rows(&cfi);
    return 0;
}
