"""A program that does not start: piano says why, and does not blame the chosen functions."""
from __future__ import annotations

from pathlib import Path

import pytest

from conftest import Project

LIBRARY = "int twice(int n) { return 2 * n; }\n"
USER = "int twice(int);\nint update(int n) { return twice(n); }\nint main(void) { return update(2) - 4; }\n"


@pytest.fixture
def library(project: Project, tmp_path: Path) -> Path:
    """libtwice.so in a directory that the loader does not search."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "l.c").write_text(LIBRARY)
    project.command("gcc", "-shared", "-fPIC", "l.c", "-o", "libtwice.so", cwd=folder)
    project.write({"a.c": USER})
    return folder


@pytest.mark.parametrize("command", ["run", "profile"])
def test_missing_library_of_an_instrumented_program_is_named(project: Project, library: Path, command: str) -> None:
    words = ["gcc", "a.c", f"-L{library}", "-ltwice", "-o", "a"]
    if command == "run":
        project.build("--", *words)
        done = project.piano("run", check=False)
    else:
        done = project.piano("profile", "--", *words, check=False)
    assert done.status == 127, done
    assert "did not start: the shared library libtwice.so was not found" in done.err and "LD_LIBRARY_PATH" in done.err, done
    assert "none of the instrumented functions" not in done.err and "left no run" not in done.err, done
    done = project.piano("run", env={"LD_LIBRARY_PATH": str(library)})
    assert "did not start" not in done.err, done


@pytest.mark.parametrize("flags", [["--heap"], ["--cpu"], []], ids=["heap", "cpu", "all"])
def test_missing_library_of_any_program_is_named(project: Project, library: Path, flags: list[str]) -> None:
    project.command("gcc", "a.c", f"-L{library}", "-ltwice", "-o", "a")
    done = project.piano("record", *flags, "./a", check=False)
    assert done.status == 127, done
    assert "./a did not start: the shared library libtwice.so was not found" in done.err, done
    assert "left no recording" not in done.err and not list(project.runs.glob("*.rec*")), done


@pytest.mark.parametrize("words", [["run"], ["record", "--heap", "./a"], ["record", "--cpu", "./a"]], ids=" ".join)
def test_missing_loader_is_named(project: Project, words: list[str]) -> None:
    project.write({"a.c": "int main(void) { return 0; }\n"})
    link = ["gcc", "a.c", "-Wl,--dynamic-linker=/lib/ld-none.so.1", "-o", "a"]
    project.build("--", *link)
    project.command(*link)
    done = project.piano(*words, check=False)
    assert done.status == 1 and "its loader /lib/ld-none.so.1: No such file or directory" in done.err, done


def test_missing_interpreter_is_named(project: Project) -> None:
    script = project.root / "s"
    script.write_text("#!/nowhere/sh -e\n")
    script.chmod(0o755)
    for flag in ("--heap", "--cpu"):
        done = project.piano("record", flag, "./s", check=False)
        assert done.status == 1 and "it is a script for /nowhere/sh: No such file or directory" in done.err, done


def test_program_without_permission_to_run_is_named(project: Project) -> None:
    project.write({"a.c": "int main(void) { return 0; }\n"})
    program = project.build("--", "gcc", "a.c", "-o", "a")
    program.chmod(0o600)
    done = project.piano("run", check=False)
    assert done.status == 1 and "Permission denied" in done.err and "chmod +x" in done.err, done


def test_exit_status_127_of_the_program_itself_is_passed_on(project: Project) -> None:
    project.cc("int update(void) { return 0; }\nint main(void) { return 127; }\n", select=["--fn", "update"])
    done = project.piano("run", check=False)
    assert done.status == 127 and "did not start" not in done.err and "none of the instrumented functions" in done.err, done
    done = project.piano("record", "--heap=1K", "sh", "-c", "exit 127", check=False)
    assert done.status == 127 and "recording:" in done.err and "did not start" not in done.err, done


def test_missing_symbol_is_named(project: Project, library: Path) -> None:
    project.build("--", "gcc", "a.c", f"-L{library}", "-ltwice", "-Wl,-z,now", "-o", "a")
    (library / "l.c").write_text("int thrice(int n) { return 3 * n; }\n")
    project.command("gcc", "-shared", "-fPIC", "l.c", "-o", "libtwice.so", cwd=library)
    done = project.piano("run", check=False, env={"LD_LIBRARY_PATH": str(library)})
    assert done.status == 127 and "did not start" in done.err and "twice" in done.err.split("did not start")[1], done
    assert "none of the instrumented functions" not in done.err, done
