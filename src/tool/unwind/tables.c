/* Builds a search table for a file that has none.
 *
 * Linkers omit .eh_frame_hdr from static programs, because nothing reads it there. The section
 * headers, if they were not stripped, say where .eh_frame is. This file lists its functions, sorts
 * them, and puts the table after a copy of .eh_frame, in the format that the linker would have
 * used. */
#include "tool/unwind/tables.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool/unwind/machine.h"

enum {
    MAX_SECTIONS = 4096,
    MAX_FRAMES = 64 << 20,
    HEADER = 12, /* four bytes of encodings, an unused pointer, the count */
    PAIR = 8,
};

struct pair {
    int32_t function, entry; /* both relative to the header */
};

static bool read_at(int fd, void *to, size_t size, uint64_t at)
{
    return at <= INT64_MAX && pread(fd, to, size, (off_t)at) == (ssize_t)size;
}

/* Finds the header of section .eh_frame; false when there is none. */
static bool find_section(int fd, const Elf64_Ehdr *e, Elf64_Shdr *found)
{
    static const char name[] = ".eh_frame";
    Elf64_Shdr names;
    char text[sizeof name];
    if (e->e_shentsize != sizeof names || e->e_shnum > MAX_SECTIONS ||
        e->e_shstrndx >= e->e_shnum ||
        !read_at(fd, &names, sizeof names, e->e_shoff + e->e_shstrndx * sizeof names))
        return false;
    for (size_t i = 0; i < e->e_shnum; i++) {
        if (!read_at(fd, found, sizeof *found, e->e_shoff + i * sizeof *found))
            return false;
        if (found->sh_type != SHT_NOBITS && (found->sh_flags & SHF_ALLOC) &&
            read_at(fd, text, sizeof text, names.sh_offset + found->sh_name) &&
            memcmp(text, name, sizeof name) == 0)
            return true;
    }
    return false;
}

/* Lists the functions into PAIRS, unless that is NULL. Returns their number. */
static size_t list(const struct piano__cfi *cfi, uint64_t header, struct pair *pairs)
{
    size_t count = 0;
    uint64_t next = 0;
    uint64_t start = 0;
    int err;
    for (uint64_t at = cfi->address; (err = piano__cfi_entry(cfi, at, &start, &next)) != -ENODATA;
         at = next) {
        int64_t function = (int64_t)(start - header);
        int64_t entry = (int64_t)(at - header);
        if (err != 0 || function != (int32_t)function || entry != (int32_t)entry)
            continue;
        if (pairs)
            pairs[count] = (struct pair){(int32_t)function, (int32_t)entry};
        count++;
    }
    return count;
}

static int by_function(const void *a, const void *b)
{
    const struct pair *x = a;
    const struct pair *y = b;
    return x->function < y->function ? -1 : x->function > y->function;
}

unsigned char *tables_make(int fd, const Elf64_Ehdr *e, struct piano__cfi *cfi)
{
    static const unsigned char how[] = {1, 0x03, 0x03, 0x3b};
    Elf64_Shdr section;
    struct stat st;
    if (!find_section(fd, e, &section) || section.sh_size > MAX_FRAMES || fstat(fd, &st) != 0 ||
        section.sh_size > (uint64_t)st.st_size)
        return NULL;
    size_t size = section.sh_size;
    size_t behind = (size + 7) & ~(size_t)7;
    unsigned char *bytes = calloc(1, behind + HEADER);
    struct piano__cfi made = {.bytes = bytes,
                              .size = size,
                              .address = section.sh_addr,
                              .header = section.sh_addr + behind,
                              .machine = UNWIND_MACHINE};
    uint32_t count = 0;
    if (bytes && read_at(fd, bytes, size, section.sh_offset))
        count = (uint32_t)list(&made, made.header, NULL);
    unsigned char *all = count > 0 ? realloc(bytes, behind + HEADER + (size_t)count * PAIR) : NULL;
    if (!all) {
        free(bytes);
        return NULL;
    }
    struct pair *pairs = (struct pair *)(void *)(all + behind + HEADER);
    memcpy(all + behind, how, sizeof how);
    memcpy(all + behind + 8, &count, sizeof count);
    made.bytes = all;
    list(&made, made.header, pairs);
    qsort(pairs, count, sizeof *pairs, by_function);
    made.size = behind + HEADER + (size_t)count * PAIR;
    *cfi = made;
    return all;
}
