"""Unmodified servers and worker pools under `piano record` with all instruments: long turns are named with the function that
used the time, and the servers' answers and ends are unchanged."""
from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from conftest import BURN, PIANO, Project, need, nginx_log
from events import compile
from test_export_trace import validate
from test_heap_programs import Server
from test_uv import perf_refused

MS = 10**6


@pytest.fixture
def perf() -> None:
    refused = perf_refused()
    if refused:
        pytest.skip(f"perf events are refused here: {refused}")


class Running(Server):
    """Runs a server that listens at a socket of the project, alone or recorded with FLAGS."""

    def __init__(self, project: Project, *command: Any, listens: str, flags: tuple | None = None, name: str = "server.rec"):
        self.project, self.path = project, project.root / name
        self.socket = project.root / listens
        for old in (self.path, self.socket):
            old.unlink(missing_ok=True)
        self.log = open(project.root / "server.log", "w+b")
        words = [] if flags is None else [PIANO, "record", *flags, "-o", self.path, "--"]
        self.process = subprocess.Popen([*words, *map(str, command)], cwd=project.root, env=project.env,
                                        stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                        start_new_session=True)
        self.wait_for(self.socket)

    def stop(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(number)
        status = self.process.wait(30)
        assert status == 0, f"status {status}: {self.text()}"


def polls(project: Project, path: Path, *flags: str) -> dict[str, Any]:
    return project.json("report", path, "--polls", *flags)


def opens(project: Project, path: Path) -> dict[str, Any]:
    """A recording without losses; its polls."""
    data = polls(project, path)
    assert data["missing"]["gaps"] == data["missing"]["bad_numbers"] == 0, data["missing"]
    assert not any(data["dropped"].values()), data["dropped"]
    assert data["events"]["count"] > 0 and data["events"]["unknown"] == data["events"]["unreadable_fields"] == 0
    project.piano("report", path)
    trace = project.root / "trace.json"
    project.piano("export", path, "--format", "chrome", "-o", trace, "--force")
    validate(json.loads(trace.read_text()))
    return data


def names(stack: dict[str, Any]) -> list[str]:
    return [frame["function"] for frame in stack["stack"]]


def burned_by(poll: dict[str, Any], function: str) -> float:
    """The number of CPU samples in POLL with FUNCTION on their stack."""
    inside = sum(s["samples"] for s in poll["stacks"] if function in names(s))
    return inside / poll["samples"] if poll["samples"] else 0.0


def ran(poll: dict[str, Any]) -> float:
    """The share of its time that a poll ran or waited for a CPU, because other programs may have the CPU."""
    return poll["on_cpu"] + poll["run_queue_ns"] / poll["duration_ns"]


# ---- causes of long turns ----

def sections(path: str) -> str:
    return subprocess.run([need("readelf"), "-SW", path], capture_output=True, text=True).stdout


class Redis(Running):
    def __init__(self, project: Project, flags: tuple | None = None):
        super().__init__(project, need("redis-server"), "--port", 0, "--unixsocket", project.root / "redis.sock",
                         "--save", "", "--dir", project.root, listens="redis.sock", flags=flags)

    def ask(self, *words: Any, stdin: str | None = None) -> str:
        return self.project.command(need("redis-cli"), "-s", self.socket, *words, stdin=stdin).out


SLOW = {"sortCommandGeneric": ("sort", "numbers", "limit", 0, 1), "keysCommand": ("keys", "*none*"),
        "evalGenericCommand": ("eval", "local x = 0; for i = 1, 12000000 do x = x + i % 7 end; return x", 0)}


@pytest.mark.timing
def test_slow_commands_of_redis_are_found(project: Project, perf: None) -> None:
    """redis itself knows how long each took: its slow log."""
    fill = "".join(f"rpush numbers {' '.join(str(n * 7919 % 1000003) for n in range(at, at + 500))}\n"
                   f"mset {' '.join(f'a-key-of-some-length:{n} {n}' for n in range(at, at + 500))}\n"
                   for at in range(0, 300_000, 500))
    with Redis(project, flags=()) as up:
        up.ask(stdin=fill)
        assert up.ask("dbsize") == "300001\n"
        up.ask("slowlog", "reset")
        load = subprocess.Popen([need("redis-benchmark"), "-s", up.socket, "-q", "-l", "-c", "10", "-t", "get,set"],
                                stdout=subprocess.DEVNULL)
        try:
            for command in SLOW.values():
                for _ in range(3):
                    up.ask(*command)
            assert load.poll() is None
        finally:
            load.kill()
            load.wait()
        log = up.ask("--json", "slowlog", "get", 100)
        up.stop()
    logged = json.loads(log)
    data = polls(project, up.path, "--all")
    loop = "epoll loop of redis-server"
    assert all(poll["task"].startswith(loop) for poll in data["longest"][:9])
    flag, = (flag for flag in data["flags"] if flag["kind"] == "long-polls")
    slow = sum(1 for entry in logged if entry[2] > 50_000)
    assert flag["count"] >= slow >= 6 and "epoll loop of redis-server" in flag["text"], logged
    program = shutil.which("redis-server")
    for function, command in SLOW.items():
        took = sorted(entry[2] * 1000 for entry in logged if entry[3][:2] == [str(w) for w in command[:2]])
        assert len(took) == 3, logged
        found = sorted((poll for poll in data["longest"] if burned_by(poll, function) > 0.6),
                       key=lambda poll: poll["duration_ns"])[-3:]
        assert len(found) == 3, (function, took, [(p["duration_ns"], p["samples"]) for p in data["longest"][:12]])
        for poll, known in zip(found, took):
            assert poll["duration_ns"] > 0.999 * known and ran(poll) > 0.7, (function, known, poll)
        assert min(poll["duration_ns"] / known for poll, known in zip(found, took)) < 1.1
        frame = next(f for s in found[0]["stacks"] for f in s["stack"] if f["function"] == function)
        assert frame["module"] == Path(program).resolve().name
        if ".debug_info" not in sections(program):
            assert frame["file"] is None, "with dynamic symbols only"
    text = project.piano("report", up.path, "--polls").out
    for function in ("sortCommandGeneric", "keysCommand"):
        assert re.search(rf"(CPU +\d+ samples?|all of it in) .*{function}", text), text


PAGES = BURN + r"""
enum { CLIENTS = 8, REQUESTS = 400, SLOW = 80 };

static __attribute__((noinline)) void compress_block(void)
{
    BURN(40000000); /* here */
}
__attribute__((noinline)) void render_page(void)
{
    compress_block();
    __asm__ volatile("");
}
static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int sockets[CLIENTS][2];
static void *client(void *arg)
{
    for (int i = 1; i <= REQUESTS; i++) {
        int fd = sockets[i % CLIENTS][1];
        char c = i % SLOW ? 'f' : 's';
        CHECK(write(fd, &c, 1) == 1 && read(fd, &c, 1) == 1);
    }
    close(sockets[0][1]);
    return NULL;
}

int main(void)
{
    struct epoll_event e = {.events = EPOLLIN};
    pthread_t thread;
    int poller = epoll_create1(0);
    for (int i = 0; i < CLIENTS; i++) {
        CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets[i]) == 0);
        e.data.fd = sockets[i][0];
        CHECK(epoll_ctl(poller, EPOLL_CTL_ADD, sockets[i][0], &e) == 0);
    }
    pthread_create(&thread, NULL, client, NULL);
    for (;;) {
        char c;
        CHECK(epoll_wait(poller, &e, 1, -1) == 1);
        int64_t from = now();
        if (read(e.data.fd, &c, 1) != 1)
            break;
        if (c == 's') {
            render_page();
            printf("%lld\n", (long long)(now() - from));
        }
        CHECK(write(e.data.fd, &c, 1) == 1);
    }
    pthread_join(thread, NULL);
    return 0;
}
"""


@pytest.mark.timing
@pytest.mark.parametrize("debug", [False, True], ids=["stripped", "debug"])
def test_slow_turns_with_and_without_symbols(project: Project, perf: None, debug: bool) -> None:
    (project.root / "x.rec").unlink(missing_ok=True)
    source = "#include <sys/socket.h>\n" + PAGES
    program = compile(project, source, "-rdynamic", "-fno-optimize-sibling-calls", *(["-g"] if debug else []), name="pages")
    if not debug:
        project.command(need("strip"), program)
    done = project.piano("record", "-o", "x.rec", "--", program)
    took = [int(line) for line in done.out.split()]
    assert len(took) == 5
    data = polls(project, project.root / "x.rec", "--top", "5")
    assert {poll["task"] for poll in data["longest"]} == {data["tasks"][0]["name"]}
    assert data["tasks"][0]["name"].startswith("epoll loop of pages") and data["tasks"][0]["polls"] in (400, 401)
    line = next(i for i, text in enumerate((project.root / "pages.c").read_text().splitlines(), 1) if "/* here */" in text)
    ratios = []
    for poll, known in zip(data["longest"], sorted(took, reverse=True)):
        ratios.append(poll["duration_ns"] / known)
        assert burned_by(poll, "render_page") > 0.8 and ran(poll) > 0.8, poll
        frames = next(s["stack"] for s in poll["stacks"] if "render_page" in names(s))
        at = [f["function"] for f in frames].index("render_page")
        assert at == 1 and all(f["module"] == "pages" for f in frames[:2])
        if debug:
            assert frames[0]["function"] == "compress_block" and frames[0]["line"] == line
            assert [Path(f["file"]).name for f in frames[:2]] == ["pages.c", "pages.c"]
        else:
            assert re.fullmatch(r"pages\+0x[0-9a-f]+", frames[0]["function"]), "a name that is not its own is worse than none"
            assert frames[0]["file"] is None and frames[1]["file"] is None
    assert all(ratio > 0.999 for ratio in ratios) and min(ratios) < 1.1, ratios


# ---- side effects ----

def test_redis_answers_as_without(project: Project) -> None:
    script = ["set a 1", "incr a", "get a", "rpush l 3 1 2", "sort l", "lrange l 0 -1", "hset h f v", "hgetall h", "zadd z 2 b 1 a",
              "zrange z 0 -1", "eval \"return redis.call('get', 'a')\" 0", "expire a 100", "persist a", "multi", "incr a",
              "exec", "get nothing", "lpush a 1", "blpop l 1", "dbsize", "nonsense"] * 20
    answers = []
    for flags in (None, ()):
        with Redis(project, flags=flags) as up:
            up.ask("flushall")
            answers.append(up.ask(stdin="\n".join(script)))
            assert up.ask("save") == "OK\n" and "started" in up.ask("bgsave")  # in a child
            up.stop()
    assert answers[0] == answers[1] and answers[0].count("unknown command") == 20
    data = opens(project, up.path)
    assert data["polls"] >= len(script)


NGINX = """
    daemon off; master_process on; worker_processes 2; pid ROOT/nginx.pid; error_log ROOT/error.log;
    events { worker_connections 64; }
    http {
        access_log off; gzip on; gzip_min_length 1; gzip_types text/plain; server_tokens off;
        client_body_temp_path ROOT/body; proxy_temp_path ROOT/proxy; fastcgi_temp_path ROOT/fastcgi;
        uwsgi_temp_path ROOT/uwsgi; scgi_temp_path ROOT/scgi;
        server {
            listen unix:ROOT/nginx.sock; root ROOT/www; default_type text/plain;
            location /moved { return 301 /page.txt; }
            location /proxied { proxy_pass http://unix:ROOT/nginx.sock:/page.txt; }
        }
    }
"""


def test_nginx_is_recorded(project: Project) -> None:
    root, curl = project.root, need("curl")
    (root / "www").mkdir()
    (root / "www" / "page.txt").write_text(" ".join(str(n * 7919 % 10007) for n in range(20000)))
    for folder in (root, root / "www", root.parent, root.parent.parent):
        folder.chmod(0o755)
    text = ("user root;" if os.getuid() == 0 else "") + NGINX.replace("ROOT", str(root))
    project.write({"nginx.conf": text})
    urls = [f"http://x/{path}" for path in ("page.txt", "moved", "proxied", "nothing", "../etc/passwd")] * 10

    def responses() -> list[str]:
        def get(url: str) -> str:
            done = project.command(curl, "-s", "-i", "--compressed", "--unix-socket", root / "nginx.sock", url)
            return "".join(line for line in done.out.splitlines(True) if not re.match("(?i)date:", line))
        with ThreadPoolExecutor(4) as pool:
            return list(pool.map(get, urls))

    got = []
    for flags in (None, ("--children",)):
        with Running(project, need("nginx"), "-p", root, "-c", root / "nginx.conf", *nginx_log(root / "error.log"),
                     listens="nginx.sock", flags=flags) as up:
            got.append(responses())
            up.stop(signal.SIGQUIT)
    assert got[0] == got[1]
    assert sorted({r.split()[1] for r in got[1]}) == ["200", "301", "400", "404"] or \
        sorted({r.split()[1] for r in got[1]}) == ["200", "301", "404"]
    project.piano("report", up.path)
    workers = [opens(project, path) for path in root.glob("server.rec-*")]
    assert len(workers) == 2
    turns = [task["polls"] for worker in workers for task in worker["tasks"] if task["name"].startswith("epoll loop of nginx")]
    assert sum(turns) >= len(urls)


def talk(path: Path, lines: list[bytes]) -> bytes:
    """The answers of the server at PATH to LINES."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(30)
        s.connect(str(path))
        s.sendall(b"".join(line + b"\r\n" for line in lines) + b"quit\r\n")
        said = b""
        while chunk := s.recv(65536):
            said += chunk
        return said


def test_memcached_is_recorded(project: Project) -> None:
    def session(number: int) -> list[bytes]:
        lines = []
        for n in range(40):
            key = b"key:%d:%d" % (number, n)
            lines += [b"set %s 0 0 %d" % (key, 100 + n), b"v" * (100 + n), b"get %s" % key, b"append %s 0 0 3" % key, b"end",
                      b"add %s 0 0 1" % key, b"x", b"get %s nothing" % key, b"touch %s 100" % key]
        return lines + [b"set c%d 0 0 1" % number, b"1", b"incr c%d 41" % number, b"delete key:%d:0" % number,
                        b"get key:%d:0" % number, b"nonsense", b"version"]

    user = ("-u", "root") if os.getuid() == 0 else ()
    said = []
    for flags in (None, ()):
        with Running(project, need("memcached"), "-s", project.root / "mc.sock", "-t", 4, "-m", 16, *user, listens="mc.sock",
                     flags=flags) as up:
            with ThreadPoolExecutor(8) as pool:
                said.append(list(pool.map(lambda n: talk(up.socket, session(n)), range(32))))
            up.stop()
    assert said[0] == said[1]
    assert all(b"STORED\r\n42\r\nDELETED\r\nEND\r\nERROR\r\nVERSION" in s for s in said[1])
    data = opens(project, up.path)
    loops = [thread for thread in data["threads"] if thread["loop"] == "epoll"]
    assert len(loops) >= 4 and sum(thread["polls"] for thread in loops) >= 32


POOL = r"""
enum { WORKERS = 6, JOBS = 3000, ROOM = 16 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t not_empty = PTHREAD_COND_INITIALIZER, not_full = PTHREAD_COND_INITIALIZER;
static int queue[ROOM], first, count, over;
static long waits[WORKERS + 1];

static long collatz(long n)
{
    long steps = 0;
    for (; n != 1; steps++)
        n = n % 2 ? 3 * n + 1 : n / 2;
    return steps;
}

static void wait_for(pthread_cond_t *condition, long *counted)
{
    ++*counted;
    pthread_cond_wait(condition, &mutex);
}

static void *worker(void *arg)
{
    long me = (long)arg, sum = 0;
    char name[16];
    snprintf(name, sizeof name, "worker-%ld", me);
    pthread_setname_np(pthread_self(), name);
    pthread_mutex_lock(&mutex);
    for (;;) {
        while (count == 0 && !over)
            wait_for(&not_empty, &waits[me]);
        if (count == 0)
            break;
        int job = queue[first];
        first = (first + 1) % ROOM;
        count--;
        pthread_cond_signal(&not_full);
        pthread_mutex_unlock(&mutex);
        sum += collatz(job + 1);
        pthread_mutex_lock(&mutex);
    }
    pthread_mutex_unlock(&mutex);
    fprintf(stderr, "%d %ld\n", (int)syscall(SYS_gettid), waits[me]);
    return (void *)sum;
}

int main(void)
{
    pthread_t threads[WORKERS];
    long sum = 0;
    for (long i = 0; i < WORKERS; i++)
        pthread_create(&threads[i], NULL, worker, (void *)i);
    for (int job = 0; job < JOBS; job++) {
        pthread_mutex_lock(&mutex);
        while (count == ROOM)
            wait_for(&not_full, &waits[WORKERS]);
        queue[(first + count++) % ROOM] = job;
        pthread_cond_signal(&not_empty);
        pthread_mutex_unlock(&mutex);
        if (job % 100 == 0)
            usleep(1000);
    }
    pthread_mutex_lock(&mutex);
    over = 1;
    pthread_cond_broadcast(&not_empty);
    pthread_mutex_unlock(&mutex);
    for (int i = 0; i < WORKERS; i++) {
        void *part;
        pthread_join(threads[i], &part);
        sum += (long)part;
    }
    fprintf(stderr, "%d %ld\n", (int)getpid(), waits[WORKERS]);
    printf("%ld\n", sum);
    return 0;
}
"""


def test_each_wait_of_a_thread_pool_is_a_park(project: Project) -> None:
    """The program counts its waits: the recording has as many parks of each thread."""
    program = compile(project, POOL)
    alone = project.command(program)
    done = project.piano("record", "-o", "x.rec", "--", program)
    assert done.out == alone.out
    waits = {int(tid): int(count) for tid, count in re.findall(r"^(\d+) (\d+)$", done.err, re.M)}
    data = opens(project, project.root / "x.rec")
    parks = {thread["tid"]: thread["parks"] for thread in data["threads"]}
    assert len(waits) == 7 and parks == {tid: count for tid, count in waits.items() if count}
    workers = [thread for thread in data["threads"] if thread["tid"] != data["run"]["pid"]]
    assert all(re.fullmatch(r"worker-\d \(\d+\)", thread["name"]) for thread in workers)
    assert {thread["loop"] for thread in workers if thread["parks"] >= 4} == {"condition"}
