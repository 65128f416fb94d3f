"""What the tests of Rust programs share: whether cargo is there and how it runs in a test, crates from a registry, small Cargo projects."""
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
HOMES = {"RUSTUP_HOME": os.environ.get("RUSTUP_HOME") or str(Path.home() / ".rustup"),
         "CARGO_HOME": os.environ.get("CARGO_HOME") or str(Path.home() / ".cargo"),
         "CARGO_TERM_COLOR": "never", "RUSTUP_AUTO_INSTALL": "0"}
OFFLINE = {**HOMES, "CARGO_NET_OFFLINE": "true"}
ONLINE = {**HOMES, "CARGO_NET_RETRY": "1", "CARGO_HTTP_TIMEOUT": "15"}
FETCH_LIMIT_S = 60


def need_rust() -> str:
    """The path of cargo, or a skip that says what is missing."""
    found = shutil.which("cargo")
    if found is None:
        pytest.skip("cargo is not installed")
    if not (LIB / "piano-rust").exists():
        pytest.skip("piano-rust is not built: the registry of Rust's crates could not be reached")
    return found


@pytest.fixture(autouse=True, name="cargo")
def need_cargo() -> str:
    """Skips all tests of a module that imports it if they cannot run."""
    return need_rust()


def fetch(project: Project, folder: Path | None = None) -> None:
    """Brings the crates of the manifest in FOLDER, or skips the test. What was fetched before needs no registry."""
    for more in (["--offline"], []):
        if project.command("cargo", "fetch", *more, cwd=folder, env=ONLINE, check=False, limit=FETCH_LIMIT_S).status == 0:
            return
    pytest.skip("the crates are not here, and cargo cannot fetch them: its registry is not reachable")


def registry_source(project: Project, name: str, version: str) -> Path:
    """Where cargo keeps the source of a crate; or a skip."""
    folder = project.home / f"fetch-{name}"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "lib.rs").touch()
    (folder / "Cargo.toml").write_text(f'[package]\nname = "fetches"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\n{name} = "={version}"\n')
    fetch(project, folder)
    # `cargo metadata` leaves out crates without a library.
    found, = Path(HOMES["CARGO_HOME"]).glob(f"registry/src/*/{name}-{version}")
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
