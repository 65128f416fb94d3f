/* Rust's "v0" mangling, a recursive-descent parser: a name is a path, whose parts are paths, types
 * and constants. A part may be a back-reference to an earlier position in the name ("B"), so a
 * hostile name can expand without limit. Depth, steps and length are therefore limited; a name
 * beyond these limits is not demangled.
 *
 * The output is as a programmer would write it, without hashes and types of constants. A name with
 * an unknown construct is not demangled. */
#include "tool/symbol/rust.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "tool/symbol/rust_name.h"

static void path(struct rust_name *n, bool in_value);
static void type(struct rust_name *n);
static void constant(struct rust_name *n);

/* ---- paths ---- */

static void generic_argument(struct rust_name *n)
{
    if (rust_eat(n, 'L'))
        rust_put_lifetime(n, rust_base62(n));
    else if (rust_eat(n, 'K'))
        constant(n);
    else
        type(n);
}

/* Reads items up to the "E". */
static void list(struct rust_name *n, void (*each)(struct rust_name *), const char *between)
{
    for (bool first = true; !n->failed && !rust_eat(n, 'E'); first = false) {
        rust_put(n, first ? "" : between);
        each(n);
    }
}

/* Reads the path of the impl block without printing it: the type it implements says more. */
static void skip_impl_path(struct rust_name *n)
{
    rust_tagged(n, 's');
    n->silent++;
    path(n, false);
    n->silent--;
}

static void nested(struct rust_name *n, bool in_value)
{
    char space = rust_next(n);
    path(n, in_value);
    uint64_t number = rust_tagged(n, 's');
    struct rust_identifier id = rust_identifier(n);
    if (isupper((unsigned char)space)) {
        const char other[] = {space, '\0'};
        rust_put(n, "::{");
        rust_put(n, space == 'C' ? "closure" : space == 'S' ? "shim" : other);
        rust_put(n, id.len ? ":" : "");
        rust_put_identifier(n, &id);
        rust_put(n, "#");
        rust_put_number(n, number);
        rust_put(n, "}");
    } else if (!islower((unsigned char)space)) {
        n->failed = true;
    } else if (id.len) {
        rust_put(n, "::");
        rust_put_identifier(n, &id);
    }
}

static void qualified(struct rust_name *n, char tag)
{
    if (tag != 'Y')
        skip_impl_path(n);
    rust_put(n, "<");
    type(n);
    if (tag != 'M') {
        rust_put(n, " as ");
        path(n, false);
    }
    rust_put(n, ">");
}

static void path(struct rust_name *n, bool in_value)
{
    size_t back;
    if (!rust_enter(n)) {
        rust_leave(n);
        return;
    }
    char tag = rust_next(n);
    if (tag == 'C') {
        rust_tagged(n, 's');
        struct rust_identifier id = rust_identifier(n);
        rust_put_identifier(n, &id);
    } else if (tag == 'N') {
        nested(n, in_value);
    } else if (tag == 'M' || tag == 'X' || tag == 'Y') {
        qualified(n, tag);
    } else if (tag == 'I') {
        path(n, in_value);
        rust_put(n, in_value ? "::<" : "<");
        list(n, generic_argument, ", ");
        rust_put(n, ">");
    } else if (tag == 'B' && rust_jump(n, &back)) {
        path(n, in_value);
        n->at = back;
    } else {
        n->failed = true;
    }
    rust_leave(n);
}

/* Prints a path but leaves its argument list open. Returns true if it has one; the caller then
 * prints the ">". */
static bool path_left_open(struct rust_name *n)
{
    bool is_open = false;
    size_t back;
    if (!rust_enter(n)) {
        is_open = false;
    } else if (rust_eat(n, 'B')) {
        if (rust_jump(n, &back)) {
            is_open = path_left_open(n);
            n->at = back;
        }
    } else if (rust_eat(n, 'I')) {
        path(n, false);
        rust_put(n, "<");
        list(n, generic_argument, ", ");
        is_open = true;
    } else {
        path(n, false);
    }
    rust_leave(n);
    return is_open;
}

/* ---- types ---- */

static const char *basic_type(char tag)
{
    static const char *const names[26] = {"i8",   "bool",  "char",  "f64", "str", "f32", NULL,
                                          "u8",   "isize", "usize", NULL,  "i32", "u32", "i128",
                                          "u128", "_",     NULL,    NULL,  "i16", "u16", "()",
                                          "...",  NULL,    "i64",   "u64", "!"};
    return tag >= 'a' && tag <= 'z' ? names[tag - 'a'] : NULL;
}

static void reference(struct rust_name *n, char tag)
{
    rust_put(n, "&");
    if (rust_eat(n, 'L')) {
        uint64_t lifetime = rust_base62(n);
        if (lifetime) {
            rust_put_lifetime(n, lifetime);
            rust_put(n, " ");
        }
    }
    rust_put(n, tag == 'Q' ? "mut " : "");
    type(n);
}

static void abi(struct rust_name *n)
{
    if (rust_eat(n, 'C')) {
        rust_put(n, "extern \"C\" ");
        return;
    }
    struct rust_identifier id = rust_identifier(n);
    rust_put(n, "extern \"");
    for (size_t i = 0; i < id.len; i++)
        rust_put_bytes(n, id.text[i] == '_' ? "-" : id.text + i, 1);
    rust_put(n, "\" ");
}

static void function(struct rust_name *n)
{
    uint64_t bound = rust_binder(n);
    rust_put(n, rust_eat(n, 'U') ? "unsafe " : "");
    if (rust_eat(n, 'K'))
        abi(n);
    rust_put(n, "fn(");
    list(n, type, ", ");
    rust_put(n, ")");
    if (!rust_eat(n, 'u')) {
        rust_put(n, " -> ");
        type(n);
    }
    n->bound_lifetimes -= bound;
}

static void dyn_trait(struct rust_name *n)
{
    bool is_open = path_left_open(n);
    while (rust_eat(n, 'p')) {
        struct rust_identifier id = rust_identifier(n);
        rust_put(n, is_open ? ", " : "<");
        is_open = true;
        rust_put_identifier(n, &id);
        rust_put(n, " = ");
        type(n);
    }
    rust_put(n, is_open ? ">" : "");
}

static void dyn(struct rust_name *n)
{
    rust_put(n, "dyn ");
    uint64_t bound = rust_binder(n);
    list(n, dyn_trait, " + ");
    n->bound_lifetimes -= bound;
    if (!rust_eat(n, 'L')) {
        n->failed = true;
        return;
    }
    uint64_t lifetime = rust_base62(n);
    if (lifetime) {
        rust_put(n, " + ");
        rust_put_lifetime(n, lifetime);
    }
}

static void tuple(struct rust_name *n)
{
    size_t count = 0;
    rust_put(n, "(");
    for (; !n->failed && !rust_eat(n, 'E'); count++) {
        rust_put(n, count ? ", " : "");
        type(n);
    }
    rust_put(n, count == 1 ? ",)" : ")");
}

static void array(struct rust_name *n, bool has_length)
{
    rust_put(n, "[");
    type(n);
    if (has_length) {
        rust_put(n, "; ");
        constant(n);
    }
    rust_put(n, "]");
}

static void compound_type(struct rust_name *n, char tag)
{
    size_t back;
    switch (tag) {
    case 'A':
    case 'S':
        array(n, tag == 'A');
        break;
    case 'T':
        tuple(n);
        break;
    case 'R':
    case 'Q':
        reference(n, tag);
        break;
    case 'P':
    case 'O':
        rust_put(n, tag == 'P' ? "*const " : "*mut ");
        type(n);
        break;
    case 'F':
        function(n);
        break;
    case 'D':
        dyn(n);
        break;
    case 'B':
        if (rust_jump(n, &back)) {
            type(n);
            n->at = back;
        }
        break;
    default:
        n->at--; /* not a type tag: a path, which reads its tag itself */
        path(n, false);
    }
}

static void type(struct rust_name *n)
{
    if (rust_enter(n)) {
        char tag = rust_next(n);
        const char *basic = basic_type(tag);
        if (basic)
            rust_put(n, basic);
        else if (!n->failed)
            compound_type(n, tag);
    }
    rust_leave(n);
}

/* ---- constants ---- */

static void put_char(struct rust_name *n, uint64_t value)
{
    char text[16];
    if (value >= 0x20 && value < 0x7f && value != '\'' && value != '\\')
        snprintf(text, sizeof(text), "'%c'", (int)value);
    else
        snprintf(text, sizeof(text), "'\\u{%" PRIx64 "}'", value & 0xffffffff);
    rust_put(n, text);
}

static void plain_constant(struct rust_name *n, char tag)
{
    bool is_negative = tag != 'b' && tag != 'c' && rust_eat(n, 'n');
    const char *digits = n->text + n->at;
    size_t count = 0;
    uint64_t value = 0;
    for (; isxdigit((unsigned char)rust_peek(n)) && !isupper((unsigned char)rust_peek(n));
         count++) {
        char c = rust_next(n);
        value = value << 4 | (uint64_t)(isdigit((unsigned char)c) ? c - '0' : c - 'a' + 10);
    }
    if (!rust_eat(n, '_'))
        n->failed = true;
    rust_put(n, is_negative ? "-" : "");
    if (tag == 'b' && value <= 1) {
        rust_put(n, value ? "true" : "false");
    } else if (tag == 'c') {
        put_char(n, value);
    } else if (count > 16) {
        rust_put(n, "0x");
        rust_put_bytes(n, digits, count);
    } else {
        rust_put_number(n, value);
    }
}

static void constant(struct rust_name *n)
{
    size_t back;
    if (rust_enter(n)) {
        char tag = rust_next(n);
        if (tag == 'p') {
            rust_put(n, "_");
        } else if (tag == 'B') {
            if (rust_jump(n, &back)) {
                constant(n);
                n->at = back;
            }
        } else if (tag && strchr("abchijlmnostxy", tag)) {
            plain_constant(n, tag);
        } else {
            n->failed = true;
        }
    }
    rust_leave(n);
}

/* ---- names ---- */

char *rust_demangle_v0(const char *name)
{
    if (strncmp(name, "_R", 2) != 0)
        return NULL;
    struct rust_name n = {.text = name + 2};
    n.len = strcspn(n.text, "."); /* without suffixes that compilers append: ".llvm.123" */
    if (!isupper((unsigned char)rust_peek(&n)))
        return NULL;
    path(&n, true);
    if (!n.failed && n.at < n.len) { /* the instantiating crate is read but not printed */
        n.silent++;
        path(&n, false);
    }
    if (n.failed || n.at != n.len || n.out.failed || n.out.len == 0)
        buf_free(&n.out);
    return n.out.data;
}

char *rust_demangle(const char *name)
{
    char *text = rust_demangle_v0(name);
    return text ? text : rust_demangle_legacy(name);
}
