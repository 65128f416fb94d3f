/* Reports what a build did, from the records it left.
 *
 * A function in a header is in the record of every unit that includes it, but it is one function.
 * So all functions are first collected into one sorted list without duplicates. If units disagree
 * (one was compiled untouched), the better status counts.
 *
 * Patterns are checked after the build, not before, because only the compiler knows the names. */
#include "tool/build/summary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool/build/build_log.h"
#include "tool/build/libclang.h"
#include "tool/build/names.h"
#include "tool/build/choice.h"
#include "tool/util/buf.h"
#include "tool/util/nearest.h"
#include "tool/util/order.h"
#include "tool/util/paths.h"
#include "tool/util/say.h"

enum { MAX_FILES_SHOWN = 20, MAX_SUGGESTIONS = 5, MAX_PROGRAMS_SHOWN = 10 };

struct gathered {
    const struct record_fn **fns;
    size_t count;
};

static int by_place(const void *a, const void *b)
{
    const struct record_fn *x = *(const struct record_fn *const *)a;
    const struct record_fn *y = *(const struct record_fn *const *)b;
    return strcmp(x->file, y->file) ?: ORDER(x->line, y->line) ?: strcmp(x->name, y->name)
           ?: (int)x->status - (int)y->status;
}

static bool is_same_fn(const struct record_fn *a, const struct record_fn *b)
{
    return a->line == b->line && strcmp(a->name, b->name) == 0 && strcmp(a->file, b->file) == 0;
}

static void gather(struct gathered *g, const struct records *r)
{
    size_t count = 0;
    for (size_t i = 0; i < r->unit_count; i++)
        count += r->units[i].fn_count;
    *g = (struct gathered){.fns = calloc(count + 1, sizeof *g->fns)};
    size_t all = 0;
    for (size_t i = 0; g->fns && i < r->unit_count; i++) {
        for (size_t j = 0; j < r->units[i].fn_count; j++)
            g->fns[all++] = &r->units[i].fns[j];
    }
    if (all > 0)
        qsort(g->fns, all, sizeof *g->fns, by_place);
    for (size_t i = 0; i < all; i++) {
        if (g->count == 0 || !is_same_fn(g->fns[g->count - 1], g->fns[i]))
            g->fns[g->count++] = g->fns[i];
    }
}

/* --- patterns that match nothing ------------------------------------------------------------- */

/* Does a selection with only this one pattern choose FN? */
static bool matches_alone(const struct selection *whole, struct selection_list only,
                          struct selection_list files, struct selection_list dirs,
                          const struct record_fn *fn)
{
    struct selection s = {.root = whole->root, .mirror = whole->mirror, .exact = whole->exact};
    s.fns = only;
    s.files = files;
    s.dirs = dirs;
    return selection_wants(&s, records_bare_name(fn->name), fn->name, fn->file);
}

struct question {
    const char *flag;
    const char *what;
    const char *without; /* what happens without the flag */
    const struct selection_list *patterns;
};

static bool is_matched(const struct selection *s, const struct question *q, size_t i,
                       const struct gathered *g)
{
    const struct selection_list none = {0};
    const struct selection_list one = {&q->patterns->items[i], 1};
    for (size_t j = 0; j < g->count; j++) {
        bool yes = matches_alone(s, q->patterns == &s->fns ? one : none,
                                 q->patterns == &s->files ? one : none,
                                 q->patterns == &s->dirs ? one : none, g->fns[j]);
        if (yes)
            return true;
    }
    return false;
}

static bool was_searched(const struct record_unit *u)
{
    return !u->note || !strstr(u->note, "not searched");
}

/* Collects all names for suggestions: of functions, or of files. */
static void collect_names(struct names *n, const struct driver *d, const struct records *r,
                          const struct gathered *g, bool files)
{
    int err = 0;
    *n = (struct names){0};
    for (size_t i = 0; i < g->count && err == 0; i++)
        err = names_add(n, files ? g->fns[i]->file : g->fns[i]->name);
    for (size_t i = 0; i < r->unit_count && err == 0; i++) {
        const struct record_unit *u = &r->units[i];
        if (was_searched(u))
            continue;
        const char *source = selection_relative(&d->selection, u->source);
        char *path = source[0] == '/' ? strdup(source) : paths_join(d->root, source);
        if (files)
            err = names_add(n, source);
        else if (path)
            err = names_add_source(n, path);
        free(path);
    }
    names_sort(n);
}

static void say_unmatched(const struct question *q, const char *pattern, const struct names *n)
{
    const char *near[MAX_SUGGESTIONS];
    char safe[512];
    size_t found = nearest_find(pattern, n->items, n->count, near, MAX_SUGGESTIONS);
    struct buf hint = {0};
    for (size_t i = 0; i < found; i++)
        buf_printf(&hint, "%s%s %s", i ? ", " : "", q->flag, say_safe(safe, sizeof safe, near[i]));
    if (found == 0)
        buf_printf(&hint, "leave %s out: %s", q->flag, q->without);
    say_error(hint.data, "%s %s matches no %s that was compiled", q->flag,
              say_safe(safe, sizeof safe, pattern), q->what);
    buf_free(&hint);
}

static int check_list(const struct driver *d, const struct question *q, const struct records *r,
                      const struct gathered *g)
{
    const struct selection *s = &d->selection;
    int status = EXIT_DONE;
    for (size_t i = 0; i < q->patterns->count; i++) {
        if (is_matched(s, q, i, g))
            continue;
        struct names names;
        collect_names(&names, d, r, g, q->patterns != &s->fns);
        say_unmatched(q, q->patterns->items[i], &names);
        names_release(&names);
        status = EXIT_FAILED;
    }
    return status;
}

static bool is_known_name(const struct gathered *g, const char *name)
{
    for (size_t i = 0; i < g->count; i++) {
        const char *full = g->fns[i]->name;
        if (strcmp(full, name) == 0 || strcmp(records_bare_name(full), name) == 0)
            return true;
    }
    return false;
}

/* `--frame` and `--skip` name functions. An unknown `--frame` is an error, an unknown `--skip` only
 * a likely mistake. */
static int check_frame_and_skips(const struct driver *d, const struct records *r,
                                 const struct gathered *g)
{
    const struct selection *s = &d->selection;
    const struct question frame = {"--frame", "function", "frames are then found at run time",
                                   NULL};
    int status = EXIT_DONE;
    struct names names;
    collect_names(&names, d, r, g, false);
    if (s->frame && !is_known_name(g, s->frame)) {
        say_unmatched(&frame, s->frame, &names);
        status = EXIT_FAILED;
    }
    for (size_t i = 0; i < s->skips.count; i++) {
        char safe[256];
        char safe_near[256];
        const char *skip = s->skips.items[i];
        if (is_known_name(g, skip))
            continue;
        const char *near = nearest_name(skip, names.items, names.count);
        if (near && strcmp(near, skip) == 0)
            continue; /* it is in a unit that was not searched */
        say("--skip %s names no function%s%s%s", say_safe(safe, sizeof safe, skip),
            near ? " (did you mean " : "", near ? say_safe(safe_near, sizeof safe_near, near) : "",
            near ? "?)" : "");
    }
    names_release(&names);
    return status;
}

/* Number of C and C++ units: assembler units have records only to be listed. */
static size_t compiled_count(const struct records *r)
{
    size_t count = 0;
    for (size_t i = 0; i < r->unit_count; i++)
        count += !r->units[i].note || !strstr(r->units[i].note, "assembler source");
    return count;
}

static int check_any(const struct driver *d, const struct records *r, const struct gathered *g)
{
    if (compiled_count(r) == 0) {
        if (!d->verbose)
            build_log_show_end(d->log, d->selection.mirror, d->root);
        return say_error(d->command ? "a command that compiles; is everything built already, or "
                                      "does the build clear LD_PRELOAD from its environment?"
                                    : "piano build -- YOUR BUILD COMMAND",
                         "the build compiled no %s file under piano",
                         d->has_cargo ? "Rust, C or C++" : "C or C++");
    }
    for (size_t i = 0; i < g->count; i++) {
        if (g->fns[i]->status == RECORD_INSTRUMENTED)
            return EXIT_DONE;
    }
    if (g->count == 0)
        return say_error("piano build --list-skipped",
                         "nothing was instrumented: no function was found in what was compiled");
    return say_error("piano build --list-skipped", "nothing was instrumented: every function "
                                                   "chosen had to be left out");
}

int summary_check(const struct driver *d, const struct records *r)
{
    const struct selection *s = &d->selection;
    static const char all[] = "all of the project's functions are then chosen";
    const struct question questions[] = {{"--fn", "function", all, &s->fns},
                                         {"--file", "file", all, &s->files},
                                         {"--dir", "file", all, &s->dirs}};
    struct gathered g;
    gather(&g, r);
    bool compiled = compiled_count(r) > 0;
    int status = EXIT_DONE;
    if (compiled && g.count == 0 && !libclang()) {
        free(g.fns);
        return say_error("piano doctor", "no function can be found without libclang: %s",
                         libclang_error());
    }
    for (size_t i = 0; compiled && i < 3; i++) {
        int one = check_list(d, &questions[i], r, &g);
        status = one ? one : status;
    }
    if (compiled && (s->frame || s->skips.count > 0)) {
        int one = check_frame_and_skips(d, r, &g);
        status = one ? one : status;
    }
    if (status == EXIT_DONE)
        status = check_any(d, r, &g);
    free(g.fns);
    return status;
}

/* --- what was done --------------------------------------------------------------------------- */

struct file_count {
    const char *file;
    size_t count;
};

static int most_first(const void *a, const void *b)
{
    const struct file_count *x = a, *y = b;
    return ORDER(y->count, x->count) ?: strcmp(x->file, y->file);
}

static void show_files(struct file_count *files, size_t count)
{
    size_t shown = count > MAX_FILES_SHOWN ? MAX_FILES_SHOWN : count;
    char safe[512];
    qsort(files, count, sizeof *files, most_first);
    for (size_t i = 0; i < shown; i++)
        fprintf(stderr, "  %6zu  %s\n", files[i].count, say_safe(safe, sizeof safe, files[i].file));
    if (shown < count)
        fprintf(stderr, "          and %zu more files\n", count - shown);
}

static void show_counts(const struct driver *d, const struct gathered *g)
{
    struct file_count *files = calloc(g->count + 1, sizeof *files);
    size_t file_count = 0;
    size_t total = 0;
    size_t left_out = 0;
    for (size_t i = 0; files && i < g->count; i++) {
        const struct record_fn *fn = g->fns[i];
        if (fn->status == RECORD_SKIPPED)
            left_out +=
                selection_wants(&d->selection, records_bare_name(fn->name), fn->name, fn->file);
        if (fn->status != RECORD_INSTRUMENTED)
            continue;
        total++;
        if (file_count == 0 || strcmp(files[file_count - 1].file, fn->file) != 0)
            files[file_count++].file = fn->file;
        files[file_count - 1].count++;
    }
    say("instrumented %zu function%s in %zu file%s", total, total == 1 ? "" : "s", file_count,
        file_count == 1 ? "" : "s");
    if (files)
        show_files(files, file_count);
    if (left_out > 0)
        say("%zu left out; `piano build --list-skipped` says why", left_out);
    free(files);
}

void summary_show(const struct driver *d, const struct records *r)
{
    struct gathered g;
    char safe[4096];
    gather(&g, r);
    show_counts(d, &g);
    free(g.fns);
    struct choice_list programs;
    choice_load(&programs, r, d->state);
    for (size_t i = 0; i < programs.count && i < MAX_PROGRAMS_SHOWN; i++)
        say("built: %s%s", say_safe(safe, sizeof safe, programs.items[i].path),
            i == 0 && programs.count > 1 && programs.meant == 1 ? "   (what `piano run` starts)"
                                                                : "");
    if (programs.count > MAX_PROGRAMS_SHOWN)
        say("and %zu more programs", programs.count - MAX_PROGRAMS_SHOWN);
    if (programs.meant > 1)
        say("to run one of them: piano run %s",
            choice_name(safe, sizeof safe, &programs, programs.items[0].path));
    choice_release(&programs);
}

size_t summary_list_skipped(const struct driver *d, const struct records *r)
{
    struct gathered g;
    size_t listed = 0;
    char file[512];
    char name[512];
    char why[512];
    for (size_t i = 0; i < r->unit_count; i++) {
        const struct record_unit *u = &r->units[i];
        if (!u->note || !was_searched(u))
            continue;
        listed++;
        printf("%s: (%s)\n",
               say_safe(file, sizeof file, selection_relative(&d->selection, u->source)),
               say_safe(why, sizeof why, u->note));
    }
    gather(&g, r);
    for (size_t i = 0; i < g.count; i++) {
        const struct record_fn *fn = g.fns[i];
        if (fn->status != RECORD_SKIPPED ||
            !selection_wants(&d->selection, records_bare_name(fn->name), fn->name, fn->file))
            continue;
        listed++;
        printf("%s:%u: %s (%s)\n", say_safe(file, sizeof file, fn->file), fn->line,
               say_safe(name, sizeof name, fn->name), say_safe(why, sizeof why, fn->reason));
    }
    free(g.fns);
    return listed;
}
