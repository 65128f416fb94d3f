"""Builds the package: the extension, the library that is loaded into profiled programs, and the tool `piano`.

The repository's Makefile compiles the library and the tool, so that there is only one way to build them. If the tool cannot be
built, the package is installed without it and prints a message.

`make wheel` compiles everything in a chroot first. PIANO_PREBUILT is an installed piano with the extension, PIANO_PLATFORM the
platform of the wheel.
"""
from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.install_scripts import install_scripts
from setuptools.dist import Distribution

try:
    from setuptools.command.build_scripts import build_scripts  # type: ignore[import-not-found, unused-ignore]
except ImportError:
    from distutils.command.build_scripts import build_scripts  # type: ignore[no-redef, unused-ignore]

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
PREBUILT = Path(os.environ["PIANO_PREBUILT"]) if "PIANO_PREBUILT" in os.environ else None
SCRATCH = (PREBUILT or ROOT / "build") / "pip"  # not beside the sources
VERSION = (ROOT / "VERSION").read_text().strip()
LIBRARIES = PREBUILT / "lib" / "piano" if PREBUILT else ROOT / "build" / "lib"
TOOL = PREBUILT / "bin" / "piano" if PREBUILT else ROOT / "build" / "piano"


def make(*targets: str) -> bool:
    outside = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "LD_PRELOAD")}
    return subprocess.run(["make", "-s", *targets], cwd=ROOT, env=outside).returncode == 0


class Build(build_ext):
    def run(self) -> None:
        # In a development install, `build_lib` is not where the package is.
        package = HERE / "piano" if self.inplace else Path(self.build_lib) / "piano"
        package.mkdir(parents=True, exist_ok=True)
        if PREBUILT:
            shutil.copy2(PREBUILT / "_memprof.abi3.so", package / "_memprof.abi3.so")
        else:
            super().run()
            if not (ROOT / "Makefile").is_file():
                raise SystemExit("piano: python/ is built inside its repository, which has the library's sources")
            if not make("build/lib/libpiano.so"):
                raise SystemExit("piano: the library could not be built; see the messages above")
        shutil.copy2(LIBRARIES / "libpiano.so", package / "libpiano.so")


class NoScripts(build_scripts):
    """The tool is not a script: setuptools must not adapt its first line."""

    def get_source_files(self) -> list[str]:
        return []

    def run(self) -> None:
        pass


class InstallTool(install_scripts):
    """Installs bin/piano, and lib/piano beside it, where the tool looks for its libraries."""

    def run(self) -> None:
        scripts = Path(self.install_dir)
        if not PREBUILT and not make("all"):
            print("piano: the tool could not be built, so only the package is installed; `make setup` installs what is missing",
                  file=sys.stderr)
            return
        data = Path(self.get_finalized_command("install").install_data)
        libraries, documents = data / "lib" / "piano", data / "share" / "doc" / "piano"
        for folder in (scripts, libraries, documents):
            folder.mkdir(parents=True, exist_ok=True)
        shutil.copy2(TOOL, scripts / "piano")
        for name in ("libpiano.so", "libpiano_exec.so", "libpiano.a", "piano_wrap.o"):
            shutil.copy2(LIBRARIES / name, libraries / name)
        if (LIBRARIES / "piano-rust").exists():  # built where there is cargo
            shutil.copy2(LIBRARIES / "piano-rust", libraries / "piano-rust")
        shutil.copy2(ROOT / "LICENSE", documents)
        if PREBUILT:
            shutil.copy2(PREBUILT / "sbom.spdx.json", documents)
            shutil.copytree(PREBUILT / "share/doc/piano/third-party", documents / "third-party", dirs_exist_ok=True)


class WithTool(Distribution):
    def has_scripts(self) -> bool:
        return True


SCRATCH.mkdir(parents=True, exist_ok=True)
platform = {"plat_name": os.environ["PIANO_PLATFORM"]} if "PIANO_PLATFORM" in os.environ else {}
setup(
    version=VERSION,
    distclass=WithTool,
    cmdclass={"build_ext": Build, "build_scripts": NoScripts, "install_scripts": InstallTool},
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
        "bdist_wheel": {"py_limited_api": "cp311", "bdist_dir": str(SCRATCH / "wheel"), **platform},
        "build": {"build_base": str(SCRATCH)},
        "egg_info": {"egg_base": str(SCRATCH)},
    },
)
