/* `piano view`: shows a run as a page, in a file or served to a browser on this machine. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool/cli/command.h"
#include "tool/cli/outcome.h"
#include "tool/cli/recorded.h"
#include "tool/load/companion.h"
#include "tool/load/recording.h"
#include "tool/load/runs.h"
#include "tool/report/digest.h"
#include "tool/util/output.h"
#include "tool/util/say.h"
#include "tool/util/units.h"
#include "tool/view/live.h"
#include "tool/view/page.h"
#include "tool/view/server.h"

struct request {
    const char *words[2];
    size_t word_count;
    const char *output;
    double port;
    struct range_asked range;
    const char *process; /* NULL: all */
    bool force, no_open, alone, live;
};

#define SERVED " is for a page that is served, and -o writes it to a file"
static const struct flag flags[] = {
    {"--output",
     "write the page to a file instead: one file, which needs no network and no piano; `-` is "
     "stdout",
     FLAG_TEXT("FILE", output), .alias = "-o", .complete = "file"},
    {"--force", "overwrite FILE", FLAG_SWITCH(force)},
    {"--port", "serve at this port; default is any that is free",
     FLAG_READ("N", flag_number, double, port), .least = 1, .others = "--output",
     .clash = "--port" SERVED},
    {"--no-open", "do not open a browser", FLAG_SWITCH(no_open), .others = "--output",
     .clash = "--no-open" SERVED},
    FLAGS_RANGE,
    FLAG_PROCESS,
    {"--alone", "without the recording (or the run) of the same process", FLAG_SWITCH(alone)},
    {"--live", "follow a recording while it is written; RUN may be the id of its process",
     FLAG_SWITCH(live), .others = "--output", .clash = "--live" SERVED},
    {0},
};

/* ---- choosing the files ---- */

/* The run that WORD means, malloc'd; NULL after printing an error. */
static char *resolve(const char *word)
{
    struct runs_paths paths;
    struct run_error error;
    char safe[512], *path = NULL;
    int err = runs_resolve(word, &paths, &error);
    if (err) {
        outcome_failed(err, &error);
        return NULL;
    }
    if (paths.count > 1 && strchr(word, ',')) {
        say_usage("view", "one run, or two to compare with a blank between them");
    } else {
        path = strdup(runs_paths_newest(&paths));
        if (path && paths.count > 1)
            say("the tag has %zu runs; this is the newest: %s", paths.count,
                say_safe(safe, sizeof(safe), path));
    }
    runs_paths_release(&paths);
    return path;
}

/* The contents of the page. */
struct content {
    char *run, *recording; /* of one process, if both are set */
    char *other;           /* of the same kind as the one that is set */
    bool is_live, is_growing, is_quiet;
    struct symbols *names; /* of a page that is live */
    struct range_asked range;
    const char *process; /* NULL: all */
};

static void content_release(struct content *c)
{
    free(c->run);
    free(c->recording);
    free(c->other);
    profile_names_free(c->names);
}

static int choose(struct content *c, const struct request *q)
{
    char *paths[2] = {NULL, NULL}, safe[512];
    for (size_t i = 0; i == 0 || i < q->word_count; i++) {
        paths[i] = resolve(q->word_count ? q->words[i] : NULL);
        if (!paths[i]) {
            free(paths[0]);
            return EXIT_FAILED;
        }
    }
    bool recorded[2] = {recording_is(paths[0]), paths[1] && recording_is(paths[1])};
    *(recorded[0] ? &c->recording : &c->run) = paths[0];
    if (paths[1] && recorded[1] == recorded[0])
        c->other = paths[1];
    else if (paths[1])
        *(recorded[1] ? &c->recording : &c->run) = paths[1];
    else if (!q->alone) {
        char *companion = companion_find(paths[0]);
        *(recorded[0] ? &c->run : &c->recording) = companion;
        if (companion)
            say("with %s, of the same process", say_safe(safe, sizeof(safe), companion));
    }
    return EXIT_DONE;
}

/* The recording of a process, or the one that is named. */
static int choose_live(struct content *c, const struct request *q)
{
    char safe[512];
    if (q->word_count > 1)
        return say_usage("view", "--live follows one recording");
    pid_t pid = q->words[0] ? recorded_pid(q->words[0]) : 0;
    c->recording = pid ? recorded_path(pid) : recorded_named(q->words[0]);
    if (!c->recording && pid)
        return say_error("piano top PID, or piano record --pid PID",
                         "process %d is not being recorded by piano", (int)pid);
    if (!c->recording)
        return EXIT_FAILED;
    c->is_live = true;
    c->names = profile_names_new();
    say("following %s", say_safe(safe, sizeof(safe), c->recording));
    return EXIT_DONE;
}

/* ---- the page ---- */

static int pack(struct packer *k, const struct content *c, struct run_error *error)
{
    struct digest to = {.reports = {.out = NULL}};
    const struct packer_digest digest = {&to,          digest_run,  digest_heap,      digest_cpu,
                                         digest_polls, digest_diff, digest_heap_diff, digest_put};
    int err = packer_start(k, &digest, error);
    k->is_live = c->is_live;
    k->is_growing = c->is_growing;
    k->is_quiet = c->is_quiet;
    k->names = c->names;
    k->trie.by_name = c->other != NULL;
    k->range = c->range;
    k->process = c->process;
    if (err == 0 && c->run && c->recording)
        err = packer_join(k, c->recording, error);
    if (err == 0 && c->run)
        err = packer_add_run(k, c->run, error);
    if (err == 0 && c->recording)
        err = packer_add_recording(k, c->recording, error);
    if (err == 0 && c->other)
        err = c->run ? packer_add_other_run(k, c->run, c->other, error)
                     : packer_add_other_recording(k, c->recording, c->other, error);
    err = err ? err : packer_finish(k, error);
    digest_release(&to);
    return err;
}

static int write_file(const struct packer *k, const struct request *q)
{
    struct output o = {.what = "the page", .path = q->output, .mode = 0600}; /* private */
    int status = output_open(&o);
    return status == EXIT_DONE ? output_close(&o, page_write(o.out, k)) : status;
}

/* Writes the page to anonymous memory, which is freed when we exit. */
static int page_in_memory(const struct packer *k, FILE **out, char **text, size_t *len)
{
    int fd = memfd_create("piano-page", MFD_CLOEXEC), err = fd < 0 ? -errno : 0;
    struct stat st = {.st_size = 0};
    *out = fd >= 0 ? fdopen(fd, "w+") : NULL;
    if (!*out) {
        if (fd >= 0)
            close(fd);
        return err ? err : -ENOMEM;
    }
    err = page_write(*out, k);
    if (err == 0 && (fflush(*out) != 0 || fstat(fd, &st) != 0))
        err = -errno;
    void *map = err == 0 ? mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0) : NULL;
    if (map == MAP_FAILED)
        err = -errno;
    *text = map;
    *len = (size_t)st.st_size;
    return err;
}

/* Whether the recording is complete. First finds the last recording of the program (after exec). */
static bool has_ended(void *content)
{
    struct content *c = content;
    char *latest = recording_latest(c->recording);
    if (latest) {
        free(c->recording);
        c->recording = latest;
    }
    struct profile now;
    struct run_error error;
    if (profile_peek(&now, c->recording, &error) != 0)
        return true;
    bool has = now.rec.end != RECORDING_RUNNING;
    profile_close(&now);
    return has;
}

/* Packs a recording that may still be written. */
static int pack_live(struct packer *k, struct content *c, struct run_error *error)
{
    c->is_growing = !has_ended(c);
    return pack(k, c, error);
}

/* The same again, for the page that is open. */
static int pack_newer(void *content, struct packer *k, bool *is_over)
{
    struct content *c = content;
    struct run_error error = {.text = ""};
    c->is_quiet = true;
    int err = pack_live(k, c, &error);
    *is_over = !c->is_growing;
    return err;
}

static int serve(struct packer *k, struct content *c, const struct request *q)
{
    struct live_page live = {.pack = pack_newer, .has_ended = has_ended, .ctx = c};
    FILE *memory = NULL;
    char *text = NULL;
    size_t len = 0;
    struct buf policy = {0};
    int err = page_in_memory(k, &memory, &text, &len), status;
    packer_release(k);
    page_put_policy(&policy, c->is_live);
    live_page_start(&live, live_page_cpu_s());
    if (err == 0 && policy.failed)
        err = -ENOMEM;
    if (err) {
        status = say_error(NULL, "the page stopped: %s", strerror(-err));
    } else {
        const struct server_options options = {.port = (unsigned)q->port,
                                               .open = !q->no_open,
                                               .policy = policy.data,
                                               .newer = c->is_live ? live_page_newer : NULL,
                                               .ctx = &live};
        status = server_run(text, len, &options);
        munmap(text, len);
    }
    if (memory)
        fclose(memory);
    buf_free(&policy);
    live_page_release(&live);
    return status;
}

static int view(void *request)
{
    struct request *q = request;
    struct content c = {.run = NULL};
    struct packer k;
    struct run_error error = {.text = ""};
    q->word_count = q->words[1] ? 2 : q->words[0] ? 1 : 0;
    if (q->port > UINT16_MAX)
        return say_usage("view", "--port %.0f: ports go up to 65535", q->port);
    int status = q->output ? output_check(q->output, q->force) : EXIT_DONE;
    if (q->output && strcmp(q->output, "-") == 0 && isatty(STDOUT_FILENO) == 1)
        status = say_error("-o FILE, or a pipe", "a page is not for a terminal");
    if (status == EXIT_DONE)
        status = q->live ? choose_live(&c, q) : choose(&c, q);
    if (status == EXIT_DONE && !c.recording && (q->range.from.given || q->range.to.given))
        status = say_error("piano report --frames --from 10s --to 12s",
                           "a page of a run shows all of it; a range of time is for recordings");
    if (status == EXIT_DONE && !c.recording && q->process)
        status = say_error("piano view, without --process",
                           "a page of a run is of one process; --process is for recordings");
    if (status == EXIT_DONE) {
        c.range = q->range;
        c.process = q->process;
        int err = c.is_live ? pack_live(&k, &c, &error) : pack(&k, &c, &error);
        status = err         ? outcome_failed(err, &error)
                 : q->output ? write_file(&k, q)
                             : serve(&k, &c, q);
        packer_release(&k);
    }
    content_release(&c);
    return status;
}

const struct command command_view = {
    .name = "view",
    .summary = "look at a run in a browser, or as one HTML file",
    .usage = "piano view [RUN [RUN]] [-o FILE.html] [OPTIONS]\npiano view --live [PID|RECORDING] "
             "[OPTIONS]",
    .about = "Shows a run or a recording as a page: what was slow, frames, a timeline of threads, "
             "flame graphs, memory over time, functions. RUN is a file, a tag, a run id, or "
             "nothing for the latest. A run and the recording of the same process come together on "
             "one page; two of a kind are compared.\n\nWithout -o the page is served to this "
             "machine alone, under an address that cannot be guessed, and opened in a browser "
             "where there is a display. Ctrl-C ends it. With --live the page follows a recording "
             "while it is written.",
    .flags = flags,
    .examples = "piano view\npiano view before -o before.html\npiano view before after\npiano view "
                "--port 8080 --no-open\npiano view --live 4711",
    .words = {WORDS_LISTED, offsetof(REQUEST, words), "run", 2, "two runs at most"},
    .run = view,
    COMMAND_REQUEST(),
};
