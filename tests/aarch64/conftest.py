"""Tests with programs for two machines: this one, and an emulated aarch64. `tests/run aarch64` runs them if the kernel
passes programs for aarch64 to qemu (tests/aarch64/emulated).

Uses the helpers of tests/e2e, with a tool and a compiler for each machine."""
from __future__ import annotations

import importlib.util
import os
import platform
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
os.environ.pop("PIANO", None)
_spec = importlib.util.spec_from_file_location("e2e_helpers", ROOT / "tests" / "e2e" / "conftest.py")
helpers = importlib.util.module_from_spec(_spec)
sys.modules["e2e_helpers"] = helpers
_spec.loader.exec_module(helpers)

SYSROOT = ROOT / ".sysroot" / "aarch64-linux-gnu"


class Machine:
    """A tool, the directory of its libraries, and a compiler."""

    def __init__(self, name: str, build: Path, cc: list[str]):
        self.name, self.build, self.cc = name, build, cc

    @property
    def tool(self) -> str:
        return str(self.build / "piano")

    @property
    def lib(self) -> Path:
        return self.build / "lib"


HERE = Machine(platform.machine(), ROOT / "build", ["/usr/bin/gcc"])
# The loader's full path, because it is not in this machine's /lib, where the tool looks for it.
ARM = Machine("aarch64", ROOT / "build" / "aarch64",
              ["aarch64-linux-gnu-gcc", f"--sysroot={SYSROOT}",
               f"-Wl,--dynamic-linker={SYSROOT}/lib/ld-linux-aarch64.so.1"])


def pytest_configure(config: pytest.Config) -> None:
    for machine in (HERE, ARM):
        if not os.access(machine.tool, os.X_OK):
            raise pytest.UsageError(f"{machine.tool} is not built: tests/run aarch64 builds it")
    if "PIANO_EMULATED" not in os.environ:
        raise pytest.UsageError("start this with tests/aarch64/emulated, or type tests/run aarch64")


@pytest.fixture
def project(tmp_path: Path) -> helpers.Project:
    root, home = tmp_path / "project", tmp_path / "home"
    root.mkdir()
    home.mkdir()
    made = helpers.Project(root, home)
    made.env["QEMU_LD_PREFIX"] = str(SYSROOT)
    return made
