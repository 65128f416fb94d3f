"""Snapshots of a program that is being recorded: by a timer, by a signal, by `piano snapshot`."""
from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, Callable

import pytest

from conftest import LIMIT_S, PIANO, Done, Project, need
from test_record import (AS_ROOT, NOBODY, WAITING, Header, Running, compiled, only, recordings,
                         running)  # noqa: F401 (a fixture)


def until(what: Callable[[], Any], limit: float = 20) -> Any:
    """Returns the result of WHAT as soon as it is true."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        got = what()
        if got:
            return got
        time.sleep(0.01)
    raise AssertionError(f"not so after {limit} s: {what}")


def heap(project: Project, path: Path) -> dict[str, Any]:
    return project.json("report", "--heap", path)


def test_snapshot_of_a_running_program(project: Project, running: Callable[..., Running]) -> None:
    one = running("--snapshot-every", "0")
    done = project.piano("snapshot", one.pid)
    path = only(project)
    assert done.out == f"snapshot 1: {path}\n" and done.err == ""
    assert project.piano("snapshot", one.pid).out == f"snapshot 2: {path}\n"
    assert one.end()[:2] == (0, "held\n")
    shots = heap(project, path)["snapshots"]
    assert len(shots) == 2
    assert all(shot["live_bytes"] > 8 << 20 for shot in shots), "16 MB are held"


def test_sigusr2_takes_one(project: Project, running: Callable[..., Running]) -> None:
    one = running("--snapshot-every", "0")
    path = only(project)
    for number in (1, 2, 3):
        os.kill(one.tool.pid, signal.SIGUSR2)
        until(lambda: Header(path).snapshots == number)
    no_snapshot(project, one.tool.pid, f"not recorded itself(.|\n)*try: piano snapshot {one.pid}")
    assert one.end()[0] == 0
    assert len(heap(project, path)["snapshots"]) == 3


def test_snapshots_by_the_clock(project: Project, running: Callable[..., Running]) -> None:
    one = running("--snapshot-every", "0.02")
    path = only(project)
    until(lambda: Header(path).snapshots >= 10)
    one.end()
    shots = heap(project, path)["snapshots"]
    assert len(shots) >= 10


def test_snapshots_by_default_and_never(project: Project, running: Callable[..., Running]) -> None:
    one = running()
    path = only(project)
    until(lambda: Header(path).snapshots >= 3)
    one.end()
    path.unlink()
    one = running("--snapshot-every", "0")
    project.piano("snapshot", one.pid)
    one.end()
    assert Header(only(project)).snapshots == 1


def test_snapshots_of_what_a_process_becomes_and_of_children(project: Project) -> None:
    program = compiled(project, WAITING)
    script = project.write({"twice.sh": f"""
        {program} < /dev/null > /dev/null
        exec env X=1 {program}
    """}).root / "twice.sh"
    script.chmod(0o755)
    script.write_text("#!/bin/sh\n" + script.read_text())
    one = Running(project, script, "--children", "--snapshot-every", "0")
    try:
        os.kill(one.tool.pid, signal.SIGUSR2)
        until(lambda: [p for p in recordings(project) if Header(p).snapshots == 1])
        assert one.end()[0] == 0
    finally:
        one.kill()
    main = next(p for p in recordings(project) if p.name.endswith(".rec"))
    assert Header(main).program == str(program) and Header(main).snapshots == 1


def test_a_flood_of_snapshots_is_bounded(project: Project, running: Callable[..., Running]) -> None:
    """Requested 200 000 times by a signal and 300 times by a command: not one chunk each, and the program continues."""
    one = running("--snapshot-every", "0.01")
    path = only(project)
    for _ in range(200_000):
        os.kill(one.tool.pid, signal.SIGUSR2)
    before = path.stat().st_size
    for _ in range(300):
        project.piano("snapshot", one.pid)
    assert path.stat().st_size - before < 300 * 4096
    assert one.end()[:2] == (0, "held\n")
    assert path.stat().st_size < 300 << 20
    assert len(heap(project, path)["snapshots"]) >= 300


def test_snapshots_at_once_from_several_tools(project: Project, running: Callable[..., Running]) -> None:
    one = running("--snapshot-every", "0.01")
    path = only(project)
    many = [subprocess.Popen([PIANO, "snapshot", str(one.pid)], env=project.env, stdout=subprocess.PIPE, text=True)
            for _ in range(40)]
    numbers = [int(re.match(r"snapshot (\d+): ", tool.communicate(timeout=LIMIT_S)[0])[1]) for tool in many]
    assert len(set(numbers)) == 40
    one.end()
    shots = {shot["number"]: shot for shot in heap(project, path)["snapshots"]}
    assert set(numbers) <= set(shots) and len(shots) == Header(path).snapshots


def no_snapshot(project: Project, pid: Any, says: str, **options: Any) -> Done:
    done = project.piano("snapshot", pid, check=False, **options)
    assert done.status == 1 and done.out == "" and re.search(says, done.err), done
    return done


@pytest.mark.tool
def test_snapshot_of_no_process(project: Project) -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    no_snapshot(project, child.pid, f"there is no process {child.pid}")


@pytest.mark.tool
def test_snapshot_of_a_process_that_ended(project: Project) -> None:
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    no_snapshot(project, child.pid, f"process {child.pid} has ended already")
    child.wait()


@pytest.mark.tool
def test_snapshot_of_a_process_that_is_not_recorded(project: Project) -> None:
    no_snapshot(project, os.getpid(), "is not being recorded by piano\n.*try: start it with: piano record")


@AS_ROOT
@pytest.mark.tool
def test_snapshot_of_another_users_process(project: Project) -> None:
    done = project.command(need("setpriv"), "--reuid", NOBODY, "--clear-groups", PIANO, "snapshot", os.getpid(),
                           check=False)
    if "piano: " not in done.err:
        pytest.skip("another user cannot reach the tool here")
    assert done.status == 1 and f"process {os.getpid()} is not yours, but root's" in done.err


@AS_ROOT
@pytest.mark.tool
def test_snapshot_of_a_process_that_hides(project: Project) -> None:
    """The recording belongs to the user, so the message does not suggest root."""
    user = [need("setpriv"), "--reuid", str(NOBODY), "--clear-groups"]
    hidden = subprocess.Popen([*user, "/usr/bin/python3", "-c", "import ctypes, sys; print(ctypes.CDLL(None).prctl(4, 0), "
                               "flush=True); sys.stdin.read()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert hidden.stdout.readline() == b"0\n"
        done = project.command(*user, PIANO, "snapshot", hidden.pid, check=False)
    finally:
        hidden.communicate()
    if "piano: " not in done.err:
        pytest.skip("another user cannot reach the tool here")
    assert done.status == 1 and "does not allow reading its memory map" in done.err and "sudo" not in done.err, done


@pytest.mark.tool
def test_snapshot_as_root_where_root_is_not_enough(project: Project) -> None:
    try:
        open("/proc/1/maps").read()
        pytest.skip("the mappings of process 1 can be read here")
    except OSError:
        pass
    done = project.piano("snapshot", "1", check=False)
    if os.geteuid() == 0:
        assert "not even by root" in done.err and "sudo" not in done.err and "not yours" not in done.err, done
    assert done.status == 1


def test_snapshot_of_a_child_that_is_not_recorded(project: Project) -> None:
    program = compiled(project, r"""
        #include <stdio.h>
        #include <stdlib.h>
        #include <unistd.h>
        int main(void)
        {
            for (int i = 0; i < 1000; i++) malloc(4096);
            int fd[2];
            (void)!pipe(fd);
            pid_t child = fork();
            if (child == 0) { char c; close(fd[1]); (void)!read(fd[0], &c, 1); _exit(0); }
            printf("%d\n", child);
            fflush(stdout);
            (void)!getchar();
            return 0;
        }
    """)
    one = Running(project, program, "--no-children")
    try:
        no_snapshot(project, one.pid, "not recorded itself|is not being recorded")
        assert one.end()[0] == 0
    finally:
        one.kill()


def test_snapshot_of_a_deleted_recording(project: Project, running: Callable[..., Running]) -> None:
    one = running("--snapshot-every", "0")
    only(project).unlink()
    no_snapshot(project, one.pid, f"the recording of process {one.pid} was deleted")
    status, out, err = one.end()
    assert (status, out) == (0, "held\n") and "left no recording" in err


def test_snapshot_of_a_recording_with_an_odd_name(project: Project, running: Callable[..., Running]) -> None:
    """Newlines, blanks and escapes in a path neither hide it nor reach the terminal."""
    name = "a b\n\x1b[31m (deleted).rec"
    one = running("--snapshot-every", "0", "-o", name)
    done = project.piano("snapshot", one.pid)
    assert done.out.startswith("snapshot 1: ") and done.out.count("\n") == 1 and "\x1b" not in done.out
    status, _, err = one.end()
    assert status == 0 and "\x1b" not in err
    assert Header(project.root / name).snapshots == 1
