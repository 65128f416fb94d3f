/* Chooses among several programs.
 *
 * The wrapper records every link. A program counts if the file contains the name of the runtime's
 * entry point, that is, if it contains instrumented code, or if it names a shared library that
 * does. libtool links to X/.libs/NAME and creates a script X/NAME that sets the library path; then
 * the user would run the script.
 *
 * Of several programs, four rules in turn keep those that fit best:
 *   asked    they have most of what --fn, --file and --dir ask for
 *   target   their name is a word of the build command: make redis-server, cc -o game
 *   project  they have the name of the project's directory, without its version
 *   main     they are not tests, benchmarks or examples, by their name or directory
 * If several are left, no program is started on a guess: the user is asked (choice_ask.c), and the
 * answer is remembered (choice_memory.c). */
#include "tool/build/choice.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "tool/build/selection.h"
#include "tool/util/buf.h"
#include "tool/util/file.h"
#include "tool/util/paths.h"
#include "tool/util/say.h"
#include "tool/util/vec.h"

/* Maximum number of functions to look for in a program, for each requested item. */
enum { MAX_LOOKED_FOR = 16 };

static bool image_holds(const struct file_map *i, const char *bytes, size_t len)
{
    return i->data && memmem(i->data, i->len, bytes, len);
}

static bool file_holds(const char *path, const char *word)
{
    struct file_map i;
    bool found = file_map(&i, path) == 0 && image_holds(&i, word, strlen(word));
    file_unmap(&i);
    return found;
}

/* --- the programs ----------------------------------------------------------------------------- */

static char *libtool_script(const char *output)
{
    const char *libs = strstr(output, "/.libs/");
    if (!libs || strchr(libs + 7, '/'))
        return NULL;
    const char *name = libs + 7;
    if (strncmp(name, "lt-", 3) == 0)
        name += 3;
    struct buf path = {0};
    buf_put(&path, output, (size_t)(libs - output) + 1);
    buf_puts(&path, name);
    if (!path.failed && access(path.data, X_OK) == 0 && file_holds(path.data, "libtool"))
        return path.data;
    buf_free(&path);
    return NULL;
}

static void add(struct choice_list *l, const char *output)
{
    char *script = libtool_script(output);
    char *path = script ? script : strdup(output);
    bool is_known = false;
    for (size_t i = 0; i < l->count && path; i++)
        is_known |= strcmp(l->items[i].path, path) == 0;
    if (!path || is_known || VEC_DOUBLE(l->items, l->count) != 0) {
        free(path);
        return;
    }
    l->items[l->count++] = (struct choice){path, output, 0};
}

/* Compares only the part up to `.so`, because programs name a library by its soname. */
bool choice_uses_library(const char *program, const char *output)
{
    char stem[NAME_MAX + 1];
    const char *name = paths_base(output);
    const char *so = strstr(name, ".so");
    size_t len = so ? (size_t)(so - name) + 3 : strlen(name);
    snprintf(stem, sizeof stem, "%.*s", (int)len, name);
    return stem[0] && file_holds(program, stem);
}

static bool is_instrumented(const struct records *r, const char *program)
{
    if (file_holds(program, "__piano_register"))
        return true;
    for (size_t i = 0; i < r->link_count; i++) {
        const char *output = r->links[i].output;
        if (r->links[i].shared && choice_uses_library(program, output) &&
            file_holds(output, "__piano_register"))
            return true;
    }
    return false;
}

/* --- asked: the items of --fn, --file and --dir ----------------------------------------------- */

/* Is the name of FN in one of the IMAGES, as a whole string or at the end of one? Linkers merge
 * strings with equal ends. */
static bool is_in(const struct file_map *images, size_t count, const char *fn)
{
    for (size_t i = 0; i < count; i++) {
        if (image_holds(&images[i], fn, strlen(fn) + 1))
            return true;
    }
    return false;
}

/* Is a function that ONE chooses among the instrumented functions in IMAGES? */
static bool has_asked(const struct selection *one, const struct records *r,
                      const struct file_map *images, size_t count)
{
    size_t looked = 0;
    for (size_t i = 0; i < r->unit_count; i++) {
        const struct record_unit *u = &r->units[i];
        for (size_t k = 0; k < u->fn_count && looked < MAX_LOOKED_FOR; k++) {
            const struct record_fn *fn = &u->fns[k];
            if (fn->status != RECORD_INSTRUMENTED ||
                !selection_wants(one, records_bare_name(fn->name), fn->name, fn->file))
                continue;
            looked++;
            if (is_in(images, count, fn->name))
                return true;
        }
    }
    return false;
}

/* How many of the items of ALL are in the program in IMAGES? */
static int count_asked(const struct selection *all, const struct records *r,
                       const struct file_map *images, size_t count)
{
    int found = 0;
    const struct selection_list *lists[] = {&all->fns, &all->files, &all->dirs};
    for (size_t l = 0; l < 3; l++) {
        for (size_t i = 0; i < lists[l]->count; i++) {
            const struct selection_list single = {&lists[l]->items[i], 1};
            struct selection one = {
                .root = all->root, .mirror = all->mirror, .exact = all->exact && l == 0};
            *(l == 0 ? &one.fns : l == 1 ? &one.files : &one.dirs) = single;
            found += has_asked(&one, r, images, count);
        }
    }
    return found;
}

/* Maps PROGRAM and the shared libraries of the build that it uses. */
static struct file_map *open_images(const struct records *r, const char *program, size_t *count)
{
    struct file_map *images = calloc(r->link_count + 1, sizeof *images);
    *count = 0;
    if (!images)
        return NULL;
    (void)file_map(&images[(*count)++], program);
    for (size_t i = 0; i < r->link_count; i++) {
        if (r->links[i].shared && choice_uses_library(program, r->links[i].output))
            (void)file_map(&images[(*count)++], r->links[i].output);
    }
    return images;
}

static void score_asked(struct choice_list *l, const struct records *r, const struct selection *s)
{
    for (size_t i = 0; i < l->meant; i++) {
        size_t count = 0;
        struct file_map *images = open_images(r, l->items[i].output, &count);
        l->items[i].score = images ? count_asked(s, r, images, count) : 0;
        for (size_t k = 0; images && k < count; k++)
            file_unmap(&images[k]);
        free(images);
    }
}

/* --- target, project, main: names ------------------------------------------------------------- */

/* Is NAME the program that WORD of a build command means? Cargo adds a hash to the name of a test. */
static bool is_target(const char *name, const char *word)
{
    size_t len = strlen(word);
    if (strncmp(name, word, len) != 0)
        return false;
    const char *rest = name + len;
    bool is_hashed =
        rest[0] == '-' && strlen(rest + 1) == 16 && strspn(rest + 1, "0123456789abcdef") == 16;
    return *rest == '\0' || is_hashed;
}

/* STATE/command holds the words of the build command, each ended by NUL. */
static void score_target(struct choice_list *l, const char *state)
{
    struct buf text = {0};
    char *path = paths_join(state, "command");
    int err = path ? buf_read_own_file(&text, path) : -ENOMEM;
    for (size_t i = 0; i < l->meant; i++) {
        const char *name = paths_base(l->items[i].path);
        l->items[i].score = 0;
        for (size_t at = 0; err == 0 && at < text.len; at += strlen(text.data + at) + 1)
            l->items[i].score |= is_target(name, paths_base(text.data + at));
    }
    buf_free(&text);
    free(path);
}

/* The length of NAME without a version or branch: "game-1.2.3", "game_v2", "game-main". */
static size_t bare_length(const char *name)
{
    static const char *const branches[] = {"main", "master", "trunk", "src"};
    size_t len = strlen(name);
    for (size_t i = 1; i < len; i++) {
        if (name[i] != '-' && name[i] != '_')
            continue;
        const char *rest = name + i + 1;
        if (isdigit((unsigned char)rest[rest[0] == 'v']))
            return i;
        for (size_t k = 0; k < sizeof branches / sizeof branches[0]; k++) {
            if (strcmp(rest, branches[k]) == 0)
                return i;
        }
    }
    return len;
}

static void score_project(struct choice_list *l, const char *root)
{
    char copy[PATH_MAX];
    snprintf(copy, sizeof copy, "%s", root ? root : "");
    char *name = strrchr(copy, '/');
    while (name && (strcmp(name, "/src") == 0 || strcmp(name, "/source") == 0)) {
        *name = '\0';
        name = strrchr(copy, '/');
    }
    size_t len = name ? bare_length(name + 1) : 0;
    for (size_t i = 0; i < l->meant; i++) {
        const char *program = paths_base(l->items[i].path);
        l->items[i].score =
            len > 0 && strlen(program) == len && strncasecmp(program, name + 1, len) == 0;
    }
}

/* Does the word of LEN letters at TEXT mark a test, benchmark or example? */
static bool is_side_word(const char *text, size_t len)
{
    static const char *const words[] = {"test",    "tests",    "bench",  "benchmark", "benchmarks",
                                        "example", "examples", "sample", "samples",   "fuzz",
                                        "fuzzer",  "fuzzing",  "unit",   "CMakeFiles"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strlen(words[i]) == len && strncasecmp(text, words[i], len) == 0)
            return true;
    }
    return false;
}

/* Is PATH, relative to the tree, a test, a benchmark or an example? One of its words says so. */
static bool is_side_program(const char *path)
{
    while (*path) {
        size_t len = strcspn(path, "/-_.");
        if (is_side_word(path, len))
            return true;
        path += len;
        path += *path != '\0';
    }
    return false;
}

const char *choice_below(const struct choice_list *l, const char *path)
{
    size_t len = l->mirror ? strlen(l->mirror) : 0;
    bool below = len > 0 && strncmp(path, l->mirror, len) == 0 && path[len] == '/';
    return below ? path + len + 1 : NULL;
}

static const char *below_tree(const struct choice_list *l, const char *path)
{
    const char *below = choice_below(l, path);
    return below ? below : paths_base(path);
}

static void score_main(struct choice_list *l)
{
    for (size_t i = 0; i < l->meant; i++)
        l->items[i].score = !is_side_program(below_tree(l, l->items[i].path));
}

/* --- applying the rules ----------------------------------------------------------------------- */

/* Moves the programs with the highest score to the front, in their order, and keeps only those in
 * `meant`. */
static void keep_best(struct choice_list *l)
{
    struct choice *sorted = calloc(l->meant + 1, sizeof *sorted);
    int best = INT_MIN;
    size_t left = 0;
    size_t at = 0;
    if (!sorted)
        return;
    for (size_t i = 0; i < l->meant; i++)
        best = l->items[i].score > best ? l->items[i].score : best;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < l->meant; i++) {
            if ((l->items[i].score == best) == (pass == 0))
                sorted[at++] = l->items[i];
        }
        left = pass == 0 ? at : left;
    }
    memcpy(l->items, sorted, l->meant * sizeof *sorted);
    l->meant = left;
    free(sorted);
}

static void narrow(struct choice_list *l, const struct records *r, const struct selection *s,
                   const char *state)
{
    score_asked(l, r, s);
    keep_best(l);
    score_target(l, state);
    keep_best(l);
    score_project(l, s->root);
    keep_best(l);
    score_main(l);
    keep_best(l);
}

void choice_load(struct choice_list *l, const struct records *r, const char *state)
{
    struct selection s = {0};
    *l = (struct choice_list){0};
    for (size_t i = 0; i < r->link_count; i++) {
        if (!r->links[i].shared && is_instrumented(r, r->links[i].output))
            add(l, r->links[i].output);
    }
    /* Fallback: stripped static programs, or programs that load all instrumented code at run
     * time. */
    for (size_t i = 0; l->count == 0 && i < r->link_count; i++) {
        if (!r->links[i].shared)
            add(l, r->links[i].output);
    }
    l->meant = l->count;
    char *path = paths_join(state, "selection");
    if (path && selection_load(&s, path) == 0) {
        l->mirror = s.mirror ? strdup(s.mirror) : NULL;
        if (l->count > 1)
            narrow(l, r, &s, state);
    }
    l->fit = l->meant;
    choice_recall(l, state);
    selection_release(&s);
    free(path);
}

void choice_release(struct choice_list *l)
{
    for (size_t i = 0; i < l->count; i++)
        free(l->items[i].path);
    free(l->items);
    free(l->mirror);
    *l = (struct choice_list){0};
}

const char *choice_name(char *text, size_t size, const struct choice_list *l, const char *path)
{
    return say_safe(text, size, below_tree(l, path));
}
