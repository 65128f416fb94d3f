/* Messages to the user: one prefix, one stream (stderr), one rule for colour.
 *
 * Nothing here ends the process: the error functions return the exit status that the caller should
 * use. Text from a run file or a program (function names, paths) may contain anything, including
 * terminal escapes, and must go through `say_safe` before it is printed. As a second defence, these
 * functions also mask raw control characters in everything they format. */
#include "tool/util/say.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "tool/util/buf.h"

enum { PATIENCE_MS = 300 };

static struct {
    char text[512];
    bool waiting;     /* a text is set, shown or not */
    long long due_ms; /* earliest time to show it */
    size_t shown;     /* bytes on the terminal, at least as many as columns */
    char seen[512];   /* the bytes shown */
} progress;

static struct {
    bool (*hear)(void *ctx, const char *text);
    void *ctx;
} listener;

void say_listen(bool (*hear)(void *ctx, const char *text), void *ctx)
{
    listener.hear = hear;
    listener.ctx = ctx;
}

bool say_colour(FILE *stream)
{
    const char *none = getenv("NO_COLOR");
    const char *term = getenv("TERM");
    if (none && *none)
        return false;
    if (!term || strcmp(term, "dumb") == 0)
        return false;
    return isatty(fileno(stream)) == 1;
}

/* Decodes one UTF-8 character of at most LEFT bytes. Returns its length, or 0 when it is
 * invalid. */
static size_t utf8_decode(const unsigned char *s, size_t left, uint32_t *out)
{
    size_t need = s[0] < 0x80 ? 1 : s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (s[0] >= 0x80 && (s[0] < 0xc2 || s[0] > 0xf4))
        return 0;
    if (need > left)
        return 0;
    uint32_t c = need == 1 ? s[0] : s[0] & (0xffu >> (need + 1));
    for (size_t i = 1; i < need; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (s[i] & 0x3f);
    }
    bool overlong = (need == 3 && c < 0x800) || (need == 4 && c < 0x10000);
    if (overlong || (c >= 0xd800 && c <= 0xdfff) || c > 0x10ffff)
        return 0;
    *out = c;
    return need;
}

/* Characters that move the cursor, change the direction or are invisible: never printed raw. */
static bool hidden_char(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0xad || c == 0x61c ||
           (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
           (c >= 0x2060 && c <= 0x206f) || c == 0xfeff || (c >= 0xfff9 && c <= 0xfffb) ||
           (c >= 0xe0000 && c <= 0xe0fff);
}

const char *say_safe(char *dst, size_t size, const char *src)
{
    const unsigned char *s = (const unsigned char *)src;
    size_t left = strlen(src), at = 0;
    if (size == 0)
        return dst;
    while (left > 0) {
        uint32_t c = 0;
        char text[16];
        size_t took = utf8_decode(s, left, &c), len;
        if (took > 0 && !hidden_char(c)) {
            memcpy(text, s, took);
            len = took;
        } else if (took <= 1) {
            took = 1;
            len = (size_t)snprintf(text, sizeof(text), "\\x%02x", s[0]);
        } else {
            len = (size_t)snprintf(text, sizeof(text), "\\u{%x}", (unsigned)c);
        }
        if (at + len >= size)
            break;
        memcpy(dst + at, text, len);
        at += len;
        s += took;
        left -= took;
    }
    dst[at] = '\0';
    return dst;
}

/* Raw control characters other than newline and tab become `?`. */
static void mask_controls(struct buf *b)
{
    for (size_t i = 0; i < b->len; i++) {
        unsigned char c = (unsigned char)b->data[i];
        if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f)
            b->data[i] = '?';
    }
}

static void __attribute__((format(printf, 2, 0)))
put_line(const char *colour, const char *fmt, va_list ap)
{
    struct buf b = {0};
    buf_vprintf(&b, fmt, ap);
    if (b.failed || !b.data)
        buf_puts(&b, "(out of memory)");
    else
        mask_controls(&b);
    say_progress_done();
    const char *text = b.data ? b.data : "(out of memory)";
    if (!colour && listener.hear && !listener.hear(listener.ctx, text))
        fflush(stderr);
    else if (colour && say_colour(stderr))
        fprintf(stderr, "%spiano:\x1b[0m %s\n", colour, text);
    else
        fprintf(stderr, "piano: %s\n", text);
    buf_free(&b);
}

int say_error(const char *hint, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    put_line("\x1b[31m", fmt, ap);
    va_end(ap);
    if (hint)
        fprintf(stderr, "  try: %s\n", hint);
    return EXIT_FAILED;
}

int say_usage(const char *command, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    put_line("\x1b[31m", fmt, ap);
    va_end(ap);
    if (command && *command)
        fprintf(stderr, "  try: piano %s --help\n", command);
    else
        fprintf(stderr, "  try: piano --help\n");
    return EXIT_USAGE;
}

void say(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    put_line(NULL, fmt, ap);
    va_end(ap);
}

static bool is_progress_off;

void say_progress_never(bool is_never)
{
    is_progress_off = is_never;
}

static bool terminal_stderr(void)
{
    static int known = -1;
    if (is_progress_off)
        return false;
    if (known < 0)
        known = isatty(STDERR_FILENO) == 1;
    return known == 1;
}

static size_t stderr_columns(void)
{
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 20)
        return 80;
    return size.ws_col;
}

static long long now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (long long)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Blanks, not an escape sequence, work on every terminal and with NO_COLOR. */
static void wipe_progress(void)
{
    if (progress.shown > 0)
        fprintf(stderr, "\r%*s\r", (int)progress.shown, "");
    progress.shown = 0;
}

void say_progress_again(void)
{
    if (!progress.waiting || now_ms() < progress.due_ms)
        return;
    size_t room = stderr_columns() - 1, len = strlen(progress.text);
    len = len < room ? len : room;
    if (progress.shown == len && memcmp(progress.seen, progress.text, len) == 0)
        return; /* writing the same text again would flicker */
    wipe_progress();
    memcpy(progress.seen, progress.text, len);
    progress.shown = len;
    fprintf(stderr, "%.*s", (int)len, progress.text);
    fflush(stderr);
}

void say_progress(const char *fmt, ...)
{
    if (!terminal_stderr())
        return;
    struct buf b = {0};
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(&b, fmt, ap);
    va_end(ap);
    if (b.data && !b.failed) {
        mask_controls(&b);
        snprintf(progress.text, sizeof(progress.text), "%s", b.data);
        if (!progress.waiting)
            progress.due_ms = now_ms() + PATIENCE_MS;
        progress.waiting = true;
        say_progress_again();
    }
    buf_free(&b);
}

void say_progress_done(void)
{
    progress.waiting = false;
    if (progress.shown == 0)
        return;
    wipe_progress();
    fflush(stderr);
}
