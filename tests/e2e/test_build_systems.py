"""An installed piano in other build systems: CMake's package, pkg-config, Meson. The snippets come from
docs/build-systems.md."""
from __future__ import annotations

import fcntl
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import LIB, ROOT, Project, need

VERSION = (ROOT / "VERSION").read_text().strip()
PAGE = (ROOT / "docs/build-systems.md").read_text()
GAME = """
static volatile int sink;
void update(int n) { for (int i = 0; i < n; i++) sink += i; }
void render(int n) { sink += n; }
void other(int n) { sink -= n; }
int main(void) { for (int i = 1; i <= 50; i++) { update(i); render(i); other(i); } return 0; }
"""
SERVER = """
#include <stdio.h>
#include <piano.h>
int main(void) { puts(piano_version()); return 0; }
"""


def snippet(language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```", PAGE, re.M | re.S)
    assert found
    return found[1]


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Installs piano. Only one `make` at a time, because two would write the same manual pages."""
    if LIB != ROOT / "build" / "lib":
        pytest.skip("PIANO names another tool; `make install` installs the one in build/")
    place = tmp_path_factory.mktemp("installed")
    assert "colon" not in install(place)
    return place


def install(place: Path) -> str:
    """Runs `make install` there and returns its output."""
    with open(ROOT / "build" / "install.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(["make", "-s", "install", f"PREFIX={place}"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE)
    return done.stderr.decode()


def calls(project: Project) -> dict[str, int]:
    return project.report().called()


def needed(program: Path) -> str:
    return subprocess.run(["readelf", "-d", program], stdout=subprocess.PIPE, check=True).stdout.decode()


@pytest.mark.parametrize("generator", ["Unix Makefiles", "Ninja"])
def test_cmake_profiles_one_target(project: Project, prefix: Path, generator: str) -> None:
    need("cmake"), need("make" if generator == "Unix Makefiles" else "ninja")
    project.write({"main.c": GAME, "CMakeLists.txt": snippet("cmake") + "add_executable(plain main.c)\n"})
    project.command("cmake", "-B", "build", "-G", generator, f"-DCMAKE_PREFIX_PATH={prefix}")
    project.command("cmake", "--build", "build")
    project.command("build/plain")
    assert not project.run_files(), "the other target is instrumented as well"
    assert "libpiano" not in needed(project.root / "build/plain")
    project.command("build/game")
    assert calls(project) == {"update": 50, "render": 50}
    # A different choice compiles the target again.
    text = (project.root / "CMakeLists.txt").read_text().replace("FUNCTIONS update render", "FUNCTIONS other")
    (project.root / "CMakeLists.txt").write_text(text)
    project.command("cmake", "--build", "build")
    project.command("build/game")
    assert calls(project) == {"other": 50}


def test_cmake_arguments_are_those_of_piano_build(project: Project, prefix: Path) -> None:
    need("cmake")
    text = snippet("cmake").replace("FUNCTIONS update render", "SKIP render FRAME update EXACT")
    project.write({"main.c": GAME, "CMakeLists.txt": text})
    project.command("cmake", "-B", "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    project.command("cmake", "--build", "build")
    project.command("build/game")
    report = project.report()
    assert set(report.called()) == {"main", "update", "other"}
    assert report.frame_count == 50


def test_cmake_refuses_what_it_does_not_know(project: Project, prefix: Path) -> None:
    need("cmake")
    for wrong, message in (("game NONSENSE x", "unknown arguments"), ("nothing", "no such target")):
        text = snippet("cmake").replace("game FUNCTIONS update render", wrong)
        project.write({"main.c": GAME, "CMakeLists.txt": text})
        done = project.command("cmake", "-B", "build", f"-DCMAKE_PREFIX_PATH={prefix}", check=False)
        assert done.status != 0 and message in " ".join(done.err.split()), done


def test_cmake_links_the_library(project: Project, prefix: Path) -> None:
    need("cmake")
    project.write({"server.c": SERVER, "CMakeLists.txt": f"""
        cmake_minimum_required(VERSION 3.16)
        project(server C)
        find_package(piano {VERSION} REQUIRED)
        add_executable(server server.c)
        target_link_libraries(server PRIVATE piano::piano)
        """})
    project.command("cmake", "-B", "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    project.command("cmake", "--build", "build")
    assert project.command("build/server").out.strip() == VERSION
    (project.root / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.16)\nproject(x C)\nfind_package(piano 99)\n"
                                                 "if(piano_FOUND)\nmessage(FATAL_ERROR found)\nendif()\n")
    project.command("cmake", "-B", "later", f"-DCMAKE_PREFIX_PATH={prefix}")


def test_meson_links_the_library(project: Project, prefix: Path) -> None:
    need("meson"), need("ninja"), need("pkg-config")
    project.write({"server.c": SERVER, "meson.build": snippet("meson")})
    project.command("meson", "setup", "build", env={"PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")})
    project.command("ninja", "-C", "build")
    assert project.command("build/server").out.strip() == VERSION


def test_pkg_config_links_the_library(project: Project, prefix: Path) -> None:
    need("pkg-config")
    project.write({"server.c": SERVER})
    env = {"PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")}
    flags = project.command("pkg-config", "--cflags", "--libs", "piano", env=env).out.split()
    project.command("cc", "server.c", "-o", "server", *flags)
    assert project.command("./server").out.strip() == VERSION
    assert project.command("pkg-config", "--modversion", "piano", env=env).out.strip() == VERSION


def test_an_installed_piano_can_be_moved(project: Project, prefix: Path) -> None:
    """CMake's files find the rest relative to themselves."""
    need("cmake")
    moved = project.root / "moved"
    shutil.copytree(prefix, moved)
    project.write({"main.c": GAME, "CMakeLists.txt": snippet("cmake")})
    project.command("cmake", "-B", "build", f"-DCMAKE_PREFIX_PATH={moved}")
    project.command("cmake", "--build", "build")
    assert str(moved) in needed(project.root / "build/game")


def test_a_prefix_with_a_colon(project: Project, prefix: Path) -> None:
    """A profiled target finds the library through a link. CMake warns for a target that links with the library."""
    need("cmake"), need("ninja")
    place = prefix.parent / "installed:here"
    if not place.exists():
        assert "PREFIX has a colon in it" in install(place)
    project.write({"main.c": GAME, "CMakeLists.txt": snippet("cmake")})
    done = project.command("cmake", "-G", "Ninja", "-B", "build", f"-DCMAKE_PREFIX_PATH={place}")
    assert "will not find libpiano.so" in " ".join(done.err.split()), done
    project.command("cmake", "--build", "build")
    project.command("build/game")
    assert calls(project)["update"] == 50
