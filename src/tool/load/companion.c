/* Process id, program and time decide which files belong together. File names only save opening
 * files that cannot match. Process ids are reused after some thousands of processes and after every
 * boot. So the times must overlap and both files must be from the same boot. */
#include "tool/load/companion.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool/load/recording.h"
#include "tool/load/runs.h"
#include "tool/util/file.h"
#include "tool/util/json.h"
#include "tool/util/paths.h"

enum { SLACK_MS = 1000, BOOT_MS = 5000, IDLE_MS = 60000 };

struct identity {
    bool recording;
    int64_t pid;
    int64_t from_ms, to_ms; /* CLOCK_REALTIME */
    int64_t boot_ms;        /* when CLOCK_MONOTONIC was 0; INT64_MIN: unknown */
    char program[PATH_MAX]; /* empty: unknown */
};

static int64_t modified_ms(const struct stat *st)
{
    return (int64_t)st->st_mtim.tv_sec * 1000 + st->st_mtim.tv_nsec / 1000000;
}

static void set_program(struct identity *who, const char *program)
{
    snprintf(who->program, sizeof(who->program), "%s", program);
}

/* The file time says when an unfinished recording was last written, approximately: the kernel
 * records the first change of a mapping after a pause, not the last. */
static bool identify_recording(const char *path, struct identity *who)
{
    struct recording rec;
    struct run_error error;
    struct stat st;
    if (recording_peek(&rec, path, &error) != 0)
        return false;
    const struct piano__rec_header *h = &rec.header;
    int64_t start_ms = (int64_t)(h->start_real_ns / 1000000);
    int64_t mono_ms = (int64_t)(h->start_mono_ns / 1000000);
    bool ended = h->end_mono_ns > 0 && rec.duration_ns >= 0;
    who->recording = true;
    who->pid = h->pid;
    who->from_ms = start_ms;
    who->to_ms = ended                  ? start_ms + rec.duration_ns / 1000000
                 : stat(path, &st) == 0 ? modified_ms(&st) + IDLE_MS
                                        : INT64_MAX;
    who->boot_ms = start_ms - mono_ms;
    set_program(who, h->program);
    recording_unload(&rec);
    return true;
}

static bool header_key(struct json *j, struct json_text key, struct identity *who, int64_t *mono_ns)
{
    if (json_is(key, "pid"))
        return json_int(j, &who->pid) == 0;
    if (json_is(key, "timestamp_ms"))
        return json_int(j, &who->from_ms) == 0;
    if (json_is(key, "start_mono_ns"))
        return json_int(j, mono_ns) == 0;
    if (json_is(key, "program")) {
        struct json_text text;
        char *program = json_string(j, &text) == 0 ? json_unescape(text) : NULL;
        if (program)
            set_program(who, program);
        free(program);
        return program != NULL;
    }
    return json_skip(j) == 0;
}

/* Reads only the first line. */
static bool read_header(const char *text, size_t len, struct identity *who)
{
    const char *newline = memchr(text, '\n', len);
    struct json j = {.at = text, .end = newline ? newline : text + len};
    bool first = true, good = json_expect(&j, '{', "expected `{`") == 0;
    int64_t mono_ns = 0;
    int more = 0;
    struct json_text key;
    while (good && (more = json_member(&j, &first, &key)) == 1)
        good = header_key(&j, key, who, &mono_ns);
    who->boot_ms = mono_ns > 0 ? who->from_ms - mono_ns / 1000000 : INT64_MIN;
    return good && more == 0;
}

static bool identify_run(const char *path, struct identity *who)
{
    struct stat st;
    int fd = file_open(path, O_RDONLY);
    bool good = fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 0;
    void *map = good ? mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    if (fd >= 0)
        close(fd);
    if (map == MAP_FAILED)
        return false;
    who->recording = false;
    who->to_ms = modified_ms(&st);
    good = read_header(map, (size_t)st.st_size, who);
    munmap(map, (size_t)st.st_size);
    return good;
}

static bool identify(const char *path, struct identity *who)
{
    *who = (struct identity){.boot_ms = INT64_MIN};
    return (recording_is(path) ? identify_recording(path, who) : identify_run(path, who)) &&
           who->pid > 0 && who->from_ms > 0;
}

static bool is_same_process(const struct identity *a, const struct identity *b)
{
    if (a->recording == b->recording || a->pid != b->pid || a->from_ms - SLACK_MS > b->to_ms ||
        b->from_ms - SLACK_MS > a->to_ms)
        return false;
    if (a->boot_ms != INT64_MIN && b->boot_ms != INT64_MIN &&
        llabs(a->boot_ms / 2 - b->boot_ms / 2) > BOOT_MS / 2)
        return false;
    return !*a->program || !*b->program || strcmp(a->program, b->program) == 0;
}

/* Returns whether the name `TIME-PID` is of another process, so the file need not be opened. */
static bool is_of_another(const struct runs_entry *e, int64_t pid)
{
    char *end;
    size_t ms = strspn(e->stem, "0123456789");
    if (ms == 0 || e->stem[ms] != '-')
        return false;
    long long named = strtoll(e->stem + ms + 1, &end, 10);
    return !e->further && end != e->stem + ms + 1 && *end == '\0' && named != pid;
}

/* Returns the file in DIR that began nearest to WHO. */
static char *find_in(const char *dir, const struct identity *who)
{
    struct runs runs;
    char *best = NULL;
    int64_t nearest = INT64_MAX;
    int err = runs_list(&runs, dir);
    for (size_t i = 0; err == 0 && i < runs.count; i++) {
        const struct runs_entry *e = &runs.entries[i];
        struct identity other;
        if (e->recording == who->recording || is_of_another(e, who->pid) ||
            !identify(e->path, &other) || !is_same_process(who, &other))
            continue;
        int64_t apart = llabs(other.from_ms - who->from_ms);
        if (apart >= nearest)
            continue;
        nearest = apart;
        free(best);
        best = strdup(e->path);
    }
    runs_release(&runs);
    return best;
}

char *companion_find(const char *path)
{
    struct identity *who = malloc(sizeof(*who));
    const char *slash = strrchr(path, '/');
    char *dir = slash ? strndup(path, slash > path ? (size_t)(slash - path) : 1) : strdup(".");
    char *found = NULL;
    if (who && dir && identify(path, who)) {
        found = find_in(dir, who);
        if (!found)
            found = find_in(NULL, who);
    }
    free(dir);
    free(who);
    return found;
}

bool companion_frame(const struct run *run, const struct run_frame *frame,
                     struct companion_span *out)
{
    const struct run_thread *thread = run_thread_find(run, frame->thread);
    if (!thread || thread->tid <= 0 || thread->tid > UINT32_MAX || frame->start_ns == INT64_MIN ||
        run->wall_estimated)
        return false;
    int64_t begin = run_mono(run, frame->start_ns);
    int64_t end = run_mono(run, saturating_add(frame->start_ns, run_frame_took(run, frame)));
    if (begin < 0 || end < begin)
        return false;
    *out = (struct companion_span){(uint32_t)thread->tid, (uint64_t)begin, (uint64_t)end};
    return true;
}
