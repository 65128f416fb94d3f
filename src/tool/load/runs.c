/* Resolves which run is meant. Runs are files `<epoch ms>-<pid>.ndjson` or `.json`. Both extensions
 * of one stem are one run, and the .ndjson is read. Recordings end in `.rec`; those of further
 * processes, `.rec-PID` and `.rec.N`, are identified by their whole name. The time in the name
 * decides which is newest; for a renamed file, its modification time. A .json file that is not
 * named like a run must look like one inside. */
#include "tool/load/runs.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tool/load/family_name.h"
#include "tool/load/foreign.h"
#include "tool/load/recording.h"
#include "tool/load/tags.h"
#include "tool/util/map.h"
#include "tool/util/nearest.h"
#include "tool/util/order.h"
#include "tool/util/owner.h"
#include "tool/util/paths.h"
#include "tool/util/say.h"
#include "tool/util/vec.h"

/* Returns the length of NAME without its extension; 0 if it has no run extension. */
static size_t stem_len(const char *name)
{
    static const char *const endings[] = {".ndjson", ".json", ".rec"};
    size_t len = strlen(name);
    for (size_t i = 0; i < 3; i++) {
        size_t e = strlen(endings[i]);
        if (len > e && strcmp(name + len - e, endings[i]) == 0)
            return len - e;
    }
    return recording_named(name) ? len : 0;
}

static int64_t time_of(const char *stem, const struct stat *st)
{
    char *end;
    errno = 0;
    long long ms = strtoll(stem, &end, 10);
    bool named = end != stem && (*end == '-' || *end == '\0') && errno == 0 && ms >= 0;
    return named ? ms : (int64_t)st->st_mtim.tv_sec * 1000 + st->st_mtim.tv_nsec / 1000000;
}

/* Matches `<digits>-<digits>`, as the runtime names runs. */
static bool is_stamped(const char *stem)
{
    size_t ms = strspn(stem, "0123456789");
    size_t pid = ms && stem[ms] == '-' ? strspn(stem + ms + 1, "0123456789") : 0;
    return pid > 0 && stem[ms + 1 + pid] == '\0';
}

/* Recognises a recording by its extension, a run by its name or its first bytes. */
static bool is_ours(const char *path, const char *name, const char *stem)
{
    return recording_named(name) || is_stamped(stem) || foreign_kind_of(path) == NULL;
}

static int add_entry(struct runs *runs, const char *name)
{
    struct stat st;
    char *path = paths_join(runs->dir, name);
    char *stem = strndup(name, stem_len(name));
    if (!path || !stem || stat(path, &st) != 0 || !S_ISREG(st.st_mode) ||
        !is_ours(path, name, stem)) {
        int err = path && stem ? 0 : -ENOMEM;
        free(path);
        free(stem);
        return err;
    }
    if (VEC_DOUBLE(runs->entries, runs->count) != 0) {
        free(path);
        free(stem);
        return -ENOMEM;
    }
    runs->entries[runs->count++] = (struct runs_entry){.path = path,
                                                       .stem = stem,
                                                       .timestamp_ms = time_of(stem, &st),
                                                       .bytes = (uint64_t)st.st_size,
                                                       .recording = recording_named(name),
                                                       .further = strlen(stem) == strlen(name)};
    return 0;
}

/* Newest first; at equal times, the program before what it started; for one stem, the .ndjson
 * first. */
static int compare(const void *a, const void *b)
{
    const struct runs_entry *x = a, *y = b;
    return ORDER(y->timestamp_ms, x->timestamp_ms) ?: x->further - y->further
           ?: strcmp(y->stem, x->stem) ?: strcmp(y->path, x->path);
}

static void drop_doubles(struct runs *runs)
{
    size_t kept = 0;
    for (size_t i = 0; i < runs->count; i++) {
        struct runs_entry *e = &runs->entries[i];
        const struct runs_entry *before = kept > 0 ? &runs->entries[kept - 1] : NULL;
        if (before && before->recording == e->recording && strcmp(before->stem, e->stem) == 0) {
            free(e->path);
            free(e->stem);
        } else {
            runs->entries[kept++] = *e;
        }
    }
    runs->count = kept;
}

int runs_list(struct runs *runs, const char *dir)
{
    *runs = (struct runs){.dir = dir ? strdup(dir) : paths_runs_dir()};
    if (!runs->dir)
        return dir ? -ENOMEM : paths_error();
    DIR *d = opendir(runs->dir);
    int err = d || errno == ENOENT ? 0 : -errno;
    struct dirent *e;
    while (d && err == 0 && (e = readdir(d)))
        if (e->d_name[0] != '.' && stem_len(e->d_name) > 0)
            err = add_entry(runs, e->d_name);
    if (d)
        closedir(d);
    if (runs->count)
        qsort(runs->entries, runs->count, sizeof(*runs->entries), compare);
    drop_doubles(runs);
    return err;
}

/* The entry of the recording that the process of PATH belongs to; NULL: none. */
static struct runs_entry *main_of(struct runs *runs, const struct map *of, const char *path)
{
    size_t len = strlen(path);
    uint32_t pid, at = MAP_NONE;
    unsigned image;
    while (len > 0 && path[len - 1] >= '0' && path[len - 1] <= '9')
        len--;
    char *base = len > 1 ? strndup(path, len - 1) : NULL;
    if (base && family_parse(path, base, &pid, &image) && image == 1)
        at = map_find(of, map_hash(base, len - 1));
    bool is_it =
        at != MAP_NONE && runs->entries[at].path && strcmp(runs->entries[at].path, base) == 0;
    free(base);
    return is_it ? &runs->entries[at] : NULL;
}

void runs_fold(struct runs *runs)
{
    struct map of = {.slots = NULL};
    size_t kept = 0;
    for (uint32_t i = 0; i < runs->count; i++) {
        const struct runs_entry *e = &runs->entries[i];
        uint64_t key = map_hash(e->path, strlen(e->path));
        if (e->recording && map_find(&of, key) == MAP_NONE)
            (void)map_put(&of, key, i); /* without memory, it is listed on its own */
    }
    for (size_t i = 0; i < runs->count; i++) {
        struct runs_entry *e = &runs->entries[i];
        struct runs_entry *main = e->further ? main_of(runs, &of, e->path) : NULL;
        if (!main)
            continue;
        main->bytes += e->bytes;
        main->more++;
        free(e->path);
        free(e->stem);
        e->path = NULL;
    }
    for (size_t i = 0; i < runs->count; i++)
        if (runs->entries[i].path)
            runs->entries[kept++] = runs->entries[i];
    runs->count = kept;
    map_release(&of);
}

void runs_release(struct runs *runs)
{
    for (size_t i = 0; i < runs->count; i++) {
        free(runs->entries[i].path);
        free(runs->entries[i].stem);
    }
    free(runs->entries);
    free(runs->dir);
    *runs = (struct runs){0};
}

void runs_paths_release(struct runs_paths *paths)
{
    for (size_t i = 0; i < paths->count; i++)
        free(paths->paths[i]);
    free(paths->paths);
    *paths = (struct runs_paths){0};
}

const char *runs_paths_newest(const struct runs_paths *paths)
{
    const char *best = paths->paths[0];
    int64_t best_ms = INT64_MIN;
    for (size_t i = 0; i < paths->count; i++) {
        const char *slash = strrchr(paths->paths[i], '/');
        const char *name = slash ? slash + 1 : paths->paths[i];
        char *stem = strndup(name, stem_len(name) ? stem_len(name) : strlen(name));
        struct stat st = {.st_size = 0};
        int64_t ms = stem && stat(paths->paths[i], &st) == 0 ? time_of(stem, &st) : INT64_MIN;
        free(stem);
        if (ms >= best_ms) {
            best = paths->paths[i];
            best_ms = ms;
        }
    }
    return best;
}

/* Takes ownership of PATH. */
static int add_path(struct runs_paths *out, char *path)
{
    if (!path || VEC_DOUBLE(out->paths, out->count) != 0) {
        free(path);
        return -ENOMEM;
    }
    out->paths[out->count++] = path;
    return 0;
}

void runs_fail(const struct runs *runs, int err, struct run_error *e)
{
    char safe[300];
    const char *dir = runs->dir ? runs->dir : "runs";
    if (!runs->dir) {
        paths_failure(e->text, sizeof(e->text), e->hint, sizeof(e->hint));
        return;
    }
    snprintf(e->text, sizeof(e->text), "%s: %s", say_safe(safe, sizeof(safe), dir), strerror(-err));
    if (owner_hint(e->hint, sizeof(e->hint), dir, err, NULL) == NULL)
        e->hint[0] = '\0';
}

static int no_runs(const struct runs *runs, enum runs_kind kind, struct run_error *e)
{
    char safe[300];
    snprintf(e->text, sizeof(e->text), "there are no %s in %s",
             kind == RUNS_RECORDING ? "recordings" : "runs",
             say_safe(safe, sizeof(safe), runs->dir));
    snprintf(e->hint, sizeof(e->hint), "%s",
             kind == RUNS_RECORDING ? "piano record --heap -- PROGRAM"
             : kind == RUNS_SPANS   ? "piano profile --fn NAME, in the project to measure"
                                    : "piano record -- PROGRAM, for any program; piano profile "
                                      "--fn NAME, in the project to measure");
    return -ENOENT;
}

static bool is_kind(bool recording, enum runs_kind kind)
{
    return kind == RUNS_ANY || recording == (kind == RUNS_RECORDING);
}

static int newest(const struct runs *runs, enum runs_kind kind, struct runs_paths *out,
                  struct run_error *e)
{
    for (size_t i = 0; i < runs->count; i++)
        if (is_kind(runs->entries[i].recording, kind))
            return add_path(out, strdup(runs->entries[i].path));
    return no_runs(runs, kind, e);
}

/* Keeps only the paths of KIND, if there are any. */
static void keep_kind(struct runs_paths *paths, enum runs_kind kind)
{
    size_t kept = 0, fitting = 0;
    for (size_t i = 0; i < paths->count; i++)
        fitting += is_kind(recording_is(paths->paths[i]), kind);
    for (size_t i = 0; fitting > 0 && i < paths->count; i++) {
        if (is_kind(recording_is(paths->paths[i]), kind))
            paths->paths[kept++] = paths->paths[i];
        else
            free(paths->paths[i]);
    }
    paths->count = fitting > 0 ? kept : paths->count;
}

/* Finds a run by stem, by file name, or by its id `<pid>_<ms>`, which is the stem reversed. */
static const struct runs_entry *find_named(const struct runs *runs, const char *word)
{
    size_t stem = stem_len(word);
    char turned[64] = "";
    const char *bar = strchr(word, '_');
    if (bar && strlen(word) < sizeof(turned))
        snprintf(turned, sizeof(turned), "%s-%.*s", bar + 1, (int)(bar - word), word);
    for (size_t i = 0; i < runs->count; i++) {
        const char *have = runs->entries[i].stem;
        if (strcmp(have, word) == 0 || strcmp(have, turned) == 0)
            return &runs->entries[i];
        if (stem && strlen(have) == stem && strncmp(have, word, stem) == 0)
            return &runs->entries[i];
    }
    return NULL;
}

static int add_tagged(const struct runs *runs, const struct tag *tag, struct runs_paths *out,
                      struct run_error *e)
{
    for (size_t i = 0; i < tag->run_count; i++) {
        const char *run = tag->runs[i];
        char *path = run[0] == '/' ? strdup(run) : paths_join(runs->dir, run);
        struct stat st;
        if (path && stat(path, &st) != 0) {
            snprintf(e->text, sizeof(e->text), "the tag `%s` names %s, which is gone", tag->name,
                     path);
            snprintf(e->hint, sizeof(e->hint), "piano tag --delete %s", tag->name);
            free(path);
            return -ENOENT;
        }
        int err = add_path(out, path);
        if (err)
            return err;
    }
    if (tag->run_count == 0) {
        snprintf(e->text, sizeof(e->text), "the tag `%s` names no run", tag->name);
        return -ENOENT;
    }
    return 0;
}

static int not_found(const struct runs *runs, const struct tags *tags, const char *word,
                     struct run_error *e)
{
    const char **names = calloc(tags->count + runs->count + 1, sizeof(*names));
    size_t count = 0;
    char safe[200], near_safe[200];
    for (size_t i = 0; names && i < tags->count; i++)
        names[count++] = tags->list[i].name;
    for (size_t i = 0; names && i < runs->count; i++)
        names[count++] = runs->entries[i].stem;
    const char *near = names ? nearest_name(word, names, count) : NULL;
    say_safe(safe, sizeof(safe), word);
    if (near)
        snprintf(e->text, sizeof(e->text), "`%s` is no file, tag or run; did you mean `%s`?", safe,
                 say_safe(near_safe, sizeof(near_safe), near));
    else
        snprintf(e->text, sizeof(e->text), "`%s` is no file, tag or run", safe);
    snprintf(e->hint, sizeof(e->hint), "piano list");
    free(names);
    return -ENOENT;
}

static int resolve_dir(const char *dir, enum runs_kind kind, struct runs_paths *out,
                       struct run_error *e)
{
    struct runs inside;
    int err = runs_list(&inside, dir);
    if (err == 0)
        err = newest(&inside, kind, out, e);
    runs_release(&inside);
    return err;
}

/* Maps `x.live` to the run next to it. */
static char *beside_live(const char *word)
{
    size_t len = strlen(word);
    if (len < 6 || strcmp(word + len - 5, ".live") != 0)
        return strdup(word);
    struct buf b = {0};
    buf_put(&b, word, len - 5);
    buf_puts(&b, ".ndjson");
    return b.failed ? NULL : b.data;
}

static int resolve_word(const struct runs *runs, const struct tags *tags, const char *word,
                        enum runs_kind kind, struct runs_paths *out, struct run_error *e)
{
    struct stat st;
    const struct tag *tag = strchr(word, '/') ? NULL : tags_find(tags, word);
    if (tag)
        return add_tagged(runs, tag, out, e);
    const struct runs_entry *named = strchr(word, '/') ? NULL : find_named(runs, word);
    bool exists = stat(word, &st) == 0;
    if (exists && S_ISDIR(st.st_mode) && !named)
        return resolve_dir(word, kind, out, e);
    if (exists && !named)
        return add_path(out, beside_live(word));
    if (named)
        return add_path(out, strdup(named->path));
    return not_found(runs, tags, word, e);
}

int runs_resolve(const char *word, struct runs_paths *out, struct run_error *error)
{
    return runs_resolve_kind(word, RUNS_ANY, out, error);
}

int runs_resolve_kind(const char *word, enum runs_kind kind, struct runs_paths *out,
                      struct run_error *error)
{
    struct runs runs;
    struct tags tags = {0};
    struct stat st;
    *out = (struct runs_paths){0};
    *error = (struct run_error){.text = ""};
    int err = runs_list(&runs, NULL);
    if (err == 0)
        err = tags_load(&tags, runs.dir);
    int unlisted = err;                        /* irrelevant for an existing file */
    bool whole = word && stat(word, &st) == 0; /* a path may hold commas */
    if (!word && err == 0) {
        err = newest(&runs, kind, out, error);
    } else if (whole) {
        err = resolve_word(&runs, &tags, word, kind, out, error);
    } else if (word) {
        char *copy = strdup(word), *save = NULL;
        err = copy ? 0 : -ENOMEM;
        char *part = copy ? strtok_r(copy, ",", &save) : NULL;
        if (copy && !part)
            err = not_found(&runs, &tags, word, error);
        for (; part && err == 0; part = strtok_r(NULL, ",", &save))
            err = resolve_word(&runs, &tags, part, kind, out, error);
        free(copy);
    }
    if (err == -ENOENT && unlisted) { /* it may exist but could not be listed */
        err = unlisted;
        *error = (struct run_error){.text = ""};
    }
    if (err && !error->text[0])
        runs_fail(&runs, err, error);
    if (err)
        runs_paths_release(out);
    else if (out->count > 1)
        keep_kind(out, kind);
    tags_release(&tags);
    runs_release(&runs);
    return err;
}
