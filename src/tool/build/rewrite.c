/* Inserts the guards into a preprocessed text.
 *
 * The result is the original text with two kinds of additions. Both are inside line markers that
 * call them system headers, so that compilers never warn about them:
 *  - A prologue: the probe (common/probe.h, verbatim), a table of the chosen functions, and the
 *    constructor that registers it. It is after the first line, because compilers take the name of
 *    the source for debug information from there.
 *  - In each chosen function, after its opening brace, a variable whose initialiser enters the span
 *    and whose cleanup leaves it, on every exit that runs cleanups.
 * After a guard, a second marker restores file and line, and blanks restore the column, so that
 * messages and debug information of the user's code stay exact.
 *
 * The descriptors are one static array per unit: a C++ inline function cannot keep its own in a
 * named section (gcc: section type conflict), and the copy that the linker keeps refers to the
 * array of its own unit. */
#include "tool/build/rewrite.h"

#include <errno.h>
#include <string.h>

#include "tool/build/analyse.h"
#include "tool/build/selection.h"
#include "tool/build/tokens.h"

/* The bytes of common/probe.h, between these two symbols. */
extern const char rewrite_probe[] __attribute__((visibility("hidden")));
extern const char rewrite_probe_end[] __attribute__((visibility("hidden")));
__asm__(".pushsection .rodata\n"
        ".global rewrite_probe\n"
        ".hidden rewrite_probe\n"
        "rewrite_probe: .incbin \"common/probe.h\"\n"
        ".global rewrite_probe_end\n"
        ".hidden rewrite_probe_end\n"
        "rewrite_probe_end: .byte 0\n"
        ".popsection\n");

/* Restoring the columns of longer lines (one line of a macro may contain thousands of functions)
 * would cost too much. */
enum { MAX_COLUMN = 1000 };

static void put_table(struct buf *out, const struct rewrite_source *s)
{
    size_t count = 0;
    for (size_t i = 0; i < s->functions->count; i++)
        count += s->functions->fns[i].chosen;
    buf_printf(out, "static struct __piano_fn __piano_fns[%zu] = {\n", count);
    for (size_t i = 0; i < s->functions->count; i++) {
        const struct analyse_fn *fn = &s->functions->fns[i];
        if (!fn->chosen)
            continue;
        bool frame = selection_is_frame(s->selection, fn->bare, fn->qualified);
        buf_putc(out, '{');
        buf_put_c_literal(out, fn->qualified);
        buf_putc(out, ',');
        buf_put_c_literal(out, fn->file);
        buf_printf(out, ",%uu,%du},\n", fn->line, frame);
    }
    buf_puts(out, "};\n");
    buf_printf(out, "static unsigned __piano_at[%zu];\n", count);
    buf_printf(
        out,
        "static struct __piano_unit __piano_u = { __piano_abi, %zuu, __piano_fns, __piano_at, ",
        count);
    buf_put_c_literal(out, s->selection->runs ? s->selection->runs : "");
    buf_puts(out, ", ");
    buf_put_c_literal(out, s->selection->frame ? s->selection->frame : "");
    buf_puts(out, " };\n");
}

static void put_prologue(struct buf *out, const struct rewrite_source *s)
{
    buf_puts(out, "# 1 \"<piano>\" 3\n");
    buf_puts(out, s->cxx ? "extern \"C\" {\n" : "");
    buf_put(out, rewrite_probe, (size_t)(rewrite_probe_end - rewrite_probe));
    put_table(out, s);
    buf_puts(out, "static void __attribute__((constructor(101), used)) __piano_ctor(void)"
                  " { __piano_register(&__piano_u); }\n"
                  "static void __attribute__((destructor(101), used)) __piano_dtor(void)"
                  " { __piano_unregister(&__piano_u); }\n");
    buf_puts(out, s->cxx ? "}\n" : "");
}

static size_t line_length(const char *text, size_t len)
{
    const char *nl = memchr(text, '\n', len);
    return nl ? (size_t)(nl - text) + 1 : len;
}

/* How much of the text stays before the prologue: its first line, if that is a marker, and gcc's
 * marker of the working directory (`# 1 "/dir//"`). */
static size_t head_length(const char *text, size_t len)
{
    if (len == 0 || text[0] != '#')
        return 0;
    size_t first = line_length(text, len);
    size_t second = line_length(text + first, len - first);
    const char *end = text + first + second;
    return second > 5 && text[first] == '#' && memcmp(end - 4, "//\"\n", 4) == 0 ? first + second
                                                                                 : first;
}

static void put_marker(struct buf *out, const struct analyse_fn *fn, unsigned line, bool system)
{
    buf_printf(out, "# %u ", line);
    buf_put_c_literal(out, fn->marker);
    buf_puts(out, system ? " 3\n" : "\n");
}

/* Writes blanks up to the column of AT, and tabs where the line has tabs. */
static void put_padding(struct buf *out, const char *text, size_t at)
{
    const char *nl = at > 0 ? memrchr(text, '\n', at) : NULL;
    size_t from = nl ? (size_t)(nl - text) + 1 : 0;
    if (at - from > MAX_COLUMN)
        return;
    for (size_t i = from; i < at; i++)
        buf_putc(out, text[i] == '\t' ? '\t' : ' ');
}

/* Number of newlines in TEXT: local label declarations may take several lines. */
static unsigned count_lines(const char *text, size_t len)
{
    unsigned lines = 0;
    for (size_t i = 0; i < len; i++)
        lines += text[i] == '\n';
    return lines;
}

static void put_guard(struct buf *out, const struct rewrite_source *s, const struct analyse_fn *fn,
                      size_t index, size_t at)
{
    unsigned line = fn->brace_line + count_lines(s->text + fn->brace, at - fn->brace);
    buf_putc(out, '\n');
    put_marker(out, fn, line, true);
    buf_printf(out,
               " __extension__ void *__piano_g%zu __attribute__((cleanup(__piano_leave), unused))"
               " = __piano_begin(&__piano_at[%zu]);\n",
               index, index);
    put_marker(out, fn, line, false);
    put_padding(out, s->text, at);
}

/* Copies the text up to END and wraps each setjmp in it, so that the function notices a longjmp
 * into it. */
static void put_body(struct buf *out, const struct rewrite_source *s, size_t index, size_t from,
                     size_t end)
{
    size_t start = from, behind;
    while (tokens_find_setjmp(s->text, end, &start, &behind)) {
        buf_put(out, s->text + from, start - from);
        buf_printf(out, "__piano_landed(__piano_g%zu, &__piano_at[%zu], ", index, index);
        buf_put(out, s->text + start, behind - start);
        buf_putc(out, ')');
        from = start = behind;
    }
    buf_put(out, s->text + from, end - from);
}

int rewrite_run(struct buf *out, const struct rewrite_source *s)
{
    size_t done = head_length(s->text, s->len);
    size_t index = 0;
    buf_put(out, s->text, done);
    put_prologue(out, s);
    for (size_t i = 0; i < s->functions->count; i++) {
        const struct analyse_fn *fn = &s->functions->fns[i];
        if (!fn->chosen)
            continue;
        size_t at = fn->brace + tokens_first_place(s->text + fn->brace, s->len - fn->brace);
        buf_put(out, s->text + done, at - done);
        put_guard(out, s, fn, index, at);
        size_t end = i + 1 < s->functions->count && s->functions->fns[i + 1].brace < fn->end
                         ? at /* another body is inside this one */
                         : fn->end;
        put_body(out, s, index++, at, end);
        done = end;
    }
    buf_put(out, s->text + done, s->len - done);
    return out->failed ? -ENOMEM : 0;
}
