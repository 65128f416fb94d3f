/* One thread, one poll, one page.
 *
 * No client can block it: every socket is non-blocking, a request must arrive within a few seconds
 * and fit into a few kilobytes, and an answer that makes no progress is dropped. The number of
 * connections is fixed. When all are in use, the one with the least time left is dropped. Each
 * serves one request and is then closed.
 *
 * The address is 127.0.0.1, so no other machine can connect. Other users of this machine can:
 * because of them the path contains 128 random bits. */
#include "tool/view/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tool/util/say.h"
#include "tool/view/browser.h"
#include "tool/view/remote.h"
#include "tool/view/request.h"

enum {
    CLIENTS = 64,
    REQUEST_BYTES = 8192,
    REQUEST_MS = 5000,  /* for a request, from its first to its last byte */
    STALLED_MS = 20000, /* for an answer that makes no progress */
    LINGER_MS = 1000,   /* for the client to close */
    TOKEN_BYTES = 16,
    WAITING = 1024, /* connections not yet accepted; later ones retry after a second */
};

enum state { FREE, READING, WRITING, LINGERING };

struct client {
    enum state state;
    int fd;
    int64_t until_ms;
    char request[REQUEST_BYTES + 1];
    size_t got;
    char head[2048];
    size_t head_len, head_sent;
    const char *body;
    size_t body_len, body_sent;
    bool is_live; /* the body is not the page */
};

struct server {
    struct client clients[CLIENTS];
    struct request_rules rules;
    char path[2 * TOKEN_BYTES + 3];
    const char *page, *policy;
    size_t page_len;
    const struct server_options *options;
    int listener, signals;
    bool over;
};

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- answers ---- */

static const char *reason_of(int status)
{
    switch (status) {
    case 200:
        return "OK";
    case 403:
        return "Forbidden";
    case 404:
        return "Not Found";
    case 405:
        return "Method Not Allowed";
    case 431:
        return "Request Header Fields Too Large";
    default:
        return "Bad Request";
    }
}

/* NOTE goes before the body. */
static void put_answer(const struct server *s, struct client *c, int status, const char *type,
                       const char *note, bool with_body)
{
    int len = snprintf(c->head, sizeof(c->head),
                       "HTTP/1.1 %d %s\r\n"
                       "Content-Type: %s\r\n"
                       "Content-Length: %zu\r\n"
                       "Content-Security-Policy: %s; frame-ancestors 'none'\r\n"
                       "X-Content-Type-Options: nosniff\r\n"
                       "Referrer-Policy: no-referrer\r\n"
                       "Cache-Control: no-store\r\n"
                       "Cross-Origin-Resource-Policy: same-origin\r\n"
                       "Cross-Origin-Opener-Policy: same-origin\r\n"
                       "%s"
                       "Connection: close\r\n\r\n%s",
                       status, reason_of(status), type, c->body_len + strlen(note), s->policy,
                       status == 405 ? "Allow: GET, HEAD\r\n" : "", with_body ? note : "");
    c->head_len = len > 0 && (size_t)len < sizeof(c->head) ? (size_t)len : 0;
    c->head_sent = c->body_sent = 0;
    c->body_len = with_body ? c->body_len : 0;
    c->state = WRITING;
    c->until_ms = now_ms() + STALLED_MS;
}

static void answer(const struct server *s, struct client *c, int status, bool with_body)
{
    const char *reason = reason_of(status);
    c->is_live = false;
    c->body = status == 200 ? s->page : reason;
    c->body_len = status == 200 ? s->page_len : strlen(reason);
    put_answer(s, c, status,
               status == 200 ? "text/html; charset=utf-8" : "text/plain; charset=utf-8", "",
               with_body);
}

/* Is a client still reading data that is not the page? */
static bool is_read(const struct server *s)
{
    for (size_t i = 0; i < CLIENTS; i++)
        if (s->clients[i].state == WRITING && s->clients[i].is_live)
            return true;
    return false;
}

static void answer_live(const struct server *s, struct client *c, uint64_t has, bool with_body)
{
    struct server_data data = {.len = 0};
    s->options->newer(s->options->ctx, has, !is_read(s), &data);
    c->is_live = true;
    c->body = data.body;
    c->body_len = data.len;
    put_answer(s, c, 200, "application/octet-stream", data.note, with_body);
}

static void drop(struct client *c)
{
    close(c->fd);
    c->state = FREE;
}

/* ---- one connection ---- */

static void read_request(const struct server *s, struct client *c)
{
    struct request r;
    ssize_t got = recv(c->fd, c->request + c->got, REQUEST_BYTES - c->got, 0);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
        drop(c);
        return;
    }
    c->got += got > 0 ? (size_t)got : 0;
    c->request[c->got] = '\0';
    if (!request_whole(c->request, c->got)) {
        if (c->got == REQUEST_BYTES)
            answer(s, c, 431, true);
        return;
    }
    if (!request_parse(c->request, c->got, &r)) {
        answer(s, c, 400, true);
        return;
    }
    int status = request_judge(&r, &s->rules);
    bool with_body = strcmp(r.method, "HEAD") != 0;
    if (status == 200 && r.is_live)
        answer_live(s, c, r.has, with_body);
    else
        answer(s, c, status, with_body);
}

/* The answer is sent completely. Shuts down our side and waits for the client: if unread data
 * arrived after its request, closing now would make the kernel discard our answer. */
static void linger(struct client *c)
{
    shutdown(c->fd, SHUT_WR);
    c->state = LINGERING;
    c->until_ms = now_ms() + LINGER_MS;
}

static void write_answer(struct client *c)
{
    bool in_head = c->head_sent < c->head_len;
    const char *from = in_head ? c->head + c->head_sent : c->body + c->body_sent;
    size_t len = in_head ? c->head_len - c->head_sent : c->body_len - c->body_sent;
    ssize_t sent = len ? send(c->fd, from, len, MSG_NOSIGNAL) : 0;
    if (sent < 0) {
        if (errno != EAGAIN && errno != EINTR)
            drop(c);
        return;
    }
    *(in_head ? &c->head_sent : &c->body_sent) += (size_t)sent;
    if (sent > 0)
        c->until_ms = now_ms() + STALLED_MS;
    if (c->head_sent == c->head_len && c->body_sent == c->body_len)
        linger(c);
}

static void read_rest(struct client *c)
{
    char rest[4096];
    ssize_t got = recv(c->fd, rest, sizeof(rest), 0);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
        drop(c);
}

/* A slot for a new connection: a free one, else that of the client with the least time left. */
static struct client *place_for(struct server *s)
{
    struct client *best = &s->clients[0];
    for (size_t i = 0; i < CLIENTS; i++) {
        struct client *c = &s->clients[i];
        if (c->state == FREE)
            return c;
        if (c->until_ms < best->until_ms)
            best = c;
    }
    drop(best);
    return best;
}

static bool accept_one(struct server *s)
{
    int fd = accept4(s->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return false;
    struct client *c = place_for(s);
    c->fd = fd;
    c->got = 0;
    c->state = READING;
    c->until_ms = now_ms() + REQUEST_MS;
    return true;
}

/* Accepts some of the waiting connections at a time, so that an accepted client is served before it
 * is replaced. */
static void accept_all(struct server *s)
{
    for (size_t i = 0; i < CLIENTS / 2 && accept_one(s); i++)
        ;
}

/* ---- all of them ---- */

static void take_signal(struct server *s)
{
    struct signalfd_siginfo info;
    if (read(s->signals, &info, sizeof(info)) != (ssize_t)sizeof(info))
        return;
    if (info.ssi_signo != SIGCHLD)
        s->over = true;
    while (waitpid(-1, NULL, WNOHANG) > 0) /* reap xdg-open */
        ;
}

static void serve_client(const struct server *s, struct client *c, short events)
{
    if (events == 0)
        return;
    if (c->state == READING)
        read_request(s, c);
    else if (c->state == WRITING)
        write_answer(c);
    else if (c->state == LINGERING)
        read_rest(c);
}

/* Drops the clients whose time is over. Returns the time until the next one expires, or -1. */
static int expire(struct server *s)
{
    int64_t now = now_ms(), next = INT64_MAX;
    for (size_t i = 0; i < CLIENTS; i++) {
        struct client *c = &s->clients[i];
        if (c->state != FREE && c->until_ms <= now)
            drop(c);
        if (c->state != FREE && c->until_ms < next)
            next = c->until_ms;
    }
    return next == INT64_MAX ? -1 : (int)(next - now);
}

static void serve(struct server *s)
{
    struct pollfd fds[CLIENTS + 2];
    while (!s->over) {
        int wait = expire(s);
        fds[0] = (struct pollfd){.fd = s->signals, .events = POLLIN};
        fds[1] = (struct pollfd){.fd = s->listener, .events = POLLIN};
        for (size_t i = 0; i < CLIENTS; i++) {
            const struct client *c = &s->clients[i];
            fds[i + 2] = (struct pollfd){.fd = c->state == FREE ? -1 : c->fd,
                                         .events = c->state == WRITING ? POLLOUT : POLLIN};
        }
        if (poll(fds, CLIENTS + 2, wait) < 0)
            continue; /* interrupted */
        for (size_t i = 0; i < CLIENTS; i++)
            serve_client(s, &s->clients[i], fds[i + 2].revents);
        if (fds[0].revents)
            take_signal(s);
        if (fds[1].revents)
            accept_all(s);
    }
    for (size_t i = 0; i < CLIENTS; i++)
        if (s->clients[i].state != FREE)
            drop(&s->clients[i]);
}

/* ---- beginning ---- */

static int make_path(struct server *s)
{
    unsigned char token[TOKEN_BYTES];
    if (getrandom(token, sizeof(token), 0) != (ssize_t)sizeof(token))
        return -EIO;
    s->path[0] = '/';
    for (size_t i = 0; i < sizeof(token); i++)
        snprintf(s->path + 1 + 2 * i, 3, "%02x", token[i]);
    memcpy(s->path + 1 + 2 * sizeof(token), "/", 2);
    s->rules.path = s->path;
    return 0;
}

static int start_listening(struct server *s, unsigned port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    int one = 1;
    s->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (s->listener < 0)
        return -errno;
    if (setsockopt(s->listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
        bind(s->listener, (const struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(s->listener, WAITING) != 0 ||
        getsockname(s->listener, (struct sockaddr *)&address, &len) != 0)
        return -errno;
    s->rules.port = ntohs(address.sin_port);
    return 0;
}

static bool is_ignored(int sig)
{
    struct sigaction now;
    return sigaction(sig, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

/* The signals stay blocked: pressing Ctrl-C twice means one end. Signals that we were started to
 * ignore (by nohup, or in the background of a script) stay ignored; if blocked, they would be
 * queued. */
static int start_signals(struct server *s)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++)
        if (!is_ignored(ends[i]))
            sigaddset(&set, ends[i]);
    if (sigprocmask(SIG_BLOCK, &set, NULL) != 0)
        return -errno;
    s->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    return s->signals >= 0 ? 0 : -errno;
}

static void announce(const struct server *s, bool open)
{
    char url[128];
    snprintf(url, sizeof(url), "http://127.0.0.1:%u%s", s->rules.port, s->path);
    printf("%s\n", url);
    fflush(stdout);
    remote_say(s->rules.port);
    say(is_ignored(SIGINT) ? "SIGTERM ends it" : "Ctrl-C ends it");
    if (!open || !browser_possible())
        return;
    int err = browser_open(url);
    if (err)
        say("cannot open a browser: xdg-open: %s", strerror(-err));
}

int server_run(const char *page, size_t len, const struct server_options *options)
{
    static struct server s; /* half a megabyte of requests */
    s = (struct server){
        .page = page, .page_len = len, .policy = options->policy, .listener = -1, .signals = -1};
    s.options = options;
    s.rules.live = options->newer != NULL;
    int err = make_path(&s);
    if (err == 0)
        err = start_signals(&s);
    if (err == 0)
        err = start_listening(&s, options->port);
    if (err && options->port)
        say_error("another port, or none for any", "cannot serve at port %u: %s", options->port,
                  strerror(-err));
    else if (err)
        say_error(NULL, "cannot serve: %s", strerror(-err));
    if (err == 0) {
        announce(&s, options->open);
        serve(&s);
    }
    if (s.listener >= 0)
        close(s.listener);
    if (s.signals >= 0)
        close(s.signals);
    return err ? EXIT_FAILED : EXIT_DONE;
}
