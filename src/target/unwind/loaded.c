/* A copy of the dynamic linker's list of modules.
 *
 * The list itself (_r_debug) changes while it is read, and dl_iterate_phdr takes a lock that a
 * signal handler or an allocator must not wait for. So the list is copied into one of two tables
 * while readers use the other. A node may have just been freed, so the kernel copies it
 * (piano__memory_copy). New modules are appended to the list: the last known node shows whether
 * there are any. Modules in other namespaces (dlmopen) are not in this list.
 *
 * While a thread unloads a module, the last node may be freed and used again for another module, and
 * another module may be mapped where the unloaded one was. So no older table is used meanwhile. A
 * module with a frame on the caller's stack stays loaded: a look at the list after the frame was
 * entered finds it. A caller that cannot become the writer looks through the list itself. */
#include "target/unwind/loaded.h"

#include <elf.h>
#include <link.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "target/unwind/memory.h"

enum { PAGE = 4096, MOST_MODULES = 1024, MOST_HEADERS = 32, SOME_HEADERS = 16 };
enum { PATIENCE = 100000, TRIES = 4 };

struct table {
    unsigned count;
    uintptr_t last;   /* the last node; 0: the list could not be read */
    unsigned unloads; /* of the time when the list was read */
    struct piano__loaded list[MOST_MODULES];
};

static struct table tables[2];
static unsigned generation; /* the lowest bit selects the table that readers use */
static int writer;          /* pid of the process that writes the other table; 0: none */
static unsigned unloads;    /* completed so far; a table with another number is too old */
static unsigned unloading;  /* threads that are in dlclose, */
static int unloader;        /* in the process with this pid */
static unsigned refused;    /* failed attempts to become the writer since the last write */

/* Finds the program headers of a module. The kernel provides those of the program itself; in other
 * modules they follow the ELF header. */
static unsigned find_headers(uintptr_t bias, uintptr_t *at)
{
    const ElfW(Phdr) *own = (const void *)getauxval(AT_PHDR);
    unsigned count = getauxval(AT_PHENT) == sizeof *own ? (unsigned)getauxval(AT_PHNUM) : 0;
    ElfW(Ehdr) header;
    for (unsigned i = 0; i < count && count <= MOST_HEADERS; i++) {
        if (own[i].p_type == PT_PHDR && bias + own[i].p_vaddr == (uintptr_t)own) {
            *at = (uintptr_t)own;
            return count;
        }
    }
    if (bias == 0 || bias % PAGE ||
        piano__memory_copy(&header, bias, sizeof header) != sizeof header ||
        memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_phentsize != sizeof *own ||
        header.e_phnum > MOST_HEADERS)
        return 0;
    *at = bias + header.e_phoff;
    return header.e_phnum;
}

static void add_header(struct piano__loaded *out, const ElfW(Phdr) * header)
{
    uintptr_t at = out->bias + header->p_vaddr;
    uintptr_t low = at & ~(uintptr_t)(PAGE - 1), high = at + header->p_memsz;
    if (header->p_type == PT_GNU_EH_FRAME)
        out->eh_frame_hdr = at;
    if (header->p_type != PT_LOAD || high < low)
        return;
    out->start = low < out->start ? low : out->start;
    out->end = high > out->end ? high : out->end;
}

static bool describe(const struct link_map *node, struct piano__loaded *out)
{
    ElfW(Phdr) headers[SOME_HEADERS];
    uintptr_t at = 0;
    unsigned count = find_headers(node->l_addr, &at);
    *out = (struct piano__loaded){.start = UINTPTR_MAX, .bias = node->l_addr, .name = node->l_name};
    for (unsigned i = 0; i < count; i++) {
        unsigned some = count - i < SOME_HEADERS ? count - i : SOME_HEADERS;
        if (i % SOME_HEADERS == 0 &&
            piano__memory_copy(headers, at + i * sizeof *headers, some * sizeof *headers) !=
                some * sizeof *headers)
            return false;
        add_header(out, &headers[i % SOME_HEADERS]);
    }
    return out->start < out->end;
}

#pragma weak _r_debug /* musl has none: no module is known there */

static void read_list(struct table *t)
{
    struct link_map node;
    uintptr_t at = &_r_debug ? (uintptr_t)_r_debug.r_map : 0;
    t->count = 0;
    t->last = 0;
    for (unsigned i = 0; at && i < 2 * MOST_MODULES && t->count < MOST_MODULES; i++) {
        if (piano__memory_copy(&node, at, sizeof node) != sizeof node)
            return;
        t->count += describe(&node, &t->list[t->count]);
        t->last = at;
        at = (uintptr_t)node.l_next;
    }
}

/* A handler that leaves by siglongjmp, and a fork, can leave a writer that never finishes. It is
 * replaced after PATIENCE failed attempts, or at once if it is another process. The CAS pairs with
 * the store of `writer` in refresh(). */
static bool begin_write(void)
{
    int self = (int)syscall(SYS_getpid), found = 0;
    if (__atomic_compare_exchange_n(&writer, &found, self, false, __ATOMIC_SEQ_CST,
                                    __ATOMIC_SEQ_CST))
        return true;
    if (found == self && __atomic_fetch_add(&refused, 1, __ATOMIC_SEQ_CST) < PATIENCE)
        return false;
    /* Pairs like the CAS above. `refused` has no partner: it is a counter. */
    return __atomic_compare_exchange_n(&writer, &found, self, false, __ATOMIC_SEQ_CST,
                                       __ATOMIC_SEQ_CST);
}

static bool refresh(void)
{
    if (!begin_write())
        return false;
    /* `generation` pairs with the loads in look(): the table is complete. `unloads` pairs with the
     * additions below: a list that was read before one is read again. */
    for (int i = 0; i < TRIES; i++) { /* again, if a module was unloaded in the meantime */
        unsigned next = __atomic_load_n(&generation, __ATOMIC_SEQ_CST) + 1;
        unsigned before = __atomic_load_n(&unloads, __ATOMIC_SEQ_CST);
        tables[next & 1].unloads = before;
        read_list(&tables[next & 1]);
        __atomic_store_n(&generation, next, __ATOMIC_SEQ_CST);
        if (__atomic_load_n(&unloads, __ATOMIC_SEQ_CST) == before)
            break;
    }
    /* `writer` pairs with the CAS in begin_write(). `refused` is a counter. */
    __atomic_store_n(&refused, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&writer, 0, __ATOMIC_SEQ_CST);
    return true;
}

/* Returns whether the list continues after the last node of T, or T was not filled. */
static bool is_old(const struct table *t)
{
    uintptr_t next = 0;
    if (t->last == 0)
        return true;
    if (t->count == MOST_MODULES)
        return false;
    return piano__memory_copy(&next, t->last + offsetof(struct link_map, l_next), sizeof next) !=
               sizeof next ||
           next != 0;
}

/* A child does not continue the dlclose of its parent's other threads. */
static bool is_unloading(void)
{
    /* Both pair with piano__loaded_unload_begins(). */
    return __atomic_load_n(&unloading, __ATOMIC_SEQ_CST) != 0 &&
           __atomic_load_n(&unloader, __ATOMIC_SEQ_CST) == (int)syscall(SYS_getpid);
}

/* Looks through the list itself. Repeats that while modules are unloaded: a freed node leads
 * elsewhere. */
static bool look_through_list(uintptr_t pc, struct piano__loaded *out)
{
    struct link_map node;
    for (int i = 0; i < TRIES; i++) {
        uintptr_t at = &_r_debug ? (uintptr_t)_r_debug.r_map : 0;
        for (unsigned n = 0; at && n < 2 * MOST_MODULES; n++) {
            if (piano__memory_copy(&node, at, sizeof node) != sizeof node)
                break;
            if (describe(&node, out) && pc >= out->start && pc < out->end)
                return true;
            at = (uintptr_t)node.l_next;
        }
        if (!is_unloading())
            break;
    }
    return false;
}

/* Copies the entry, since the table may be overwritten once the generation has changed. Then the
 * copy is discarded. */
static bool look(uintptr_t pc, struct piano__loaded *out, bool *old)
{
    for (int i = 0; i < TRIES; i++) {
        /* Pairs with the store in refresh(); `unloads` pairs with the additions below. */
        unsigned before = __atomic_load_n(&generation, __ATOMIC_SEQ_CST);
        const struct table *t = &tables[before & 1];
        bool found = false, is_current = t->unloads == __atomic_load_n(&unloads, __ATOMIC_SEQ_CST);
        for (unsigned at = 0; is_current && at < t->count && at < MOST_MODULES && !found; at++) {
            *out = t->list[at];
            found = pc >= out->start && pc < out->end;
        }
        *old = !is_current || (!found && is_old(t));
        /* Pairs with the store in refresh(). Orders the reads of the table before the second load
         * of `generation`. */
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (__atomic_load_n(&generation, __ATOMIC_SEQ_CST) == before)
            return found;
    }
    *old = true;
    return false;
}

bool piano__loaded_find(uintptr_t pc, struct piano__loaded *out)
{
    bool old = false, is_changing = is_unloading();
    if (is_changing && !refresh())
        return look_through_list(pc, out);
    if (look(pc, out, &old))
        return true;
    if (!old && !is_changing)
        return false;
    return (old && refresh() && look(pc, out, &old)) || look_through_list(pc, out);
}

void piano__loaded_unload_begins(void)
{
    int self = (int)syscall(SYS_getpid);
    /* These pair with the loads in is_unloading(). */
    if (__atomic_exchange_n(&unloader, self, __ATOMIC_SEQ_CST) != self)
        __atomic_store_n(&unloading, 0, __ATOMIC_SEQ_CST);
    __atomic_fetch_add(&unloading, 1, __ATOMIC_SEQ_CST);
}

void piano__loaded_unload_ended(void)
{
    /* Pair with the loads of `unloads` above, and with is_unloading(). */
    unsigned open = __atomic_load_n(&unloading, __ATOMIC_SEQ_CST);
    __atomic_fetch_add(&unloads, 1, __ATOMIC_SEQ_CST);
    while (open > 0 && !__atomic_compare_exchange_n(&unloading, &open, open - 1, true,
                                                    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        ;
}

void piano__loaded_forget(void)
{
    /* Pairs with the loads in refresh() and look(). */
    __atomic_fetch_add(&unloads, 1, __ATOMIC_SEQ_CST);
    refresh();
}
