"""piano in the background of a script. A shell without job control starts such commands with SIGINT ignored: Ctrl-C
on the terminal is not meant for them, SIGTERM ends them, and their results are written."""
from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, Iterator

import pytest

from conftest import LIMIT_S, PIANO, Project, put_run, update_run

# Ends at the end of its input. Does not change the dispositions of SIGINT and SIGTERM.
READER = """
    #include <stdio.h>
    #include <stdlib.h>
    int update(int n) { return n; }
    int main(void)
    {
        void *volatile held = malloc(1 << 20);
        for (int i = 0; i < 10; i++)
            update(i);
        puts("ready");
        fflush(stdout);
        while (getchar() != EOF)
            ;
        return held ? 3 : 4;
    }
"""


@contextlib.contextmanager
def background(project: Project, *words: Any, **options: Any) -> Iterator[subprocess.Popen]:
    process = subprocess.Popen([PIANO, *map(str, words)], cwd=project.root, env=project.env, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN), **options)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_run_in_the_background_ignores_ctrl_c(project: Project) -> None:
    project.cc(READER)
    with background(project, "run") as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=LIMIT_S)
        assert process.returncode == 3, err
    assert project.report().calls("update") == {"update": 10}


def test_build_in_the_background_ignores_ctrl_c(project: Project) -> None:
    """The command reports that it runs, and waits for an answer, through two named pipes."""
    for name in ("up", "on"):
        os.mkfifo(project.home / name)
    project.write({"a.c": "int main(void) { return 0; }\n"})
    script = f"echo > {project.home}/up; read x < {project.home}/on; gcc a.c -o a"
    with background(project, "build", "--", "sh", "-c", script) as process:
        assert (project.home / "up").read_text() == "\n"
        process.send_signal(signal.SIGINT)
        with open(project.home / "on", "r+b", buffering=0) as on:  # does not wait for a reader
            on.write(b"go\n")
            process.wait(LIMIT_S)
        _, err = process.communicate(timeout=LIMIT_S)
        assert process.returncode == 0 and "instrumented 1 function" in err, err


@pytest.mark.tool
def test_page_in_the_background_ignores_ctrl_c(project: Project) -> None:
    put_run(project, "1740000000123-77", update_run([16_000_000] * 3))
    with background(project, "view", "--no-open") as process:
        url = process.stdout.readline().strip()
        process.send_signal(signal.SIGINT)
        page = project.command("python3", "-c", "import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).status)", url)
        assert page.out == "200\n"
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=LIMIT_S)
        assert process.returncode == 0 and "SIGTERM ends it" in err, err


def test_record_in_the_background_names_the_command_that_ends_it(project: Project) -> None:
    project.write({"prog.c": READER})
    project.command("gcc", "prog.c", "-o", "prog")
    with background(project, "record", "--heap=1K", "-o", "a.rec", "./prog") as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        line = process.stderr.readline()
        assert "SIGINT is ignored" in line and "kill -TERM" in line, line
        process.send_signal(signal.SIGTERM)
        process.wait(LIMIT_S)  # communicate() closes the input, so the program ends
        _, err = process.communicate(timeout=LIMIT_S)
        assert process.returncode == 128 + signal.SIGTERM and "recording: a.rec" in err, err
    assert project.json("report", "--heap", "a.rec")["run"]["end"] == "killed"


def test_an_interrupt_meant_for_an_attached_recording_ends_it(project: Project) -> None:
    project.write({"prog.c": READER})
    project.command("gcc", "prog.c", "-o", "prog")
    program = subprocess.Popen(["./prog"], cwd=project.root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert program.stdout.readline() == "ready\n"
        with background(project, "record", "--cpu", "--pid", program.pid, "-o", "a.rec") as process:
            lines = [process.stderr.readline()]
            if "cannot sample" in lines[0]:
                pytest.skip("no perf events here: " + lines[0])
            while "sampling process" not in lines[-1]:
                lines.append(process.stderr.readline())
                assert lines[-1], lines
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=LIMIT_S)
            assert process.returncode == 0 and "recording: a.rec" in err, err
        assert program.poll() is None, "it was the recording that was to end"
    finally:
        program.communicate("")


def read_until(master: int, text: str) -> str:
    seen, until = "", time.monotonic() + LIMIT_S
    while text not in seen and time.monotonic() < until:
        if select.select([master], [], [], 1)[0]:
            try:
                seen += os.read(master, 65536).decode("utf-8", "replace")
            except OSError:
                break
    assert text in seen, seen
    return seen


@pytest.mark.parametrize("command", ["record --heap=1K -o a.rec ./plain", "run"])
def test_ctrl_c_on_the_terminal_is_for_the_script_alone(project: Project, command: str) -> None:
    project.cc(READER)
    project.command("gcc", "prog.c", "-o", "plain")
    os.mkfifo(project.root / "input")
    script = f"trap 'echo trapped' INT; {PIANO} {command} < input & exec 3> input; wait; exec 3>&-; wait $!; echo status $?"
    try:
        pid, master = pty.fork()
    except OSError as error:
        pytest.skip(f"no terminal can be had here: {error}")
    if pid == 0:
        os.chdir(project.root)
        os.execvpe("sh", ["sh", "-c", script], project.env)
    try:
        read_until(master, "ready")
        os.write(master, b"\x03")
        seen = read_until(master, "status ")
        assert "trapped" in seen and re.search(r"status 3\b", seen + read_until(master, "\n") if seen.endswith("status ") else seen), seen
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(master)
