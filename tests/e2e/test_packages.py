"""Packaging: the parts that take seconds. tools/try-packages builds, installs and uses the real packages."""
from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import LIB, PIANO, ROOT, Project, need

PACKAGE = ROOT / "tools" / "package"
VERSION = (ROOT / "VERSION").read_text().strip()
EPOCH = {"SOURCE_DATE_EPOCH": "1700000000"}


def tree(place: Path, mode: int, time: int) -> Path:
    """The same files, created in another order, at another time, with other permissions for other users."""
    folder = place / "piano-1"
    for name in sorted(("bin/piano", "lib/a", "lib/b"), reverse=bool(mode & 0o020)):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
        path.chmod(mode if name == "bin/piano" else mode & 0o666)
        os.utime(path, (time, time))
    return folder


@pytest.mark.tool
def test_packing_is_reproducible(project: Project) -> None:
    packed = []
    for name, mode, time in (("one", 0o755, 1_600_000_000), ("two", 0o775, 1_650_000_000)):
        folder = tree(project.root / name, mode, time)
        project.command(PACKAGE / "pack", folder, project.root / f"{name}.tar.gz", env=EPOCH)
        packed.append((project.root / f"{name}.tar.gz").read_bytes())
    assert packed[0] == packed[1]
    listed = project.command("tar", "-tvzf", "one.tar.gz", "--utc").out
    assert "-rwxr-xr-x 0/0" in listed and "2023-11-14 22:13" in listed


@pytest.mark.tool
def test_objects_do_not_know_their_directory(project: Project) -> None:
    """The flags that packages are compiled with, in two directories."""
    flags = re.search(r'CFLAGS="(.*?)"', (PACKAGE / "inside").read_text())
    assert flags
    made = []
    for name in ("one", "another-directory"):
        place = project.root / name
        place.mkdir()
        project.write({f"{name}/x.c": "int f(int x) { return x + __LINE__; } const char *file = __FILE__;"})
        words = flags[1].replace("$PWD", str(place)).split()
        project.command("cc", *words, "-c", place / "x.c", "-o", "x.o", cwd=place)
        made.append((place / "x.o").read_bytes())
    assert made[0] == made[1]


@pytest.mark.tool
def test_a_later_glibc_is_refused(project: Project) -> None:
    need("objdump")
    said = project.command(PACKAGE / "check-glibc", PIANO, LIB / "libpiano.so").out
    needs = re.fullmatch(r"glibc (2\.\d+)\n", said)
    assert needs, said
    project.command(PACKAGE / "check-glibc", "--most", needs[1], PIANO)
    refused = project.command(PACKAGE / "check-glibc", "--most", "2.1", PIANO, check=False)
    assert refused.status == 1 and "later than 2.1" in refused.err


# What older glibc has too, elsewhere or in another form, but 2.36 gives a version after 2.31. The rest is weak and checked for at run time.
MOVED = re.compile(r"__libc_start_main|f?stat(at)?(64)?|lstat(64)?|mknod|dl\w+|pthread_\w+|sem_\w+|timer_\w+|mq_\w+|shm_\w+|aio_\w+|hypotf?")


@pytest.mark.tool
def test_nothing_of_a_later_glibc_is_used(project: Project) -> None:
    """piano has to compile and run with glibc 2.31."""
    need("objdump")
    if os.confstr("CS_GNU_LIBC_VERSION") != "glibc 2.36":
        pytest.skip("the list of functions that moved is that of glibc 2.36")
    later = set()
    for file in (PIANO, *LIB.glob("*.so")):
        for line in project.command("objdump", "-T", file).out.splitlines():
            found = re.search(r"^\S+ .(.).* \*UND\*\s.*\(GLIBC_2\.(\d+)\S*\)\s+(\w+)$", line)
            if found and found[1] != "w" and int(found[2]) > 31 and not MOVED.fullmatch(found[3]):
                later.add(found[3])
    assert later == set()


@pytest.mark.tool
def test_a_made_tarball_needs_no_later_glibc(project: Project) -> None:
    made = ROOT / "build/package" / f"piano-{VERSION}-linux-{os.uname().machine}.tar.gz"
    if not made.exists():
        pytest.skip(f"{made.name} is not built; `make tarball` does that")
    project.command("tar", "-xzf", made, "--strip-components=1")
    libraries = sorted((project.root / "lib/piano").glob("*.so"))
    project.command(PACKAGE / "check-glibc", "--most", "2.31", "bin/piano", *libraries)
    assert project.command("bin/piano", "--version").out == f"piano {VERSION}\n"


def sbom(project: Project, *link: str) -> dict[str, dict[str, str]]:
    project.write({"x.c": "#include <zlib.h>\nint main(void) { return zlibVersion()[0] == 0; }\n"})
    project.command("cc", "x.c", "-o", "x", "-Wl,-Map=x.map", *link)
    said = project.command(sys.executable, PACKAGE / "sbom", "--maps", ".", "--notices", "notices", "x", env=EPOCH)
    document = json.loads(said.out)
    assert document["spdxVersion"] == "SPDX-2.3" and document["creationInfo"]["created"] == "2023-11-14T22:13:20Z"
    known = {package["SPDXID"] for package in document["packages"]} | {"SPDXRef-DOCUMENT"}
    how: dict[str, set[str]] = {}
    for relation in document["relationships"]:
        assert {relation["spdxElementId"], relation["relatedSpdxElement"]} <= known
        how.setdefault(relation["relatedSpdxElement"], set()).add(relation["relationshipType"])
    return {package["name"]: {**package, "how": how.get(package["SPDXID"], set())} for package in document["packages"]}


@pytest.mark.tool
def test_the_list_of_parts_tells_linked_from_loaded(project: Project) -> None:
    need("dpkg-query")
    if subprocess.run(["cc", "-print-file-name=libz.a"], stdout=subprocess.PIPE, check=True).stdout.strip() == b"libz.a":
        pytest.skip("libz.a is not installed")
    static = sbom(project, "-Wl,-Bstatic", "-lz", "-Wl,-Bdynamic")
    assert static["zlib"]["how"] == {"STATIC_LINK"} and static["zlib"]["licenseConcluded"] == "Zlib"
    assert re.match(r"[\d:]+\.\d", static["zlib"]["versionInfo"])
    assert (project.root / "notices/zlib.txt").read_text()
    assert "DYNAMIC_LINK" in static["glibc"]["how"]
    assert static["piano"]["versionInfo"] == VERSION == static["piano-viewer"]["versionInfo"]
    shared = sbom(project, "-lz")
    assert shared["zlib"]["how"] == {"DYNAMIC_LINK"}


@pytest.mark.tool
def test_the_list_of_parts_has_the_crates(project: Project) -> None:
    need("dpkg-query")
    project.write({"x.c": "int main(void) { return 0; }\n"})
    project.command("cc", "x.c", "-o", "x", "-Wl,-Map=x.map")
    for helper, expected in (("", set()), ("x", {"proc-macro2", "quote", "syn", "unicode-ident", "rust-std"})):
        said = project.command(sys.executable, PACKAGE / "sbom", "--maps", ".", "--rust", helper, "x",
                               env={**EPOCH, "PIANO_RUSTC": "1.2.3"})
        document = json.loads(said.out)
        linked = {each["relatedSpdxElement"] for each in document["relationships"]
                  if each["spdxElementId"] == "SPDXRef-Package-piano-rust" and each["relationshipType"] == "STATIC_LINK"}
        parts = {each["name"]: each for each in document["packages"] if each["SPDXID"] in linked}
        assert set(parts) == expected
    assert all("MIT OR Apache-2.0" in each["licenseConcluded"] for each in parts.values())


def crates(project: Project, *arguments: str) -> str:
    return project.command(sys.executable, "-B", PACKAGE / "crates.py", *arguments).out


@pytest.mark.tool
def test_debian_gets_the_licences_of_the_crates(project: Project) -> None:
    project.write({"parts/unicode-ident.txt": "unicode-ident 1: LICENSE-UNICODE\n\nUNICODE LICENSE V3\n\nAs is.\n"})
    said = crates(project, "copyright", "parts")
    lock = (ROOT / "src/rust/Cargo.lock").read_text()
    known = re.findall(r'name = "(.*)"\nversion = "(.*)"\nsource', lock)
    assert len(known) >= 4
    for name, version in known:
        assert f"Files: {name}-{version}/*\n" in said
    used = set(re.findall(r"^License: (.*)\n(?=Comment)", said, re.M))
    assert used == {"Expat or Apache-2.0", "Expat or Apache-2.0, and Unicode-3.0"}
    assert "License: Unicode-3.0\n UNICODE LICENSE V3\n .\n As is.\n" in said


def copy_of_rust(place: Path) -> Path:
    shutil.copytree(ROOT / "src" / "rust", place / "src" / "rust", ignore=shutil.ignore_patterns("target"))
    return place


def test_piano_rust_does_not_know_its_directory(project: Project) -> None:
    need("cargo")
    if not (LIB / "piano-rust").exists():
        pytest.skip("piano-rust is not built: the registry of Rust's crates could not be reached")
    made = []
    for name in ("one", "another-directory"):
        place = copy_of_rust(project.root / name)
        project.command(PACKAGE / "rust", place, env=cargo_home())
        made.append((place / "build/lib/piano-rust").read_bytes())
        assert "syn 2" in (place / "build/rust-parts/syn.txt").read_text()
    assert made[0] == made[1]
    for path in (str(project.root), str(Path.home() / ".cargo")):
        assert path.encode() not in made[0]


def cargo_home() -> dict[str, str]:
    """Where cargo is: the home directory of tests is another one."""
    return {"CARGO_HOME": os.environ.get("CARGO_HOME", str(Path.home() / ".cargo")), "CARGO_NET_OFFLINE": "true",
            "RUSTUP_HOME": os.environ.get("RUSTUP_HOME", str(Path.home() / ".rustup"))}


@pytest.mark.tool
def test_packages_are_made_without_cargo(project: Project) -> None:
    place = copy_of_rust(project.root / "tree")
    project.write({"tree/build/lib/piano-rust": "of an earlier build"})
    (project.root / "bin").mkdir()
    for name in ("sh", "dirname", "rm"):
        (project.root / "bin" / name).symlink_to(need(name))
    said = project.command(PACKAGE / "rust", place, env={"PATH": str(project.root / "bin")})
    assert said.err == ("piano: there is no cargo, so the packages are without piano-rust: "
                        "their `piano build` does not work in Cargo projects\n")
    assert not (place / "build/lib/piano-rust").exists()


@pytest.mark.tool
def test_the_page_bundles_no_package_of_others() -> None:
    """If this fails, the list of parts names the package; add its licence there."""
    done = subprocess.run([sys.executable, "-c", "import runpy; print(runpy.run_path('tools/package/sbom')['scripts']())"],
                          cwd=ROOT, stdout=subprocess.PIPE, check=True)
    assert done.stdout.decode().strip() == "[]"


@pytest.mark.tool
def test_debian_reads_the_changelog(project: Project) -> None:
    need("dpkg-parsechangelog")
    said = project.command(PACKAGE / "debian-changelog", ROOT / "CHANGELOG.md", PACKAGE / "debian/control").out
    project.write({"changelog": said})
    parsed = project.command("dpkg-parsechangelog", "-l", "changelog")
    assert f"Version: {VERSION}-1\n" in parsed.out and parsed.err == ""
    assert max(map(len, said.splitlines())) <= 80
