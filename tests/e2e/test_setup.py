"""tools/setup and tools/build-viewer on systems that are not this one: the programs they ask are made up."""
from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import ROOT

pytestmark = pytest.mark.tool
BUILD = ["gcc", "g++", "make", "libc6-dev", "libclang-dev", "libelf-dev", "libdw-dev", "zlib1g-dev"]


class System:
    """A directory of commands: what a made-up system has installed, and what its suite has."""

    def __init__(self, place: Path):
        self.bin = place / "bin"
        self.bin.mkdir()
        for name in ("sh", "sed", "awk", "grep", "tr", "head", "cut", "dirname", "mktemp", "rm", "cat", "find", "sort",
                     "xargs", "sha256sum", "cp", "mkdir", "cmp"):
            found = shutil.which(name)
            assert found, name
            (self.bin / name).symlink_to(found)
        self.command("id", "echo 1000")

    def command(self, name: str, script: str) -> None:
        (self.bin / name).write_text(f"#!/bin/sh\n{script}\n")
        (self.bin / name).chmod(0o755)

    def debian(self, installed: list[str], suite: list[str], clang: int = 19) -> System:
        lines = "\n".join(f"installed {name}" for name in installed)
        self.command("dpkg-query", f"cat <<'END'\n{lines}\nEND")
        self.command("apt-cache", f"""
            if [ "$1" = depends ]; then printf 'clang\\n  Depends: clang-{clang}\\n'; exit; fi
            shift
            for name; do case " {' '.join(suite)} " in
                *" $name "*) printf '%s:\\n  Installed: (none)\\n  Candidate: 1.0\\n' "$name" ;;
                *) printf '%s:\\n  Installed: (none)\\n  Candidate: (none)\\n' "$name" ;;
            esac; done""")
        return self

    def run(self, script: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([str(script), *arguments], env={"PATH": str(self.bin), "TMPDIR": os.environ.get("TMPDIR", "/tmp"),
                                                              **env},
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)

    def setup(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run(ROOT / "tools/setup", *arguments)


@pytest.fixture
def system(tmp_path: Path) -> System:
    return System(tmp_path)


def test_setup_is_silent_when_nothing_is_missing(system: System) -> None:
    done = system.debian([*BUILD, "esbuild"], []).setup("build")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_setup_takes_any_version_of_libclang_that_is_installed(system: System) -> None:
    installed = [name for name in BUILD if name != "libclang-dev"] + ["esbuild"]
    done = system.debian([*installed, "libclang-common-14-dev"], ["libclang-dev"]).setup("--list", "build")
    assert done.stdout == "libclang-dev\n"
    done = system.debian([*installed, "libclang-14-dev"], ["libclang-dev"]).setup("--list", "build")
    assert done.stdout == ""


def test_setup_chooses_what_the_suite_has(system: System) -> None:
    suite = [*BUILD, "clang", "libclang-rt-19-dev", "libdebuginfod1t64", "chromium", "nginx"]
    names = system.debian([], suite).setup("--list", "test").stdout.split()
    assert set(BUILD) <= set(names) <= set(suite)
    assert {"libclang-rt-19-dev", "libdebuginfod1t64", "chromium", "nginx"} <= set(names)


def test_setup_without_root_says_the_command(system: System) -> None:
    done = system.debian(["gcc"], [*BUILD, "esbuild"]).setup("build")
    rest = " ".join([*BUILD[1:], "esbuild"])
    assert done.returncode == 1
    assert f"    su -c 'apt-get install -y --no-install-recommends {rest}'\n" in done.stderr
    system.command("sudo", "exit 1")  # one that asks for a password
    assert f"    sudo apt-get install -y --no-install-recommends {rest}\n" in system.setup("build").stderr


def test_setup_without_package_lists_says_the_command(system: System) -> None:
    done = system.debian(["gcc"], []).setup("build")
    assert done.returncode == 1 and f"{ROOT}/tools/setup build" in done.stderr


def test_setup_does_without_optional_packages(system: System) -> None:
    done = system.debian(BUILD, []).setup("build")
    assert (done.returncode, done.stderr) == (0, "")
    done = system.debian(BUILD, ["esbuild"]).setup("build")
    assert done.returncode == 0 and "optional" in done.stderr and "esbuild" in done.stderr


@pytest.mark.parametrize("asks,says,package", [("rpm", "sudo dnf install", "clang-devel"),
                                               ("pacman", "sudo pacman -S --needed", "clang")])
def test_setup_on_other_systems(system: System, asks: str, says: str, package: str) -> None:
    system.command(asks, "exit 1")
    done = system.setup("build")
    assert done.returncode == 0 and f"    {says} " in done.stderr and "not tried" in done.stderr
    assert f" {package} " in done.stderr


# The page ----------------------------------------------------------------------------------------


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """What tools/build-viewer reads, to be changed at will."""
    for name in ("viewer/src", "viewer/prebuilt"):
        shutil.copytree(ROOT / name, tmp_path / "tree" / name)
    (tmp_path / "tree/tools").mkdir()
    shutil.copy(ROOT / "tools/build-viewer", tmp_path / "tree/tools")
    return tmp_path / "tree"


@pytest.mark.parametrize("esbuild", ["", "echo 'invalid target' >&2; exit 1"])
def test_page_without_esbuild(system: System, tree: Path, esbuild: str) -> None:
    """None at all, or one too old: the prebuilt page is taken, and that is said."""
    if esbuild:
        system.command("esbuild", esbuild)
    done = system.run(tree / "tools/build-viewer", "out")
    assert done.returncode == 0 and "prebuilt" in done.stderr
    for name in ("viewer.js", "viewer.css"):
        assert (tree / "out" / name).read_bytes() == (tree / "viewer/prebuilt" / name).read_bytes()


def test_changed_page_without_esbuild(system: System, tree: Path) -> None:
    """Never an old page in silence."""
    with open(tree / "viewer/src/main.ts", "a", encoding="utf-8") as out:
        out.write("// changed\n")
    done = system.run(tree / "tools/build-viewer", "out")
    assert done.returncode == 0 and "install esbuild" in done.stderr
    assert "built without its page" in (tree / "out/viewer.js").read_text()
    done = system.run(tree / "tools/build-viewer", "--check")
    assert done.returncode == 1 and "make viewer-prebuilt" in done.stderr


def test_prebuilt_page_is_of_these_sources(system: System, tree: Path) -> None:
    assert system.run(tree / "tools/build-viewer", "--check").returncode == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory to another user")
def test_the_demo_leaves_another_users_directory_alone(tmp_path: Path) -> None:
    other = tmp_path / "piano-demo"
    other.mkdir()
    (other / "theirs").write_text("kept")
    os.chown(other, 65534, 65534)
    env = {name: value for name, value in os.environ.items() if name != "PIANO_DEMO_DIR"}
    done = subprocess.run([str(ROOT / "tools/demo")], env={**env, "TMPDIR": str(tmp_path)}, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout
    assert (other / "theirs").read_text() == "kept" and (tmp_path / "piano-demo-0/game").exists()


# try-suites ----------------------------------------------------------------------------------------


def test_try_suites_refuses_what_it_does_not_know() -> None:
    done = subprocess.run([str(ROOT / "tools/try-suites"), "nosuch"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and "no suite nosuch; there are bullseye, " in done.stderr


def test_try_suites_says_that_it_needs_root() -> None:
    """Read from standard input: a normal user may be unable to read this directory."""
    as_nobody = [] if os.geteuid() else ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    text = (ROOT / "tools/try-suites").read_text().replace("__file__", "sys.argv[0]")
    done = subprocess.run([*as_nobody, "/usr/bin/python3", "-", "trixie"], input=text, capture_output=True, text=True, timeout=60,
                          check=False, cwd="/")
    assert done.returncode == 2 and "need root; type:\n    sudo " in done.stderr, done
