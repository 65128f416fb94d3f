/* The compiler wrapper.
 *
 * It gets one compiler command of a build and has the same effect as this command, with guards in
 * the functions that the user chose. The plan:
 *  - A command that compiles nothing we can instrument and links nothing we instrumented runs
 *    unchanged.
 *  - Each C or C++ source is handled by a `struct job`. Instrumented sources are then compiled (in
 *    a command that also links, to objects that are ready to be linked).
 *  - The rest of the command, if any, is run: sources that were not instrumented, or the link, with
 *    the runtime added.
 * If anything fails, the original command is run. So a build fails only if it fails without piano,
 * and with the compiler's own messages.
 *
 * There is one process per compiler call. Parallel builds share only the state directory, where
 * each process writes its own files. */
#include "tool/build/wrap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool/build/args.h"
#include "tool/build/job.h"
#include "tool/build/link.h"
#include "tool/build/rust.h"
#include "tool/build/pch.h"
#include "tool/build/cc_run.h"
#include "tool/build/scratch.h"
#include "tool/build/selection.h"
#include "tool/build/unit.h"
#include "tool/util/paths.h"
#include "tool/util/say.h"

struct wrap {
    char *const *argv; /* the original command */
    char *state;
    struct selection selection;
    struct args args;
    struct job *jobs; /* one per source of `args`, in order */
    size_t job_count;
    bool needs_personality; /* the link failed: C++'s personality routine is missing */
};

enum { STATUS_INTERRUPTED = 130 };

static void wrap_release(struct wrap *w)
{
    for (size_t i = 0; i < w->job_count; i++)
        job_release(&w->jobs[i]);
    free(w->jobs);
    free(w->state);
    selection_release(&w->selection);
    args_release(&w->args);
    scratch_release();
}

static int exec_original(struct wrap *w)
{
    char *const *argv = w->argv;
    wrap_release(w);
    return cc_run_exec(argv);
}

/* Shows messages with the paths of the mirror replaced by those of the user's tree. */
static void show_messages(const struct selection *s, const struct buf *messages)
{
    const char *at = messages->data;
    const char *found;
    size_t len = s->mirror ? strlen(s->mirror) : 0;
    while (len > 0 && at && (found = strstr(at, s->mirror))) {
        fwrite(at, 1, (size_t)(found - at), stderr);
        fputs(s->root, stderr);
        at = found + len;
    }
    if (at)
        fputs(at, stderr);
}

/* Runs a command whose output the user should see. Returns its status. */
static int run_shown(const struct wrap *w, char *const argv[])
{
    struct cc_run r;
    unsigned keep = w->selection.mirror && w->selection.root ? CC_KEEP_ERR : 0;
    int err = cc_run_step(&r, argv, keep);
    show_messages(&w->selection, &r.err);
    int status = r.status;
    cc_run_release(&r);
    if (err == -EINTR)
        return status ? status : STATUS_INTERRUPTED;
    return err ? say_error(NULL, "%s: %s", argv[0], strerror(-err)) : status;
}

/* Commands by which build systems test the compiler. Their output is run or deleted at once and is
 * not the user's program. */
static bool is_probe(const struct args *a)
{
    static const char *const marks[] = {"conftest.", "/CMakeFiles/CMakeTmp/", "CMakeScratch/",
                                        "CompilerIdC", "meson-private/"};
    char *cwd = getcwd(NULL, 0);
    bool probe = a->output && strcmp(a->output, "/dev/null") == 0;
    probe |= cwd && (strstr(cwd, "/CMakeFiles/") || strstr(cwd, "/meson-private"));
    for (size_t i = 0; i < a->count && !probe; i++) {
        if (a->list[i].role != ARG_SOURCE)
            continue;
        for (size_t m = 0; m < sizeof marks / sizeof marks[0]; m++)
            probe |= strstr(args_input(a, &a->list[i]), marks[m]) != NULL;
    }
    free(cwd);
    return probe;
}

static int make_jobs(struct wrap *w)
{
    w->jobs = calloc(w->args.sources + 1, sizeof *w->jobs);
    if (!w->jobs)
        return -ENOMEM;
    for (size_t i = 0; i < w->args.count; i++) {
        const struct arg *source = &w->args.list[i];
        if (source->role != ARG_SOURCE)
            continue;
        struct job *j = &w->jobs[w->job_count++];
        int err = job_init(j, w->state, &w->selection, &w->args, source);
        if (err != 0)
            return err;
    }
    return 0;
}

static int run_jobs(struct wrap *w)
{
    int err = 0;
    for (size_t i = 0; i < w->job_count && err == 0; i++) {
        if (w->args.refusal)
            job_note(&w->jobs[i], "compiled untouched: %s", w->args.refusal);
        else
            err = job_compile(&w->jobs[i]);
    }
    return err;
}

/* The names and places of files such as those of -save-temps differ between compilers, and the
 * files should show the user's own text. So the untouched command makes them first; its other
 * outputs are then made again. Its messages are dropped, because the later steps print them too. */
static int make_by_products(const struct wrap *w)
{
    struct cc_run r = {0};
    if (!w->args.by_products || w->args.sources == 0 || w->args.refusal)
        return 0;
    int err = cc_run_step(&r, w->argv, CC_KEEP_OUT | CC_KEEP_ERR);
    cc_run_release(&r);
    return err == -EINTR ? err : 0;
}

/* Assembler is not instrumented, but `--list-skipped` should say so. */
static void note_assembler(const struct wrap *w)
{
    for (size_t i = 0; i < w->args.count; i++) {
        const struct arg *source = &w->args.list[i];
        struct job j;
        if (source->role != ARG_INPUT || source->lang != LANG_ASM)
            continue;
        if (job_init(&j, w->state, &w->selection, &w->args, source) == 0) {
            job_note(&j, "assembler source: left alone");
            job_save(&j);
        }
        job_release(&j);
    }
}

static void save_jobs(const struct wrap *w)
{
    for (size_t i = 0; i < w->job_count; i++)
        job_save(&w->jobs[i]);
}

static size_t instrumented_count(const struct wrap *w)
{
    size_t count = 0;
    for (size_t i = 0; i < w->job_count; i++)
        count += w->jobs[i].instrumented;
    return count;
}

static const struct job *job_of(const struct wrap *w, const struct arg *source)
{
    for (size_t i = 0; i < w->job_count; i++) {
        if (w->jobs[i].source == source)
            return &w->jobs[i];
    }
    return NULL;
}

/* Adds an object in place of a source. The current -x must not apply to it. */
static void add_object(const struct arg *source, const char *object, struct words *out)
{
    if (source->forced) {
        words_add(out, "-x");
        words_add(out, "none");
    }
    words_add(out, object);
    if (source->forced) {
        words_add(out, "-x");
        words_add(out, source->forced);
    }
}

/* The command without the sources that are done, or with their objects instead. */
static void rest_of_command(const struct wrap *w, struct words *out)
{
    const struct args *a = &w->args;
    for (size_t i = 0; i < a->command; i++)
        words_add(out, a->words.items[i]);
    for (size_t i = 0; i < a->count; i++) {
        const struct arg *arg = &a->list[i];
        const struct job *j = arg->role == ARG_SOURCE ? job_of(w, arg) : NULL;
        if (j && j->instrumented) {
            if (j->object)
                add_object(arg, j->object, out);
            continue;
        }
        for (size_t k = 0; k < arg->words; k++)
            words_add(out, a->words.items[arg->at + k]);
    }
}

static int finish_compile(struct wrap *w)
{
    size_t done = instrumented_count(w);
    if (done == 0)
        return run_shown(w, w->argv);
    if (done == w->args.sources && w->args.foreign == 0)
        return 0;
    struct words rest = {0};
    rest_of_command(w, &rest);
    int status = rest.failed ? EXIT_FAILED : run_shown(w, rest.items);
    words_release(&rest);
    return status;
}

/* Links with the runtime of KIND. Keeps messages in R. */
static int link_once(const struct wrap *w, char *const base[], enum link_kind kind,
                     struct cc_run *r)
{
    struct words command = {0};
    *r = (struct cc_run){0};
    link_command(base, w->args.command, w->selection.lib ? w->selection.lib : "", kind, &command);
    if (w->needs_personality)
        link_add_personality(&command);
    int err = command.failed ? -ENOMEM : cc_run_step(r, command.items, CC_KEEP_ERR);
    words_release(&command);
    return err ? err : r->status ? -EIO : 0;
}

/* A static program may define malloc, but not memalign. With some linkers, a reference of the hooks
 * to memalign then loads the C library's malloc as well, and two definitions are an error. */
static int link_static(const struct wrap *w, char *const base[], struct cc_run *r)
{
    struct cc_run again;
    int err = link_once(w, base, LINK_STATIC_RUNTIME, r);
    if (err != -EIO || !r->err.data || !strstr(r->err.data, "malloc"))
        return err;
    int second = link_once(w, base, LINK_STATIC_NO_MEMALIGN, &again);
    if (second == -EIO) { /* the first messages are about the user's own command */
        cc_run_release(&again);
        return err;
    }
    cc_run_release(r);
    *r = again;
    return second;
}

static int link_plain(const struct wrap *w, char *const base[], struct cc_run *r)
{
    if (getenv(RUST_HOST)) /* it runs in the compiler, or in the build */
        return link_once(w, base, LINK_STUB, r);
    return w->args.is_static ? link_static(w, base, r) : link_once(w, base, LINK_SHARED_RUNTIME, r);
}

/* A program with its own malloc cannot be interposed: links it again with malloc wrapped. If that
 * fails, allocations are not counted, but the program is complete. */
static int link_own_allocator(const struct wrap *w, char *const base[], struct cc_run *r)
{
    char *object = paths_join(w->selection.lib, "piano_wrap.o");
    bool possible = object && access(object, R_OK) == 0;
    free(object);
    if (!possible)
        return 0;
    cc_run_release(r);
    int err = link_once(w, base, LINK_OWN_ALLOCATOR, r);
    if (err == -EIO) {
        cc_run_release(r);
        err = link_once(w, base, LINK_SHARED_RUNTIME, r);
    }
    return err;
}

/* The C driver can link C++ without exceptions or library calls. But guards need cleanups, which
 * refer to the personality routine, and the C driver does not link it. A program then fails to
 * link; a shared library links but cannot be loaded. */
static bool lacks_personality(const struct wrap *w, int err, const char *output,
                              const struct cc_run *r)
{
    if (err == 0)
        return w->args.shared && link_lacks_personality(output);
    return err == -EIO && r->err.data && strstr(r->err.data, "__gxx_personality");
}

static int link_first(struct wrap *w, char *const base[], const char *output, struct cc_run *r)
{
    struct cc_run again;
    int err = link_plain(w, base, r);
    if (!lacks_personality(w, err, output, r))
        return err;
    w->needs_personality = true;
    int second = link_plain(w, base, &again);
    if (second == -EIO && err != 0) { /* the first messages are about the user's own command */
        cc_run_release(&again);
        return err;
    }
    if (second == -EIO) { /* no libstdc++ available */
        cc_run_release(&again);
        w->needs_personality = false;
        second = link_plain(w, base, &again);
    }
    cc_run_release(r);
    *r = again;
    return second;
}

/* libpiano.so needs glibc. A program for musl contains the runtime, like a static program. A shared
 * library cannot, because each library would have its own copy. */
static int link_for_musl(const struct wrap *w, char *const base[], const char *output,
                         struct cc_run *r)
{
    cc_run_release(r);
    if (!w->args.shared)
        return link_once(w, base, LINK_STATIC_RUNTIME, r);
    unlink(output);
    say_error("an archive (ar rcs) instead, or --skip for its functions",
              "%s is a shared library for musl, which cannot hold instrumented functions", output);
    *r = (struct cc_run){.status = EXIT_FAILED};
    return -EIO;
}

static int link_with_runtime(struct wrap *w, char *const base[], const char *output,
                             struct cc_run *r)
{
    const struct args *a = &w->args;
    int err = link_first(w, base, output, r);
    if (getenv(RUST_HOST))
        return err;
    if (err == 0 && !a->is_static && link_is_musl(output))
        return link_for_musl(w, base, output, r);
    if (err == 0 && !a->is_static && !a->shared && !a->sanitized && link_defines_malloc(output))
        err = link_own_allocator(w, base, r);
    return err;
}

static void give_up_jobs(struct wrap *w)
{
    for (size_t i = 0; i < w->job_count; i++) {
        struct job *j = &w->jobs[i];
        if (!j->instrumented)
            continue;
        j->instrumented = false;
        job_note(j, "compiled untouched: the program did not link with piano's runtime");
        free(j->failed);
        j->failed = strdup("the program did not link with piano's runtime");
    }
}

static void save_link(const struct wrap *w)
{
    char *cwd = getcwd(NULL, 0);
    const char *name = w->args.output ? w->args.output : "a.out";
    if (getenv(RUST_HOST)) {
        free(cwd);
        return;
    }
    char *path = name[0] == '/' ? strdup(name) : paths_join(cwd, name);
    if (path)
        (void)unit_save_link(w->state, path, w->args.shared);
    free(path);
    free(cwd);
}

/* The link failed. If this command compiled everything that is instrumented, the untouched command
 * still works; else only the messages can be shown. */
static int link_failed(struct wrap *w, bool inputs, const struct cc_run *r)
{
    if (!inputs) {
        give_up_jobs(w);
        return run_shown(w, w->argv);
    }
    show_messages(&w->selection, &r->err);
    if (r->err.data && strstr(r->err.data, "piano"))
        say("the link above includes piano's runtime, %s", w->selection.lib);
    return r->status ? r->status : EXIT_FAILED;
}

static int finish_link(struct wrap *w)
{
    size_t done = instrumented_count(w);
    bool inputs = link_has_instrumented(&w->args);
    if ((done == 0 && !inputs) || w->args.relocatable)
        return run_shown(w, w->argv);
    struct words rest = {0};
    struct cc_run r = {0};
    rest_of_command(w, &rest);
    /* Without sources the original command is used: a response file may be too long to expand. */
    char *const *base = w->args.sources > 0 ? rest.items : w->argv;
    const char *output = w->args.output ? w->args.output : "a.out";
    int err = rest.failed ? -ENOMEM : link_with_runtime(w, base, output, &r);
    int status = err == -EINTR ? STATUS_INTERRUPTED : 0;
    if (err == 0) {
        show_messages(&w->selection, &r.err);
        save_link(w);
    } else if (err != -EINTR) {
        status = link_failed(w, inputs, &r);
    }
    cc_run_release(&r);
    words_release(&rest);
    return status;
}

/* Reads the command and the selection. Returns 0, or negative errno when the command must run
 * unchanged. */
static int wrap_init(struct wrap *w, int argc, char **argv)
{
    const char *state = getenv("PIANO_STATE");
    *w = (struct wrap){.argv = argv, .state = state && *state ? strdup(state) : NULL};
    cc_run_clean_environment();
    if (!w->state)
        return -ENOENT;
    int err = args_parse(&w->args, argc, argv);
    if (err != 0 || w->args.query || is_probe(&w->args))
        return err ? err : -ENOENT;
    char *path = paths_join(w->state, "selection");
    err = path ? selection_load(&w->selection, path) : -ENOMEM;
    free(path);
    return err ? err : make_jobs(w);
}

int wrap_run(int argc, char **argv)
{
    struct wrap w;
    const char *state = getenv("PIANO_STATE");
    if (rust_is_compiler(argv[0]) && state && *state) /* it keeps the hook: it starts the linker */
        return rust_wrap(state, argv);
    if (wrap_init(&w, argc, argv) != 0 || w.args.count == 0)
        return exec_original(&w);
    note_assembler(&w);
    pch_add_header(&w.args);
    bool links = w.args.mode == ARGS_LINK;
    if (w.args.sources == 0 && (!links || !link_has_instrumented(&w.args)))
        return exec_original(&w);
    int status = STATUS_INTERRUPTED;
    if (make_by_products(&w) == 0 && run_jobs(&w) == 0) {
        status = links ? finish_link(&w) : finish_compile(&w);
        save_jobs(&w);
    }
    wrap_release(&w);
    return status;
}
