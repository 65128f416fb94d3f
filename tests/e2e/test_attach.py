"""`piano record --pid` for heap and events: the library is brought into a process that runs already, and taken out of use again."""
from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, Iterator

import pytest

from conftest import LIMIT_S, PIANO, Project, copy_tool, need
from events import load as read_events
from heaps import compile, read
from samples import DENY, compiled
from test_own_allocator import prefixed

TURNS = 20
NOBODY = 65534
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

# Executes each line of input, and answers with a line.
PROGRAM = r"""
    #include <dlfcn.h>
    #include <poll.h>
    #include <sys/wait.h>
    static void *old[100], *kept[1000];
    static char *words[10];
    static NOINLINE void *make(size_t size) { void *p = malloc(size); KEEP(p); return p; }
    static NOINLINE void fill(void)
    {
        char text[100] = "";
        memset(text, 'x', 99);
        for (int i = 0; i < 1000; i++) kept[i] = make(64);
        for (int i = 0; i < 500; i++) free(kept[i]);
        for (int i = 0; i < 10; i++) words[i] = strndup(text, 99);
    }
    static NOINLINE void empty(void)
    {
        for (int i = 500; i < 1000; i++) free(kept[i]);
        for (int i = 0; i < 10; i++) free(words[i]);
    }
    static NOINLINE void plugin(void)
    {
        void *library = dlopen("./plugin.so", RTLD_NOW), *f = library ? dlsym(library, "plugin_make") : 0;
        if (!f) abort();
        for (int i = 0; i < 7; i++) free(((void *(*)(size_t))f)(1000));
        dlclose(library);
    }
    static NOINLINE void turns(void) { for (int i = 0; i < 5; i++) poll(0, 0, 1); }
    int main(void)
    {
        char line[64];
        for (int i = 0; i < 100; i++) old[i] = make(500);
        puts("ready");
        fflush(stdout);
        for (int at = 0; fgets(line, sizeof line, stdin); ) {
            if (line[0] == 'f') fill();
            if (line[0] == 'e') empty();
            if (line[0] == 'o') for (int n = 0; n < 10; n++) free(old[at++]);
            if (line[0] == 'p') plugin();
            if (line[0] == 't') turns();
            if (line[0] == 'k') { if (fork() == 0) { fill(); empty(); _exit(0); } wait(0); }
            if (line[0] == 'x') execl("/bin/cat", "cat", (char *)0);
            puts(line[0] == 'q' ? "bye" : "done");
            fflush(stdout);
            if (line[0] == 'q') return 7;
        }
        return 1;
    }
"""


class Running:
    """A program that answers lines."""

    def __init__(self, *command: Any, **options: Any):
        self.process = subprocess.Popen([str(c) for c in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options)
        self.pid = self.process.pid
        assert self.process.stdout.readline() == "ready\n"

    def ask(self, line: str) -> str:
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def end(self) -> int:
        assert self.ask("q") == "bye"
        return self.process.wait(LIMIT_S)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@contextlib.contextmanager
def program(*command: Any, **options: Any) -> Iterator[Running]:
    running = Running(*command, **options)
    try:
        yield running
    finally:
        running.kill()


def skip_if_refused(said: str) -> None:
    for words in ("may not be attached to", "only root may attach", "Operation not permitted"):
        if words in said:
            pytest.skip(f"ptrace is refused here: {said.strip()}")


@contextlib.contextmanager
def attached(project: Project, pid: int, *flags: Any, into: str = "x.rec", under: tuple[Any, ...] = ()) -> Iterator[subprocess.Popen]:
    """Inside, the process is recorded. Afterwards the recording is complete. What piano said is in `lines` and `rest`."""
    (project.root / into).unlink(missing_ok=True)
    tool = subprocess.Popen([*map(str, under), PIANO, "record", *map(str, flags), "--pid", str(pid), "-o", into], cwd=project.root,
                            env=project.env, stderr=subprocess.PIPE, text=True)
    said = tool.lines = []
    try:
        for line in tool.stderr:
            said.append(line)
            if "process" in line and "the process keeps running" in line:
                break
        skip_if_refused("".join(said))
        assert said and "recording process" in said[-1], said
        yield tool
        tool.send_signal(signal.SIGINT)
        _, tool.rest = tool.communicate(timeout=LIMIT_S)
        assert tool.returncode == 0 and "recording: " in tool.rest, said + [tool.rest]
    finally:
        tool.kill()
        tool.communicate()


def status(pid: int, field: str) -> str:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return line.split(":", 1)[1].strip()
    raise KeyError(field)


def built(project: Project, *flags: Any) -> Path:
    compile(project, "void *plugin_make(size_t size) { return malloc(size); }", "-shared", "-fPIC", name="plugin.so")
    return compile(project, PROGRAM, *flags)


LINKED = [(), ("-Wl,-z,now", "-Wl,-z,relro"), ("-no-pie", "-Wl,-z,lazy"), ("-fno-plt",)]


@pytest.mark.parametrize("flags", LINKED, ids=["default", "now", "no-pie", "no-plt"])
def test_attach_records_every_allocation_from_then_on(project: Project, flags: tuple[str, ...]) -> None:
    """Also counts those that the C library makes for the program (strndup). A second recording is independent of the first."""
    with program(built(project, *flags), cwd=project.root) as running:
        for turn in range(2):
            with attached(project, running.pid, "--heap=1"):
                assert running.ask("f") == "done"
                assert running.ask("o") == "done"
            heap = read(project, "x.rec")
            assert heap.made("make") == (1000, 64000) and heap.live("make") == (500, 32000), turn
            assert heap.made("fill") == (1010, 65000) and heap.live("fill") == (510, 33000), "with strndup"
            assert heap["freed_objects"] == 500 and heap["run"]["attached"] and heap["run"]["end"] == "exited"
            assert running.ask("e") == "done"
        assert running.end() == 7


def test_attach_says_that_earlier_memory_is_unknown(project: Project) -> None:
    with program(built(project), cwd=project.root) as running:
        with attached(project, running.pid, "--heap=1"):
            running.ask("f")
        assert "ran already when this recording began" in project.piano("report", "--heap", "x.rec").err


def test_attach_follows_blocks_that_are_freed_while_it_lasts(project: Project) -> None:
    with program(built(project), cwd=project.root) as running:
        with attached(project, running.pid, "--heap=1"):
            running.ask("f")
            running.ask("e")
        heap = read(project, "x.rec")
        assert heap.live("make") == (0, 0) and heap["live_bytes"] == 0
        assert not heap.lost


def test_attach_sees_libraries_that_are_loaded_later(project: Project) -> None:
    with program(built(project), cwd=project.root) as running:
        with attached(project, running.pid, "--heap=1"):
            for _ in range(3):
                running.ask("p")
        assert read(project, "x.rec").made("plugin_make") == (21, 21000)
        assert running.ask("p") == "done" and running.end() == 7


def test_attach_records_turns_of_an_event_loop(project: Project) -> None:
    with program(built(project), cwd=project.root) as running:
        for _ in range(2):
            with attached(project, running.pid, "--events"):
                running.ask("t")
            rec = read_events(project.root / "x.rec")
            assert len(rec.of("park")) == 5 and len(rec.of("unpark")) == 5
        assert running.end() == 7


def test_attach_records_everything_without_a_choice(project: Project) -> None:
    with program(built(project), cwd=project.root) as running:
        with attached(project, running.pid):
            running.ask("t")
        run = project.json("report", "--heap", "x.rec")["run"]
        assert run["attached"] and run["pid"] == running.pid


def test_attach_takes_snapshots(project: Project) -> None:
    with program(built(project), cwd=project.root) as running:
        with attached(project, running.pid, "--heap=1", "--snapshot-every", "0.02") as tool:
            running.ask("f")
            tool.send_signal(signal.SIGUSR2)
            until = time.monotonic() + LIMIT_S
            while time.monotonic() < until and not project.json("report", "--heap", "x.rec").get("snapshots", 1):
                pass
            assert project.piano("snapshot", running.pid, check=False).status == 0
        assert running.end() == 7


def test_attach_leaves_no_trace_but_the_library(project: Project) -> None:
    with program(built(project), cwd=project.root) as running:
        descriptors = sorted(os.listdir(f"/proc/{running.pid}/fd"))
        with attached(project, running.pid, "--heap=1", "--events"):
            running.ask("f")
        assert sorted(os.listdir(f"/proc/{running.pid}/fd")) == descriptors
        assert status(running.pid, "Threads") == "1" and status(running.pid, "TracerPid") == "0"
        assert status(running.pid, "SigBlk") == "0" * 16
        assert int(status(running.pid, "SigCgt"), 16) & ~(3 << 31) == 0, "but what the C library sets for its threads"
        mapped = Path(f"/proc/{running.pid}/maps").read_text()
        assert "x.rec" not in mapped and "libpiano.so" in mapped
        with attached(project, running.pid, "--heap=1", "--events"):
            running.ask("e")
        again = Path(f"/proc/{running.pid}/maps").read_text()
        assert again.count("libpiano.so") == mapped.count("libpiano.so"), "the same library"
        assert running.end() == 7


def test_attach_to_a_process_that_forks_records_only_that(project: Project) -> None:
    with program(built(project), cwd=project.root) as running:
        with attached(project, running.pid, "--heap=1"):
            running.ask("k")
            running.ask("f")
        assert read(project, "x.rec").made("make") == (1000, 64000)
        assert running.end() == 7


@pytest.mark.parametrize("way", ["exec", "kill"])
def test_attach_ends_with_the_program(project: Project, way: str) -> None:
    with program(built(project), cwd=project.root) as running:
        tool = None
        with contextlib.ExitStack() as stack:
            tool = stack.enter_context(attached(project, running.pid, "--heap=1"))
            running.ask("f")
            if way == "kill":
                running.process.kill()
            else:
                running.process.stdin.write("x\n")
                running.process.stdin.flush()
            assert tool.wait(LIMIT_S) == 0
        assert read(project, "x.rec").made("make") == (1000, 64000)


def test_a_killed_piano_leaves_the_program_alone(project: Project) -> None:
    """The library notices that piano was killed. A second recording works."""
    with program(built(project), cwd=project.root) as running:
        with contextlib.suppress(AssertionError):
            with attached(project, running.pid, "--heap=1", "--events") as tool:
                running.ask("f")
                tool.kill()
                tool.wait()
        until = time.monotonic() + LIMIT_S
        while status(running.pid, "Threads") != "1" and time.monotonic() < until:
            running.ask("t")
        assert status(running.pid, "Threads") == "1" and "x.rec" not in Path(f"/proc/{running.pid}/maps").read_text()
        running.ask("e")
        with attached(project, running.pid, "--heap=1"):
            running.ask("f")
        assert read(project, "x.rec").made("make") == (1000, 64000)
        assert running.end() == 7


def test_a_piano_killed_at_any_moment_leaves_the_program_alone(project: Project) -> None:
    """Also while a thread of the program runs piano's instructions: the thread returns without piano."""
    with program(built(project), cwd=project.root) as running:
        with attached(project, running.pid, "--events", into="first.rec"):
            pass  # or skip
        for turn in range(TURNS):
            (project.root / "x.rec").unlink(missing_ok=True)
            tool = subprocess.Popen([PIANO, "record", "--heap=1", "--pid", str(running.pid), "-o", "x.rec"], cwd=project.root,
                                    env=project.env, stderr=subprocess.DEVNULL)
            until = time.monotonic() + 0.001 * turn
            while time.monotonic() < until:
                pass
            tool.kill()
            tool.wait()
            assert running.ask("f") == "done" and running.ask("e") == "done", turn
        assert running.end() == 7


def test_attach_sees_operators_of_an_allocator(project: Project) -> None:
    """jemalloc's operators do not call malloc."""
    library = next(iter(Path("/usr/lib").glob("*-linux-gnu/libjemalloc.so.2")), None)
    if library is None:
        pytest.skip("jemalloc is not installed")
    source = r"""
        struct Thing { char bytes[48]; };
        static NOINLINE void things(Thing **kept) { for (int i = 0; i < 100; i++) { kept[i] = new Thing; KEEP(kept[i]); } }
        static NOINLINE void arrays() { for (int i = 0; i < 50; i++) { char *p = new char[200]; KEEP(p); delete[] p; } }
        static NOINLINE void plain() { for (int i = 0; i < 10; i++) { void *p = malloc(70); KEEP(p); free(p); } }
        int main()
        {
            static Thing *kept[100];
            char line[8];
            puts("ready");
            fflush(stdout);
            while (fgets(line, sizeof line, stdin)) {
                if (line[0] == 'n') { things(kept); arrays(); plain(); }
                if (line[0] == 'd') for (int i = 0; i < 60; i++) delete kept[i];
                puts(line[0] == 'q' ? "bye" : "done");
                fflush(stdout);
                if (line[0] == 'q') return 7;
            }
        }
    """
    with program(compile(project, source, cxx=True), cwd=project.root, env={**os.environ, "LD_PRELOAD": str(library)}) as running:
        for _ in range(2):
            with attached(project, running.pid, "--heap=1"):
                running.ask("n")
                running.ask("d")
            heap = read(project, "x.rec")
            assert heap.made("things") == (100, 4800) and heap.live("things") == (40, 1920)
            assert heap.made("arrays") == (50, 10000) and heap.live("arrays") == (0, 0) and heap.made("plain") == (10, 700)
        assert running.end() == 7


def interrupted() -> None:
    """The next program starts with a pending SIGINT."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    os.kill(os.getpid(), signal.SIGINT)


def test_an_interrupt_before_piano_has_attached_ends_it(project: Project) -> None:
    with program(built(project), cwd=project.root) as running:
        done = subprocess.run([PIANO, "record", "--heap", "--pid", str(running.pid), "-o", "x.rec"], cwd=project.root, env=project.env,
                              stderr=subprocess.PIPE, text=True, preexec_fn=interrupted, timeout=LIMIT_S, check=False)
        skip_if_refused(done.stderr)
        assert done.returncode == 1 and "interrupted before the recording began" in done.stderr
        assert not (project.root / "x.rec").exists() and status(running.pid, "Threads") == "1"
        assert running.end() == 7


# Namespaces -------------------------------------------------------------------------------------------------


@AS_ROOT
def test_attach_into_other_namespaces(project: Project) -> None:
    """The process sees neither piano nor the recording, and has another process id there."""
    words = [need("unshare"), "--mount", "--pid", "--net", "--uts", "--ipc", "--fork", "--kill-child", "--mount-proc"]
    if subprocess.run([*words, "true"], capture_output=True, check=False).returncode:
        pytest.skip("unshare is not permitted here")
    here = built(project)
    hidden = project.root / "hidden"
    hidden.mkdir()
    script = f"cp {here} /dev/shm/prog-$$ && mount -t tmpfs none {project.root} && exec /dev/shm/prog-$$"
    with program(*words, "sh", "-c", script, cwd="/") as running:
        inner = int(Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()[0])
        try:
            assert not Path(f"/proc/{inner}/root{project.root}/x.rec").parent.joinpath("prog").exists()
            with attached(project, inner, "--heap=1"):
                running.ask("f")
            assert read(project, "x.rec")["allocated_objects"] == 1010
            assert running.end() == 7
        finally:
            for left in Path("/dev/shm").glob("prog-*"):
                left.unlink()


# Refusals ---------------------------------------------------------------------------------------------------


def refused(project: Project, pid: int, *flags: str) -> str:
    done = project.piano("record", *(flags or ("--heap",)), "--pid", pid, "-o", "no.rec", check=False)
    skip_if_refused(done.err) if "another user" not in done.err else None
    assert done.status == 1 and done.out == "" and not (project.root / "no.rec").exists(), done
    return done.err


def test_attach_to_no_process_fails(project: Project) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert f"there is no process {gone.pid}" in refused(project, gone.pid)


def test_attach_to_a_zombie_fails(project: Project) -> None:
    zombie = subprocess.Popen(["true"])
    os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
    assert "zombie" in refused(project, zombie.pid)
    zombie.wait()


def test_attach_to_a_stopped_process_fails(project: Project) -> None:
    with program(built(project), cwd=project.root) as running:
        running.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, running.pid, os.WSTOPPED | os.WNOWAIT)
        said = refused(project, running.pid)
        running.process.send_signal(signal.SIGCONT)
        assert "is stopped" in said and "kill -CONT" in said
        assert running.end() == 7


def test_attach_to_a_traced_process_names_the_tracer(project: Project) -> None:
    strace = need("strace")
    with program(built(project), cwd=project.root) as running:
        tracer = subprocess.Popen([strace, "-p", str(running.pid), "-o", "/dev/null"], stderr=subprocess.PIPE, text=True)
        try:
            if "attached" not in tracer.stderr.readline():
                pytest.skip("strace may not attach here")
            assert f"traced already, by strace (process {tracer.pid})" in refused(project, running.pid)
        finally:
            tracer.kill()
            tracer.communicate()


def test_attach_to_a_thread_names_its_process(project: Project) -> None:
    source = """
        static void *rest(void *p) { for (;;) pause(); }
        int main(void)
        {
            pthread_t t;
            pthread_create(&t, 0, rest, 0);
            puts("ready");
            fflush(stdout);
            rest(0);
        }
    """
    with program(compile(project, source), cwd=project.root) as running:
        other = max(int(t) for t in os.listdir(f"/proc/{running.pid}/task"))
        assert f"is a thread of process {running.pid}" in refused(project, other)


def test_attach_to_a_static_program_fails(project: Project) -> None:
    with program(compile(project, 'int main(void) { puts("ready"); fflush(stdout); for (;;) pause(); }', "-static")) as running:
        assert "statically linked" in refused(project, running.pid)


def test_attach_without_a_choice_samples_the_cpu_where_nothing_can_be_loaded(project: Project) -> None:
    source = 'int main(void) { puts("ready"); fflush(stdout); for (;;) pause(); }'
    with program(compile(project, source, "-static")) as running:
        done = project.piano("record", "--pid", running.pid, "--duration", "0.1", "-o", "x.rec", check=False)
        if "perf" in done.err:
            pytest.skip("no perf events here: " + done.err)
        assert done.status == 0 and "only the CPU is sampled" in done.err and "statically linked" in done.err


def test_attach_to_a_forked_child_of_an_attached_process(project: Project) -> None:
    """The library is loaded already, and its calls are redirected already."""
    source = PROGRAM.replace("{ fill(); empty(); _exit(0); } wait(0); }", "{ dup2(3, 0); dup2(4, 1); continue; } }")
    here = compile(project, source)
    to_child, from_child = os.pipe(), os.pipe()

    def place() -> None:
        os.dup2(to_child[0], 3)
        os.dup2(from_child[1], 4)
    with program(here, cwd=project.root, preexec_fn=place, close_fds=False) as running:
        with attached(project, running.pid, "--heap=1"):
            running.ask("k")
            child = int(Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()[0])
        answers = os.fdopen(from_child[0])
        try:
            with attached(project, child, "--heap=1"):
                os.write(to_child[1], b"f\n")
                assert answers.readline() == "done\n"
            assert read(project, "x.rec").made("make") == (1000, 64000)
            assert running.end() == 7
        finally:
            os.kill(child, signal.SIGKILL)
            answers.close()
            for fd in (*to_child, from_child[1]):
                os.close(fd)


OWN_MALLOC = r"""
    #include <poll.h>
    static char room[1 << 24];
    static size_t at;
    void *malloc(size_t size) { size_t n = (size + 31) & ~15; return room + __atomic_fetch_add(&at, n, __ATOMIC_RELAXED); }
    void free(void *p) { (void)p; }
    void *calloc(size_t n, size_t size) { return malloc(n * size); }
    void *realloc(void *p, size_t size) { void *q = malloc(size); if (p && q) memcpy(q, p, size); return q; }
    int main(void)
    {
        struct pollfd input = {.events = POLLIN};
        char line[8] = "";
        puts("ready");
        fflush(stdout);
        while (poll(&input, 1, -1) == 1 && read(0, line, 2) == 2 && line[0] != 'q') {
            puts("done");
            fflush(stdout);
        }
        puts("bye");
        fflush(stdout);
        return 7;
    }
"""


def test_heap_of_a_program_with_its_own_malloc_is_refused(project: Project) -> None:
    with program(compile(project, OWN_MALLOC)) as running:
        for flags in (("--heap",), ("--heap", "--events"), ("--heap", "--cpu")):
            said = refused(project, running.pid, *flags)
            assert "malloc of its own in its executable" in said and "try: --events or --cpu" in said
        assert running.ask("a") == "done" and running.end() == 7


def test_events_of_a_program_with_its_own_malloc_are_recorded(project: Project) -> None:
    """Its allocator is left alone. Without a choice, the heap alone is left out."""
    with program(compile(project, OWN_MALLOC), cwd=project.root) as running:
        for flags, said in ((("--events",), ""), ((), "the heap is not recorded: ")):
            with attached(project, running.pid, *flags) as tool:
                for _ in range(3):
                    assert running.ask("a") == "done"
                assert any(said in line for line in tool.lines) and not any("only the CPU" in line for line in tool.lines)
            rec = read_events(project.root / "x.rec")
            assert len(rec.of("unpark")) >= 2 and not rec.flags & 1, "events, and no heap"
        assert running.end() == 7


PREFIXED = r"""
    #include <poll.h>
    void *je_malloc(size_t);
    static void *kept[100000];
    int main(void)
    {
        char line[8];
        int at = 0;
        puts("ready");
        fflush(stdout);
        while (fgets(line, sizeof line, stdin) && line[0] != 'q') {
            for (int i = 0; i < 100; i++) kept[at++] = je_malloc(1000);
            poll(0, 0, 1);
            puts("done");
            fflush(stdout);
        }
        puts("bye");
        fflush(stdout);
        return 7;
    }
"""


def test_heap_of_a_program_with_a_prefixed_allocator_is_refused(project: Project) -> None:
    """malloc is that of the C library, so only the library in the process sees the other one."""
    with program(compile(project, PREFIXED, prefixed(project), "-ldl", "-lm"), cwd=project.root) as running:
        said = refused(project, running.pid, "--heap")
        assert "has an allocator of its own in its executable" in said and "try: --events or --cpu" in said
        with attached(project, running.pid) as tool:
            assert running.ask("a") == "done" and running.ask("a") == "done"  # it waits between the two
            assert any("the heap is not recorded: " in line for line in tool.lines)
        assert read_events(project.root / "x.rec").of("park")
        assert running.end() == 7


def test_heap_of_a_stripped_program_with_its_own_allocator_is_refused(project: Project) -> None:
    """The allocator's own messages give it away."""
    notice = "prog has an allocator of its own (jemalloc) that piano cannot see: heap figures are unknown (its symbols are stripped)"
    with program(compile(project, PREFIXED, prefixed(project), "-ldl", "-lm", "-s"), cwd=project.root) as running:
        said = refused(project, running.pid, "--heap")
        assert notice in said and "try: --events or --cpu" in said
        assert running.ask("a") == "done"
        with attached(project, running.pid) as tool:
            assert any(notice in line for line in tool.lines), "at once"
            assert running.ask("a") == "done"
        heap = read(project, "x.rec")
        assert heap["live_bytes"] is None and heap["run"]["own_allocator"] == "jemalloc" and heap.sites == []
        assert running.end() == 7


def test_attach_again_while_a_thread_waits_since_the_last_recording(project: Project) -> None:
    """It waits in a hook, through which it will return."""
    source = OWN_MALLOC[:OWN_MALLOC.index("static char room")] + OWN_MALLOC[OWN_MALLOC.index("int main"):]
    with program(compile(project, source), cwd=project.root) as running:
        for _ in range(3):
            with attached(project, running.pid, "--events", "--heap=1"):
                # The thread waits between the two answers; after the second, the recording may end before it waits again.
                assert running.ask("a") == "done" and running.ask("a") == "done"
            assert read_events(project.root / "x.rec").of("park")
        assert running.ask("a") == "done" and running.end() == 7


def test_recording_says_why_there_are_no_cpu_samples(project: Project) -> None:
    """At the end and in the report, also for a process that ran already."""
    deny = compiled(project, DENY, name="deny")
    with program(built(project), cwd=project.root) as running:
        with attached(project, running.pid, under=(deny,)) as tool:
            running.ask("f")
        assert "no CPU samples: perf events are forbidden here" in tool.rest
        done = project.piano("report", "x.rec")
        assert "no CPU samples" in done.out + done.err
        assert running.end() == 7


def test_attach_to_a_32_bit_program_fails(project: Project) -> None:
    project.write({"small.c": 'int puts(const char *); int fflush(void *); int pause(void);\n'
                              'int main(void) { puts("ready"); fflush(0); for (;;) pause(); }'})
    if project.command("gcc", "-m32", "-w", "small.c", "-o", "small", check=False).status:
        pytest.skip("gcc makes no 32-bit programs here")
    with program(project.root / "small") as running:
        assert "32-bit" in refused(project, running.pid)


def test_attach_to_a_musl_program_fails(project: Project) -> None:
    gcc = need("musl-gcc")
    project.write({"m.c": '#include <stdio.h>\n#include <unistd.h>\nint main(void) { puts("ready"); fflush(stdout); for (;;) pause(); }'})
    project.command(gcc, "m.c", "-o", "m")
    with program(project.root / "m") as running:
        assert "uses musl" in refused(project, running.pid)


SECCOMP = r"""
    #include <stddef.h>
    #include <linux/filter.h>
    #include <linux/seccomp.h>
    #include <sys/prctl.h>
    #include <sys/syscall.h>
    int main(void)
    {
        struct sock_filter code[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FORBIDDEN, 0, 1),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog filter = {4, code};
        char line[8];
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) return 1;
        puts("ready");
        fflush(stdout);
        while (fgets(line, sizeof line, stdin) && line[0] != 'q') { free(malloc(100)); puts("done"); fflush(stdout); }
        puts("bye");
        return 7;
    }
"""


def test_attach_to_a_filtered_process_is_refused_or_safe(project: Project) -> None:
    """A filter that would kill the process for a call that piano needs: piano names the call and changes nothing. Only root can read
    filters."""
    with program(compile(project, "#define FORBIDDEN SYS_memfd_create\n" + SECCOMP)) as running:
        said = refused(project, running.pid)
        assert "refuses memfd_create" in said or "may not read" in said
        assert running.ask("a") == "done" and running.end() == 7
    with program(compile(project, "#define FORBIDDEN SYS_mount\n" + SECCOMP)) as running:
        if os.geteuid() != 0:
            assert "may not read" in refused(project, running.pid)
        else:
            with attached(project, running.pid, "--heap=1"):
                assert running.ask("a") == "done"
            assert read(project, "x.rec")["allocated_objects"] == 1
        assert running.end() == 7


def test_attach_without_room_for_thread_local_storage_fails(project: Project) -> None:
    """Another library that was loaded late uses up the C library's reserve of static TLS."""
    for size in range(1600, 0, -100):  # the size of the reserve depends on the version of the C library
        compile(project, f"""
            static __thread char room[{size}] __attribute__((tls_model("initial-exec")));
            void *plugin_make(size_t size) {{ room[size % 7]++; return malloc(size); }}""", "-shared", "-fPIC", name="plugin.so")
        here = compile(project, PROGRAM.replace("dlclose(library);", "(void)library;").replace("if (!f) abort();", "if (!f) exit(3);"))
        with program(here, cwd=project.root) as running:
            if running.ask("p") != "done":
                continue
            said = refused(project, running.pid)
            assert "static TLS block" in said and "  try: " in said
            assert running.ask("f") == "done" and running.ask("e") == "done" and running.end() == 7
            return
    pytest.skip("no library with thread-local storage can be loaded late here")


def test_attach_to_a_process_that_only_runs_generated_code_fails(project: Project) -> None:
    """Like code of a just-in-time compiler: piano cannot trust its stacks. piano tries for ten seconds."""
    if os.uname().machine != "x86_64":
        pytest.skip("the instruction is one of x86-64")
    source = r"""
        #include <sys/mman.h>
        int main(void)
        {
            unsigned char *code = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            memcpy(code, "\xf3\x90\xeb\xfc", 4); /* pause; jmp */
            mprotect(code, 4096, PROT_READ | PROT_EXEC);
            puts("ready");
            fflush(stdout);
            ((void (*)(void))code)();
        }
    """
    with program(compile(project, source)) as running:
        said = refused(project, running.pid)
        assert "never at a point where a library can be loaded" in said and "just-in-time" in said or "cannot be walked" in said
        assert running.process.poll() is None and status(running.pid, "TracerPid") == "0"


@contextlib.contextmanager
def readable(project: Project, *files: Path) -> Iterator[Path]:
    """A directory with piano and FILES that everyone may read."""
    home = Path("/tmp") / f"piano-attach-{os.getpid()}"
    copy_tool(home)
    try:
        for file in files:
            shutil.copy(file, home)
        home.chmod(0o755)
        yield home
    finally:
        shutil.rmtree(home)


def as_nobody() -> list[Any]:
    return [need("setpriv"), "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]


@AS_ROOT
def test_attach_to_another_users_process_fails(project: Project) -> None:
    with readable(project) as home, program(built(project), cwd=project.root) as running:
        done = project.command(*as_nobody(), home / "piano", "record", "--heap", "--pid", running.pid, "-o", "/tmp/none.rec",
                               check=False, cwd=Path("/tmp"))
        assert done.status == 1 and "belongs to another user" in done.err and "  try: " in done.err, done
        assert running.end() == 7


@AS_ROOT
@pytest.mark.parametrize("scope, said, cure", [
    (1, "kernel.yama.ptrace_scope is 1: only root may attach to process", "the same as root, or: sudo sysctl kernel.yama.ptrace_scope=0"),
    (2, "kernel.yama.ptrace_scope is 2: only root may attach to process", "the same as root"),
    (3, "kernel.yama.ptrace_scope is 3: no process may be attached to", "a start with `piano record PROGRAM`")])
def test_ptrace_scope_is_named(project: Project, scope: int, said: str, cure: str) -> None:
    """Another file takes the place of the kernel's, and a filter refuses ptrace, as this setting does."""
    unshare, mount = need("unshare"), need("mount")
    if subprocess.run([unshare, "--mount", "true"], capture_output=True, check=False).returncode:
        pytest.skip("unshare is not permitted here")
    deny = compiled(project, DENY.replace("SYS_perf_event_open", "SYS_ptrace"), name="deny")
    with readable(project, deny, built(project)) as home:
        (home / "kernel" / "yama").mkdir(parents=True)
        (home / "kernel" / "yama" / "ptrace_scope").write_text(f"{scope}\n")
        with program(*as_nobody(), home / "prog", cwd="/tmp") as running:
            script = f"{mount} --bind {home}/kernel /proc/sys/kernel && exec \"$@\""
            done = project.command(unshare, "--mount", "sh", "-c", script, "sh", *as_nobody(), home / "deny", home / "piano", "record",
                                   "--heap", "--pid", running.pid, "-o", "/tmp/none.rec", check=False, cwd=Path("/tmp"))
            assert done.status == 1 and said in done.err and f"try: {cure}" in done.err, done
            assert running.end() == 7


def test_a_process_started_by_piano_is_not_attached_to(project: Project) -> None:
    tool = subprocess.Popen([PIANO, "record", "--heap", "-o", "a.rec", "--", "./prog"], cwd=project.root, env=project.env,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) \
        if built(project) else None
    try:
        assert tool.stdout.readline() == "ready\n"
        child = int(Path(f"/proc/{tool.pid}/task/{tool.pid}/children").read_text().split()[0])
        assert "is recorded already" in refused(project, child)
        tool.stdin.write("q\n")
        tool.stdin.flush()
        assert tool.stdout.readline() == "bye\n" and tool.wait(LIMIT_S) == 7
    finally:
        tool.kill()
        tool.communicate()


def test_two_recordings_of_one_process_at_once_fail(project: Project) -> None:
    with program(built(project), cwd=project.root) as running:
        with attached(project, running.pid, "--heap=1"):
            assert "is recorded already" in refused(project, running.pid)
            running.ask("f")
        assert read(project, "x.rec").made("make") == (1000, 64000)
        assert running.end() == 7
