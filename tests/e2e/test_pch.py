"""Precompiled headers: the functions in them are instrumented, and units that need them are built."""
from __future__ import annotations

import pytest

from conftest import Project, need

HEADER = """
    #include <vector>
    static volatile int sink;
    __attribute__((noinline)) static void in_header(int n) { for (int i = 0; i < n; i++) sink += i; }
"""
# It includes nothing: only the precompiled header declares what it calls.
UNIT = """
    void tick(int n) { std::vector<int> all(n); in_header(n + (int)all.size()); }
    int main() { for (int i = 1; i <= 50; i++) tick(i); }
"""
CALLS = {"in_header": 50, "tick": 50, "main": 1}
SYSTEMS = {
    "cmake": {"CMakeLists.txt": "cmake_minimum_required(VERSION 3.16)\nproject(t CXX)\nadd_executable(t main.cpp)\n"
                                "target_precompile_headers(t PRIVATE util.h)\n"},
    "meson": {"meson.build": "project('t', 'cpp')\nexecutable('t', 'main.cpp', cpp_pch: 'pch/all.hh')\n",
              "pch/all.hh": '#include "../util.h"\n'},
}
COMPILERS = pytest.mark.parametrize("compiler", ["g++", "clang++"])
SYSTEM = pytest.mark.parametrize("system", SYSTEMS)


@pytest.fixture
def precompiled(project: Project, system: str, compiler: str) -> Project:
    need(system)
    project.env["CXX"] = need(compiler)
    return project.write({"util.h": HEADER, "main.cpp": UNIT, **SYSTEMS[system]})


@COMPILERS
@SYSTEM
def test_functions_of_a_precompiled_header_are_instrumented(precompiled: Project) -> None:
    done = precompiled.piano("build", "--list-skipped")
    assert "untouched" not in done.out + done.err and "in_header" not in done.out, done
    precompiled.command(precompiled.build())
    assert precompiled.report().calls(*CALLS) == CALLS


@COMPILERS
@SYSTEM
def test_change_of_a_precompiled_header_reaches_its_units(precompiled: Project) -> None:
    precompiled.build("--fn", "in_header")
    text = HEADER.replace("in_header(int n) {", "in_header(int n) { sink += 1;").replace("sink;", "sink, other;")
    precompiled.write({"util.h": text + "static void new_in_header() { sink = 2; }\n",
                       "main.cpp": UNIT.replace("int main() {", "int main() { new_in_header();")})
    precompiled.command(precompiled.build("--fn", "in_header"))
    assert precompiled.report().calls("in_header", "new_in_header") == {"in_header": 50, "new_in_header": 1}


@COMPILERS
@SYSTEM
def test_unit_without_a_chosen_function_uses_the_precompiled_header(precompiled: Project) -> None:
    done = precompiled.piano("build", "--fn", "no_such_function", check=False)
    assert done.status == 1 and "no_such_function" in done.err
    assert "the build failed" not in done.err, done


def test_system_headers_in_a_precompiled_header_stay_system_headers(project: Project) -> None:
    need("cmake")
    project.write({"util.h": HEADER, "main.cpp": UNIT, **SYSTEMS["cmake"]})
    project.command(project.build())
    assert set(project.report().names()) == set(CALLS)


def test_header_that_only_the_precompiled_form_has_is_found(project: Project) -> None:
    """gcc's own use: the header is elsewhere."""
    project.write({"src/util.h": HEADER, "main.cpp": UNIT, "build.sh": """
        set -e
        mkdir -p made
        g++ -O1 -x c++-header src/util.h -o made/all.h.gch
        g++ -O1 -Imade -Winvalid-pch -include all.h main.cpp -o t
    """})
    project.command(project.build("--", "sh", "build.sh"))
    assert project.report().calls(*CALLS) == CALLS
