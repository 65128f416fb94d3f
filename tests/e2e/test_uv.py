"""Callbacks of libuv as tasks, in unmodified programs: each is recorded with its function, and libuv works as
without piano."""
from __future__ import annotations

import json
import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import LIB, PIANO, PRELOAD, ROOT, Project, need
from events import compile, record


@pytest.fixture(autouse=True)
def libuv() -> None:
    need("gcc")
    found = subprocess.run(["gcc", "-xc", "-E", "-"], input=b"#include <uv.h>\n", capture_output=True)
    if found.returncode != 0:
        pytest.skip("libuv1-dev is not installed")


def perf_refused() -> str:
    """The reason why perf events are not available; empty if they are."""
    done = subprocess.run([PIANO, "doctor"], stdout=subprocess.PIPE, text=True)
    found = re.search(r"^(\S+)\s+perf events: (.*)", done.stdout, re.M)
    return "" if found and found.group(1) == "ok" else found.group(2) if found else "unknown"


def server(project: Project) -> Path:
    shutil.copytree(ROOT / "examples" / "uvserver", project.root / "uvserver", dirs_exist_ok=True)
    project.command("make", "-B", "-C", "uvserver", "CFLAGS=-O1 -g")
    return project.root / "uvserver" / "uvserver"


@pytest.mark.timing
def test_slow_callbacks_of_a_server_are_told_apart(project: Project) -> None:
    refused = perf_refused()
    if refused:
        pytest.skip(f"perf events are refused here: {refused}")
    program = server(project)
    alone = project.command(program, 12)
    recording = project.root / "r.rec"
    recording.unlink(missing_ok=True)
    done = project.piano("record", "--events", "--cpu", "-o", recording, "--", program, 12)
    assert done.out == alone.out and "12 turns, 12 echoed" in done.out
    report = json.loads(project.piano("report", "--polls", "--json", recording).out)
    tasks = {task["name"]: task for task in report["tasks"] if task["kind"] == "callback"}
    polls = {name: task["polls"] for name, task in tasks.items()}
    assert polls == {
        "timer on_compute": 6, "timer on_sleep": 5, "timer on_turn": 11, "connection on_connection": 1,
        "connect on_connected": 1, "read on_request": 13, "read on_echo": 12, "write on_echo_written": 12,
        "work add_up": 12, "after work on_added_up": 12, "close on_peer_closed": 1}
    compute, sleep = tasks["timer on_compute"], tasks["timer on_sleep"]
    assert compute["long"] == 6 and sleep["long"] == 5
    # Waiting for a CPU does not count as the callback's time.
    assert compute["on_cpu"] + compute["run_queue_ns"] / compute["total_ns"] > 0.7 and compute["on_cpu"] > 0.3
    assert sleep["on_cpu"] < 0.2
    blocks = [flag for flag in report["flags"] if flag["kind"] == "blocking"]
    assert [flag["subject"] for flag in blocks] == ["timer on_sleep"]
    for poll in report["longest"]:
        of = {kind: [[frame["function"] for frame in s["stack"]] for s in poll[kind]] for kind in ("stacks", "blocked")}
        if poll["task"] == "timer on_compute":
            assert poll["samples"] and all("on_compute" in stack for stack in of["stacks"]), poll
        elif poll["task"] == "timer on_sleep":
            assert any("on_sleep" in stack for stack in of["blocked"]), poll
    threads = {poll["task"]: poll["tid"] for poll in report["longest"]}
    assert threads["timer on_compute"] == threads["timer on_sleep"]
    assert sum(thread["polls"] for thread in report["threads"] if thread["tid"] != threads["timer on_sleep"]) == 12


@pytest.mark.skipif(platform.machine() != "x86_64", reason="has a byte of machine code in it")
def test_without_a_module_the_address_is_shown(project: Project) -> None:
    program = compile(project, """
        #include <sys/mman.h>
        #include <uv.h>
        int main(void) {
            uv_loop_t loop; uv_timer_t t;
            unsigned char *code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            code[0] = 0xc3;
            uv_loop_init(&loop);
            uv_timer_init(&loop, &t);
            uv_timer_start(&t, (uv_timer_cb)(void *)code, 1, 0);
            return uv_run(&loop, UV_RUN_DEFAULT);
        }
    """, "-luv")
    project.piano("record", "--events", "-o", "r.rec", "--", program)
    names = [task["name"] for task in project.json("report", "--polls", "r.rec")["tasks"] if task["kind"] == "callback"]
    assert len(names) == 1 and re.fullmatch(r"timer@0x[0-9a-f]+", names[0]), names


# libuv's behaviour for each kind of callback, one line each.
KINDS = r"""
#include <netdb.h>
#include <uv.h>
static uv_loop_t *loop;
static int serious = 1;
static void gone(uv_handle_t *h) { printf("closed %s\n", uv_handle_type_name(h->type)); }

static void idle_one(uv_idle_t *h) { puts("idle one"); uv_idle_stop(h); }
static void idle_two(uv_idle_t *h) { puts("idle two"); uv_idle_stop(h); uv_close((uv_handle_t *)h, gone); }
static void prepare(uv_prepare_t *h) { puts("prepare"); uv_close((uv_handle_t *)h, NULL); }
static void never_prepare(uv_prepare_t *h) { puts("wrong prepare"); }
static void check_it(uv_check_t *h) { puts("check"); uv_close((uv_handle_t *)h, gone); }
static void async(uv_async_t *h) { puts("async"); uv_close((uv_handle_t *)h, gone); }
static void on_signal(uv_signal_t *h, int n) { printf("signal %d\n", n == SIGUSR1); uv_close((uv_handle_t *)h, gone); }
static void timer_one(uv_timer_t *h) { puts("timer one"); }
static void timer_two(uv_timer_t *h) { static int n; printf("timer two %d\n", ++n); if (n == 3) uv_close((uv_handle_t *)h, NULL); }
static void polled(uv_poll_t *h, int status, int events)
{
    printf("poll %d %d\n", status, events);
    uv_close((uv_handle_t *)h, gone);
}

static void handles(void)
{
    static uv_idle_t i; static uv_prepare_t p; static uv_check_t c; static uv_async_t a; static uv_signal_t s, o;
    static uv_timer_t t; static uv_poll_t f;
    int fds[2];
    CHECK(pipe(fds) == 0 && write(fds[1], "x", 1) == 1);
    CHECK(uv_timer_init(loop, &t) == 0);
    CHECK(uv_timer_start(&t, NULL, 0, 0) == UV_EINVAL);
    CHECK(uv_timer_start(&t, timer_one, 0, 0) == 0);
    CHECK(uv_run(loop, UV_RUN_NOWAIT) == 0);
    CHECK(uv_timer_start(&t, timer_one, 1000000, 0) == 0);
    CHECK(uv_timer_start(&t, timer_two, 0, 1) == 0);
    CHECK(uv_timer_start(&t, NULL, 0, 0) == UV_EINVAL);
    CHECK(uv_idle_init(loop, &i) == 0 && uv_idle_start(&i, NULL) == UV_EINVAL);
    CHECK(uv_idle_start(&i, idle_one) == 0);
    CHECK(uv_idle_start(&i, idle_two) == 0); /* it stays with the first */
    uv_run(loop, UV_RUN_NOWAIT);
    CHECK(uv_idle_start(&i, idle_two) == 0);
    CHECK(uv_prepare_init(loop, &p) == 0 && uv_prepare_start(&p, prepare) == 0);
    CHECK(uv_prepare_start(&p, never_prepare) == 0);
    CHECK(uv_check_init(loop, &c) == 0 && uv_check_start(&c, check_it) == 0);
    CHECK(uv_async_init(loop, &a, async) == 0 && uv_async_send(&a) == 0);
    uv_run(loop, UV_RUN_NOWAIT);
    uv_run(loop, UV_RUN_DEFAULT);
    CHECK(uv_signal_init(loop, &s) == 0 && uv_signal_start(&s, on_signal, 0) == UV_EINVAL);
    CHECK(uv_signal_start(&s, on_signal, SIGUSR1) == 0 && raise(SIGUSR1) == 0);
    uv_run(loop, UV_RUN_DEFAULT);
    CHECK(uv_signal_init(loop, &o) == 0 && uv_signal_start_oneshot(&o, on_signal, SIGUSR1) == 0 && raise(SIGUSR1) == 0);
    uv_run(loop, UV_RUN_DEFAULT);
    CHECK(uv_poll_init(loop, &f, fds[0]) == 0 && uv_poll_start(&f, UV_READABLE, polled) == 0);
    uv_run(loop, UV_RUN_DEFAULT);
}

static void work(uv_work_t *r) { if (serious) __atomic_add_fetch((int *)r->data, 1, __ATOMIC_RELAXED); }
static void hold(uv_work_t *r) { uv_sem_wait(r->data); }
static void after(uv_work_t *r, int status) { printf("after work %s\n", status ? uv_err_name(status) : "0"); }

static void works(void)
{
    uv_work_t a = {0}, b = {0}, holds[4] = {{0}}, c = {0}, d = {0};
    uv_sem_t sem;
    int count = 0;
    a.data = b.data = c.data = d.data = &count;
    CHECK(uv_queue_work(loop, &a, NULL, after) == UV_EINVAL);
    CHECK(uv_queue_work(loop, &a, work, after) == 0);
    uv_run(loop, UV_RUN_DEFAULT);
    CHECK(uv_queue_work(loop, &a, work, after) == 0);
    uv_run(loop, UV_RUN_DEFAULT);
    CHECK(uv_queue_work(loop, &b, work, NULL) == 0);
    uv_run(loop, UV_RUN_DEFAULT);
    CHECK(uv_sem_init(&sem, 0) == 0);
    for (int i = 0; i < 4; i++) {
        holds[i].data = &sem;
        CHECK(uv_queue_work(loop, &holds[i], hold, NULL) == 0);
    }
    CHECK(uv_queue_work(loop, &c, work, after) == 0 && uv_cancel((uv_req_t *)&c) == 0);
    CHECK(uv_queue_work(loop, &d, work, NULL) == 0 && uv_cancel((uv_req_t *)&d) == 0);
    for (int i = 0; i < 4; i++)
        uv_sem_post(&sem);
    uv_run(loop, UV_RUN_DEFAULT);
    printf("worked %d\n", count);
}

static void alloc(uv_handle_t *h, size_t n, uv_buf_t *b) { static char room[65536]; *b = uv_buf_init(room, sizeof room); }
static void wrong_read(uv_stream_t *s, ssize_t n, const uv_buf_t *b) { puts("wrong read"); }
static void written(uv_write_t *r, int status) { printf("written %d\n", status); }
static void closed_pair(uv_shutdown_t *r, int status) { printf("shutdown %d\n", status); }
static void peer_read(uv_stream_t *s, ssize_t n, const uv_buf_t *b)
{
    if (n > 0)
        printf("read %.*s\n", (int)n, b->base);
    else if (n < 0) {
        printf("read %s\n", uv_err_name((int)n));
        uv_close((uv_handle_t *)s, gone);
        uv_close(s->data, gone);
    }
}
static void connection(uv_stream_t *server, int status)
{
    static uv_pipe_t peer;
    CHECK(status == 0 && uv_pipe_init(loop, &peer, 0) == 0 && uv_accept(server, (uv_stream_t *)&peer) == 0);
    peer.data = server;
    puts("connection");
    CHECK(uv_read_start((uv_stream_t *)&peer, alloc, peer_read) == 0);
    int again = uv_read_start((uv_stream_t *)&peer, alloc, wrong_read);
    CHECK(again == UV_EALREADY || again == 0); /* 0 because libuv 1.40 uses the new callback */
    CHECK(again == UV_EALREADY || uv_read_start((uv_stream_t *)&peer, alloc, peer_read) == 0);
}
static void shut(uv_write_t *r, int status)
{
    static uv_shutdown_t s;
    printf("second written %d\n", status);
    CHECK(uv_shutdown(&s, r->handle, closed_pair) == 0);
    CHECK(uv_shutdown(&s, r->handle, closed_pair) == UV_ENOTCONN);
}
static void connected(uv_connect_t *r, int status)
{
    static uv_write_t a, b, c;
    uv_buf_t x = uv_buf_init("x", 1), y = uv_buf_init("y", 1), z = uv_buf_init("z", 1);
    printf("connected %s\n", status ? uv_err_name(status) : "0");
    if (status) {
        uv_close((uv_handle_t *)r->handle, gone);
        return;
    }
    CHECK(uv_write(&a, r->handle, &x, 1, written) == 0);
    CHECK(uv_write(&c, r->handle, &z, 1, NULL) == 0);
    CHECK(uv_write2(&b, r->handle, &y, 1, NULL, shut) == 0);
}
static void refused(uv_connect_t *r, int status)
{
    printf("tcp %s\n", uv_err_name(status));
    CHECK(uv_tcp_close_reset((uv_tcp_t *)r->handle, gone) == 0);
}

static void streams(void)
{
    static uv_pipe_t server, client, lost; static uv_connect_t r, l, t; static uv_tcp_t tcp;
    struct sockaddr_in to;
    CHECK(uv_pipe_init(loop, &server, 0) == 0 && uv_pipe_bind(&server, "socket") == 0);
    CHECK(uv_listen((uv_stream_t *)&server, 4, connection) == 0);
    CHECK(uv_pipe_init(loop, &client, 0) == 0 && uv_pipe_init(loop, &lost, 0) == 0);
    uv_pipe_connect(&r, &client, "socket", connected);
    uv_run(loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&client, gone);
    uv_pipe_connect(&l, &lost, "nowhere", connected);
    uv_run(loop, UV_RUN_DEFAULT);
    CHECK(uv_tcp_init(loop, &tcp) == 0 && uv_ip4_addr("127.0.0.1", 1, &to) == 0);
    CHECK(uv_tcp_connect(&t, &tcp, (void *)&to, refused) == 0);
    uv_run(loop, UV_RUN_DEFAULT);
}

static uv_udp_t in, out;
static void received(uv_udp_t *h, ssize_t n, const uv_buf_t *b, const struct sockaddr *from, unsigned flags)
{
    if (!from)
        return;
    printf("received %.*s %d\n", (int)n, b->base, flags);
    uv_close((uv_handle_t *)h, gone);
    uv_close((uv_handle_t *)&out, gone);
}
static void wrong_received(uv_udp_t *h, ssize_t n, const uv_buf_t *b, const struct sockaddr *from, unsigned flags)
{
    puts("wrong receive");
}
static void sent(uv_udp_send_t *r, int status) { printf("sent %d\n", status); }
static void resolved(uv_getaddrinfo_t *r, int status, struct addrinfo *a)
{
    printf("resolved %d %d\n", status, a && a->ai_family == AF_INET);
    uv_freeaddrinfo(a);
}

static void net(void)
{
    uv_udp_send_t r; uv_getaddrinfo_t g, now;
    struct sockaddr_in a;
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    int len = sizeof a;
    uv_buf_t b = uv_buf_init("datagram", 8);
    CHECK(uv_udp_init(loop, &in) == 0 && uv_udp_init(loop, &out) == 0 && uv_ip4_addr("127.0.0.1", 0, &a) == 0);
    CHECK(uv_udp_bind(&in, (void *)&a, 0) == 0 && uv_udp_getsockname(&in, (void *)&a, &len) == 0);
    CHECK(uv_udp_recv_start(&in, alloc, received) == 0);
    CHECK(uv_udp_recv_start(&in, alloc, wrong_received) == UV_EALREADY);
    CHECK(uv_udp_send(&r, &out, &b, 1, (void *)&a, sent) == 0);
    uv_run(loop, UV_RUN_DEFAULT);
    CHECK(uv_getaddrinfo(loop, &g, resolved, NULL, NULL, NULL) == UV_EINVAL);
    CHECK(uv_getaddrinfo(loop, &g, resolved, "127.0.0.1", "80", &hints) == 0);
    CHECK(uv_getaddrinfo(loop, &now, NULL, "127.0.0.1", "80", &hints) == 0);
    uv_freeaddrinfo(now.addrinfo);
    uv_run(loop, UV_RUN_DEFAULT);
}

static void fs_closed(uv_fs_t *r) { printf("fs close %d\n", (int)r->result); uv_fs_req_cleanup(r); }
static void fs_stat(uv_fs_t *r)
{
    int fd = (int)(intptr_t)r->data;
    printf("fs stat %d %d\n", (int)r->result, (int)r->statbuf.st_size);
    uv_fs_req_cleanup(r);
    CHECK(uv_fs_close(loop, r, fd, fs_closed) == 0);
}
static void fs_read(uv_fs_t *r)
{
    printf("fs read %d\n", (int)r->result);
    uv_fs_req_cleanup(r);
    CHECK(uv_fs_fstat(loop, r, (int)(intptr_t)r->data, fs_stat) == 0);
}
static void fs_written(uv_fs_t *r)
{
    static char room[8];
    uv_buf_t b = uv_buf_init(room, 8);
    printf("fs write %d\n", (int)r->result);
    uv_fs_req_cleanup(r);
    CHECK(uv_fs_read(loop, r, (int)(intptr_t)r->data, &b, 1, 0, fs_read) == 0);
}
static void fs_opened(uv_fs_t *r)
{
    uv_buf_t b = uv_buf_init("text", 4);
    printf("fs open %d\n", r->result >= 0);
    r->data = (void *)(intptr_t)r->result;
    uv_fs_req_cleanup(r);
    CHECK(uv_fs_write(loop, r, (int)(intptr_t)r->data, &b, 1, 0, fs_written) == 0);
}
static void fs_missing(uv_fs_t *r) { printf("fs %s\n", uv_err_name((int)r->result)); uv_fs_req_cleanup(r); }
static void changed(uv_fs_poll_t *h, int status, const uv_stat_t *a, const uv_stat_t *b)
{
    printf("changed %s\n", uv_err_name(status));
    uv_close((uv_handle_t *)h, gone);
}

static void files(void)
{
    uv_fs_t r, s, now; uv_fs_poll_t p;
    CHECK(uv_fs_open(loop, &r, "file", O_RDWR | O_CREAT | O_TRUNC, 0600, fs_opened) == 0);
    CHECK(uv_fs_stat(loop, &now, "nowhere", NULL) == UV_ENOENT);
    uv_run(loop, UV_RUN_DEFAULT);
    CHECK(uv_fs_lstat(loop, &s, "nowhere", fs_missing) == 0);
    uv_run(loop, UV_RUN_DEFAULT);
    CHECK(uv_fs_stat(loop, &s, "nowhere", fs_missing) == 0);
    uv_run(loop, UV_RUN_DEFAULT);
    CHECK(uv_fs_poll_init(loop, &p) == 0 && uv_fs_poll_start(&p, changed, "nowhere", 1) == 0);
    uv_run(loop, UV_RUN_DEFAULT);
}

int main(void)
{
    loop = uv_default_loop();
    handles();
    works();
    streams();
    net();
    files();
    CHECK(uv_loop_close(loop) == 0);
    return 0;
}
"""


def test_libuv_does_what_it_does_without_piano(project: Project) -> None:
    program = compile(project, KINDS, "-luv")
    alone = project.command(program)
    (project.root / "socket").unlink(missing_ok=True)
    r, done = record(project, program)
    for timers in (True, False):  # the machine decides when a timer fires between the others
        said, meant = ([line for line in text.splitlines() if line.startswith("timer") == timers]
                       for text in (done.out, alone.out))
        assert said == meant
    assert done.err == alone.err
    assert "wrong" not in done.out and "worked 3\n" in done.out
    begins, ends = r.of("poll_begin"), r.of("poll_end")
    assert len(begins) == len(ends)
    kinds: dict[str, int] = {}
    for event in begins:
        kind = r.name(event.fields[1]).split("@0x")[0]
        kinds[kind] = kinds.get(kind, 0) + 1
    said = done.out.splitlines()
    assert kinds == {"timer": 4, "idle": 2, "prepare": 1, "check": 1, "async": 1, "signal": 2, "poll": 1,
                     "work": 7, "after work": 3, "connection": 1, "connect": 3, "write": 2, "shutdown": 1,
                     "read": kinds["read"], "udp recv": kinds["udp recv"], "udp send": 1, "getaddrinfo": 1, "fs": 7,
                     "close": sum(line.startswith("closed ") for line in said)}


MANY = r"""
#include <uv.h>
static int called, closed;
static void gone(uv_handle_t *h) { closed++; } /* not freed, so that others get other addresses */
static void timer(uv_timer_t *h) { called++; uv_close((uv_handle_t *)h, gone); }

int main(int argc, char **argv)
{
    for (int round = 0; round < atoi(argv[2]); round++) {
        for (int i = 0; i < atoi(argv[1]); i++) {
            uv_timer_t *t = malloc(sizeof *t);
            CHECK(uv_timer_init(uv_default_loop(), t) == 0 && uv_timer_start(t, timer, 0, 0) == 0);
        }
        uv_run(uv_default_loop(), UV_RUN_DEFAULT);
    }
    printf("%d %d\n", called, closed);
    return 0;
}
"""


def test_callbacks_beyond_the_table_are_called_and_counted(project: Project) -> None:
    r, done = record(project, compile(project, MANY, "-luv"), 80000, 1)
    assert done.out == "80000 80000\n"
    assert {r.name(e.fields[0]) for e in r.of("value")} == {"libuv callbacks beyond the table"}
    assert len(r.of("poll_begin")) + max(e.fields[1] // 2 for e in r.of("value")) == 2 * 80000


def test_closed_handles_free_their_table_entries(project: Project) -> None:
    r, done = record(project, compile(project, MANY, "-luv"), 10000, 8)
    assert done.out == "80000 80000\n"
    assert len(r.of("poll_begin")) == 2 * 80000 and not r.of("value")


def test_libuv_of_a_library_that_is_loaded_later(project: Project) -> None:
    compile(project, r"""
        #include <uv.h>
        static void timer(uv_timer_t *h) { puts("timer"); uv_close((uv_handle_t *)h, NULL); }
        void go(void)
        {
            static uv_timer_t t;
            CHECK(uv_timer_init(uv_default_loop(), &t) == 0 && uv_timer_start(&t, timer, 1, 0) == 0);
            uv_run(uv_default_loop(), UV_RUN_DEFAULT);
            CHECK(uv_loop_close(uv_default_loop()) == 0);
        }
        """, "-shared", "-fPIC", "-luv", name="plugin.so")
    program = compile(project, r"""
        #include <dlfcn.h>
        int main(void)
        {
            for (int i = 0; i < 3; i++) {
                void *plugin = dlopen("./plugin.so", RTLD_NOW | RTLD_LOCAL);
                CHECK(plugin);
                ((void (*)(void))dlsym(plugin, "go"))();
                dlclose(plugin);
            }
            return 0;
        }
        """)
    r, done = record(project, program)
    assert done.out == "timer\n" * 3
    assert len(r.of("poll_begin")) == len(r.of("poll_end")) == 3
    quiet = project.command(program, env={"LD_PRELOAD": PRELOAD})
    assert quiet.out == done.out


LOOPS = r"""
#include <uv.h>
enum { THREADS = 4, ROUNDS = 50, WORKS = 64 };
struct job { uv_work_t request; int done; };
static void work(uv_work_t *r) { ((struct job *)r)->done++; }
static void after(uv_work_t *r, int status) { CHECK(status == 0 && ((struct job *)r)->done == 1); ++*(int *)r->data; free(r); }
static void thread(void *arg)
{
    uv_loop_t loop;
    CHECK(uv_loop_init(&loop) == 0);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < WORKS; i++) {
            struct job *job = calloc(1, sizeof *job);
            job->request.data = arg;
            CHECK(uv_queue_work(&loop, &job->request, work, after) == 0);
        }
        uv_run(&loop, UV_RUN_DEFAULT);
    }
    CHECK(uv_loop_close(&loop) == 0);
}

int main(void)
{
    uv_thread_t threads[THREADS];
    int counts[THREADS] = {0};
    for (int i = 0; i < THREADS; i++)
        CHECK(uv_thread_create(&threads[i], thread, &counts[i]) == 0);
    for (int i = 0; i < THREADS; i++)
        uv_thread_join(&threads[i]);
    for (int i = 0; i < THREADS; i++)
        CHECK(counts[i] == ROUNDS * WORKS);
    return 0;
}
"""


def test_loops_in_many_threads(project: Project) -> None:
    r, _ = record(project, compile(project, LOOPS, "-luv"))
    kinds = [r.name(e.fields[1]).split("@")[0] for e in r.of("poll_begin")]
    assert kinds.count("work") == kinds.count("after work") == 4 * 50 * 64
    assert len(kinds) == len(r.of("poll_end")) == 2 * 4 * 50 * 64 and not r.of("value")


def test_events_alone_are_enough_for_names(project: Project) -> None:
    """The module of a callback is recorded with its events, also for libraries that are loaded late."""
    library = """
        #include <uv.h>
        void late_tick(uv_timer_t *t) { (void)t; }
    """
    program = compile(project, """
        #include <dlfcn.h>
        #include <uv.h>
        static void own_tick(uv_timer_t *t) { (void)t; }
        int main(void) {
            uv_loop_t loop; uv_timer_t a, b;
            uv_loop_init(&loop);
            uv_timer_init(&loop, &a); uv_timer_init(&loop, &b);
            uv_timer_start(&a, own_tick, 1, 0);
            uv_run(&loop, UV_RUN_DEFAULT);
            void *lib = dlopen("./liblate.so", RTLD_NOW);
            uv_timer_start(&b, (uv_timer_cb)dlsym(lib, "late_tick"), 1, 0);
            uv_run(&loop, UV_RUN_DEFAULT);
            return lib == NULL;
        }
    """, "-luv", "-ldl")
    project.write({"late.c": library})
    project.command("gcc", "-O1", "-g", "-shared", "-fPIC", "late.c", "-o", "liblate.so")
    recording = project.root / "alone.rec"
    project.piano("record", "--events", "-o", recording, "--", program)
    tasks = project.json("report", "--polls", recording)["tasks"]
    assert {"timer own_tick", "timer late_tick"} <= {task["name"] for task in tasks}, tasks
