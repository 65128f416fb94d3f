/* Finds the file for a module. First choice is the file at the recorded path, if it has the
 * recorded build-id; then a debug file with that build-id. Programs are often rebuilt in place, so
 * a recorded path that ends in " (deleted)" is also tried without this suffix; the build-id check
 * rejects a different build. The kernel's [vdso] is not a file: the tool uses the vdso of its own
 * process, which has the same build-id if the kernel is the same.
 *
 * libdwfl gets every file at base 0, so that its addresses are file addresses. Line tables and
 * symbols are read when an address first needs them. */
#include "tool/symbol/codefile.h"

#include <elfutils/libdwelf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool/symbol/demangle.h"
#include "tool/symbol/starts.h"
#include "tool/symbol/symtab.h"
#include "tool/util/file.h"

enum { VDSO_MAX = 1 << 20 };

struct codefile {
    struct strings *strings;
    Dwfl *dwfl;
    Dwfl_Module *mod;
    Dwarf_Addr bias; /* of `units` */
    struct units *units;
    struct symtab *symtab;
    bool units_read, symtab_read;
    struct starts starts;
};

/* libdwfl never calls this: `codefile_open` gives it every file. */
static int find_no_elf(Dwfl_Module *mod, void **userdata, const char *modname, Dwarf_Addr base,
                       char **file_name, Elf **elfp)
{
    (void)mod;
    (void)userdata;
    (void)modname;
    (void)base;
    (void)file_name;
    (void)elfp;
    return -1;
}

static const Dwfl_Callbacks callbacks = {
    .find_elf = find_no_elf,
    .find_debuginfo = debugfile_find,
};

static bool is_vdso(const char *path)
{
    return strcmp(path, "[vdso]") == 0 || strcmp(path, "linux-vdso.so.1") == 0;
}

/* Copies the vdso of this process into a memory file. Returns a descriptor or negative errno. */
static int open_vdso(void)
{
    const char *start = (const char *)getauxval(AT_SYSINFO_EHDR);
    if (!start)
        return -ENOENT;
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)start;
    size_t size = header->e_shoff + (size_t)header->e_shnum * header->e_shentsize;
    int fd = size < VDSO_MAX ? memfd_create("vdso", MFD_CLOEXEC) : -1;
    if (fd < 0)
        return -ENOENT;
    if (write(fd, start, size) != (ssize_t)size) {
        close(fd);
        return -EIO;
    }
    return fd;
}

static const char *why_not(struct strings *strings, int err)
{
    switch (err) {
    case -ENOENT:
    case -ENOTDIR:
        return strings_puts(strings, "is gone");
    case -EINVAL:
        return strings_puts(strings, "is not a regular file");
    case -ENOEXEC:
        return strings_puts(strings, "is not a program or library (or a damaged one)");
    case -ESTALE:
        return strings_puts(strings, "was replaced by another build");
    default:
        return strings_printf(strings, "cannot be opened: %s", strerror(-err));
    }
}

/* Opens the file at PATH if it has the recorded build-id. Returns negative errno otherwise: -ESTALE
 * for another build-id. */
static int open_at(const char *path, const struct symbol_module *module)
{
    struct build_id id;
    int fd = is_vdso(path) ? open_vdso() : file_open(path, O_RDONLY);
    if (fd < 0)
        return fd;
    int err = debugfile_id(fd, &id);
    if (err == 0 && module->build_id_len &&
        !debugfile_same_id(&id, module->build_id, module->build_id_len))
        err = -ESTALE;
    /* Without a build-id, this file cannot be distinguished from the deleted one, nor this kernel's
     * vdso from the recorded one. */
    if (err == 0 && !module->build_id_len && path != module->path)
        err = -ENOENT;
    if (err == 0 && !module->build_id_len && is_vdso(path))
        err = -ESTALE;
    if (err != 0) {
        close(fd);
        return err;
    }
    return fd;
}

static int open_recorded(const struct symbol_module *module)
{
    static const char deleted[] = " (deleted)";
    int fd = open_at(module->path, module);
    size_t len = strlen(module->path), tail = sizeof(deleted) - 1;
    if (fd != -ENOENT || len <= tail || strcmp(module->path + len - tail, deleted) != 0)
        return fd;
    char *path = strndup(module->path, len - tail);
    if (!path)
        return -ENOMEM;
    fd = open_at(path, module);
    free(path);
    return fd;
}

/* Opens the file to use for MODULE. Returns a descriptor or negative errno. PATH receives its
 * name. */
static int open_any(const struct symbol_module *module, struct debugfile_search *search, char *path)
{
    int fd = open_recorded(module), other = -1;
    struct build_id id = {.len = module->build_id_len};
    if (fd < 0 && id.len && id.len <= sizeof(id.bytes)) {
        memcpy(id.bytes, module->build_id, id.len);
        other = debugfile_by_id(search, &id, module->path, path);
    }
    if (other < 0 || !*path) {
        strncpy(path, module->path, PATH_MAX - 1);
        path[PATH_MAX - 1] = '\0';
    }
    return other >= 0 ? other : fd;
}

struct codefile *codefile_open(const struct symbol_module *module, struct debugfile_search *search,
                               struct strings *strings, const char **reason)
{
    char path[PATH_MAX] = "";
    void **userdata;
    int fd = open_any(module, search, path);
    if (fd < 0) {
        *reason = why_not(strings, fd);
        return NULL;
    }
    struct codefile *code = calloc(1, sizeof(*code));
    if (code) {
        code->strings = strings;
        code->dwfl = dwfl_begin(&callbacks);
    }
    if (code && code->dwfl) {
        dwfl_report_begin(code->dwfl);
        code->mod = dwfl_report_elf(code->dwfl, module->path, path, fd, 0, true);
    }
    if (!code || !code->mod) {
        close(fd);
        *reason = why_not(strings, -ENOEXEC);
        codefile_free(code);
        return NULL;
    }
    dwfl_module_info(code->mod, &userdata, NULL, NULL, NULL, NULL, NULL, NULL);
    *userdata = search;
    dwfl_report_end(code->dwfl, NULL, NULL);
    return code;
}

void codefile_free(struct codefile *code)
{
    if (!code)
        return;
    units_free(code->units);
    symtab_free(code->symtab);
    dwfl_end(code->dwfl);
    free(code);
}

/* libdw opens the shared file (.gnu_debugaltlink) that DWARF refers to. Is that something other
 * than a regular file? */
static bool shared_is_trap(Dwarf *dwarf)
{
    const char *name;
    const void *id;
    struct stat st;
    return dwelf_dwarf_gnu_debugaltlink(dwarf, &name, &id) > 0 && stat(name, &st) == 0 &&
           !S_ISREG(st.st_mode);
}

static void read_units(struct codefile *code)
{
    const char *file = NULL, *debug = NULL;
    code->units_read = true;
    Dwarf *dwarf = dwfl_module_getdwarf(code->mod, &code->bias);
    if (!dwarf || shared_is_trap(dwarf))
        return;
    dwfl_module_info(code->mod, NULL, NULL, NULL, NULL, NULL, &file, &debug);
    file = debug ? debug : file ? file : "";
    const char *slash = strrchr(file, '/');
    char *beside = strndup(file, slash ? (size_t)(slash - file) : 0);
    if (beside)
        code->units = units_new(dwarf, beside, code->strings);
    free(beside);
}

/* The name of the symbol at ADDR, or NULL. MANGLED: only if the symbol is mangled. */
static const char *symbol_name(struct codefile *code, uint64_t addr, bool mangled)
{
    if (!code->symtab_read) {
        code->symtab_read = true;
        code->symtab = symtab_new(code->mod, code->strings);
    }
    const char *raw = code->symtab ? symtab_find(code->symtab, addr) : NULL;
    if (!raw || (mangled && !demangle_likely(raw)))
        return NULL;
    /* Removes the symbol version: "memcpy@@GLIBC_2.14", "memcpy@GLIBC_2.2.5". */
    const char *version = strchr(raw, '@');
    if (version && version != raw && strcmp(version, "@plt") != 0)
        raw = strings_put(code->strings, raw, (size_t)(version - raw));
    return raw ? demangle(code->strings, raw) : NULL;
}

size_t codefile_find(struct codefile *code, uint64_t addr, struct symbol_frame frames[UNITS_FRAMES])
{
    bool scoped = true;
    if (!code->units_read)
        read_units(code);
    size_t count = code->units ? units_find(code->units, addr - code->bias, frames, &scoped) : 0;
    if (count == 0)
        frames[count++] = (struct symbol_frame){0};
    struct symbol_frame *last = &frames[count - 1];
    const char *name = NULL;
    if (!last->function || !scoped)
        name = symbol_name(code, addr, last->function);
    if (name)
        last->function = name;
    return last->function || last->file || count > 1 ? count : 0;
}

uint64_t codefile_function(struct codefile *code, uint64_t addr)
{
    return starts_find(&code->starts, code->mod, addr);
}
