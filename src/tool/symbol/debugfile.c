/* Looks for the debug information of a module in this order:
 *
 *   DIR/.build-id/xx/yyyy.debug   for each of the debug directories, when there is a build-id
 *   the name in .gnu_debuglink    beside the file, in .debug there, and below the debug directories
 *   a debuginfod server
 *
 * The same for the second file, shared between packages, that dwz makes (.gnu_debugaltlink). A file
 * must have the requested build-id or, if there is none, the requested checksum. */
#include "tool/symbol/debugfile.h"
#include "tool/util/file.h"

#include <elfutils/libdwelf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int debugfile_id(int fd, struct build_id *id)
{
    char magic[SELFMAG];
    id->len = 0;
    if (pread(fd, magic, sizeof(magic), 0) != sizeof(magic) || memcmp(magic, ELFMAG, SELFMAG) != 0)
        return -ENOEXEC;
    elf_version(EV_CURRENT);
    Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
    GElf_Ehdr header;
    int err = -ENOEXEC;
    if (elf && elf_kind(elf) == ELF_K_ELF && gelf_getehdr(elf, &header) &&
        (header.e_type == ET_EXEC || header.e_type == ET_DYN)) {
        const void *bytes;
        ssize_t len = dwelf_elf_gnu_build_id(elf, &bytes);
        if (len > 0 && len <= DEBUGFILE_ID_MAX) {
            memcpy(id->bytes, bytes, (size_t)len);
            id->len = (size_t)len;
        }
        err = 0;
    }
    elf_end(elf);
    return err;
}

bool debugfile_same_id(const struct build_id *id, const uint8_t *known, size_t len)
{
    enum { RECORDED_MAX = 32 };
    bool cut = len == RECORDED_MAX && id->len > len;
    return (id->len == len || cut) && memcmp(id->bytes, known, len) == 0;
}

/* Returns FD if it has build-id ID. Otherwise closes it and returns -1. */
static int checked(int fd, const struct build_id *id)
{
    struct build_id found;
    if (fd < 0)
        return -1;
    if (debugfile_id(fd, &found) == 0 && debugfile_same_id(&found, id->bytes, id->len))
        return fd;
    close(fd);
    return -1;
}

/* Copies the next directory of *LIST to DIR; false at the end. */
static bool next_dir(const char **list, char *dir, size_t size)
{
    while (**list) {
        size_t len = strcspn(*list, ":");
        const char *start = *list;
        *list += len + ((*list)[len] == ':');
        if (len > 0 && len < size) {
            memcpy(dir, start, len);
            dir[len] = '\0';
            return true;
        }
    }
    return false;
}

static int in_dirs(const struct debugfile_search *search, const struct build_id *id,
                   const char *suffix, char *path)
{
    char dir[PATH_MAX / 2], hex[2 * DEBUGFILE_ID_MAX + 1];
    const char *list = search->dirs;
    int fd = -1;
    if (id->len < 2)
        return -1;
    for (size_t i = 0; i < id->len; i++)
        snprintf(hex + 2 * i, 3, "%02x", id->bytes[i]);
    while (fd < 0 && next_dir(&list, dir, sizeof(dir))) {
        snprintf(path, PATH_MAX, "%s/.build-id/%.2s/%s%s", dir, hex, hex + 2, suffix);
        fd = checked(file_open(path, O_RDONLY), id);
    }
    return fd;
}

int debugfile_by_id(struct debugfile_search *search, const struct build_id *id, const char *what,
                    char *path)
{
    int fd = in_dirs(search, id, ".debug", path);
    if (fd < 0)
        fd = in_dirs(search, id, "", path);
    if (fd >= 0)
        return fd;
    *path = '\0';
    fd = checked(debuginfod_fetch(&search->debuginfod, DEBUGINFOD_DEBUG, id->bytes, id->len, what),
                 id);
    if (fd < 0)
        fd = checked(
            debuginfod_fetch(&search->debuginfod, DEBUGINFOD_PROGRAM, id->bytes, id->len, what),
            id);
    return fd;
}

/* The checksum of .gnu_debuglink: CRC-32, as in zlib. */
static bool crc_is(int fd, uint32_t want)
{
    uint32_t table[256], crc = ~0u;
    static unsigned char block[64 * 1024];
    ssize_t got;
    for (uint32_t i = 0; i < 256; i++) {
        table[i] = i;
        for (int bit = 0; bit < 8; bit++)
            table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0xedb88320u : 0);
    }
    for (off_t at = 0; (got = pread(fd, block, sizeof(block), at)) > 0; at += got)
        for (ssize_t i = 0; i < got; i++)
            crc = crc >> 8 ^ table[(crc ^ block[i]) & 0xff];
    return got == 0 && ~crc == want;
}

/* The file that a link refers to. */
struct wanted {
    const char *link;
    struct build_id id; /* len 0: compare the checksum */
    uint32_t crc;
};

static int try_path(const struct wanted *want, const char *path)
{
    int fd = file_open(path, O_RDONLY);
    struct build_id found;
    if (fd < 0 || want->id.len)
        return checked(fd, &want->id);
    if (debugfile_id(fd, &found) == 0 && crc_is(fd, want->crc))
        return fd;
    close(fd);
    return -1;
}

/* Looks for the file by the name in a link of file FROM, in the same places as GDB. */
static int by_link(const struct debugfile_search *search, const struct wanted *want,
                   const char *from, char *path)
{
    char dir[PATH_MAX / 2], top[PATH_MAX / 4];
    const char *list = search->dirs, *slash = from ? strrchr(from, '/') : NULL;
    if (want->link[0] == '/') {
        snprintf(path, PATH_MAX, "%s", want->link);
        return try_path(want, path);
    }
    if (!slash || (size_t)(slash - from) >= sizeof(dir))
        return -1;
    snprintf(dir, sizeof(dir), "%.*s", (int)(slash - from), from);
    snprintf(path, PATH_MAX, "%s/%s", dir, want->link);
    int fd = strcmp(path, from) == 0 ? -1 : try_path(want, path);
    if (fd < 0) {
        snprintf(path, PATH_MAX, "%s/.debug/%s", dir, want->link);
        fd = try_path(want, path);
    }
    while (fd < 0 && next_dir(&list, top, sizeof(top))) {
        snprintf(path, PATH_MAX, "%s%s/%s", top, dir, want->link);
        fd = try_path(want, path);
    }
    return fd;
}

/* Fills WANT. Returns false when there is nothing to look for. */
static bool what_is_wanted(Dwfl_Module *mod, const char *link, GElf_Word crc, struct wanted *want)
{
    GElf_Addr bias;
    GElf_Word own_crc;
    Elf *elf = dwfl_module_getelf(mod, &bias);
    const void *bytes = NULL;
    ssize_t len = 0;
    *want = (struct wanted){.link = link, .crc = crc};
    if (link && elf && link != dwelf_elf_gnu_debuglink(elf, &own_crc)) {
        /* LINK is not the .gnu_debuglink of the file itself, so libdw wants the dwz file that the
         * debug information refers to. */
        const char *name;
        Dwarf_Addr dwarf_bias;
        Dwarf *dwarf = dwfl_module_getdwarf(mod, &dwarf_bias);
        len = dwarf ? dwelf_dwarf_gnu_debugaltlink(dwarf, &name, &bytes) : 0;
        if (len <= 0)
            return false;
    } else if (elf) {
        len = dwelf_elf_gnu_build_id(elf, &bytes);
    }
    if (len > 0 && len <= DEBUGFILE_ID_MAX) {
        memcpy(want->id.bytes, bytes, (size_t)len);
        want->id.len = (size_t)len;
    }
    return want->id.len || want->link;
}

int debugfile_find(Dwfl_Module *mod, void **userdata, const char *modname, Dwarf_Addr base,
                   const char *file_name, const char *debuglink_file, GElf_Word debuglink_crc,
                   char **debuginfo_file_name)
{
    struct debugfile_search *search = *userdata;
    struct wanted want;
    char path[PATH_MAX] = "";
    (void)base;
    if (!search || !what_is_wanted(mod, debuglink_file, debuglink_crc, &want))
        return -1;
    int fd = in_dirs(search, &want.id, ".debug", path);
    if (fd < 0 && want.link)
        fd = by_link(search, &want, file_name, path);
    if (fd < 0) {
        *path = '\0';
        fd = checked(debuginfod_fetch(&search->debuginfod, DEBUGINFOD_DEBUG, want.id.bytes,
                                      want.id.len, modname),
                     &want.id);
    }
    if (fd >= 0)
        *debuginfo_file_name = strdup(*path ? path : modname);
    return fd;
}
