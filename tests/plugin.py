"""pytest plugin of tests/run: a time limit for each test, and results that are written to disk at once.

TEST_LIMIT_S is the limit of one test in seconds. A test that exceeds it fails with a message, its child processes are killed, and the next
one begins. If that does not stop it, its process is killed. pytest-xdist then reports the test and continues with
another process; without xdist, tests/run starts pytest again for the remaining tests.

--piano-results=FILE gets one line of JSON at the begin and at the end of each test. Tests listed in --piano-done=FILE, one per line,
are not run again. That file does not change while pytest runs, because all its processes must collect the same tests.
"""
from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any, Iterator

import pytest

LIMIT_S = float(os.environ.get("TEST_LIMIT_S", "0"))
GRACE_S = 30  # from the failure of a slow test until its process is killed
MARK = "TEST_NAME"  # in the environment of all processes that a test starts


def restore_python_path() -> None:
    """Restores PYTHONPATH from before tests/run in the processes that run tests; the processes of xdist start with the longer one."""
    if "-n" in sys.argv and not os.environ.get("PYTEST_XDIST_WORKER"):
        return
    before = os.environ.pop("TEST_PYTHONPATH", None)
    if before:
        os.environ["PYTHONPATH"] = before
    elif before is not None:
        os.environ.pop("PYTHONPATH", None)


restore_python_path()


class TooSlow(pytest.fail.Exception):
    """Not an Exception, because a test may catch those."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--piano-results", default="", help="where the results go")
    parser.addoption("--piano-done", default="", help="tests that are not run again")


# Results --------------------------------------------------------------------------------------


def append(config: pytest.Config, line: dict[str, Any]) -> None:
    path = config.getoption("--piano-results")
    if path:
        with open(path, "a", encoding="utf-8") as out:
            out.write(json.dumps(line) + "\n")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    path = config.getoption("--piano-done")
    done = set(Path(path).read_text(encoding="utf-8").splitlines()) if path and os.path.exists(path) else set()
    left = [item for item in items if item.nodeid not in done]
    if len(left) < len(items):
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in done])
        items[:] = left


def outcome_of(report: pytest.TestReport) -> str | None:
    """None: the test has not ended."""
    if report.failed:
        return "failed" if report.when == "call" else "error"
    if report.skipped:
        return "skipped"
    return "passed" if report.when == "call" else None


class Recorder:
    """Runs in the process that gets the reports of all tests."""

    def __init__(self, config: pytest.Config):
        self.config = config

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        append(self.config, {"test": nodeid, "at": "begin"})

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        outcome = outcome_of(report)
        if outcome is None:
            return
        reason = report.longrepr[2] if outcome == "skipped" and isinstance(report.longrepr, tuple) else ""
        append(self.config, {"test": report.nodeid, "at": outcome, "reason": str(reason).removeprefix("Skipped: "),
                             "retries": sum(name == "retried" for name, _ in report.user_properties)})


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(config))


# Limits ---------------------------------------------------------------------------------------


def processes_marked(value: str) -> list[int]:
    """Processes with MARK=VALUE in their initial environment, except this one."""
    wanted, found = f"{MARK}={value}".encode(), []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            if wanted in Path("/proc", entry, "environ").read_bytes().split(b"\0"):
                found.append(int(entry))
        except OSError:
            continue  # ended, or of another user
    return found


def kill_marked(value: str) -> None:
    for _ in range(5):  # they may start others in the meantime
        found = processes_marked(value)
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        if not found:
            return
        time.sleep(0.02)


def mark_of(item: pytest.Item) -> str:
    return f"{os.getpid()} {item.nodeid}"


class Watch:
    """The limit of one test."""

    def __init__(self, item: pytest.Item):
        self.item, self.end = item, threading.Event()

    def begin(self) -> None:
        self.old = signal.signal(signal.SIGALRM, self.too_slow)
        signal.setitimer(signal.ITIMER_REAL, LIMIT_S)
        threading.Thread(target=self.last_resort, daemon=True).start()

    def too_slow(self, *_: Any) -> None:
        kill_marked(mark_of(self.item))
        raise TooSlow(f"no end after {LIMIT_S:g} s (tests/run --limit)")

    def last_resort(self) -> None:
        if not self.end.wait(LIMIT_S + GRACE_S):
            kill_marked(mark_of(self.item))
            os.kill(os.getpid(), signal.SIGKILL)

    def stop(self) -> None:
        self.end.set()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self.old)


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    os.environ[MARK] = mark_of(item)
    yield
    os.environ.pop(MARK, None)


def limited(item: pytest.Item) -> Iterator[None]:
    if LIMIT_S <= 0 or threading.current_thread() is not threading.main_thread():
        yield
        return
    watch = Watch(item)
    watch.begin()
    try:
        yield
    finally:
        watch.stop()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    yield from limited(item)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    yield from limited(item)


# Disk space -----------------------------------------------------------------------------------


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo) -> Iterator[None]:
    """Removes the files of a passed test at once, because all of them together are a gigabyte."""
    outcome = yield
    report = outcome.get_result()
    if report.when == "call" and report.passed:
        PASSED.add(item.nodeid)
    place = getattr(item, "funcargs", {}).get("tmp_path")
    if report.when == "teardown" and report.passed and item.nodeid in PASSED and place:
        shutil.rmtree(place, ignore_errors=True)


PASSED: set[str] = set()  # item.stash is not in pytest 6 (Debian 11)
