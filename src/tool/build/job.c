/* One source in the compiler wrapper: preprocesses it with the user's compiler, finds the
 * functions, chooses, inserts the guards, and compiles with the user's compiler.
 *
 * Every step may fail, but none may break the build. A failure leaves a note in the unit's record
 * and `instrumented` false, and the caller runs the original command. The messages of our own steps
 * are never shown: if the user's code is wrong, the original command reports it. */
#include "tool/build/job.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tool/build/cc_run.h"
#include "tool/build/libclang.h"
#include "tool/build/pch.h"
#include "tool/build/rewrite.h"
#include "tool/build/scratch.h"
#include "tool/build/search.h"
#include "tool/build/selection.h"
#include "tool/build/unit.h"
#include "tool/util/paths.h"

/* libclang stores offsets in 32 bits. */
static const size_t MAX_TEXT = (size_t)1 << 30;

int job_init(struct job *j, const char *state, const struct selection *selection,
             const struct args *args, const struct arg *source)
{
    *j = (struct job){.state = state, .selection = selection, .args = args, .source = source};
    int err = place_init(&j->place, selection, args_input(args, source));
    char *output = args_output_of(args, source);
    if (err == 0 && output)
        j->output = output[0] == '/' ? strdup(output) : paths_join(j->place.cwd, output);
    free(output);
    return j->output ? 0 : -ENOMEM;
}

void job_release(struct job *j)
{
    place_release(&j->place);
    analyse_release(&j->functions);
    buf_free(&j->words);
    free(j->output);
    free(j->note);
    free(j->failed);
    *j = (struct job){0};
}

void job_note(struct job *j, const char *fmt, ...)
{
    struct buf b = {0};
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(&b, fmt, ap);
    va_end(ap);
    free(j->note);
    j->note = b.data;
}

void job_save(const struct job *j)
{
    struct unit u = {.state = j->state,
                     .source = j->place.source,
                     .output = j->output,
                     .note = j->note,
                     .failed = j->failed,
                     .words = j->words.len > 0 ? j->words.data : NULL,
                     .functions = j->analysed ? &j->functions : NULL};
    (void)unit_save(&u); /* a missing record must not fail the build */
}

/* The project is compiled in its mirror, but paths in the output must be those of its own place. */
static void add_prefix_map(const struct job *j, struct words *w)
{
    const struct selection *s = j->selection;
    if (s->mirror && s->root)
        words_addf(w, "-ffile-prefix-map=%s=%s", s->mirror, s->root);
}

static int preprocess(struct job *j, struct buf *text)
{
    struct words command = {0};
    struct cc_run r = {0};
    args_preprocess(j->args, j->source, &command);
    add_prefix_map(j, &command);
    int err = command.failed ? -ENOMEM : cc_run_step(&r, command.items, CC_KEEP_OUT | CC_KEEP_ERR);
    if (err == 0 && (r.status != 0 || r.out.len > MAX_TEXT))
        err = -EIO;
    *text = r.out;
    if (err == 0)
        pch_unmark(text, j->selection);
    r.out = (struct buf){0};
    cc_run_release(&r);
    words_release(&command);
    if (err != 0 && err != -EINTR)
        job_note(j, "compiled untouched: it could not be preprocessed");
    return err;
}

/* Marks the functions to guard. Returns their number. */
static size_t choose(struct job *j)
{
    size_t chosen = 0;
    for (size_t i = 0; i < j->functions.count; i++) {
        struct analyse_fn *fn = &j->functions.fns[i];
        bool wanted = selection_wants(j->selection, fn->bare, fn->qualified, fn->file);
        fn->chosen = wanted && !fn->skip;
        if (!wanted)
            fn->skip = NULL;
        chosen += fn->chosen;
    }
    return chosen;
}

static int analyse(struct job *j, const struct buf *text)
{
    struct analyse_source source = {.text = text->data,
                                    .len = text->len,
                                    .cxx = j->source->lang == LANG_CXX,
                                    .std = j->args->std,
                                    .clang = j->args->clang,
                                    .place = &j->place};
    int err = analyse_run(&j->functions, &source);
    j->analysed = err == 0;
    if (err == -ENOENT)
        job_note(j, "compiled untouched: libclang cannot be loaded: %s", libclang_error());
    else if (err != 0)
        job_note(j, "compiled untouched: libclang could not read it");
    else if (j->functions.uses_ifunc)
        job_note(j, "uses ifunc: its functions may run before the program is relocated");
    else if (j->functions.first_error)
        job_note(j, "libclang could not read all of it, functions may be missing: %s",
                 j->functions.first_error);
    return err;
}

/* Writes the text with the guards to a file named like the source. NULL on failure. */
static const char *write_text(struct job *j, const struct buf *text)
{
    struct rewrite_source source = {.text = text->data,
                                    .len = text->len,
                                    .cxx = j->source->lang == LANG_CXX,
                                    .functions = &j->functions,
                                    .selection = j->selection};
    struct buf out = {0};
    struct buf name = {0};
    char *stem = args_stem(args_input(j->args, j->source));
    buf_printf(&name, "%s.%s", stem ? stem : "unit", source.cxx ? "ii" : "i");
    const char *path = name.failed ? NULL : scratch_path(j->state, name.data);
    if (path && (rewrite_run(&out, &source) != 0 || buf_write_file(&out, path) != 0))
        path = NULL;
    free(stem);
    buf_free(&name);
    buf_free(&out);
    return path;
}

/* The first line of a compiler's messages that states an error. */
static char *first_error(const struct buf *messages)
{
    const char *text = messages->data ? messages->data : "";
    const char *error = strstr(text, "error: ");
    if (!error)
        error = text;
    return strndup(error, strcspn(error, "\n"));
}

static void note_failure(struct job *j, const struct buf *messages)
{
    char *error = first_error(messages);
    job_note(j, "instrumented text did not compile: %s", error ? error : "");
    free(error);
    free(j->failed);
    j->failed = strdup("the instrumented text of its file did not compile");
}

static int compile_text(struct job *j, const char *path)
{
    struct words command = {0};
    struct cc_run r = {0};
    if (j->args->mode == ARGS_LINK) {
        char *stem = args_stem(args_input(j->args, j->source));
        struct buf name = {0};
        buf_printf(&name, "%s.o", stem ? stem : "unit");
        j->object = name.failed ? NULL : scratch_path(j->state, name.data);
        free(stem);
        buf_free(&name);
        if (!j->object)
            return -ENOMEM;
    }
    args_compile(j->args, j->source, path, j->object, &command);
    add_prefix_map(j, &command);
    int err = command.failed ? -ENOMEM : cc_run_step(&r, command.items, CC_KEEP_OUT | CC_KEEP_ERR);
    j->instrumented = err == 0 && r.status == 0;
    if (err == 0 && r.status != 0)
        note_failure(j, &r.err);
    cc_run_release(&r);
    words_release(&command);
    return err;
}

/* Our own errors are not fatal: the original command follows. */
static int only_interruption(int err)
{
    return err == -EINTR ? err : 0;
}

int job_compile(struct job *j)
{
    struct buf text = {0};
    int err = preprocess(j, &text);
    if (err == 0 && !search_may_match(j->selection, text.data, text.len)) {
        job_note(j, "not searched: no pattern occurs in it");
        search_collect(&j->words, &text, j->selection);
        err = -ENOENT;
    }
    if (err == 0)
        err = analyse(j, &text);
    const char *path = err == 0 && choose(j) > 0 ? write_text(j, &text) : NULL;
    buf_free(&text);
    if (path)
        err = compile_text(j, path);
    return only_interruption(err);
}
