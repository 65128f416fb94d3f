"""Builds the package: the extension, and beside it the library that is loaded into profiled programs.

The library is not compiled here but by the makefile of the repository this directory is in, so that there is one way to build it.
"""
from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
LIBRARY = "build/lib/libpiano.so"
SCRATCH = ROOT / "build" / "pip"  # not beside the sources
VERSION = (ROOT / "VERSION").read_text().strip()


class Build(build_ext):
    def run(self) -> None:
        super().run()
        if not (ROOT / "Makefile").is_file():
            raise SystemExit("piano: python/ is built inside its repository, which has the library's sources")
        outside = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "LD_PRELOAD")}
        subprocess.run(["make", "-s", LIBRARY], cwd=ROOT, env=outside, check=True)
        # In a development install, `build_lib` is not where the package is.
        package = HERE / "piano" if self.inplace else Path(self.build_lib) / "piano"
        package.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / LIBRARY, package / "libpiano.so")


SCRATCH.mkdir(parents=True, exist_ok=True)
setup(
    version=VERSION,
    cmdclass={"build_ext": Build},
    ext_modules=[
        Extension(
            "piano._memprof",
            sources=["piano/_memprof.c"],
            include_dirs=[os.path.join("..", "include")],
            define_macros=[("Py_LIMITED_API", "0x030b0000"), ("PIANO_VERSION", f'"{VERSION}"')],
            extra_compile_args=["-std=gnu11", "-Wall", "-Wextra"],
            py_limited_api=True,
        )
    ],
    options={
        "bdist_wheel": {"py_limited_api": "cp311"},
        "build": {"build_base": str(SCRATCH)},
        "egg_info": {"egg_base": str(SCRATCH)},
    },
)
