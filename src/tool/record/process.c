/* Reads data about a process from /proc, and finds the recording it has mapped.
 *
 * A recording is found by the mappings of the process, so `piano snapshot` needs only the process
 * id and works without a `piano record`. The paths there are those of the process: for a container
 * they are below its root. A path may meanwhile belong to another file; the inode decides. */
#include "tool/record/process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "common/recording.h"

static FILE *open_proc(pid_t pid, const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    return fopen(path, "re");
}

uint64_t process_resident(pid_t pid)
{
    unsigned long long pages = 0;
    FILE *f = open_proc(pid, "statm");
    if (!f)
        return 0;
    if (fscanf(f, "%*u %llu", &pages) != 1)
        pages = 0;
    fclose(f);
    return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* The clock of a process also counts threads that have ended, and works until someone has waited
 * for the process. */
uint64_t process_cpu_ns(pid_t pid)
{
    struct timespec t;
    clockid_t clock;
    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &t) != 0)
        return 0;
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The text after NAME in /proc/PID/status; false when it cannot be read. */
static bool status_field(pid_t pid, const char *name, char *text, size_t size)
{
    char line[512];
    size_t len = strlen(name);
    FILE *f = open_proc(pid, "status");
    bool found = false;
    while (f && !found && fgets(line, sizeof line, f)) {
        found = strncmp(line, name, len) == 0 && line[len] == ':';
        if (found)
            snprintf(text, size, "%s", line + len + 1);
    }
    if (f)
        fclose(f);
    return found;
}

uint64_t process_anonymous(pid_t pid)
{
    char resident[64] = "", swapped[64] = "";
    if (!status_field(pid, "RssAnon", resident, sizeof resident))
        return 0;
    status_field(pid, "VmSwap", swapped, sizeof swapped);
    return (strtoull(resident, NULL, 10) + strtoull(swapped, NULL, 10)) * 1024;
}

bool process_is_zombie(pid_t pid)
{
    char text[64];
    return status_field(pid, "State", text, sizeof text) && strpbrk(text, "ZX");
}

bool process_ignores(pid_t pid, int sig)
{
    char text[64];
    return status_field(pid, "SigIgn", text, sizeof text) &&
           (strtoull(text, NULL, 16) >> (sig - 1) & 1);
}

pid_t process_parent(pid_t pid)
{
    char text[64];
    return status_field(pid, "PPid", text, sizeof text) ? (pid_t)strtol(text, NULL, 10) : 0;
}

pid_t process_own_pid(pid_t pid)
{
    char text[256];
    if (!status_field(pid, "NSpid", text, sizeof text))
        return pid;
    char *last = NULL;
    char *rest = text;
    const char *word;
    while ((word = strsep(&rest, " \t\n"))) {
        if (*word)
            last = text + (word - text);
    }
    return last ? (pid_t)strtol(last, NULL, 10) : pid;
}

/* A line of /proc/PID/maps. */
struct mapping {
    char rights[8];
    dev_t device;
    ino_t inode;
    char *path; /* points into the line, escapes decoded */
};

static void resolve_escapes(char *path)
{
    char *out = path;
    for (const char *in = path; *in; out++) {
        if (strncmp(in, "\\012", 4) == 0) { /* the only escape */
            *out = '\n';
            in += 4;
        } else {
            *out = *in++;
        }
    }
    *out = '\0';
}

static bool parse_mapping(char *line, struct mapping *m)
{
    unsigned major_number;
    unsigned minor_number;
    unsigned long long inode;
    int at = 0;
    if (sscanf(line, "%*x-%*x %7s %*x %x:%x %llu %n", m->rights, &major_number, &minor_number,
               &inode, &at) < 4 ||
        at == 0 || inode == 0)
        return false;
    m->device = makedev(major_number, minor_number);
    m->inode = (ino_t)inode;
    m->path = line + at;
    m->path[strcspn(m->path, "\n")] = '\0';
    resolve_escapes(m->path);
    return m->path[0] == '/';
}

static bool begins_as_recording(int fd)
{
    char magic[8];
    return pread(fd, magic, sizeof magic, 0) == (ssize_t)sizeof magic &&
           memcmp(magic, PIANO_REC_MAGIC, sizeof magic) == 0;
}

/* Opens the file of M by the path that the process uses. On some file systems (btrfs) the device in
 * /proc differs from that of stat, so only the inode is compared. */
static int open_mapping(pid_t pid, const struct mapping *m)
{
    char path[PATH_MAX + 32];
    struct stat st;
    snprintf(path, sizeof path, "/proc/%d/root%s", (int)pid, m->path);
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        fd = open(m->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_ino == m->inode)
        return fd;
    close(fd);
    return -EXDEV;
}

/* Is PATH a deleted file that was named like a recording? */
static bool was_deleted(const char *path)
{
    static const char mark[] = " (deleted)";
    size_t len = strlen(path);
    size_t tail = sizeof mark - 1;
    return len > tail && strcmp(path + len - tail, mark) == 0 && strstr(path, ".rec");
}

int process_open_recording(pid_t pid, char **path)
{
    char line[PATH_MAX + 256];
    ino_t seen = 0;
    FILE *maps = open_proc(pid, "maps");
    int found = maps ? -ENOENT : errno == ENOENT ? -ESRCH : -errno;
    *path = NULL;
    while (maps && found < 0 && fgets(line, sizeof line, maps)) {
        struct mapping m;
        if (!parse_mapping(line, &m) || strncmp(m.rights, "rw-s", 4) != 0 || m.inode == seen)
            continue;
        seen = m.inode;
        int fd = open_mapping(pid, &m);
        if (fd >= 0 && !begins_as_recording(fd)) {
            close(fd);
            continue;
        }
        if (fd >= 0) {
            found = fd;
            *path = strdup(m.path);
        } else if (was_deleted(m.path)) {
            found = -ENODATA;
        } else if (found == -ENOENT && strstr(m.path, ".rec")) {
            found = fd; /* reported unless a better one follows */
        }
    }
    if (maps)
        fclose(maps);
    return found;
}
