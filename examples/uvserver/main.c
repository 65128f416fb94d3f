/* A libuv server with two faults: one callback computes for 50 ms, and one sleeps for 50 ms. The server
 * answers no other client in that time.
 *
 *   uvserver [TURNS]
 *
 * It is an echo server on a port of 127.0.0.1, which it prints, and its own client. A timer starts a turn, which sends
 * one line, waits for the echo, and lets a thread of the pool add up its bytes. It ends after TURNS (10). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uv.h>

enum { SLOW_MS = 50, LINE = 64 };

static uv_loop_t *loop;
static uv_tcp_t server, client;
static uv_timer_t turn_timer, compute_timer, sleep_timer;
static uv_work_t work;
static int turns = 10, turn, echoed;
static char line[LINE], back[LINE];
static size_t sent, received;
static unsigned long sum;

static void check(int err, const char *what)
{
    if (err < 0) {
        fprintf(stderr, "uvserver: %s: %s\n", what, uv_strerror(err));
        exit(1);
    }
}

/* ---- the server ---- */

struct reply {
    uv_write_t request;
    char *data;
};

static void alloc_buffer(uv_handle_t *handle, size_t size, uv_buf_t *buf)
{
    (void)handle;
    *buf = uv_buf_init(malloc(size), (unsigned)size);
}

static void on_peer_closed(uv_handle_t *peer)
{
    free(peer);
}

static void on_echo_written(uv_write_t *request, int status)
{
    struct reply *reply = (struct reply *)request;
    check(status, "echo");
    free(reply->data);
    free(reply);
}

static void on_request(uv_stream_t *peer, ssize_t count, const uv_buf_t *buf)
{
    if (count <= 0) {
        free(buf->base);
        if (count < 0)
            uv_close((uv_handle_t *)peer, on_peer_closed);
        return;
    }
    struct reply *reply = malloc(sizeof(*reply));
    uv_buf_t out = uv_buf_init(buf->base, (unsigned)count);
    reply->data = buf->base;
    check(uv_write(&reply->request, peer, &out, 1, on_echo_written), "write");
}

static void on_connection(uv_stream_t *listener, int status)
{
    uv_tcp_t *peer = malloc(sizeof(*peer));
    check(status, "connection");
    check(uv_tcp_init(loop, peer), "tcp");
    check(uv_accept(listener, (uv_stream_t *)peer), "accept");
    check(uv_read_start((uv_stream_t *)peer, alloc_buffer, on_request), "read");
}

/* ---- the slow callbacks ---- */

static void on_compute(uv_timer_t *timer)
{
    struct timespec from, now;
    volatile unsigned long x = 1;
    (void)timer;
    clock_gettime(CLOCK_MONOTONIC, &from);
    do {
        for (int i = 0; i < 10000; i++)
            x = x * 6364136223846793005UL + 1442695040888963407UL;
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - from.tv_sec) * 1000 + (now.tv_nsec - from.tv_nsec) / 1000000 < SLOW_MS);
}

static void on_sleep(uv_timer_t *timer)
{
    struct timespec time = {0, SLOW_MS * 1000000L};
    (void)timer;
    nanosleep(&time, NULL);
}

/* ---- its client, and the turns ---- */

static void on_turn(uv_timer_t *timer);

static void add_up(uv_work_t *request)
{
    (void)request;
    for (int round = 0; round < 100000; round++)
        for (size_t i = 0; i < received; i++)
            sum += (unsigned char)back[i];
}

static void finish(void)
{
    uv_close((uv_handle_t *)&client, NULL);
    uv_close((uv_handle_t *)&server, NULL);
    uv_close((uv_handle_t *)&turn_timer, NULL);
    uv_close((uv_handle_t *)&compute_timer, NULL);
    uv_close((uv_handle_t *)&sleep_timer, NULL);
}

static void on_added_up(uv_work_t *request, int status)
{
    (void)request;
    check(status, "work");
    if (++turn == turns) {
        finish();
        return;
    }
    check(uv_timer_start(&turn_timer, on_turn, 1, 0), "turn timer");
    check(uv_timer_start(turn % 2 ? &compute_timer : &sleep_timer, turn % 2 ? on_compute : on_sleep,
                         1, 0),
          "slow timer");
}

static void on_echo(uv_stream_t *stream, ssize_t count, const uv_buf_t *buf)
{
    (void)stream;
    check((int)count, "read of the client");
    memcpy(back + received, buf->base, (size_t)count);
    received += (size_t)count;
    free(buf->base);
    if (received < sent)
        return;
    echoed += memcmp(line, back, sent) == 0;
    check(uv_queue_work(loop, &work, add_up, on_added_up), "work");
}

static void on_turn(uv_timer_t *timer)
{
    static uv_write_t request;
    (void)timer;
    received = 0;
    sent = (size_t)snprintf(line, sizeof(line), "turn %d\n", turn);
    uv_buf_t out = uv_buf_init(line, (unsigned)sent);
    check(uv_write(&request, (uv_stream_t *)&client, &out, 1, NULL), "write of the client");
}

static void on_connected(uv_connect_t *request, int status)
{
    check(status, "connect");
    check(uv_read_start(request->handle, alloc_buffer, on_echo), "read");
    on_turn(&turn_timer);
}

int main(int argc, char **argv)
{
    static uv_connect_t request;
    struct sockaddr_in address;
    int len = sizeof(address);
    loop = uv_default_loop();
    if (argc > 1)
        turns = atoi(argv[1]);
    if (turns < 1)
        turns = 1;
    check(uv_ip4_addr("127.0.0.1", 0, &address), "address");
    check(uv_tcp_init(loop, &server), "tcp");
    check(uv_tcp_bind(&server, (const struct sockaddr *)&address, 0), "bind");
    check(uv_listen((uv_stream_t *)&server, 16, on_connection), "listen");
    check(uv_tcp_getsockname(&server, (struct sockaddr *)&address, &len), "port");
    fprintf(stderr, "listening on 127.0.0.1:%d\n", ntohs(address.sin_port));
    check(uv_timer_init(loop, &turn_timer), "timer");
    check(uv_timer_init(loop, &compute_timer), "timer");
    check(uv_timer_init(loop, &sleep_timer), "timer");
    check(uv_tcp_init(loop, &client), "tcp");
    check(uv_tcp_connect(&request, &client, (const struct sockaddr *)&address, on_connected),
          "connect");
    uv_run(loop, UV_RUN_DEFAULT);
    check(uv_loop_close(loop), "end");
    printf("%d turns, %d echoed, sum %lu\n", turn, echoed, sum);
    return echoed == turns ? 0 : 1;
}
