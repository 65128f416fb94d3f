"""`piano record --cpu`: samples from outside, their stacks, waits, processes and threads; and refused commands.

samples.py reads the recordings, byte by byte."""
from __future__ import annotations

import os
import re
import shutil
import signal
import struct
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any, Iterator

import pytest

from conftest import LIMIT_S, PIANO, Done, Project, copy_tool, need
from samples import (CPU, DENY, HAS_CPU, HAS_HEAP, LONG, OFF, PREEMPTED, SHARES, SMALL, TOOL_STACK, WORK, Recording, Sample,
                     compiled, shares)

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
NOBODY = 65534


def perf_refused() -> str:
    """The reason why perf events are not available; empty if they are."""
    done = subprocess.run([PIANO, "doctor"], capture_output=True, text=True)
    found = re.search(r"^(\S+)\s+perf events: (.*)", done.stdout, re.M)
    return "" if found and "cpu-clock" in found[2] or found and "cycles" in found[2] else found[2] if found else "unknown"


REFUSED = perf_refused()
pytestmark = pytest.mark.skipif(bool(REFUSED), reason=f"perf events are refused here: {REFUSED}")


def record(project: Project, *words: Any, flags: tuple = ("--cpu=499",), name: str = "x.rec",
           **options: Any) -> tuple[Recording, Done]:
    done = project.piano("record", *flags, "-o", name, "--", *words, **options)
    return Recording(project.root / name), done


# Time on the CPU -----------------------------------------------------------------------------------------


@pytest.mark.timing
@pytest.mark.parametrize("flags", [SMALL, ("-O0", "-fno-omit-frame-pointer"), ("-O2", "-static")],
                         ids=["no-frame-pointer", "O0", "static"])
def test_shares_of_cpu_time_match_the_work(project: Project, flags: tuple) -> None:
    (project.root / "x.rec").unlink(missing_ok=True)
    rec, done = record(project, compiled(project, SHARES, *flags), LONG)
    found = shares(rec, "a", "b")
    assert 0.65 < found["a"] < 0.85, (found, done)
    assert rec.flags & HAS_CPU and rec.source in (1, 2) and rec.hz == 499 and rec.lost == 0
    assert rec.samples_said == len(rec.kind(CPU)) > 20
    whole = [s for s in rec.kind(CPU) if s.stack_flags == 0]
    assert len(whole) >= 0.95 * len(rec.kind(CPU)) and rec.unwound == len(whole)
    chains = Counter(tuple(s.names[:3]) for s in rec.kind(CPU))
    assert chains[("burn", "a", "main")] > chains[("burn", "b", "main")] > 0, chains
    assert rec.program == str(project.root / "prog") and rec.exit_status == 1


@pytest.mark.timing
def test_stacks_are_walked_in_stripped_programs(project: Project) -> None:
    """Without symbols the addresses are the same, because the unwind tables are not symbols."""
    (project.root / "x.rec").unlink(missing_ok=True)
    program = compiled(project, SHARES)
    plain = shutil.copy(program, project.root / "symbols")
    project.command("strip", program)
    rec, _ = record(project, program, LONG)
    rec.modules = [(*m[:5], str(plain) if m[5] == str(program) else m[5]) for m in rec.modules]
    found = shares(rec, "a", "b")
    assert 0.65 < found["a"] < 0.85, found
    assert all("main" in s.names for s in rec.kind(CPU) if "burn" in s.names)


@pytest.mark.timing
def test_samples_add_up_to_the_cpu_time(project: Project) -> None:
    (project.root / "x.rec").unlink(missing_ok=True)
    program = compiled(project, WORK + r"""
        #include <time.h>
        int main(void)
        {
            struct timespec t;
            for (int i = 0; i < 100; i++) a(1000000);
            clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
            printf("%lld\n", t.tv_sec * 1000000000LL + t.tv_nsec);
        }
    """)
    rec, done = record(project, program)
    assert abs(sum(s.value for s in rec.kind(CPU)) / int(done.out) - 1) < 0.15
    assert all(rec.start_ns <= s.at_ns <= rec.end_ns for s in rec.samples)


def test_kernel_frames_come_before_those_of_the_program(project: Project) -> None:
    program = compiled(project, r"""
        #include <fcntl.h>
        #include <unistd.h>
        static char block[1 << 20];
        int main(void)
        {
            int fd = open("/dev/zero", O_RDONLY);
            for (int i = 0; i < 4000; i++)
                (void)!read(fd, block, sizeof block);
        }
    """)
    rec, done = record(project, program, flags=("--cpu=499", "--kernel"))
    if "own code only" in done.err:
        pytest.skip("the kernel's part is refused here")
    inside = [s for s in rec.kind(CPU) if s.names and s.names[0] == "kernel"]
    assert len(inside) > len(rec.kind(CPU)) / 2
    assert any("main" in s.names for s in inside)
    for s in inside:  # all kernel frames come before all frames of the program
        names = s.names
        assert "kernel" not in names[names.count("kernel"):]
    rec, _ = record(project, program, name="y.rec")
    assert not any("kernel" in s.names for s in rec.samples)
    assert any("main" in s.names for s in rec.kind(CPU)), "time in the kernel is the program's"


def test_stacks_pass_through_signal_handlers(project: Project) -> None:
    rec, _ = record(project, compiled(project, WORK + r"""
        #include <signal.h>
        static void handler(int n) { a(60000000); }
        __attribute__((noinline)) void interrupted(void) { raise(SIGUSR1); __asm__ volatile(""); }
        int main(void) { signal(SIGUSR1, handler); interrupted(); __asm__ volatile(""); return 0; }
    """))
    inside = [s for s in rec.kind(CPU) if "handler" in s.names]
    assert inside
    for s in inside:
        names = s.names
        assert names.index("handler") < names.index("interrupted") < names.index("main"), names
        assert s.stack_flags == 0


# Threads and processes -----------------------------------------------------------------------------------


def test_samples_belong_to_their_threads(project: Project) -> None:
    rec, _ = record(project, compiled(project, WORK + r"""
        #include <pthread.h>
        static void *one(void *n) { pthread_setname_np(pthread_self(), "one"); a(60000000); return n; }
        static void *two(void *n) { pthread_setname_np(pthread_self(), "two"); b(180000000); return n; }
        int main(void)
        {
            pthread_t x, y;
            pthread_create(&x, 0, one, 0);
            pthread_create(&y, 0, two, 0);
            pthread_join(x, 0);
            pthread_join(y, 0);
        }
    """))
    for s in rec.kind(CPU):
        name = rec.threads[s.tid][1]
        assert s.pid == rec.pid
        if "a" in s.names:
            assert name == "one" and "one" in s.names
        elif "b" in s.names:
            assert name == "two" and "two" in s.names
    assert {rec.threads[s.tid][1] for s in rec.kind(CPU)} >= {"one", "two"}


TREE = WORK + r"""
#include <sys/wait.h>
int main(int argc, char **argv)
{
    if (argc > 1)
        return b(100000000) == 0;
    printf("%d\n", getpid());
    fflush(stdout);
    if (fork() == 0) {
        printf("%d\n", getpid());
        fflush(stdout);
        a(40000000);
        _exit(0);
    }
    if (fork() == 0) {
        printf("%d\n", getpid());
        fflush(stdout);
        execl("./other", "other", "b", (char *)0);
        _exit(1);
    }
    while (wait(0) > 0);
}
"""


@pytest.mark.parametrize("flags", [("--cpu=499",), ("--cpu=499", "--heap=1M")], ids=["alone", "with-heap"])
def test_samples_belong_to_their_processes(project: Project, flags: tuple) -> None:
    program = compiled(project, TREE)
    shutil.copy(program, project.root / "other")
    rec, done = record(project, program, flags=flags)
    first, *children = map(int, done.out.split())
    of = {pid: Counter(f for s in rec.kind(CPU) if s.pid == pid for f in s.names) for pid in children}
    assert rec.pid == first
    forked, executed = sorted(children, key=lambda pid: -of[pid]["a"])
    assert of[forked]["a"] and not of[forked]["b"] and of[forked]["main"]
    assert of[executed]["b"] and not of[executed]["a"] and of[executed]["main"]
    assert rec.threads[executed][1] == "other"
    paths = {m[5] for m in rec.modules}
    assert str(project.root / "other") in paths and str(program) in paths


def test_libraries_loaded_at_the_same_address_keep_their_names(project: Project) -> None:
    """A library that is loaded at the address of a closed one: samples in both keep their names."""
    project.write({"one.c": WORK + "void work(void) { a(40000000); }", "two.c": WORK + "void work(void) { b(120000000); }"})
    for name in "one", "two":
        project.command("gcc", "-O2", "-w", "-fno-optimize-sibling-calls", "-shared", "-fPIC", name + ".c", "-o", name + ".so")
    rec, _ = record(project, compiled(project, r"""
        #include <dlfcn.h>
        int main(void)
        {
            const char *names[] = {"./one.so", "./two.so"};
            for (int i = 0; i < 2; i++) {
                void *handle = dlopen(names[i], RTLD_NOW);
                void (*work)(void) = (void (*)(void))dlsym(handle, "work");
                work();
                dlclose(handle);
            }
        }
    """))
    for s in rec.kind(CPU):
        if "work" not in s.names:
            continue
        of = {Path(rec.module(pc - 1, rec.stacks[s.stack][1])[5]).name for pc in rec.stacks[s.stack][2][:2]}
        assert of == ({"one.so"} if "a" in s.names else {"two.so"}), s.names
    assert {"one.so", "two.so"} <= {Path(m[5]).name for m in rec.modules}


# Off the CPU ---------------------------------------------------------------------------------------------


SLEEPER = WORK + r"""
#include <time.h>
__attribute__((noinline)) void nap(void)
{
    struct timespec t = {0, 50000000};
    nanosleep(&t, 0);
    __asm__ volatile("");
}
int main(void)
{
    for (int i = 0; i < 6; i++) {
        a(3000000);
        nap();
    }
}
"""


def naps_of(rec: Recording) -> list[Sample]:
    return [s for s in rec.kind(OFF) if not s.flags & PREEMPTED and s.value >= 40e6]


@pytest.mark.timing
def test_sleeps_are_recorded_as_off_cpu_time(project: Project) -> None:
    (project.root / "x.rec").unlink(missing_ok=True)
    rec, done = record(project, compiled(project, SLEEPER))
    naps = naps_of(rec)
    assert len(naps) == 6 and rec.switches >= 6
    assert all(50e6 <= s.value < 100e6 for s in naps), [s.value for s in naps]
    if "own code only" in done.err:
        pytest.skip("where threads wait is refused here")
    for s in naps:
        assert s.names.index("nap") < s.names.index("main") and s.stack_flags == 0
    assert all("a" in s.names for s in rec.kind(CPU) if "burn" in s.names)


def test_waits_and_work_do_not_overlap(project: Project) -> None:
    """A thread has no CPU sample within the time that it was off the CPU."""
    rec, _ = record(project, compiled(project, SLEEPER))
    for off in rec.kind(OFF):
        inside = [s for s in rec.kind(CPU)
                  if s.tid == off.tid and off.at_ns < s.at_ns < off.at_ns + off.value]
        assert not inside


def test_thread_that_sleeps_until_the_end_has_one_off_cpu_sample(project: Project) -> None:
    rec, _ = record(project, compiled(project, r"""
        #include <pthread.h>
        #include <signal.h>
        #include <unistd.h>
        static void *waits(void *n) { pthread_setname_np(pthread_self(), "waits"); pause(); return n; }
        int main(void)
        {
            pthread_t t;
            pthread_create(&t, 0, waits, 0);
            usleep(200000);
            kill(getpid(), 9);
        }
    """), check=False)
    # The thread runs for a moment when it is killed; only the kernel knows how long it waited.
    found = [s for s in rec.kind(OFF) if rec.threads[s.tid][1] == "waits"]
    assert len(found) == 1 and (found[0].value == 0 or found[0].value > 100e6)
    assert rec.exit_status == 1 + 9


@pytest.mark.timing
def test_many_context_switches_are_counted_and_sampled(project: Project) -> None:
    """Two processes that only wake each other: all switches are counted, some have stacks."""
    (project.root / "x.rec").unlink(missing_ok=True)
    rec, done = record(project, compiled(project, r"""
        #include <sys/wait.h>
        #include <unistd.h>
        int main(void)
        {
            int there[2], back[2];
            char c = 0;
            pipe(there);
            pipe(back);
            if (fork() == 0) {
                for (int i = 0; i < 50000; i++) { read(there[0], &c, 1); write(back[1], &c, 1); }
                _exit(0);
            }
            for (int i = 0; i < 50000; i++) { write(there[1], &c, 1); read(back[0], &c, 1); }
            wait(0);
        }
    """))
    assert rec.switches > 50000
    assert rec.lost == 0, done
    assert len(rec.kind(OFF)) < rec.switches / 2


# Other contents of the recording ----------------------------------------------------------------------------


def test_nothing_is_lost_at_999_hz(project: Project) -> None:
    rec, _ = record(project, compiled(project, WORK + r"""
        #include <pthread.h>
        static void *work(void *n) { for (int i = 0; i < 40; i++) a(5000000); return n; }
        int main(void)
        {
            pthread_t t[2];
            for (int i = 0; i < 2; i++) pthread_create(&t[i], 0, work, 0);
            for (int i = 0; i < 2; i++) pthread_join(t[i], 0);
        }
    """), flags=("--cpu=999",))
    assert rec.lost == 0 and len(rec.kind(CPU)) > 100


def test_lost_samples_are_counted(project: Project) -> None:
    """The tool is stopped while the program runs: its rings overflow, and it reports the losses."""
    program = compiled(project, WORK + r"""
        int main(void)
        {
            printf("go\n");
            fflush(stdout);
            (void)!getchar();
            for (int i = 0; i < 60; i++) a(5000000);
            printf("done\n");
            fflush(stdout);
            (void)!getchar();
        }
    """)
    tool = subprocess.Popen([PIANO, "record", "--cpu=4999", "-o", "x.rec", "--", str(program)], cwd=project.root,
                            env=project.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert tool.stdout.readline() == b"go\n"
        os.kill(tool.pid, signal.SIGSTOP)
        tool.stdin.write(b"\n")
        tool.stdin.flush()
        assert tool.stdout.readline() == b"done\n"
        os.kill(tool.pid, signal.SIGCONT)
        _, err = tool.communicate(b"\n", LIMIT_S)
    finally:
        os.kill(tool.pid, signal.SIGCONT) if tool.poll() is None else None
        tool.kill()
        tool.wait()
    rec = Recording(project.root / "x.rec")
    assert rec.lost > 0
    assert f"{rec.lost} lost" in err.decode()


def test_heap_and_cpu_are_in_one_recording(project: Project) -> None:
    rec, done = record(project, compiled(project, WORK + r"""
        static char *held[1000];
        int main(void)
        {
            for (int i = 0; i < 1000; i++) held[i] = malloc(4096);
            a(60000000);
            return held[5] == 0;
        }
    """), flags=("--cpu=499", "--heap=4K"))
    assert rec.flags & HAS_CPU and rec.flags & HAS_HEAP
    assert any("a" in s.names and "main" in s.names for s in rec.kind(CPU))
    heap = [n for n in rec.stacks if not n & TOOL_STACK]
    assert heap and all(s.stack == 0 or s.stack & TOOL_STACK for s in rec.samples)
    assert "CPU samples (" in done.err and "live at the end" in done.err


def test_stacks_are_walked_in_programs_linked_by_gold(project: Project) -> None:
    """Its tables for stacks come before their header instead of after it."""
    need("ld.gold")
    rec, done = record(project, compiled(project, SHARES, *SMALL, "-fuse-ld=gold"))
    samples = [s for s in rec.kind(CPU) if "burn" in s.names]
    assert len(samples) > 20 and sum(s.names[-1] == "_start" or "main" in s.names for s in samples) >= 0.95 * len(samples), done
    assert sum(s.stack_flags == 0 for s in samples) >= 0.95 * len(samples)


def test_exec_chains_end_in_one_recording(project: Project) -> None:
    program = compiled(project, SHARES)
    rec, _ = record(project, "env", "A=1", "sh", "-c", f"exec {program}", flags=("--cpu=499", "--heap=64M"))
    assert [p.name for p in project.root.glob("x.rec*")] == ["x.rec"]
    assert Path(rec.program).name == "prog"
    assert shares(rec, "a", "b")["a"] > 0.5


def test_record_without_flags_records_everything(project: Project) -> None:
    rec, _ = record(project, compiled(project, SHARES), flags=())
    assert rec.flags & HAS_CPU and rec.flags & HAS_HEAP and rec.hz == 99


def test_cpu_alone_loads_nothing(project: Project) -> None:
    done = project.piano("record", "--cpu", "-o", "x.rec", "--", "env")
    names = {line.split("=")[0] for line in done.out.splitlines()}
    assert not {n for n in names if n.startswith("PIANO_")} and "LD_PRELOAD" not in names


def test_a_program_that_ends_at_once(project: Project) -> None:
    rec, done = record(project, "true", flags=("--cpu",))
    assert rec.samples_said == len(rec.kind(CPU)) <= 1
    assert rec.exit_status == 1 and rec.command[0] == b"true" or rec.command == [b""]


def test_exit_status_and_signals_are_passed_on(project: Project) -> None:
    done = project.piano("record", "--cpu", "-o", "x.rec", "--", "sh", "-c", "exit 7", check=False)
    assert done.status == 7
    done = project.piano("record", "--cpu", "-o", "y.rec", "--", "sh", "-c", "kill -9 $$", check=False)
    assert done.status == 128 + 9


@AS_ROOT
def test_setuid_program_is_sampled_by_root(project: Project) -> None:
    """The kernel disables the prepared events at such an exec; root enables them again after it."""
    program = compiled(project, SHARES)
    os.chown(program, NOBODY, NOBODY)
    program.chmod(0o4755)
    rec, _ = record(project, program)
    assert any("a" in s.names for s in rec.kind(CPU))


# A running process -------------------------------------------------------------------------------------------


@pytest.fixture
def running(project: Project) -> Iterator[subprocess.Popen]:
    program = compiled(project, WORK + r"""
        #include <pthread.h>
        static void *old(void *n) { pthread_setname_np(pthread_self(), "old"); for (;;) a(1000000); return n; }
        static void *late(void *n) { pthread_setname_np(pthread_self(), "late"); a(40000000); return n; }
        int main(void)
        {
            pthread_t t, u;
            pthread_create(&t, 0, old, 0);
            printf("ready\n");
            fflush(stdout);
            for (;;) {
                usleep(10000);
                pthread_create(&u, 0, late, 0);
                pthread_join(u, 0);
            }
        }
    """)
    process = subprocess.Popen([program], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"ready\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_attach_samples_a_running_process(project: Project, running: subprocess.Popen) -> None:
    done = project.piano("record", "--cpu=499", "--pid", running.pid, "--duration", "1", "-o", "x.rec")
    assert running.poll() is None, "it goes on"
    rec = Recording(project.root / "x.rec")
    assert rec.pid == running.pid and rec.program == str(project.root / "prog") and rec.state == 4
    names = {rec.threads[s.tid][1] for s in rec.kind(CPU)}
    assert {"old", "late"} <= names, "threads that were there, and those that came"
    burns = [s for s in rec.kind(CPU) if "burn" in s.names]
    whole = [s for s in burns if s.stack_flags == 0]
    assert all(s.names[:2] == ["burn", "a"] for s in whole), [s.names for s in whole if s.names[:2] != ["burn", "a"]]
    assert len(whole) >= 0.95 * len(burns) > 20, [(s.names, s.stack_flags) for s in burns if s.stack_flags]
    assert any("main" in s.names for s in rec.kind(OFF) if s.tid == running.pid) or "own code only" in done.err


@pytest.mark.timing
def test_attach_counts_every_thread_once(project: Project, running: subprocess.Popen) -> None:
    """As much CPU time as in /proc, although threads start and end while the events are opened."""
    (project.root / "x.rec").unlink(missing_ok=True)
    def used() -> float:
        fields = Path(f"/proc/{running.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    before = used()
    project.piano("record", "--cpu=499", "--pid", running.pid, "--duration", "1", "-o", "x.rec")
    rec = Recording(project.root / "x.rec")
    assert sum(s.value for s in rec.kind(CPU)) / 1e9 < 1.1 * (used() - before) + 0.05


def wait_for(tool: subprocess.Popen, word: bytes) -> None:
    """Waits until TOOL has printed WORD. Before it, the tool lists what it may not sample for this user."""
    said = []
    for line in tool.stderr:
        said.append(line)
        if word in line:
            return
    raise AssertionError(said)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_attach_ends_with_a_signal(project: Project, running: subprocess.Popen, number: int) -> None:
    tool = subprocess.Popen([PIANO, "record", "--cpu", "--pid", str(running.pid), "-o", "x.rec"], cwd=project.root,
                            env=project.env, stderr=subprocess.PIPE)
    try:
        wait_for(tool, b"sampling process")
        tool.send_signal(number)
        _, err = tool.communicate(timeout=LIMIT_S)
    finally:
        tool.kill()
        tool.wait()
    assert tool.returncode == 0 and b"recording: x.rec" in err
    assert running.poll() is None
    Recording(project.root / "x.rec")


def test_attach_ends_with_the_process(project: Project, running: subprocess.Popen) -> None:
    tool = subprocess.Popen([PIANO, "record", "--cpu", "--pid", str(running.pid), "-o", "x.rec"], cwd=project.root,
                            env=project.env, stderr=subprocess.PIPE)
    try:
        wait_for(tool, b"sampling process")
        running.kill()
        tool.communicate(timeout=LIMIT_S)
    finally:
        tool.kill()
        tool.wait()
    assert tool.returncode == 0


def test_attach_to_a_missing_process_fails(project: Project) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    done = project.piano("record", "--cpu", "--pid", gone.pid, check=False)
    assert done.status == 1 and f"there is no process {gone.pid}" in done.err
    assert not list(project.root.glob("**/*.rec"))


@AS_ROOT
def test_attach_without_permission_fails(project: Project, running: subprocess.Popen) -> None:
    project.root.chmod(0o777)
    home = Path("/tmp") / f"piano-{os.getpid()}"
    copy_tool(home)
    try:
        done = project.command(need("setpriv"), "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", home / "piano",
                               "record", "--cpu", "--pid", running.pid, "-o", "/tmp/none.rec", check=False, cwd=Path("/tmp"))
    finally:
        shutil.rmtree(home)
    assert done.status == 1 and not Path("/tmp/none.rec").exists()
    assert "may not be sampled" in done.err or "cannot sample the CPU" in done.err, done
    assert "  try: " in done.err


# Without perf events ---------------------------------------------------------------------------------------


def test_attach_fails_when_perf_events_are_refused(project: Project) -> None:
    """piano cannot sample a running process without perf. test_cpu_timers.py tests programs that piano starts."""
    deny = compiled(project, DENY, name="deny")
    done = project.command(deny, PIANO, "record", "--cpu", "-o", "x.rec", "--pid", "1", check=False)
    assert done.status == 1 and done.out == ""
    assert "cannot sample the CPU: perf events are forbidden here" in done.err and "  try: " in done.err
    assert not (project.root / "x.rec").exists()


# Command lines ---------------------------------------------------------------------------------------------


@pytest.mark.tool
@pytest.mark.parametrize("words", [
    ["--cpu=0", "--", "true"], ["--cpu=", "--", "true"], ["--cpu=x", "--", "true"], ["--cpu=10001", "--", "true"],
    ["--cpu=99999999999999999999", "--", "true"], ["--cpu", "99", "--", "true"], ["--pid", "0"], ["--pid", "x"],
    ["--pid", "-1"], ["--pid"], ["--pid", "1", "--", "true"],
    ["--pid", "1", "--children"], ["--kernel", "--heap", "--", "true"], ["--maps", "--cpu", "--", "true"],
], ids=" ".join)
def test_wrong_options_are_usage_errors(project: Project, words: list[str]) -> None:
    done = project.piano("record", *words, check=False)
    assert done.status == 2 and done.out == "" and "piano record --help" in done.err, done
    assert not project.runs.exists()
