"""A recording is of a tree of processes: one report, one page and one export of all of them, with a table by process, and
--process for one of them."""
from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from conftest import BURN, PIANO, Project
from events import compile
from made import make as made
from pages import Page
from test_servers import perf  # noqa: F401 a fixture

MS = 10**6
TOOL = made.TOOL_STACK


def child(main: Any, pid: int, program: str, late_ms: int, end_ms: int | None = 900, **more: Any) -> Any:
    """A process that began LATE_MS after MAIN."""
    start = main.start_ns + late_ms * MS
    rec = made.Recording(program, pid=pid, start_ns=start, end_ns=main.start_ns + end_ms * MS if end_ms else 0,
                         exit_status=0, state=made.ENDED if end_ms else made.ACTIVE, **more)
    rec.real_ns, rec.parent = main.real_ns + late_ms * MS, main.pid
    return rec


def tree(project: Project) -> Path:
    """sh started two workers. The kernel's samples of all are in the recording of sh; each worker has events and a heap."""
    main = made.Recording("/bin/sh", pid=100, end_ns=5 * made.SECOND + 1000 * MS, flags=made.HAS_CPU | made.HAS_EVENTS | made.HAS_HEAP,
                          rate=1)
    main.module("/bin/serve", 0x400000, 0x500000, since=TOOL, until=0xFFFFFFFF)
    slow = main.stack([0x401001, 0x402001], generation=TOOL, number=TOOL | 1)
    main.symbol("/bin/serve", 0x1000, [("compress", "serve.c", 7, False)])
    main.symbol("/bin/serve", 0x2000, [("turn", "serve.c", 9, False)])
    main.modules[0] = (*main.modules[0][:3], 0x400000, *main.modules[0][4:])
    for pid in (100, 101, 102):
        main.thread(pid, "sh" if pid == 100 else "serve", pid=pid)
    main.cpu(101, 200, slow, ms=10, count=30, pid=101)
    main.off(101, 100, slow, ms=40, pid=101)
    main.cpu(102, 200, slow, ms=10, count=2, pid=102)
    path = project.root / "x.rec"
    main.write(path)
    for pid, turn, size in ((101, 487, 5000), (102, 3, 70)):
        rec = child(main, pid, "/bin/serve", 50, rate=1)
        rec.module("/bin/serve", 0x400000, 0x500000, bias=0x400000)
        heap = rec.stack([0x403001])
        rec.symbol("/bin/serve", 0x3000, [("reserve", "serve.c", 20, False)])
        rec.sample(heap, size, count=2, tid=pid)
        name, place = rec.name("request"), rec.name("reply")
        assert place == 2
        rec.thread(pid, "serve")
        for n in range(4):
            rec.turn(pid, 20 + n, 0.5)
        rec.turn(pid, 130, turn)
        rec.thread(pid + 50, "serve")
        rec.poll(pid + 50, 140, 5, 7, name)
        rec.write(f"{path}-{pid}")
    return path


def processes(project: Project, path: Path, *flags: str) -> dict[int, dict[str, Any]]:
    return {p["pid"]: p for p in project.json("report", path, *flags)["processes"]}


def test_the_table_has_each_process_with_its_own_figures(project: Project) -> None:
    path = tree(project)
    found = processes(project, path)
    assert list(found) == [101, 102, 100], "the busiest first"
    assert [found[pid]["name"] for pid in (100, 101, 102)] == ["sh", "serve", "serve"]
    assert found[101]["cpu_ns"] == 300 * MS and found[102]["cpu_ns"] == 20 * MS and found[100]["cpu_ns"] == 0
    assert found[101]["off_cpu_ns"] == 40 * MS
    assert found[101]["allocated_bytes"] == 10000 and found[102]["live_bytes"] == 140 and found[100]["live_bytes"] == 0
    assert found[101]["longest_poll_ns"] == 487 * MS and found[102]["longest_poll_ns"] == 5 * MS
    assert found[100]["exit_status"] == 0 and found[101]["exit_status"] is None
    assert found[101]["wall_ns"] == 850 * MS
    text = project.piano("report", path).out
    assert text.startswith("serve (pid 101) and 2 more processes | 1.0s | exit status 0\n"), text
    assert re.search(r"^serve\s+101\s.*300\.0ms.*487\.0ms", text, re.M), text
    assert "1 more, which did almost nothing: --all" in text, "sh only started them"
    assert re.search(r"^sh\s+100\s", project.piano("report", path, "--all").out, re.M)


def test_red_flags_of_any_process_are_on_top(project: Project) -> None:
    text = project.piano("report", tree(project)).out
    flag = next(line for line in text.splitlines() if line.startswith("!"))
    assert "487.0ms: epoll loop of serve (101)" in flag


def test_a_long_turn_of_a_worker_has_its_stack(project: Project) -> None:
    path = tree(project)
    for flags in ([], ["--process", "serve"], ["--process", "101"]):
        data = project.json("report", path, "--polls", *flags)
        worst = data["longest"][0]
        assert worst["duration_ns"] == 487 * MS and worst["tid"] == 101 and worst["pid"] == 101
        assert worst["samples"] == 30 and 0.9 < worst["on_cpu"] <= 1
        assert [f["function"] for f in worst["stacks"][0]["stack"]] == ["compress", "turn"]
    assert next(t for t in data["tasks"] if t["name"] == "request")["polls"] == 1
    assert sorted(t["tid"] for t in project.json("report", path, "--polls")["threads"]) == [101, 102, 151, 152]


def test_numbers_of_tasks_and_names_are_those_of_their_process(project: Project) -> None:
    path = tree(project)
    data = project.json("report", path, "--polls", "--all")
    requests = [p for p in data["longest"] if p["task"] == "request"]
    assert [p["task_id"] for p in requests] == [7, 7] and sorted(p["pid"] for p in requests) == [101, 102]
    assert next(t for t in data["tasks"] if t["name"] == "request")["polls"] == 2


def test_one_process_alone(project: Project) -> None:
    path = tree(project)
    data = project.json("report", path, "--process", "102", "--cpu")
    assert data["cpu"]["cpu_ns"] == 20 * MS and [p["pid"] for p in data["processes"]] == [102]
    assert data["run"]["pid"] == 102 and data["run"]["program"] == "/bin/serve"
    heap = project.json("report", path, "--process", "102", "--heap")
    assert heap["live_bytes"] == 140 and heap["peak_bytes"] == 140
    assert [s["function"] for s in heap["places"]] == ["reserve"]
    shell = project.json("report", path, "--process", "sh", "--cpu")
    assert shell["cpu"]["samples"] == 0 and shell["run"]["pid"] == 100
    both = project.json("report", path, "--process", "serve", "--cpu")
    assert both["cpu"]["cpu_ns"] == 320 * MS and {p["pid"] for p in both["processes"]} == {101, 102}


def test_the_heap_of_all(project: Project) -> None:
    path = tree(project)
    heap = project.json("report", path, "--heap")
    assert heap["live_bytes"] == 10140 and heap["peak_bytes"] is None
    assert [(s["function"], s["live_bytes"]) for s in heap["places"]] == [("reserve", 10140)]
    text = project.piano("report", path, "--heap").out
    assert re.search(r"^Peak +- of several processes; of one: --process", text, re.M), text
    for flag in ("--peak", "--growth"):
        done = project.piano("report", path, flag, check=False)
        assert done.status == 1 and "of several processes is not known" in done.err and "--process" in done.err


def test_a_process_that_is_not_there(project: Project) -> None:
    path = tree(project)
    for name in ("nginx", "4711", "ser"):
        done = project.piano("report", path, "--process", name, check=False)
        assert done.status == 1 and f"there is no process `{name}`" in done.err, done


def test_a_process_without_a_file_has_its_samples(project: Project) -> None:
    path = tree(project)
    Path(f"{path}-102").unlink()
    for name in ("102", "serve"):
        data = project.json("report", path, "--process", name, "--cpu")
        assert data["cpu"]["cpu_ns"] == (20 if name == "102" else 300) * MS + (20 * MS if name == "serve" else 0)
    found = processes(project, path)
    assert found[102]["cpu_ns"] == 20 * MS and found[102]["live_bytes"] is None and found[102]["polls"] is None


def test_files_that_do_not_belong_to_it(project: Project) -> None:
    """An older recording of a process, one of another boot, and one that is damaged."""
    path = tree(project)
    main = made.Recording("/bin/sh", pid=100)
    older = child(main, 90, "/bin/old", -1000)
    older.sample(older.stack([0x1]), 100)
    older.write(f"{path}-90")
    booted = child(main, 91, "/bin/boot", 10)
    booted.real_ns -= 10**6 * MS
    booted.sample(booted.stack([0x1]), 100)
    booted.write(f"{path}-91")
    other = child(main, 92, "/bin/other", 10)
    other.sample(other.stack([0x1]), 100)
    other.write(f"{path}-93")  # of process 92
    Path(f"{path}-94").write_bytes(b"PIANOREC")
    assert set(processes(project, path)) == {100, 101, 102}


def test_a_single_process_is_reported_as_before(project: Project) -> None:
    path = tree(project)
    for pid in (101, 102):
        Path(f"{path}-{pid}").unlink()
    data = project.json("report", path)
    assert "processes" not in data
    alone = made.Recording("/bin/one", pid=7)
    alone.cpu(7, 1, alone.stack([0x10]), ms=10, count=3)
    alone.write(project.root / "one.rec")
    assert "Processes" not in project.piano("report", "one.rec").out


def test_export_has_the_process_of_each_event(project: Project) -> None:
    path = tree(project)
    events = json.loads(project.piano("export", path, "--format", "chrome").out)["traceEvents"]
    of = lambda what: {e["pid"] for e in events if e.get("cat") == what}  # noqa: E731
    assert of("poll") == {101, 102} and of("cpu") == {101, 102}
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert names[101] == "serve" and names[100] == "sh"
    one = json.loads(project.piano("export", path, "--format", "chrome", "--process", "102").out)["traceEvents"]
    assert {e["pid"] for e in one if e.get("cat") in ("poll", "cpu")} == {102}
    lines = project.piano("export", path, "--format", "collapsed", "--by", "cpu", "--process", "102").out
    assert lines == "turn;compress 20000000\n"


def test_diff_of_one_process(project: Project) -> None:
    path = tree(project)
    text = project.piano("diff", path, path, "--process", "102", "--all").out
    assert "compress" in text and re.search(r"^request ", text, re.M), text
    assert project.piano("diff", path, path, "--process", "nothing", check=False).status == 1


def test_page_groups_the_lanes_by_process(project: Project) -> None:
    path = tree(project)
    project.piano("view", path, "-o", "x.html")
    page = Page((project.root / "x.html").read_text())
    threads = {t["tid"]: t for t in page.rows("threads")}
    assert {tid: t["pid"] for tid, t in threads.items()} == {100: 100, 101: 101, 102: 102, 151: 101, 152: 102}
    assert threads[101]["place"] == 0 and threads[102]["place"] == 1
    assert page.strings[threads[101]["process"]] == "serve" and threads[101]["is_main"] == 1
    assert len(page.rows("polls")) > 0 and {page.rows("threads")[p["thread"]]["pid"] for p in page.rows("polls")} == {101, 102}
    project.piano("view", path, "--process", "102", "-o", "y.html")
    assert {t["tid"] for t in Page((project.root / "y.html").read_text()).rows("threads")} == {102, 152}


def test_the_list_has_one_recording(project: Project) -> None:
    path = tree(project)
    runs = project.root / ".piano" / "runs"
    runs.mkdir(parents=True, exist_ok=True)
    for file in project.root.glob("x.rec*"):
        file.rename(runs / file.name.replace("x.rec", "1740000000123-100.rec"))
    listed = project.json("list")["runs"]
    assert [(run["pid"], run["more_processes"]) for run in listed] == [(100, 2)]
    assert listed[0]["bytes"] == sum(file.stat().st_size for file in runs.glob("*.rec*"))
    assert project.piano("list").out.count("1740000000123") == 1
    assert path.name not in project.piano("list").out


# ---- programs ----

PREFORK = r"""
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <sys/epoll.h>
    #include <sys/wait.h>
    #include <unistd.h>
    #define CHECK(x) do { if (!(x)) { perror(#x); _exit(70); } } while (0)
    __attribute__((noinline)) static void burn(void) { BURN(300000000); }
    static void *volatile kept;
    __attribute__((noinline)) static void *reserve(void) { return memset(malloc(3000000), 1, 3000000); }

    /* Handles requests from FD until one says how to end. */
    static void work(int fd, int answer)
    {
        struct epoll_event e = {.events = EPOLLIN};
        int poll = epoll_create1(0);
        CHECK(epoll_ctl(poll, EPOLL_CTL_ADD, fd, &e) == 0);
        for (char c = 0;;) {
            CHECK(epoll_wait(poll, &e, 1, -1) == 1 && read(fd, &c, 1) == 1);
            if (c == 'b') { burn(); kept = reserve(); }
            if (c == '_') _exit(7);
            if (c == 'k') raise(9);
            if (c == 'x') exit(3);
            CHECK(write(answer, &c, 1) == 1);
        }
    }

    int main(int argc, char **argv)
    {
        int count = argc - 1;
        pid_t pids[16];
        for (int i = 0; i < count; i++) {
            int to[2], from[2];
            CHECK(pipe(to) == 0 && pipe(from) == 0);
            pids[i] = fork();
            CHECK(pids[i] >= 0);
            if (pids[i] == 0)
                work(to[0], from[1]);
            for (const char *at = argv[1 + i]; *at; at++) {
                char c = *at;
                if (c == 'w') { fflush(stdout); getchar(); continue; }
                CHECK(write(to[1], &c, 1) == 1);
                if (strchr("_kx", c) == NULL)
                    CHECK(read(from[0], &c, 1) == 1);
            }
            waitpid(pids[i], NULL, 0);
            printf("%d\n", (int)pids[i]);
        }
        return 0;
    }
"""


def prefork(project: Project) -> Path:
    return compile(project, "#include <signal.h>\n" + BURN + PREFORK, "-rdynamic", "-fno-optimize-sibling-calls", name="prefork")


def test_workers_are_followed_and_joined(project: Project, perf: None) -> None:
    program = prefork(project)
    done = project.piano("record", "-o", "x.rec", "--", program, "aaaabx", "aaaaa_", "aaaaak")
    busy, quiet, killed = map(int, done.out.split())
    found = processes(project, project.root / "x.rec")
    assert next(iter(found)) == busy and {busy, quiet, killed} < set(found)
    assert found[busy]["name"] == "prefork" and found[busy]["samples"] > 0 and found[busy]["live_bytes"] > 2_000_000
    worst = project.json("report", "x.rec", "--polls")["longest"][0]
    assert worst["pid"] == busy and worst["task"].startswith("epoll loop of prefork") and worst["samples"] > 0
    assert any("burn" in [f["function"] for f in s["stack"]] for s in worst["stacks"])
    alone = project.json("report", "x.rec", "--polls", "--process", busy)["longest"][0]
    assert (alone["duration_ns"], alone["samples"]) == (worst["duration_ns"], worst["samples"])
    heap = project.json("report", "x.rec", "--heap")
    assert next(p for p in heap["places"] if p["function"] == "reserve")["live_bytes"] > 2_000_000


def test_a_worker_that_does_not_end_by_exit_has_its_end(project: Project, perf: None) -> None:
    """_exit and a signal: the time and the CPU time come from the kernel's records; the status is known only to the parent."""
    program = prefork(project)
    done = project.piano("record", "-o", "x.rec", "--", program, "aaaabx", "aaaab_", "aaaabk")
    found = processes(project, project.root / "x.rec")
    for pid in map(int, done.out.split()):
        one = found[pid]
        assert one["wall_ns"] > 0 and not one["wall_at_least"], one
        assert one["kernel_cpu_ns"] > 0 and one["wall_ns"] >= one["kernel_cpu_ns"], one
        coverage = project.json("report", "x.rec", "--cpu", "--process", pid)["cpu"]["coverage"]
        assert coverage is not None and 0.5 < coverage < 1.5, coverage


def test_a_shell_does_not_bury_the_program(project: Project) -> None:
    program = prefork(project)
    project.piano("record", "--heap=1", "-o", "x.rec", "--", "sh", "-c", f"true; {program} bx; true")
    text = project.piano("report", "x.rec").out
    assert text.startswith("prefork (pid "), text
    first = text.split("Processes\n")[1].splitlines()[2]
    assert first.startswith("prefork "), text
    listed = [p["name"] for p in processes(project, project.root / "x.rec").values()]
    assert listed[0] == "prefork" and "sh" in listed, listed


def test_no_more_processes_than_asked_for(project: Project) -> None:
    program = prefork(project)
    words = ["aaaabx"] * 6
    done = project.piano("record", "--heap=1", "--max-processes", "4", "-o", "x.rec", "--", program, *words)
    assert len(list(project.root.glob("x.rec-*"))) == 4
    assert "2 more processes were not recorded: there were 4 recordings of others already; --max-processes" in done.err, done.err
    assert len(processes(project, project.root / "x.rec")) == 5


def test_processes_in_which_nothing_was_sampled_take_no_place(project: Project) -> None:
    """A hundred short ones, one after the other, do not keep a later one from being recorded."""
    program = prefork(project)
    done = project.piano("record", "--heap=1G", "--max-processes", "8", "-o", "x.rec", "--", "sh", "-c",
                         f"i=0; while [ $i -lt 100 ]; do /bin/true; i=$((i+1)); done; {program} bx; true")
    assert "more process" not in done.err, done.err
    assert "102 processes in which nothing was sampled: no recording is kept of them" in done.err, done.err


def test_all_files_together_have_a_limit(project: Project) -> None:
    program = prefork(project)
    done = project.piano("record", "--heap=1", "--events", "--max-total", "1M", "-o", "x.rec", "--", program, *["aaaabx"] * 8)
    assert sum(file.stat().st_size for file in project.root.glob("x.rec-*")) <= (1 << 20) + 8 * 70000
    assert "the recordings of other processes reached 1.0MB together" in done.err, done.err
    project.piano("report", "x.rec")


@pytest.mark.parametrize("value,flag", [("0", "--max-processes"), ("1K", "--max-total"), ("2T", "--max-total")])
def test_limits_that_make_no_sense(project: Project, flag: str, value: str) -> None:
    done = project.piano("record", flag, value, "--", "true", check=False)
    assert done.status == 2 and flag in done.err


def test_workers_of_python(project: Project) -> None:
    """A prefork server in Python: os.fork, one worker is busy. Each samples itself, and has its functions."""
    script = '''
        import os, sys, time
        def busy():
            end = time.process_time() + 0.5
            held = []
            while time.process_time() < end:
                held.append(bytearray(100000))
                if len(held) > 50:
                    held.clear()
            return held
        for work in (busy, lambda: None):
            pid = os.fork()
            if pid == 0:
                work()
                sys.exit(0)
            os.waitpid(pid, 0)
            print(pid, flush=True)
    '''
    project.write({"server.py": textwrap.dedent(script)})
    done = project.piano("record", "-o", "x.rec", "--", sys.executable, "server.py")
    worker = int(done.out.split()[0])
    found = processes(project, project.root / "x.rec")
    assert next(iter(found)) == worker, found
    functions = project.json("report", "x.rec", "--cpu", "--process", worker)["functions"]
    assert "busy" in {f["name"] for f in functions}, functions
    whole = project.json("report", "x.rec", "--cpu")
    assert "busy" in {f["name"] for f in whole["functions"]}


@pytest.mark.parametrize("flag,says", [("--watch", r"! 1 poll took more than .*epoll loop of prefork \(\d+\)"),
                                       ("--on-long-poll=20ms:snapshot", r"a poll took .*epoll loop of prefork \(\d+\).*a snapshot was taken")])
def test_workers_are_watched(project: Project, flag: str, says: str) -> None:
    """The worker burns 0.1 s and waits; the program goes on when that was said."""
    program = prefork(project)
    tool = subprocess.Popen([PIANO, "record", "--heap", "--events", *flag.split("="), "-o", "x.rec", "--", program, "aaaabaawx"],
                            cwd=project.root, env=project.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True)
    said = ""
    for line in tool.stderr:
        said += line
        if re.search(says, line):
            break
    tool.stdin.close()
    said += tool.stderr.read()
    assert tool.wait(60) == 0 and re.search(says, said), said
    if "snapshot" in flag:
        assert len(project.json("report", "x.rec")["run"]["fired"]) == 1
