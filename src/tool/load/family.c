/* Finds the files of the processes of one `piano record`, by name and header.
 *
 * The files are beside each other: FILE-PID belongs to FILE. `piano record` never overwrites a file,
 * so an older FILE-PID can be left of a FILE that was removed. It began before FILE, on the clock of
 * this boot or of another one. */
#include "tool/load/family.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool/load/family_name.h"
#include "tool/load/own.h"
#include "tool/util/file.h"
#include "tool/util/order.h"
#include "tool/util/paths.h"
#include "tool/util/program.h"
#include "tool/util/say.h"
#include "tool/util/vec.h"

enum { MEMBERS_MOST = 4096, SAME_BOOT_MS = 5000 };

bool family_parse(const char *name, const char *base, uint32_t *pid, unsigned *image)
{
    size_t len = strlen(base);
    int number, end = 0;
    *image = 1;
    if (strncmp(name, base, len) != 0 || name[len] != '-')
        return false;
    if (sscanf(name + len, "-%d%n", &number, &end) != 1 || number <= 0)
        return false;
    *pid = (uint32_t)number;
    const char *rest = name + len + end;
    if (*rest == '\0')
        return true;
    end = 0;
    return sscanf(rest, ".%u%n", image, &end) == 1 && rest[end] == '\0' && *image >= 2;
}

static bool read_header(const char *path, struct piano__rec_header *h)
{
    int fd = file_open(path, O_RDONLY);
    bool is_good = fd >= 0 && pread(fd, h, sizeof(*h), 0) == (ssize_t)sizeof(*h) &&
                   memcmp(h->magic, PIANO_REC_MAGIC, sizeof(h->magic)) == 0 &&
                   h->version == PIANO_REC_VERSION && h->pid > 0 && h->start_mono_ns > 0;
    if (fd >= 0)
        close(fd);
    h->program[PIANO_REC_PATH - 1] = h->command[PIANO_REC_PATH - 1] = '\0';
    return is_good;
}

static int64_t boot_ms(const struct piano__rec_header *h)
{
    return (int64_t)(h->start_real_ns / 1000000) - (int64_t)(h->start_mono_ns / 1000000);
}

/* Whether H is of a process that the program of MAIN, or one of its children, started. */
static bool is_related(const struct piano__rec_header *main, const struct piano__rec_header *h)
{
    uint64_t since = main->session_ns > 0 ? main->session_ns : main->start_mono_ns;
    return h->start_mono_ns >= since && llabs(boot_ms(h) - boot_ms(main)) < SAME_BOOT_MS &&
           (h->session_ns == 0 || main->session_ns == 0 || h->session_ns == main->session_ns);
}

/* Takes ownership of PATH. */
static int add(struct family *f, char *path, const struct piano__rec_header *h)
{
    if (!path || VEC_DOUBLE(f->list, f->count) != 0) {
        free(path);
        return -ENOMEM;
    }
    f->list[f->count++] = (struct family_member){.path = path,
                                                 .pid = h->pid,
                                                 .start_ns = h->start_mono_ns,
                                                 .flags = h->flags,
                                                 .is_hidden = own_is_hidden(h),
                                                 .is_chosen = true};
    return 0;
}

static int by_start(const void *a, const void *b)
{
    const struct family_member *x = a, *y = b;
    return ORDER(x->start_ns, y->start_ns) ?: ORDER(x->pid, y->pid);
}

static int find_others(struct family *f, const char *dir_path, const char *base,
                       const struct piano__rec_header *main)
{
    DIR *dir = opendir(dir_path);
    const struct dirent *e;
    int err = 0;
    while (dir && err == 0 && f->count < MEMBERS_MOST && (e = readdir(dir))) {
        struct piano__rec_header h;
        uint32_t pid;
        unsigned image;
        if (!family_parse(e->d_name, base, &pid, &image) || image > 1)
            continue;
        char *path = paths_join(dir_path, e->d_name);
        if (path && read_header(path, &h) && h.pid == pid && is_related(main, &h))
            err = add(f, path, &h);
        else
            free(path);
    }
    if (dir)
        closedir(dir);
    return err;
}

int family_find(struct family *f, const char *path)
{
    struct piano__rec_header main;
    const char *slash = strrchr(path, '/');
    *f = (struct family){.count = 0};
    if (!read_header(path, &main))
        return 0;
    int err = add(f, strdup(path), &main);
    char *dir = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    err = err ? err : dir ? find_others(f, dir, slash ? slash + 1 : path, &main) : -ENOMEM;
    free(dir);
    if (err == 0 && f->count > 1)
        qsort(f->list + 1, f->count - 1, sizeof(*f->list), by_start);
    return err;
}

void family_release(struct family *f)
{
    for (size_t i = 0; i < f->count; i++)
        free(f->list[i].path);
    free(f->list);
    free(f->process);
    free(f->pids);
    *f = (struct family){.count = 0};
}

/* ---- some of them ---- */

bool family_has(const struct family *f, uint32_t pid)
{
    return !f->process ||
           (f->pid_count && bsearch(&pid, f->pids, f->pid_count, sizeof(*f->pids), order_u32));
}

int family_add(struct family *f, uint32_t pid)
{
    if (family_has(f, pid))
        return 0;
    if (VEC_DOUBLE(f->pids, f->pid_count) != 0)
        return -ENOMEM;
    f->pids[f->pid_count++] = pid;
    qsort(f->pids, f->pid_count, sizeof(*f->pids), order_u32);
    return 0;
}

bool family_is_named(const struct family *f, const char *program, const char *command)
{
    char called[PIANO_REC_PATH];
    program_called(called, sizeof(called), program, command);
    return strcmp(called, f->process) == 0 || strcmp(paths_base(program), f->process) == 0;
}

/* A number is the id of a process, which may have samples and no file. */
static int choose(struct family *f)
{
    char *end;
    unsigned long pid = strtoul(f->process, &end, 10);
    bool is_number = *f->process && *end == '\0' && pid > 0 && pid < UINT32_MAX;
    int err = is_number ? family_add(f, (uint32_t)pid) : 0;
    for (size_t i = 0; i < f->count && err == 0; i++) {
        struct family_member *m = &f->list[i];
        struct piano__rec_header h;
        m->is_chosen = is_number
                           ? m->pid == pid
                           : read_header(m->path, &h) && family_is_named(f, h.program, h.command);
        if (m->is_chosen)
            err = family_add(f, m->pid);
    }
    while (f->base < f->count && !f->list[f->base].is_chosen)
        f->base++;
    f->base = f->base < f->count ? f->base : 0;
    return err;
}

/* What was recorded of any of them, is in the recording. CPU samples may be in the first file. */
static void join_flags(struct recording *rec, const struct family *f)
{
    const unsigned kinds = PIANO_REC_HAS_HEAP | PIANO_REC_HAS_EVENTS | PIANO_REC_HAS_CPU;
    if (!f->list[f->base].is_chosen)
        rec->header.flags &= ~(unsigned)(PIANO_REC_HAS_HEAP | PIANO_REC_HAS_EVENTS);
    for (size_t i = 0; i < f->count; i++) {
        const struct family_member *m = &f->list[i];
        bool has_heap = m->is_chosen && m->flags & PIANO_REC_HAS_HEAP && !m->is_hidden;
        if (has_heap && own_is_hidden(&rec->header)) /* some figures are known */
            rec->header.stats.own_state = PIANO_OWN_UNKNOWN;
        rec->header.flags |= m->flags & (m->is_chosen ? kinds : PIANO_REC_HAS_CPU);
    }
}

static int no_memory(struct run_error *error, const char *path)
{
    char safe[300];
    *error = (struct run_error){.text = ""};
    snprintf(error->text, sizeof(error->text), "%s: not enough memory to read it",
             say_safe(safe, sizeof(safe), path));
    return -ENOMEM;
}

int family_peek(struct recording *rec, const char *path, const char *process,
                struct run_error *error)
{
    struct family f;
    int err = family_find(&f, path);
    if (err == 0 && process && f.count > 0) {
        f.process = strdup(process);
        err = f.process ? choose(&f) : -ENOMEM;
    }
    if (err) {
        family_release(&f);
        *rec = (struct recording){.duration_ns = -1};
        return no_memory(error, path);
    }
    err = recording_peek(rec, f.count ? f.list[f.base].path : path, error);
    bool is_joined = err == 0 && (f.count > 1 || f.process);
    rec->family = is_joined ? malloc(sizeof(f)) : NULL;
    if (rec->family) {
        *rec->family = f;
        join_flags(rec, &f);
        return 0;
    }
    family_release(&f);
    if (is_joined) {
        recording_unload(rec);
        err = no_memory(error, path);
    }
    return err;
}
