"""`piano record --pid`, again and again, to programs under load. They count what they do, so each recording must have that.

PIANO_ATTACH_TURNS says how often each test attaches (20; 1000 for a long run). Every fifth recording is checked; the others end
after 10 ms, wherever the program is then."""
from __future__ import annotations

import os
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, Callable

import pytest

from conftest import LIMIT_S, Project, need
from events import load as read_events
from heaps import Heap, compile, read
from test_attach import attached, program, skip_if_refused

TURNS = int(os.environ.get("PIANO_ATTACH_TURNS", "20"))
CHECKED = 5

# Answers each line with the number of blocks that `allocate` has made.
STORM = r"""
    #include <dlfcn.h>
    static volatile int over;
    static volatile long made[2], turns[2];
    static void *allocate(void *number)
    {
        void *keep[64] = {0};
        for (unsigned x = 1; !over; x = x * 1664525 + 1013904223) {
            void **place = &keep[(x >> 8) % 64];
            size_t size = (x >> 16) % 3000 + 8;
            free(*place);
            *place = realloc(malloc(size), size * 2);
            memset(*place, 1, size);
            made[(long)number] += 2;
        }
        for (int i = 0; i < 64; i++) free(keep[i]);
        return 0;
    }
    static void *load(void *unused)
    {
        for (void *library; !over && (library = dlopen("./plugin.so", RTLD_NOW)); turns[0]++) {
            free(((void *(*)(size_t))dlsym(library, "plugin_make"))(100));
            dlclose(library);
        }
        return 0;
    }
    static void *brief(void *word) { return strdup(word); }
    static void *spawn(void *unused)
    {
        pthread_t t;
        for (void *r; !over && pthread_create(&t, 0, brief, "brief") == 0; turns[1]++) {
            pthread_join(t, &r);
            free(r);
        }
        return 0;
    }
    int main(void)
    {
        pthread_t t[4];
        char line[8];
        void *(*const work[])(void *) = {allocate, allocate, load, spawn};
        for (long i = 0; i < 4; i++) pthread_create(&t[i], 0, work[i], (void *)i);
        puts("ready");
        fflush(stdout);
        while (fgets(line, sizeof line, stdin) && line[0] != 'q') { printf("%ld\n", made[0] + made[1]); fflush(stdout); }
        over = 1;
        for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
        puts(made[0] && made[1] && turns[0] && turns[1] ? "bye" : "stuck");
        fflush(stdout);
        return 7;
    }
"""

# Answers each line with the number of byte arrays that it has made.
PYTHON = """
import sys, threading
over = False
made = 0
def work():
    global made
    while not over:
        kept = [str(i) * 10 for i in range(100)]
        for _ in range(100):
            kept.append(bytearray(2000))
            made += 1
thread = threading.Thread(target=work)
thread.start()
print("ready", flush=True)
while sys.stdin.readline() != "q\\n":
    print(made, flush=True)
over = True
thread.join()
print("bye", flush=True)
sys.exit(7)
"""


def count_between(project: Project, pid: int, count: Callable[[], int], least: int, *flags: Any) -> tuple[int, int, Heap]:
    """Records every allocation while COUNT grows by LEAST. Returns by how much it grew while the recording surely lasted, by how
    much while it may have lasted, and the recording."""
    before = count()
    with attached(project, pid, "--heap=1", *flags):
        first = last = count()
        until = time.monotonic() + LIMIT_S
        while last - first < least:
            assert time.monotonic() < until, "the program stands still"
            last = count()
    return last - first, count() - before, read(project, "x.rec")


def attach_often(project: Project, pid: int, check: Callable[[], None]) -> None:
    """On a machine that is busy with other things, a thread of the process may not have its turn for seconds. Then piano gives
    up, and says so; the next recording must work."""
    late = 0
    for turn in range(TURNS):
        if turn % CHECKED == 0:
            check()
            continue
        (project.root / "x.rec").unlink(missing_ok=True)
        done = project.piano("record", "--heap=64K", "--events", "--pid", pid, "--duration", "0.01", "-o", "x.rec", check=False)
        skip_if_refused(done.err)
        is_late = "did not start the thread in time; it goes on as before" in done.err
        assert done.status == (1 if is_late else 0), (turn, done)
        late += is_late
    assert late <= TURNS / 20, f"{late} of {TURNS} recordings did not begin in time"


def lost_blocks(heap: Heap) -> int:
    """Blocks that were seen and not kept."""
    return sum(heap.lost.values())


def test_attach_again_and_again_to_busy_threads(project: Project) -> None:
    """They allocate, load and unload a library, and come and go."""
    compile(project, "void *plugin_make(size_t size) { return malloc(size); }", "-shared", "-fPIC", name="plugin.so")
    with program(compile(project, STORM, "-ldl"), cwd=project.root) as running:
        def check() -> None:
            sure, possible, heap = count_between(project, running.pid, lambda: int(running.ask("a")), 2000, "--events")
            made, _ = heap.made("allocate")
            # Two threads: of each, the turn at the first question had begun before, that at the last had not ended.
            assert sure - 4 <= made + lost_blocks(heap) and made <= possible + 4, heap.lost
        attach_often(project, running.pid, check)
        assert int(running.ask("a")) > 0 and running.end() == 7


def test_attach_again_and_again_to_python(project: Project) -> None:
    if not Path("/usr/bin/python3").exists():
        pytest.skip("there is no python3 of the system")
    with program("/usr/bin/python3", "-c", PYTHON, cwd=project.root) as running:
        def check() -> None:
            sure, _, heap = count_between(project, running.pid, lambda: int(running.ask("a")), 300, "--events")
            made, size = heap.made("work")
            assert made + lost_blocks(heap) >= sure - 1 and (size >= 2000 * (sure - 1) or heap.lost), "functions of Python"
        attach_often(project, running.pid, check)
        assert int(running.ask("a")) > 0 and running.end() == 7


class Client:
    """Sets a key of redis to 5000 bytes, as fast as it can."""

    def __init__(self, path: Path):
        self.done = 0
        self.is_over = False
        self.link = socket.socket(socket.AF_UNIX)
        self.link.settimeout(LIMIT_S)
        self.link.connect(str(path))
        self.thread = threading.Thread(target=self.work)
        self.thread.start()

    def work(self) -> None:
        command = b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5000\r\n" + b"x" * 5000 + b"\r\n"
        while not self.is_over:
            self.link.sendall(command)
            if self.link.recv(100) != b"+OK\r\n":
                return
            self.done += 1

    def end(self) -> None:
        self.is_over = True
        self.thread.join()
        self.link.close()


def test_attach_again_and_again_to_redis(project: Project) -> None:
    server, client = need("redis-server"), need("redis-cli")
    path = project.root / "s"
    process = subprocess.Popen([server, "--port", "0", "--unixsocket", str(path), "--save", "", "--appendonly", "no"],
                               stdout=subprocess.DEVNULL, cwd=project.root)
    load = None
    try:
        until = time.monotonic() + LIMIT_S
        while not path.exists() and time.monotonic() < until:
            pass

        def ask(*words: str) -> str:
            return subprocess.run([client, "-s", str(path), *words], capture_output=True, text=True, timeout=LIMIT_S).stdout.strip()
        assert ask("SET", "key", "value") == "OK"
        refused = project.piano("record", "--heap", "--pid", process.pid, "--duration", "0.01", "-o", "first.rec", check=False)
        skip_if_refused(refused.err)
        if "of its own" in refused.err:
            pytest.skip("this redis has its allocator in its executable: " + refused.err)
        load = Client(path)

        def check() -> None:
            sure, _, heap = count_between(project, process.pid, lambda: load.done, 100, "--events")
            assert heap["allocated_bytes"] >= 5000 * sure or heap.lost, "each command has at least its value"
            assert len(read_events(project.root / "x.rec").of("park")) > 0
        attach_often(project, process.pid, check)
        load.end()
        assert ask("GET", "key") == "x" * 5000
        ask("SHUTDOWN", "NOSAVE")
        assert process.wait(LIMIT_S) == 0
    finally:
        if load:
            load.is_over = True
        process.kill()
        process.wait()
