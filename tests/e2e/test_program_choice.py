"""Builds with several programs: which one `piano run` starts, its messages, and when it asks."""
from __future__ import annotations

import os
import pty
import re
import shutil
import stat
from pathlib import Path

import pytest

from conftest import PIANO, Project, need

# Each prints its name; `common` is in all of them, `serve` and `ask` in one each.
PROGRAM = '#include <stdio.h>\nvoid common(void);\nint %s(int n) { return n; }\n' \
          'int main(int c, char **v) { common(); %s(c); puts("%s"); for (int i = 1; i < c; i++) puts(v[i]); return 0; }\n'
MAKEFILE = """
all: %(all)s
%%.o: %%.c
\tcc -O1 -c $< -o $@
%(rules)s
"""


def several(project: Project, programs: dict[str, str], link_order: list[str] | None = None) -> Project:
    """PROGRAMS maps each path to the function that only this program has. Linked in order; the last one is the newest."""
    project.write({"common.c": "void common(void) { }\n"})
    order, rules, before = link_order or list(programs), "", ""
    for path in order:
        name = Path(path).name
        project.write({f"{name}.c": PROGRAM % (programs[path], programs[path], name)})
        # sequential, also with -j
        rules += f"{path}: {name}.o common.o {before}\n\tmkdir -p $(dir $@)\n\tcc -o $@ {name}.o common.o\n"
        before = path
    project.write({"Makefile": MAKEFILE % {"all": " ".join(order), "rules": rules}})
    return project


def at(tmp_path: Path, name: str) -> Project:
    (tmp_path / name).mkdir()
    (tmp_path / "home").mkdir(exist_ok=True)
    return Project(tmp_path / name, tmp_path / "home")


SERVER = {"redis-server": "serve", "redis-cli": "ask"}


@pytest.mark.parametrize("order", [["redis-server", "redis-cli"], ["redis-cli", "redis-server"]], ids=" ".join)
def test_the_one_with_the_functions_that_were_asked_for(project: Project, order: list[str]) -> None:
    several(project, SERVER, order)
    project.build("--fn", "serve")
    assert project.piano("run").out == "redis-server\n"
    project.build("--fn", "ask", "--fn", "common")
    done = project.piano("run", "--", "x")
    assert done.out == "redis-cli\nx\n", "both have `common`, this one has `ask` too"
    assert "running redis-cli" in done.err and "redis-server" in done.err, done
    project.build("--file", "redis-server.c")
    assert project.piano("run").out == "redis-server\n"


def test_profile_takes_the_same_one(project: Project) -> None:
    several(project, SERVER)
    done = project.piano("profile", "--fn", "serve")
    assert done.out.startswith("redis-server\n") and re.search(r"^serve\s", done.out, re.M), done


def test_asked_for_in_a_shared_library(project: Project) -> None:
    project.write({"lib.c": "int serve(int n) { return n; }\n",
                   "a.c": '#include <stdio.h>\nint serve(int);\nint main(void) { puts("a"); return serve(0); }\n',
                   "b.c": '#include <stdio.h>\nint ask(void) { return 0; }\nint main(void) { puts("b"); return ask(); }\n'})
    project.build("--fn", "serve", "--fn", "main", "--", "sh", "-c", "gcc -shared -fPIC lib.c -o libserve.so && "
                  "gcc a.c -L. -lserve -o a && gcc b.c -o b")
    assert project.piano("run").out == "a\n"


@pytest.mark.parametrize("folder", ["game", "Game", "game-1.2.3", "game_v2", "game-main", "game/src"])
def test_the_one_named_like_the_project(tmp_path: Path, folder: str) -> None:
    if "/" in folder:
        (tmp_path / "game").mkdir()
    project = several(at(tmp_path, folder), {"game": "update", "mkassets": "pack"})
    project.build()
    done = project.piano("run")
    assert done.out == "game\n" and "also built: mkassets" in done.err, done


def test_the_target_of_the_build_command(project: Project) -> None:
    several(project, SERVER)
    project.build("--", "make", "all")
    project.build("--", "make", "redis-server")
    assert project.piano("run").out == "redis-server\n"
    project.build("--", "make", "redis-cli")
    assert project.piano("run").out == "redis-cli\n"


@pytest.mark.parametrize("other", ["server_test", "test-server", "tests/check", "bench/load", "server-benchmark",
                                   "examples/small", "fuzz/target"])
def test_not_a_test_or_a_benchmark(project: Project, other: str) -> None:
    several(project, {"server": "serve", other: "probe"})
    project.build()
    done = project.piano("run")
    assert done.out == "server\n" and Path(other).name in done.err, done
    assert project.piano("run", other).out == Path(other).name + "\n"


def test_a_program_called_contest_is_no_test(project: Project) -> None:
    several(project, {"server": "serve", "contest": "compete"})
    project.build()
    assert project.piano("run", check=False).status == 1


def test_in_a_pipe_it_fails_with_the_list(project: Project) -> None:
    several(project, {**SERVER, "bin/proxy": "pass"})
    built = project.piano("build")
    assert "what `piano run` starts" not in built.err, built
    for words in (["run"], ["run", "--", "--port", "1"], ["profile"]):
        done = project.piano(*words, check=False)
        assert done.status == 1 and done.out == "", done
        for name in ("redis-server", "redis-cli", "bin/proxy"):
            assert re.search(rf"^  {name}$", done.err, re.M), done
        assert f"try: piano {words[0]} " in done.err, done
    assert not project.run_files()
    assert project.piano("run", "redis-cli", "x").out == "redis-cli\nx\n"
    assert project.piano("run", "bin/proxy").out == "proxy\n"
    assert project.piano("profile", "--", "redis-server").out.startswith("redis-server\n")


def test_the_build_names_what_will_run(project: Project) -> None:
    several(project, {"server": "serve", "server_test": "probe"})
    done = project.piano("build")
    assert re.search(r"built: \S*/server   \(what `piano run` starts\)", done.err), done
    assert done.out.endswith("/server\n"), "what a script takes from stdout is the same one"
    assert "program that `piano run`\nwould start" in project.piano("help", "build").out


class Terminal:
    """Runs `piano run` with a terminal for its messages and the answers."""

    def __init__(self, project: Project, *words: str):
        try:
            self.pid, self.master = pty.fork()
        except OSError as error:
            pytest.skip(f"no terminal can be had here: {error}")
        if self.pid == 0:
            os.chdir(project.root)
            os.execve(PIANO, [PIANO, *words], project.env)
        self.seen = ""

    def until(self, text: str) -> "Terminal":
        while text not in self.seen:
            try:
                chunk = os.read(self.master, 4096)
            except OSError:
                break
            if not chunk:
                break
            self.seen += chunk.decode("utf-8", "replace")
        return self

    def type(self, text: bytes) -> "Terminal":
        os.write(self.master, text)
        return self

    def end(self) -> tuple[int, str]:
        self.until("\0")
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self.master)
        return status, self.seen


@pytest.mark.parametrize("answer,status,out", [
    (b"2\n", 0, "redis-server\r\n"), (b"redis-cli\n", 0, "redis-cli\r\n"), (b"7\nx\n1\n", 0, "redis-cli\r\n"),
    (b"\x04", 1, "try: piano run "), (b"q\n", 1, "try: piano run "), (b"\x03", -2, "")],
    ids=["number", "name", "thrice", "end", "q", "ctrl-c"])
def test_on_a_terminal_it_asks(project: Project, answer: bytes, status: int, out: str) -> None:
    several(project, SERVER)
    project.piano("build")
    ended, seen = Terminal(project, "run").until("which one? ").type(answer).end()
    assert ended == status and out in seen, seen
    assert re.search(r"1  redis-cli\s+2  redis-server", seen), seen


def chosen(project: Project) -> Path:
    """The file that keeps the answer."""
    return project.root / ".piano/build/chosen"


def answer(project: Project, text: bytes) -> str:
    status, seen = Terminal(project, "run").until("which one? ").type(text + b"\n").end()
    assert status == 0 and "which one? " in seen, seen
    return seen


def test_the_answer_is_remembered(project: Project) -> None:
    several(project, SERVER)
    project.piano("build")
    answer(project, b"redis-server")
    assert stat.S_IMODE(chosen(project).stat().st_mode) == 0o600
    for words in (["run"], ["run", "--", "x"]):
        done = project.piano(*words)
        assert done.out.startswith("redis-server\n"), done
        assert "running redis-server, which you chose before (to choose again: piano run -- redis-cli)" in done.err, done
    done = project.piano("profile")
    assert done.out.startswith("redis-server\n") and "piano profile ... -- redis-cli" in done.err, done
    done = project.piano("build")
    assert re.search(r"built: \S*/redis-server   \(what `piano run` starts\)", done.err), done
    assert done.out.endswith("/redis-server\n"), done


def test_naming_a_program_chooses_again(project: Project) -> None:
    several(project, SERVER)
    project.piano("build")
    answer(project, b"redis-server")
    assert project.piano("run", "--", "redis-cli").out == "redis-cli\n"
    done = project.piano("run")
    assert done.out == "redis-cli\n" and "to choose again: piano run -- redis-server" in done.err, done


def test_the_rules_come_before_the_answer(project: Project) -> None:
    several(project, SERVER)
    project.piano("build")
    answer(project, b"redis-server")
    project.build("--fn", "ask", "--fn", "common")
    done = project.piano("run")
    assert done.out == "redis-cli\n" and "chose before" not in done.err, done
    assert project.piano("run", "redis-server").out == "redis-server\n"
    assert project.piano("run").out == "redis-cli\n", "a name is remembered only if the rules do not decide"


@pytest.mark.parametrize("after", [["redis-cli", "redis-server", "proxy"], ["redis-cli", "proxy"]], ids=" ".join)
def test_a_program_that_is_new_or_gone_makes_it_ask_again(project: Project, after: list[str]) -> None:
    several(project, SERVER)
    project.piano("build")
    answer(project, b"redis-server")
    if "redis-server" not in after:
        (project.root / "redis-server.c").unlink()
        shutil.rmtree(project.root / ".piano/build/tree")
    several(project, {**SERVER, "proxy": "pass"}, after)
    project.piano("build")
    done = project.piano("run", check=False)
    assert done.status == 1 and "it is not clear which one you mean" in done.err and done.out == "", done
    answer(project, b"redis-cli")
    assert project.piano("run").out == "redis-cli\n"


def test_a_link_in_place_of_the_answer_is_not_followed(project: Project) -> None:
    several(project, SERVER)
    project.piano("build")
    answer(project, b"redis-server")
    elsewhere = chosen(project).rename(project.home / "elsewhere")
    kept = elsewhere.read_bytes()
    chosen(project).symlink_to(elsewhere)
    assert project.piano("run", check=False).status == 1
    answer(project, b"redis-cli")
    assert not chosen(project).is_symlink() and elsewhere.read_bytes() == kept
    assert project.piano("run").out == "redis-cli\n"


@pytest.mark.parametrize("content", [b"", b"\0", b"\0\0\0", b"/bin/ls\0redis-cli\0redis-server\0", b"\xff" * 100_000,
                                     b"redis-cli", b"redis-cli\0redis-ser", None], ids=lambda content: repr(content)[:20])
def test_a_damaged_answer_makes_it_ask_again(project: Project, content: bytes | None) -> None:
    several(project, SERVER)
    project.piano("build")
    if content is None:
        os.mkfifo(chosen(project))
    else:
        chosen(project).write_bytes(content)
    done = project.piano("run", check=False)
    assert done.status == 1 and done.out == "" and "try: piano run" in done.err, done


def test_the_answer_takes_nothing_from_the_program(project: Project) -> None:
    """Text typed after the answer is the program's input."""
    for name in ("one", "two"):
        project.write({name + ".c": '#include <stdio.h>\nint main(void) { char b[99] = "";\n'
                                    '(void)!fgets(b, 99, stdin); printf("%s got %%s", b); return 0; }\n' % name})
    project.piano("build", "--", "sh", "-c", "gcc one.c -o one && gcc two.c -o two")
    status, seen = Terminal(project, "run").until("which one? ").type(b"1\nhello\n").end()
    assert status == 0 and "one got hello" in seen, seen


def test_redis_like_tree_with_subdirectories(tmp_path: Path) -> None:
    """CMake puts programs and tests side by side below build directories."""
    need("cmake")
    project = at(tmp_path, "mix-2.0")
    project.write({"CMakeLists.txt": "cmake_minimum_required(VERSION 3.5)\nproject(mix C)\nadd_executable(mix mix.c)\n"
                                     "add_executable(mix_cli cli.c)\nadd_executable(mix_tests t.c)\n",
                   **{n + ".c": f'#include <stdio.h>\nint main(void) {{ puts("{n}"); return 0; }}\n'
                      for n in ("mix", "cli", "t")}})
    project.build(limit=120)
    assert project.piano("run").out == "mix\n"
    assert project.piano("run", "mix_tests").out == "t\n"
