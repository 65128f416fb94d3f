"""The messages of `piano record` and `piano list` agree with the recording, however its program ended."""
from __future__ import annotations

import re
import signal

import events
from conftest import Project
from events import API, compile

TURNS = """
    #include <piano.h>
    #include <signal.h>
    #include <stdlib.h>
    #include <sys/wait.h>
    #include <unistd.h>
    static void turns(int n) { for (int i = 0; i < n; i++) piano_mark("turn"); }
    int main(int argc, char **argv) {
        if (argc > 2) { /* a child that is killed */
            pid_t child = fork();
            if (child == 0) { turns(atoi(argv[1])); raise(SIGKILL); }
            waitpid(child, 0, 0);
            return 0;
        }
        turns(atoi(argv[1]));
        raise(SIGKILL);
        return 0;
    }
"""


def test_events_of_a_killed_program_are_counted(project: Project) -> None:
    program = compile(project, TURNS, *API)
    for turns in (1, 1000, 60_000):  # the last one has full chunks, which are counted as they are filled
        path = project.root / f"{turns}.rec"
        done = project.piano("record", "--events", "-o", path, "--", program, turns, check=False)
        assert done.status == 128 + signal.SIGKILL
        r = events.load(path)
        assert len(r.events) >= turns
        said, = re.findall(r"(\d+) events?", done.err)
        assert int(said) == len(r.events) == r.trace["events"], done.err
        assert "next: piano report" in done.err and "no events" not in done.err


def test_a_killed_child_keeps_its_recording(project: Project) -> None:
    program = compile(project, TURNS, *API)
    path = project.root / "tree.rec"
    done = project.piano("record", "--events", "--children", "-o", path, "--", program, 500, "child")
    child, = project.root.glob("tree.rec-*")
    assert len(events.load(child).events) >= 500
    assert re.search(rf"also: {child.name} \(prog, process \d+: 50\d events\)", done.err), done.err


def test_record_reports_when_there_were_no_events(project: Project) -> None:
    program = compile(project, "int main(void) { return 0; }")
    done = project.piano("record", "--events", "--", program)
    assert "there were no events" in done.err and "CPU time" not in done.err


def test_list_says_what_is_in_a_recording(project: Project) -> None:
    program = compile(project, TURNS.replace("raise(SIGKILL);", ""), *API)
    wanted = [("--heap",), ("--events",), ("--heap", "--events")]
    for flags in wanted:
        project.piano("record", *flags, "--", program, 10)
    rows = project.json("list")["runs"]
    assert [row["kinds"] for row in reversed(rows)] == [[flag[2:] for flag in flags] for flags in wanted]
    lines = project.piano("list").out.splitlines()[2:]
    assert "heap, events" in lines[0] and re.search(r" events +-", lines[1]) and re.search(r" heap +-", lines[2])
