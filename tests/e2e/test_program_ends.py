"""Ends of programs: the duration if a signal ended it, the exit status if piano itself lacks memory or stack, and processes that
remain."""
from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Iterator

import pytest

from conftest import PIANO, PIANO_WORD, Project
from samples import WORK, compiled
from test_cpu import REFUSED

PERF = pytest.mark.skipif(bool(REFUSED), reason=f"perf events are refused here: {REFUSED}")
FLAGS = [pytest.param(("--cpu",), marks=PERF, id="cpu"), pytest.param(("--heap",), id="heap"),
         pytest.param(("--events",), id="events")]


# Duration ----------------------------------------------------------------------------------------------------

# Allocates at the start and then only sleeps: no record tells when the program ended.
ENDS = r"""
    #include <signal.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <time.h>
    #include <unistd.h>
    int main(int argc, char **argv)
    {
        struct timespec half = {0, 500000000};
        char *p = malloc(1 << 20);
        memset(p, 1, 1 << 20);
        nanosleep(&half, NULL);
        if (argv[1][0] == '_')
            _exit(3);
        raise(atoi(argv[1]));
        return p == NULL;
    }
"""


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("end", [signal.SIGABRT, signal.SIGKILL, signal.SIGTERM, "_exit"])
def test_duration_of_a_program_that_a_signal_ended(project: Project, flags: tuple, end: object) -> None:
    program = compiled(project, ENDS)
    before = time.monotonic_ns()
    word = end if isinstance(end, str) else int(end)
    done = project.piano("record", *flags, "-o", "x.rec", "--", program, word, check=False)
    most = time.monotonic_ns() - before
    assert done.status == (3 if end == "_exit" else 128 + end), done
    run = project.json("report", "x.rec", "--polls" if flags == ("--events",) else flags[0])["run"]
    assert 500e6 <= run["wall_ns"] <= most and run["wall_at_least"] is False, run
    assert "at least" not in project.piano("report", "x.rec", check=False).out


def test_duration_when_the_time_limit_kills(project: Project) -> None:
    done = project.piano("record", "--heap", "--duration", "0.3", "-o", "x.rec", "--", "sleep", "60")
    run = project.json("report", "--heap", "x.rec")["run"]
    assert done.status == 0 and run["signal"] == signal.SIGTERM
    assert 290e6 <= run["wall_ns"] < 30e9 and run["wall_at_least"] is False, run


# The exit status ---------------------------------------------------------------------------------------------

# Maps many libraries, so that the search for names needs memory.
STATUS = ("/usr/bin/python3", "-c", "import ssl, sqlite3, xml.dom.minidom\nfor i in range(2000000): pass\nexit(7)")


@PERF
@pytest.mark.parametrize("limit", ["-v 30000", "-v 60000", "-v 100000", "-v 200000", "-s 64", "-s 128"])
def test_program_keeps_its_status_when_piano_lacks_memory_or_stack(project: Project, limit: str) -> None:
    """libdw ends the process that finds the names, or fails, after the program has ended."""
    if project.command("sh", "-c", f"ulimit {limit}; exec \"$@\"", "sh", *STATUS, check=False).status != 7:
        pytest.skip("the program itself does not run below this limit")
    done = project.command("sh", "-c", f"ulimit {limit}; exec \"$@\"", "sh", PIANO, "record", "--cpu=999", "--kernel", "-o", "x.rec",
                           "--", *STATUS, check=False)
    assert done.status == 7, done
    assert "next: piano report x.rec" in done.err, done
    project.piano("report", "--cpu", "x.rec")


@PERF
def test_names_that_are_found_with_little_stack_are_kept(project: Project) -> None:
    program = compiled(project, WORK + "int main(void) { a(60000000); return 0; }", "-g", "-O1")
    done = project.command("sh", "-c", f"ulimit -s 128; {PIANO_WORD} record --cpu=999 -o x.rec -- {program}", check=False)
    assert "not stored" not in done.err and done.status == 0, done
    program.unlink()
    assert "burn" in project.piano("report", "--cpu", "x.rec").out


# Remaining processes -----------------------------------------------------------------------------------------

# The child waits until its end of the pipe is closed. The test holds the other end.
DAEMON = r"""
    #include <fcntl.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <unistd.h>
    int main(int argc, char **argv)
    {
        char c;
        if (argc > 2 && daemon(1, 1) != 0)
            return 3;
        FILE *f = fopen("pid", "w");
        fprintf(f, "%d\n", getpid());
        fclose(f);
        int fd = open(argv[1], O_RDONLY);
        return read(fd, &c, 1) != 0;
    }
"""


@pytest.fixture
def gate(project: Project) -> Iterator[Path]:
    """A pipe that a program reads until the test ends."""
    path = project.root / "gate"
    subprocess.run(["mkfifo", path], check=True)
    fd = os.open(path, os.O_RDWR)
    yield path
    os.close(fd)


@pytest.mark.parametrize("flags", FLAGS)
def test_program_that_becomes_a_daemon_is_told(project: Project, gate: Path, flags: tuple) -> None:
    program = compiled(project, DAEMON)
    out = project.root / "said"
    with open(out, "w") as said:  # the daemon keeps its descriptors, so a pipe would not end
        tool = subprocess.run([PIANO, "record", "--no-children", *flags, "-o", "x.rec", "--", program, gate, "daemon"], cwd=project.root,
                              env=project.env, stdin=subprocess.DEVNULL, stdout=said, stderr=said, check=False)
    assert tool.returncode == 0, out.read_text()
    found = re.search(r"prog has ended, but 1 process that it started still runs \((\d+)\)", out.read_text())
    assert found, out.read_text()
    assert f"--pid {found[1]}" in out.read_text()


@pytest.mark.parametrize("flags", FLAGS)
def test_program_whose_children_have_ended_is_not_called_a_daemon(project: Project, flags: tuple) -> None:
    done = project.piano("record", *flags, "-o", "x.rec", "--", "sh", "-c", "true; sleep 0.1 & wait; true | cat")
    assert "still run" not in done.err, done


# The interval of the peak --------------------------------------------------------------------------------------

PEAK = r"""
    #include <stdlib.h>
    #include <string.h>
    static void *held[4000];
    int main(void)
    {
        for (int i = 0; i < 4000; i++) held[i] = memset(malloc(4096), 1, 4096);
        for (int i = 0; i < 3000; i++) free(held[i]);
        return held[3999] == NULL;
    }
"""
HELD = 4000 * 4096


def test_peak_of_the_program_has_an_interval(project: Project) -> None:
    project.piano("record", "--heap=64K", "-o", "x.rec", "--", compiled(project, PEAK, "-O0"))
    data = project.json("report", "--heap", "x.rec")
    low, high = data["peak_bytes_ci95"]
    half = (high - low) / 2
    assert low < data["peak_bytes"] < high
    assert 0.8 < half / (1.96 * (HELD * 65536) ** 0.5) < 1.2, (low, high)
    assert abs(data["peak_bytes"] - HELD) < 2 * half, "four standard deviations"
    line = next(line for line in project.piano("report", "--heap", "x.rec").out.splitlines() if line.startswith("Peak"))
    assert re.search(r"Peak +\S+ in \d+ objects, 95 %: \S+ to \S+, after", line), line


def test_peak_of_an_exact_recording_has_no_interval(project: Project) -> None:
    project.piano("record", "--heap=1", "-o", "x.rec", "--", compiled(project, PEAK, "-O0"))
    data = project.json("report", "--heap", "x.rec")
    assert data["peak_bytes_ci95"] == [data["peak_bytes"]] * 2
    assert data["peak_bytes"] >= HELD
    assert "95 %" not in project.piano("report", "--heap", "x.rec").out
