/* Builds the command lines of the single steps (preprocess, compile) that the wrapper makes of one
 * command. A step gets the words whose role fits, in their order. The names of the output and of
 * the dependency file, which compilers derive if not given, are written out, because a step would
 * derive different names. */
#include "tool/build/args.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool/util/buf.h"
#include "tool/util/paths.h"

const char *args_input(const struct args *a, const struct arg *arg)
{
    return a->words.items[arg->at];
}

char *args_stem(const char *path)
{
    char *stem = strdup(paths_base(path));
    char *dot = stem ? strrchr(stem, '.') : NULL;
    if (dot && dot != stem)
        *dot = '\0';
    return stem;
}

char *args_output_of(const struct args *a, const struct arg *source)
{
    if (a->output)
        return strdup(a->output);
    if (a->mode == ARGS_LINK)
        return strdup("a.out");
    struct buf name = {0};
    char *stem = args_stem(args_input(a, source));
    buf_printf(&name, "%s.%c", stem ? stem : "", a->mode == ARGS_ASSEMBLE ? 's' : 'o');
    free(stem);
    return name.data;
}

static void add_command(const struct args *a, struct words *out)
{
    for (size_t i = 0; i < a->command; i++)
        words_add(out, a->words.items[i]);
}

static void add_arg(const struct args *a, const struct arg *arg, struct words *out)
{
    for (size_t i = 0; i < arg->words; i++)
        words_add(out, a->words.items[arg->at + i]);
}

static void add_roles(const struct args *a, unsigned roles, struct words *out)
{
    for (size_t i = 0; i < a->count; i++) {
        if (roles & 1u << a->list[i].role)
            add_arg(a, &a->list[i], out);
    }
}

/* Compilers name the dependency file after the output and replace its last suffix by `.d`. Without
 * -o they use the name of the source, and gcc prefixes it with `a-` when it links to a.out. */
static void add_depfile(const struct args *a, const struct arg *source, struct words *out)
{
    char *stem = args_stem(args_input(a, source));
    if (!stem) {
        out->failed = true;
        return;
    }
    if (!a->depfile) {
        words_add(out, "-MF");
        const char *dot = a->output ? strrchr(paths_base(a->output), '.') : NULL;
        if (!a->output)
            words_addf(out, "%s%s.d", a->mode == ARGS_LINK && !a->clang ? "a-" : "", stem);
        else
            words_addf(out, "%.*s.d", (int)(dot ? dot - a->output : (long)strlen(a->output)),
                       a->output);
    }
    if (!a->dep_target) {
        words_add(out, "-MQ");
        if (a->output)
            words_add(out, a->output);
        else
            words_addf(out, "%s.o", stem);
    }
    free(stem);
}

static void add_source(const struct arg *source, const char *path, bool preprocessed,
                       struct words *out)
{
    words_add(out, "-x");
    if (preprocessed)
        words_add(out, source->lang == LANG_CXX ? "c++-cpp-output" : "cpp-output");
    else
        words_add(out, source->lang == LANG_CXX ? "c++" : "c");
    words_add(out, path);
}

/* clang reads the header of `-include-pch X.pch` before all others. */
static void add_precompiled(const struct args *a, struct words *out)
{
    for (size_t i = 0; i < a->count; i++) {
        const char *word = a->words.items[a->list[i].at];
        if (a->list[i].words != 2 || strcmp(word, "-include-pch") != 0)
            continue;
        char *header = strdup(a->words.items[a->list[i].at + 1]);
        char *dot = header ? strrchr(header, '.') : NULL;
        if (dot && strcmp(dot, ".pch") == 0)
            *dot = '\0';
        if (dot && access(header, R_OK) == 0) {
            words_add(out, "-include");
            words_add(out, header);
        }
        free(header);
    }
}

void args_preprocess(const struct args *a, const struct arg *source, struct words *out)
{
    add_command(a, out);
    add_precompiled(a, out);
    add_roles(a, 1u << ARG_FLAG | 1u << ARG_PREPROCESS | 1u << ARG_DEPEND | 1u << ARG_STRICT, out);
    if (a->depends)
        add_depfile(a, source, out);
    words_add(out, "-E");
    add_source(source, args_input(a, source), false, out);
}

void args_compile(const struct args *a, const struct arg *source, const char *text,
                  const char *object, struct words *out)
{
    add_command(a, out);
    add_roles(a, 1u << ARG_FLAG, out);
    words_add(out, "-w");
    words_add(out, a->mode == ARGS_ASSEMBLE && !object ? "-S" : "-c");
    char *output = object ? NULL : args_output_of(a, source);
    words_add(out, "-o");
    words_add(out, object ? object : output ? output : "");
    free(output);
    add_source(source, text, true, out);
}
