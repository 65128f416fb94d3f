"""The command line: help, mistakes, exit codes, run, profile, doctor, interrupts."""
from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Iterator

import pytest

from conftest import BURN, LIMIT_S, PIANO, PIANO_WORD, ROOT, Project, put_run, update_run
from test_build import write_game

COMMANDS = ["build", "run", "profile", "record", "top", "snapshot", "report", "diff", "export", "view", "list", "tag", "doctor"]


# Words -------------------------------------------------------------------------------------------


@pytest.mark.tool
@pytest.mark.parametrize("words", [["--help"], ["-h"], ["help"]], ids=" ".join)
def test_help_goes_to_stdout(project: Project, words: list[str]) -> None:
    done = project.piano(*words)
    assert done.err == ""
    for command in COMMANDS:
        assert re.search(rf"^\s+{command}\b", done.out, re.M), command
    assert "cc-wrap" not in done.out


@pytest.mark.tool
@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_each_command(project: Project, command: str) -> None:
    for words in ([command, "--help"], ["help", command]):
        done = project.piano(*words)
        assert f"piano {command}" in done.out and done.err == ""
        assert max(map(len, done.out.splitlines())) <= 80


@pytest.mark.tool
def test_version(project: Project) -> None:
    assert re.search(r"\d+\.\d+\.\d+", project.piano("--version").out)


@pytest.mark.tool
def test_no_command_is_a_usage_error(project: Project) -> None:
    done = project.piano(check=False)
    assert done.status == 2 and done.out == "" and "piano" in done.err


@pytest.mark.tool
@pytest.mark.parametrize("words,suggestion", [
    (["reprot"], "report"), (["biuld"], "build"), (["report", "--frmaes"], "--frames"),
    (["report", "--thread"], "--threads"), (["build", "--fun", "x"], "--fn"),
    (["diff", "--fail-abvoe", "5"], "--fail-above"),
    (["profile", "--durration", "1"], "--duration"),
    (["run", "--duraton", "1"], "--duration"), (["list", "--jsno"], "--json"),
    (["report", "--fram"], "--frames"), (["record", "--snap", "1"], "--snapshot-every"),
])
def test_typos_get_suggestions(project: Project, words: list[str], suggestion: str) -> None:
    done = project.piano(*words, check=False)
    assert done.status == 2 and done.out == ""
    assert suggestion in done.err, done


@pytest.mark.tool
@pytest.mark.parametrize("words", [
    ["report", "--top"], ["report", "--top", "x"], ["report", "--top", "-3"],
    ["report", "--top", "0x"], ["report", "a", "b"], ["report", "--frames", "--threads"],
    ["build", "--fn"], ["build", "--fn", ""],
    ["run", "--duration", "soon"], ["run", "--duration", "-1"], ["run", "--duration", "nan"],
    ["diff", "onlyone"], ["diff", "a", "b", "c"], ["list", "extra"], ["doctor", "extra"],
    ["build", "-j", "many"], ["build", "--"], ["build", "--exact"], ["frobnicate"],
    ["help", "frobnicate"], ["profile", "--top", "x"], ["profile", "--frames", "--threads"],
], ids=" ".join)
def test_usage_errors(project: Project, words: list[str]) -> None:
    done = project.piano(*words, check=False)
    assert done.status == 2, done
    assert done.out == "" and done.err.startswith("piano"), done


@pytest.mark.tool
@pytest.mark.parametrize("name,content,like", [
    ("prog", b"\x7fELF\x02\x01\x01" + bytes(500), "an ELF file"), ("x.json", b'{"a": 1}', "JSON of something else"),
    ("notes.txt", b"hello\n", "text"), ("x.gz", b"\x1f\x8b\x08\x00abc", "a gzip file"),
    ("trace.json", b'{"traceEvents": []}', "JSON of another profiler"), ("list.json", b"[1]", "JSON, but a list"),
    ("perf.data", b"PERFILE2" + bytes(100), "a perf.data file"), ("raw", bytes(range(256)), "binary data")])
def test_file_that_is_no_run_is_refused(project: Project, name: str, content: bytes, like: str) -> None:
    (project.root / name).write_bytes(content)
    for words in (["report", name], ["report", f"./{name}", "--json"], ["diff", name, name]):
        done = project.piano(*words, check=False)
        assert done.status == 1 and done.out == "", done
        assert f"{name} is neither a run nor a recording of piano: it looks like {like}" in done.err, done


@pytest.mark.tool
def test_a_named_file_needs_no_runs_directory(project: Project) -> None:
    put_run(project, "1740000000123-77", update_run([16_000_000] * 3))
    (project.root / "mine.ndjson").write_text(update_run([16_000_000] * 3))
    (project.root / "file").write_text("")
    bad = {"PIANO_RUNS_DIR": str(project.root / "file")}  # not a directory
    assert project.piano("report", "mine.ndjson", env=bad).out
    assert project.piano("diff", "mine.ndjson", "./mine.ndjson,mine.ndjson", env=bad).status == 0
    for words in ([], ["1740000000123-77"]):
        done = project.piano("report", *words, env=bad, check=False)
        assert done.status == 1 and "file: Not a directory" in done.err, done


@pytest.mark.tool
def test_foreign_json_is_no_run(project: Project) -> None:
    folder = project.root / "folder"
    folder.mkdir()
    (folder / "run.ndjson").write_text(update_run([16_000_000] * 3))
    os.utime(folder / "run.ndjson", (1, 1))
    for name, text in (("package.json", '{"name": "x", "version": "1"}'), ("list.json", "[]"), ("a.ndjson", "x\n"),
                       ("heap.json", '{"$schema": "https://www.speedscope.app/x", "profiles": []}')):
        (folder / name).write_text(text)
    assert project.json("report", folder)["run"]["path"].endswith("run.ndjson")
    listed = project.json("list", env={"PIANO_RUNS_DIR": str(folder)})["runs"]
    assert [os.path.basename(run["path"]) for run in listed] == ["run.ndjson"]
    (folder / "run.ndjson").unlink()
    assert "there are no runs in" in project.piano("report", folder, check=False).err
    # A file with the name of a run is listed, whatever it contains.
    (folder / "1740000000000-5.json").write_text("{}")
    assert len(project.json("list", env={"PIANO_RUNS_DIR": str(folder)})["runs"]) == 1


@pytest.mark.tool
def test_report_without_runs_names_both_ways_to_make_one(project: Project) -> None:
    for words in (["report"], ["diff"], ["list"]):
        done = project.piano(*words, check=False)
        assert "piano record -- PROGRAM" in done.err and "piano profile" in done.err, done


@pytest.mark.tool
def test_columns_are_honoured_in_a_pipe(project: Project) -> None:
    name = "a_function_with_a_name_that_is_quite_long_" * 3
    put_run(project, "1740000000123-77", update_run([16_000_000] * 3).replace("physics", name))
    for words in (["report"], ["report", "--frames"]):
        wide = project.piano(*words).out
        narrow = project.piano(*words, env={"COLUMNS": "60"}).out
        assert max(map(len, narrow.splitlines())) <= 60, narrow
        assert max(map(len, wide.splitlines())) > 60
        assert project.piano(*words, env={"COLUMNS": "x"}).out == wide


@pytest.mark.tool
def test_closed_stdout_is_no_crash(project: Project) -> None:
    put_run(project, "1740000000123-77", update_run([1_000_000] * 3000))
    done = project.command("sh", "-c", f"{PIANO_WORD} report --frames --all | head -1; exit 0")
    assert "Frame" in done.out and "rror" not in done.err


@pytest.mark.tool
def test_full_stdout_is_an_error(project: Project) -> None:
    put_run(project, "1740000000123-77", update_run([1_000_000] * 30))
    done = project.command("sh", "-c", f"exec {PIANO_WORD} report --json > /dev/full", check=False)
    assert done.status == 1 and done.err


# doctor ------------------------------------------------------------------------------------------


@pytest.mark.tool
def test_doctor_names_compilers_and_clock(project: Project) -> None:
    done = project.piano("doctor")
    for word in ("gcc", "clang", "libclang", "clock"):
        assert word in done.out.lower(), word


@pytest.mark.tool
def test_doctor_names_what_is_missing(project: Project) -> None:
    done = project.piano("doctor", env={"PATH": str(project.home)}, check=False)
    assert done.status == 1
    assert re.search(r"gcc|compiler|\bcc\b", done.out + done.err)


@pytest.mark.tool
def test_without_libclang(project: Project) -> None:
    """Only `build` needs libclang, and doctor says so."""
    none = project.home / "libclang-14.so.13"
    none.write_text("no library")
    without = {"PIANO_LIBCLANG": str(none)}
    put_run(project, "1740000000123-77", update_run([1_000_000] * 30))
    assert "physics" in project.piano("report", env=without).out
    done = project.piano("doctor", env=without, check=False)
    assert done.status == 1 and re.search(rf"FAIL +libclang: {re.escape(str(none))}: ", done.out), done
    project.write({"prog.c": "int main(void) { return 0; }\n"})
    done = project.piano("build", "--fn", "main", "--", "gcc", "prog.c", "-o", "prog", env=without, check=False)
    assert done.status == 1 and "without libclang" in done.err and "piano doctor" in done.err, done


@pytest.mark.tool
def test_libclang_that_cannot_be_used_is_passed_over(project: Project) -> None:
    """The newest is tried first: one file is not a library, and one library is not libclang."""
    lib = project.home / "lib"
    lib.mkdir()
    (lib / "libclang-99.so.99").write_text("no library")
    project.write({"other.c": "int other(void) { return 1; }\n"})
    project.command("gcc", "-shared", "-fPIC", "other.c", "-o", str(lib / "libclang-98.so.98"))
    usual = re.search(r"ok +libclang: (.*)", project.piano("doctor", check=False).out)
    done = project.piano("doctor", env={"LD_LIBRARY_PATH": str(lib)}, check=False)
    found = re.search(r"ok +libclang: (.*)", done.out)
    assert usual and found and found.group(1) == usual.group(1), done


FAKE_CLANG = """
    #include <string.h>
    typedef struct { const void *data; unsigned flags; } CXString;
    CXString clang_getClangVersion(void) { return (CXString){"fake clang version %d.0.1", 0}; }
    const char *clang_getCString(CXString s) { return s.data; }
    void clang_disposeString(CXString s) { (void)s; }
"""
CLANG_FUNCTIONS = re.findall(r"^    F\((\w+)\)", (ROOT / "src/tool/build/libclang.h").read_text(), re.M)


@pytest.mark.tool
@pytest.mark.parametrize("version,is_taken", [(97, True), (10, False)])
def test_libclang_is_the_newest_by_its_own_word(project: Project, version: int, is_taken: bool) -> None:
    lib = project.home / "lib"
    lib.mkdir()
    rest = [f"void clang_{name}(void) {{}}\n" for name in CLANG_FUNCTIONS
            if name not in ("getClangVersion", "getCString", "disposeString")]
    project.write({"fake.c": FAKE_CLANG % version + "".join(rest)})
    project.command("gcc", "-shared", "-fPIC", "fake.c", "-o", str(lib / "libclang-97.so.1"))
    done = project.piano("doctor", env={"LD_LIBRARY_PATH": str(lib)}, check=False)
    assert ("fake clang version 97" in done.out) == is_taken, done
    assert "version 10." not in done.out
    if not is_taken:
        done = project.piano("doctor", env={"PIANO_LIBCLANG": str(lib / "libclang-97.so.1")}, check=False)
        assert done.status == 1 and "is version 10, and piano needs 11 or newer" in done.out, done


@pytest.mark.tool
def test_doctor_advises_packages_that_exist(project: Project) -> None:
    """apt-cache names the package; without it, the message does not mention apt-get."""
    (project.home / "apt-cache").write_text("#!/bin/sh\ncase $* in *libclang1*) printf '%s\\n' "
                                            "'libclang1-9 - old' 'libclang1-21 - new' 'libclang1-19 - C';; esac\n")
    (project.home / "apt-cache").chmod(0o755)
    env = {"PATH": str(project.home), "PIANO_LIBCLANG": "/nonexistent/libclang.so"}
    done = project.piano("doctor", env=env, check=False)
    assert done.status == 1 and "(apt-get install libclang1-21)" in done.out, done
    (project.home / "apt-cache").unlink()
    done = project.piano("doctor", env=env, check=False)
    assert done.status == 1 and "/nonexistent/libclang.so" in done.out and "apt-get" not in done.out, done


@pytest.mark.tool
def test_doctor_sees_an_unwritable_runs_directory(project: Project) -> None:
    (project.root / "file").write_text("")
    done = project.piano("doctor", env={"PIANO_RUNS_DIR": str(project.root / "file" / "runs")},
                         check=False)
    assert done.status == 1 and str(project.root / "file") in done.out + done.err


# run ---------------------------------------------------------------------------------------------


def test_run_without_a_build(project: Project) -> None:
    done = project.piano("run", check=False)
    assert done.status == 1 and "piano build" in done.err


@pytest.mark.parametrize("how,status", [("return 7", 7), ("abort()", 128 + 6),
                                        ("raise(SIGKILL)", 128 + 9),
                                        ("*(volatile int *)0 = 1", 128 + 11), ("_exit(3)", 3)])
def test_run_passes_the_status_on(project: Project, how: str, status: int) -> None:
    project.cc(f"""
        #include <signal.h>
        #include <stdlib.h>
        #include <unistd.h>
        #include <sys/resource.h>
        int update(void) {{ return 0; }}
        int main(void)
        {{
            struct rlimit none = {{0, 0}};
            setrlimit(RLIMIT_CORE, &none);
            update();
            {how};
            return 0;
        }}
    """, "-w")
    done = project.piano("run", check=False)
    assert done.status == status
    assert project.report().called() == {"main": 1, "update": 1}


def test_run_says_where_the_run_is(project: Project) -> None:
    project.cc("int update(void) { return 0; }\nint main(void) { return update(); }\n")
    done = project.piano("run")
    assert project.only_run().stem in done.err and done.out == ""


def test_run_gives_the_program_stdin_directory_and_arguments(project: Project) -> None:
    project.cc("""
        #include <stdio.h>
        #include <unistd.h>
        int main(int argc, char **argv)
        {
            char where[4096], line[64];
            fgets(line, sizeof line, stdin);
            printf("%s %s %s", getcwd(where, sizeof where), argc > 1 ? argv[1] : "-", line);
            return 0;
        }
    """)
    below = project.root / "below"
    below.mkdir()
    done = project.piano("run", "--", "--level", stdin="hello\n", cwd=below)
    assert done.out == f"{below} --level hello\n"


FOREVER = BURN + """
    #include <stdio.h>
    #include <signal.h>
    void update(void) { BURN(30000); }
    int main(void)
    {
        puts("ready");
        fflush(stdout);
        for (;;) update();
    }
"""


def test_duration_ends_the_program(project: Project) -> None:
    project.cc(FOREVER)
    done = project.piano("run", "--duration", "0.3", limit=20)
    assert done.out == "ready\n"
    assert project.report().row("update")["calls"] > 0


def test_duration_of_a_program_that_ends_sooner(project: Project) -> None:
    project.cc("int main(void) { return 5; }\n")
    assert project.piano("run", "--duration", "30", check=False, limit=20).status == 5


def test_duration_kills_a_program_that_ignores_sigterm(project: Project) -> None:
    project.cc(FOREVER.replace('puts("ready");', 'signal(SIGTERM, SIG_IGN); puts("ready");'))
    done = project.piano("run", "--duration", "0.3", "--kill-timeout", "0.3", limit=20)
    assert done.out == "ready\n"
    assert project.report().row("update")["calls"] > 0


@contextlib.contextmanager
def process_group(project: Project, *words: str) -> Iterator[subprocess.Popen]:
    """Runs WORDS as a process group, as a shell does; kills it at the end."""
    child = subprocess.Popen(words, cwd=project.root, env=project.env, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, start_new_session=True)
    try:
        yield child
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


@pytest.mark.parametrize("command", ["run", "profile"])
def test_ctrl_c_goes_to_the_child_and_the_run_is_kept(project: Project, command: str) -> None:
    """Sends SIGINT once to the whole group, as a terminal does."""
    if command == "run":
        project.cc(FOREVER)
        words = [PIANO, "run"]
    else:
        project.write({"prog.c": FOREVER})
        words = [PIANO, "profile", "--", "gcc", "-O1", "prog.c", "-o", "prog", "--"]
    with process_group(project, *words) as child:
        assert child.stdout.readline() == b"ready\n"
        wait_for_calls(project)
        os.killpg(child.pid, signal.SIGINT)
        out, _ = child.communicate(timeout=LIMIT_S)
        assert child.returncode == 130
    report = project.report()
    assert report.row("update")["calls"] > 0
    if command == "profile":
        assert b"update" in out, "an interrupted profile still reports"


def test_ctrl_c_that_piano_sees_after_the_end_of_the_program(project: Project) -> None:
    """piano is stopped while it waits, so that both the signal and the end of the program are pending when it continues."""
    project.cc(FOREVER.replace('puts("ready");', 'printf("%d\\n", getpid());').replace("#include <signal.h>", "#include <unistd.h>"))
    with process_group(project, PIANO, "run") as child:
        status = Path("/proc", child.stdout.readline().decode().strip(), "stat")
        wait_for_calls(project)
        os.kill(child.pid, signal.SIGSTOP)
        os.waitpid(child.pid, os.WUNTRACED)
        os.killpg(child.pid, signal.SIGINT)
        until = time.monotonic() + 60
        while status.read_text().rpartition(")")[2].split()[0] != "Z":
            assert time.monotonic() < until, "the program does not end"
            time.sleep(0.01)
        os.kill(child.pid, signal.SIGCONT)
        _, err = child.communicate(timeout=LIMIT_S)
        assert child.returncode == 130 and project.only_run().stem in err.decode(), err


def wait_for_calls(project: Project) -> None:
    """Waits until the running program has ended a call of `update`; ignores failed reports."""
    until = time.monotonic() + LIMIT_S
    while time.monotonic() < until:
        done = project.piano("report", "--json", check=False)
        if done.status == 0 and any(f["calls"] and f["name"] == "update" for f in json.loads(done.out)["functions"]):
            return
    raise AssertionError(f"nothing recorded after {LIMIT_S} s")


def test_sigterm_to_piano_run_leaves_no_orphan(project: Project) -> None:
    project.cc(FOREVER.replace('puts("ready");', 'printf("%d\\n", getpid());')
               .replace("#include <signal.h>", "#include <unistd.h>"))
    child = subprocess.Popen([PIANO, "run"], cwd=project.root, env=project.env,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    pid = int(child.stdout.readline())
    child.terminate()
    child.communicate(timeout=20)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return
    os.kill(pid, signal.SIGKILL)
    raise AssertionError("the program outlived `piano run`")


def test_program_that_handles_ctrl_c_itself(project: Project) -> None:
    project.cc("""
        #include <signal.h>
        #include <stdio.h>
        #include <unistd.h>
        static volatile int stop;
        static void on_int(int s) { (void)s; stop = 1; }
        int main(void)
        {
            signal(SIGINT, on_int);
            puts("ready");
            fflush(stdout);
            while (!stop) pause();
            puts("tidy");
            return 4;
        }
    """)
    child = subprocess.Popen([PIANO, "run"], cwd=project.root, env=project.env,
                             stdout=subprocess.PIPE, start_new_session=True)
    assert child.stdout.readline() == b"ready\n"
    os.killpg(child.pid, signal.SIGINT)
    out, _ = child.communicate(timeout=LIMIT_S)
    assert out == b"tidy\n"
    assert child.returncode in (4, 130)


def test_run_takes_a_name(project: Project) -> None:
    """test_program_choice.py tests the case without one."""
    project.write({n + ".c": f'#include <stdio.h>\nint main(void) {{ puts("{n}"); return 0; }}\n'
                   for n in ("one", "two")})
    project.build("--", "sh", "-c", "gcc one.c -o one && gcc two.c -o two")
    done = project.piano("run", "--", "one")
    assert done.out == "one\n" and "also built" not in done.err
    assert project.piano("run", "--", "two", "x").out == "two\n"


def test_run_of_a_program_that_was_not_built_here(project: Project) -> None:
    project.write({"a.c": "#include <stdio.h>\n"
                          "int main(int n, char **v) { puts(v[n - 1]); return 0; }\n"})
    project.build("--", "gcc", "a.c", "-o", "p")
    done = project.piano("run", "--", "/bin/echo", "x", check=False)
    assert done.status == 1 and done.out == "" and "piano run p" in done.err
    assert project.piano("run", "--", "p", "/bin/echo").out == "/bin/echo\n"


def test_run_after_a_library_says_how_to_go_on(project: Project) -> None:
    project.write({"a.c": "int area(int n) { return n; }\n"})
    built = project.piano("build", "--", "gcc", "-shared", "-fPIC", "a.c", "-o", "liba.so")
    done = project.piano("run", check=False)
    assert done.status == 1
    for text in (built.err, done.err):
        assert "no program was linked" in text and "make check" in text


# profile -----------------------------------------------------------------------------------------


def test_profile_is_build_run_report(project: Project) -> None:
    write_game(project, "make")
    done = project.piano("profile", "--fn", "update", "--fn", "physics")
    assert "total 156" in done.out
    assert re.search(r"^update\s", done.out, re.M) and re.search(r"^physics\s", done.out, re.M)
    assert len(project.run_files()) == 1


def test_profile_json_is_pure(project: Project) -> None:
    write_game(project, "make")
    done = project.piano("profile", "--fn", "update", "--json")
    rows = {f["name"]: f["calls"] for f in json.loads(done.out)["functions"]}
    assert rows == {"update": 12}
    assert "total 156" in done.err


def test_profile_with_places(project: Project) -> None:
    write_game(project, "make")
    assert re.search(r"\w+\.c:\d+", project.piano("profile", "--fn", "update", "--places").out)


def test_profile_with_build_command_and_arguments(project: Project) -> None:
    project.write({"a.c": """
        #include <stdlib.h>
        int update(int n) { return n; }
        int main(int argc, char **argv)
        { for (int i = 0; i < atoi(argv[argc - 1]); i++) update(i); return 0; }
    """})
    done = project.piano("profile", "--json", "--", "gcc", "a.c", "-o", "a", "--", "17")
    rows = {f["name"]: f["calls"] for f in json.loads(done.out)["functions"]}
    assert rows == {"main": 1, "update": 17}
    done = project.piano("profile", "--json", "--", "gcc", "a.c", "-o", "a", "--", "a", "5")
    assert {f["name"]: f["calls"] for f in json.loads(done.out)["functions"]}["update"] == 5


def test_profile_passes_a_failing_status_and_still_reports(project: Project) -> None:
    project.write({"a.c": "int update(void) { return 0; }\n"
                          "int main(void) { update(); return 9; }\n"})
    done = project.piano("profile", "--", "gcc", "a.c", "-o", "a", check=False)
    assert done.status == 9
    assert re.search(r"^update\s", done.out, re.M)


def test_profile_of_a_crash_reports_what_there_is(project: Project) -> None:
    project.write({"a.c": "#include <stdlib.h>\nint update(void) { return 0; }\n"
                          "int main(void) { update(); abort(); }\n"})
    done = project.piano("profile", "--", "gcc", "a.c", "-o", "a", check=False)
    assert done.status == 134
    assert re.search(r"^update\s", done.out, re.M)


def test_profile_never_reports_a_stale_run(project: Project) -> None:
    """Also if a file has a time in the future."""
    write_game(project, "make")
    put_run(project, "9740000000123-77", update_run([1_000_000] * 99))
    done = project.piano("profile", "--fn", "update", "--json")
    assert {f["name"]: f["calls"] for f in json.loads(done.out)["functions"]} == {"update": 12}


def test_profile_of_a_program_that_leaves_no_run(project: Project) -> None:
    """The program cannot write its run; piano does not show an older run instead."""
    put_run(project, "1740000000123-77", update_run([1_000_000] * 99))
    (project.root / "file").write_text("")
    project.write({"a.c": "int update(void) { return 0; }\nint main(void) { return update(); }\n"})
    done = project.piano("profile", "--", "gcc", "a.c", "-o", "a", check=False,
                         env={"PIANO_RUNS_DIR": str(project.root / "file" / "runs")})
    assert done.status == 1
    assert "physics" not in done.out and "99 frames" not in done.out
    assert "file/runs" in done.err


def test_profile_when_the_build_fails_is_one_error(project: Project) -> None:
    project.write({"a.c": "int main(void) { return oops; }\n"})
    done = project.piano("profile", "--", "gcc", "a.c", "-o", "a", check=False)
    assert done.status == 1 and done.out == ""
    assert "a.c:1:25" in done.err and "no run" not in done.err


def test_profile_duration(project: Project) -> None:
    project.write({"a.c": FOREVER})
    done = project.piano("profile", "--duration", "0.3", "--json", "--", "gcc", "-O1", "a.c",
                         "-o", "a", limit=30)
    rows = {f["name"]: f["calls"] for f in json.loads(done.out)["functions"]}
    assert rows["update"] > 0


# A terminal and a pipe ---------------------------------------------------------------------------


def test_build_on_a_terminal_talks_and_in_a_pipe_prints_the_path(project: Project) -> None:
    write_game(project, "make")
    status, seen = project.run_in_pty(PIANO, "build", "--fn", "update")
    assert status == 0 and "1 function" in seen
    done = project.piano("build", "--fn", "update")
    assert done.out.strip().endswith("/game") and "\x1b" not in done.err


def test_errors_are_on_stderr(project: Project) -> None:
    for words in (["report"], ["run"], ["diff"], ["report", "nothing-here"]):
        done = project.piano(*words, check=False)
        assert done.status == 1 and done.out == "" and done.err.startswith("piano"), words
