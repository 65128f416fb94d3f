"""The crate for Tokio, in integrations/tokio: the events of its hooks agree with the tasks. It is built once, into build/tokio, with
any available cargo. Without cargo or the needed crates, these tests are skipped."""
from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from conftest import LIB, PIANO, PRELOAD, ROOT, Project
from events import load

CRATE = ROOT / "integrations" / "tokio"
TARGET = ROOT / "build" / "tokio"
RUST = re.search(r'^rust-version = "(\d+)\.(\d+)"', (CRATE / "Cargo.toml").read_text(), re.M).groups()
BUILD_LIMIT_S, FETCH_LIMIT_S = 400, 60
REQUESTS, CLIENTS = 80, 4
# The long operations of the service, and how often it does them.
LONG = {"read_configuration": 5, "rebuild_index": 3}


# ---- building ----

def tool(name: str) -> str:
    """The path of NAME, from PATH or from rustup's directory; or a named skip."""
    found = shutil.which(name) or shutil.which(name, path=str(Path.home() / ".cargo" / "bin"))
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def run(*words: str, limit: float, **more: str) -> subprocess.CompletedProcess | None:
    """None: no end."""
    around = {key: value for key, value in os.environ.items() if key not in ("RUSTFLAGS", "LD_PRELOAD", "CARGO_BUILD_TARGET")}
    around |= {"PATH": f"{Path(words[0]).parent}:{os.environ['PATH']}", "CARGO_NET_RETRY": "1", "CARGO_HTTP_TIMEOUT": "15",
               "CARGO_TERM_COLOR": "never", "CARGO_INCREMENTAL": "0", "RUSTUP_AUTO_INSTALL": "0", **more}
    try:
        return subprocess.run(words, cwd=CRATE, env=around, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", timeout=limit)
    except subprocess.TimeoutExpired:
        return None


def works(done: subprocess.CompletedProcess | None) -> bool:
    return done is not None and done.returncode == 0


@pytest.fixture(scope="session")
def cargo() -> str:
    """A cargo with all that it needs here, or a skip with the missing part."""
    found = tool("cargo")
    version = run(tool("rustc"), "-vV", limit=30)
    numbers = re.search(r"^release: (\d+)\.(\d+)", version.stdout, re.M) if works(version) else None
    if not numbers:
        pytest.skip("rustc is installed, but does not say its version")
    if tuple(map(int, numbers.groups())) < tuple(map(int, RUST)):
        pytest.skip(f"rustc {'.'.join(numbers.groups())} is too old for Tokio, which needs {'.'.join(RUST)}")
    host = re.search(r"^host: (\S+)", version.stdout, re.M).group(1)
    if not host.endswith("-linux-gnu"):
        pytest.skip(f"rustc builds for {host}, where libpiano cannot be loaded")
    # Fetched crates need no registry.
    if not works(run(found, "fetch", "--offline", "--target", host, limit=FETCH_LIMIT_S)) and \
            not works(run(found, "fetch", "--target", host, limit=FETCH_LIMIT_S)):
        pytest.skip("the crates are not here, and cargo cannot fetch them: its registry is not reachable")
    return found


def build(cargo: str, folder: Path, *which: str, **more: str) -> Path:
    """The directory of the programs. Cargo locks it: the second of two builds finds it up to date."""
    done = run(cargo, "build", "--offline", *which, "--target-dir", str(folder), limit=BUILD_LIMIT_S, **more)
    assert works(done), done.stdout if done else f"no end after {BUILD_LIMIT_S} s"
    return folder / "debug" / "examples"


@pytest.fixture(scope="session")
def programs(cargo: str) -> Path:
    return build(cargo, TARGET, "--examples")


@pytest.fixture(scope="session")
def stable_programs(cargo: str) -> Path:
    """Without tokio_unstable."""
    return build(cargo, TARGET / "stable", "--example", "kinds", "--example", "metrics", RUSTFLAGS="")


# ---- reading ----

def record(project: Project, *words: Any) -> tuple[dict[str, Any], str]:
    """`report --polls` of a recording, and the program's output."""
    recording = project.root / "r.rec"
    recording.unlink(missing_ok=True)
    done = project.piano("record", *words[:words.index("--")], "-o", recording, *words[words.index("--"):])
    return json.loads(project.piano("report", "--polls", "--json", recording).out), done.out


def places(source: str) -> dict[str, int]:
    """Lines by the names after `place:`."""
    lines = (CRATE / source).read_text().splitlines()
    return {line.split("// place: ")[1]: number for number, line in enumerate(lines, 1) if "// place: " in line}


def line_of(text: str, source: str = "examples/service.rs") -> int:
    found = [number for number, line in enumerate((CRATE / source).read_text().splitlines(), 1) if text in line]
    assert len(found) == 1
    return found[0]


def by_place(report: dict[str, Any], source: str) -> dict[int, dict[str, Any]]:
    rows = {}
    for task in report["tasks"]:
        assert task["kind"] == "place", task["name"]
        found = re.fullmatch(re.escape(f"spawned at {source}:") + r"(\d+)", task["name"])
        assert found, task["name"]
        rows[int(found.group(1))] = task
    return rows


def perf_refused() -> str:
    done = subprocess.run([PIANO, "doctor"], stdout=subprocess.PIPE, text=True)
    found = re.search(r"^(\S+)\s+perf events: (.*)", done.stdout, re.M)
    return "" if found and found.group(1) == "ok" else found.group(2) if found else "unknown"


# ---- the service ----

SERVICE = {"configuration": "let configuration = ", "index": "let index = ", "accept": "piano_tokio::spawn(async move {",
           "serve": "piano_tokio::spawn(serve(stream))", "client": "piano_tokio::spawn(ask(", "main": "runtime.block_on("}


def service(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    rows = by_place(report, "examples/service.rs")
    lines = {name: line_of(text) for name, text in SERVICE.items()}
    assert set(rows) == set(lines.values())
    return {name: rows[line] for name, line in lines.items()}


def test_every_task_of_the_service_by_its_place(project: Project, programs: Path) -> None:
    alone = project.command(programs / "service", REQUESTS)
    assert alone.out == f"{REQUESTS} requests answered\n"
    report, said = record(project, "--events", "--", programs / "service", REQUESTS)
    assert said == alone.out
    tasks = service(report)
    assert {name: (task["spawned"], task["ended"]) for name, task in tasks.items()} == {
        "configuration": (1, 1), "index": (1, 1), "accept": (1, 1), "serve": (CLIENTS, CLIENTS),
        "client": (CLIENTS, CLIENTS), "main": (1, 1)}
    # Each sleeps or yields afterwards, and is polled once more to end.
    assert tasks["configuration"]["polls"] == LONG["read_configuration"] + 1
    assert tasks["index"]["polls"] == LONG["rebuild_index"] + 1
    assert tasks["configuration"]["long"] >= LONG["read_configuration"]
    assert sorted(worker["name"] for worker in report["workers"]) == ["tokio worker 0", "tokio worker 1"]
    threads = {thread["tid"]: thread for thread in report["threads"]}
    assert all(threads[worker["tid"]]["polls"] for worker in report["workers"])
    assert any(threads[worker["tid"]]["parks"] for worker in report["workers"])
    text = project.piano("report", "--polls", "r.rec").out
    assert re.search(rf"^ +\d+\. .*: spawned at examples/service\.rs:{line_of(SERVICE['configuration'])} \(task \d+\) on tokio worker \d",
                     text, re.M)


@pytest.mark.timing
def test_long_polls_have_their_stacks(project: Project, programs: Path) -> None:
    """A blocking call is found where it blocks, and a long computation where it computes."""
    refused = perf_refused()
    if refused:
        pytest.skip(f"perf events are refused here: {refused}")
    report, _ = record(project, "--events", "--cpu=499", "--", programs / "service", REQUESTS)
    tasks = service(report)
    blocks = [flag["subject"] for flag in report["flags"] if flag["kind"] == "blocking"]
    assert tasks["configuration"]["name"] in blocks and tasks["index"]["name"] not in blocks
    assert tasks["configuration"]["on_cpu"] < 0.2
    assert tasks["index"]["on_cpu"] + tasks["index"]["run_queue_ns"] / tasks["index"]["total_ns"] > 0.7
    waits = [poll for poll in report["longest"] if poll["task"] == tasks["configuration"]["name"]]
    assert any("service::read_configuration" in json.dumps(poll["blocked"]) for poll in waits)
    busy = [poll for poll in report["longest"] if poll["task"] == tasks["index"]["name"] and poll["samples"]]
    assert any("service::rebuild_index" in json.dumps(poll["stacks"]) for poll in busy)
    names = json.dumps([poll["stacks"] + poll["blocked"] for poll in waits + busy])
    assert "<piano_tokio::traced::Traced<F> as core::future::future::Future>::poll" in names
    assert "$" not in names and not re.search(r"\b_R|::h[0-9a-f]{16}", names)


def test_with_cpu_profiling(project: Project, programs: Path) -> None:
    """The program samples itself, by perf or by timers."""
    recorded, _ = record(project, "--events", "--", programs / "service", REQUESTS)
    assert recorded["cpu"]["samples"] > 0
    assert service(recorded)["index"]["samples"] > 0
    without, _ = record(project, "--events", "--", programs / "kinds")
    assert not (without["cpu"] or {}).get("samples")


def becomes(project: Project, programs: Path, *words: str, record: tuple[str, ...] | None = ("--events",)) -> list[str]:
    (project.root / "c.rec").unlink(missing_ok=True)
    if record is None:
        return project.command(programs / "cpu", *words).out.splitlines()
    return project.piano("record", *record, "-o", "c.rec", "--", programs / "cpu", *words).out.splitlines()


def test_what_becomes_of_cpu_profiling(project: Project, programs: Path) -> None:
    assert becomes(project, programs, "timers", "99") == ["Sampling(Timers)", "Elsewhere", "Sampling(Timers)"]
    # perf, or its replacement.
    for word, source in (("clock", "SwCpuClock"), ("cycles", "HwCpuCycles")):
        first, second, third = becomes(project, programs, word, "99")
        assert first == third and second == "Elsewhere"
        assert first in (f"Sampling({source})", "Sampling(Timers)")
    assert becomes(project, programs, "clock", "99", "kernel")[0] in ("Sampling(SwCpuClock)", "Sampling(Timers)")
    for words in (("timers", "0"), ("clock", "10001"), ("timers", str(1 << 40))):
        assert all(re.match(r"Refused\(.*code: 22", line) for line in becomes(project, programs, *words))
    assert all(line.startswith("Refused(") for line in becomes(project, programs, "timers", "99", "kernel"))
    assert becomes(project, programs, "clock", "99", record=None) == ["Off"] * 3
    if not perf_refused():
        assert becomes(project, programs, "clock", "99", record=("--events", "--cpu")) == ["Elsewhere"] * 3


def test_wakes_come_before_polls(project: Project, programs: Path) -> None:
    record(project, "--events", "--", programs / "service", REQUESTS)
    r = load(project.root / "r.rec")
    traced = {e.fields[0] for e in r.of("task_spawn")}
    seen: set[int] = set()
    woken: set[int] = set()
    ended: set[int] = set()
    again = without = 0
    for e in sorted(r.events, key=lambda e: e.ticks):
        if e.what == "wake":
            assert e.fields[0] in traced and e.fields[0] not in ended
            woken.add(e.fields[0])
        elif e.what == "poll_begin":
            again += e.fields[0] in seen
            without += e.fields[0] in seen and e.fields[0] not in woken
            seen.add(e.fields[0])
            woken.discard(e.fields[0])
        elif e.what == "task_end":
            ended.add(e.fields[0])
    # A wake between Tokio's start of a poll and ours is not recorded.
    assert again > 2 * REQUESTS and without <= again / 50
    assert traced <= ended


def test_a_wake_is_told_once(project: Project, programs: Path) -> None:
    """Wakes of ended tasks are not recorded. Also tests more tasks at once than the crate has slots."""
    _, said = record(project, "--events", "--", programs / "wakers")
    assert said == "done\n"
    r = load(project.root / "r.rec")
    lines = places("tests/wakers.rs")
    wakes = {name: 0 for name in lines}
    tasks = {}
    for e in r.of("task_spawn"):
        place = r.name(e.fields[2])
        tasks[e.fields[0]] = next((name for name, line in lines.items() if place == f"tests/wakers.rs:{line}"), None)
    for e in r.of("wake"):
        if tasks[e.fields[0]]:
            wakes[tasks[e.fields[0]]] += 1
    many, = re.findall(r"MANY: usize = (\d+)", (CRATE / "tests" / "wakers.rs").read_text())
    assert wakes == {"late": 1, "often": 1, "many": int(many)}


# ---- all ways to spawn a task ----

POLLS = {"plain": 3, "traced": 3, "set": 2, "aborted": 1, "panics": 1, "blocking": 1, "moving": 1, "moved": 1, "last": 1,
         "local": 3, "one": 2, "foreign": 3}
WOKEN = {"traced": 2, "set": 1, "local": 2, "foreign": 2}
# Without the hooks, tasks that this crate does not spawn are not recorded, and a thread becomes a worker when it parks.
HOOKED = {"plain", "one"}


def kinds(project: Project, program: Path, seen: set[str]) -> dict[str, Any]:
    report, said = record(project, "--events", "--", program)
    assert said == "done, told\n"
    rows = by_place(report, "tests/kinds.rs")
    lines = places("tests/kinds.rs")
    assert set(lines) == set(POLLS) | {"first", "second"}
    found = {name: rows[line] for name, line in lines.items() if line in rows}
    assert set(found) == seen | {"first", "second"}
    # Tokio drops an aborted task in one more poll, unless it was still in its first one.
    assert {name: found[name]["polls"] for name in seen - {"aborted"}} == {name: POLLS[name] for name in seen - {"aborted"}}
    assert found["aborted"]["polls"] in (1, 2)
    assert {name: found[name]["woken"] for name in seen} == {name: WOKEN.get(name, 0) for name in seen}
    assert all((task["spawned"], task["ended"], task["open"]) == (1, 1, 0) for task in found.values())
    assert found["local"]["nested"] == POLLS["local"] and not any(found[name]["nested"] for name in seen - {"local"})
    assert not any(report["dropped"].values())
    return report


def test_every_way_to_a_task(project: Project, programs: Path) -> None:
    report = kinds(project, programs / "kinds", set(POLLS))
    workers = report["workers"]
    # The worker moves to another thread, and the thread of a current-thread runtime is its worker.
    assert [worker["name"] for worker in workers] == ["tokio worker 0"] * 2 + ["tokio worker 0 of runtime 2"]
    assert len({worker["tid"] for worker in workers}) == 3
    r = load(project.root / "r.rec")
    assert sorted(e.tid for e in r.of("worker_start")) == sorted(worker["tid"] for worker in workers)
    assert sorted(e.tid for e in r.of("worker_stop")) == sorted(worker["tid"] for worker in workers)


def test_without_unstable(project: Project, stable_programs: Path) -> None:
    kinds(project, stable_programs / "kinds", set(POLLS) - HOOKED)


def test_without_piano(project: Project, programs: Path, stable_programs: Path) -> None:
    for folder in (programs, stable_programs):
        assert project.command(folder / "kinds").out == "done, not told\n"
    # libpiano is loaded, but nothing is recorded.
    assert project.command(programs / "kinds", env={"LD_PRELOAD": PRELOAD}).out == "done, told\n"
    assert not list(project.root.glob("**/*.rec"))


# ---- Tokio's own metrics ----

METRICS = {"global queue": 20, "alive tasks": 21}
UNSTABLE_METRICS = {"blocking queue": 5, "blocking threads": 1}
TOTALS = {"worker 0 busy us", "worker 0 parks"}
OTHERS = {True: {"worker 0 queue", "idle blocking threads", "worker 0 stolen"}, False: set()}


@pytest.mark.parametrize("unstable", [True, False], ids=["unstable", "stable"])
def test_metrics_of_tokio(project: Project, programs: Path, stable_programs: Path, unstable: bool) -> None:
    """The depths that queues had for many readings, and totals. The second of three runtimes is not read."""
    report, said = record(project, "--events", "--", (programs if unstable else stable_programs) / "metrics")
    assert said == "1\n"
    values = {value["name"]: value for value in report["values"]}
    depths = METRICS | (UNSTABLE_METRICS if unstable else {})
    names = {"tokio " + name for name in set(depths) | TOTALS | OTHERS[unstable]}
    assert set(values) == names | {name + " of runtime 3" for name in names}
    assert {name: values["tokio " + name]["max"] for name in depths} == depths
    # They are read once more at the end of the runtime.
    assert all(values["tokio " + name]["last"] == 0 for name in METRICS)
    for name in TOTALS:
        value = values["tokio " + name]
        assert (value["first"], value["last"]) == (value["min"], value["max"])
    queues = {queue["queue"]: queue for queue in report["queues"]}
    assert set(queues) == {0, 2}
    assert (queues[0]["max"], queues[0]["last"]) == (METRICS["global queue"], 0)


def test_only_changes_of_metrics_are_reported(project: Project, programs: Path) -> None:
    record(project, "--events", "--", programs / "metrics")
    r = load(project.root / "r.rec")
    last: dict[str, int] = {}
    for e in r.of("value"):
        name = r.name(e.fields[0])
        assert last.get(name) != e.fields[1], name
        last[name] = e.fields[1]
    depths = [e.fields for e in r.of("queue") if e.fields[0] == 0]
    assert depths[0] == [0, 0] and all(a != b for a, b in zip(depths, depths[1:]))


def test_metrics_without_piano(project: Project, programs: Path) -> None:
    assert project.command(programs / "metrics").out == "0\n"


# ---- the documentation ----

def test_the_document_shows_what_the_service_has() -> None:
    text = (ROOT / "docs" / "tokio.md").read_text()
    code, = re.findall(r"^```rust\n(.*?)^```$", text, re.S | re.M)
    source = (CRATE / "examples" / "service.rs").read_text()
    for part in code.split("// ...\n"):
        assert part in source
    rows = set(map(int, re.findall(r"^spawned at examples/service\.rs:(\d+) ", text, re.M)))
    assert rows == {line_of(what) for what in SERVICE.values()}
    assert f"Line {line_of(SERVICE['configuration'])} spawns" in text and f"Line {line_of(SERVICE['index'])} spawns" in text


def test_versions_are_exact() -> None:
    """There is no lock file, because its lines name a host."""
    manifest = (CRATE / "Cargo.toml").read_text()
    pins = re.search(r"^\[dev-dependencies\]\n((?:[\w-]+ = .*\n)+)", manifest, re.M).group(1).splitlines()
    assert len(pins) > 5 and all(re.search(r'"=\d+\.\d+\.\d+"', line) for line in pins)


def test_it_is_formatted(cargo: str) -> None:
    tool("cargo-fmt")
    done = run(cargo, "fmt", "--check", limit=60)
    assert works(done), done.stdout if done else "no end"


def test_the_crate_can_be_packaged(cargo: str) -> None:
    """The files that `cargo publish` would send: sources and licence, no build products."""
    assert "publish = false" not in (CRATE / "Cargo.toml").read_text()
    done = run(cargo, "package", "--offline", "--allow-dirty", "--no-verify", "--list", limit=FETCH_LIMIT_S)
    assert works(done), done
    files = {line for line in done.stdout.splitlines() if re.fullmatch(r"[\w./-]+", line)}
    assert {"Cargo.toml", "LICENSE", "README.md", "src/lib.rs", "examples/service.rs"} <= files
    assert not [name for name in files if name.startswith("target")]


def test_the_crate_has_the_licence_of_piano() -> None:
    """The package of a crate contains no file above its directory, so the licence is there twice."""
    assert (CRATE / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
