/* Command lines under construction; see words.h. Used by the compiler wrapper only. */
#include "tool/build/words.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool/util/buf.h"
#include "tool/util/vec.h"

/* Takes ownership of WORD. */
static void push(struct words *w, char *word)
{
    if (!word || vec_reserve(&w->items, &w->cap, w->count + 2, sizeof *w->items) != 0) {
        free(word);
        w->failed = true;
        return;
    }
    w->items[w->count++] = word;
    w->items[w->count] = NULL;
}

void words_add(struct words *w, const char *word)
{
    push(w, strdup(word));
}

void words_addf(struct words *w, const char *fmt, ...)
{
    struct buf b = {0};
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(&b, fmt, ap);
    va_end(ap);
    if (b.failed) {
        w->failed = true;
        buf_free(&b);
        return;
    }
    push(w, b.data);
}

void words_release(struct words *w)
{
    for (size_t i = 0; i < w->count; i++)
        free(w->items[i]);
    free(w->items);
    *w = (struct words){0};
}

/* Reads one word at *TEXT into WORD and moves *TEXT past it. */
static void take_word(const char **text, struct buf *word)
{
    const char *p = *text;
    char quote = 0;
    for (; *p && (quote || !isspace((unsigned char)*p)); p++) {
        if (*p == '\\' && p[1])
            buf_putc(word, *++p);
        else if (quote ? *p == quote : *p == '"' || *p == '\'')
            quote = quote ? 0 : *p;
        else
            buf_putc(word, *p);
    }
    *text = p;
}

void words_split(struct words *w, const char *text)
{
    struct buf word = {0};
    for (;;) {
        while (isspace((unsigned char)*text))
            text++;
        if (!*text)
            break;
        buf_clear(&word);
        take_word(&text, &word);
        words_add(w, word.data ? word.data : "");
    }
    w->failed |= word.failed;
    buf_free(&word);
}
