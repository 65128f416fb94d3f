/* Parses gcc and clang command lines.
 *
 * The wrapper turns one command into several. So it must know for every word whether it is an input
 * or belongs to the previous word, and which step it is for. A table says this for the options that
 * matter. Any other word that begins with a dash is taken as a one-word flag for every step, as
 * nearly all are. Options that change the meaning of a source (another machine, modules, another
 * kind of preprocessor) are in the table as refusals: then the original command compiles the
 * sources. An unknown word that looks like a long option is a refusal too, because it could take
 * the next word.
 *
 * The wrapper calls this once per process. The words are read-only after `args_parse`. */
#include "tool/build/args.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/util/buf.h"
#include "tool/util/paths.h"

enum shape {
    EXACT,    /* -c */
    JOINED,   /* -std=c99, -Werror-whatever */
    SEPARATE, /* -Xlinker X */
    EITHER,   /* -Idir, -I dir */
};

enum effect {
    PLAIN,
    QUERY,
    REFUSE,
    MODE_COMPILE,
    MODE_ASSEMBLE,
    DEPENDS,
    DEP_FILE,
    DEP_TARGET,
    OUTPUT,
    LANGUAGE,
    STANDARD,
    ANSI,
    SHARED,
    STATIC,
    RELOCATABLE,
    SANITIZE,
    SIDE_FILES,
    BY_PRODUCTS,
    TARGET,
    CLANG_WORD,
    PREPROCESSOR_WORD,
};

struct option {
    const char *name;
    enum shape shape;
    enum args_role role;
    enum effect effect;
};

/* The first match counts, so a longer name precedes its own prefix. */
static const struct option options[] = {
    {"-c", EXACT, ARG_MODE, MODE_COMPILE},
    {"-S", EXACT, ARG_MODE, MODE_ASSEMBLE},
    {"-E", EXACT, ARG_MODE, QUERY},
    {"-M", EXACT, ARG_DEPEND, QUERY},
    {"-MM", EXACT, ARG_DEPEND, QUERY},
    {"-MD", EXACT, ARG_DEPEND, DEPENDS},
    {"-MMD", EXACT, ARG_DEPEND, DEPENDS},
    {"-MF", EITHER, ARG_DEPEND, DEP_FILE},
    {"-MT", EITHER, ARG_DEPEND, DEP_TARGET},
    {"-MQ", EITHER, ARG_DEPEND, DEP_TARGET},
    {"-MJ", EITHER, ARG_DEPEND, REFUSE},
    {"-M", JOINED, ARG_DEPEND, PLAIN},
    {"-objcmt", JOINED, ARG_FLAG, REFUSE},
    {"-o", EITHER, ARG_OUTPUT, OUTPUT},
    {"-x", EITHER, ARG_LANG, LANGUAGE},
    {"-Xpreprocessor", SEPARATE, ARG_PREPROCESS, PLAIN},
    {"-Xlinker", SEPARATE, ARG_LINK, PLAIN},
    {"-Xassembler", SEPARATE, ARG_FLAG, PLAIN},
    {"-Xclang", SEPARATE, ARG_FLAG, CLANG_WORD},
    {"-Xanalyzer", SEPARATE, ARG_FLAG, PLAIN},
    {"-Xopenmp-target", SEPARATE, ARG_FLAG, PLAIN},
    {"-I", EITHER, ARG_PREPROCESS, PLAIN},
    {"-D", EITHER, ARG_PREPROCESS, PLAIN},
    {"-U", EITHER, ARG_PREPROCESS, PLAIN},
    {"-A", EITHER, ARG_PREPROCESS, PLAIN},
    {"-F", EITHER, ARG_PREPROCESS, PLAIN},
    {"-include-pch", SEPARATE, ARG_DROP, PLAIN},
    {"-include", EITHER, ARG_PREPROCESS, PLAIN},
    {"-imacros", EITHER, ARG_PREPROCESS, PLAIN},
    {"-iquote", EITHER, ARG_PREPROCESS, PLAIN},
    {"-isystem", EITHER, ARG_PREPROCESS, PLAIN},
    {"-idirafter", EITHER, ARG_PREPROCESS, PLAIN},
    {"-iprefix", EITHER, ARG_PREPROCESS, PLAIN},
    {"-iwithprefixbefore", EITHER, ARG_PREPROCESS, PLAIN},
    {"-iwithprefix", EITHER, ARG_PREPROCESS, PLAIN},
    {"-imultilib", EITHER, ARG_PREPROCESS, PLAIN},
    {"-ivfsoverlay", EITHER, ARG_PREPROCESS, PLAIN},
    {"-cxx-isystem", EITHER, ARG_PREPROCESS, PLAIN},
    {"-stdlib++-isystem", EITHER, ARG_PREPROCESS, PLAIN},
    {"-isysroot", EITHER, ARG_FLAG, PLAIN},
    {"-nostdinc", JOINED, ARG_PREPROCESS, PLAIN},
    {"-undef", EXACT, ARG_PREPROCESS, PLAIN},
    {"-Wp,", JOINED, ARG_PREPROCESS, PREPROCESSOR_WORD},
    {"-finput-charset=", JOINED, ARG_PREPROCESS, PLAIN},
    {"-trigraphs", EXACT, ARG_PREPROCESS, PLAIN},
    {"-Wl,", JOINED, ARG_LINK, PLAIN},
    {"-L", EITHER, ARG_LINK, PLAIN},
    {"-l", EITHER, ARG_LINK, PLAIN},
    {"-T", EITHER, ARG_LINK, PLAIN},
    {"-u", EITHER, ARG_LINK, PLAIN},
    {"-z", EITHER, ARG_LINK, PLAIN},
    {"-e", SEPARATE, ARG_LINK, PLAIN},
    {"-rpath", SEPARATE, ARG_LINK, PLAIN},
    {"-shared", EXACT, ARG_LINK, SHARED},
    {"-static-pie", EXACT, ARG_LINK, STATIC},
    {"-static", EXACT, ARG_LINK, STATIC},
    {"-r", EXACT, ARG_LINK, RELOCATABLE},
    {"-B", EITHER, ARG_FLAG, PLAIN},
    {"--param", SEPARATE, ARG_FLAG, PLAIN},
    {"--param=", JOINED, ARG_FLAG, PLAIN},
    {"--sysroot", SEPARATE, ARG_FLAG, PLAIN},
    {"--sysroot=", JOINED, ARG_FLAG, PLAIN},
    {"--gcc-toolchain=", JOINED, ARG_FLAG, PLAIN},
    {"--gcc-install-dir=", JOINED, ARG_FLAG, PLAIN},
    {"--specs=", JOINED, ARG_FLAG, PLAIN},
    {"--specs", SEPARATE, ARG_FLAG, PLAIN},
    {"-specs=", JOINED, ARG_FLAG, PLAIN},
    {"-specs", SEPARATE, ARG_FLAG, PLAIN},
    {"--verbose", EXACT, ARG_FLAG, PLAIN},
    {"--rtlib=", JOINED, ARG_FLAG, PLAIN},
    {"--unwindlib=", JOINED, ARG_FLAG, PLAIN},
    {"--stdlib=", JOINED, ARG_FLAG, PLAIN},
    {"--ld-path=", JOINED, ARG_FLAG, PLAIN},
    {"--pipe", EXACT, ARG_FLAG, PLAIN},
    {"-mllvm", SEPARATE, ARG_FLAG, PLAIN},
    {"-wrapper", SEPARATE, ARG_FLAG, PLAIN},
    {"-dumpbase", SEPARATE, ARG_FLAG, PLAIN},
    {"-dumpbase-ext", SEPARATE, ARG_FLAG, PLAIN},
    {"-dumpdir", SEPARATE, ARG_FLAG, PLAIN},
    {"-gcc-toolchain", SEPARATE, ARG_FLAG, PLAIN},
    {"-aux-info", SEPARATE, ARG_DROP, BY_PRODUCTS},
    {"--serialize-diagnostics", SEPARATE, ARG_DROP, BY_PRODUCTS},
    {"-working-directory", SEPARATE, ARG_FLAG, REFUSE},
    {"-target", SEPARATE, ARG_FLAG, TARGET},
    {"--target=", JOINED, ARG_FLAG, TARGET},
    {"-arch", SEPARATE, ARG_FLAG, REFUSE},
    {"-Xarch_", JOINED, ARG_FLAG, REFUSE},
    {"-std=", JOINED, ARG_FLAG, STANDARD},
    {"--std=", JOINED, ARG_FLAG, STANDARD},
    {"-ansi", EXACT, ARG_FLAG, ANSI},
    {"-Werror", JOINED, ARG_STRICT, PLAIN},
    {"-pedantic-errors", EXACT, ARG_STRICT, PLAIN},
    {"-Wfatal-errors", EXACT, ARG_STRICT, PLAIN},
    {"-save-temps", JOINED, ARG_DROP, BY_PRODUCTS},
    {"--save-temps", JOINED, ARG_DROP, BY_PRODUCTS},
    {"-C", EXACT, ARG_DROP, PLAIN},
    {"-CC", EXACT, ARG_DROP, PLAIN},
    {"-P", EXACT, ARG_DROP, PLAIN},
    {"-dD", EXACT, ARG_DROP, PLAIN},
    {"-dM", EXACT, ARG_DROP, PLAIN},
    {"-dN", EXACT, ARG_DROP, PLAIN},
    {"-dI", EXACT, ARG_DROP, PLAIN},
    {"-dU", EXACT, ARG_DROP, PLAIN},
    {"-fpch-preprocess", EXACT, ARG_DROP, PLAIN},
    {"-fsanitize=", JOINED, ARG_FLAG, SANITIZE},
    {"--coverage", EXACT, ARG_FLAG, SIDE_FILES},
    {"-coverage", EXACT, ARG_FLAG, SIDE_FILES},
    {"-fprofile-arcs", EXACT, ARG_FLAG, SIDE_FILES},
    {"-ftest-coverage", EXACT, ARG_FLAG, SIDE_FILES},
    {"-gsplit-dwarf", JOINED, ARG_FLAG, SIDE_FILES},
    {"-###", EXACT, ARG_FLAG, QUERY},
    {"--version", EXACT, ARG_FLAG, QUERY},
    {"--help", JOINED, ARG_FLAG, QUERY},
    {"--target-help", EXACT, ARG_FLAG, QUERY},
    {"-print-", JOINED, ARG_FLAG, QUERY},
    {"--print-", JOINED, ARG_FLAG, QUERY},
    {"-dump", JOINED, ARG_FLAG, QUERY},
    {"-fsyntax-only", EXACT, ARG_FLAG, QUERY},
    {"--analyze", EXACT, ARG_FLAG, QUERY},
    {"-cc1", JOINED, ARG_FLAG, QUERY},
    {"-m32", EXACT, ARG_FLAG, REFUSE},
    {"-mx32", EXACT, ARG_FLAG, REFUSE},
    {"-m16", EXACT, ARG_FLAG, REFUSE},
    {"-miamcu", EXACT, ARG_FLAG, REFUSE},
    {"-ffreestanding", EXACT, ARG_FLAG, REFUSE},
    {"-nostdlib", EXACT, ARG_FLAG, REFUSE},
    {"-fpreprocessed", EXACT, ARG_FLAG, REFUSE},
    {"-fdirectives-only", EXACT, ARG_FLAG, REFUSE},
    {"-traditional", JOINED, ARG_FLAG, REFUSE},
    {"-fmodules", JOINED, ARG_FLAG, REFUSE},
    {"-fmodule-", JOINED, ARG_FLAG, REFUSE},
    {"-fprebuilt-module", JOINED, ARG_FLAG, REFUSE},
    {"-fcxx-modules", EXACT, ARG_FLAG, REFUSE},
    {"-emit-pch", EXACT, ARG_FLAG, REFUSE},
    {"-emit-ast", EXACT, ARG_FLAG, REFUSE},
    {"-mkernel", EXACT, ARG_FLAG, REFUSE},
};

static bool starts_with(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

static bool is_one_of(const char *s, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(s, names[i]) == 0)
            return true;
    }
    return false;
}

#define IS_ONE_OF(s, names) is_one_of(s, names, sizeof(names) / sizeof((names)[0]))

static bool is_launcher(const char *path)
{
    static const char *const names[] = {"ccache", "sccache", "distcc", "icecc"};
    const char *base = paths_base(path);
    return IS_ONE_OF(base, names);
}

static enum args_lang lang_of_name(const char *lang)
{
    if (strcmp(lang, "c") == 0)
        return LANG_C;
    if (starts_with(lang, "assembler"))
        return LANG_ASM;
    return strcmp(lang, "c++") == 0 ? LANG_CXX : LANG_OTHER;
}

static enum args_lang lang_of_suffix(const struct args *a, const char *path)
{
    static const char *const cxx[] = {"cc", "cp", "cxx", "cpp", "CPP", "c++", "C"};
    static const char *const assembler[] = {"s", "S", "sx"};
    static const char *const other[] = {
        "i", "ii", "h",   "hh",  "H",  "hp", "hxx",  "hpp", "h++", "m",   "mm",
        "M", "mi", "mii", "cu",  "cl", "f",  "for",  "f90", "F",   "F90", "f95",
        "d", "go", "adb", "ads", "bc", "ll", "cppm", "ixx", "pcm", "cui", "hip"};
    const char *dot = strrchr(paths_base(path), '.');
    if (!dot)
        return LANG_NONE;
    if (strcmp(dot + 1, "c") == 0)
        return a->cxx ? LANG_CXX : LANG_C;
    if (IS_ONE_OF(dot + 1, cxx))
        return LANG_CXX;
    if (IS_ONE_OF(dot + 1, assembler))
        return LANG_ASM;
    return IS_ONE_OF(dot + 1, other) ? LANG_OTHER : LANG_NONE;
}

static bool fits(const struct option *o, const char *word)
{
    bool exact = o->shape == EXACT || o->shape == SEPARATE;
    return exact ? strcmp(word, o->name) == 0 : starts_with(word, o->name);
}

static const struct option *find_option(const char *word)
{
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        if (fits(&options[i], word))
            return &options[i];
    }
    return NULL;
}

/* `-Xclang -include-pch -Xclang FILE` is one option of four words; other -Xclang options have
 * two. */
static void take_clang_words(struct args *a, struct arg *arg)
{
    static const char *const pairs[] = {"-include", "-imacros", "-include-pch", "-isystem",
                                        "-internal-isystem"};
    char **w = a->words.items + arg->at;
    size_t left = a->words.count - arg->at;
    if (left < 4 || strcmp(w[2], "-Xclang") != 0 || !IS_ONE_OF(w[1], pairs))
        return;
    arg->words = 4;
    arg->role = strcmp(w[1], "-include-pch") == 0 ? ARG_DROP : ARG_PREPROCESS;
}

static void refuse(struct args *a, const char *word)
{
    if (!a->refusal)
        a->refusal = word;
}

static void apply(struct args *a, struct arg *arg, enum effect effect, const char *value,
                  const char **forced)
{
    switch (effect) {
    case PLAIN:
        break;
    case QUERY:
        a->query = true;
        break;
    case REFUSE:
        refuse(a, a->words.items[arg->at]);
        break;
    case TARGET:
        if (!starts_with(value, "x86_64"))
            refuse(a, a->words.items[arg->at]);
        break;
    case MODE_COMPILE:
        a->mode = a->mode == ARGS_ASSEMBLE ? ARGS_ASSEMBLE : ARGS_COMPILE;
        break;
    case MODE_ASSEMBLE:
        a->mode = ARGS_ASSEMBLE;
        break;
    case DEPENDS:
        a->depends = true;
        break;
    case DEP_FILE:
        a->depfile = value;
        break;
    case DEP_TARGET:
        a->dep_target = true;
        break;
    case OUTPUT:
        a->output = value;
        break;
    case LANGUAGE:
        *forced = strcmp(value, "none") == 0 ? NULL : value;
        break;
    case STANDARD:
        a->std = value;
        break;
    case ANSI:
        a->std = a->cxx ? "c++98" : "c90";
        break;
    case SHARED:
        a->shared = true;
        break;
    case STATIC:
        a->is_static = true;
        break;
    case RELOCATABLE:
        a->relocatable = true;
        break;
    case SANITIZE:
        a->sanitized = true;
        break;
    case SIDE_FILES:
        a->side_files = true;
        break;
    case BY_PRODUCTS:
        a->by_products = true;
        break;
    case PREPROCESSOR_WORD:
        /* clang treats -Wp,-MD,FILE as -MD -MF FILE; gcc passes it on and derives another
         * target. */
        if (a->clang && (starts_with(value, "-MD,") || starts_with(value, "-MMD,"))) {
            a->depends = true;
            a->depfile = value;
        }
        break;
    case CLANG_WORD:
        take_clang_words(a, arg);
        break;
    }
}

static void take_input(struct args *a, struct arg *arg, const char *forced)
{
    const char *word = a->words.items[arg->at];
    bool text = strcmp(word, "-") == 0;
    arg->lang = forced ? lang_of_name(forced) : lang_of_suffix(a, word);
    arg->forced = forced;
    if (text)
        refuse(a, "-");
    if (arg->lang == LANG_C || arg->lang == LANG_CXX) {
        arg->role = ARG_SOURCE;
        a->sources++;
        return;
    }
    arg->role = ARG_INPUT;
    a->foreign += arg->lang == LANG_ASM || arg->lang == LANG_OTHER;
}

/* Classifies the word at AT and the words that belong to it. */
static void take_arg(struct args *a, size_t at, const char **forced)
{
    struct arg *arg = &a->list[a->count++];
    const char *word = a->words.items[at];
    *arg = (struct arg){.role = ARG_FLAG, .at = at, .words = 1};
    if (word[0] != '-' || word[1] == '\0') {
        take_input(a, arg, *forced);
        return;
    }
    const struct option *o = find_option(word);
    if (!o) {
        if (word[1] == '-')
            refuse(a, word);
        return;
    }
    size_t len = strlen(o->name);
    const char *value = word + len;
    if (o->shape == SEPARATE || (o->shape == EITHER && *value == '\0')) {
        if (at + 1 >= a->words.count) {
            refuse(a, word);
            return;
        }
        arg->words = 2;
        value = a->words.items[at + 1];
    }
    arg->role = o->role;
    apply(a, arg, o->effect, value, forced);
}

enum { RESPONSE_DEPTH = 8 };

/* Like compilers, keeps a word that names no readable file unchanged. */
static void add_expanded(struct args *a, const char *word, int depth)
{
    struct buf text = {0};
    if (word[0] != '@' || depth >= RESPONSE_DEPTH || buf_read_file(&text, word + 1) != 0) {
        words_add(&a->words, word);
        buf_free(&text);
        return;
    }
    struct words inner = {0};
    words_split(&inner, text.data ? text.data : "");
    for (size_t i = 0; i < inner.count; i++)
        add_expanded(a, inner.items[i], depth + 1);
    a->words.failed |= inner.failed;
    a->expanded = true;
    words_release(&inner);
    buf_free(&text);
}

/* `cc` and `c++` are links to the real driver, whose name distinguishes gcc from clang. */
static void recognise_driver(struct args *a)
{
    const char *path = a->words.items[a->command - 1];
    char *real = realpath(path, NULL);
    a->cxx = strstr(paths_base(path), "++") != NULL;
    a->clang = strstr(paths_base(path), "clang") || (real && strstr(paths_base(real), "clang"));
    free(real);
}

int args_parse(struct args *a, int argc, char *const argv[])
{
    *a = (struct args){.mode = ARGS_LINK};
    for (int i = 0; i < argc; i++)
        add_expanded(a, argv[i], i == 0 ? RESPONSE_DEPTH : 0);
    a->list = calloc(a->words.count + 1, sizeof *a->list);
    if (a->words.failed || !a->list || a->words.count == 0)
        return -ENOMEM;
    a->command = is_launcher(argv[0]) && a->words.count > 1 && a->words.items[1][0] != '-' ? 2 : 1;
    recognise_driver(a);
    const char *forced = NULL;
    for (size_t at = a->command; at < a->words.count;) {
        take_arg(a, at, &forced);
        at += a->list[a->count - 1].words;
    }
    if (a->side_files && a->mode == ARGS_LINK)
        refuse(a, "--coverage or -gsplit-dwarf in a command that also links");
    return 0;
}

void args_release(struct args *a)
{
    words_release(&a->words);
    free(a->list);
    *a = (struct args){0};
}
