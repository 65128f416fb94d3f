"""`piano view --live`: newer data for a page, until the recording is complete. tests/browser/live.test.mjs tests the page itself."""
from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, Iterator

import pytest

from conftest import LIMIT_S, PIANO, Project, put_run, update_run
from pages import Page, directives
from test_top import program  # noqa: F401: a fixture
from test_view_server import Server, serving

MS = 10**6


@contextlib.contextmanager
def recording(project: Project, *program: Any) -> Iterator[tuple[subprocess.Popen, Path, int]]:
    file = project.root / "run.rec"
    command = program if len(program) > 1 else (*program, "600")
    process = subprocess.Popen([PIANO, "record", "--heap=1", "--cpu=500", "--events", "-o", file, "--", *command], cwd=project.root, env=project.env,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + LIMIT_S
        while not (file.exists() and (pid := int.from_bytes(file.read_bytes()[24:28], "little"))):
            assert time.monotonic() < end and process.poll() is None
            time.sleep(0.02)
        yield process, file, pid
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(timeout=LIMIT_S)


def ask(server: Server, has: int) -> tuple[dict[str, Any], bytes]:
    answer = server.ask(f"{server.path}live/{has}")
    assert answer.status == 200 and answer.getheader("Content-Type") == "application/octet-stream"
    line, _, rest = answer.body.partition(b"\n")  # type: ignore[attr-defined]
    return json.loads(line), rest


def newer(server: Server, has: int) -> tuple[dict[str, Any], dict[str, Any], bytes]:
    """The data after number HAS: its header, its description, its blocks."""
    end = time.monotonic() + LIMIT_S
    while True:
        note, rest = ask(server, has)
        if note["meta_bytes"]:
            return note, json.loads(rest[:note["meta_bytes"]]), rest[note["meta_bytes"]:]
        assert rest == b"" and time.monotonic() < end and note["state"] == "running", note
        time.sleep(note["wait_ms"] / 1e3)


def test_data_grows_and_the_last_is_the_page_of_the_file(project: Project, program: Path) -> None:  # noqa: F811
    with recording(project, program) as (process, file, pid), serving(project, "--live", pid, "--no-open") as server:
        page = Page(server.ask().body.decode())  # type: ignore[attr-defined]
        assert page.meta["live"] is True
        first = newer(server, 1)
        second = newer(server, first[0]["number"])
        assert first[0]["number"] >= 2 and second[0]["number"] > first[0]["number"]
        assert second[1]["duration_ns"] > first[1]["duration_ns"] > page.meta["duration_ns"]
        assert second[1]["tables"]["polls"]["rows"] > first[1]["tables"]["polls"]["rows"]
        process.terminate()
        process.wait(timeout=LIMIT_S)
        end = time.monotonic() + LIMIT_S
        note, meta, blocks = second
        while note["state"] != "ended":
            assert time.monotonic() < end
            note, meta, blocks = newer(server, note["number"])
        again, rest = ask(server, note["number"])
        assert {**again, "wait_ms": note["wait_ms"]} == {**note, "meta_bytes": 0} and rest == b""
        whole = Page(project.piano("view", "--alone", file, "-o", "-").out)
    assert meta.pop("live") is True and "live" not in whole.meta
    assert meta["tables"] == whole.meta["tables"] and meta["duration_ns"] == whole.meta["duration_ns"]
    assert whole.data == blocks


def test_nothing_is_packed_while_nobody_asks(project: Project, program: Path) -> None:  # noqa: F811
    with recording(project, program) as (_, file, _), serving(project, "--live", file, "--no-open") as server:
        first = newer(server, 1)[0]["number"]
        time.sleep(2.5)  # twice the interval after which it would pack again
        assert newer(server, first)[0]["number"] == first + 1


def test_page_that_is_live_may_load_from_its_server_alone(project: Project, program: Path) -> None:  # noqa: F811
    with recording(project, program) as (_, file, _), serving(project, "--live", "--no-open", file) as server:
        rules = directives(server.ask().getheader("Content-Security-Policy") or "")
        assert rules["connect-src"] == ["'self'"] and rules["default-src"] == ["'none'"]
        for path in ("live", "live/", "live/x", "live/1x", "live/-1", "live/1/", "live/" + "9" * 16, "live/../", "Live/1"):
            assert server.ask(server.path + path).status == 404, path
        assert server.ask("/" + "0" * 32 + "/live/1").status == 404
        assert server.ask(server.path + "live/1", Host="evil.example").status == 403
        assert server.ask(server.path + "live/1", Origin="http://evil.example").status == 403
        assert server.ask(server.path + "live/1", method="POST").status == 405
        head = server.ask(server.path + "live/1", method="HEAD")
        assert head.status == 200 and head.body == b""  # type: ignore[attr-defined]


def test_recorder_that_is_killed_ends_it(project: Project, program: Path) -> None:  # noqa: F811
    with recording(project, program) as (process, file, pid), serving(project, "--live", file, "--no-open") as server:
        note = newer(server, 1)[0]
        os.kill(process.pid, signal.SIGKILL)
        os.kill(pid, signal.SIGKILL)
        end = time.monotonic() + LIMIT_S
        while note["state"] == "running":
            assert time.monotonic() < end
            note = ask(server, note["number"])[0]
            time.sleep(0.1)


def test_recording_that_goes_away_leaves_the_last_data(project: Project, program: Path) -> None:  # noqa: F811
    with recording(project, program) as (_, file, _), serving(project, "--live", file, "--no-open") as server:
        note = newer(server, 1)[0]
        file.unlink()
        assert ask(server, note["number"])[0]["state"] == "ended"
        assert ask(server, 1)[0]["meta_bytes"] > 0
        assert server.ask().status == 200


def test_program_that_replaces_itself_is_followed(project: Project, program: Path) -> None:  # noqa: F811
    with recording(project, "sh", "-c", f"sleep 0.2; exec '{program}' 600") as (process, file, _), serving(project, "--live", file, "--no-open") as server:
        note, meta, _ = newer(server, 1)
        end = time.monotonic() + LIMIT_S
        while not meta["program"].endswith("/turns"):
            assert time.monotonic() < end and note["state"] == "running", note
            note, meta, _ = newer(server, note["number"])
        process.terminate()
        process.wait(timeout=LIMIT_S)
        while note["state"] == "running":
            note, meta, _ = newer(server, note["number"])
        assert meta["program"].endswith("/turns")
        assert meta["tables"] == Page(project.piano("view", "--alone", file, "-o", "-").out).meta["tables"]


def test_words_that_cannot_be_followed(project: Project) -> None:
    run = put_run(project, "1740000000123-77", update_run([5 * MS] * 3))
    for words, status, text in ((["--live", "1"], 1, "not being recorded"), (["--live", "4194304"], 1, "not being recorded"),
                                (["--live", run], 1, "only a recording"), (["--live", "a", "b"], 2, "one recording"),
                                (["--live", "-o", "x.html"], 2, "--live"), (["--live", "none.rec"], 1, "none.rec")):
        done = project.command(PIANO, "view", *words, check=False)
        assert done.status == status and text in done.err, done
