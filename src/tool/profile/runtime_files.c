/* Finds the map of names and the dump of a process.
 *
 * The map is /tmp/perf-PID.map. A dump may be anywhere: the runtime maps its first page executable,
 * so a recording of perf's samples has it among its modules; else the usual places are tried. While
 * the process exists, both are looked for below its own root directory, under the number it has in
 * its own PID namespace: containers have another /tmp and other numbers.
 *
 * A file counts only if it belongs to the user of the process, of the recording, or of this tool,
 * or to root. After the process has ended, its number may be used again: a file that was written
 * later than the process ended, or not since the recording began, is of another process. */
#include "tool/profile/runtime_files.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool/util/paths.h"
#include "tool/util/say.h"

enum { OWNERS = 4, SLACK_S = 2 };

struct search {
    const struct recording *rec;
    struct jit_names *names;
    uint32_t pid, inner; /* number here, and in the process's own namespace */
    int root;            /* the root directory of the process; -1: it does not exist any more */
    unsigned owners[OWNERS];
    size_t owner_count;
    char *complaint;
    size_t complaint_size;
    int err;
};

/* The number that process PID has in its own namespace. */
static uint32_t inner_pid(uint32_t pid)
{
    char path[64], line[256];
    uint32_t inner = pid;
    snprintf(path, sizeof(path), "/proc/%u/status", pid);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof(line), f)) {
        const char *last = strncmp(line, "NSpid:", 6) == 0 ? strrchr(line, '\t') : NULL;
        if (last)
            inner = (uint32_t)strtoul(last, NULL, 10);
    }
    if (f)
        fclose(f);
    return inner > 0 ? inner : pid;
}

static void find_process(struct search *s)
{
    char path[64];
    struct stat st;
    s->owners[s->owner_count++] = geteuid();
    s->owners[s->owner_count++] = 0;
    if (stat(s->rec->path, &st) == 0)
        s->owners[s->owner_count++] = st.st_uid;
    snprintf(path, sizeof(path), "/proc/%u", s->pid);
    if (stat(path, &st) != 0)
        return;
    s->owners[s->owner_count++] = st.st_uid;
    s->inner = inner_pid(s->pid);
    snprintf(path, sizeof(path), "/proc/%u/root", s->pid);
    s->root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static bool is_of_the_process(const struct search *s, int fd)
{
    const struct recording *rec = s->rec;
    struct stat st;
    if (s->root >= 0)
        return true;
    if (fstat(fd, &st) != 0)
        return false;
    int64_t start_s = (int64_t)(rec->header.start_real_ns / 1000000000u);
    int64_t length_s = rec->duration_ns >= 0 ? rec->duration_ns / 1000000000 : 0;
    bool is_over = rec->end != RECORDING_RUNNING && rec->duration_ns >= 0;
    return st.st_mtime >= start_s - SLACK_S &&
           (!is_over || rec->duration_atleast || st.st_mtime <= start_s + length_s + 1 + SLACK_S);
}

static void complain(const struct search *s, const char *path, const char *why)
{
    char safe[256];
    snprintf(s->complaint, s->complaint_size, "%s %s", say_safe(safe, sizeof(safe), path), why);
}

/* Reads PATH, as the process sees it. Returns whether it was read. */
static bool read_file(struct search *s, const char *path, int (*read)(struct jit_names *, int))
{
    int fd = s->root >= 0 ? jit_open(s->root, path, s->owners, s->owner_count) : -ENOENT;
    if (fd < 0 && fd != -EPERM)
        fd = jit_open(-1, path, s->owners, s->owner_count);
    if (fd == -EPERM)
        complain(s, path, "belongs to another user");
    else if (fd == -ENODEV || fd == -ELOOP)
        complain(s, path, "is not a regular file");
    if (fd < 0 || s->err)
        return false;
    bool is_right = is_of_the_process(s, fd);
    int err = is_right ? read(s->names, fd) : 0;
    close(fd);
    if (err == -EBADMSG)
        complain(s, path, "is not a dump of JIT code for this machine");
    s->err = err == -ENOMEM ? err : 0;
    return is_right && err == 0;
}

/* Reads the first dump that is there: a module of the recording, or in a usual place. */
static void read_dumps(struct search *s)
{
    char name[64], path[128];
    snprintf(name, sizeof(name), "jit-%u.dump", s->inner);
    for (size_t i = 0; i < s->rec->module_count; i++) {
        const char *module = s->rec->modules[i].path;
        if (strcmp(paths_base(module), name) == 0 && read_file(s, module, jit_read_dump))
            return;
    }
    snprintf(path, sizeof(path), "/tmp/%s", name);
    if (!read_file(s, path, jit_read_dump))
        read_file(s, name, jit_read_dump);
}

int runtime_files_read(const struct recording *rec, uint32_t pid, struct jit_names *names,
                       char *complaint, size_t size)
{
    struct search s = {.rec = rec,
                       .names = names,
                       .pid = pid,
                       .inner = pid,
                       .root = -1,
                       .complaint = complaint,
                       .complaint_size = size};
    char path[64];
    find_process(&s);
    snprintf(path, sizeof(path), "/tmp/perf-%u.map", s.inner);
    read_file(&s, path, jit_read_map);
    read_dumps(&s);
    jit_sort(names);
    if (s.root >= 0)
        close(s.root);
    return s.err;
}
