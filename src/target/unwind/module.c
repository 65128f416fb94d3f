/* Modules: what the dynamic linker has mapped.
 *
 * _dl_find_object (loaded.c before glibc 2.35) finds the module that contains an address, its
 * bounds, and its .eh_frame_hdr. The rest is read from the ELF header at the start of the module's
 * first segment. Only ranges that a program header marks as readable are read, since there may be
 * holes between the segments. */
#include "target/unwind/module.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/attach.h"
#include "target/unwind/loaded.h"
#include "target/unwind/memory.h"

#ifdef __aarch64__
#define MACHINE EM_AARCH64
#else
#define MACHINE EM_X86_64
#endif

struct object {
    uintptr_t start, end, bias;
    uintptr_t eh_frame_hdr; /* 0: none */
    const char *name;
};

/* As declared by glibc 2.35. The library can be built with an older glibc and still use the
 * function if it exists at run time. */
struct found_object {
    unsigned long long flags;
    void *map_start, *map_end;
    struct link_map *link_map;
    void *eh_frame;
    unsigned long long reserved[7];
};
#ifdef DLFO_EH_SEGMENT_TYPE
_Static_assert(sizeof(struct found_object) == sizeof(struct dl_find_object) &&
                   offsetof(struct found_object, eh_frame) ==
                       offsetof(struct dl_find_object, dlfo_eh_frame),
               "not glibc's");
#endif
extern int find_in_glibc(void *, struct found_object *) __asm__("_dl_find_object");
#pragma weak find_in_glibc

static bool find_object(uintptr_t pc, struct object *o)
{
    struct found_object found;
    struct piano__loaded loaded;
    if (!find_in_glibc) {
        if (!piano__loaded_find(pc, &loaded))
            return false;
        *o = (struct object){loaded.start, loaded.end, loaded.bias, loaded.eh_frame_hdr,
                             loaded.name};
        return true;
    }
    if (find_in_glibc((void *)pc, &found) != 0)
        return false;
    *o = (struct object){.start = (uintptr_t)found.map_start,
                         .end = (uintptr_t)found.map_end,
                         .bias = found.link_map->l_addr,
                         .eh_frame_hdr = (uintptr_t)found.eh_frame,
                         .name = found.link_map->l_name};
    return true;
}

enum { PAGE = 4096 };

/* Finds where the file's first page is mapped. glibc reports where a module begins, but for a
 * module with holes between its segments it reports only the segment of the address. Then the
 * page is at the bias, as in every module that is linked at 0. The kernel is asked whether it is
 * mapped. */
static const ElfW(Ehdr) * first_page(const struct object *o)
{
    ElfW(Ehdr) copy;
    if (o->end - o->start >= PAGE && memcmp((const void *)o->start, ELFMAG, SELFMAG) == 0)
        return (const void *)o->start;
    if (o->bias == 0 || o->bias % PAGE ||
        piano__memory_copy(&copy, o->bias, sizeof copy) != sizeof copy ||
        memcmp(copy.e_ident, ELFMAG, SELFMAG) != 0)
        return NULL;
    return (const void *)o->bias;
}

/* Returns the program headers of the program itself, as provided by the kernel, or NULL if O is
 * another module. They are the dynamic linker's if the program was started through it. */
static const ElfW(Phdr) * headers_of_program(const struct object *o, unsigned *count)
{
    const ElfW(Phdr) *headers = (const void *)getauxval(AT_PHDR);
    unsigned n = getauxval(AT_PHENT) == sizeof *headers ? (unsigned)getauxval(AT_PHNUM) : 0;
    for (unsigned i = 0; i < n; i++) {
        if (headers[i].p_type == PT_PHDR && o->bias + headers[i].p_vaddr == (uintptr_t)headers) {
            *count = n;
            return headers;
        }
    }
    return NULL;
}

/* In other modules, the program headers follow the ELF header, in the same page. */
static const ElfW(Phdr) * program_headers(const struct object *o, unsigned *count)
{
    *count = 0;
    const ElfW(Phdr) *headers = headers_of_program(o, count);
    if (headers)
        return headers;
    const ElfW(Ehdr) *header = first_page(o);
    if (!header || header->e_phentsize != sizeof(ElfW(Phdr)) ||
        header->e_phoff + (uint64_t)header->e_phnum * sizeof(ElfW(Phdr)) > PAGE ||
        header->e_phoff % _Alignof(ElfW(Phdr)))
        return NULL;
    *count = header->e_phnum;
    return (const void *)((uintptr_t)header + header->e_phoff);
}

/* Finds the range of the module, from its first segment to the end of its last. */
static void find_extent(const struct object *o, uintptr_t *start, uintptr_t *end)
{
    unsigned count;
    const ElfW(Phdr) *headers = program_headers(o, &count);
    *start = o->start;
    *end = o->end;
    for (unsigned i = 0; i < count; i++) {
        uintptr_t low = (o->bias + headers[i].p_vaddr) & ~(uintptr_t)(PAGE - 1);
        uintptr_t high = o->bias + headers[i].p_vaddr + headers[i].p_memsz;
        if (headers[i].p_type != PT_LOAD || high < low)
            continue;
        *start = low < *start ? low : *start;
        *end = high > *end ? high : *end;
    }
}

struct segment {
    uintptr_t start, size;
};

/* Finds the segment that contains ADDRESS and has all of FLAGS. */
static bool find_segment(const struct object *o, uintptr_t address, unsigned flags,
                         struct segment *out)
{
    unsigned count;
    const ElfW(Phdr) *headers = program_headers(o, &count);
    for (unsigned i = 0; i < count; i++) {
        const ElfW(Phdr) *h = &headers[i];
        if (h->p_type != PT_LOAD || (h->p_flags & flags) != flags ||
            address - (o->bias + h->p_vaddr) >= h->p_filesz)
            continue;
        *out = (struct segment){o->bias + h->p_vaddr, h->p_filesz};
        return true;
    }
    return false;
}

bool piano__module_cfi(uintptr_t pc, struct piano__cfi *cfi)
{
    struct object o;
    struct segment s;
    if (!find_object(pc, &o))
        return false;
    *cfi = (struct piano__cfi){.machine = MACHINE, .header = o.eh_frame_hdr};
    if (o.eh_frame_hdr && find_segment(&o, o.eh_frame_hdr, PF_R, &s)) {
        cfi->bytes = (const unsigned char *)s.start;
        cfi->address = s.start;
        cfi->size = s.size;
    }
    return true;
}

bool piano__module_has_code(uintptr_t pc, uintptr_t len)
{
    struct object o;
    struct segment s;
    return find_object(pc - 1, &o) && find_segment(&o, pc - 1, PF_R | PF_X, &s) &&
           pc - s.start >= len;
}

/* Finds the build id in the notes at NOTES. */
static void read_notes(const unsigned char *notes, size_t size, struct piano__module_info *out)
{
    ElfW(Nhdr) note;
    while (size >= sizeof note) {
        memcpy(&note, notes, sizeof note);
        size_t name = ((size_t)note.n_namesz + 3) & ~(size_t)3;
        size_t whole = sizeof note + name + (((size_t)note.n_descsz + 3) & ~(size_t)3);
        if (whole > size)
            return;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
            memcmp(notes + sizeof note, "GNU", 4) == 0 && note.n_descsz <= sizeof out->build_id) {
            memcpy(out->build_id, notes + sizeof note + name, note.n_descsz);
            out->build_id_len = note.n_descsz;
            return;
        }
        notes += whole;
        size -= whole;
    }
}

static void read_build_id(const struct object *o, struct piano__module_info *out)
{
    unsigned count;
    const ElfW(Phdr) *headers = program_headers(o, &count);
    for (unsigned i = 0; i < count && out->build_id_len == 0; i++) {
        const ElfW(Phdr) *h = &headers[i];
        uintptr_t at = o->bias + h->p_vaddr;
        struct segment s;
        if (h->p_type == PT_NOTE && find_segment(o, at, PF_R, &s) &&
            h->p_filesz <= s.size - (at - s.start))
            read_notes((const unsigned char *)at, h->p_filesz, out);
    }
}

/* Returns the path of the program, for which the dynamic linker has no name. Concurrent callers
 * write the same bytes. */
static const char *program_path(void)
{
    static char path[PATH_MAX];
    static bool known;
    /* Pairs with the release below: the path is complete. */
    if (__atomic_load_n(&known, __ATOMIC_ACQUIRE))
        return path;
    int saved = errno;
    long len = syscall(SYS_readlinkat, -1, "/proc/self/exe", path, sizeof path - 1);
    errno = saved;
    if (len > 0)
        /* Pairs with the acquire above. */
        __atomic_store_n(&known, true, __ATOMIC_RELEASE);
    return path;
}

bool piano__module_find(uintptr_t pc, struct piano__module_info *out)
{
    struct object o;
    if (!find_object(pc, &o))
        return false;
    *out = (struct piano__module_info){.bias = o.bias};
    find_extent(&o, &out->start, &out->end);
    if (o.start == getauxval(AT_SYSINFO_EHDR))
        out->path = "[vdso]";
    else
        out->path = o.name && *o.name ? o.name : program_path();
    read_build_id(&o, out);
    return true;
}

void piano__module_unload_begins(void)
{
    if (!find_in_glibc)
        piano__loaded_unload_begins();
}

void piano__module_unload_ended(void)
{
    if (!find_in_glibc)
        piano__loaded_unload_ended();
}

void piano__module_unloaded(void)
{
    if (!find_in_glibc)
        piano__loaded_forget();
}

bool piano__module_own(uintptr_t *start, uintptr_t *end)
{
    static const char own_name[] = "libpiano.so";
    struct object o;
    if (!find_object((uintptr_t)&piano__module_own, &o) || !o.name)
        return false;
    const char *slash = strrchr(o.name, '/');
    if (strncmp(slash ? slash + 1 : o.name, own_name, sizeof own_name - 1) != 0 &&
        strncmp(o.name, PIANO_ATTACH_PATH, sizeof PIANO_ATTACH_PATH - 1) != 0)
        return false;
    *start = o.start;
    *end = o.end;
    return true;
}
