/* Finds the function bodies in a preprocessed text, with libclang.
 *
 * The text is the output of the user's own compiler. libclang only has to read it, not compile it:
 * gcc's builtins and attributes cause errors from which libclang recovers. We walk the
 * declarations: into namespaces and classes, never into bodies or system headers. For each
 * definition we take names, place and the offset of the opening brace, and search the tokens for
 * anything that forbids a guard. libclang's presumed locations follow the line markers in the text;
 * offsets are plain offsets in the text.
 *
 * These checks keep a mistake from producing a wrong program: the byte at the offset must be a
 * brace. If libclang met an error inside a function, our own count of braces must agree with its
 * end of the body. Finally the result is compiled, with the untouched source as the fallback.
 *
 * The wrapper calls this once per unit. libclang catches its own crashes and reports them. */
#include "tool/build/analyse.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/build/libclang.h"
#include "tool/build/place.h"
#include "tool/build/standard.h"
#include "tool/build/tokens.h"
#include "tool/util/buf.h"
#include "tool/util/vec.h"

static const struct libclang *clang;

struct walk {
    struct analyse *out;
    const struct analyse_source *source;
    size_t cap;
    CXFile file;
    size_t *errors; /* offsets of errors in the project's code */
    size_t error_count;
    char *seen_name; /* file name of the last marker, and its `place_of` */
    char *seen_file;
    bool failed; /* out of memory */
};

static char *copy_and_dispose(CXString s)
{
    const char *c = clang->getCString(s);
    char *copy = strdup(c ? c : "");
    clang->disposeString(s);
    return copy;
}

static size_t offset_of(CXSourceLocation where)
{
    unsigned offset = 0;
    clang->getSpellingLocation(where, NULL, NULL, NULL, &offset);
    return offset;
}

/* `Box<T>` -> `Box`: constructors of class templates carry the arguments in their name. */
static void cut_template_args(char *name)
{
    char *angle = strncmp(name, "operator", 8) == 0 ? NULL : strchr(name, '<');
    if (angle && angle != name)
        *angle = '\0';
}

static bool names_a_scope(enum CXCursorKind kind)
{
    return kind == CXCursor_Namespace || kind == CXCursor_ClassDecl ||
           kind == CXCursor_StructDecl || kind == CXCursor_UnionDecl ||
           kind == CXCursor_ClassTemplate || kind == CXCursor_ClassTemplatePartialSpecialization;
}

static void put_scopes(struct buf *out, CXCursor at, int depth)
{
    CXCursor parent = clang->getCursorSemanticParent(at);
    enum CXCursorKind kind = clang->getCursorKind(parent);
    if (depth > 64 || clang->Cursor_isNull(parent) || clang->isInvalid(kind) ||
        kind == CXCursor_TranslationUnit)
        return;
    put_scopes(out, parent, depth + 1);
    if (!names_a_scope(kind))
        return;
    char *name = copy_and_dispose(clang->getCursorSpelling(parent));
    if (name && *name && !strchr(name, '(')) {
        cut_template_args(name);
        buf_printf(out, "%s::", name);
    }
    free(name);
}

/* The file that a marker names, resolved. Cached, because neighbouring functions usually share
 * it. */
static const char *file_of_marker(struct walk *w, const char *marker)
{
    if (w->seen_name && strcmp(w->seen_name, marker) == 0)
        return w->seen_file;
    free(w->seen_name);
    free(w->seen_file);
    w->seen_name = strdup(marker);
    w->seen_file = place_of(w->source->place, marker);
    if (!w->seen_name || !w->seen_file)
        w->failed = true;
    return w->seen_file;
}

/* The body is the last statement below a function. The body of a coroutine has its own kind, which
 * libclang calls unexposed. */
static enum CXChildVisitResult keep_body(CXCursor c, CXCursor parent, CXClientData data)
{
    (void)parent;
    enum CXCursorKind kind = clang->getCursorKind(c);
    if (kind == CXCursor_CompoundStmt || kind == CXCursor_CXXTryStmt ||
        kind == CXCursor_UnexposedStmt)
        *(CXCursor *)data = c;
    return CXChildVisit_Continue;
}

static bool has_error_inside(const struct walk *w, size_t from, size_t to)
{
    for (size_t i = 0; i < w->error_count; i++) {
        if (w->errors[i] >= from && w->errors[i] < to)
            return true;
    }
    return false;
}

static bool defines_allocation(const char *bare)
{
    static const char *const names[] = {"malloc",         "free",          "calloc",
                                        "realloc",        "reallocarray",  "memalign",
                                        "posix_memalign", "aligned_alloc", "valloc",
                                        "pvalloc",        "cfree",         "malloc_usable_size"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(bare, names[i]) == 0)
            return true;
    }
    return strncmp(bare, "operator new", 12) == 0 || strncmp(bare, "operator delete", 15) == 0;
}

static const char *why_skip(const struct walk *w, const struct analyse_fn *fn, size_t start,
                            enum CXCursorKind body)
{
    const struct analyse_source *s = w->source;
    if (body == CXCursor_CXXTryStmt)
        return "its body is a try block";
    if (body == CXCursor_UnexposedStmt)
        return "coroutine";
    if (fn->brace >= s->len || s->text[fn->brace] != '{' || fn->end > s->len)
        return "its body was not found in the preprocessed text";
    if (defines_allocation(fn->bare))
        return "it is part of the program's allocator";
    const char *forbidden = tokens_forbid_head(s->text + start, fn->brace - start);
    if (!forbidden)
        forbidden = tokens_forbid_body(s->text + fn->brace, fn->end - fn->brace, s->cxx);
    if (forbidden)
        return forbidden;
    if (has_error_inside(w, start, fn->end) &&
        tokens_match_brace(s->text + fn->brace, s->len - fn->brace) != fn->end - fn->brace)
        return "libclang could not read it";
    return NULL;
}

static void fill_names(struct walk *w, struct analyse_fn *fn, CXCursor c)
{
    struct buf qualified = {0};
    fn->bare = copy_and_dispose(clang->getCursorSpelling(c));
    if (fn->bare)
        cut_template_args(fn->bare);
    if (w->source->cxx)
        put_scopes(&qualified, c, 0);
    buf_puts(&qualified, fn->bare ? fn->bare : "");
    fn->qualified = qualified.data;
    w->failed |= qualified.failed || !fn->bare;
}

static void fill_brace(struct walk *w, struct analyse_fn *fn, CXCursor body)
{
    CXSourceRange extent = clang->getCursorExtent(body);
    CXSourceLocation open = clang->getRangeStart(extent);
    CXString marker;
    unsigned column;
    fn->brace = offset_of(open);
    fn->end = offset_of(clang->getRangeEnd(extent));
    clang->getPresumedLocation(open, &marker, &fn->brace_line, &column);
    fn->marker = copy_and_dispose(marker);
    w->failed |= !fn->marker;
}

static void release_fn(struct analyse_fn *fn)
{
    free(fn->bare);
    free(fn->qualified);
    free(fn->file);
    free(fn->marker);
}

static void keep_fn(struct walk *w, struct analyse_fn *fn)
{
    struct analyse *a = w->out;
    if (VEC_ROOM(a->fns, a->count, w->cap) != 0) {
        w->failed = true;
        release_fn(fn);
        return;
    }
    a->fns[a->count++] = *fn;
}

/* Moves START before any `[[...]]` in front of it. */
static size_t before_attributes(const char *text, size_t start)
{
    for (size_t at = start;; start = at) {
        while (at > 0 && isspace((unsigned char)text[at - 1]))
            at--;
        if (at < 4 || text[at - 1] != ']' || text[at - 2] != ']')
            return start;
        for (at -= 2; at > 2 && (text[at - 1] != '[' || text[at - 2] != '[');)
            at--;
        at -= 2;
    }
}

/* Where the declaration begins. libclang does not know this for templates with `auto` parameters:
 * there we go back to the end of the preceding declaration. */
static size_t head_start(const struct walk *w, CXCursor c, size_t brace)
{
    const char *text = w->source->text;
    size_t start = offset_of(clang->getRangeStart(clang->getCursorExtent(c)));
    size_t name = offset_of(clang->getCursorLocation(c));
    if (start == 0 && name < w->source->len)
        for (start = name; start > 0 && !strchr(";{}", text[start - 1]);)
            start--;
    return start < brace ? before_attributes(text, start) : brace;
}

static void visit_function(struct walk *w, CXCursor c)
{
    CXCursor body = clang->getNullCursor();
    if (!clang->isCursorDefinition(c) || clang->CXXMethod_isDefaulted(c))
        return;
    CXString name;
    struct analyse_fn fn = {0};
    clang->getPresumedLocation(clang->getCursorLocation(c), &name, &fn.line, NULL);
    char *marker = copy_and_dispose(name);
    const char *file = marker ? file_of_marker(w, marker) : NULL;
    free(marker);
    if (!file || !place_is_own(w->source->place, file))
        return;
    clang->visitChildren(c, keep_body, &body);
    if (clang->Cursor_isNull(body))
        return; /* defaulted or deleted */
    fn.file = strdup(file);
    fill_names(w, &fn, c);
    fill_brace(w, &fn, body);
    if (w->failed || !fn.file) {
        w->failed = true;
        release_fn(&fn);
        return;
    }
    fn.skip = why_skip(w, &fn, head_start(w, c, fn.brace), clang->getCursorKind(body));
    keep_fn(w, &fn);
}

static enum CXChildVisitResult visit_decl(CXCursor c, CXCursor parent, CXClientData data)
{
    struct walk *w = data;
    (void)parent;
    if (w->failed)
        return CXChildVisit_Break;
    switch (clang->getCursorKind(c)) {
    case CXCursor_FunctionDecl:
    case CXCursor_CXXMethod:
    case CXCursor_Constructor:
    case CXCursor_Destructor:
    case CXCursor_ConversionFunction:
    case CXCursor_FunctionTemplate:
        if (!clang->Location_isInSystemHeader(clang->getCursorLocation(c)))
            visit_function(w, c);
        return CXChildVisit_Continue;
    case CXCursor_Namespace:
    case CXCursor_LinkageSpec:
    case CXCursor_ClassDecl:
    case CXCursor_StructDecl:
    case CXCursor_UnionDecl:
    case CXCursor_ClassTemplate:
    case CXCursor_ClassTemplatePartialSpecialization:
    case CXCursor_FriendDecl:
    case CXCursor_UnexposedDecl: /* extern "C" { } in older libclangs */
        if (!w->source->cxx || clang->Location_isInSystemHeader(clang->getCursorLocation(c)))
            return CXChildVisit_Continue;
        return CXChildVisit_Recurse;
    default:
        return CXChildVisit_Continue;
    }
}

/* "file:line: what", by the line markers. */
static char *describe(CXDiagnostic d)
{
    CXString file;
    unsigned line = 0;
    struct buf out = {0};
    clang->getPresumedLocation(clang->getDiagnosticLocation(d), &file, &line, NULL);
    CXString what = clang->getDiagnosticSpelling(d);
    const char *name = clang->getCString(file);
    const char *text = clang->getCString(what);
    buf_printf(&out, "%s:%u: %s", name ? name : "", line, text ? text : "");
    clang->disposeString(file);
    clang->disposeString(what);
    return out.data;
}

/* An error in the project's own text. System headers of gcc contain much that libclang cannot read,
 * and this does not matter. */
static bool is_own_error(CXDiagnostic d)
{
    return clang->getDiagnosticSeverity(d) >= CXDiagnostic_Error &&
           !clang->Location_isInSystemHeader(clang->getDiagnosticLocation(d));
}

static void note_errors(struct walk *w, CXTranslationUnit tu)
{
    unsigned count = clang->getNumDiagnostics(tu);
    w->errors = calloc(count + 1, sizeof *w->errors);
    w->failed |= !w->errors;
    for (unsigned i = 0; i < count && w->errors; i++) {
        CXDiagnostic d = clang->getDiagnostic(tu, i);
        if (is_own_error(d))
            w->errors[w->error_count++] = offset_of(clang->getDiagnosticLocation(d));
        clang->disposeDiagnostic(d);
    }
}

static bool is_in_function(const struct analyse *a, size_t offset)
{
    for (size_t i = 0; i < a->count; i++) {
        if (offset >= a->fns[i].brace && offset < a->fns[i].end)
            return true;
    }
    return false;
}

/* After an error outside all known bodies, libclang may have missed a function. */
static void note_stray_error(struct walk *w, CXTranslationUnit tu)
{
    unsigned count = w->error_count ? clang->getNumDiagnostics(tu) : 0;
    for (unsigned i = 0; i < count && !w->out->first_error; i++) {
        CXDiagnostic d = clang->getDiagnostic(tu, i);
        if (is_own_error(d) && !is_in_function(w->out, offset_of(clang->getDiagnosticLocation(d))))
            w->out->first_error = describe(d);
        clang->disposeDiagnostic(d);
    }
}

static int parse_as(const struct analyse_source *s, const char *as, CXIndex index,
                    CXTranslationUnit *tu)
{
    struct buf std = {0};
    buf_printf(&std, "-std=%s", as);
    if (std.failed)
        return -ENOMEM;
    const char *args[] = {"-x",
                          s->cxx ? "c++-cpp-output" : "cpp-output",
                          std.data,
                          "-w",
                          "-ferror-limit=0",
                          "-fno-spell-checking",
                          "-fgnu-keywords",
                          "-fms-extensions",
                          "-fno-delayed-template-parsing",
                          "-fbracket-depth=100000",
                          "-ftemplate-depth=4096",
                          "-Wno-error",
                          "-Wno-dynamic-exception-spec",
                          "-Wno-register",
                          "-Wno-c++11-narrowing",
                          "-Wno-reserved-user-defined-literal"};
    const char *name = s->cxx ? "/unit.ii" : "/unit.i";
    struct CXUnsavedFile file = {name, s->text, s->len};
    enum CXErrorCode code = clang->parseTranslationUnit2(
        index, name, args, sizeof args / sizeof args[0], &file, 1, CXTranslationUnit_KeepGoing, tu);
    buf_free(&std);
    return code == CXError_Success ? 0 : -EIO;
}

static size_t count_own_errors(CXTranslationUnit tu)
{
    size_t errors = 0;
    for (unsigned i = 0, count = clang->getNumDiagnostics(tu); i < count; i++) {
        CXDiagnostic d = clang->getDiagnostic(tu, i);
        errors += is_own_error(d);
        clang->disposeDiagnostic(d);
    }
    return errors;
}

/* The text does not say which standard the compiler used by default. So the errors decide: a second
 * parse with the newer standard is used if it has fewer. */
static int parse(const struct analyse_source *s, CXIndex index, CXTranslationUnit *tu)
{
    CXTranslationUnit newer = NULL;
    if (s->std)
        return parse_as(s, standard_name(s->std), index, tu);
    int err = parse_as(s, standard_default(s->cxx, s->clang, false), index, tu);
    size_t errors = err == 0 ? count_own_errors(*tu) : 0;
    if (errors == 0 || parse_as(s, standard_default(s->cxx, s->clang, true), index, &newer) != 0)
        return err;
    CXTranslationUnit other = *tu;
    if (count_own_errors(newer) < errors)
        *tu = newer;
    else
        other = newer;
    clang->disposeTranslationUnit(other);
    return 0;
}

static int by_brace(const void *a, const void *b)
{
    const struct analyse_fn *left = a, *right = b;
    return left->brace < right->brace ? -1 : left->brace > right->brace;
}

/* Sorts by offset and removes duplicates: one body must not get two guards. */
static void put_in_order(struct analyse *a)
{
    size_t kept = 0;
    if (a->count > 1)
        qsort(a->fns, a->count, sizeof *a->fns, by_brace);
    for (size_t i = 0; i < a->count; i++) {
        if (kept > 0 && a->fns[kept - 1].brace == a->fns[i].brace)
            release_fn(&a->fns[i]);
        else
            a->fns[kept++] = a->fns[i];
    }
    a->count = kept;
}

/* The resolver of an ifunc, and everything it calls, runs while the program is still being
 * relocated: there is no thread-local storage yet, and the runtime may not be loaded. */
static void skip_early(struct analyse *a, const struct analyse_source *s)
{
    a->uses_ifunc = tokens_uses_ifunc(s->text, s->len);
    for (size_t i = 0; a->uses_ifunc && i < a->count; i++) {
        if (!a->fns[i].skip)
            a->fns[i].skip = "its file uses ifunc";
    }
}

int analyse_run(struct analyse *a, const struct analyse_source *source)
{
    struct walk w = {.out = a, .source = source};
    CXTranslationUnit tu = NULL;
    *a = (struct analyse){0};
    clang = libclang();
    if (!clang)
        return -ENOENT;
    CXIndex index = clang->createIndex(0, 0);
    int err = index ? parse(source, index, &tu) : -ENOMEM;
    if (err == 0) {
        note_errors(&w, tu);
        clang->visitChildren(clang->getTranslationUnitCursor(tu), visit_decl, &w);
        put_in_order(a);
        skip_early(a, source);
        note_stray_error(&w, tu);
        clang->disposeTranslationUnit(tu);
    }
    if (index)
        clang->disposeIndex(index);
    free(w.errors);
    free(w.seen_name);
    free(w.seen_file);
    return err ? err : w.failed ? -ENOMEM : 0;
}

void analyse_release(struct analyse *a)
{
    for (size_t i = 0; i < a->count; i++)
        release_fn(&a->fns[i]);
    free(a->fns);
    free(a->first_error);
    *a = (struct analyse){0};
}
