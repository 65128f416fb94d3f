"""Programs that a build command starts: which of them load the library of the exec hook, and which cannot."""
from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from conftest import Project, need

TICK = """
    #include <stdio.h>
    #include <stdlib.h>
    static volatile int sink;
    void tick(int n) { for (int i = 0; i < n; i++) sink += i; }
    int main(void) {
        const char *preload = getenv("LD_PRELOAD");
        for (int i = 1; i <= 50; i++) tick(i * 100);
        printf("preload=%s\\n", preload ? preload : "none");
        return 0;
    }
"""


def sanitizer(project: Project, flag: str) -> None:
    """Skips if plain programs with FLAG do not run here."""
    plain = project.home / "plain"
    made = subprocess.run([need("gcc"), flag, "-xc", "-", "-o", plain], input=b"int main(void) { return 0; }",
                          capture_output=True, check=False)
    if made.returncode or subprocess.run([plain], capture_output=True, check=False).returncode:
        pytest.skip(f"gcc {flag} makes no program that runs here")


STARTS = {
    "shell": "./tick > out",
    "name in PATH": "PATH=.:$PATH; tick > out",
    "script": "chmod +x script; ./script",
    "make": "make -s -f rules check",
    "spawn": "python3 spawn.py > out",
    "env": "env ./tick > out",
    "timeout": "timeout 50 ./tick > out",
}


@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
@pytest.mark.parametrize("flag", ["-fsanitize=address", "-fsanitize=thread", "-fsanitize=leak"])
def test_program_with_a_sanitizer_runs_in_the_build_command(project: Project, start: str, flag: str) -> None:
    sanitizer(project, flag)
    project.write({"tick.c": TICK, "script": "#!/bin/sh\n./tick > out\n", "rules": "check:\n\t./tick > out\n",
                   "spawn.py": "import subprocess\nsubprocess.run(['./tick'], check=True)\n"})
    project.build("--fn", "tick", "--", "sh", "-ec", f"gcc -O1 {flag} tick.c -o tick; {start}; cp out {project.home}/out")
    assert (project.home / "out").read_text() == "preload=none\n"


def test_interpreter_with_a_sanitizer_runs_scripts(project: Project) -> None:
    sanitizer(project, "-fsanitize=address")
    project.write({"tick.c": TICK})
    project.build("--fn", "tick", "--", "sh", "-ec", f"""
        gcc -O1 -fsanitize=address tick.c -o tick
        echo "#! $PWD/tick word" > script
        chmod +x script
        ./script > {project.home}/out""")
    assert (project.home / "out").read_text() == "preload=none\n"


def test_other_preloaded_libraries_stay(project: Project) -> None:
    """As many as the user's limit allows."""
    sanitizer(project, "-fsanitize=leak")
    project.write({"tick.c": TICK, "other.c": "int other;\n"})
    libraries = [project.home / f"other{i}.so" for i in (1, 2)]
    for library in libraries:
        project.command("gcc", "-shared", "-fPIC", "other.c", "-o", library)
    (project.root / "other.c").unlink()
    words = ":".join(map(str, libraries))
    project.build("--fn", "tick", "--", "sh", "-ec",
                  f"gcc -O1 -fsanitize=leak tick.c -o tick; ./tick > {project.home}/out", env={"LD_PRELOAD": words})
    assert (project.home / "out").read_text() == f"preload={words}\n"


def test_program_of_musl_runs_in_the_build_command(project: Project) -> None:
    musl = need("musl-gcc")
    project.write({"tick.c": TICK})
    done = project.piano("build", "--verbose", "--", "sh", "-ec", f"{musl} tick.c -o tick; ./tick > {project.home}/out")
    assert (project.home / "out").read_text() == "preload=none\n"
    assert "Error" not in done.err


def test_program_that_the_build_made_may_start_compilers(project: Project) -> None:
    """Like the builds of ninja and CMake."""
    project.write({"tick.c": TICK, "nob.c": """
        #include <stdlib.h>
        int main(void) { return system("gcc -O1 tick.c -o tick") != 0; }
    """})
    project.build("--fn", "tick", "--", "sh", "-ec", "gcc nob.c -o nob; ./nob")
    program = next(Path(project.root / ".piano/build/tree").glob("*/tick"))
    project.command(program)
    assert project.report().calls("tick") == {"tick": 50}


@pytest.mark.parametrize("damage", ["cut", "segments", "strings", "entries"])
def test_damaged_program_is_left_to_the_kernel(project: Project, damage: str) -> None:
    """The hook reads its headers first."""
    project.write({"tick.c": TICK, "damage.py": f"""
        data = bytearray(open('tick', 'rb').read())
        if {damage!r} == 'cut': data = data[:100]
        if {damage!r} == 'segments': data[56:58] = b'\\xff\\xff'
        if {damage!r} == 'strings': data[32:40] = b'\\xff' * 8
        if {damage!r} == 'entries': data[54:56] = b'\\x01\\x00'
        open('bad', 'wb').write(data)
    """})
    project.build("--fn", "tick", "--", "sh", "-ec",
                  f"gcc -O1 tick.c -o tick; python3 damage.py; chmod +x bad; ./bad && exit 1; echo $? > {project.home}/out")
    assert (project.home / "out").read_text().strip() in ("126", "127", "139", "2")
