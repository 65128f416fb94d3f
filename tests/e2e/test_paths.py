"""Paths with blanks, colons, quotes, dollars and non-ASCII letters: of piano, of projects, programs and recordings."""
from __future__ import annotations

import os
import select
import shutil
import stat
from pathlib import Path

import pytest

from conftest import LIB, PIANO, Done, Project, copy_tool, need

AWKWARD = ["a b", "it's", 'quo"te', "do$HOME", "$ORIGIN", "semi;colon", "näme 日本", "back\\slash", "(x) & y", "-dash", "#hash %s"]
COLON = "co:lon"  # make does not support it in names of targets, and PATH does not at all

TICK = """
    static volatile int sink;
    void tick(int n) { for (int i = 0; i < n; i++) sink += i; }
    int main(void) { for (int i = 1; i <= 50; i++) tick(i * 100); return 0; }
"""
BUILDS = {
    "make": {"Makefile": "tick: tick.c\n\t$(CC) -O1 -o tick tick.c\n"},
    "cmake": {"CMakeLists.txt": "cmake_minimum_required(VERSION 3.10)\nproject(tick C)\nadd_executable(tick tick.c)\n"},
    "meson": {"meson.build": "project('tick', 'c')\nexecutable('tick', 'tick.c')\n"},
    "configure": {"configure": "#!/bin/sh\nprintf 'tick: tick.c\\n\\tcc -O1 -o tick tick.c\\n' > Makefile\n"},
}


def move(project: Project, name: str) -> Project:
    """PROJECT in a directory called NAME."""
    project.root = project.root.rename(project.root.parent / name)
    return project


def private(project: Project, name: str) -> Path:
    """A piano in a directory called NAME."""
    place = project.home / name
    copy_tool(place)
    links = project.home / "links"
    links.mkdir()
    project.env["TMPDIR"] = str(links)
    return place / "piano"


@pytest.mark.parametrize("name", AWKWARD + [COLON])
def test_project_in_an_awkward_path_works(project: Project, name: str) -> None:
    """All commands for a project."""
    move(project, name).write({"tick.c": TICK, **BUILDS["make"]})
    done = project.piano("profile", "--fn", "tick")
    assert "tick" in done.out
    project.piano("tag", "before")
    project.piano("run")
    assert project.report().calls("tick") == {"tick": 50}
    project.piano("diff", "before", project.run_files()[-1])
    assert len(project.json("list")["runs"]) == 2
    project.piano("view", "-o", "page.html")
    assert (project.root / "page.html").stat().st_size > 1000


@pytest.mark.parametrize("how", ["cmake", "meson", "configure"])
@pytest.mark.parametrize("name", ["a b", "it's näme"])
def test_build_system_in_an_awkward_path_works(project: Project, name: str, how: str) -> None:
    if how != "configure":
        need(how)
    move(project, name).write({"tick.c": TICK, **BUILDS[how]})
    if how == "configure":
        (project.root / "configure").chmod(0o755)
    program = project.build("--fn", "tick")
    project.command(program)
    assert project.report().calls("tick") == {"tick": 50}


def test_sources_and_outputs_with_awkward_names_are_built(project: Project) -> None:
    """A command with special characters in its words, and an archive."""
    move(project, "a b").write({"my tick.c": TICK})
    project.write({"build it": "#!/bin/sh\nset -e\ngcc -O1 -c 'my tick.c' -o 'my tick.o'\nar rc 'lib my.a' 'my tick.o'\n"
                               "gcc -Wl,--whole-archive 'lib my.a' -Wl,--no-whole-archive -o 'the program'\n"})
    (project.root / "build it").chmod(0o755)
    program = project.build("--fn", "tick", "--", "./build it")
    assert program.name == "the program"
    project.command(program)
    assert project.report().calls("tick") == {"tick": 50}


def test_compiler_in_an_awkward_path_works(project: Project) -> None:
    """By its path, as in CC."""
    tools = project.home / "my tools"
    tools.mkdir()
    (tools / "gcc").symlink_to(need("gcc"))
    project.write({"tick.c": TICK, "Makefile": 'tick: tick.c\n\t"$(CC)" -O1 -o tick tick.c\n'})
    project.command(project.build("--fn", "tick", env={"CC": str(tools / "gcc")}))
    assert project.report().calls("tick") == {"tick": 50}


@pytest.mark.parametrize("name", AWKWARD + [COLON])
def test_programs_and_recordings_with_awkward_names_work(project: Project, name: str) -> None:
    move(project, name)
    shutil.copy("/bin/ls", project.root / f"ls {name}")
    rec = project.root / f"ls {name}.rec"
    project.piano("record", "--heap=1", "-o", rec.name if not name.startswith("-") else rec, "--", f"./ls {name}", ".")
    assert rec.stat().st_size > 0
    project.piano("report", "--heap", rec)
    project.piano("export", "--format", "collapsed", "-o", project.root / f"{name}.txt", rec)
    assert (project.root / f"{name}.txt").exists()


@pytest.mark.parametrize("name", AWKWARD + [COLON])
def test_piano_in_an_awkward_path_works(project: Project, name: str) -> None:
    """The library is loaded into programs, preloaded in builds, and linked into their products."""
    tool = private(project, name)
    project.command(tool, "record", "--heap=1", "-o", "x.rec", "--", "ls")
    assert "0 samples" not in project.piano("report", "--heap", "x.rec").out
    project.write({"tick.c": TICK, **BUILDS["make"]})
    done = project.command(tool, "profile", "--fn", "tick")
    assert "tick" in done.out, done
    assert "libpiano.so can be loaded" in project.command(tool, "doctor", check=False).out
    assert "cannot be preloaded" not in done.err


def test_children_find_the_library_too(project: Project) -> None:
    """Also processes that remain when piano has ended, and programs that they exec."""
    tool = private(project, "a b")
    script = 'mkfifo go; (read x < go; exec ls) >ls.out 2>ls.err & echo $! >pid'
    done = project.command(tool, "record", "--heap=1", "--children", "-o", "x.rec", "--", "sh", "-c", script)
    assert done.err.count("cannot be preloaded") == 0
    (project.root / "go").write_text("now\n")
    pid = int((project.root / "pid").read_text())
    until_gone(pid)
    assert (project.root / "ls.err").read_text() == "" and "pid" in (project.root / "ls.out").read_text()


def until_gone(pid: int) -> None:
    """Not a child of ours, so the end of its descriptor reports its end."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    assert select.select([fd], [], [], 60)[0], "it does not end"
    os.close(fd)


def test_link_to_the_library_is_reused(project: Project) -> None:
    tool = private(project, "a b")
    for _ in range(2):
        project.command(tool, "record", "--heap=1", "--", "ls")
    links = [path for path in (project.home / "links").rglob("*") if path.is_symlink()]
    assert sorted(path.name for path in links) == ["libpiano.so", "libpiano_exec.so"]
    assert links[0].parent.parent == project.home / "links" / f"piano-{os.geteuid()}"


def record_by(project: Project, tool: Path, **options: str) -> Done:
    return project.command(tool, "record", "--heap=1", "-o", "x.rec", "--", "ls", check=False, env=options)


def test_link_of_another_user_is_not_used(project: Project) -> None:
    """If others can write to the directory for links, or it is behind a link, the next directory is used."""
    tool = private(project, "a b")
    ours = project.home / "links" / f"piano-{os.geteuid()}"
    ours.mkdir()
    ours.chmod(0o777)
    assert record_by(project, tool).status == 0
    assert list(ours.iterdir()) == []
    ours.rmdir()
    elsewhere = project.home / "elsewhere"
    elsewhere.mkdir()
    ours.symlink_to(elsewhere)
    (project.root / "x.rec").unlink()
    assert record_by(project, tool).status == 0
    assert list(elsewhere.iterdir()) == []


def test_a_wrong_link_is_replaced(project: Project) -> None:
    tool = private(project, "a b")
    assert record_by(project, tool).status == 0
    link = next(path for path in (project.home / "links").rglob("libpiano.so"))
    link.unlink()
    link.symlink_to("/nowhere/libpiano.so")
    (project.root / "x.rec").unlink()
    done = record_by(project, tool)
    assert done.status == 0 and "cannot be preloaded" not in done.err
    assert os.readlink(link) == str(tool.parent / "lib" / "libpiano.so")


def test_program_runs_after_the_link_was_removed(project: Project) -> None:
    """piano is in a path with a colon, where the run path leads through a link: `piano run` makes the link again."""
    tool = private(project, COLON)
    project.write({"tick.c": TICK, **BUILDS["make"]})
    project.command(tool, "build", "--fn", "tick")
    shutil.rmtree(project.home / "links")
    (project.home / "links").mkdir()
    project.command(tool, "run")
    assert project.report().calls("tick") == {"tick": 50}


def test_a_program_finds_the_library_without_piano(project: Project) -> None:
    """Its run path leads through a permanent link, so it starts without files in a temporary directory."""
    tool = private(project, COLON)
    project.write({"tick.c": TICK, **BUILDS["make"]})
    program = project.command(tool, "build", "--fn", "tick").out.strip()
    shutil.rmtree(project.home / "links")
    project.command(program)
    assert project.report().calls("tick") == {"tick": 50}
    link = project.home / ".local/state/piano" / f"piano-{os.geteuid()}"
    assert stat.S_IMODE(link.stat().st_mode) == 0o755 and stat.S_IMODE(link.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("home", ["file", "ho:me", "writable"])
def test_a_state_directory_that_cannot_hold_the_link(project: Project, home: str) -> None:
    """If the directory cannot be made, has a colon, or others can write to it, the temporary directory is used."""
    tool = private(project, COLON)
    state = project.home / home
    if home == "file":
        state.write_text("")
    else:
        (state / "piano").mkdir(parents=True)
        (state / "piano").chmod(0o777)
    project.write({"tick.c": TICK, **BUILDS["make"]})
    project.command(tool, "profile", "--fn", "tick", env={"XDG_STATE_HOME": str(state)})
    assert list((project.home / "links").rglob("libpiano.so")) and not list(state.rglob("libpiano.so"))


@pytest.mark.parametrize("name", [COLON, "semi;colon", "do$HOME", "a b"])
def test_shared_library_in_an_awkward_path_is_found(project: Project, name: str) -> None:
    """`piano run` names its directory in LD_LIBRARY_PATH, which is split at colons and semicolons."""
    links = project.home / "links"
    links.mkdir()
    move(project, name).write({"lib.c": "int serve(int n) { return n; }\n",
                               "main.c": "int serve(int);\nint main(void) { return serve(0); }\n"})
    build = "mkdir -p out && gcc -shared -fPIC lib.c -o out/libserve.so && gcc main.c -Lout -lserve -o main"
    project.piano("build", "--fn", "serve", "--", "sh", "-c", build)
    for _ in range(2):  # the link is used again
        project.piano("run", env={"TMPDIR": str(links)})
        assert project.report().calls("serve") == {"serve": 1}
    assert (len([path for path in links.rglob("*") if path.is_symlink()]) == 1) == (name != "a b")


def test_make_in_an_awkward_path_cannot_build_a_cmake_project(project: Project) -> None:
    need("cmake")
    move(project, COLON).write({"tick.c": TICK, **BUILDS["cmake"]})
    done = project.piano("build", "--fn", "tick", env={"CMAKE_GENERATOR": "Unix Makefiles"}, check=False)
    assert done.status == 1 and "move the project: make cannot build where a path has a colon in it" in done.err, done


def test_compiler_error_in_an_awkward_path_names_the_project(project: Project) -> None:
    move(project, COLON).write({"tick.c": "int main(void) { return nothing; }\n", **BUILDS["make"]})
    done = project.piano("build", "--fn", "tick", check=False)
    assert done.status == 1 and "move the project" not in done.err and "log" in done.err, done


def test_runs_directory_in_an_awkward_path_works(project: Project) -> None:
    runs = project.root / "my runs: all"
    program = project.cc(TICK, select=["--fn", "tick"])
    project.command(program, env={"PIANO_RUNS_DIR": str(runs)})
    assert len(project.run_files(runs)) == 1
    project.piano("record", "--heap", "--", "ls", env={"PIANO_RUNS_DIR": str(runs)})
    assert len(list(runs.glob("*.rec"))) == 1


@pytest.mark.parametrize("mark", [" ", ":"], ids=["blanks", "colons"])
def test_demo_in_an_awkward_path_works(project: Project, mark: str) -> None:
    """The commands of `make demo`, in a tree and with a temporary directory whose names have blanks or colons."""
    root = Path(__file__).resolve().parents[2]
    tree = project.home / f"my{mark}tree"
    for name in ("tools", "examples"):
        shutil.copytree(root / name, tree / name)
    (tree / "build").mkdir()
    shutil.copy(PIANO, tree / "build" / "piano")
    shutil.copytree(LIB, tree / "build" / "lib")
    temporary = project.home / f"my{mark}temporary files"
    temporary.mkdir()
    done = project.command(tree / "tools" / "demo", env={"TMPDIR": str(temporary)}, limit=120)
    assert "asset_load" in done.out and "spike" in done.out
    typed = [line.strip() for line in done.out.splitlines() if "piano" in line and line.startswith("    ")]
    assert typed[0].startswith("cd ") and "report --json" in typed[1]
    assert '"functions"' in project.command("sh", "-c", typed[0] + "; " + typed[1]).out  # as a user would paste it
