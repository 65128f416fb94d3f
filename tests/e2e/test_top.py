"""`piano top`: its figures of programs with known ones, its keys, and how it ends."""
from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import termios
import time
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

from conftest import LIMIT_S, PIANO, Project
from screens import ENTER, LEAVE, Screen
from test_attach import skip_if_refused

ROUNDED = 5e-7  # JSON has six decimals
# Each turn waits 10 ms, burns three parts in `hot` and one in `cool`, and keeps one block of 64 KB.
# Turn 12 is long. It runs until its deadline, or until it gets the command to end.
SOURCE = """
#define _GNU_SOURCE
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>
static volatile unsigned long sink;
static volatile sig_atomic_t over;
static void end(int sig) { (void)sig; over = 1; }
static double cpu(void) { struct timespec t; clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); return t.tv_sec + t.tv_nsec / 1e9; }
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
__attribute__((noinline)) void burn_hot(double s) { double e = cpu() + s; while (cpu() < e) for (int i = 0; i < 20000; i++) sink += i; }
__attribute__((noinline)) void burn_cool(double s) { double e = cpu() + s; while (cpu() < e) for (int i = 0; i < 20000; i++) sink += 3 * i; }
__attribute__((noinline)) void *keep_block(void) { char *p = malloc(65536); memset(p, 1, 65536); return p; }
__attribute__((noinline)) void use_block(void) { void *p = malloc(1 << 20); __asm__ volatile("" : : "r"(p) : "memory"); free(p); }
static void *kept[100000];
int main(int argc, char **argv)
{
    double deadline = now() + atof(argv[1]);
    signal(SIGTERM, end);
    prctl(PR_SET_NAME, argc > 2 ? argv[2] : "turner");
    puts("the first line");
    fflush(stdout);
    for (int turn = 0; !over && now() < deadline; turn++) {
        struct pollfd none = {0};
        poll(&none, 0, 10);
        burn_hot(turn == 12 ? 0.15 : 0.015);
        burn_cool(0.005);
        kept[turn] = keep_block();
        use_block();
    }
    puts("the last line");
    return 5;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("top")
    (place / "turns.c").write_text(SOURCE)
    subprocess.run(["gcc", "-O1", "-g", "-o", place / "turns", place / "turns.c"], check=True)
    return place / "turns"


def screen(project: Project, *words: Any, **options: Any) -> Screen:
    return Screen([PIANO, "top", *words], env=project.env, cwd=project.root, **options)


def column(s: Screen, title: str) -> dict[str, str]:
    """The cells of a column by the name of the function, the site or the thread."""
    titles = s.titles()
    if title not in titles:
        return {}  # rows of another tab, while the screen is being drawn
    name = next(i for i, t in enumerate(titles) if t in ("Function", "Site", "Thread", "Task"))
    return {row[name]: row[titles.index(title)] for row in s.table() if len(row) >= len(titles) - 1 and len(row) > name}


def readings(project: Project, *words: Any, check: bool = True) -> list[dict[str, Any]]:
    done = project.command(PIANO, "top", "--json", *words, check=False)
    assert not check or done.status in (0, 5), done
    return [json.loads(line) for line in done.out.splitlines() if line.startswith("{")]


def readings_until(project: Project, wanted: Callable[[dict[str, Any]], Any], *words: Any) -> list[dict[str, Any]]:
    """All readings. Once one satisfies WANTED, `piano top` is asked to end."""
    top = subprocess.Popen([PIANO, "top", "--json", "--interval", "0.2", *map(str, words)], cwd=project.root, env=project.env, stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL, text=True)
    got: list[dict[str, Any]] = []
    try:
        assert top.stdout
        end = time.monotonic() + LIMIT_S
        for line in top.stdout:
            had = got and wanted(got[-1])
            got.append(json.loads(line))
            if not had and wanted(got[-1]):
                top.terminate()
            assert time.monotonic() < end, got
        assert top.wait(timeout=LIMIT_S) in (0, 5)
    finally:
        top.kill()
        top.communicate()
    return got


def is_hot(reading: dict[str, Any]) -> bool:
    return bool(reading["state"] == "running" and reading["functions"] and reading["functions"][0]["name"] == "burn_hot" and
                reading["functions"][0]["cpu"] is not None)


@pytest.fixture
def sampled(project: Project, program: Path) -> None:
    done = project.command(PIANO, "record", "--cpu", "-o", "try.rec", "true", check=False)
    if "timers in the program" in done.err:
        pytest.skip("perf events are refused here, so no process can be sampled from outside")


@pytest.fixture
def recorded(project: Project, program: Path) -> Iterator[tuple[subprocess.Popen, Path]]:
    """Runs `piano record` until the test ends it."""
    file = project.root / "run.rec"
    process = subprocess.Popen([PIANO, "record", "--heap=1", "--cpu=500", "--events", "-o", file, program, "600"], cwd=project.root, env=project.env,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + LIMIT_S
    while not file.exists() or pid_of(file) == 0:
        assert time.monotonic() < end and process.poll() is None
        time.sleep(0.02)
    yield process, file
    if process.poll() is None:
        process.terminate()
    process.communicate(timeout=LIMIT_S)


def pid_of(file: Path) -> int:
    data = file.read_bytes()[:4096]
    return int.from_bytes(data[24:28], "little")


# ---- figures ----


def test_last_reading_equals_the_reports(project: Project, program: Path) -> None:
    last = readings(project, "--heap=1", "--cpu=500", "--events", "--interval", "0.3", program, 1.5)[-1]
    cpu, heap, polls = (project.json("report", part) for part in ("--cpu", "--heap", "--polls"))
    assert last["state"] == "exited" and last["exit_status"] == 5
    wanted = {f["name"]: (f["self_ns"], f["total_ns"], f["off_cpu_ns"], f["samples"]) for f in cpu["functions"]}
    assert {f["name"]: (f["self_ns"], f["total_ns"], f["off_cpu_ns"], f["samples"]) for f in last["functions"]} == wanted
    assert last["functions"][0]["name"] == cpu["functions"][0]["name"] == "burn_hot"
    assert last["live_bytes"] == heap["live_bytes"] and last["live_bytes_ci95"] == heap["live_bytes_ci95"]
    assert {(p["name"], p["caller"]): (p["live_bytes"], p["allocated_bytes"]) for p in last["places"]} == {
        (p["function"], p["caller"]): (p["live_bytes"], p["allocated_bytes"]) for p in heap["places"]}
    assert [p["duration_ns"] for p in last["longest"][:10]] == [p["duration_ns"] for p in polls["longest"][:10]]
    assert last["longest"][0]["duration_ns"] >= 150_000_000
    assert last["flags"] == [f["text"] for f in polls["flags"]] and "long" not in last["flags"]
    assert last["flags"][0].startswith(str(sum(t["long"] for t in polls["tasks"])))
    assert {t["name"]: t["polls"] for t in last["tasks"]} == {t["name"]: t["polls"] for t in polls["tasks"]}


def test_readings_of_a_running_program_add_up_to_the_report(project: Project, recorded: Any) -> None:
    """Only new samples are read; their sums equal those of a report that reads all."""
    process, file = recorded
    command = [PIANO, "top", "--json", "--interval", "0.2", str(file)]
    end = time.monotonic() + LIMIT_S
    top = subprocess.Popen(command, cwd=project.root, env=project.env, stdout=subprocess.PIPE, text=True)
    assert top.stdout
    try:
        seen = [json.loads(top.stdout.readline()) for _ in range(6)]
        assert all(reading["state"] == "running" for reading in seen)
        os.kill(pid_of(file), signal.SIGSTOP)  # nothing is recorded from now on

        def sums(reading: dict[str, Any]) -> dict[str, tuple]:
            return {f["name"]: (f["self_ns"], f["off_cpu_ns"], f["samples"]) for f in reading["functions"]}

        while len(seen) < 8 or sums(seen[-1]) != sums(seen[-2]) or seen[-1]["live_bytes"] != seen[-2]["live_bytes"]:
            assert time.monotonic() < end
            seen.append(json.loads(top.stdout.readline()))
        report = project.json("report", "--cpu", file)
        assert sums(seen[-1]) == {f["name"]: (f["self_ns"], f["off_cpu_ns"], f["samples"]) for f in report["functions"]}
        assert seen[-1]["live_bytes"] == project.json("report", "--heap", file)["live_bytes"]
        # Rates belong to one reading: the difference of the sums, as a share of the time.
        for before, after in zip(seen[1:6], seen[2:6]):
            old = {f["name"]: f["self_ns"] for f in before["functions"]}
            for f in after["functions"]:
                rounding = ROUNDED * (f["cpu"] + after["since_last_s"]) * 1e9
                assert f["cpu"] * after["since_last_s"] * 1e9 == pytest.approx(f["self_ns"] - old.get(f["name"], 0), abs=rounding + 1)
            grown = (after["live_bytes"] - before["live_bytes"]) / after["since_last_s"] * 60
            assert after["growth_per_minute"] == pytest.approx(grown, rel=1e-3, abs=2)
    finally:
        top.terminate()
        top.communicate(timeout=LIMIT_S)
        os.kill(pid_of(file), signal.SIGCONT)
    assert top.returncode == 0


def milliseconds(text: str) -> float:
    """Of a time in ms or s; 0 for shorter ones."""
    found = re.fullmatch(r"([\d.]+)(m?s)", text)
    return float(found[1]) * (1 if found[2] == "ms" else 1000) if found else 0.0


def test_screen_shows_the_known_program(project: Project, program: Path) -> None:
    with screen(project, "--heap=1", "--cpu=500", "--interval", "0.3", "--events", program, 600) as s:
        hot = s.until(lambda s: s.table() and column(s, "CPU").get("burn_hot", "-").endswith("%") and column(s, "CPU"))
        names = list(hot)
        assert names.index("burn_hot") < names.index("burn_cool"), s
        assert float(hot["burn_hot"][:-1]) > float(hot["burn_cool"][:-1]), s
        s.press("2")
        s.until(lambda s: s.table() and re.match(r"\+", column(s, "Growth/min").get("keep_block", "")))
        assert "use_block" not in column(s, "Live") or column(s, "Live")["use_block"] == "0B", s
        s.press("f3")
        s.until(lambda s: s.lines[4].startswith("! ") and "more than 10ms" in s.lines[4])
        # The long turn may still be open when the list is first drawn; on a busy machine turns take seconds.
        s.until(lambda s: s.table() and s.titles()[0] == "Longest" and milliseconds(s.table()[0][0]) >= 150)
        s.press("enter")
        s.until(lambda s: any("burn_hot" in line for line in s.lines))
        s.press("escape", "4")
        s.until(lambda s: s.table() and "turner" in column(s, "CPU"))
        s.press("5")
        s.until(lambda s: "the first line" in s.lines)
        s.press("q")
        assert s.end() == 0
        assert "the last line" in s.after() and "next: piano report" in s.after()
    last = project.json("report", "--cpu")
    assert last["functions"][0]["name"] == "burn_hot"


def test_final_screen_has_the_figures_of_the_report(project: Project, program: Path) -> None:
    with screen(project, "--interval", "0.3", "--heap=1", "--cpu=500", "--events", program, 1) as s:
        s.until(lambda s: "exited with 5" in s.lines[0])
        s.press("t")
        s.until(lambda s: "since the start" in s.lines[3] and s.table() and "Samples" in s.titles())
        shown = column(s, "CPU"), column(s, "Off CPU")
        s.press("2")
        s.until(lambda s: s.table() and "Allocated" in s.titles())
        live = column(s, "Live")
        s.press("q")
        assert s.end() == 5
    report = project.piano("report", "--cpu").out.splitlines()
    row = next(line.split() for line in report if line.startswith("burn_hot "))
    assert shown[0]["burn_hot"] == row[1]
    heap = project.piano("report", "--heap").out
    assert re.search(rf"^keep_block\b.*\b{re.escape(live['keep_block'])}\b", heap, re.M), (live, heap)


# ---- keys ----


def test_keys(project: Project, recorded: Any) -> None:
    _, file = recorded
    with screen(project, "--interval", "0.2", file) as s:
        s.until(lambda s: s.table() and "burn_hot" in column(s, "CPU"))
        s.press("s")
        s.until(lambda s: s.lines[3].endswith("by off"))
        s.until(lambda s: s.table() and s.table()[0][1] != "0.0%")
        s.press("/", "c", "o", "o", "l", "enter")
        s.until(lambda s: s.table() and list(column(s, "CPU")) == ["burn_cool"])
        s.press("enter")
        s.until(lambda s: s.lines[4] == "burn_cool" and any(line.strip().startswith("main ") for line in s.lines))
        s.press("escape", "escape")
        s.until(lambda s: s.table() and "burn_hot" in column(s, "CPU"))
        s.press(" ")
        s.until(lambda s: "PAUSED" in s.lines[0])
        s.press("enter")  # the detail is there while it is paused
        s.until(lambda s: any(line.startswith("on the CPU") for line in s.lines))
        s.press("escape")
        wall = s.lines[0]
        s.press("h")
        s.until(lambda s: any("Any key goes back" in line for line in s.lines))
        s.press("x", "left")
        s.until(lambda s: "[5 Output]" in s.lines[2])
        assert "elsewhere" in s.lines[4], s
        s.press("right")
        s.until(lambda s: "[1 Functions]" in s.lines[2])
        assert s.lines[0] == wall, s
        s.press(" ")
        s.until(lambda s: "PAUSED" not in s.lines[0] and s.lines[0] != wall)
        s.press("2", "enter")
        s.until(lambda s: any(line.startswith("live ") for line in s.lines))
        s.press("4", "enter")
        s.until(lambda s: any("functions of this thread" in line for line in s.lines))
        s.press("q")
        assert s.end() == 0


def test_rows_follow_the_size_of_the_terminal(project: Project, recorded: Any) -> None:
    _, file = recorded
    with screen(project, "--interval", "0.2", file, rows=40, columns=150) as s:
        many = s.until(lambda s: len(s.table()) > 6 and len(s.table()))
        s.resize(11, 60)
        s.until(lambda s: s.lines[10].startswith("q quit") and len(s.table()) == 4)
        assert many > 4 and max(map(len, s.lines)) <= 60
        s.press("down", "down", "down", "down", "down")
        s.until(lambda s: s.table() and s.table()[0][-2:] != [] and len(s.table()) == 4)
        s.resize(4, 20)
        s.until(lambda s: s.lines[3].startswith("q quit"))
        s.resize(30, 100)
        s.until(lambda s: len(s.table()) > 6)
        s.press("q")
        assert s.end() == 0


# ---- ends ----


@pytest.mark.parametrize("key", ["q", "\x03"], ids=["q", "ctrl-c"])
def test_quitting_ends_the_program_and_restores_the_terminal(project: Project, program: Path, key: str) -> None:
    with screen(project, program, 600) as s:
        usual = termios.tcgetattr(s.master)
        s.until(lambda s: "running" in s.lines[0])
        assert not termios.tcgetattr(s.master)[3] & termios.ECHO
        pid = int(re.search(r"pid (\d+)", s.lines[0]).group(1))  # type: ignore[union-attr]
        s.press(key)
        assert s.end() == 0
        assert s.raw.count(ENTER) == s.raw.count(LEAVE) == 1
        assert termios.tcgetattr(s.master) == usual or termios.tcgetattr(s.master)[3] & termios.ECHO
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_stopped_top_gives_the_terminal_back_and_goes_on(project: Project, program: Path) -> None:
    with screen(project, program, 600) as s:
        s.until(lambda s: "running" in s.lines[0])
        s.press("\x1a")
        assert os.WIFSTOPPED(os.waitpid(s.pid, os.WUNTRACED)[1])
        s.until(lambda s: not s.is_open)
        assert termios.tcgetattr(s.master)[3] & termios.ECHO
        os.killpg(s.pid, signal.SIGCONT)
        s.until(lambda s: s.is_open and "running" in s.lines[0])
        assert not termios.tcgetattr(s.master)[3] & termios.ECHO
        s.press("q")
        assert s.end() == 0


def test_killed_program_is_said(project: Project, program: Path) -> None:
    with screen(project, "--cpu=500", "--interval", "0.2", program, 600) as s:
        s.until(lambda s: s.table() and "burn_hot" in column(s, "CPU"))
        os.kill(int(re.search(r"pid (\d+)", s.lines[0]).group(1)), signal.SIGKILL)  # type: ignore[union-attr]
        s.until(lambda s: "killed by SIGKILL" in s.lines[0])
        assert any("burn_hot" in line for line in s.lines), s
        s.press("q")
        assert s.end() == 137
    assert "burn_hot" in [f["name"] for f in project.json("report", "--cpu")["functions"]]


def test_signal_restores_the_terminal(project: Project, recorded: Any) -> None:
    process, file = recorded
    with screen(project, file) as s:
        s.until(lambda s: "running" in s.lines[0])
        os.kill(s.pid, signal.SIGTERM)
        assert s.end() == 0 and LEAVE in s.raw
    with screen(project, file) as s:
        s.until(lambda s: "running" in s.lines[0])
        os.kill(s.pid, signal.SIGSEGV)  # a crash
        assert s.end() == -signal.SIGSEGV and LEAVE in s.raw
    assert process.poll() is None, "the recording goes on"


def test_following_ends_with_the_recording(project: Project, recorded: Any) -> None:
    process, file = recorded
    with screen(project, "--interval", "0.2", file) as s:
        s.until(lambda s: "running" in s.lines[0])
        process.terminate()
        s.until(lambda s: "exited with 5" in s.lines[0])
        s.press("q")
        assert s.end() == 0


def test_program_that_replaces_itself_is_followed(project: Project, program: Path) -> None:
    got = readings_until(project, is_hot, "-o", "out.rec", "--cpu=500", "--heap=1", "--", "sh", "-c", f"exec '{program}' 600")
    assert got[-1]["program"].endswith("/turns") and got[-1]["exit_status"] == 5
    assert got[-1]["functions"][0]["name"] == "burn_hot"
    assert got[-1]["live_bytes"] == project.json("report", "--heap", "out.rec")["live_bytes"]


# ---- choice of the recording ----


def test_process_that_is_recorded_is_followed(project: Project, recorded: Any) -> None:
    _, file = recorded
    before = set(project.runs.glob("*")) if project.runs.exists() else set()
    got = readings(project, "--interval", "0.2", "--duration", "1", pid_of(file))
    assert got[-1]["pid"] == pid_of(file) and got[-1]["live_bytes"] is not None
    assert (set(project.runs.glob("*")) if project.runs.exists() else set()) == before, "nothing else is recorded"


def test_process_that_runs_is_sampled(project: Project, program: Path, sampled: None) -> None:
    process = subprocess.Popen([program, "600"], stdout=subprocess.DEVNULL)
    try:
        got = readings_until(project, is_hot, "--cpu=500", process.pid)
        assert got[-1]["state"] == "exited" and got[-1]["pid"] == process.pid, "the recording has ended"
        assert got[-1]["live_bytes"] is None or got[-1]["live_bytes"] >= 0, "what is not recorded is not 0"
        assert process.poll() is None, "it goes on"
    finally:
        process.kill()
        process.wait()


def test_process_that_runs_shows_memory_polls_and_functions(project: Project, program: Path) -> None:
    """All that a program shows that `piano top` starts: the library is brought into the process."""
    process = subprocess.Popen([program, "600"], stdout=subprocess.DEVNULL)

    def has_all(reading: dict[str, Any]) -> bool:
        return bool(reading["state"] == "running" and reading["places"] and reading["polls"] and reading["longest"] and
                    reading["growth_per_minute"] and reading["live_bytes"] > 20 * 65536)
    try:
        done = project.command(PIANO, "record", "--heap", "--pid", process.pid, "--duration", "0.01", "-o", "try.rec", check=False)
        skip_if_refused(done.err)
        got = readings_until(project, has_all, "--heap=1", "--events", "-o", "x.rec", process.pid)
        assert got[-1]["state"] == "exited" and got[-1]["pid"] == process.pid, "the recording has ended"
        shown = next(reading for reading in got if has_all(reading))
        place = next(p for p in shown["places"] if p["name"] == "keep_block")
        assert place["live_bytes"] == 65536 * place["live_objects"] > 0 and shown["growth_per_minute"] > 0
        assert shown["functions"] is None, "the CPU was not asked for"
        assert "poll loop of turner" in shown["longest"][0]["task"]
        assert got[-1]["live_bytes"] == project.json("report", "--heap", "x.rec")["live_bytes"]
        assert process.poll() is None, "it goes on"
    finally:
        process.kill()
        process.wait()


def test_words_that_mean_nothing(project: Project) -> None:
    for words, text in ((["4194304"], "there is no process"), (["nothing.rec"], "nothing.rec"), ([], ""),
                        (["--interval", "0", "true"], "--interval"), (["--heap=x", "true"], "--heap")):
        done = project.command(PIANO, "top", *words, check=False)
        assert done.status in (1, 2) and text in done.err and not done.out, done


# ---- lines ----


def test_pipe_gets_blocks_of_lines(project: Project, program: Path) -> None:
    done = project.command(PIANO, "top", "--interval", "0.2", program, 1, check=False)
    assert done.status == 5 and "\x1b" not in done.out
    blocks = done.out.split("\n\nturns  pid ")
    assert len(blocks) >= 2 and "exited with 5" in blocks[-1] and "burn_hot" in blocks[-1]
    assert "the first line" in done.err and "the first line" not in done.out
    assert "next: piano report" in done.err


def test_reader_that_goes_away_ends_it(project: Project, program: Path) -> None:
    command = f"'{PIANO}' top --interval 0.1 '{program}' 600 2>err | head -n 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=project.root, env=project.env, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.stdout.splitlines()[-1] == "0", (done, (project.root / "err").read_text())
    assert "Broken pipe" not in (project.root / "err").read_text()


def test_dumb_terminal_gets_lines(project: Project, program: Path) -> None:
    status, out = project.run_in_pty(PIANO, "top", "--interval", "0.2", program, 0.5, env={"TERM": "dumb"})
    assert status == 5 and "\x1b" not in out and "burn_hot" in out


def test_no_colour(project: Project, recorded: Any) -> None:
    _, file = recorded
    project.env["NO_COLOR"] = "1"
    with screen(project, "--interval", "0.2", file) as s:
        s.press("3")
        s.until(lambda s: s.lines[4].startswith("! "))
        s.press("q")
        assert s.end() == 0 and b"\x1b[31m" not in s.raw


def test_hostile_names_are_inert(project: Project, program: Path) -> None:
    evil = project.root / "a\x1b[31m\u202eb"
    evil.write_bytes(program.read_bytes())
    evil.chmod(0o755)
    with screen(project, "--interval", "0.2", evil, 600, "t\x1b]0;x\x07") as s:  # the screen fails at unknown sequences
        s.until(lambda s: "running" in s.lines[0] and "\\x1b" in s.lines[0])
        s.press("4")
        s.until(lambda s: any("t\\x1b]0;x\\x07" in line for line in s.lines))
        s.press("q")
        assert s.end() == 0
