"""tools/setup and tools/build-viewer on simulated systems: the programs that they call are scripts."""
from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from conftest import LIMIT_S, ROOT

pytestmark = pytest.mark.tool
BUILD = ["gcc", "g++", "make", "libc6-dev", "libclang-dev", "libelf-dev", "libdw-dev", "zlib1g-dev"]


class System:
    """A directory of commands that simulate installed packages and a suite's packages."""

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


def test_setup_installs_the_sanitizers_of_clang_after_a_build(system: System) -> None:
    """libclang-dev depends on libclang-common-N-dev, which has the runtime libraries only if there is no libclang-rt-N-dev."""
    installed = [*BUILD, "libclang-common-19-dev"]
    names = system.debian(installed, ["libclang-rt-19-dev", "libclang-common-19-dev"]).setup("--list", "test").stdout.split()
    assert "libclang-rt-19-dev" in names and "libclang-common-19-dev" not in names
    names = system.debian(BUILD, ["libclang-common-19-dev"]).setup("--list", "test").stdout.split()
    assert "libclang-common-19-dev" in names
    names = system.debian(installed, ["libclang-common-19-dev"]).setup("--list", "test").stdout.split()
    assert "libclang-common-19-dev" not in names


def test_setup_without_root_says_the_command(system: System) -> None:
    done = system.debian(["gcc"], [*BUILD, "esbuild"]).setup("build")
    rest = " ".join([*BUILD[1:], "esbuild"])
    assert done.returncode == 1
    assert f"    su -c 'apt-get install -y --no-install-recommends {rest}'\n" in done.stderr
    system.command("sudo", "exit 1")  # a sudo that asks for a password
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
    """The inputs of tools/build-viewer, for tests that change them."""
    for name in ("viewer/src", "viewer/prebuilt"):
        shutil.copytree(ROOT / name, tmp_path / "tree" / name)
    for name in ("tools/build-viewer", "src/tool/view/tables.def"):
        (tmp_path / "tree" / name).parent.mkdir(parents=True)
        shutil.copy(ROOT / name, tmp_path / "tree" / name)
    return tmp_path / "tree"


@pytest.mark.parametrize("esbuild", ["", "echo 'invalid target' >&2; exit 1"])
def test_page_without_esbuild(system: System, tree: Path, esbuild: str) -> None:
    """esbuild is missing or too old: the build uses the prebuilt page and prints a message."""
    if esbuild:
        system.command("esbuild", esbuild)
    done = system.run(tree / "tools/build-viewer", "out")
    assert done.returncode == 0 and "prebuilt" in done.stderr
    for name in ("viewer.js", "viewer.css"):
        assert (tree / "out" / name).read_bytes() == (tree / "viewer/prebuilt" / name).read_bytes()


def test_changed_page_without_esbuild(system: System, tree: Path) -> None:
    """Never uses an outdated page."""
    with open(tree / "viewer/src/main.ts", "a", encoding="utf-8") as out:
        out.write("// changed\n")
    done = system.run(tree / "tools/build-viewer", "out")
    assert done.returncode == 0 and "install esbuild" in done.stderr
    assert "built without its page" in (tree / "out/viewer.js").read_text()
    done = system.run(tree / "tools/build-viewer", "--check")
    assert done.returncode == 1 and "make viewer-prebuilt" in done.stderr


def test_tables_of_c_and_typescript_agree(system: System, tree: Path) -> None:
    """A column that only src/tool/view/tables.def has fails the build."""
    path = tree / "src/tool/view/tables.def"
    path.write_text(path.read_text().replace("TABLE(nodes)\n", 'TABLE(nodes)\nCOLUMN(depth, U32, PLANES, "u32")\n'))
    for argument in ("out", "--check"):
        done = system.run(tree / "tools/build-viewer", argument)
        assert done.returncode == 1 and "tables.ts differs" in done.stderr, done.stderr


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


# Runs try-suites with one step, in a chroot of this system: processes of another user, one of them a daemon that ignores signals.
STEP = r"""
import importlib.machinery, importlib.util, sys
loader = importlib.machinery.SourceFileLoader("suites", sys.argv.pop(1))
suites = importlib.util.module_from_spec(importlib.util.spec_from_loader("suites", loader))
loader.exec_module(suites)
word = sys.argv.pop(1)
suites.ENTER = 'mount --make-rprivate /; mount --bind / "$1"\n' + suites.ENTER
def go(self):
    self.step("sleep", self.inside(f"setsid sh -c 'trap : INT TERM HUP; sleep {word}; sleep {word}' & sleep {word}", 600, "daemon"))
suites.Suite.go = go
sys.exit(suites.main())
"""


def running(word: str) -> list[str]:
    """The commands of all processes with WORD in their arguments, except those of try-suites itself."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().decode("utf-8", "replace").split("\0")
        except OSError:  # it has ended
            continue
        if any(word in part for part in command) and command[0] in ("sleep", "sh"):
            found.append(" ".join(command))
    return found


def wait_until(is_done, what: str) -> None:
    end = time.monotonic() + LIMIT_S
    while not is_done():
        assert time.monotonic() < end, what
        time.sleep(0.02)


@pytest.mark.skipif(os.geteuid() != 0, reason="chroot and mount need root")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_try_suites_leaves_nothing_when_it_is_stopped(tmp_path: Path, number: signal.Signals) -> None:
    """The processes of a normal user end too, although a process that changes its user loses the signal of `unshare --kill-child`."""
    if subprocess.run(["unshare", "--mount", "--pid", "--fork", "--mount-proc", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no new mount and pid namespaces here")
    commands = tmp_path / "bin"
    commands.mkdir()
    (tmp_path / "trixie").mkdir()
    (commands / "debootstrap").write_text("#!/bin/sh\n")
    (commands / "debootstrap").chmod(0o755)
    word = f"600.{os.getpid()}{time.monotonic_ns()}"  # seconds, and unique
    tool = subprocess.Popen(["/usr/bin/python3", "-c", STEP, ROOT / "tools/try-suites", word, "--dir", tmp_path, "trixie"],
                            env={**os.environ, "PATH": f"{commands}:{os.environ['PATH']}"}, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: tool.poll() is not None or running(word).count(f"sleep {word} ") == 2, "the step has not begun")
        assert tool.poll() is None, (tool.communicate(), (tmp_path / "logs/trixie.log").read_text())
        tool.send_signal(number)
        _, err = tool.communicate(timeout=LIMIT_S)
        if number == signal.SIGKILL:
            wait_until(lambda: not running(word), f"left: {running(word)}")
        else:
            assert tool.returncode == 130 and "stopped in trixie; nothing is left running or mounted" in err, err
        assert not running(word)
    finally:
        tool.kill()
        tool.wait()
