/* Temporary files of one compiler wrapper.
 *
 * Each is in its own directory, so that it can have the name from which the compiler derives other
 * names. The list is singly linked, and its head is written with signals blocked. The handler for
 * deadly signals walks the list and calls only unlink and rmdir; then the signal has its default
 * effect. While a compiler runs, these signals are blocked too (see child.h): the wrapper first
 * waits for its end. */
#include "tool/build/scratch.h"

#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool/util/buf.h"
#include "tool/util/paths.h"

struct entry {
    struct entry *next;
    char *dir;
    char *path;
};

static struct entry *volatile entries;

static void remove_all(void)
{
    for (const struct entry *e = entries; e; e = e->next) {
        unlink(e->path);
        rmdir(e->dir);
    }
}

static void on_signal(int sig)
{
    remove_all();
    signal(sig, SIG_DFL);
    raise(sig);
}

static void handle_signals(void)
{
    static const int deadly[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof deadly / sizeof deadly[0]; i++) {
        struct sigaction old;
        struct sigaction new = {.sa_handler = on_signal};
        sigemptyset(&new.sa_mask);
        if (sigaction(deadly[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL)
            sigaction(deadly[i], &new, NULL);
    }
}

static void entry_free(struct entry *e)
{
    free(e->dir);
    free(e->path);
    free(e);
}

/* Creates the directory and links the entry into the list. Signals are blocked in between. */
static int publish(struct entry *e, const char *name)
{
    sigset_t all;
    sigset_t old;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &old);
    if (mkdtemp(e->dir))
        e->path = paths_join(e->dir, name);
    if (e->path) {
        e->next = entries;
        entries = e;
    }
    sigprocmask(SIG_SETMASK, &old, NULL);
    return e->path ? 0 : -1;
}

const char *scratch_path(const char *state, const char *name)
{
    struct buf dir = {0};
    struct entry *e = calloc(1, sizeof *e);
    if (!e)
        return NULL;
    buf_printf(&dir, "%s/tmp", state);
    int err = dir.failed ? -1 : paths_make_dirs(dir.data);
    buf_printf(&dir, "/%d-XXXXXX", (int)getpid());
    e->dir = dir.data;
    if (!entries)
        handle_signals();
    if (err != 0 || dir.failed || publish(e, name) != 0) {
        entry_free(e);
        return NULL;
    }
    return e->path;
}

/* Compilers leave by-products beside their input and output. */
static void empty(const char *dir)
{
    DIR *d = opendir(dir);
    for (struct dirent *f; d && (f = readdir(d));) {
        if (strcmp(f->d_name, ".") != 0 && strcmp(f->d_name, "..") != 0)
            unlinkat(dirfd(d), f->d_name, 0);
    }
    if (d)
        closedir(d);
}

void scratch_release(void)
{
    for (const struct entry *e = entries; e; e = e->next)
        empty(e->dir);
    remove_all();
    struct entry *e = entries;
    entries = NULL;
    while (e) {
        struct entry *after = e->next;
        entry_free(e);
        e = after;
    }
}
