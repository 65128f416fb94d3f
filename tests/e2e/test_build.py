"""`piano build` finds the build, instruments the chosen functions, and does not change the user's tree."""
from __future__ import annotations

import os
import platform
import re
from pathlib import Path

import pytest

from conftest import LIB, Project, fingerprint, need

GAME = {
    "src/game.h": """
        #ifndef GAME_H
        #define GAME_H
        int update(int frame);
        int physics(int n);
        #endif
    """,
    "src/main.c": """
        #include <stdio.h>
        #include "game.h"
        int main(void)
        {
            int total = 0;
            for (int i = 0; i < 12; i++)
                total += update(i);
            printf("total %d\\n", total);
            return 0;
        }
    """,
    "src/update.c": """
        #include "game.h"
        int update(int frame) { return physics(frame) + physics(1); }
    """,
    "src/physics.c": """
        #include "game.h"
        int physics(int n) { return n * 2; }
    """,
}
MAKEFILE = """
CC ?= cc
CFLAGS = -O2 -Wall
OBJ = src/main.o src/update.o src/physics.o
game: $(OBJ)
\t$(CC) -o $@ $(OBJ)
src/%.o: src/%.c src/game.h
\t$(CC) $(CFLAGS) -c -o $@ $<
clean:
\trm -f game $(OBJ)
.PHONY: clean
"""
CMAKE = """
cmake_minimum_required(VERSION 3.10)
project(game C)
add_executable(game src/main.c src/update.c src/physics.c)
"""
MESON = """
project('game', 'c', default_options: ['c_std=c99'])
executable('game', 'src/main.c', 'src/update.c', 'src/physics.c')
"""
CONFIGURE = """#!/bin/sh
# A configure as autoconf would make it, in small: it tries the compiler, then writes the Makefile.
here=$(dirname "$0")
echo 'int main(void) { return 0; }' > conftest.c
${CC-cc} -o conftest conftest.c && ./conftest || { echo "no working compiler" >&2; exit 1; }
rm -f conftest conftest.c
sed "s|@here@|$here|g" "$here/Makefile.in" > Makefile
"""
MAKEFILE_IN = MAKEFILE.replace("src/", "@here@/src/").replace("@here@/src/%.o", "@here@/src/%.o")
SYSTEMS = ["make", "cmake", "meson", "configure"]


def write_game(project: Project, system: str) -> None:
    project.write(GAME)
    if system == "make":
        (project.root / "Makefile").write_text(MAKEFILE.lstrip())
    elif system == "cmake":
        need("cmake")
        project.write({"CMakeLists.txt": CMAKE})
    elif system == "meson":
        need("meson")
        need("ninja")
        project.write({"meson.build": MESON})
    else:
        (project.root / "Makefile.in").write_text(MAKEFILE_IN.lstrip())
        (project.root / "configure").write_text(CONFIGURE)
        (project.root / "configure").chmod(0o755)


@pytest.mark.parametrize("system", SYSTEMS)
def test_finds_the_build_and_leaves_the_tree_alone(project: Project, system: str) -> None:
    write_game(project, system)
    before = fingerprint(project.root)
    program = project.build("--fn", "update")
    assert ".piano" in program.parts
    assert project.command(program).out == "total 156\n"
    assert project.report().called() == {"update": 12}
    assert fingerprint(project.root) == before


@pytest.mark.parametrize("system", SYSTEMS)
def test_no_selector_takes_all_functions_of_the_project(project: Project, system: str) -> None:
    write_game(project, system)
    project.command(project.build())
    assert project.report().called() == {"main": 1, "update": 12, "physics": 24}


@pytest.mark.parametrize("name", ["GNUmakefile", "makefile"])
def test_other_names_of_a_makefile(project: Project, name: str) -> None:
    project.write(GAME)
    (project.root / name).write_text(MAKEFILE.lstrip())
    project.command(project.build("--fn", "update"))
    assert project.report().called() == {"update": 12}


def test_users_own_objects_are_neither_used_nor_changed(project: Project) -> None:
    write_game(project, "make")
    project.command("make")
    assert (project.root / "game").exists()
    before = fingerprint(project.root)
    program = project.build("--fn", "update")
    assert program != project.root / "game"
    project.command(program)
    assert project.report().called() == {"update": 12}
    assert fingerprint(project.root) == before
    project.command(project.root / "game")
    assert len(project.run_files()) == 1, "the user's own program must not record"


def test_users_own_cmake_tree_is_not_used(project: Project) -> None:
    write_game(project, "cmake")
    project.command("cmake", "-S", ".", "-B", "build")
    project.command("cmake", "--build", "build")
    before = fingerprint(project.root)
    project.command(project.build("--fn", "update"))
    assert project.report().called() == {"update": 12}
    assert fingerprint(project.root) == before


@pytest.mark.parametrize("command", [
    ["make"], ["make", "game"], ["make", "CC=clang"], ["make", "CC=/usr/bin/gcc"],
    ["make", "-j2", "CFLAGS=-O3 -g"], ["sh", "-c", "make clean && make"], ["env", "make"],
])
def test_build_command_after_dashes(project: Project, command: list[str]) -> None:
    if "CC=clang" in command:
        need("clang")
    write_game(project, "make")
    before = fingerprint(project.root)
    project.command(project.build("--fn", "physics", "--", *command))
    assert project.report().called() == {"physics": 24}
    assert fingerprint(project.root) == before


@pytest.mark.parametrize("compiler", ["gcc", "cc", "clang", "/usr/bin/gcc", "/usr/bin/clang",
                                      "gcc-12", "clang-14", "x86_64-linux-gnu-gcc", "c99"])
def test_compilers_by_any_name(project: Project, compiler: str) -> None:
    need(compiler)
    project.write(GAME)
    before = fingerprint(project.root)
    program = project.build("--fn", "update", "--", compiler, "-O2", "src/main.c", "src/update.c",
                            "src/physics.c", "-o", "game")
    project.command(program)
    assert project.report().called() == {"update": 12}
    assert fingerprint(project.root) == before


@pytest.mark.parametrize("compiler", ["g++", "c++", "clang++", "/usr/bin/g++"])
def test_cxx_compilers(project: Project, compiler: str) -> None:
    need(compiler)
    project.write({"game.cc": """
        #include <iostream>
        struct World { int t = 0; int update(int n); };
        int World::update(int n) { t += n; return t; }
        int main() { World w; for (int i = 0; i < 9; i++) w.update(i); std::cout << w.t << "\\n"; }
    """})
    program = project.build("--fn", "World::update", "--", compiler, "-O2", "game.cc", "-o", "game")
    assert project.command(program).out == "36\n"
    assert project.report().called() == {"World::update": 9}


def test_one_step_in_the_manual(project: Project) -> None:
    """The command from the manual page: one file, no project directory, default output name."""
    project.write({"game.c": GAME["src/main.c"].replace('#include "game.h"', "int update(int);")
                   + "int update(int n) { return n; }\n"})
    program = project.build("--fn", "update", "--", "cc", "-O2", "game.c")
    assert program.name == "a.out"
    project.command(program)
    assert project.report().called() == {"update": 12}
    assert not (project.root / "a.out").exists()


SHARED = {
    "shape.h": "int area(int w, int h);\nint edge(int w);\n",
    "shape.c": '#include "shape.h"\nint edge(int w) { return w; }\n'
               "int area(int w, int h) { return edge(w) * edge(h); }\n",
    "one.c": '#include <stdio.h>\n#include "shape.h"\nint one(int n) { return area(n, n); }\n'
             'int main(void) { int t = 0; for (int i = 0; i < 5; i++) t += one(i);'
             ' printf("%d\\n", t); return 0; }\n',
    "two.c": '#include "shape.h"\nint two(int n) { return area(n, 2); }\n'
             "int main(void) { for (int i = 0; i < 7; i++) two(i); return 0; }\n",
}


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_executables_and_a_shared_library_share_one_runtime(project: Project,
                                                            compiler: str) -> None:
    need(compiler)
    project.write({"Makefile": f"""
        CC = {compiler}
        all: one two
        libshape.so: shape.c shape.h
        \t$(CC) -O2 -fPIC -shared -o $@ shape.c
        one: one.c libshape.so
        \t$(CC) -O2 -o $@ one.c -L. -lshape -Wl,-rpath,'$$ORIGIN'
        two: two.c libshape.so
        \t$(CC) -O2 -o $@ two.c -L. -lshape -Wl,-rpath,'$$ORIGIN'
    """.replace("        ", ""), **SHARED})
    folder = project.build().parent
    assert project.command(folder / "one").out == "30\n"
    assert project.report().called() == {"main": 1, "one": 5, "area": 5, "edge": 10}
    assert len(project.run_files()) == 1, "one process, one run"
    project.piano("run", "--", "two")
    assert project.report().called() == {"main": 1, "two": 7, "area": 7, "edge": 14}
    assert len(project.run_files()) == 2
    loaded = project.command("ldd", folder / "one").out
    assert loaded.count("libpiano.so =>") == 1 and str(LIB) in loaded


def test_only_the_library_is_instrumented(project: Project) -> None:
    """The program has none of the chosen functions; it is still the program to run."""
    project.write(SHARED)
    (project.root / "Makefile").write_text(
        "one: one.c libshape.so\n\tgcc -O2 -o $@ one.c -L. -lshape -Wl,-rpath,'$$ORIGIN'\n"
        "libshape.so: shape.c\n\tgcc -O2 -fPIC -shared -o $@ shape.c\n")
    program = project.build("--fn", "area")
    assert program.name == "one"
    assert project.piano("run").out == "30\n"
    assert project.report().called() == {"area": 5}


def test_cmake_with_static_and_shared_libraries(project: Project) -> None:
    need("cmake")
    project.write({"CMakeLists.txt": """
        cmake_minimum_required(VERSION 3.10)
        project(shapes C CXX)
        add_library(shape SHARED shape.c)
        add_library(extra STATIC extra.cc)
        add_executable(one one.c)
        target_link_libraries(one shape extra stdc++)
    """, **SHARED, "extra.cc": 'extern "C" int extra(int n) { return n + 1; }\n'})
    text = SHARED["one.c"].replace("int one(", "int extra(int);\nint one(")
    project.write({"one.c": text.replace("area(n, n)", "area(n, extra(n) - 1)")})
    assert project.command(project.build()).out == "30\n"
    assert project.report().called() == {"main": 1, "one": 5, "area": 5, "edge": 10, "extra": 5}


def test_archives_and_separate_link(project: Project) -> None:
    project.write({**SHARED, "build.sh": """
        set -e
        mkdir -p out
        gcc -O2 -c shape.c -o out/shape.o
        ar rcs out/libshape.a out/shape.o
        gcc -O2 -c one.c -o out/one.o
        gcc -o out/one out/one.o out/libshape.a
    """})
    before = fingerprint(project.root)
    project.command(project.build("--fn", "e", "--", "sh", "build.sh"))
    assert project.report().called() == {"one": 5, "area": 5, "edge": 10}
    assert fingerprint(project.root) == before


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_static_program(project: Project, compiler: str) -> None:
    report = project.profile_c("""
        #include <stdlib.h>
        #include <stdio.h>
        #include <pthread.h>
        static void *work(void *p) { free(malloc(100)); return p; }
        int update(int n) { char *p = malloc(n); p[0] = 1; free(p); return n; }
        int main(void)
        {
            pthread_t t;
            for (int i = 1; i <= 6; i++) update(i);
            pthread_create(&t, 0, work, 0);
            pthread_join(t, 0);
            puts("done");
            return 0;
        }
    """, "-static", "-pthread", compiler=compiler)
    assert project.out == "done\n"
    assert report.called() == {"main": 1, "update": 6, "work": 1}
    assert report.row("update")["alloc_count"] == 6
    assert report.row("update")["alloc_bytes"] == 21
    assert report.row("work")["alloc_bytes"] == 100


@pytest.mark.parametrize("name", ["with space", "ünï-çödé", "quo'te", "dol$lar", "par(en)", "a&b",
                                  "hash#tag", "per%cent", "back`tick", "-dash"])
def test_odd_project_names(project: Project, name: str) -> None:
    """cc by hand. Paths that make itself does not support are not piano's fault."""
    root = project.root / name
    root.mkdir()
    project.root = root
    assert project.profile_c("int update(void) { return 1; }\n"
                             "int main(void) { update(); return update() - 1; }\n"
                             ).called() == {"update": 2, "main": 1}


def test_make_in_a_directory_with_a_space(project: Project) -> None:
    project.root = project.root / "a b"
    project.root.mkdir()
    write_game(project, "make")
    project.command(project.build("--fn", "update"))
    assert project.report().called() == {"update": 12}


def test_symlinked_sources(project: Project) -> None:
    write_game(project, "make")
    real = project.home / "elsewhere.c"
    source = project.root / "src/update.c"
    real.write_text(source.read_text().replace('"game.h"', f'"{project.root}/src/game.h"'))
    source.unlink()
    source.symlink_to(real)
    before = fingerprint(project.root)
    project.command(project.build("--fn", "update"))
    assert project.report().called() == {"update": 12}
    assert fingerprint(project.root) == before


def test_sources_beside_the_project(project: Project) -> None:
    """A Makefile that refers to ../shared builds under piano too."""
    project.write({"shared/lib.c": "int shared_part(int n) { return n; }\n",
                   "app/Makefile": "app: main.c ../shared/lib.c\n\t$(CC) -o $@ $^\n",
                   "app/main.c": "int shared_part(int);\n"
                                 "int main(void) { return shared_part(1) - 1; }\n"})
    outer, project.root = project.root, project.root / "app"
    before = fingerprint(outer)
    program = project.build("--fn", "main")
    project.command(program)
    assert project.report().called() == {"main": 1}
    assert fingerprint(outer) == before


def test_generated_sources(project: Project) -> None:
    """The build makes a program, runs it, and compiles its output."""
    project.write({"gen.c": """
        #include <stdio.h>
        int emit(int n) { return printf("int table_%d(void) { return %d; }\\n", n, n); }
        int main(void) { emit(1); emit(2); return 0; }
    """, "main.c": """
        int table_1(void);
        int table_2(void);
        int main(void) { table_1(); table_1(); return table_2() - 2; }
    """})
    (project.root / "Makefile").write_text(
        "app: main.c table.c\n\tcc -o app main.c table.c\n"
        "table.c: gen\n\t./gen > table.c\ngen: gen.c\n\tcc -o gen gen.c\n")
    before = fingerprint(project.root)
    program = project.build("-j", "1")
    assert program.name == "app"
    project.command(program)
    assert project.report().called() == {"main": 1, "table_1": 2, "table_2": 1}
    assert fingerprint(project.root) == before


def test_makefile_that_recurses(project: Project) -> None:
    write_game(project, "make")
    (project.root / "src" / "Makefile").write_text((project.root / "Makefile").read_text()
                                                   .replace("src/", ""))
    (project.root / "Makefile").write_text("all:\n\t$(MAKE) -C src\n")
    project.command(project.build("--fn", "update"))
    assert project.report().called() == {"update": 12}


def test_build_that_writes_into_its_tree_by_absolute_name(project: Project) -> None:
    """$(CURDIR) in a Makefile must mean piano's copy, not the user's tree."""
    write_game(project, "make")
    (project.root / "Makefile").write_text(
        "game:\n\tmkdir -p $(CURDIR)/out\n"
        "\tcc -O2 -o $(CURDIR)/out/game $(CURDIR)/src/main.c src/update.c src/physics.c\n")
    before = fingerprint(project.root)
    project.command(project.build("--fn", "update"))
    assert project.report().called() == {"update": 12}
    assert fingerprint(project.root) == before


def test_library_only_project_builds(project: Project) -> None:
    project.write(SHARED)
    (project.root / "Makefile").write_text("libshape.so: shape.c\n\tcc -shared -fPIC -o $@ $^\n")
    assert project.piano("build", "--fn", "area").status == 0
    assert list((project.root / ".piano").rglob("libshape.so"))


def test_compiler_error_keeps_file_and_line(project: Project) -> None:
    write_game(project, "make")
    project.write({"src/update.c": '#include "game.h"\n\nint update(int n)\n{\n    int a = 1;\n'
                                   "    return undeclared_thing + a + n;\n}\n"})
    done = project.piano("build", "--fn", "update", check=False)
    assert done.status == 1
    assert re.search(r"src/update\.c:6:12: error: .*undeclared_thing", done.err), done
    assert "__piano" not in done.err and "/.piano/" not in done.err.replace(
        str(project.root / ".piano/build/log"), ""), done


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_compiler_error_columns(project: Project, compiler: str) -> None:
    """The guard is inserted after the brace; the rest of the line keeps its column."""
    need(compiler)
    source = "int one(int n) { return n; }\nint two(int n) { return n + missing; }\n"
    project.write({"a.c": source})
    plain = project.command(compiler, "-c", "a.c", "-o", "/dev/null", check=False)
    under = project.piano("build", "--", compiler, "-c", "a.c", check=False)
    assert under.status == 1
    first = next(line for line in plain.err.splitlines() if "error:" in line)
    assert "a.c:2:29" in first
    assert first in under.err, under


def test_failed_link_is_reported(project: Project) -> None:
    project.write({"a.c": "int nowhere(void);\nint main(void) { return nowhere(); }\n"})
    done = project.piano("build", "--", "cc", "a.c", "-o", "a", check=False)
    assert done.status == 1
    assert "undefined reference to `nowhere'" in done.err


def test_failing_build_command_passes_its_words(project: Project) -> None:
    project.write({"a.c": "int main(void) { return 0; }\n"})
    done = project.piano("build", "--", "sh", "-c", "echo the reason >&2; exit 7", check=False)
    assert done.status == 1
    assert "the reason" in done.err


def test_build_that_compiles_nothing_shows_its_end(project: Project) -> None:
    done = project.piano("build", "--", "sh", "-c", "echo first; seq 30; echo up to date",
                         check=False)
    assert done.status == 1 and "up to date" in done.err and "first" not in done.err


def test_project_inside_another(project: Project) -> None:
    write_game(project, "make")
    (project.root / "empty").mkdir()
    project.write({"inner/part/i.c": "int main(void) { return 0; }\n"})
    (project.root / "inner/Makefile").write_text("i: part/i.c\n\tcc part/i.c -o i\n")
    project.build("--fn", "update")
    outer = f"project: {project.root}\n"
    done = project.piano("run", cwd=project.root / "inner")
    assert done.out.startswith("total") and outer in done.err
    assert outer in project.piano("build", cwd=project.root / "empty").err
    built = project.piano("build", cwd=project.root / "inner")
    assert "project:" not in built.err
    assert built.out.strip().startswith(str(project.root / "inner/.piano"))
    done = project.piano("run", cwd=project.root / "inner/part")
    assert done.out == "" and f"project: {project.root}/inner\n" in done.err


def test_part_of_a_cmake_project_is_not_built_alone(project: Project) -> None:
    need("cmake")
    project.write({"CMakeLists.txt": "cmake_minimum_required(VERSION 3.10)\nproject(p C)\n"
                                     "add_subdirectory(src)\n",
                   "src/CMakeLists.txt": "add_executable(p a.c)\n",
                   "src/a.c": "int main(void) { return 0; }\n"})
    done = project.piano("build", cwd=project.root / "src")
    assert f"project: {project.root}\n" in done.err
    assert (project.root / ".piano").is_dir() and not (project.root / "src/.piano").exists()


def test_no_build_found_says_what_is_looked_for(project: Project) -> None:
    project.write({"notes.txt": "nothing to build here\n"})
    done = project.piano("build", "--fn", "update", check=False)
    assert done.status == 1 and done.out == ""
    for word in ("Makefile", "CMakeLists.txt", "meson.build", "configure", "--"):
        assert word in done.err, done


def test_build_command_that_does_not_exist(project: Project) -> None:
    project.write({"a.c": "int main(void) { return 0; }\n"})
    done = project.piano("build", "--", "no-such-compiler-here", "a.c", check=False)
    assert done.status == 1
    assert "no-such-compiler-here" in done.err


def test_program_keeps_its_rpath_arguments_and_status(project: Project) -> None:
    program = project.cc("""
        #include <stdio.h>
        int main(int argc, char **argv)
        {
            for (int i = 1; i < argc; i++) printf("[%s]", argv[i]);
            return argc;
        }
    """)
    done = project.command(program, "a b", "", "*", check=False)
    assert (done.out, done.status) == ("[a b][][*]", 4)
    done = project.piano("run", "--", "a b", "", "*", check=False)
    assert (done.out, done.status) == ("[a b][][*]", 4)


def test_ccache_in_front(project: Project) -> None:
    need("ccache")
    write_game(project, "make")
    for _ in range(2):
        project.command(project.build("--fn", "update", "--", "make", "CC=ccache gcc"))
        assert project.report().called() == {"update": 12}


def test_users_ccache_is_not_poisoned(project: Project) -> None:
    """After an instrumented build, a plain one through the same cache is plain; and the reverse."""
    need("ccache")
    write_game(project, "make")
    command = ["ccache", "gcc", "-O2", "-c", "src/update.c", "-o", "update.o"]
    project.command(*command)
    plain = (project.root / "update.o").read_bytes()
    (project.root / "update.o").unlink()
    project.command(project.build("--fn", "update", "--", "make", "CC=ccache gcc"))
    assert project.report().called() == {"update": 12}, "an uninstrumented object came from ccache"
    project.command(*command)
    assert (project.root / "update.o").read_bytes() == plain
    project.command("sh", "-c", "ccache gcc -O2 -Wall -c -o src/update.o src/update.c")
    symbols = project.command("nm", project.root / "src/update.o").out
    assert "__piano" not in symbols


def test_ccache_masquerading_as_the_compiler(project: Project) -> None:
    ccache = need("ccache")
    write_game(project, "make")
    bin_dir = project.home / "bin"
    bin_dir.mkdir()
    (bin_dir / "gcc").symlink_to(ccache)
    path = {"PATH": f"{bin_dir}:{os.environ['PATH']}"}
    project.command("make", "CC=gcc", env=path)
    project.command("make", "clean")
    project.command(project.build("--fn", "update", "--", "make", "CC=gcc", env=path))
    assert project.report().called() == {"update": 12}


def test_build_output_is_quiet_in_a_pipe(project: Project) -> None:
    write_game(project, "make")
    done = project.piano("build", "--fn", "update")
    assert len(done.out.strip().splitlines()) == 1, "stdout is the path of the program alone"
    assert "\x1b" not in done.err and "\r" not in done.err


@pytest.mark.parametrize("caller,compiler,count", [(False, True, 1), (True, False, 0)], ids=["set by exec", "removed by exec"])
def test_the_environment_of_the_compiler_decides(project: Project, caller: bool, compiler: bool, count: int) -> None:
    """PIANO_LIB allows compilers for another machine. The environment passed to exec counts, not the caller's."""
    other = "aarch64" if platform.machine() == "x86_64" else "x86_64"
    tools = project.home / "tools"
    tools.mkdir()
    (tools / f"{other}-linux-gnu-gcc").symlink_to(need("gcc"))
    project.write({"one.c": "int main(void) { return 0; }\n",
                   "two.c": "int other(void) { return 0; }\nint main(void) { return other(); }\n",
                   "build.py": f"""
                       import os, subprocess
                       env = {{k: v for k, v in os.environ.items() if k != "PIANO_LIB"}}
                       if {compiler}:
                           env["PIANO_LIB"] = {str(LIB)!r}
                       subprocess.run(["gcc", "one.c", "-o", "one"], check=True)
                       subprocess.run([{str(tools / f"{other}-linux-gnu-gcc")!r}, "two.c", "-o", "two"], env=env, check=True)
                   """})
    project.piano("build", "--", "python3", "build.py", env={"PIANO_LIB": str(LIB)} if caller else None)
    units = [unit.read_text() for unit in (project.root / ".piano/build/units").glob("*.unit")]
    assert sum("\tother\t" in unit for unit in units) == count, units


def test_build_environment_is_not_leaked_into_the_program(project: Project) -> None:
    program = project.cc("""
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        extern char **environ;
        int main(void)
        {
            for (char **e = environ; *e; e++)
                if (!strncmp(*e, "PIANO_STATE", 11) || !strncmp(*e, "PIANO_TOOL", 10)
                    || !strncmp(*e, "LD_PRELOAD", 10)) puts(*e);
            return 0;
        }
    """)
    assert project.command(program).out == ""
    assert project.piano("run").out == ""


def test_no_leftovers_in_tmp(project: Project, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    write_game(project, "make")
    project.build("--fn", "update", env={"TMPDIR": str(scratch)})
    links = scratch / f"piano-{os.geteuid()}"  # to a piano with a blank in its path; they are not removed
    assert [path for path in scratch.iterdir() if path != links] == []
