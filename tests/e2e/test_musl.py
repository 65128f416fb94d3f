"""Programs for musl, compiled by Debian's musl-gcc: a wrapper around gcc that adds `-specs FILE`."""
from __future__ import annotations

import re
import shutil
import signal

import pytest

from conftest import Project

pytestmark = pytest.mark.skipif(shutil.which("musl-gcc") is None, reason="musl-gcc is not installed (musl-tools)")

PROGRAM = r"""
    #include <pthread.h>
    #include <signal.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <sys/wait.h>
    #include <unistd.h>
    void work(int n) { for (int i = 0; i < 3; i++) free(malloc(n + i)); }
    void turn(void) { work(100); }
    void *thread(void *arg) { for (int i = 0; i < 20; i++) turn(); return arg; }
    int main(int argc, char **argv)
    {
        pthread_t t;
        pthread_create(&t, NULL, thread, NULL);
        for (int i = 0; i < 30; i++) turn();
        pthread_join(t, NULL);
        if (argc > 1) raise(SIGKILL);
        if (fork() == 0) { turn(); exit(0); }
        wait(NULL);
        puts("done");
        return 0;
    }
"""


@pytest.mark.parametrize("flags", [(), ("-static",), ("-static-pie", "-fPIE"), ("-pie", "-fPIE")], ids=" ".join)
def test_programs_linked_with_musl_are_profiled(project: Project, flags: tuple[str, ...]) -> None:
    program = project.cc(PROGRAM, *flags, "-pthread", compiler="musl-gcc")
    done = project.command(program)
    assert done.out == "done\n" and done.err == ""
    runs = project.run_files()
    assert len(runs) == 2  # the child has its own
    calls = [project.report(run).called() for run in runs]
    parent = next(c for c in calls if "main" in c)
    assert parent["turn"] == 50 and parent["work"] == 50 and parent["thread"] == 1
    assert project.report(next(r for r, c in zip(runs, calls) if "main" in c)).row("work")["alloc_count"] == 150


def test_run_of_a_killed_musl_program_is_complete(project: Project) -> None:
    program = project.cc(PROGRAM, "-pthread", compiler="musl-gcc")
    assert project.command(program, "x", check=False).status == -signal.SIGKILL
    assert project.report().calls("turn", "work") == {"turn": 50, "work": 50}


def test_make_with_musl_gcc(project: Project) -> None:
    project.write({"prog.c": PROGRAM, "Makefile": "CC = musl-gcc\nprog: prog.o\n\t$(CC) prog.o -o prog -pthread\n"
                                                  "prog.o: prog.c\n\t$(CC) -O1 -fno-builtin -c prog.c\n"})
    project.command(project.build("--fn", "turn"))
    assert len(project.run_files()) == 2


def test_a_shared_library_is_refused_at_build_time(project: Project) -> None:
    project.write({"tick.c": "void tick(int n) { (void)n; }\n",
                   "main.c": "void tick(int n); int main(void) { for (int i = 0; i < 50; i++) tick(i); return 0; }\n",
                   "Makefile": "prog: main.c libtick.so\n\tmusl-gcc -O1 main.c -o prog ./libtick.so\n"
                               "libtick.so: tick.o\n\tmusl-gcc -shared tick.o -o libtick.so\n"
                               "tick.o: tick.c\n\tmusl-gcc -O1 -fPIC -c tick.c\n"})
    done = project.piano("build", "--fn", "tick", check=False)
    assert done.status == 1 and "libtick.so is a shared library for musl" in done.err, done
    assert re.search(r"try: an archive", done.err)


def test_every_form_of_the_specs_option_is_understood(project: Project) -> None:
    """`-specs FILE`, `-specs=FILE`, `--specs FILE` and `--specs=FILE` are one option; FILE is no input. Also with a blank in its path."""
    specs = project.home / "my musl.specs"
    shutil.copy("/usr/lib/x86_64-linux-musl/musl-gcc.specs" if shutil.which("x86_64-linux-gnu-gcc") else
                "/usr/lib/musl/lib/musl-gcc.specs", specs)
    for words in (["-specs", specs], [f"-specs={specs}"], ["--specs", specs], [f"--specs={specs}"]):
        program = project.cc(PROGRAM, *map(str, words), "-pthread")
        assert project.command(program).out == "done\n"
