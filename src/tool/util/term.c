/* One screen, in static variables, so that a signal handler can restore it. */
#include "tool/util/term.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "tool/util/buf.h"
#include "tool/util/table.h"

enum { KEYS = 256, ESCAPE_MS = 30, FEWEST_ROWS = 4, FEWEST_COLUMNS = 20, MOST = 1000 };

/* The alternate screen, a hidden cursor, no wrapping at the right edge; and back. */
static const char enter[] = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J";
static const char leave[] = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l";
static const int crashes[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};

struct line {
    enum term_style style;
    char *text; /* NULL: empty */
};

static struct {
    int fd;
    struct termios usual;
    volatile sig_atomic_t is_open;
    size_t rows, columns;
    struct line *wanted, *shown; /* `rows` of each */
    bool all;                    /* nothing of `shown` counts */
    char keys[KEYS];             /* read, not yet decoded */
    size_t key_count;
    bool is_gone;
} screen;

bool term_possible(int fd)
{
    const char *term = getenv("TERM");
    return isatty(fd) == 1 && isatty(STDOUT_FILENO) == 1 && term && *term &&
           strcmp(term, "dumb") != 0;
}

/* ---- opening and closing ---- */

static void put(const char *text, size_t len)
{
    while (len > 0) {
        ssize_t done = write(STDOUT_FILENO, text, len);
        struct pollfd ready = {.fd = STDOUT_FILENO, .events = POLLOUT};
        if (done < 0 && errno == EAGAIN)
            poll(&ready, 1, -1);
        else if (done < 0 && errno != EINTR) {
            screen.is_gone = true;
            return;
        }
        text += done > 0 ? done : 0;
        len -= done > 0 ? (size_t)done : 0;
    }
}

static void set_raw(void)
{
    struct termios raw = screen.usual;
    raw.c_iflag &= ~(tcflag_t)(IXON | INLCR | IGNCR);
    raw.c_iflag |= ICRNL;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ISIG | IEXTEN);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    tcsetattr(screen.fd, TCSADRAIN, &raw);
    put(enter, sizeof(enter) - 1);
    screen.all = true;
}

/* Only functions that a signal handler may call. */
static void restore(void)
{
    if (!screen.is_open)
        return;
    screen.is_open = 0;
    put(leave, sizeof(leave) - 1);
    tcsetattr(screen.fd, TCSADRAIN, &screen.usual);
}

static void crash(int sig)
{
    restore();
    signal(sig, SIG_DFL);
    raise(sig);
}

int term_open(int fd)
{
    struct sigaction action = {.sa_handler = crash, .sa_flags = (int)SA_RESETHAND};
    screen.fd = fd;
    if (tcgetattr(fd, &screen.usual) != 0)
        return -errno;
    screen.is_gone = false;
    screen.is_open = 1;
    for (size_t i = 0; i < sizeof(crashes) / sizeof(*crashes); i++)
        sigaction(crashes[i], &action, NULL);
    atexit(term_close);
    set_raw();
    return screen.is_gone ? -EIO : 0;
}

static void free_lines(struct line **lines)
{
    for (size_t i = 0; *lines && i < screen.rows; i++)
        free((*lines)[i].text);
    free(*lines);
    *lines = NULL;
}

void term_close(void)
{
    restore();
    for (size_t i = 0; i < sizeof(crashes) / sizeof(*crashes); i++)
        signal(crashes[i], SIG_DFL);
    free_lines(&screen.wanted);
    free_lines(&screen.shown);
    screen.rows = 0;
}

void term_suspend(void)
{
    restore();
    kill(0, SIGSTOP);
    screen.is_open = 1;
    set_raw();
}

/* ---- lines ---- */

void term_resize(size_t *rows, size_t *columns)
{
    struct winsize size = {.ws_row = 24, .ws_col = 80};
    ioctl(screen.fd, TIOCGWINSZ, &size);
    free_lines(&screen.wanted);
    free_lines(&screen.shown);
    screen.rows = size.ws_row < FEWEST_ROWS ? FEWEST_ROWS : size.ws_row;
    screen.rows = screen.rows > MOST ? MOST : screen.rows;
    screen.columns = size.ws_col < FEWEST_COLUMNS ? FEWEST_COLUMNS : size.ws_col;
    screen.columns = screen.columns > MOST ? MOST : screen.columns;
    screen.wanted = calloc(screen.rows, sizeof(*screen.wanted));
    screen.shown = calloc(screen.rows, sizeof(*screen.shown));
    screen.all = true;
    if (!screen.wanted || !screen.shown) {
        free(screen.wanted);
        free(screen.shown);
        screen.wanted = screen.shown = NULL;
        screen.rows = 0;
    }
    *rows = screen.rows;
    *columns = screen.columns;
}

void term_line(size_t row, enum term_style style, const char *text)
{
    char cut[8 * MOST];
    if (row >= screen.rows)
        return;
    table_shorten(cut, sizeof(cut), text, screen.columns);
    free(screen.wanted[row].text);
    screen.wanted[row] = (struct line){style, *cut ? strdup(cut) : NULL};
}

static bool is_same(const struct line *a, const struct line *b)
{
    const char *x = a->text ? a->text : "", *y = b->text ? b->text : "";
    return a->style == b->style && strcmp(x, y) == 0;
}

bool term_draw(void)
{
    static const char *const styles[TERM_STYLES] = {"", "\x1b[1m", "\x1b[2m", "\x1b[7m",
                                                    "\x1b[31m"};
    const char *none = getenv("NO_COLOR");
    struct buf b = {0};
    for (size_t i = 0; i < screen.rows; i++) {
        const struct line *line = &screen.wanted[i];
        bool has_colour = line->style != TERM_RED || !none || !*none;
        if (!screen.all && is_same(line, &screen.shown[i]))
            continue;
        buf_printf(&b, "\x1b[%zu;1H\x1b[0m%s%s", i + 1, has_colour ? styles[line->style] : "",
                   line->text ? line->text : "");
        buf_puts(&b, "\x1b[0m\x1b[K");
    }
    if (b.failed)
        screen.is_gone = true;
    else if (b.len)
        put(b.data, b.len);
    buf_free(&b);
    struct line *drawn = screen.wanted;
    screen.wanted = screen.shown;
    screen.shown = drawn;
    for (size_t i = 0; i < screen.rows; i++) {
        free(screen.wanted[i].text);
        screen.wanted[i] = (struct line){.text = NULL};
    }
    screen.all = false;
    return !screen.is_gone;
}

/* ---- keys ---- */

static void read_keys(void)
{
    ssize_t got = read(screen.fd, screen.keys + screen.key_count, KEYS - screen.key_count);
    if (got > 0)
        screen.key_count += (size_t)got;
    else if (got < 0 && errno != EAGAIN && errno != EINTR)
        screen.is_gone = true;
}

static bool waits_for_more(void)
{
    struct pollfd more = {.fd = screen.fd, .events = POLLIN};
    if (poll(&more, 1, ESCAPE_MS) <= 0)
        return false;
    size_t had = screen.key_count;
    read_keys();
    return screen.key_count > had;
}

static int drop(size_t count, int key)
{
    screen.key_count -= count;
    memmove(screen.keys, screen.keys + count, screen.key_count);
    return key;
}

/* A sequence `ESC [ numbers letter` or `ESC O letter`. */
static int decode_sequence(void)
{
    static const struct {
        char number, letter;
        int key;
    } known[] = {{0, 'A', TERM_UP},      {0, 'B', TERM_DOWN},      {0, 'C', TERM_RIGHT},
                 {0, 'D', TERM_LEFT},    {0, 'H', TERM_HOME},      {0, 'F', TERM_END},
                 {0, 'P', TERM_F1},      {0, 'Q', TERM_F1 + 1},    {0, 'R', TERM_F1 + 2},
                 {0, 'S', TERM_F1 + 3},  {1, '~', TERM_HOME},      {4, '~', TERM_END},
                 {5, '~', TERM_PAGE_UP}, {6, '~', TERM_PAGE_DOWN}, {7, '~', TERM_HOME},
                 {8, '~', TERM_END},     {11, '~', TERM_F1},       {12, '~', TERM_F1 + 1},
                 {13, '~', TERM_F1 + 2}, {14, '~', TERM_F1 + 3},   {15, '~', TERM_F1 + 4},
                 {17, '~', TERM_F1 + 5}, {18, '~', TERM_F1 + 6},   {19, '~', TERM_F1 + 7},
                 {20, '~', TERM_F1 + 8}, {21, '~', TERM_F10}};
    size_t at = 2;
    int number = 0;
    for (;; at++) {
        if (at == screen.key_count && (at == KEYS || !waits_for_more()))
            return drop(screen.key_count, TERM_NONE);
        char c = screen.keys[at];
        if (c >= '0' && c <= '9')
            number = number < 100 ? number * 10 + (c - '0') : number;
        else if (c != ';')
            break;
    }
    if (screen.keys[at] == '[' && at == 2) { /* the Linux console: ESC [ [ A is F1 */
        if (at + 1 == screen.key_count && !waits_for_more())
            return drop(screen.key_count, TERM_NONE);
        char c = screen.keys[at + 1];
        return drop(at + 2, c >= 'A' && c <= 'E' ? TERM_F1 + (c - 'A') : TERM_NONE);
    }
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
        if (known[i].letter == screen.keys[at] && known[i].number == number)
            return drop(at + 1, known[i].key);
    return drop(at + 1, TERM_NONE);
}

int term_key(void)
{
    if (screen.key_count == 0)
        read_keys();
    if (screen.is_gone)
        return TERM_GONE;
    if (screen.key_count == 0)
        return TERM_NONE;
    unsigned char c = (unsigned char)screen.keys[0];
    if (c != TERM_ESCAPE)
        return drop(1, c == '\r' ? TERM_ENTER : c == '\b' ? TERM_ERASE : c);
    if (screen.key_count == 1 && !waits_for_more())
        return drop(1, TERM_ESCAPE);
    if (screen.keys[1] != '[' && screen.keys[1] != 'O')
        return drop(1, TERM_ESCAPE);
    return decode_sequence();
}
