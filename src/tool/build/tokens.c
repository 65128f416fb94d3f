/* A lexer for preprocessed C and C++ text.
 *
 * libclang's C interface does not say whether a function is constexpr, naked, or a coroutine, and
 * hides most attributes. But these words are in the text. `next` skips white space, comments and
 * line markers. It returns identifiers, literals (including raw strings), numbers and single
 * punctuation characters. Attributes from an earlier declaration of a function are not seen; if one
 * matters, the instrumented text does not compile and the unit stays untouched.
 *
 * `analyse` and `rewrite` call this, on text that need not be valid. */
#include "tool/build/tokens.h"

#include <ctype.h>
#include <string.h>

struct cursor {
    const char *at;
    const char *end;
};

struct token {
    const char *text;
    size_t len;
    bool string; /* a string literal, with its quotes */
};

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$' || (unsigned char)c >= 0x80;
}

static bool is(const struct token *t, const char *word)
{
    return t->len == strlen(word) && memcmp(t->text, word, t->len) == 0;
}

static void skip_line(struct cursor *c)
{
    const char *nl = memchr(c->at, '\n', (size_t)(c->end - c->at));
    c->at = nl ? nl : c->end;
}

static bool skip_comment(struct cursor *c)
{
    if (c->end - c->at < 2 || c->at[0] != '/')
        return false;
    if (c->at[1] == '/') {
        skip_line(c);
        return true;
    }
    if (c->at[1] != '*')
        return false;
    const char *close = memmem(c->at + 2, (size_t)(c->end - c->at - 2), "*/", 2);
    c->at = close ? close + 2 : c->end;
    return true;
}

/* Skips a quoted literal; the cursor is at the quote. */
static void skip_quoted(struct cursor *c)
{
    char quote = *c->at++;
    while (c->at < c->end && *c->at != quote && *c->at != '\n') {
        if (*c->at == '\\' && c->at + 1 < c->end)
            c->at++;
        c->at++;
    }
    if (c->at < c->end)
        c->at++;
}

/* Skips R"tag( ... )tag"; the cursor is at the quote. */
static void skip_raw(struct cursor *c)
{
    char close[20] = ")";
    const char *open = memchr(c->at, '(', (size_t)(c->end - c->at));
    size_t tag = open ? (size_t)(open - c->at - 1) : sizeof close;
    if (tag > 16) {
        skip_quoted(c);
        return;
    }
    memcpy(close + 1, c->at + 1, tag);
    close[tag + 1] = '"';
    const char *found = memmem(open, (size_t)(c->end - open), close, tag + 2);
    c->at = found ? found + tag + 2 : c->end;
}

/* Is the word just read a prefix that makes the next quote a raw string? */
static bool is_raw_prefix(const struct token *t)
{
    return is(t, "R") || is(t, "u8R") || is(t, "uR") || is(t, "UR") || is(t, "LR");
}

static void skip_number(struct cursor *c)
{
    while (c->at < c->end && (is_word(*c->at) || *c->at == '.' || *c->at == '\'' ||
                              ((*c->at == '+' || *c->at == '-') && strchr("eEpP", c->at[-1]))))
        c->at++;
}

static bool next(struct cursor *c, struct token *t)
{
    bool fresh_line = c->at < c->end && *c->at == '#';
    while (c->at < c->end) {
        if (*c->at == '\n' || isspace((unsigned char)*c->at)) {
            fresh_line |= *c->at++ == '\n';
        } else if (fresh_line && *c->at == '#') {
            skip_line(c);
        } else if (!skip_comment(c)) {
            break;
        }
    }
    if (c->at >= c->end)
        return false;
    *t = (struct token){.text = c->at};
    if (*c->at == '"' || *c->at == '\'') {
        t->string = *c->at == '"';
        skip_quoted(c);
    } else if (isdigit((unsigned char)*c->at)) {
        c->at++;
        skip_number(c);
    } else if (is_word(*c->at)) {
        while (c->at < c->end && is_word(*c->at))
            c->at++;
        t->len = (size_t)(c->at - t->text);
        if (c->at < c->end && *c->at == '"' && is_raw_prefix(t))
            skip_raw(c);
    } else {
        c->at++;
    }
    t->len = (size_t)(c->at - t->text);
    return true;
}

/* Does a target attribute disable features that the rest of the unit may use? Then the probe cannot
 * be inlined into the function (gcc: "target specific option mismatch"). */
static bool narrows_target(struct cursor c)
{
    struct token t;
    while (next(&c, &t) && !is(&t, ")")) {
        if (t.string && (memmem(t.text, t.len, "no-", 3) || memmem(t.text, t.len, "arch=", 5) ||
                         memmem(t.text, t.len, "general-regs-only", 17)))
            return true;
    }
    return false;
}

const char *tokens_forbid_head(const char *head, size_t len)
{
    static const char *const words[][2] = {
        {"constexpr", "constexpr"},
        {"consteval", "consteval"},
        {"naked", "attribute naked"},
        {"__naked__", "attribute naked"},
        {"no_instrument_function", "attribute no_instrument_function"},
        {"__no_instrument_function__", "attribute no_instrument_function"},
        {"interrupt", "attribute interrupt"},
        {"__interrupt__", "attribute interrupt"},
        {"no_caller_saved_registers", "attribute no_caller_saved_registers"},
    };
    struct cursor c = {head, head + len};
    struct token t;
    int depth = 0;
    int brackets = 0;
    bool attribute = false; /* inside __attribute__((...)); parameters may have any name */
    while (next(&c, &t)) {
        if (depth == 0)
            attribute =
                is(&t, "__attribute__") || is(&t, "__attribute") || (attribute && is(&t, "("));
        depth += is(&t, "(") - is(&t, ")");
        brackets += is(&t, "[") - is(&t, "]");
        bool inside = attribute || brackets >= 2;
        for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
            if (is(&t, words[i][0]) && (i < 2 || inside))
                return words[i][1];
        }
        if (inside && (is(&t, "target") || is(&t, "__target__")) && narrows_target(c))
            return "attribute target takes features away";
    }
    return NULL;
}

const char *tokens_forbid_body(const char *body, size_t len, bool cxx)
{
    bool coroutine = cxx && memmem(body, len, "co_", 3);
    bool tail = memmem(body, len, "musttail", 8) != NULL;
    struct cursor c = {body, body + len};
    struct token t;
    while ((coroutine || tail) && next(&c, &t)) {
        if (cxx && (is(&t, "co_await") || is(&t, "co_yield") || is(&t, "co_return")))
            return "coroutine";
        if (is(&t, "musttail"))
            return "attribute musttail";
    }
    return tokens_first_place(body, len) ? NULL : "its local labels could not be read";
}

size_t tokens_match_brace(const char *text, size_t len)
{
    struct cursor c = {text, text + len};
    struct token t;
    size_t depth = 0;
    while (next(&c, &t)) {
        depth += is(&t, "{");
        if (is(&t, "}") && --depth == 0)
            return (size_t)(c.at - text);
    }
    return 0;
}

size_t tokens_first_place(const char *text, size_t len)
{
    struct cursor c = {text + 1, text + len};
    struct token t;
    size_t place = 1;
    while (next(&c, &t) && is(&t, "__label__")) {
        do {
            if (!next(&c, &t))
                return 0;
        } while (!is(&t, ";"));
        place = (size_t)(c.at - text);
    }
    return place;
}

static bool is_setjmp(const struct token *t)
{
    return is(t, "setjmp") || is(t, "_setjmp") || is(t, "__sigsetjmp") || is(t, "sigsetjmp") ||
           is(t, "__builtin_setjmp");
}

/* The cursor is after the name. Moves it past the parentheses that follow. */
static bool skip_arguments(struct cursor *c)
{
    struct token t;
    size_t depth = 0;
    while (next(c, &t)) {
        if (depth == 0 && !is(&t, "("))
            return false;
        depth += is(&t, "(");
        if (is(&t, ")") && --depth == 0)
            return true;
    }
    return false;
}

/* A name after a word or a star is being declared, not called. */
static bool may_precede_call(const struct token *t)
{
    return !t->text || is(t, "return") || is(t, "else") || is(t, "do") ||
           (!is_word(t->text[0]) && !is(t, "*") && !is(t, "."));
}

bool tokens_find_setjmp(const char *text, size_t len, size_t *start, size_t *end)
{
    struct cursor c = {text + *start, text + len};
    struct token t, before = {0};
    if (!memmem(c.at, (size_t)(c.end - c.at), "setjmp", 6))
        return false;
    while (next(&c, &t)) {
        struct cursor behind = c;
        if (is_setjmp(&t) && may_precede_call(&before) && skip_arguments(&behind)) {
            *start = (size_t)(t.text - text);
            *end = (size_t)(behind.at - text);
            return true;
        }
        before = t;
    }
    return false;
}

static const char *skip_space(const char *p, const char *end)
{
    while (p < end && isspace((unsigned char)*p))
        p++;
    return p;
}

bool tokens_uses_ifunc(const char *text, size_t len)
{
    const char *end = text + len;
    for (const char *p = text; (p = memmem(p, (size_t)(end - p), "ifunc", 5)); p += 5) {
        const char *start = p - text >= 2 && memcmp(p - 2, "__", 2) == 0 ? p - 2 : p;
        const char *rest = p + 5;
        if (start < p && end - rest >= 2 && memcmp(rest, "__", 2) == 0)
            rest += 2;
        if (start > text && is_word(start[-1]))
            continue;
        rest = skip_space(rest, end);
        if (rest == end || *rest != '(')
            continue;
        rest = skip_space(rest + 1, end);
        if (rest < end && *rest == '"')
            return true;
    }
    return false;
}
