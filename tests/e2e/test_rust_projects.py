"""Real Rust programs from the registry of crates, every function chosen: the same output as without piano, and their own tests pass.

They take CPU minutes to compile, so `tests/run rust-projects` runs them, and nothing else does."""
from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from conftest import ROOT, Project
from rusts import OFFLINE, fetch, need_cargo, registry_source  # noqa: F401

pytestmark = pytest.mark.projects
BUILD_LIMIT_S = 1800
NUMBERS = re.compile(r"\d+([.,]\d+)?( ±)?|[µm]?s\b|[█▁-▇]+")


class Tool(NamedTuple):
    name: str
    version: str
    program: str
    functions: int  # at least so many have probes
    commands: list[list[str]]  # IN stands for a directory with sources
    has_times: bool = False  # its output says how long something took
    suite: bool = True  # its own tests are in its package, and need nothing else


TOOLS = [
    Tool("ripgrep", "15.1.0", "rg", 500, [
        ["--sort", "path", "-n", r"static \w+ \*?find_\w+\(", "IN"], ["--sort", "path", "--json", "-i", "malloc", "IN/target"],
        ["--files", "--sort", "path", "IN"], ["-c", "errno", "IN"], ["nowhere at all", "IN"], ["--bad-flag"]]),
    Tool("fd-find", "10.4.2", "fd", 100, [
        ["-e", "c", ".", "IN"], ["--glob", "*.h", "IN", "-x", "basename"], ["-t", "d", "", "IN"], ["-S", "+20k", ".", "IN"], ["["]]),
    Tool("hyperfine", "1.20.0", "hyperfine", 100, [
        ["-N", "-r", "3", "--style", "basic", "true"], ["-N", "-r", "2", "--export-json", "-", "true", "echo x"], ["--no-such-flag"]], has_times=True),
    Tool("tokei", "14.0.0", "tokei", 50, [["--sort", "code", "IN"], ["-f", "IN/target"], ["--languages"]]),
]
IDS = [tool.name for tool in TOOLS]


def copy_crate(project: Project, name: str, version: str, place: Path) -> None:
    source = registry_source(project, name, version)
    shutil.copytree(source, place, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".cargo-ok", ".cargo_vcs_info.json", "Cargo.toml.orig"))


def instrument(project: Project, *words: Any) -> None:
    """Builds all with probes, and says which crates could not be."""
    done = project.piano("build", *words, env=OFFLINE, limit=BUILD_LIMIT_S)
    print(done.err)
    left_out = project.piano("build", "--list-skipped", env=OFFLINE, limit=BUILD_LIMIT_S)
    failed = [line for line in left_out.out.splitlines() if "not compile with guards" in line]
    assert not failed, "\n".join([*failed[:3], *(l for l in (done.err + left_out.err).splitlines() if "compile" in l)])


def printed(project: Project, program: Path, tool: Tool, command: list[str], place: Path) -> tuple[int, list[str]]:
    words = [word.replace("IN", str(place)) for word in command]
    done = project.command(program, *words, check=False, cwd=place, limit=120, env={"COLUMNS": "100"})
    text = done.out + done.err
    if tool.has_times:
        text = NUMBERS.sub("N", text)
    return done.status, sorted(re.sub(r'"elapsed\w*":\{[^}]*\}', "", text).splitlines())


@pytest.mark.parametrize("tool", TOOLS, ids=IDS)
def test_a_program_prints_what_it_prints_without_piano(project: Project, tool: Tool) -> None:
    copy_crate(project, tool.name, tool.version, project.root)
    fetch(project)
    plain = project.home / "plain"
    shutil.copytree(project.root, plain)
    project.command("cargo", "build", "--release", "--offline", "--locked", cwd=plain, env=OFFLINE, limit=BUILD_LIMIT_S)
    instrument(project)
    program, = project.root.glob(f".piano/build/cargo/release/{tool.program}")
    place = project.home / "input"
    shutil.copytree(ROOT / "src", place, ignore=shutil.ignore_patterns("__pycache__"))
    for command in tool.commands:
        theirs = printed(project, plain / "target" / "release" / tool.program, tool, command, place)
        assert printed(project, program, tool, command, place) == theirs, command
    report = project.report(project.run_files()[0])
    assert len(report.functions) >= tool.functions and report.row("main")["calls"] == 1


@pytest.mark.parametrize("tool", [tool for tool in TOOLS if tool.suite], ids=[tool.name for tool in TOOLS if tool.suite])
def test_its_own_tests_pass(project: Project, tool: Tool) -> None:
    copy_crate(project, tool.name, tool.version, project.root)
    fetch(project)
    own_tests_pass(project, "cargo", "test", "--release", "--offline", "--locked")


def own_tests_pass(project: Project, *words: str) -> None:
    plain = project.home / "plain"
    shutil.copytree(project.root, plain, ignore=shutil.ignore_patterns(".piano"))
    wanted = results(project.command(*words, cwd=plain, env=OFFLINE, limit=BUILD_LIMIT_S).out)
    done = project.piano("build", "--", *words, env=OFFLINE, limit=BUILD_LIMIT_S)
    log = next(project.root.glob(".piano/build/log*")).read_text(errors="replace")
    assert results(log) == wanted and sum(wanted) > 10, done
    assert project.run_files()


def results(text: str) -> list[int]:
    """How many tests of each test program passed."""
    return [int(passed) for passed in re.findall(r"^test result: ok\. (\d+) passed; 0 failed", text, re.M)]


# ---- libraries ----

class Library(NamedTuple):
    name: str
    version: str
    inside: dict[str, str]  # crates that it needs, also with probes
    main: str
    called: list[str]  # functions that the program calls


JSON = r'''
use serde_json::{json, Value};
fn round(text: &str) -> String {
    match serde_json::from_str::<Value>(text) { Ok(value) => serde_json::to_string_pretty(&value).unwrap(), Err(error) => error.to_string() }
}
fn main() {
    for text in ["[1, 2.5, -3e10, \"a\\u00e4\\n\", null, true, {\"k\": [], \"z\": {}}]", "{\"a\": 1", "[1,]", "\"\\ud800\"", "123456789012345678901234567890"] {
        println!("{}", round(text));
    }
    let mut list = json!({ "items": [] });
    for n in 0..2000 { list["items"].as_array_mut().unwrap().push(json!({ "id": n, "name": format!("item {n}"), "half": n as f64 / 2.0 })); }
    let text = serde_json::to_string(&list).unwrap();
    let again: Value = serde_json::from_str(&text).unwrap();
    println!("{} {} {:?}", text.len(), again == list, again.pointer("/items/7/name"));
}
'''
REGEX = r'''
use regex::{Regex, RegexSet, bytes};
fn words(text: &str) -> usize { Regex::new(r"(?i)\b[a-zäöü]+(?:-\w+)*\b").unwrap().find_iter(text).count() }
fn main() {
    let text = "The quick brown fox jumps over the lazy dog-house; 2024-05-17 and 1999-12-31, mail a.b@example.org ".repeat(50);
    println!("{}", words(&text));
    let date = Regex::new(r"(?P<y>\d{4})-(?P<m>\d{2})-(?P<d>\d{2})").unwrap();
    println!("{}", date.replace_all(&text, "$d.$m.$y").len());
    println!("{:?}", date.captures("on 2020-02-29").map(|c| c["y"].to_string()));
    println!("{:?}", RegexSet::new([r"\w+@\w+\.org", r"^fox", r"dog.*mail"]).unwrap().matches(&text).into_iter().collect::<Vec<_>>());
    println!("{:?}", bytes::Regex::new(r"(?-u)\xff+").unwrap().find(b"ab\xff\xffc"));
    println!("{}", Regex::new(r"(unclosed").unwrap_err());
    for pattern in [r"\p{Greek}+", r"(a|b)*c{2,5}", r"[[:alpha:]&&[^aeiou]]{3,}", r"^$", r"(?s-m)a.b\z"] {
        println!("{pattern} {:?}", Regex::new(pattern).unwrap().find("xyz abababccc αβγ\n").map(|m| m.range()));
    }
}
'''
LIBRARIES = [
    Library("serde_json", "1.0.150", {}, JSON, ["round", "from_str", "to_string_pretty"]),
    Library("regex", "1.12.3", {"regex-automata": "0.4.14", "regex-syntax": "0.8.9"}, REGEX, ["words", "Regex::find_iter", "Regex::replace_all"]),
]
LIBRARY_IDS = [library.name for library in LIBRARIES]


def write_library(project: Project, library: Library) -> None:
    """A program, with the source of the library and of what it needs in the same tree."""
    crates = {library.name: library.version, **library.inside}
    for name, version in crates.items():
        copy_crate(project, name, version, project.root / name)
        (project.root / name / "Cargo.lock").unlink(missing_ok=True)
    patches = "".join(f'{name} = {{ path = "{name}" }}\n' for name in crates)
    project.write({"Cargo.toml": '[package]\nname = "program"\nversion = "0.1.0"\nedition = "2021"\n[workspace]\n'
                                 f'members = [{", ".join(repr(n) for n in crates)}]\n[dependencies]\n{library.name} = "={library.version}"\n'
                                 f"[patch.crates-io]\n{patches}".replace("'", '"'),
                   "src/main.rs": library.main})
    fetch(project)


@pytest.mark.parametrize("library", LIBRARIES, ids=LIBRARY_IDS)
def test_a_library_does_what_it_does_without_piano(project: Project, library: Library) -> None:
    write_library(project, library)
    plain = project.home / "plain"
    shutil.copytree(project.root, plain)
    theirs = project.command("cargo", "run", "--release", "--quiet", "--offline", cwd=plain, env=OFFLINE, limit=BUILD_LIMIT_S)
    instrument(project)
    assert project.piano("run", limit=300).out == theirs.out
    called = project.report().called()
    assert called["main"] == 1 and not [name for name in library.called if name not in called], sorted(called)


@pytest.mark.parametrize("library", LIBRARIES, ids=LIBRARY_IDS)
def test_its_library_tests_pass(project: Project, library: Library) -> None:
    write_library(project, library)
    own_tests_pass(project, "cargo", "test", "--release", "--offline", "-p", library.name, "--lib", "--tests")
