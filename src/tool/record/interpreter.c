/* CPython is recognised by its libraries (libpython3.11 or later) or, if the interpreter is in the
 * executable itself, by a symbol that it exports since 3.11. A script is recognised by its first
 * line; `env` there searches PATH. Python that is started in another way (by a shell script, such
 * as those of pyenv) is not recognised. */
#include "tool/record/interpreter.h"
#include "tool/util/file.h"

#include <fcntl.h>
#include <gelf.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEEPEST = 5, LINE = 256, FIRST_MINOR = 11 };

/* "libpython3.11.so.1.0" */
static bool is_library(const char *name)
{
    int minor = 0;
    return name && sscanf(name, "libpython3.%d", &minor) == 1 && minor >= FIRST_MINOR;
}

static bool needs_library(Elf *elf, Elf_Scn *section, const GElf_Shdr *header)
{
    Elf_Data *data = elf_getdata(section, NULL);
    GElf_Dyn d;
    for (int i = 0; data && gelf_getdyn(data, i, &d); i++) {
        if (d.d_tag == DT_NEEDED && is_library(elf_strptr(elf, header->sh_link, d.d_un.d_val)))
            return true;
    }
    return false;
}

static bool has_symbol(Elf *elf, Elf_Scn *section, const GElf_Shdr *header)
{
    Elf_Data *data = elf_getdata(section, NULL);
    GElf_Sym s;
    for (int i = 0; data && gelf_getsym(data, i, &s); i++) {
        const char *name = elf_strptr(elf, header->sh_link, s.st_name);
        if (name && s.st_shndx != SHN_UNDEF && strcmp(name, "Py_Version") == 0)
            return true;
    }
    return false;
}

static bool is_elf_of_python(int fd)
{
    bool found = false;
    elf_version(EV_CURRENT);
    Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
    for (Elf_Scn *s = NULL; elf && !found && (s = elf_nextscn(elf, s));) {
        GElf_Shdr header;
        if (!gelf_getshdr(s, &header))
            break;
        found = (header.sh_type == SHT_DYNAMIC && needs_library(elf, s, &header)) ||
                (header.sh_type == SHT_DYNSYM && has_symbol(elf, s, &header));
    }
    elf_end(elf);
    return found;
}

static bool is_python(const char *path, int depth);

static bool is_python_in_path(const char *word, int depth)
{
    const char *dirs = getenv("PATH");
    char file[PATH_MAX];
    for (const char *at = dirs ? dirs : "/bin:/usr/bin"; at; at = strchr(at, ':')) {
        at += *at == ':';
        int len = (int)strcspn(at, ":");
        int all = snprintf(file, sizeof file, "%.*s/%s", len ? len : 1, len ? at : ".", word);
        if (all < (int)sizeof file && access(file, X_OK) == 0)
            return is_python(file, depth);
    }
    return false;
}

/* LINE is the text after "#!". */
static bool is_script_of_python(char *line, int depth)
{
    char *rest = NULL;
    line[strcspn(line, "\n")] = '\0';
    const char *by = strtok_r(line, " \t", &rest);
    const char *slash = by ? strrchr(by, '/') : NULL;
    if (!by || !slash || strcmp(slash, "/env") != 0)
        return by && is_python(by, depth);
    const char *word = strtok_r(NULL, " \t", &rest);
    while (word && (*word == '-' || strchr(word, '=')))
        word = strtok_r(NULL, " \t", &rest);
    return word && is_python_in_path(word, depth);
}

static bool is_python(const char *path, int depth)
{
    char head[LINE + 1] = "";
    int fd = depth < DEEPEST ? file_open(path, O_RDONLY) : -1;
    bool found = false;
    ssize_t len = fd >= 0 ? pread(fd, head, LINE, 0) : 0;
    if (len > SELFMAG && memcmp(head, ELFMAG, SELFMAG) == 0)
        found = is_elf_of_python(fd);
    else if (len > 2 && memcmp(head, "#!", 2) == 0)
        found = is_script_of_python(head + 2, depth + 1);
    if (fd >= 0)
        close(fd);
    return found;
}

bool interpreter_is_python(const char *path)
{
    return is_python(path, 0);
}
