"""A second build compiles only changed files; a changed selection instruments again."""
from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from conftest import PIANO, Project, fingerprint, need
from test_build import write_game


class Logged:
    """A project whose compiler is a script that logs each command before it runs the real one."""

    def __init__(self, project: Project, system: str):
        self.project = project
        write_game(project, system)
        bin_dir = project.home / "bin"
        bin_dir.mkdir()
        self.log = project.home / "compiler.log"
        script = bin_dir / "gcc"
        script.write_text(f'#!/bin/sh\necho "$*" >> {self.log}\nexec /usr/bin/gcc "$@"\n')
        script.chmod(0o755)
        (bin_dir / "cc").symlink_to(script)
        project.env["PATH"] = f"{bin_dir}:{os.environ['PATH']}"
        project.env["CC"] = "gcc"

    def compiled(self) -> set[str]:
        """The sources that the compiler got since the last call of this (main.c, not main.c.o)."""
        text = self.log.read_text() if self.log.exists() else ""
        self.log.unlink(missing_ok=True)
        return {name for name in ("main", "update", "physics")
                if re.search(rf"\b{name}\.c(?![.\w])", text)}

    def build(self, *options: str) -> Path:
        return self.project.build(*options)


SYSTEMS = pytest.mark.parametrize("system", ["make", "cmake", "meson"])
ALL = {"main", "update", "physics"}


@SYSTEMS
def test_second_build_compiles_nothing(project: Project, system: str) -> None:
    logged = Logged(project, system)
    logged.build("--fn", "update")
    assert logged.compiled() == ALL
    program = logged.build("--fn", "update")
    assert logged.compiled() == set()
    project.command(program)
    assert project.report().called() == {"update": 12}


@SYSTEMS
def test_only_the_changed_file_is_compiled(project: Project, system: str) -> None:
    logged = Logged(project, system)
    logged.build("--fn", "update")
    logged.compiled()
    path = project.root / "src/update.c"
    path.write_text(path.read_text().replace("physics(1)", "physics(2)"))
    before = fingerprint(project.root)
    program = logged.build("--fn", "update")
    assert logged.compiled() == {"update"}
    assert project.command(program).out == "total 180\n"
    assert project.report().called() == {"update": 12}
    assert fingerprint(project.root) == before


@SYSTEMS
def test_a_changed_header_reaches_those_who_include_it(project: Project, system: str) -> None:
    logged = Logged(project, system)
    logged.build("--fn", "update")
    logged.compiled()
    header = project.root / "src/game.h"
    header.write_text(header.read_text().replace("#endif", "#define EXTRA 1\n#endif"))
    logged.build("--fn", "update")
    assert logged.compiled() == ALL


@SYSTEMS
def test_changed_selection_instruments_anew(project: Project, system: str) -> None:
    logged = Logged(project, system)
    for options, want in ((["--fn", "update"], {"update": 12}),
                          (["--fn", "physics"], {"physics": 24}),
                          ([], {"main": 1, "update": 12, "physics": 24}),
                          (["--skip", "main"], {"update": 12, "physics": 24}),
                          (["--fn", "update"], {"update": 12})):
        project.command(logged.build(*options))
        assert project.report().called() == want, options


def test_changed_selection_spares_units_it_does_not_concern(project: Project) -> None:
    logged = Logged(project, "make")
    logged.build("--fn", "update")
    logged.compiled()
    logged.build("--fn", "update", "--fn", "physics")
    assert "physics" in (seen := logged.compiled())
    assert "main" not in seen, "main.c has neither function"


@pytest.mark.parametrize("options,want", [(["--fn", "unit_3"], {3}), (["--fn", "nit_3"], {3}), (["--fn", "unit_"], set(range(6))),
                                          (["--fn", "N::unit_3"], {3}), (["--fn", "vfprintf"], set())], ids=str)
def test_one_more_function_compiles_only_the_units_that_have_it(project: Project, options: list[str], want: set[int]) -> None:
    """The other files were not searched again, because their words are cached."""
    for i in range(6):
        project.write({f"unit{i}.cc": f"#include <cstdio>\nnamespace N {{ int unit_{i}() {{ return printf(\"%d\", {i}); }} }}\n"})
    project.write({"main.cc": "int main() { return 0; }\n",
                   "Makefile": "app: main.o " + " ".join(f"unit{i}.o" for i in range(6)) + "\n\tg++ -o $@ $^\n"})
    objects = project.root / ".piano/build/tree" / project.root.name
    project.build("--fn", "main")
    before = {i: (objects / f"unit{i}.o").stat().st_mtime_ns for i in range(6)}
    project.piano("build", "--fn", "main", *options, check=False)
    assert {i for i in range(6) if (objects / f"unit{i}.o").stat().st_mtime_ns != before[i]} == want


def test_changed_frame_function_takes_effect(project: Project) -> None:
    logged = Logged(project, "make")
    project.command(logged.build("--frame", "update"))
    assert project.report().frame_count == 12
    project.command(logged.build("--frame", "physics"))
    assert project.report().frame_count == 24


def test_deleted_and_added_sources(project: Project) -> None:
    """A Makefile with wildcards sees the user's current files."""
    project.write({"one.c": "int one(void) { return 0; }\n",
                   "main.c": "int one(void);\nint main(void) { return one(); }\n"})
    (project.root / "Makefile").write_text("app: $(wildcard *.c)\n\tgcc -o $@ $^\n")
    project.command(project.build())
    assert project.report().called() == {"one": 1, "main": 1}
    (project.root / "one.c").unlink()
    project.write({"two.c": "int one(void) { return 0; }\nint two(void) { return one(); }\n",
                   "main.c": "int two(void);\nint main(void) { return two(); }\n"})
    project.command(project.build())
    assert project.report().called() == {"one": 1, "two": 1, "main": 1}


def test_a_failed_build_can_be_mended(project: Project) -> None:
    write_game(project, "make")
    good = (project.root / "src/update.c").read_text()
    (project.root / "src/update.c").write_text(good + "\nint broken( {\n")
    assert project.piano("build", "--fn", "update", check=False).status == 1
    (project.root / "src/update.c").write_text(good)
    project.command(project.build("--fn", "update"))
    assert project.report().called() == {"update": 12}


def test_a_failed_build_does_not_offer_the_old_program(project: Project) -> None:
    write_game(project, "make")
    project.build("--fn", "update")
    path = project.root / "src/update.c"
    path.write_text(path.read_text() + "\nint broken( {\n")
    done = project.piano("build", "--fn", "update", check=False)
    assert done.status == 1 and done.out == ""


def test_changed_build_command_is_obeyed(project: Project) -> None:
    project.write({"a.c": '#include <stdio.h>\nint main(void) { printf("%d\\n", V); return 0; }\n'})
    for value in ("1", "2"):
        program = project.build("--", "gcc", f"-DV={value}", "a.c", "-o", "a")
        assert project.command(program).out == value + "\n"


def test_cmake_reconfigures(project: Project) -> None:
    need("cmake")
    write_game(project, "cmake")
    project.command(project.build("--fn", "update"))
    path = project.root / "CMakeLists.txt"
    path.write_text(path.read_text() + "add_executable(second src/second.c)\n")
    project.write({"src/second.c": "int update(int n) { return n; }\n"
                                   "int main(void) { return update(0); }\n"})
    project.build("--fn", "update")
    project.piano("run", "--", "second")
    assert project.report().called() == {"update": 1}


def test_two_builds_at_once(project: Project) -> None:
    """Two terminals, one project: both succeed, or one says why not."""
    write_game(project, "make")
    both = [subprocess.Popen([PIANO, "build", "--fn", "update"], cwd=project.root, env=project.env,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
    ends = [p.communicate(timeout=60) + (p.returncode,) for p in both]
    assert any(end[2] == 0 for end in ends), ends
    for out, err, status in ends:
        assert status in (0, 1)
        assert status == 0 or err, "a refused build says why"
    project.command(project.build("--fn", "update"))
    assert project.report().called() == {"update": 12}
