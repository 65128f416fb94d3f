"""What the tests of Rust programs share: whether there is a cargo, how it runs in a test, crates from a registry."""
from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from conftest import LIB, Project

# A test has a home of its own, and rustup looks for its compilers below the home.
HOMES = {"RUSTUP_HOME": os.environ.get("RUSTUP_HOME") or str(Path.home() / ".rustup"),
         "CARGO_HOME": os.environ.get("CARGO_HOME") or str(Path.home() / ".cargo"),
         "CARGO_TERM_COLOR": "never", "RUSTUP_AUTO_INSTALL": "0"}
OFFLINE = {**HOMES, "CARGO_NET_OFFLINE": "true"}


def need_rust() -> str:
    """The path of cargo, or a skip that says what is missing."""
    found = shutil.which("cargo")
    if found is None:
        pytest.skip("cargo is not installed")
    if not (LIB / "piano-rust").exists():
        pytest.skip("piano-rust is not built: the registry of Rust's crates could not be reached")
    return found


ONLINE = {**HOMES, "CARGO_NET_RETRY": "1", "CARGO_HTTP_TIMEOUT": "15"}
FETCH_LIMIT_S = 60


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
