/* If another definition comes first in the lookup order (a preloaded allocator, a malloc in the
 * executable), our symbols are never called. Then the modules' own tables are changed: each
 * relocation for one of the names gets our address, if it was bound to the definition that we
 * forward to, or not bound yet.
 *
 * Runs in a constructor, when instrumented libraries are loaded later, and in a process that is
 * attached to (late.c). A table that is
 * read-only after relocation is made writable for the store. Relies on the System V layout of ELF64
 * with RELA, which both supported architectures use. */
#include "target/preload/got.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__)
enum { JUMP_SLOT = R_X86_64_JUMP_SLOT, GLOB_DAT = R_X86_64_GLOB_DAT };
#elif defined(__aarch64__)
enum { JUMP_SLOT = R_AARCH64_JUMP_SLOT, GLOB_DAT = R_AARCH64_GLOB_DAT };
#endif

struct plan {
    const struct piano__redirect *redirects;
    size_t count;
    const void *also; /* NULL: none */
    bool back;
    unsigned changed;
};

struct module {
    const struct dl_phdr_info *info;
    uintptr_t base;
    const ElfW(Sym) * symbols;
    const char *strings;
    const ElfW(Rela) * tables[2]; /* .rela.plt and .rela.dyn */
    size_t counts[2];
    uintptr_t relro_start;
    uintptr_t relro_end;
};

static bool holds(const struct dl_phdr_info *info, uintptr_t address)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + ph->p_vaddr;
        if (ph->p_type == PT_LOAD && address >= start && address < start + ph->p_memsz)
            return true;
    }
    return false;
}

/* The loader relocates the pointers in the dynamic section of a module, except in the vdso. */
static void take_dynamic(struct module *m, const ElfW(Dyn) * dyn)
{
    for (; dyn->d_tag != DT_NULL; dyn++) {
        uintptr_t at = dyn->d_un.d_ptr;
        if (dyn->d_tag == DT_SYMTAB)
            m->symbols = (const ElfW(Sym) *)at;
        else if (dyn->d_tag == DT_STRTAB)
            m->strings = (const char *)at;
        else if (dyn->d_tag == DT_JMPREL)
            m->tables[0] = (const ElfW(Rela) *)at;
        else if (dyn->d_tag == DT_PLTRELSZ)
            m->counts[0] = dyn->d_un.d_val / sizeof(ElfW(Rela));
        else if (dyn->d_tag == DT_RELA)
            m->tables[1] = (const ElfW(Rela) *)at;
        else if (dyn->d_tag == DT_RELASZ)
            m->counts[1] = dyn->d_un.d_val / sizeof(ElfW(Rela));
    }
}

static bool describe(struct module *m, const struct dl_phdr_info *info)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const ElfW(Dyn) *dyn = NULL;
    m->info = info;
    m->base = info->dlpi_addr;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
        if (ph->p_type == PT_DYNAMIC)
            dyn = (const ElfW(Dyn) *)(m->base + ph->p_vaddr);
        if (ph->p_type == PT_GNU_RELRO) {
            m->relro_start = (m->base + ph->p_vaddr) & ~(page - 1);
            m->relro_end = (m->base + ph->p_vaddr + ph->p_memsz) & ~(page - 1);
        }
    }
    if (!dyn)
        return false;
    take_dynamic(m, dyn);
    return m->symbols && m->strings && (uintptr_t)m->symbols > m->base;
}

static bool point_at(const struct module *m, void **entry, void *to)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t at = (uintptr_t)entry & ~(page - 1);
    bool sealed = at >= m->relro_start && at < m->relro_end;
    if (sealed && mprotect((void *)at, page, PROT_READ | PROT_WRITE) != 0)
        return false;
    /* Relaxed: an address of code that is already loaded. */
    __atomic_store_n(entry, to, __ATOMIC_RELAXED);
    if (sealed)
        mprotect((void *)at, page, PROT_READ);
    return true;
}

static void redirect_entry(const struct module *m, const ElfW(Rela) * rela, struct plan *plan)
{
    unsigned type = ELF64_R_TYPE(rela->r_info);
    if (type != JUMP_SLOT && type != GLOB_DAT)
        return;
    const ElfW(Sym) *symbol = &m->symbols[ELF64_R_SYM(rela->r_info)];
    const char *name = m->strings + symbol->st_name;
    void **entry = (void **)(m->base + rela->r_offset);
    for (size_t i = 0; i < plan->count; i++) {
        const struct piano__redirect *r = &plan->redirects[i];
        if (!r->from || strcmp(name, r->name) != 0)
            continue;
        if (plan->back) {
            plan->changed += *entry == r->to && point_at(m, entry, r->from);
            return;
        }
        /* An unbound entry points back into its module, but not to a function of this name that the
         * module defines. */
        void *own = symbol->st_shndx != SHN_UNDEF ? (void *)(m->base + symbol->st_value) : NULL;
        bool unbound = type == JUMP_SLOT && *entry != own && holds(m->info, (uintptr_t)*entry);
        plan->changed += (*entry == r->from || unbound) && point_at(m, entry, r->to);
        return;
    }
}

static int visit(struct dl_phdr_info *info, size_t size, void *ctx)
{
    (void)size;
    struct plan *plan = ctx;
    struct module m = {0};
    bool is_also = plan->also && holds(info, (uintptr_t)plan->also);
    if (holds(info, (uintptr_t)visit) ||
        (holds(info, (uintptr_t)plan->redirects[0].from) && !is_also) ||
        strstr(info->dlpi_name, "/ld-linux") || !describe(&m, info))
        return 0;
    for (int table = 0; table < 2; table++)
        for (size_t i = 0; m.tables[table] && i < m.counts[table]; i++)
            redirect_entry(&m, &m.tables[table][i], plan);
    return 0;
}

void piano__got_redirect(const struct piano__redirect *redirects, size_t count)
{
    int saved = errno;
    struct plan plan = {redirects, count, NULL, false, 0};
    dl_iterate_phdr(visit, &plan);
    errno = saved;
}

unsigned piano__got_redirect_late(const struct piano__redirect *redirects, size_t count,
                                  const void *also, bool back)
{
    int saved = errno;
    struct plan plan = {redirects, count, also, back, 0};
    dl_iterate_phdr(visit, &plan);
    errno = saved;
    return plan.changed;
}
