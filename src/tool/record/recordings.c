/* Finds the files that belong to one `piano record`.
 *
 * The runtime names them: PATH for the program, PATH.2, PATH.3, ... for the programs that the same
 * process becomes by exec, PATH-PID and PATH-PID.2, ... for other processes. An older recording may
 * have one of these names; the runtime keeps it and uses the next number. So a file is ours if its
 * header names the process and a start time after ours.
 *
 * The program's own recording stays mapped between snapshots. Those of children, of which there may
 * be thousands, are mapped only for each snapshot. */
#include "tool/record/recordings.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tool/load/family_name.h"
#include "tool/load/own.h"
#include "tool/record/process.h"
#include "tool/record/tally.h"
#include "tool/util/file.h"
#include "tool/util/paths.h"
#include "tool/util/vec.h"

enum { MAX_IMAGES = 999 };

void recordings_init(struct recordings *r, char *path, pid_t program, bool children,
                     uint64_t since_ns)
{
    *r = (struct recordings){.path = path,
                             .program = program,
                             .children = children,
                             .since_ns = since_ns,
                             .next = 1,
                             .view = {.fd = -1}};
}

static void forget(struct recording *one)
{
    if (one->pidfd >= 0)
        close(one->pidfd);
    free(one->path);
    one->pidfd = -1;
    one->path = NULL;
}

void recordings_release(struct recordings *r)
{
    for (size_t i = 0; i < r->count; i++)
        forget(&r->list[i]);
    free(r->list);
    if (r->viewed)
        view_close(&r->view);
    free(r->viewed);
    free(r->path);
    map_release(&r->seen);
    if (r->header)
        munmap(r->header, PIANO_REC_HEADER_BYTES);
    *r = (struct recordings){.view = {.fd = -1}};
}

int recordings_header(const char *path, struct piano__rec_header *h)
{
    int fd = file_open(path, O_RDONLY | O_NOFOLLOW);
    if (fd < 0)
        return fd;
    ssize_t got = pread(fd, h, sizeof *h, 0);
    close(fd);
    if (got != (ssize_t)sizeof *h)
        return -EBADMSG;
    int err = view_check(h);
    return err == 0 && (h->pid == 0 || h->start_mono_ns == 0) ? -EBADMSG : err;
}

/* Takes ownership of PATH. */
static void add(struct recordings *r, char *path, pid_t pid, unsigned image)
{
    if (VEC_DOUBLE(r->list, r->count) != 0) {
        free(path);
        return;
    }
    for (size_t i = 0; i < r->count; i++) {
        if (r->list[i].pid == pid && r->list[i].image < image)
            r->list[i].over = true;
    }
    int pidfd = pid != r->program ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
    r->list[r->count++] =
        (struct recording){.path = path, .pid = pid, .image = image, .pidfd = pidfd};
}

static bool is_known(const struct recordings *r, pid_t pid, unsigned image)
{
    for (size_t i = 0; i < r->count; i++) {
        if (r->list[i].pid == pid && r->list[i].image == image)
            return true;
    }
    return false;
}

/* An incomplete file may become complete, so it is checked again next time. It does not delay the
 * files after it. */
static void find_program(struct recordings *r)
{
    bool settled = true;
    for (unsigned image = r->next; image <= MAX_IMAGES; image++) {
        struct piano__rec_header h;
        char *path = NULL;
        if (image == 1)
            path = strdup(r->path);
        else if (asprintf(&path, "%s.%u", r->path, image) < 0)
            path = NULL;
        int err = path ? recordings_header(path, &h) : -ENOMEM;
        bool ours = err == 0 && h.pid == (uint32_t)r->program && h.start_mono_ns >= r->since_ns;
        if (ours && !is_known(r, r->program, image))
            add(r, path, r->program, image);
        else
            free(path);
        if (err == -ENOENT || err == -ENOMEM)
            return;
        settled = settled && err != -EBADMSG;
        if (settled)
            r->next = image + 1;
    }
}

static uint64_t name_key(const char *name)
{
    return map_hash(name, strlen(name));
}

/* Whether the directory may have files that were not seen. The time of its last change is not exact:
 * a change soon after another one can have the same time. */
static bool has_changed(struct recordings *r, DIR *dir)
{
    struct stat st;
    struct timespec now;
    if (fstat(dirfd(dir), &st) != 0 || clock_gettime(CLOCK_REALTIME, &now) != 0)
        return true;
    bool is_same =
        st.st_mtim.tv_sec == r->changed.tv_sec && st.st_mtim.tv_nsec == r->changed.tv_nsec;
    bool is_settled = now.tv_sec > st.st_mtim.tv_sec + 1;
    r->changed = is_settled ? st.st_mtim : (struct timespec){0, 0};
    return !is_same;
}

/* A file that is not complete is looked at again. */
static void find_child(struct recordings *r, const char *dir_path, const char *base,
                       const char *name)
{
    struct piano__rec_header h;
    uint32_t pid;
    unsigned image;
    if (!family_parse(name, base, &pid, &image) || map_find(&r->seen, name_key(name)) != MAP_NONE)
        return;
    char *path = paths_join(dir_path, name);
    int err = path ? recordings_header(path, &h) : -ENOMEM;
    if (err == 0)
        (void)map_put(&r->seen, name_key(name), 0);
    if (err == 0 && h.start_mono_ns >= r->since_ns)
        add(r, path, (pid_t)pid, image);
    else
        free(path);
}

static void find_children(struct recordings *r)
{
    const char *slash = strrchr(r->path, '/');
    char *dir_path = strndup(r->path, (size_t)(slash - r->path) + 1);
    DIR *dir = dir_path ? opendir(dir_path) : NULL;
    const struct dirent *e;
    bool is_new = dir && has_changed(r, dir);
    while (is_new && (e = readdir(dir)))
        find_child(r, dir_path, slash + 1, e->d_name);
    if (dir)
        closedir(dir);
    free(dir_path);
}

/* Maps the header of the program's recording, where its children count themselves. */
static struct piano__rec_family *family_of(struct recordings *r)
{
    struct piano__rec_header h;
    if (!r->header && recordings_header(r->path, &h) == 0) {
        int fd = file_open(r->path, O_RDWR | O_NOFOLLOW);
        void *map =
            fd < 0 ? MAP_FAILED
                   : mmap(NULL, PIANO_REC_HEADER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        r->header = map == MAP_FAILED ? NULL : map;
        if (fd >= 0)
            close(fd);
    }
    return r->header ? &r->header->family : NULL;
}

bool recordings_drop_empty(struct recording *one)
{
    struct piano__rec_header h;
    if (recordings_header(one->path, &h) != 0 || h.stats.samples != 0 || h.trace.samples != 0 ||
        h.trace.events != 0 || unlink(one->path) != 0)
        return false;
    forget(one);
    return true;
}

bool recordings_has_later(const struct recordings *r, const struct recording *one)
{
    for (size_t i = 0; i < r->count; i++) {
        if (r->list[i].pid == one->pid && r->list[i].image > one->image)
            return true;
    }
    return false;
}

/* Removes the recording of a child that has ended if there is nothing in it. Its place is then free
 * for another. */
static bool drop_ended(struct recordings *r, struct piano__rec_family *family,
                       struct recording *one)
{
    struct piano__rec_header h;
    bool is_last = !recordings_has_later(r, one);
    if (recordings_header(one->path, &h) == 0 && own_is_hidden(&h))
        return false; /* that will be said */
    tally_one(one->path);
    if (!recordings_drop_empty(one))
        return false;
    r->dropped += is_last;
    /* Relaxed: a counter, which processes that start change too. */
    if (is_last && __atomic_load_n(&family->count, __ATOMIC_RELAXED) > 0)
        __atomic_sub_fetch(&family->count, 1, __ATOMIC_RELAXED);
    return true;
}

bool recordings_is_at_work(struct recording *one)
{
    if (!one->over && kill(one->pid, 0) != 0 && errno == ESRCH)
        one->over = true;
    return !one->over;
}

static void close_gaps(struct recordings *r)
{
    size_t kept = 0;
    for (size_t i = 0; i < r->count; i++) {
        if (r->list[i].path)
            r->list[kept++] = r->list[i];
    }
    r->count = kept;
}

/* Makes room for more children, once half of the places are taken. */
static void drop_all_ended(struct recordings *r, struct piano__rec_family *family)
{
    /* Relaxed: counters. */
    if (!family || 2 * __atomic_load_n(&family->count, __ATOMIC_RELAXED) <
                       __atomic_load_n(&family->most, __ATOMIC_RELAXED))
        return;
    for (size_t i = 0; i < r->count; i++) {
        struct recording *one = &r->list[i];
        bool is_due = one->pid != r->program && !one->is_looked_at && !recordings_is_at_work(one);
        one->is_looked_at |= is_due;
        if (is_due)
            (void)drop_ended(r, family, one);
    }
    close_gaps(r);
}

void recordings_forget_deleted(struct recordings *r)
{
    struct stat st;
    for (size_t i = 0; i < r->count; i++) {
        if (lstat(r->list[i].path, &st) != 0 && errno == ENOENT)
            forget(&r->list[i]);
    }
    close_gaps(r);
}

void recordings_find(struct recordings *r)
{
    find_program(r);
    if (!r->children)
        return;
    find_children(r);
    drop_all_ended(r, family_of(r));
}

const char *recordings_newest(const struct recordings *r)
{
    const struct recording *newest = NULL;
    for (size_t i = 0; i < r->count; i++) {
        if (r->list[i].pid == r->program && (!newest || r->list[i].image > newest->image))
            newest = &r->list[i];
    }
    return newest ? newest->path : NULL;
}

/* The view that stays open, on the newest image of the program. */
static struct view *program_view(struct recordings *r, const struct recording *one)
{
    if (r->viewed && strcmp(r->viewed, one->path) == 0)
        return &r->view;
    if (r->viewed) {
        view_close(&r->view);
        free(r->viewed);
        r->viewed = NULL;
    }
    if (view_open(&r->view, one->path) != 0)
        return NULL;
    r->viewed = strdup(one->path);
    if (!r->viewed)
        view_close(&r->view);
    return r->viewed ? &r->view : NULL;
}

/* The view of ONE: that of the program, which stays open, or a new one in PASSING, which the caller
 * closes. NULL if it cannot be opened. */
static struct view *view_of(struct recordings *r, const struct recording *one, struct view *passing)
{
    if (one->pid == r->program)
        return program_view(r, one);
    return view_open(passing, one->path) == 0 ? passing : NULL;
}

static bool snapshot_one(struct recordings *r, const struct recording *one,
                         enum piano__snapshot_kind kind, uint64_t *bytes)
{
    struct view passing;
    struct view *v = view_of(r, one, &passing);
    if (!v)
        return false;
    uint64_t before = v->snapshot_chunks;
    int number = view_snapshot(v, kind, process_resident(one->pid));
    if (number > 0 && v->snapshot_chunks > before && before > 0)
        *bytes += (v->snapshot_chunks - before) * PIANO_REC_CHUNK_BYTES;
    if (number == -ENOSPC)
        r->refused++;
    if (v == &passing)
        view_close(v);
    return number > 0;
}

size_t recordings_snapshot(struct recordings *r, enum piano__snapshot_kind kind, uint64_t *bytes)
{
    size_t taken = 0;
    recordings_find(r);
    for (size_t i = 0; i < r->count; i++) {
        if (recordings_is_at_work(&r->list[i]))
            taken += snapshot_one(r, &r->list[i], kind, bytes);
    }
    return taken;
}

static bool fire_one(struct recordings *r, const struct recording *one,
                     const struct piano__fired *fired)
{
    struct view passing;
    struct view *v = view_of(r, one, &passing);
    if (!v)
        return false;
    struct piano__rec_header *h = v->base.header;
    const size_t room = sizeof h->fires / sizeof *h->fires;
    h->fires[h->fired % room] = *fired;
    h->fired++;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (fired->action == PIANO_FIRED_END)
        __atomic_store_n(&h->ended_ns, (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec,
                         __ATOMIC_RELAXED);
    if (v == &passing)
        view_close(v);
    return true;
}

size_t recordings_fire(struct recordings *r, const struct piano__fired *fired)
{
    size_t count = 0;
    recordings_find(r);
    for (size_t i = 0; i < r->count; i++)
        count += recordings_is_at_work(&r->list[i]) && fire_one(r, &r->list[i], fired);
    return count;
}
