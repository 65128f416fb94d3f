"""What the tests of Rust share: small Cargo projects, and what piano says about them."""
from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from conftest import LIB, Project

MANIFEST = '[package]\nname = "{name}"\nversion = "0.1.0"\nedition = "{edition}"\n{more}'
# A test has a home of its own, and rustup looks for its compilers below the home.
OFFLINE = {"CARGO_NET_OFFLINE": "true", "CARGO_TERM_COLOR": "never",
           "RUSTUP_HOME": os.environ.get("RUSTUP_HOME") or str(Path.home() / ".rustup"),
           "CARGO_HOME": os.environ.get("CARGO_HOME") or str(Path.home() / ".cargo")}


@pytest.fixture(autouse=True, name="cargo")
def need_cargo() -> str:
    found = shutil.which("cargo")
    if found is None:
        pytest.skip("cargo is not installed")
    if not (LIB / "piano-rust").exists():
        pytest.skip("piano-rust is not built: the registry of Rust's crates could not be reached")
    return found


def crate(project: Project, files: dict[str, str], edition: str = "2021", more: str = "", name: str = "program") -> None:
    project.write({"Cargo.toml": MANIFEST.format(name=name, edition=edition, more=more), **files})


def build(project: Project, *flags: Any, **more: Any) -> Any:
    return project.piano("build", *flags, env=OFFLINE, **more)


def run(project: Project) -> Any:
    return project.piano("run", env=OFFLINE)


def calls(project: Project) -> dict[str, int]:
    return project.report().called()


def plain(project: Project, place: Path) -> str:
    """What the program prints without piano: built elsewhere from the same files."""
    copy = place / "plain" / project.root.name
    shutil.copytree(project.root, copy, ignore=shutil.ignore_patterns(".piano"), dirs_exist_ok=True)
    done = subprocess.run(["cargo", "run", "--quiet", "--release"], cwd=copy, env={**os.environ, **OFFLINE}, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def tree(project: Project) -> dict[str, bytes]:
    return {str(p.relative_to(project.root)): p.read_bytes() for p in project.root.rglob("*") if p.is_file() and ".piano" not in p.parts}
