"""Rust programs with threads that libraries make: rayon, crossbeam, and Tokio together with integrations/tokio."""
from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from conftest import ROOT, Project
from rusts import OFFLINE, fetch, need_cargo  # noqa: F401

CRATE = ROOT / "integrations" / "tokio"
REQUESTS = 80

# Exact, in place of a lock file.
THREADS = '''[package]
name = "program"
version = "0.1.0"
edition = "2021"
[dependencies]
crossbeam = "=0.8.4"
rayon = "=1.11.0"
'''
PROGRAM = r'''
use rayon::prelude::*;
fn score(n: u64) -> u64 { n * n % 7 }
fn visit() {}
fn start_rayon() -> rayon::ThreadPool {
    rayon::ThreadPoolBuilder::new().num_threads(3).thread_name(|i| format!("rayon {i}")).build().unwrap()
}
fn weigh(job: u64) -> u64 { job + 1 }
fn consume(jobs: crossbeam::channel::Receiver<u64>) -> u64 { jobs.iter().map(weigh).sum() }
fn produce(jobs: crossbeam::channel::Sender<u64>) { (0..40).for_each(|job| jobs.send(job).unwrap()) }
fn start_crossbeam() -> u64 {
    crossbeam::scope(|scope| {
        let (send, receive) = crossbeam::channel::bounded(4);
        let consumers: Vec<_> = (0..2).map(|i| {
            let jobs = receive.clone();
            scope.builder().name(format!("consumer {i}")).spawn(move |_| consume(jobs)).unwrap()
        }).collect();
        scope.builder().name("producer".into()).spawn(move |_| produce(send)).unwrap();
        consumers.into_iter().map(|consumer| consumer.join().unwrap()).sum()
    }).unwrap()
}
fn main() {
    let pool = start_rayon();
    pool.broadcast(|_| visit());
    let sum: u64 = pool.install(|| (0..600u64).into_par_iter().map(score).sum());
    println!("{sum} {}", start_crossbeam());
}
'''


def test_threads_of_rayon_and_crossbeam(project: Project) -> None:
    """Every thread's calls are there, with its name and the function that started it."""
    project.write({"Cargo.toml": THREADS, "src/main.rs": PROGRAM})
    fetch(project)
    project.piano("build", env=OFFLINE, limit=120)
    assert project.piano("run").out == f"{sum(n * n % 7 for n in range(600))} 820\n"
    assert project.report().called() == {"main": 1, "start_rayon": 1, "visit": 3, "score": 600, "start_crossbeam": 1, "produce": 1,
                                         "consume": 2, "weigh": 40}
    threads = {thread["name"]: thread for thread in project.json("report", "--threads")["threads"]}
    calls = {name: {row["name"]: row["calls"] for row in thread["functions"] if row["calls"]} for name, thread in threads.items()}
    pool = [f"rayon {i}" for i in range(3)]
    consumers = [f"consumer {i}" for i in range(2)]
    assert set(threads) == {"program", "producer", *pool, *consumers}
    assert [calls[name]["visit"] for name in pool] == [1, 1, 1]
    assert sum(calls[name].get("score", 0) for name in pool) == 600
    assert sum(calls[name].get("weigh", 0) for name in consumers) == 40
    assert calls["producer"] == {"produce": 1} and calls["program"] == {"main": 1, "start_rayon": 1, "start_crossbeam": 1}
    assert {threads[name]["parent_fn"] for name in pool} == {"start_rayon"}
    assert {threads[name]["parent_fn"] for name in (*consumers, "producer")} == {"start_crossbeam"}


# ---- Tokio ----

def tokio_service(project: Project) -> Path:
    """The service of integrations/tokio as a Cargo project with that crate inside; the program."""
    crate = project.root / "piano-tokio"
    shutil.copytree(CRATE, crate, ignore=shutil.ignore_patterns("target", "examples", "tests", ".cargo", "Cargo.lock"))
    own = (CRATE / "Cargo.toml").read_text()
    (crate / "Cargo.toml").write_text(own[:own.index("# Programs of the tests")] + own[own.index("[dependencies]"):own.index("# Exact,")])
    pins = own[own.index("[dev-dependencies]"):own.index("# Lines and inlined")]
    project.write({
        "Cargo.toml": '[package]\nname = "service"\nversion = "0.1.0"\nedition = "2021"\n[workspace]\n'
                      '[dependencies]\npiano-tokio = { path = "piano-tokio" }\n' + pins.split("\n", 1)[1],
        ".cargo/config.toml": '[build]\nrustflags = ["--cfg", "tokio_unstable"]\n'})
    (project.root / "src").mkdir()
    shutil.copy(CRATE / "examples" / "service.rs", project.root / "src" / "main.rs")
    fetch(project)
    return project.build(env=OFFLINE, limit=300)


def names(stacks: list[dict[str, Any]]) -> str:
    return json.dumps([stack["stack"] for stack in stacks])


def test_a_service_on_tokio_has_functions_polls_tasks_and_stacks(project: Project) -> None:
    program = tokio_service(project)
    done = project.piano("record", "--events", "--", program, REQUESTS)
    assert done.out == f"{REQUESTS} requests answered\n"
    run, recording = project.only_run(), next(project.runs.glob("*.rec"))
    assert project.json("report", run)["run"]["recording"] == str(recording), "joined"
    # Functions: server and client answer each request; an async function is called once a poll.
    calls = {row["name"]: row["calls"] for row in project.report(run).functions if row["calls"]}
    assert (calls["answer"], calls["rebuild_index"], calls["read_configuration"]) == (2 * REQUESTS, 3 + 2 * REQUESTS, 5)
    polls = project.json("report", "--polls", recording)
    tasks = {int(task["name"].rsplit(":", 1)[1]): task for task in polls["tasks"] if task["kind"] == "place"}
    source = (project.root / "src" / "main.rs").read_text().splitlines()

    def task(text: str) -> dict[str, Any]:
        return tasks[next(number for number, line in enumerate(source, 1) if text in line)]
    assert calls["serve"] == task("piano_tokio::spawn(serve(stream))")["polls"]
    assert calls["ask"] == task("piano_tokio::spawn(ask(")["polls"]
    assert calls["run"] == task("runtime.block_on(")["polls"]
    # Tasks and CPU stacks: what computes in its polls.
    index = task("let index = ")
    assert (index["spawned"], index["ended"]) == (1, 1) and index["samples"] > 0
    longest = [poll for poll in polls["longest"] if poll["task"] == index["name"] and poll["samples"]]
    assert any("service::rebuild_index" in names(poll["stacks"]) for poll in longest), longest
