/* Nothing in the file is trusted: all offsets are checked. The file is compared with the running
 * program by its program headers, because /proc/self/exe is the dynamic linker if that was started
 * with the program as its argument. */
#include "target/entry/symbols.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "target/sys/file.h"

static int map_file(struct piano__symbols *s)
{
    struct stat st;
    int fd = piano__file_open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fd;
    long at = -1;
    /* The kernel does not let a running executable be written or truncated. */
    if (fstat(fd, &st) == 0 && st.st_size > (off_t)sizeof(Elf64_Ehdr))
        at = syscall(SYS_mmap, NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0L);
    piano__file_close(fd);
    if (at == -1)
        return -ENOEXEC;
    s->file = (const char *)at;
    s->file_len = (size_t)st.st_size;
    return 0;
}

static bool is_within(const struct piano__symbols *s, uint64_t at, uint64_t size)
{
    return at <= s->file_len && size <= s->file_len - at;
}

/* dl_iterate_phdr reports the executable first. */
static int take_image(struct dl_phdr_info *info, size_t size, void *ctx)
{
    struct piano__symbols *s = ctx;
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)s->file;
    (void)size;
    s->bias = info->dlpi_addr;
    s->image_low = UINTPTR_MAX;
    s->code_low = UINTPTR_MAX;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const Elf64_Phdr *p = &info->dlpi_phdr[i];
        uintptr_t start = s->bias + p->p_vaddr, end = start + p->p_memsz;
        if (p->p_type != PT_LOAD)
            continue;
        s->image_low = start < s->image_low ? start : s->image_low;
        if (!(p->p_flags & PF_X))
            continue;
        s->code_low = start < s->code_low ? start : s->code_low;
        s->code_high = end > s->code_high ? end : s->code_high;
    }
    bool is_same =
        info->dlpi_phnum == head->e_phnum &&
        is_within(s, head->e_phoff, sizeof(Elf64_Phdr) * head->e_phnum) &&
        memcmp(s->file + head->e_phoff, info->dlpi_phdr, sizeof(Elf64_Phdr) * head->e_phnum) == 0;
    return is_same ? 1 : -1;
}

static int take_table(struct piano__symbols *s, const Elf64_Shdr *table, const Elf64_Shdr *names)
{
    if (table->sh_entsize != sizeof(Elf64_Sym) || table->sh_offset % 8 != 0 ||
        !is_within(s, table->sh_offset, table->sh_size) ||
        !is_within(s, names->sh_offset, names->sh_size) || names->sh_size == 0 ||
        s->file[names->sh_offset + names->sh_size - 1] != '\0')
        return -ENOEXEC;
    s->list = (const Elf64_Sym *)(s->file + table->sh_offset);
    s->count = table->sh_size / sizeof(Elf64_Sym);
    s->names = s->file + names->sh_offset;
    s->names_len = names->sh_size;
    return s->count > 0 ? 0 : -ENODATA;
}

static int find_table(struct piano__symbols *s)
{
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)s->file;
    if (memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 || head->e_ident[EI_CLASS] != ELFCLASS64 ||
        head->e_phentsize != sizeof(Elf64_Phdr) || dl_iterate_phdr(take_image, s) != 1)
        return -ENOEXEC;
    if (head->e_shnum == 0)
        return -ENODATA;
    if (head->e_shentsize != sizeof(Elf64_Shdr) || head->e_shoff % 8 != 0 ||
        !is_within(s, head->e_shoff, sizeof(Elf64_Shdr) * head->e_shnum))
        return -ENOEXEC;
    const Elf64_Shdr *sections = (const Elf64_Shdr *)(s->file + head->e_shoff);
    for (size_t i = 0; i < head->e_shnum; i++)
        if (sections[i].sh_type == SHT_SYMTAB && sections[i].sh_link < head->e_shnum)
            return take_table(s, &sections[i], &sections[sections[i].sh_link]);
    return -ENODATA;
}

int piano__symbols_open(struct piano__symbols *s)
{
    int saved = errno;
    *s = (struct piano__symbols){.count = 0};
    int err = map_file(s);
    if (err == 0) {
        err = find_table(s);
        if (err != 0)
            piano__symbols_close(s);
    }
    errno = saved;
    return err;
}

void piano__symbols_close(struct piano__symbols *s)
{
    piano__memory_unmap((void *)(uintptr_t)s->file, s->file_len);
    *s = (struct piano__symbols){.count = 0};
}

const char *piano__symbols_name(const struct piano__symbols *s, size_t i)
{
    return s->list[i].st_name < s->names_len ? s->names + s->list[i].st_name : "";
}

uintptr_t piano__symbols_code(const struct piano__symbols *s, size_t i)
{
    const Elf64_Sym *symbol = &s->list[i];
    uintptr_t at = s->bias + symbol->st_value;
    bool is_code = ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && symbol->st_shndx != SHN_UNDEF &&
                   symbol->st_shndx < SHN_LORESERVE && at >= s->code_low && at < s->code_high;
    return is_code ? at : 0;
}
