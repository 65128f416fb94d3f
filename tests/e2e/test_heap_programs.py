"""Unmodified programs under `piano record --heap`: the same output and status as without, and stacks with names.

None of them is built with piano or for it: shells, interpreters, servers, other allocators.
"""
from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any, Iterable

import pytest

from conftest import PIANO, Project, need, nginx_log
from heaps import Heap, archive, compile, read, record

WORDS = " ".join(str(n * 7919 % 10007) for n in range(3000))


def has_symbols(module: str, heap: Heap) -> bool:
    """Is MODULE a file with a symbol table? Stripped files, as in distributions, name only their exports."""
    for path in (Path(heap["run"]["program"]), Path("/usr/lib/x86_64-linux-gnu") / module):
        if path.name == module and path.exists():
            sections = subprocess.run(["readelf", "-SW", path], capture_output=True, text=True).stdout
            return ".symtab" in sections
    return False


def complete(heap: Heap, truncated: float = 0.05) -> None:
    """There are samples; stacks are complete; most frames have names."""
    health = heap["stack_health"]
    assert heap["samples"] > 0 and health["walked"] > 0
    assert health["truncated_share"] < truncated, health
    frames = [frame["function"] for site in heap.sites for frame in site["stack"]]
    bare = [name for name in frames if re.search(r"\+0x[0-9a-f]+$", name)]
    assert not [name for name in bare if has_symbols(name.rsplit("+", 1)[0], heap)], sorted(set(bare))
    assert len(bare) < len(frames)
    assert heap["missing"]["gaps"] == 0 and heap["missing"]["bad_numbers"] == 0
    assert heap["dropped"]["live"] == heap["dropped"]["stacks"] == heap["dropped"]["memory"] == 0


def same(project: Project, *command: Any, rate: str = "4K", flags: Iterable[Any] = (), **options: Any) -> Heap:
    """Runs COMMAND alone and recorded; returns the recording."""
    alone = project.command(*command, check=False, **options)
    done, heap = record(project, *command, rate=rate, flags=flags, status=alone.status, **options)
    assert done.out == alone.out
    said = [line for line in done.err.splitlines() if not line.startswith("piano: ")]
    assert said == alone.err.splitlines()
    return heap


# ---- unmodified programs ----

def test_bash(project: Project) -> None:
    need("bash")
    project.write({"script.sh": r"""
        declare -A seen
        fib() { if (( $1 < 2 )); then echo $1; else echo $(( $(fib $(($1 - 1))) + $(fib $(($1 - 2))) )); fi; }
        for i in {1..3000}; do seen[$((i * 7919 % 10007))]="value $i"; done
        echo ${#seen[@]} $(fib 8) "${seen[7919]}"
        printf '%s\n' {1..20} | sort -rn | head -3
        cat <<< "here"
        exec 3< "$0"; read -u 3 line; exec 3<&-
        trap 'echo bye' EXIT
        ( exit 5 ); echo $?
        wait; exit 9
    """})
    heap = same(project, "bash", "script.sh")
    complete(heap)
    assert any("xmalloc" in site["stack"][0]["function"] or "main" in [f["function"] for f in site["stack"]]
               for site in heap.sites)


def test_bash_and_its_children(project: Project) -> None:
    need("bash")
    heap = same(project, "bash", "-c", 'x=$(echo a | tr a b); for i in 1 2 3; do (echo $i $x); done; /bin/ls / | wc -l',
                rate="1", flags=["--children"])
    complete(heap)
    others = list(project.root.glob("out.rec-*"))
    assert others
    for path in others:
        read(project, path)


def test_git(project: Project) -> None:
    need("git")
    env = {"GIT_AUTHOR_DATE": "2020-01-01T00:00:00Z", "GIT_COMMITTER_DATE": "2020-01-01T00:00:00Z",
           "GIT_AUTHOR_NAME": "n", "GIT_AUTHOR_EMAIL": "e", "GIT_COMMITTER_NAME": "n", "GIT_COMMITTER_EMAIL": "e",
           "GIT_CONFIG_NOSYSTEM": "1", "GIT_PAGER": "cat"}
    tree = project.root / "tree"
    tree.mkdir()
    for command in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-qm", "first"]):
        for number in range(60):
            (tree / f"file{number}.txt").write_text(f"{number} {WORDS}\n")
        project.command("git", *command, cwd=tree, env=env)
    (tree / "file3.txt").write_text("changed\n")
    for command in (["log", "--stat"], ["diff"], ["status", "--short"], ["rev-parse", "HEAD"], ["fsck", "--full"],
                    ["grep", "-c", "7919"], ["show", "nothing"]):
        heap = same(project, "git", *command, cwd=tree, env=env)
    heap = same(project, "git", "log", "--stat", "-p", cwd=tree, env=env)
    assert heap["samples"] > 10 and heap["stack_health"]["truncated_share"] < 0.05
    # A clone is several processes and threads.
    record(project, "git", "clone", "-q", "--no-local", tree, "copy", rate="4K", flags=["--children"], env=env)
    assert (project.root / "copy" / "file3.txt").read_text() == f"3 {WORDS}\n"
    project.command("git", "fsck", cwd=project.root / "copy", env=env)


def test_python(project: Project) -> None:
    python = "/usr/bin/python3"
    if not os.access(python, os.X_OK):
        pytest.skip(f"{python} is not installed")
    project.write({"work.py": r"""
        import collections, json, re, subprocess, sys, threading
        text = json.dumps({str(i): list(range(i % 50)) for i in range(2000)})
        back = json.loads(text)
        found = []
        threads = [threading.Thread(target=lambda: found.append(len(re.findall(r'"\d+"', text)))) for _ in range(8)]
        for t in threads: t.start()
        for t in threads: t.join()
        print(found, len(back), subprocess.run([sys.executable, "-c", "print('child')"], capture_output=True).stdout)
        import ctypes, os
        pid = os.fork()
        if pid == 0:
            x = [bytes(1000) for _ in range(5000)]
            os._exit(len(x) % 256)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        def deep(n): return 1 + deep(n - 1) if n else len([0] * 100000)
        print(deep(500))
        sys.exit(3)
    """})
    heap = same(project, python, "work.py", rate="64K")
    health = heap["stack_health"]
    assert heap["samples"] > 20 and health["lost"] <= 0.05 * health["walked"], health
    frames = [frame["function"] for site in heap.sites for frame in site["stack"]]
    assert any(name.startswith(("Py", "_Py")) for name in frames), "the interpreter's own names"
    env = {"PYTHONMALLOC": "malloc"}
    heap = same(project, python, "-c", "x = [str(i) * 3 for i in range(100000)]; print(len(x))", rate="16K", env=env)
    complete(heap)


def test_sqlite(project: Project) -> None:
    need("sqlite3")
    script = ("create table t(a integer primary key, b text, c real);"
              "with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000) "
              "insert into t select i, hex(i * 7919) || 'text', i / 7.0 from n;"
              "create index by_b on t(b); select count(*), sum(c), max(b) from t where b like '%3%';"
              "select b, count(*) from t group by substr(b, 1, 2) order by 2 desc, 1 limit 5; select nothing;")
    heap = same(project, "sqlite3", ":memory:", script)
    complete(heap)
    assert any(f["function"].startswith("sqlite3") for site in heap.sites for f in site["stack"])


def test_jq(project: Project) -> None:
    need("jq")
    text = json.dumps([{"id": n, "name": f"name {n * 7919 % 10007}", "tags": [n % 3, n % 5]} for n in range(3000)])
    project.write({"data.json": text})
    query = "[.[] | select(.id % 7 == 0) | {name, sum: (.tags | add)}] | group_by(.sum) | map(length)"
    heap = same(project, "jq", query, "data.json")
    complete(heap)
    assert any("jv_" in f["function"] for site in heap.sites for f in site["stack"])
    same(project, "jq", ".[", "data.json")


# ---- servers ----

class Server:
    """Runs a program under `piano record` until it is asked to end."""

    def __init__(self, project: Project, *command: Any, rate: str = "16K", flags: Iterable[Any] = ()):
        self.project, self.path = project, project.root / "server.rec"
        self.log = open(project.root / "server.log", "w+b")
        words = [PIANO, "record", f"--heap={rate}", *flags, "-o", self.path, "--", *map(str, command)]
        self.process = subprocess.Popen(words, cwd=project.root, env=project.env, stdin=subprocess.DEVNULL,
                                        stdout=self.log, stderr=self.log, start_new_session=True)

    def wait_for(self, path: Path) -> None:
        until = time.monotonic() + 20
        while time.monotonic() < until and self.process.poll() is None:
            try:
                with socket.socket(socket.AF_UNIX) as s:
                    s.connect(str(path))
                return
            except OSError:
                time.sleep(0.02)
        pytest.fail(f"it does not answer: {self.text()}")

    def text(self) -> str:
        self.log.flush()
        self.log.seek(0)
        return self.log.read().decode(errors="replace")

    def end(self, number: int = signal.SIGTERM) -> Heap:
        self.process.send_signal(number)
        status = self.process.wait(20)
        assert status == 0, f"status {status}: {self.text()}"
        return read(self.project, self.path)

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: Any) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.log.close()


def test_redis(project: Project) -> None:
    server, client = need("redis-server"), need("redis-cli")
    path = project.root / "redis.sock"
    dump = project.root / "data"
    dump.mkdir()
    with Server(project, server, "--port", 0, "--unixsocket", path, "--save", "", "--dir", dump) as up:
        up.wait_for(path)

        def ask(*words: Any, stdin: str | None = None) -> str:
            return project.command(client, "-s", path, *words, stdin=stdin).out.strip()

        assert ask("ping") == "PONG"
        script = "".join(f"set key:{n} {n * 7919}\nrpush list {n}\nhset hash f{n} {n}\n" for n in range(3000))
        ask(stdin=script)
        assert ask("get", "key:77") == str(77 * 7919) and ask("llen", "list") == "3000"
        assert ask("eval", "return #redis.call('keys', 'key:*')", 0) == "3000"
        assert ask("save") == "OK"  # by a fork in the background too
        assert "started" in ask("bgsave")
        until = time.monotonic() + 20
        while ask("info", "persistence").count("rdb_bgsave_in_progress:0") == 0 and time.monotonic() < until:
            time.sleep(0.02)
        assert "rdb_last_bgsave_status:ok" in ask("info", "persistence")
        if shutil.which("redis-benchmark"):
            project.command("redis-benchmark", "-s", path, "-q", "-n", 20000, "-P", 16, "-t", "set,get,lpush")
        pid = ask("info", "server").split("process_id:")[1].split()[0]
        project.piano("snapshot", pid)
        heap = up.end()
    complete(heap)
    assert any(s["kind"] == "asked" for s in heap["snapshots"])
    assert heap["live_bytes"] > 100_000


def test_nginx(project: Project) -> None:
    server, curl = need("nginx"), need("curl")
    root = project.root
    (root / "www").mkdir()
    (root / "www" / "page.txt").write_text(WORDS)
    for folder in (root, root / "www", root.parent, root.parent.parent):
        os.chmod(folder, 0o755)
    user = "user root;" if os.getuid() == 0 else ""
    project.write({"nginx.conf": f"""
        {user} daemon off; master_process MASTER; pid {root}/nginx.pid; error_log {root}/error.log;
        worker_processes 2;
        events {{ worker_connections 64; }}
        http {{
            access_log off; gzip on; gzip_min_length 1; gzip_types text/plain;
            client_body_temp_path {root}/body; proxy_temp_path {root}/proxy; fastcgi_temp_path {root}/fastcgi;
            uwsgi_temp_path {root}/uwsgi; scgi_temp_path {root}/scgi;
            server {{ listen unix:{root}/nginx.sock; root {root}/www; default_type text/plain; }}
        }}
    """})
    for master in ("off", "on"):
        text = (root / "nginx.conf").read_text()
        (root / f"{master}.conf").write_text(text.replace("MASTER", master))
        (root / "nginx.sock").unlink(missing_ok=True)
        (root / "server.rec").unlink(missing_ok=True)
        with Server(project, server, "-p", root, "-c", root / f"{master}.conf", *nginx_log(root / "error.log"), rate="4K",
                    flags=["--children"] if master == "on" else []) as up:
            up.wait_for(root / "nginx.sock")
            for _ in range(10):
                got = project.command(curl, "-s", "--compressed", "--unix-socket", root / "nginx.sock",
                                      "http://x/page.txt")
                assert got.out == WORDS
            missing = project.command(curl, "-s", "-o", "/dev/null", "-w", "%{http_code}", "--unix-socket",
                                      root / "nginx.sock", "http://x/nothing")
            assert missing.out == "404"
            heap = up.end(signal.SIGQUIT)
        complete(heap)
        if master == "on":
            workers = [read(project, p) for p in root.glob("server.rec-*")]
            assert len(workers) == 2
            assert any(w["samples"] for w in workers)


# ---- other allocators ----

OBJECTS = r"""
    #include <map>
    #include <memory>
    #include <stdexcept>
    #include <string>
    #include <thread>
    #include <vector>
    struct Shape { virtual ~Shape() {} virtual int area() = 0; std::string name; };
    struct Square : Shape {
        int side;
        explicit Square(int n) : side(n) { name = std::string(50, 's'); }
        int area() override { return side * side; }
    };
    static NOINLINE int parse(int n)
    {
        std::vector<std::unique_ptr<Shape>> shapes;
        for (int i = 0; i < 20; i++) shapes.push_back(std::make_unique<Square>(i));
        if (n % 3 == 0) throw std::runtime_error("a third: " + std::to_string(n) + std::string(100, '.'));
        int sum = 0;
        for (auto &s : shapes) sum += s->area();
        return sum;
    }
    static std::map<std::string, std::vector<int>> *kept;
    static NOINLINE void keep() { for (int i = 0; i < 3000; i++) (*kept)["key number " + std::to_string(i)].resize(50); }
    static NOINLINE void plain() { for (int i = 0; i < 100; i++) { void *p = malloc(10007); KEEP(p); } }
    int main()
    {
        kept = new std::map<std::string, std::vector<int>>;
        int caught = 0;
        long sum = 0;
        for (int i = 0; i < 3000; i++)
            try { sum += parse(i); } catch (const std::exception &e) { caught++; }
        keep();
        plain();
        long sums[4] = {};
        std::vector<std::thread> threads;
        for (int t = 0; t < 4; t++)
            threads.emplace_back([&, t] { for (int i = 1; i < 2000; i += 3) sums[t] += parse(i); });
        for (auto &t : threads) t.join();
        void *aligned = nullptr;
        int r = posix_memalign(&aligned, 4096, 100);
        free(aligned);
        printf("%d %ld %zu %ld %d\n", caught, sum, kept->size(), sums[0] + sums[3], r);
        printf("%d\n", (int)((uintptr_t)aligned % 4096));
        return caught % 256;
    }
"""

ALLOCATORS = {"glibc": ("", ""), "jemalloc": ("-ljemalloc", "libjemalloc.so.2"),
              "tcmalloc": ("-ltcmalloc", "libtcmalloc.so.4"),
              "tcmalloc_minimal": ("-ltcmalloc_minimal", "libtcmalloc_minimal.so.4"),
              "mimalloc": ("-lmimalloc", "libmimalloc.so.2 libmimalloc.so.3")}


def library(names: str) -> str:
    """The path of the first of NAMES, shared libraries, that is installed, or a skip that names the missing ones."""
    done = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True)
    for name in names.split():
        found = re.search(rf"{re.escape(name)} .*=> (\S+)", done.stdout)
        if found:
            return found.group(1)
    pytest.skip(f"{' or '.join(names.split())} is not installed")


def check_objects(project: Project, *command: Any, **options: Any) -> None:
    heap = same(project, *command, rate="1", **options)
    complete(heap)
    assert heap.live("plain") == (100, 1_000_700), "exact, whoever the allocator is"
    assert heap.live("parse") == (0, 0)
    kept = heap.sum("keep")
    assert kept["live_bytes"] >= 3000 * 200 and kept["live_objects"] >= 6000
    heap = same(project, *command, rate="64K", **options)
    assert heap["samples"] > 0 and heap["dropped"]["stale"] == 0


@pytest.mark.parametrize("allocator", sorted(ALLOCATORS))
def test_linked_with_another_allocator(project: Project, allocator: str) -> None:
    flag, soname = ALLOCATORS[allocator]
    if soname:
        library(soname)
    program = compile(project, OBJECTS, "-Wl,--no-as-needed", *([flag] if flag else []), cxx=True)
    check_objects(project, program)


@pytest.mark.parametrize("allocator", sorted(set(ALLOCATORS) - {"glibc"}))
def test_another_allocator_preloaded(project: Project, allocator: str) -> None:
    """The user's own LD_PRELOAD follows piano's."""
    path = library(ALLOCATORS[allocator][1])
    program = compile(project, OBJECTS, cxx=True)
    check_objects(project, program, env={"LD_PRELOAD": path})
    used = compile(project, r"""
        #include <dlfcn.h>
        int main(void)
        {
            void *p = malloc(1), *real = dlsym(RTLD_NEXT, "malloc");
            char line[999];
            FILE *f = fopen("/proc/self/maps", "r");
            int found = 0;
            while (fgets(line, 999, f)) found |= strstr(line, "LIBRARY") != NULL;
            puts(found ? "loaded" : "not loaded");
            KEEP(p);
            return 0;
        }
    """.replace("LIBRARY", Path(path).name.split(".so")[0]), "-ldl", name="used")
    done, _ = record(project, used, env={"LD_PRELOAD": path})
    assert done.out == "loaded\n"


@pytest.mark.parametrize("allocator", ["jemalloc_pic", "tcmalloc_minimal"])
def test_an_allocator_in_the_program_itself(project: Project, allocator: str) -> None:
    """A statically linked allocator: the program calls it directly, and so do all libraries."""
    program = compile(project, OBJECTS, archive(allocator), "-ldl", "-lm", cxx=True)
    check_objects(project, program)


def test_a_program_with_holes_between_its_segments(project: Project) -> None:
    """For such programs glibc reports the start of the segment, not of the module. make in Debian 12 is one."""
    need("make")
    (project.root / "Makefile").write_text("all:\n\t@echo made\n")
    _, heap = record(project, "make", "-f", "Makefile")
    assert heap["stack_health"]["truncated_share"] < 0.05
