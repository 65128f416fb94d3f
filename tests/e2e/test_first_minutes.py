"""Commands of a new user in the first ten minutes: words without `--`, mistakes, pipes, small terminals."""
from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from conftest import LIB, PIANO, Project, need, put_run, update_run
from test_cli import COMMANDS

tool = pytest.mark.tool


# The program without `--` --------------------------------------------------------------------------------


def test_record_takes_a_program_without_dashes(project: Project) -> None:
    done = project.piano("record", "--heap=64K", "-o", "a.rec", "sh", "-c", 'echo "$0 $*"', "--heap=x", "--help", "-h")
    assert done.out == "--heap=x --help -h\n", done
    assert (project.root / "a.rec").exists()


def test_record_passes_every_later_word_on(project: Project) -> None:
    done = project.piano("record", "--heap", "echo", "-o", "x", "--", "--cpu", "-h")
    assert done.out == "-o x -- --cpu -h\n" and not (project.root / "x").exists(), done


@tool
@pytest.mark.parametrize("words", [["record", "--help"], ["record", "--heap", "-h"], ["record", "-o", "x", "--help"],
                                   ["record", "--duration", "1", "--help"], ["run", "--duration", "1", "-h"]], ids=" ".join)
def test_help_before_the_program_is_printed_by_piano(project: Project, words: list[str]) -> None:
    done = project.piano(*words)
    assert done.out.startswith(f"Usage: piano {words[0]}") and done.err == ""


@tool
@pytest.mark.parametrize("words,text", [
    (["record", "--heap", "64K", "ls"], "--heap=64K"), (["record", "--cpu", "999", "ls"], "--cpu=999"),
    (["record", "--haep", "ls"], "--heap"), (["record"], "piano record PROGRAM"),
    (["record", "--heap", "--"], "piano record PROGRAM"), (["record", "--pid", "1", "ls"], "--pid"),
    (["build", "update"], "--fn update"), (["profile", "update"], "--fn update"),
], ids=lambda v: " ".join(v) if isinstance(v, list) else "")
def test_contradicting_words_are_usage_errors(project: Project, words: list[str], text: str) -> None:
    done = project.piano(*words, check=False)
    assert done.status == 2 and text in done.err and done.out == "", done


def test_run_takes_words_without_dashes(project: Project) -> None:
    project.write({"a.c": "#include <stdio.h>\n"
                          "int main(int n, char **v) { for (int i = 1; i < n; i++) puts(v[i]); return 0; }\n"})
    project.build("--", "gcc", "a.c", "-o", "game")
    assert project.piano("run", "game", "--duration", "1", "-h").out == "--duration\n1\n-h\n"
    assert project.piano("run", "level3", "--help").out == "level3\n--help\n"


# Places for a recording ------------------------------------------------------------------------------------


@tool
@pytest.mark.parametrize("name", ["-", "/dev/stdout", "/dev/null"])
def test_a_recording_cannot_go_into_a_pipe(project: Project, name: str) -> None:
    done = project.piano("record", "-o", name, "echo", "hi", check=False)
    assert done.status in (1, 2) and done.out == "" and list(project.root.iterdir()) == [], done
    assert "a recording is a file that the program maps" in done.err and "-o FILE" in done.err, done


def test_a_recording_may_still_be_called_dash(project: Project) -> None:
    assert project.piano("record", "--heap=1K", "-o", "./-", "echo", "hi").out == "hi\n"
    assert (project.root / "-").read_bytes().startswith(b"PIANOREC")


# Unreadable files ----------------------------------------------------------------------------------------


@pytest.mark.skipif(os.geteuid() != 0 or not Path("/usr/bin/setpriv").exists(), reason="needs root and setpriv")
@pytest.mark.parametrize("count", [1, 2, 9])
def test_unreadable_files_are_named(tmp_path: Path, count: int) -> None:
    """Root can read everything, so another user builds."""
    root, home = tmp_path / "project", tmp_path / "home"
    root.mkdir()
    home.mkdir()
    project = Project(root, home)
    project.write({"a.c": "int main(void) { return 0; }\n", **{f"secret{i}": "x" for i in range(count)}})
    for folder in (*tmp_path.parents, tmp_path, root, home):
        if str(folder).startswith(str(tmp_path.parents[1])):
            folder.chmod(0o755)
    for path in (root, home, *root.iterdir()):
        os.chown(path, 65534, 65534)
    for i in range(count):
        (root / f"secret{i}").chmod(0)
    done = project.command("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", PIANO, "build", "--", "gcc", "a.c",
                           "-o", "a", check=False)
    if "Permission denied" in done.err and done.status:
        pytest.skip("another user cannot reach the tool or the test's directory here")
    assert done.status == 0, done
    told = next(line for line in done.err.splitlines() if "could not be read" in line)
    assert "secret0" in told and ("secret1" in told or count == 1) and "missing from the build" in told
    assert ("1 file " in told) == (count == 1) and ("and 6 more" in told) == (count == 9), told


# piano view without a display ----------------------------------------------------------------------------


def served(project: Project, env: dict[str, str]) -> tuple[str, str]:
    put_run(project, "1740000000123-77", update_run([16_000_000] * 3))
    around = {k: v for k, v in project.env.items()
              if k not in ("DISPLAY", "WAYLAND_DISPLAY", "SSH_CONNECTION", "SSH_TTY", "SSH_CLIENT")}
    with subprocess.Popen([PIANO, "view", *(["--no-open"] if "DISPLAY" in env else [])], cwd=project.root,
                          env={**around, **env}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        url = process.stdout.readline().strip()
        process.send_signal(signal.SIGTERM)
        return url, process.communicate(timeout=20)[1]


@tool
@pytest.mark.parametrize("connection,target", [
    ("192.0.2.7 51000 198.51.100.4 22", "198.51.100.4"), ("192.0.2.7 51000 198.51.100.4 2222", "-p 2222"),
    ("2001:db8::7 51000 2001:db8::4 22", "2001:db8::4"), ("x\x1b[1m $(reboot) `a` 22", ""), ("x", "")])
def test_view_over_ssh(project: Project, connection: str, target: str) -> None:
    url, err = served(project, {"SSH_CONNECTION": connection})
    port = re.match(r"http://127\.0\.0\.1:(\d+)/", url).group(1)
    assert f"ssh -L {port}:127.0.0.1:{port} " in err and target in err, err
    assert "piano view -o page.html" in err and "\x1b" not in err and "reboot" not in err, err


@tool
def test_view_without_a_display(project: Project) -> None:
    _, err = served(project, {})
    assert "ssh -L" not in err and "no display" in err and "piano view -o page.html" in err, err
    _, err = served(project, {"DISPLAY": ":99"})
    assert "page.html" not in err, err


# Completion of functions ---------------------------------------------------------------------------------

ROOT = Path(__file__).resolve().parents[2]


def with_piano(project: Project) -> dict[str, str]:
    """An environment in which the completions find piano."""
    return {"PATH": f"{LIB.parent}:{project.env['PATH']}"}


def completed(project: Project, *words: str, cwd: Path | None = None) -> list[str]:
    """Bash's completions of the last of WORDS, split as readline splits the line."""
    script = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE=$LINE; COMP_POINT=${#LINE}\n'
              'compopt() { :; }; _piano; printf "%s\\n" "${COMPREPLY[@]}"')
    done = project.command("bash", "--norc", "-c", script, "bash", ROOT / "tools/completion/piano.bash", *words, cwd=cwd,
                           env={"LINE": " ".join(words).replace(" :: ", "::"), **with_piano(project)})
    return sorted(line for line in done.out.splitlines() if line)


def test_functions_of_the_last_build_are_completed(project: Project) -> None:
    project.write({"a.c": "int world_update(int n) { return n; }\nint world_draw(int n) { return n; }\n"
                          "int main(void) { return world_update(0) + world_draw(0); }\n", "sub/x": ""})
    assert completed(project, "piano", "build", "--fn", "wor") == []
    project.build("--fn", "main", "--", "gcc", "a.c", "-o", "a")
    for command, flag in (("build", "--fn"), ("profile", "--fn"), ("build", "--skip"), ("profile", "--frame")):
        assert completed(project, "piano", command, flag, "wor") == ["world_draw", "world_update"], (command, flag)
    assert completed(project, "piano", "build", "--fn", "") == ["main", "world_draw", "world_update"]
    assert completed(project, "piano", "build", "--fn", "x") == []
    assert completed(project, "piano", "build", "--fn", "world_d", cwd=project.root / "sub") == ["world_draw"]
    assert completed(project, "piano", "report", "--skip", "wor") == [], "those are wrappers of malloc"


def test_methods_are_completed(project: Project) -> None:
    """Bash ends a word at a colon and completes the rest."""
    project.write({"a.cc": "namespace game { struct World { int update(int n) { return n; } int draw() { return 0; } }; }\n"
                           "int main() { game::World w; return w.update(0) + w.draw(); }\n"})
    project.build("--", "g++", "a.cc", "-o", "a")
    assert completed(project, "piano", "build", "--fn", "game") == ["game::World::draw", "game::World::update"]
    assert completed(project, "piano", "build", "--fn", "game", "::", "World", "::", "up") == ["update"]
    assert completed(project, "piano", "build", "--fn", "upd") == ["update"], "the bare name is a pattern, too"


def test_completion_after_the_program_is_the_shells(project: Project) -> None:
    assert completed(project, "piano", "record", "ls", "--he") == []
    assert "--heap" in completed(project, "piano", "record", "-o", "x", "--he")
    assert completed(project, "piano", "record", "--heap", "--", "ls", "--he") == []


def test_bash_completes_runs_and_values(project: Project) -> None:
    put_run(project, "1740000000123-77", update_run([16_000_000] * 3))
    assert completed(project, "piano", "report", "17") == ["1740000000123-77"]
    assert completed(project, "piano", "export", "--format", "p") == ["pprof"]
    assert completed(project, "piano", "record", "--duration", "1", "--he") == ["--heap", "--heap=", "--help"]
    assert completed(project, "piano", "help", "re") == ["record", "report"]


def test_zsh_completes_functions(project: Project) -> None:
    need("zsh")
    project.write({"a.c": "int world_update(int n) { return n; }\nint main(void) { return world_update(0); }\n", "sub/x": ""})
    script = ('compadd() { print -l ${(P)2} }; _describe() { : }; CURRENT=2; words=(piano x)\n'
              f"source {ROOT}/tools/completion/_piano; _piano_function")
    assert project.command("zsh", "-f", "-c", script).out.split() == []
    project.build("--", "gcc", "a.c", "-o", "a")
    done = project.command("zsh", "-f", "-c", script, cwd=project.root / "sub")
    assert done.out.split() == ["main", "world_update"] and done.err == "", done


@pytest.mark.parametrize("command", COMMANDS)
def test_every_shell_completes_every_flag(project: Project, command: str) -> None:
    rows = [line.split("\t") for line in project.piano("--complete").out.splitlines()]
    flags = {row[1] for row in rows if row[0] == command} - {"-"}
    assert "--help" in flags and all(len(row) == 6 and "" not in row for row in rows)
    assert {word.rstrip("=") for word in completed(project, "piano", command, "-")} == flags
    if shutil.which("zsh"):
        script = (f"_arguments() {{ print -rl -- $@ }}; CURRENT=3; words=(piano {command} -); "
                  f"source {ROOT}/tools/completion/_piano")
        specs = project.command("zsh", "-f", "-c", script, env=with_piano(project)).out
        assert set(re.findall(r"^(?:\([^)]*\)|\*)?(--?[a-z][a-z-]*[a-z]|-[a-z])", specs, re.M)) == flags, specs
    if shutil.which("fish"):
        words = completed_by_fish(project, f"piano {command} --") + completed_by_fish(project, f"piano {command} -")
        assert {word.rstrip("=") for word in words} == flags


def completed_by_fish(project: Project, line: str, cwd: Path | None = None) -> list[str]:
    """Fish's completions of LINE, without the descriptions."""
    done = project.command(need("fish"), "--no-config", "-c", "source $argv[1]; complete -C $argv[2]",
                           ROOT / "tools/completion/piano.fish", line, cwd=cwd, env=with_piano(project))
    assert done.err == "", done
    return sorted(word.split("\t")[0] for word in done.out.splitlines())


def test_fish_completes_functions(project: Project) -> None:
    project.write({"a.cc": "namespace game { struct World { int update(int n) { return n; } }; }\n"
                           "int world_draw(int n) { return n; }\n"
                           "int main() { game::World w; return w.update(0) + world_draw(0); }\n", "sub/x": ""})
    assert completed_by_fish(project, "piano build --fn wor") == []
    project.build("--", "g++", "a.cc", "-o", "a")
    for line in ("build --fn wor", "profile --fn wor", "build -j 2 --skip wor", "profile --frame wor"):
        assert completed_by_fish(project, "piano " + line) == ["world_draw"], line
    assert completed_by_fish(project, "piano build --fn ", cwd=project.root / "sub") == [
        "game::World::update", "main", "update", "world_draw"]
    assert completed_by_fish(project, "piano build --fn game::World::up") == ["game::World::update"]
    assert completed_by_fish(project, "piano report --skip wor") == [], "those are wrappers of malloc"


def test_fish_completes_options_and_runs(project: Project) -> None:
    put_run(project, "1740000000123-77", update_run([16_000_000] * 3))
    assert {"profile", "build", "help"} <= set(completed_by_fish(project, "piano "))
    assert completed_by_fish(project, "piano record -o x --he") == ["--heap", "--help"]
    assert completed_by_fish(project, "piano record --heap -- nosuch --he") == []
    assert completed_by_fish(project, "piano record nosuch --he") == []
    assert completed_by_fish(project, "piano report 17") == ["1740000000123-77"]
    assert completed_by_fish(project, "piano export --format p") == ["pprof"]
    assert "--list-skipped" not in completed_by_fish(project, "piano profile --")
    assert "snapshot" in completed_by_fish(project, "piano help s")


# Words that are not commands -----------------------------------------------------------------------------


@tool
@pytest.mark.parametrize("words,text", [
    (["--versoin"], "did you mean `--version`?"), (["--hlep"], "did you mean `--help`?"), (["-v"], "`--version`"),
    (["version"], "`--version`"), (["./game", "--level", "3"], "piano record ./game"), (["sleep", "5"], "piano record sleep"),
    (["recrod", "ls"], "did you mean `record`?"), (["nosuchthing"], "try: piano --help")], ids=lambda v: v[0] if v else "")
def test_wrong_command_gets_a_suggestion(project: Project, words: list[str], text: str) -> None:
    (project.root / "game").write_text("#!/bin/sh\n")
    (project.root / "game").chmod(0o755)
    done = project.piano(*words, check=False)
    assert done.status == 2 and text in done.err and done.out == "", done


# A program that ends too early -----------------------------------------------------------------------------


@pytest.mark.parametrize("flags,text,never", [
    (["--heap"], "try --heap=1K", "--cpu"), (["--heap=1K"], "try --heap=1 ", "--heap=1K"),
    (["--heap=1"], "allocated nothing", "try --heap"), ([], "try --heap=1K --cpu=999", "xx")], ids=str)
def test_record_says_when_nothing_was_sampled(project: Project, flags: list[str], text: str, never: str) -> None:
    project.write({"a.c": "int main(void) { return 0; }\n"})
    project.command("gcc", "a.c", "-o", "a")
    done = project.piano("record", *flags, "./a")
    told = next((line for line in done.err.splitlines() if "nothing was sampled" in line), "")
    if not told:
        pytest.skip("something was sampled in an empty program: " + done.err)
    assert text in told + " " and never not in told, done


# Pipes and terminals ------------------------------------------------------------------------------------


@tool
@pytest.mark.parametrize("words", [["report"], ["report", "--json"], ["list"], ["--help"], ["report", "--frames"]], ids=" ".join)
def test_pipe_that_is_closed_early_is_no_error(project: Project, words: list[str]) -> None:
    put_run(project, "1740000000123-77", update_run([16_000_000] * 500))
    done = project.command("bash", "-c", f'"$0" "$@" | head -c 1 >/dev/null; echo "${{PIPESTATUS[0]}}"', PIANO, *words)
    assert done.out.strip() in ("0", "141") and done.err == "", done


@tool
@pytest.mark.parametrize("words", [["report"], ["report", "--frames"], ["list"], ["diff", "a.ndjson", "b.ndjson"]], ids=" ".join)
def test_no_colour_and_no_progress_in_a_pipe(project: Project, words: list[str]) -> None:
    put_run(project, "1740000000123-77", update_run([16_000_000] * 50))
    for name in ("a", "b"):
        (project.root / f"{name}.ndjson").write_text(update_run([16_000_000] * 50))
    done = project.piano(*words)
    assert "\x1b" not in done.out + done.err and "\r" not in done.out + done.err, done


@tool
@pytest.mark.parametrize("columns", [1, 5, 20, 40])
@pytest.mark.parametrize("words", [["report"], ["report", "--frames"], ["list"], ["--help"]], ids=" ".join)
def test_tables_fit_tiny_terminals(project: Project, words: list[str], columns: int) -> None:
    put_run(project, "1740000000123-77", update_run([16_000_000] * 50))
    status, seen = project.run_in_pty(PIANO, *words, columns=columns)
    assert status == 0 and seen.strip(), seen
