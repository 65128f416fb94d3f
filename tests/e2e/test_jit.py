"""Code that a program generates at run time: its names from the runtime's files, and stacks through it."""
from __future__ import annotations

import os
import platform
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any, Iterator

import pytest

import heaps
from conftest import PIANO, Done, Project, need
from samples import DENY, compiled
from test_cpu import REFUSED

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the tests make code for x86-64")
PERF = pytest.mark.skipif(bool(REFUSED), reason=f"perf events are refused here: {REFUSED}")
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
NOBODY = 65534
ALL = "7f0000000000 ffffffffff"  # a line of a map for the address that mmap returned

# A runtime. It creates loops that count to a number, or call back, in its own mappings. Its arguments are commands.
#   map       writes /tmp/perf-PID.map; appends the following text unchanged
#   dump      writes jit-PID.dump: `first` is loaded at A, moved to B, then `second` is loaded at A
#   heap      allocates through code at A
#   trampoline  calls through code at A that makes no frame
RUNTIME = r"""
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
typedef long fn(long);
/* push rbp; mov rbp, rsp; mov rax, rdi; 1: dec rax; jnz 1b; pop rbp; ret */
static const unsigned char loop[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x89, 0xf8, 0x48, 0xff, 0xc8, 0x75, 0xfb, 0x5d, 0xc3};
/* push rbp; mov rbp, rsp; call rsi; pop rbp; ret */
static const unsigned char back[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd6, 0x5d, 0xc3};
/* mov rax, rdi; 1: dec rax; jnz 1b; ret */
static const unsigned char leaf[] = {0x48, 0x89, 0xf8, 0x48, 0xff, 0xc8, 0x75, 0xfb, 0xc3};
/* push rbp; mov ebp, 1; call rsi; pop rbp; ret */
static const unsigned char trampoline[] = {0x55, 0xbd, 1, 0, 0, 0, 0xff, 0xd6, 0x5d, 0xc3};
static unsigned char *code, *place_b, *other;
char *volatile kept[64];
__attribute__((noinline)) long call(void *f, long n) { long r = ((fn *)f)(n); __asm__ volatile(""); return r + 1; }
__attribute__((noinline)) long allocate(long n) { kept[n] = malloc(1000); __asm__ volatile(""); return n; }
__attribute__((noinline)) long spin(long n) { for (volatile long i = 0; i < n; i++); return n; }
__attribute__((noinline)) long through(long n) { return ((long (*)(long, fn *))(void *)code)(n, spin) + 1; }
static FILE *dump;
static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}
static void put(const void *bytes, size_t len) { fwrite(bytes, 1, len, dump); }
static void load(const char *name, uint64_t at, uint64_t index)
{
    uint32_t head[2] = {0, 16 + 40 + strlen(name) + 1 + sizeof loop}, who[2] = {getpid(), getpid()};
    uint64_t time = now(), rest[4] = {at, at, sizeof loop, index};
    put(head, 8), put(&time, 8), put(who, 8), put(rest, 32), put(name, strlen(name) + 1), put(loop, sizeof loop);
    fflush(dump);
}
static void lines(uint64_t at)
{
    static const char file[] = "made.src", same[] = "\xff";
    uint32_t head[2] = {2, 16 + 16 + 2 * 16 + sizeof file + sizeof same}, l1[2] = {70, 0}, l2[2] = {71, 0};
    uint64_t time = now(), rest[2] = {at, 2}, a1 = at, a2 = at + 7;
    put(head, 8), put(&time, 8), put(rest, 16), put(&a1, 8), put(l1, 8), put(file, sizeof file);
    put(&a2, 8), put(l2, 8), put(same, sizeof same);
}
static void move(uint64_t from, uint64_t to, uint64_t index)
{
    uint32_t head[2] = {1, 16 + 48}, who[2] = {getpid(), getpid()};
    uint64_t time = now(), rest[5] = {to, from, to, sizeof loop, index};
    put(head, 8), put(&time, 8), put(who, 8), put(rest, 40);
    fflush(dump);
}
static void run(void *f, int times) { while (times-- > 0) call(f, 10000000); }
static void dump_and_run(int times)
{
    char path[64];
    uint32_t head[6] = {0x4a695444, 1, 40, 62, 0, getpid()};
    uint64_t rest[2] = {now(), 0};
    snprintf(path, sizeof path, "jit-%d.dump", getpid());
    dump = fopen(path, "w+");
    put(head, 24), put(rest, 16), fflush(dump);
    mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(dump), 0);
    lines((uint64_t)code), load("first", (uint64_t)code, 1);
    run(code, 2 * times);
    memcpy(place_b, loop, sizeof loop);
    move((uint64_t)code, (uint64_t)place_b, 1);
    run(place_b, times);
    load("second", (uint64_t)code, 2);
    run(code, times);
}
int main(int argc, char **argv)
{
    code = mmap(0, 1 << 16, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    other = mmap(0, 1 << 16, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    place_b = code + 4096;
    memcpy(code, loop, sizeof loop);
    memcpy(code + 256, loop, sizeof loop);
    memcpy(other, leaf, sizeof leaf);
    if (argc > 1 && strcmp(argv[1], "map") == 0) {
        char path[64];
        snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
        FILE *f = fopen(path, "w");
        fprintf(f, "%lx %zx first function\n0x%lx 0x%zx second()\n", (long)code, sizeof loop, (long)code + 256, sizeof loop);
        for (int i = 2; i < argc; i++)
            fprintf(f, argv[i], (long)code);
        fclose(f);
        puts("ready"), fflush(stdout);
    }
    if (argc > 1 && strcmp(argv[1], "heap") == 0) {
        char path[64];
        snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
        FILE *f = fopen(path, "w");
        fprintf(f, "%lx %zx made_to_allocate\n", (long)code, sizeof back);
        fclose(f);
        memcpy(code, back, sizeof back);
        for (long i = 0; i < 64; i++)
            ((long (*)(long, fn *))(void *)code)(i, allocate);
        return 0;
    }
    if (argc > 1 && strcmp(argv[1], "dump") == 0) {
        dump_and_run(25);
        return 0;
    }
    if (argc > 1 && strcmp(argv[1], "trampoline") == 0) {
        memcpy(code, trampoline, sizeof trampoline);
        for (int i = 0; i < 60; i++)
            through(4000000);
        return 0;
    }
    for (int i = 0; i < (getenv("LONG") ? 100 : 1); i++)
        run(code, 60), run(code + 256, 20);
    if (argc > 1 && strcmp(argv[1], "leaf") == 0)
        run(other, 60);
    return 0;
}
"""


@pytest.fixture
def runtime(project: Project) -> Path:
    return compiled(project, RUNTIME, "-O1", "-g", name="runtime")


@pytest.fixture(autouse=True)
def no_maps_stay() -> Iterator[None]:
    """Maps are named after their process. Removes those of processes that ended during a test."""
    before = set(Path("/tmp").glob("perf-*.map"))
    yield
    for path in set(Path("/tmp").glob("perf-*.map")) - before:
        if not Path(f"/proc/{path.stem[5:]}").exists() and path.is_file() and path.stat().st_uid == os.geteuid():
            path.unlink()


def recorded(project: Project, *command: Any, flags: tuple = ("--cpu=499",), **options: Any) -> Done:
    (project.root / "x.rec").unlink(missing_ok=True)
    return project.piano("record", *flags, "-o", "x.rec", "--", *command, **options)


def functions(project: Project) -> dict[str, Any]:
    """The functions of JIT code, and their shares of the time of all of them."""
    found = {f["name"]: f for f in project.json("report", "--cpu", "x.rec")["functions"] if f["module"] == "[JIT]"}
    total = sum(f["self_ns"] for f in found.values())
    return {name: {**f, "share": f["self_ns"] / total} for name, f in found.items()}


def pid_of(project: Project) -> int:
    return project.json("report", "--cpu", "x.rec")["run"]["pid"]


def forget(project: Project) -> None:
    """Removes the files that the runtime left."""
    Path(f"/tmp/perf-{pid_of(project)}.map").unlink(missing_ok=True)
    for path in project.root.glob("jit-*.dump"):
        path.unlink()


def jit_stacks(project: Project, name: str) -> list[list[str]]:
    data = project.json("report", "--cpu", "--tree", "x.rec")
    found: list[list[str]] = []

    def walk(node: dict[str, Any], above: list[str]) -> None:
        path = above + [node["function"]]
        if node["function"] == name:
            found.append(path)
        for child in node["children"]:
            walk(child, path)

    walk(data["tree"], [])
    return found


# Names ----------------------------------------------------------------------------------------------------


@PERF
@pytest.mark.timing
def test_a_map_names_the_functions_and_shares_are_those_of_the_work(project: Project, runtime: Path) -> None:
    recorded(project, runtime, "map")
    forget(project)  # the names are in the recording
    found = functions(project)
    assert set(found) == {"first function", "second()"}
    assert 0.65 < found["first function"]["share"] < 0.85
    assert jit_stacks(project, "second()")[0][-3:] == ["run", "call", "second()"]


@pytest.mark.timing
def test_names_without_perf_events(project: Project, runtime: Path) -> None:
    deny = compiled(project, DENY, name="deny")
    (project.root / "x.rec").unlink(missing_ok=True)
    project.command(deny, PIANO, "record", "--cpu=499", "-o", "x.rec", "--", runtime, "map")
    forget(project)
    found = functions(project)
    assert set(found) == {"first function", "second()"} and 0.6 < found["first function"]["share"] < 0.9


@PERF
def test_code_without_names_is_one_function(project: Project, runtime: Path) -> None:
    recorded(project, runtime)
    assert set(functions(project)) == {"[JIT code of runtime]"}
    assert jit_stacks(project, "[JIT code of runtime]")[0][-3:] == ["run", "call", "[JIT code of runtime]"]


@PERF
def test_a_function_without_a_frame_has_its_caller(project: Project, runtime: Path) -> None:
    """A leaf function in a mapping: the return address is at the stack pointer."""
    recorded(project, runtime, "leaf")
    assert [s[-3:] for s in jit_stacks(project, "[JIT code of runtime]")] == [["run", "call", "[JIT code of runtime]"]]
    cpu = project.json("report", "--cpu", "x.rec")["cpu"]
    assert cpu["unwound"] == cpu["samples"]


@PERF
def test_a_trampoline_without_a_frame_has_its_caller(project: Project, runtime: Path) -> None:
    """It calls with eight bytes on the stack, and the frame pointer leads nowhere: as those of CPython."""
    recorded(project, runtime, "trampoline")
    data = project.json("report", "--cpu", "--tree", "x.rec")
    found, node = [], data["tree"]
    while node["children"]:
        node = max(node["children"], key=lambda child: child["ns"])
        found.append(node["function"])
    assert found[-4:] == ["main", "through", "[JIT code of runtime]", "spin"]
    assert data["cpu"]["unwound"] == data["cpu"]["samples"]


@PERF
@pytest.mark.timing
def test_a_dump_names_by_time(project: Project, runtime: Path) -> None:
    """The code at A is `first` for two quarters, then `second` for one; `first` at B has one quarter too. The same
    addresses, called from the same place, are two functions."""
    recorded(project, runtime, "dump")
    for kept in (False, True):
        if kept:
            forget(project)
        found = functions(project)
        assert set(found) == {"first", "second"}, kept
        assert 0.65 < found["first"]["share"] < 0.85, found
    assert found["first"]["file"] == "made.src"
    tree = project.json("report", "--cpu", "--tree", "x.rec")["tree"]
    while tree["function"] != "call":
        tree = tree["children"][0]
    assert {(c["function"], c["line"]) for c in tree["children"]} >= {("first", 71)}


@PERF
def test_the_last_line_of_a_map_counts(project: Project, runtime: Path) -> None:
    """The runtime appends a line when it reuses memory. Invalid lines are skipped, and so is the last one if
    it is incomplete because the program was killed while it wrote."""
    recorded(project, runtime, "map", "%1$lx e newest\n", "zz 12 x\n%1$lx\n%1$lx e\n 12 e x\n\n%1$lx ffffffffffffffffffff e\n"
             "ffffffffffffffff ff high\n%1$lx 0 empty\n", "%1$lx e not_whole")
    assert set(functions(project)) == {"newest", "second()"}


@PERF
def test_the_map_of_a_child(project: Project, runtime: Path) -> None:
    recorded(project, "sh", "-c", f"{runtime} map; {runtime}; true")
    for kept in (False, True):
        names = set(functions(project))
        assert names == {"first function", "second()", "[JIT code of runtime]"}, kept
        for process in project.json("report", "--cpu", "x.rec")["processes"]:
            Path(f"/tmp/perf-{process['pid']}.map").unlink(missing_ok=True)


@PERF
def test_without_names_in_the_recording_the_map_is_read(project: Project, runtime: Path) -> None:
    recorded(project, runtime, "map")
    path = project.root / "x.rec"
    data = bytearray(path.read_bytes())
    chunks = int.from_bytes(data[40:48], "little")
    for number in range(chunks):
        at = 4096 + number * 65536
        if int.from_bytes(data[at:at + 4], "little") == 11:
            data[at:at + 4] = (99).to_bytes(4, "little")
    path.write_bytes(data)
    assert set(functions(project)) == {"first function", "second()"}
    forget(project)
    assert set(functions(project)) == {"[JIT code of runtime]"}


# Hostile files -----------------------------------------------------------------------------------------------


@PERF
@pytest.mark.parametrize("what", ["fifo", "link", "folder", "noise", "other user", "a plain file"])
def test_hostile_maps_are_refused(project: Project, runtime: Path, what: str) -> None:
    """Anyone can create a file with that name in /tmp: piano does not follow, wait for or trust it."""
    if what == "other user" and os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    trap = project.root / "trap"
    trap.write_text(ALL + " evil\n")
    project.write({"start.sh": f"""
        map=/tmp/perf-$$.map
        rm -f $map
        case "{what}" in
        fifo) mkfifo $map ;;
        link) ln -s {trap} $map ;;
        folder) mkdir $map ;;
        noise) head -c 100000 /dev/urandom > $map ;;
        "other user") cp {trap} $map; chown {NOBODY} $map ;;
        "a plain file") cp {trap} $map ;;
        esac
        exec {runtime}
    """})
    recorded(project, "sh", "start.sh")
    path = Path(f"/tmp/perf-{pid_of(project)}.map")
    try:
        (name,) = functions(project)
        if what == "a plain file":
            assert name == "evil", "what the other files would have led to"
        else:
            assert name.startswith("[JIT code of "), "the program was a shell, and is not any more"
        if what == "other user":
            assert f"{path} belongs to another user" in project.piano("report", "--cpu", "x.rec").err
    finally:
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()


@PERF
def test_a_map_of_a_later_process_is_not_used(project: Project, runtime: Path) -> None:
    """The process id is reused. Lines written after the recording ended belong to another process."""
    recorded(project, runtime)
    path = Path(f"/tmp/perf-{pid_of(project)}.map")
    path.write_text(ALL + " other\n")
    try:
        began = int.from_bytes((project.root / "x.rec").read_bytes()[56:64], "little") / 1e9
        for days, name in ((-1, "[JIT code of runtime]"), (0, "other"), (1, "[JIT code of runtime]")):
            os.utime(path, (began + 86400 * days,) * 2)
            assert set(functions(project)) == {name}, days
    finally:
        path.unlink()


@PERF
def test_a_number_that_is_used_again_is_another_process(project: Project, runtime: Path) -> None:
    """The recording ended long before this running process was started, so its map does not belong to the recording."""
    recorded(project, runtime)
    old = pid_of(project)
    child = subprocess.Popen([runtime, "map"], stdout=subprocess.PIPE, text=True, env={**os.environ, "LONG": "1"})
    try:
        assert child.stdout.readline() == "ready\n"
        path = project.root / "x.rec"
        data = path.read_bytes().replace(old.to_bytes(4, "little"), child.pid.to_bytes(4, "little"))
        start = int.from_bytes(data[56:64], "little")
        map = Path(f"/tmp/perf-{child.pid}.map")
        map.write_text(ALL + " other\n")
        path.write_bytes(data[:56] + (start - 3600 * 10**9).to_bytes(8, "little") + data[64:])
        assert set(functions(project)) == {"[JIT code of runtime]"}
        path.write_bytes(data[:56] + (start + 3600 * 10**9).to_bytes(8, "little") + data[64:])
        assert set(functions(project)) == {"other"}, "it ended after that process was started"
    finally:
        child.kill()
        child.wait()


# The heap ---------------------------------------------------------------------------------------------------


def test_heap_stacks_go_through_made_code(project: Project, runtime: Path) -> None:
    _, heap = heaps.record(project, runtime, "heap")
    Path(f"/tmp/perf-{heap['run']['pid']}.map").unlink()
    (site,) = heaps.read(project, "out.rec").through("allocate")
    assert heaps.names(site)[:3] == ["allocate", "made_to_allocate", "main"] and not site["truncated"]
    assert site["live_bytes"] == 64000


# Runtimes -----------------------------------------------------------------------------------------------------

SCRIPT = """
function spend(n) { let x = 1; for (let i = 0; i < n; i++) x = (x * 1103515245 + 12345) % 2147483648; return x; }
function threeParts() { return spend(3e6) + 1; }
function onePart() { return spend(1e6) + 2; }
let sum = 0;
for (let i = 0; i < 60; i++) sum += threeParts() + onePart();
if (sum === 0) console.log(sum);
"""


@PERF
@pytest.mark.timing
def test_node_names_its_functions(project: Project) -> None:
    node = need("node")
    project.write({"app.js": SCRIPT})
    recorded(project, node, "--perf-basic-prof", "--interpreted-frames-native-stack", "app.js", cwd=project.root)
    forget(project)
    found = {f["name"]: f for f in project.json("report", "--cpu", "x.rec")["functions"]}
    assert {"spend", "threeParts", "onePart"} <= set(found)
    assert found["spend"]["file"].endswith("app.js")
    share = found["threeParts"]["total_ns"] / (found["threeParts"]["total_ns"] + found["onePart"]["total_ns"])
    assert 0.6 < share < 0.9


JAVA = """
public class Spend {
    static long spend(long n) { long x = 1; for (long i = 0; i < n; i++) x = (x * 1103515245L + 12345) % 2147483648L; return x; }
    static long threeParts() { return spend(300000) + 1; }
    static long onePart() { return spend(100000) + 2; }
    public static void main(String[] words) {
        long sum = 0;
        for (int i = 0; i < 1000; i++) sum += threeParts() + onePart();
        if (sum == 0) System.out.println(sum);
    }
}
"""


def total_of(project: Project, name: str) -> int:
    """CPU time of the functions whose names contain NAME, with what they call."""
    return sum(f["total_ns"] for f in project.json("report", "--cpu", "x.rec")["functions"] if name in f["name"])


def shares(project: Project) -> float:
    three, one = total_of(project, "threeParts"), total_of(project, "onePart")
    assert three and one, [f["name"] for f in project.json("report", "--cpu", "x.rec")["functions"]]
    return three / (three + one)


@PERF
def test_java_names_its_functions(project: Project) -> None:
    """From 17 on, HotSpot writes a map at its end. With frame pointers, stacks go through its code."""
    java, javac = need("java"), need("javac")
    flags = ("-XX:+UnlockDiagnosticVMOptions", "-XX:+DumpPerfMapAtExit", "-XX:+PreserveFramePointer", "-XX:CompileCommand=quiet",
             "-XX:CompileCommand=dontinline,Spend.*", "-XX:CompileCommand=compileonly,Spend.*", "-Xcomp", "-Xlog:disable")
    project.write({"Spend.java": JAVA})
    project.command(javac, "Spend.java")
    if project.command(java, *flags, "-version", check=False).status:
        pytest.skip("this Java writes no map: it is older than 17, or has another virtual machine")
    recorded(project, java, *flags, "-cp", project.root, "Spend")
    forget(project)
    assert 0.6 < shares(project) < 0.9
    stacks = jit_stacks(project, next(f for f in functions(project) if "Spend.spend" in f))
    assert any("Spend.main" in caller for stack in stacks for caller in stack), stacks


PYTHON = """
def spend(n):
    x = 1
    for i in range(n):
        x = (x * 1103515245 + 12345) % 2147483648
    return x
def threeParts(): return spend(300000) + 1
def onePart(): return spend(100000) + 2
total = 0
for i in range(20):
    total += threeParts() + onePart()
"""


def python(project: Project) -> str:
    """A CPython that writes a map, or a skip. pyenv has versions that are not in the path."""
    names = [f"python3.{minor}" for minor in (12, 13, 14)]
    found = [path for path in map(shutil.which, [*names, "python3"]) if path]
    if shutil.which("pyenv"):
        found += [path for name in names for path in project.command("pyenv", "whence", "--path", name, check=False).out.split()]
    for path in found:
        done = project.command(path, "-X", "perf", "-c", "import sys; print(sys.executable, sys.is_stack_trampoline_active())", check=False)
        if done.status == 0 and done.out.split()[-1:] == ["True"]:
            return done.out.split()[0]
    pytest.skip("there is no Python 3.12 or later with `-X perf`")


@PERF
def test_python_names_its_functions(project: Project) -> None:
    """The interpreter makes a trampoline for each function. --kernel: samples from outside, which do not know Python."""
    interpreter = python(project)
    project.write({"app.py": PYTHON})
    recorded(project, interpreter, "-X", "perf", "app.py", flags=("--cpu=499", "--kernel"), cwd=project.root)
    forget(project)
    assert 0.6 < shares(project) < 0.9
    stacks = jit_stacks(project, "spend")
    assert {"threeParts", "<module>"} < set(stacks[0]) or {"onePart", "<module>"} < set(stacks[0]), stacks
    cpu = project.json("report", "--cpu", "x.rec")["cpu"]
    assert cpu["unwound"] > 0.9 * cpu["samples"], "through trampolines without a frame"


@PERF
def test_luajit_is_one_function_without_names(project: Project) -> None:
    """Distributions build it without the map."""
    lua = need("luajit")
    project.write({"app.lua": "local x = 1\nfor i = 1, 3e8 do x = (x * 16807) % 2147483647 end\nif x == 0 then print(x) end\n"})
    recorded(project, lua, "app.lua", cwd=project.root)
    forget(project)
    found = functions(project)
    assert found and all(name.startswith(("[JIT code of luajit", "TRACE_")) for name in found), found


GO = """
package main

import "os"

//go:noinline
func spend(n int) int { x := 1; for i := 0; i < n; i++ { x = x*1103515245 + 12345 }; return x }

//go:noinline
func outer(n int) int { return spend(n) + 1 }

func main() {
    sum := 0
    for i := 0; i < 100; i++ { sum += outer(5000000) }
    done := make(chan int)
    go func() { done <- outer(300000000) }()
    if sum+<-done == 0 { os.Exit(3) }
}
"""


@PERF
def test_stacks_of_go_are_whole(project: Project) -> None:
    """A goroutine begins at runtime.goexit; its stack is complete."""
    go = shutil.which("go")
    if not go:
        pytest.skip("go is not installed")
    project.write({"main.go": GO})
    home = project.root / "go"
    subprocess.run([go, "build", "-o", "app", "main.go"], cwd=project.root, check=True, capture_output=True,
                   env={**os.environ, "GOCACHE": str(home), "GOFLAGS": "-mod=mod", "GO111MODULE": "off"})
    recorded(project, project.root / "app")
    cpu = project.json("report", "--cpu", "x.rec")["cpu"]
    assert cpu["unwound"] >= 0.9 * cpu["samples"] > 20
    for s in jit_stacks(project, "main.spend"):
        assert s[1] == "runtime.goexit" and s[-2:] == ["main.outer", "main.spend"], s
    assert "truncated" not in project.piano("report", "--cpu", "x.rec").err


# Containers -----------------------------------------------------------------------------------------------------


@PERF
@AS_ROOT
def test_the_map_of_a_process_with_its_own_tmp(project: Project, runtime: Path) -> None:
    """In a container, the file is in another /tmp, and named after the process id in the container."""
    unshare = need("unshare")
    probe = subprocess.run([unshare, "--mount", "--pid", "--fork", "true"], capture_output=True)
    if probe.returncode != 0:
        pytest.skip("no namespaces can be made here")
    folder = Path("/var/tmp") if str(project.root).startswith("/tmp") else project.root
    program = folder / f"piano-test-runtime-{os.getpid()}"
    shutil.copy(runtime, program)
    script = f"mount -t tmpfs none /tmp && exec {program} map"
    child = subprocess.Popen([unshare, "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script],
                             stdout=subprocess.PIPE, text=True, env={**os.environ, "LONG": "1"})
    try:
        assert child.stdout.readline() == "ready\n"
        pid = Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()[0]
        project.piano("record", "--cpu=499", "--pid", pid, "--duration", "0.5", "-o", "x.rec")
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
        program.unlink()
    found = set(functions(project))
    assert found and found <= {"first function", "second()"}
