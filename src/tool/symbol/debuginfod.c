/* libdebuginfod downloads the files and caches them. It is loaded when first needed, because most
 * machines have no servers configured and many lack the library.
 *
 * The total time spent on slow servers is limited: to BUDGET_MS (or DEBUGINFOD_MAXTIME) while bytes
 * keep arriving, and to PATIENCE_MS (or DEBUGINFOD_TIMEOUT) without any progress. After that, no
 * more requests are made. */
#include "tool/symbol/debuginfod.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { PATIENCE_MS = 15 * 1000, BUDGET_MS = 300 * 1000, ID_MAX = 64 };

typedef int progress_fn(void *client, long done, long all);
typedef int find_fn(void *client, const unsigned char *id, int id_len, char **path);

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* The environment variable NAME, in seconds, as milliseconds. */
static int64_t limit_ms(const char *name, int64_t otherwise)
{
    const char *text = getenv(name);
    long seconds = text ? strtol(text, NULL, 10) : 0;
    return seconds > 0 && seconds < 1000000 ? (int64_t)seconds * 1000 : otherwise;
}

static void *entry(struct debuginfod *d, const char *name)
{
    return dlsym(d->library, name);
}

/* libdebuginfod calls this about once a second, and more often while bytes arrive. Nonzero aborts
 * the download. */
static int progress(void *client, long done, long all)
{
    void *(*user_data)(void *) = (void *(*)(void *))dlsym(RTLD_DEFAULT, "debuginfod_get_user_data");
    struct debuginfod *d = user_data ? user_data(client) : NULL;
    if (!d)
        return 1;
    int64_t now = now_ms();
    if (done != d->bytes) {
        d->bytes = done;
        d->moved_ms = now;
    }
    char text[512];
    if (all > 0 && done <= all)
        snprintf(text, sizeof(text), "debug information of %s: %ld of %ld KB", d->what, done / 1024,
                 all / 1024);
    else
        snprintf(text, sizeof(text), "asking for debug information of %s", d->what);
    if (d->say)
        d->say(d->ctx, text);
    d->off = now - d->moved_ms > limit_ms("DEBUGINFOD_TIMEOUT", PATIENCE_MS) ||
             d->spent_ms + now - d->began_ms > limit_ms("DEBUGINFOD_MAXTIME", BUDGET_MS);
    return d->off;
}

static void open_client(struct debuginfod *d)
{
    d->tried = true;
    d->library = dlopen("libdebuginfod.so.1", RTLD_LAZY | RTLD_GLOBAL);
    if (!d->library)
        return;
    void *(*begin)(void) = (void *(*)(void))entry(d, "debuginfod_begin");
    void (*set_progress)(void *, progress_fn *) =
        (void (*)(void *, progress_fn *))entry(d, "debuginfod_set_progressfn");
    void (*set_user_data)(void *, void *) =
        (void (*)(void *, void *))entry(d, "debuginfod_set_user_data");
    /* Without these functions a slow server cannot be interrupted. */
    if (!begin || !set_progress || !set_user_data || !entry(d, "debuginfod_get_user_data"))
        return;
    d->client = begin();
    if (d->client) {
        set_progress(d->client, progress);
        set_user_data(d->client, d);
    }
}

int debuginfod_fetch(struct debuginfod *d, enum debuginfod_kind kind, const uint8_t *id,
                     size_t id_len, const char *what)
{
    const char *urls = getenv("DEBUGINFOD_URLS");
    if (!urls || !*urls || d->off || id_len == 0 || id_len > ID_MAX)
        return -1;
    if (!d->tried)
        open_client(d);
    find_fn *find =
        d->client ? (find_fn *)entry(d, kind == DEBUGINFOD_DEBUG ? "debuginfod_find_debuginfo"
                                                                 : "debuginfod_find_executable")
                  : NULL;
    if (!find)
        return -1;
    d->what = what;
    d->bytes = 0;
    d->began_ms = d->moved_ms = now_ms();
    progress(d->client, 0, 0);
    char *path = NULL;
    int fd = find(d->client, id, (int)id_len, &path);
    free(path);
    d->spent_ms += now_ms() - d->began_ms;
    return fd < 0 ? -1 : fd;
}

void debuginfod_release(struct debuginfod *d)
{
    if (d->client) {
        void (*end)(void *) = (void (*)(void *))entry(d, "debuginfod_end");
        if (end)
            end(d->client);
    }
    /* Never unload the library: it has loaded other libraries that cannot be unloaded safely. */
    d->client = NULL;
}
