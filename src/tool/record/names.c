/* Decides on the final names of the recordings.
 *
 * `env X=1 prog` and `sh -c 'exec prog'` are one process that ran two programs and left two
 * recordings. The user meant the last one, so it gets the requested name. Earlier ones are usually
 * empty and are removed. If they contain samples, they are kept as PATH.1, PATH.2, ... in the order
 * in which they ran. */
#include "tool/record/names.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool/record/process.h"
#include "tool/util/order.h"

static int by_process(const void *a, const void *b)
{
    const struct recording *x = a, *y = b;
    return ORDER(x->pid, y->pid) ?: ORDER(x->image, y->image);
}

/* Moves the recordings of the program to the front; the others keep their order. */
static void program_first(struct recordings *r)
{
    size_t first = 0;
    while (first < r->count && r->list[first].pid != r->program)
        first++;
    for (size_t i = first, to = 0; i < r->count && r->list[i].pid == r->program; i++, to++) {
        struct recording one = r->list[i];
        memmove(&r->list[to + 1], &r->list[to], (i - to) * sizeof one);
        r->list[to] = one;
    }
}

/* Never replaces another file. */
static int rename_new(const char *from, const char *to)
{
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -errno;
    if (faccessat(AT_FDCWD, to, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return -EEXIST;
    return rename(from, to) == 0 ? 0 : -errno;
}

/* Renames ONE to TO and takes ownership of TO. On failure ONE keeps its name. */
static int move_to(struct recording *one, char *to)
{
    int err = to ? rename_new(one->path, to) : -ENOMEM;
    if (err != 0) {
        free(to);
        return err;
    }
    free(one->path);
    one->path = to;
    return 0;
}

/* The COUNT images of one process, in order; ASKED is the name of the first. */
static void settle_one(struct recording *images, size_t count, const char *asked)
{
    struct recording *last = &images[count - 1];
    for (size_t i = 0; i + 1 < count; i++)
        (void)recordings_drop_empty(&images[i]);
    if (strcmp(last->path, asked) == 0)
        return;
    for (size_t i = 0; i + 1 < count; i++) {
        char *aside = NULL;
        if (!images[i].path || strcmp(images[i].path, asked) != 0)
            continue;
        if (asprintf(&aside, "%s.1", asked) < 0)
            aside = NULL;
        (void)move_to(&images[i], aside); /* on failure, each keeps its name */
    }
    (void)move_to(last, strdup(asked));
}

/* Removes deleted recordings from the list. */
static void close_ranks(struct recordings *r)
{
    size_t kept = 0;
    for (size_t i = 0; i < r->count; i++) {
        if (r->list[i].path)
            r->list[kept++] = r->list[i];
    }
    r->count = kept;
}

void names_settle(struct recordings *r)
{
    if (r->count == 0)
        return;
    qsort(r->list, r->count, sizeof *r->list, by_process);
    program_first(r);
    for (size_t from = 0, to = 0; from < r->count; from = to) {
        pid_t pid = r->list[from].pid;
        char *asked = NULL;
        while (to < r->count && r->list[to].pid == pid)
            to++;
        if (pid == r->program)
            asked = strdup(r->path);
        else if (asprintf(&asked, "%s-%d", r->path, (int)pid) < 0)
            asked = NULL;
        if (asked)
            settle_one(&r->list[from], to - from, asked);
        free(asked);
    }
    close_ranks(r);
}

size_t names_drop_empty(struct recordings *r)
{
    size_t before = r->count;
    for (size_t i = 0; i < r->count; i++) {
        pid_t pid = r->list[i].pid;
        bool is_over = (kill(pid, 0) != 0 && errno == ESRCH) || process_is_zombie(pid);
        if (pid != r->program && is_over)
            (void)recordings_drop_empty(&r->list[i]);
    }
    close_ranks(r);
    return before - r->count;
}
