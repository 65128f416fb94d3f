"""Owners of files: files that root makes in a user's directory belong to the user, and a message tells a locked-out user the fix."""
from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Iterator

import pytest
from conftest import PIANO, Done, Project, need

USER, GROUP = 54321, 54322  # no user has these; names are not needed
AS_SUDO = {"SUDO_UID": str(USER), "SUDO_GID": str(GROUP)}

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files for another user")

TICK = """
    static volatile int sink;
    void tick(int n) { for (int i = 0; i < n; i++) sink += i; }
    int main(void) { for (int i = 1; i <= 50; i++) tick(i * 100); return 0; }
"""


@pytest.fixture
def theirs() -> Iterator[Project]:
    """A project of another user, which this user can reach."""
    place = Path(tempfile.mkdtemp(prefix="piano-owner-"))
    for folder in (place / "project", place / "home"):
        folder.mkdir()
        os.chown(folder, USER, GROUP)
    place.chmod(0o711)
    yield Project(place / "project", place / "home")
    shutil.rmtree(place)


def owners(root: Path) -> dict[str, tuple[int, int]]:
    """Owner and group of everything below ROOT, except links."""
    return {str(path.relative_to(root)): (path.lstat().st_uid, path.lstat().st_gid)
            for path in sorted(root.rglob("*")) if not path.is_symlink()}


def not_theirs(root: Path) -> list[str]:
    return [name for name, owner in owners(root).items() if owner != (USER, GROUP)]


def as_user(project: Project, *words: Any) -> Done:
    """Runs piano as the other user."""
    try:
        done = subprocess.run([PIANO, *map(str, words)], cwd=project.root, env=project.env, user=USER, group=GROUP,
                              extra_groups=[], capture_output=True, text=True, timeout=60, check=False)
    except PermissionError:
        pytest.skip(f"{PIANO} lies where other users have no access")
    return Done([PIANO, *map(str, words)], done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("env", [AS_SUDO, {}], ids=["sudo", "root"])
def test_recordings_belong_to_the_owner_of_the_directory(theirs: Project, env: dict[str, str]) -> None:
    theirs.piano("record", "--cpu", "--", "ls", env=env)
    theirs.piano("record", "--heap", "--", "ls", env=env)
    made = owners(theirs.root)
    assert len([name for name in made if name.endswith(".rec")]) == 2, made
    assert not_theirs(theirs.root) == []
    assert as_user(theirs, "report", "--heap").status == 0
    assert as_user(theirs, "record", "--", "ls").status == 0


def test_recordings_of_sudo_keep_their_names(theirs: Project) -> None:
    """Names are added to the file after its owner changed."""
    theirs.write({"prog.c": "#include <stdlib.h>\n"
                            "__attribute__((noinline)) void *take_some(int n) { return malloc(n); }\n"
                            "int main(void) { return take_some(100000) ? 0 : 1; }\n"})
    theirs.command("gcc", "-O1", "-g", "-fno-builtin", "prog.c", "-o", "prog")
    theirs.piano("record", "--heap=1", "--", "./prog", env=AS_SUDO)
    (theirs.root / "prog").unlink()
    assert "take_some" in as_user(theirs, "report", "--heap").out


def test_outputs_belong_to_the_owner_of_the_directory(theirs: Project) -> None:
    theirs.piano("record", "--heap", "-o", "ls.rec", "--", "ls", env=AS_SUDO)
    theirs.piano("export", "--format", "collapsed", "-o", "ls.txt", "ls.rec", env=AS_SUDO)
    theirs.piano("view", "-o", "ls.html", "ls.rec", env=AS_SUDO)
    made = owners(theirs.root)
    assert {name: made[name] for name in ("ls.rec", "ls.txt", "ls.html")} == {
        name: (USER, GROUP) for name in ("ls.rec", "ls.txt", "ls.html")}
    assert not_theirs(theirs.root) == []


def test_a_build_belongs_to_the_owner_of_the_directory(theirs: Project) -> None:
    theirs.write({"tick.c": TICK, "Makefile": "tick: tick.c\n\tcc -O1 -o tick tick.c\n"})
    for name in ("tick.c", "Makefile"):
        os.chown(theirs.root / name, USER, GROUP)
    theirs.piano("profile", "--fn", "tick", env=AS_SUDO)
    assert not_theirs(theirs.root) == []
    again = as_user(theirs, "profile", "--fn", "main")
    assert again.status == 0, again


def test_a_program_makes_its_run_for_the_owner(theirs: Project) -> None:
    """Started without piano."""
    theirs.env.update(AS_SUDO)
    program = theirs.cc(TICK, select=["--fn", "tick"])
    shutil.rmtree(theirs.runs, ignore_errors=True)
    theirs.command(program, env=AS_SUDO)
    assert len(theirs.run_files()) == 1
    assert [name for name in not_theirs(theirs.root) if name.startswith(".piano/runs")] == []


def test_roots_own_directories_stay_roots(project: Project) -> None:
    project.piano("record", "--heap", "-o", "ls.rec", "--", "ls", env=AS_SUDO)
    project.piano("record", "--heap", "--", "ls", env=AS_SUDO)
    assert set(owners(project.root).values()) == {(0, 0)}


def test_what_was_there_keeps_its_owner(theirs: Project) -> None:
    """Not even in a build directory that root gives to the user."""
    theirs.write({"tick.c": TICK, "Makefile": "tick: tick.c\n\tcc -O1 -o tick tick.c\n"})
    secret = theirs.root / ".piano" / "build" / "secret"
    secret.parent.mkdir(parents=True)
    secret.write_text("root's\n")
    theirs.piano("build", "--fn", "tick", env=AS_SUDO)
    assert secret.stat().st_uid == 0


def test_links_are_not_followed(theirs: Project) -> None:
    aim = theirs.home / "aim"
    aim.mkdir()
    (aim / "file").write_text("root's\n")
    theirs.write({"tick.c": TICK, "Makefile": "tick: tick.c\n\tcc -O1 -o tick tick.c\n\tln -s " + str(aim) + " there\n"
                                              "\tln " + str(aim / "file") + " second\n"})
    theirs.piano("build", "--fn", "tick", env=AS_SUDO)
    assert (aim.stat().st_uid, (aim / "file").stat().st_uid) == (0, 0)


LOCKED = [["record", "--heap", "--", "ls"], ["record", "--cpu", "--", "ls"], ["list"], ["report"], ["report", "--heap"],
          ["report", "12-34"], ["diff"], ["diff", "a", "b"], ["view", "-o", "x.html"], ["export", "--format", "collapsed"],
          ["tag", "before"], ["tag"], ["build", "--fn", "tick"], ["profile", "--fn", "tick"], ["run"]]


@pytest.mark.parametrize("words", LOCKED, ids=[" ".join(words) for words in LOCKED])
def test_unreadable_runs_directory_names_the_command_to_fix_it(theirs: Project, words: list[str]) -> None:
    """A .piano of root's, as older versions made it under sudo."""
    theirs.write({"tick.c": TICK, "Makefile": "tick: tick.c\n\tcc -O1 -o tick tick.c\n"})
    (theirs.root / ".piano" / "runs").mkdir(parents=True)
    (theirs.root / ".piano").chmod(0o700)
    done = as_user(theirs, *words)
    assert done.status == 1, done
    assert f"try: sudo chown -R {USER}:{GROUP} {theirs.root}/.piano   # it belongs to root\n" in done.err, done
    assert done.err.count("sudo chown") == 1


def test_command_to_fix_the_owner_works(theirs: Project) -> None:
    """Also in a directory whose name a shell would split."""
    theirs.root = theirs.root.rename(theirs.root.parent / "it's $HOME; x")
    (theirs.root / ".piano" / "runs").mkdir(parents=True)
    (theirs.root / ".piano").chmod(0o700)
    done = as_user(theirs, "record", "--", "ls")
    command = next(line.split("try: sudo ")[1] for line in done.err.splitlines() if "try: sudo" in line)
    theirs.command("sh", "-c", command)
    assert as_user(theirs, "record", "--", "ls").status == 0


@pytest.mark.parametrize("words", [["report"], ["diff"], ["view", "-o", "x.html"]], ids=lambda words: words[0])
def test_unreadable_recording_names_the_command_to_fix_it(theirs: Project, words: list[str]) -> None:
    """The directory is the user's, the files in it are root's."""
    theirs.runs.mkdir(parents=True)
    for name in ("1740000000123-1.rec", "1740000000124-2.rec"):
        (theirs.runs / name).write_bytes(b"")
        (theirs.runs / name).chmod(0o600)
    for folder in (theirs.root / ".piano", theirs.runs):
        os.chown(folder, USER, GROUP)
    done = as_user(theirs, *words)
    assert done.status == 1 and f"try: sudo chown -R {USER}:{GROUP} {theirs.root}/.piano" in done.err, done


def test_unreadable_directory_of_another_user_names_no_command(theirs: Project) -> None:
    """The hint must not tell the reader to change the owner of another user's files."""
    os.chown(theirs.root, 0, 0)
    (theirs.root / ".piano" / "runs").mkdir(parents=True)
    (theirs.root / ".piano").chmod(0o700)
    assert "chown" not in as_user(theirs, "report").err


# ---- whose projects piano uses -----------------------------------------------------------------

RAN = "tick: tick.c\n\ttouch {}\n\tcc -O1 -o tick tick.c\n"


def shared(theirs: Project) -> Project:
    """A project in a directory that everybody may write to, such as /tmp: root's own, and another one below it."""
    theirs.root.chmod(0o1777)
    os.chown(theirs.root, 0, 0)
    top = theirs.root
    theirs.root = top / "work"
    theirs.root.mkdir()
    theirs.write({"tick.c": TICK})
    return theirs


def plant(path: Path, text: str | None = None) -> Path:
    """A file, or a directory without TEXT, of the other user, in a directory that all may write to."""
    if text is None:
        path.mkdir()
        path.chmod(0o777)
    else:
        path.write_text(text)
    os.chown(path, USER, GROUP, follow_symlinks=False)
    return path


def refused(project: Project, planted: Path, *words: Any, **more: Any) -> None:
    done = project.piano(*words, check=False, **more)
    assert done.status == 1 and done.out == "", done
    assert str(planted) in done.err and str(USER) in done.err and "PIANO_SAFE_DIRECTORIES" in done.err, done


@pytest.mark.parametrize("name", ["Makefile", "CMakeLists.txt", "meson.build", "configure", ".git"])
@pytest.mark.parametrize("below", [True, False], ids=["below", "there"])
def test_build_file_of_another_user_is_not_used(theirs: Project, name: str, below: bool) -> None:
    top = theirs.root
    project = shared(theirs)
    proof = theirs.home / "ran"
    planted = plant(top / name, RAN.format(proof))
    if not below:
        project.root = top
    refused(project, planted, "build")
    refused(project, planted, "profile")
    assert not proof.exists() and not (top / ".piano").exists()


@pytest.mark.parametrize("words", [("record", "--", "true"), ("list",), ("report",), ("tag",), ("tag", "x"), ("run",),
                                   ("diff", "a", "b"), ("build", "--", "cc", "-c", "tick.c")], ids=" ".join)
@pytest.mark.parametrize("below", [True, False], ids=["below", "there"])
def test_state_of_another_user_is_not_used(theirs: Project, words: tuple[str, ...], below: bool) -> None:
    top = theirs.root
    project = shared(theirs)
    planted = plant(top / ".piano")
    if not below:
        project.root = top
    refused(project, planted, *words)
    assert list(planted.iterdir()) == []


def test_link_of_another_user_is_not_used(theirs: Project) -> None:
    top = theirs.root
    project = shared(theirs)
    own = theirs.home / "own"
    own.mkdir()
    (top / ".piano").symlink_to(own)
    os.chown(top / ".piano", USER, GROUP, follow_symlinks=False)
    refused(project, top / ".piano", "record", "--", "true")
    assert list(own.iterdir()) == []


def test_directory_of_another_user_is_not_built(theirs: Project) -> None:
    """Its owner could have put anything there."""
    theirs.write({"tick.c": TICK, "Makefile": RAN.format("ran")})
    (theirs.root / "sub").mkdir()
    refused(theirs, theirs.root, "build")
    theirs.root = theirs.root / "sub"
    refused(theirs, theirs.root.parent, "build")
    refused(theirs, theirs.root.parent, "record", "--", "true")


def test_doctor_names_the_owner_of_the_runs_directory(theirs: Project) -> None:
    top = theirs.root
    project = shared(theirs)
    plant(top / ".piano")
    done = project.piano("doctor", check=False)
    assert done.status == 1 and f"{top}/.piano belongs to" in done.out + done.err, done


@pytest.mark.parametrize("env", [AS_SUDO, {"PIANO_SAFE_DIRECTORIES": "*"}, {"PIANO_SAFE_DIRECTORIES": "/nowhere:TOP/"}],
                         ids=["sudo", "all", "named"])
def test_trusted_project_of_another_user_is_used(theirs: Project, env: dict[str, str]) -> None:
    top = theirs.root
    project = shared(theirs)
    (project.root / "tick.c").rename(top / "tick.c")
    plant(top / "Makefile", RAN.format("ran"))
    project.env.update({name: value.replace("TOP", str(top)) for name, value in env.items()})
    project.piano("profile", "--fn", "tick")
    project.root = top
    assert project.report().calls("tick") == {"tick": 50}


def test_other_directory_in_the_list_changes_nothing(theirs: Project) -> None:
    top = theirs.root
    project = shared(theirs)
    planted = plant(top / "Makefile", RAN.format("ran"))
    for named in (str(project.root), str(top) + "x", str(top)[:-1], "", ":", "/"):
        refused(project, planted, "build", env={"PIANO_SAFE_DIRECTORIES": named})


def test_own_directory_below_is_a_project_of_its_own(theirs: Project) -> None:
    """As the hint suggests."""
    top = theirs.root
    project = shared(theirs)
    plant(top / "Makefile", RAN.format("ran"))
    (project.root / ".piano").mkdir()
    project.command(project.build("--fn", "tick", "--", "gcc", "-O1", "tick.c", "-o", "tick"))
    assert project.report().calls("tick") == {"tick": 50}
    assert not (top / ".piano").exists()


def test_part_of_a_foreign_cmake_project_is_built_alone(theirs: Project) -> None:
    top = theirs.root
    project = shared(theirs)
    plant(top / "CMakeLists.txt", "message(FATAL_ERROR \"of another user\")\n")
    project.write({"CMakeLists.txt": "cmake_minimum_required(VERSION 3.10)\nproject(tick C)\nadd_executable(tick tick.c)\n"})
    need("cmake")
    project.command(project.build("--fn", "tick"))
    assert project.report().calls("tick") == {"tick": 50}


def test_runs_directory_that_is_named_is_used(theirs: Project) -> None:
    """Naming a directory or a file explicitly is a choice."""
    top = theirs.root
    project = shared(theirs)
    plant(top / ".piano")
    project.piano("record", "-o", "true.rec", "--", "true")
    project.piano("record", "--", "true", env={"PIANO_RUNS_DIR": str(theirs.home / "runs")})
    project.piano("report", "--heap", "true.rec")


def test_project_of_a_third_user_is_not_used_by_a_user_who_is_not_root(theirs: Project) -> None:
    top = theirs.root
    project = shared(theirs)
    os.chown(project.root, USER, GROUP)
    third = USER + 1
    for name in (".piano", "Makefile"):
        planted = plant(top / name, None if name == ".piano" else RAN.format("ran"))
        os.chown(planted, third, GROUP)
        for words in (["build"], ["record", "--", "true"]):
            done = as_user(project, *words)
            assert done.status == 1 and str(planted) in done.err and str(third) in done.err, done
        done = as_user(project, "list")
        assert done.status == 1, done
        shutil.rmtree(planted) if planted.is_dir() else planted.unlink()
    os.chown(top, 0, 0)
    done = as_user(project, "record", "--", "true")
    assert done.status == 0, done  # root's directory above does not matter
