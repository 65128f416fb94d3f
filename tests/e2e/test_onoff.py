"""CPU time beside wall time: how much of a frame or a function ran, waited for a CPU, or was blocked."""
from __future__ import annotations

import json
import os
import statistics
import subprocess
from contextlib import contextmanager
from typing import Any, Iterator

import pytest

from conftest import BURN, Project, need

# One frame takes about a millisecond of CPU time on any machine.
MILLISECOND = BURN + """
#include <time.h>
static long turns_;
static double cpu_now_(void) { struct timespec t; clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); return t.tv_sec * 1e3 + t.tv_nsec / 1e6; }
__attribute__((constructor)) static void measure_turns_(void) {
    double best = 1e9;
    for (int i = 0; i < 5; i++) { double t = cpu_now_(); BURN(100000); t = cpu_now_() - t; if (t < best) best = t; }
    turns_ = (long)(100000 / best);
}
#define WORK_MS(ms) BURN((ms) * turns_)
"""


def lines(project: Project) -> list[dict[str, Any]]:
    newest = max(project.runs.glob("*.ndjson"), key=lambda p: p.stat().st_mtime_ns)
    return [json.loads(line) for line in newest.read_text().splitlines()]


def frame_lines(project: Project, root: str) -> list[dict[str, Any]]:
    """The lines of frames whose root is ROOT."""
    all_lines = lines(project)
    number = all_lines[0]["functions"].index(root)
    return [line for line in all_lines if "frame" in line and line["root"] == number]


def one_cpu() -> str:
    return str(max(os.sched_getaffinity(0)))


@contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """COUNT programs that always run, on the CPU that `one_cpu` names."""
    loops = [subprocess.Popen([need("taskset"), "-c", one_cpu(), "sh", "-c", "while :; do :; done"])
             for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


FRAMES = MILLISECOND + """
    static void step(void) { WORK_MS(0.5); }
    static void update(void) { step(); WORK_MS(0.5); }
    int main(void) { for (int i = 0; i < 120; i++) update(); return 0; }
"""

NAPS = MILLISECOND + """
    #include <unistd.h>
    static void compute(void) { WORK_MS(1); }
    static void nap(void) { usleep(4000); }
    static void tick(void) { compute(); nap(); }
    int main(void) { for (int i = 0; i < 30; i++) tick(); return 0; }
"""


@pytest.mark.timing
def test_frames_on_a_busy_machine(project: Project) -> None:
    program = project.cc(FRAMES)
    with busy_loops(4):
        project.command("taskset", "-c", one_cpu(), program)
    frames = frame_lines(project, "update")[1:]
    assert len(frames) > 60 and all("cpu_ns" in f and "runq_ns" in f for f in frames)
    for f in frames:
        assert f["cpu_ns"] + f["runq_ns"] <= f["wall_ns"]
    wall, cpu, runq = (sum(f[key] for f in frames) for key in ("wall_ns", "cpu_ns", "runq_ns"))
    # Nothing here blocks: time off the CPU is time waiting for a CPU, with four other programs on it.
    assert wall - cpu - runq < wall / 20
    assert runq > cpu / 8  # the kernel decides how it shares the CPU
    # The work of each frame is the same, and so is its CPU time, even if its wall time differs.
    usual = statistics.median(f["cpu_ns"] for f in frames)
    steady = [f for f in frames if usual / 2 < f["cpu_ns"] < usual * 1.5]
    assert len(steady) > 0.9 * len(frames)
    thread = [line for line in lines(project) if "cpu_wall_ns" in line][-1]
    assert thread["runq_ns"] > thread["cpu_ns"] / 8
    assert thread["cpu_ns"] + thread["runq_ns"] < thread["cpu_wall_ns"] * 1.05


@pytest.mark.timing
def test_report_of_a_busy_machine(project: Project) -> None:
    program = project.cc(FRAMES)
    with busy_loops(4):
        project.command("taskset", "-c", one_cpu(), program)
    summary = project.report().data["frames"]
    assert summary["spikes"] >= summary["spikes_waited"] > 0.7 * summary["spikes"] > 0
    frames = project.frames()
    spikes = [f for f in frames if f["spike"]]
    waited = [f for f in spikes if f["why"] == "waited"]
    assert len(waited) == summary["spikes_waited"]
    assert all(f["why"] is None for f in frames if not f["spike"])
    for f in frames[1:]:
        assert f["wall_ns"] == f["cpu_ns"] + f["runq_ns"] + f["blocked_ns"]
    text = project.piano("report", "--frames", "--all")
    assert text.out.count("<- spike (waited for a CPU)") == len(waited)
    assert f"{len(spikes)} spike" in text.out and f", {len(waited)} of them waited for a CPU" in text.out
    assert "Waited" in text.out.splitlines()[0] and "CPU" in text.out.splitlines()[0]
    assert "the machine was busy: threads waited" in text.err
    # In CPU time these frames are equal: none of the worst is twice the median.
    worst = project.json("report", "--frames", "--cpu-time", "--top", "1")["frames"]
    usual = statistics.median(f["cpu_ns"] for f in frames[1:])
    assert max(f["cpu_ns"] for f in worst if f["cpu_ns"] is not None) < 3 * usual


@pytest.mark.timing
def test_functions_that_wait_are_not_the_hottest(project: Project) -> None:
    report = project.profile_c(NAPS)
    nap, compute = report.row("nap"), report.row("compute")
    assert nap["self_ns"] > compute["self_ns"]
    assert nap["cpu_self_ns"] < nap["self_ns"] / 4
    assert compute["cpu_self_ns"] > 2 * nap["cpu_self_ns"]
    assert report.functions[0]["name"] == "compute"
    text = project.piano("report").out
    head, rows = text.splitlines()[0], text.splitlines()[2:]
    assert "Wait" in head and "CPU" not in head
    assert [row.split()[0] for row in rows if row.endswith("<- waits")] == ["nap"]
    assert "ranked by the rest (--wall: by Self)" in text
    wall = project.piano("report", "--wall").out
    assert wall.splitlines()[2].split()[0] == "nap" and "Wait" in wall.splitlines()[0]
    cpu = project.piano("report", "--cpu-time").out
    assert cpu.splitlines()[2].split()[0] == "compute" and "CPU" in cpu.splitlines()[0].split()
    assert project.json("report", "--wall")["functions"][0]["name"] == "nap"


@pytest.mark.timing
def test_short_waits_are_measured(project: Project) -> None:
    """An event loop that is woken every few dozen microseconds: calls are too short to check all of them."""
    report = project.profile_c(MILLISECOND + """
        #include <poll.h>
        #include <sys/wait.h>
        #include <unistd.h>
        static int in[2], out[2];
        static void poll_events(void) {
            struct pollfd p = {in[0], POLLIN, 0}; char c;
            poll(&p, 1, -1); if (read(in[0], &c, 1) != 1) _exit(3);
        }
        static void answer(void) { char c = 'x'; WORK_MS(0.005); if (write(out[1], &c, 1) != 1) _exit(4); }
        int main(void) {
            if (pipe(in) || pipe(out)) return 2;
            if (fork() == 0) {
                char c = 'x';
                for (int i = 0; i < 6000; i++) { WORK_MS(0.03); if (write(in[1], &c, 1) != 1 || read(out[0], &c, 1) != 1) _exit(5); }
                _exit(0);
            }
            for (int i = 0; i < 6000; i++) { poll_events(); answer(); }
            wait(0);
            return 0;
        }
    """, select=["--fn", "poll_events", "--fn", "answer"])
    waits, works = report.row("poll_events"), report.row("answer")
    assert waits["cpu_self_ns"] < 0.6 * waits["self_ns"]
    thread = [line for line in lines(project) if "end_ns" in line and line["thread"] == 1][-1]
    assert waits["cpu_self_ns"] + works["self_ns"] - works["runq_self_ns"] < 1.5 * thread["cpu_ns"]


@pytest.mark.timing
def test_preemption_is_no_cpu_time_of_sampled_functions(project: Project) -> None:
    """Calls that are only counted are never checked: their waits are known from their caller."""
    program = project.cc(MILLISECOND + """
        #include <stdio.h>
        __attribute__((noinline)) static void query(void) { BURN(20); }
        static void world(void) { for (int i = 0; i < 20000; i++) query(); }
        int main(void) {
            double t = cpu_now_();
            for (int i = 0; i < 400; i++) world();
            printf("%.0f\\n", (cpu_now_() - t) * 1e6);
            return 0;
        }
    """, select=["--fn", "query", "--fn", "world"])
    with busy_loops(4):
        cpu_ns = int(project.command("taskset", "-c", one_cpu(), program).out)
    report = project.report()
    query, world = report.row("query"), report.row("world")
    assert query["sampled"]
    # Waiting time is in no function's CPU time, whichever of the two gets it.
    assert (query["cpu_self_ns"] or query["self_ns"]) + (world["cpu_self_ns"] or 0) < 1.5 * cpu_ns
    assert query["self_ns"] + world["self_ns"] > 1.2 * cpu_ns, "nothing was waited"


@pytest.mark.timing
def test_waits_between_the_calls_are_the_callers(project: Project) -> None:
    """The caller works between short calls. The call after a long piece of work is checked and reports that piece. The pieces have
    random lengths: the kernel takes the CPU away at its ticks, and turns of equal length can run in step with them."""
    program = project.cc(MILLISECOND + """
        #include <stdio.h>
        #include <stdlib.h>
        static double wall_now_(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e3 + t.tv_nsec / 1e6; }
        static void tick(void) { WORK_MS(0.08); }
        int main(void) {
            double mine = 0, wall = 0;
            for (int i = 0; i < 3000; i++) {
                tick();
                double piece = 0.06 * rand() / RAND_MAX, w = wall_now_(), t = cpu_now_();
                WORK_MS(piece);
                mine += cpu_now_() - t;
                wall += wall_now_() - w;
            }
            printf("%.0f %.0f\\n", mine * 1e6, wall * 1e6);
            return 0;
        }
    """, select=["--exact", "--fn", "tick", "--fn", "main"])
    with busy_loops(4):
        mine, wall = map(int, project.command("taskset", "-c", one_cpu(), program).out.split())
    caller = project.report().row("main")
    assert wall > 1.5 * mine, "little was waited"
    assert 0.8 * wall < caller["self_ns"] < 1.3 * wall
    assert 0.7 * mine < caller["cpu_self_ns"] < 1.4 * mine
    low, high = caller["cpu_self_ci95"]
    assert low <= caller["cpu_self_ns"] <= high


def test_cpu_time_and_wall_exclude_each_other_and_heap(project: Project) -> None:
    both = project.piano("report", "--cpu-time", "--wall", check=False)
    assert both.status == 2 and "choose one" in both.err
    for flag in ("--cpu-time", "--wall"):
        other = project.piano("report", "--heap", flag, check=False)
        assert other.status == 2 and flag in other.err


@pytest.mark.timing
def test_blocked_time_is_neither_cpu_nor_waiting_for_a_cpu(project: Project) -> None:
    project.command(project.cc(NAPS))
    frames = frame_lines(project, "tick")[1:]
    wall, cpu, runq = (sum(f[key] for f in frames) for key in ("wall_ns", "cpu_ns", "runq_ns"))
    naps = [fn for f in frames for fn in f["fns"] if fn["self_ns"] > 0.6 * f["wall_ns"]]
    assert cpu < 0.7 * wall and wall - cpu - runq > 0.3 * wall
    assert naps and sum(fn["cpu_ns"] for fn in naps) < 0.3 * sum(fn["self_ns"] for fn in naps)


def test_frame_option_and_nested_levels_have_all_three_parts(project: Project) -> None:
    source = MILLISECOND + """
        static void inner(void) { WORK_MS(1); }
        static void outer(void) { inner(); inner(); }
        static void run(void) { for (int i = 0; i < 3; i++) outer(); }
        int main(void) { run(); return 0; }
    """
    project.command(project.cc(source, select=["--frame", "inner"]))
    inner = frame_lines(project, "inner")
    assert len(inner) == 6 and all(0 < f["cpu_ns"] <= f["wall_ns"] for f in inner)
    project.command(project.cc(source))
    # An outer frame contains the inner ones, and so does its CPU time; the correction for probes is not exact.
    cpu = {name: sum(f["cpu_ns"] for f in frame_lines(project, name))
           for name in ("main", "run", "outer")}
    assert cpu["main"] * 1.01 >= cpu["run"] and cpu["run"] * 1.01 >= cpu["outer"] > cpu["main"] / 2


def test_short_frames_have_thread_sums_only(project: Project) -> None:
    project.command(project.cc(BURN + """
        static void update(void) { BURN(2000); }
        int main(void) { for (int i = 0; i < 2000; i++) update(); return 0; }
    """))
    frames = frame_lines(project, "update")
    assert sum("cpu_ns" in f for f in frames) < len(frames) / 4
    ended = [line for line in lines(project) if "end_ns" in line]
    assert len(ended) == 1 and 0 < ended[0]["cpu_ns"] <= ended[0]["cpu_wall_ns"]
    for f in project.frames():
        assert (f["cpu_ns"] is None) == (f["blocked_ns"] is None)


def test_merged_frames_are_summed(project: Project) -> None:
    many = "".join(f"static void f{i}(void) {{ BURN(10); }}\n" for i in range(120))
    calls = "".join(f"f{i}(); " for i in range(120))
    project.command(project.cc(MILLISECOND + many + f"""
        static void update(void) {{ {calls} WORK_MS(0.3); }}
        int main(void) {{ for (int i = 0; i < 1500; i++) update(); return 0; }}
    """))
    merged = [line for line in lines(project) if "merged" in line and line.get("cpu_frames")]
    assert merged
    for line in merged:
        assert line["cpu_frames"] <= line["merged"] and line["cpu_wall_ns"] <= line["wall_ns"]
        assert line["cpu_ns"] + line["runq_ns"] <= line["cpu_wall_ns"]


def test_a_thread_that_waits_when_the_program_ends(project: Project) -> None:
    report = project.profile_c(MILLISECOND + """
        #include <pthread.h>
        #include <semaphore.h>
        static sem_t begun;
        static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
        static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
        static void wait_job(void) {
            pthread_mutex_lock(&lock); sem_post(&begun);
            for (;;) pthread_cond_wait(&never, &lock);
        }
        static void *worker(void *a) { wait_job(); return a; }
        static void compute(void) { WORK_MS(1); }
        int main(void) {
            pthread_t t;
            pthread_create(&t, 0, worker, 0);
            sem_wait(&begun);
            for (int i = 0; i < 30; i++) compute();
            return 0;
        }
    """, "-pthread")
    waits = report.row("wait_job")
    assert waits["cpu_self_ns"] < waits["self_ns"] / 10
    assert report.functions[0]["name"] == "compute"


def test_waiting_is_unknown_without_schedstat(project: Project) -> None:
    """A process with a low limit of descriptors does not open schedstat, so the reason for time off the CPU is unknown."""
    program = project.cc(NAPS)
    project.command("sh", "-c", f"ulimit -n 15; exec {program}")
    frames = frame_lines(project, "tick")[1:]
    assert frames and all("cpu_ns" in f and "runq_ns" not in f for f in frames)
    for f in project.frames()[1:]:
        assert f["cpu_ns"] is not None and f["runq_ns"] is None and f["blocked_ns"] is None
    assert project.report().data["frames"]["runq_ns"] is None
    assert "Off CPU" in project.piano("report", "--frames").out


def test_programs_that_close_foreign_descriptors(project: Project) -> None:
    project.profile_c(MILLISECOND + """
        #include <fcntl.h>
        #include <stdio.h>
        #include <unistd.h>
        static int opened[1500];
        static void nap(void) { usleep(300); }
        static void tick(void) { WORK_MS(0.2); nap(); }
        int main(void) {
            for (int i = 0; i < 10; i++) tick();
            for (int fd = 3; fd < 1024; fd++) close(fd);
            int count = 0; /* the program uses these numbers now */
            while (count < 1500 && (opened[count] = dup(0)) >= 0) count++;
            while (count > 1000) close(opened[--count]); /* some are left if the limit is 1024 */
            for (int i = 0; i < 10; i++) tick();
            for (int i = 0; i < count; i++) if (fcntl(opened[i], F_GETFD) < 0) return 9;
            return 0;
        }
    """)
    assert len(frame_lines(project, "tick")) == 20


def test_children_do_not_inherit_the_descriptor(project: Project) -> None:
    report = project.profile_c(MILLISECOND + """
        #include <stdio.h>
        #include <string.h>
        #include <unistd.h>
        #include <sys/wait.h>
        static void tick(void) { WORK_MS(0.2); }
        static int open_schedstats(void) {
            int found = 0; char path[64], to[256];
            for (int fd = 0; fd < 2048; fd++) {
                snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
                ssize_t n = readlink(path, to, sizeof to - 1);
                if (n > 0) { to[n] = 0; found += strstr(to, "schedstat") != 0; }
            }
            return found;
        }
        int main(void) {
            for (int i = 0; i < 5; i++) tick();
            if (open_schedstats() != 1) return 8;
            int status = 0;
            if (fork() == 0) _exit(open_schedstats());
            wait(&status);
            return WEXITSTATUS(status);
        }
    """, select=["--fn", "tick"])
    assert report.calls("tick") == {"tick": 5}


# Hundreds of tiny functions, each timed until piano knows it: probes take most of the time, and most preemptions hit them.
MANY = "\n".join([
    "#include <stdio.h>", "#include <time.h>", "static volatile unsigned long sink;",
    "static double cpu_now(void) { struct timespec t; clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); return t.tv_sec * 1e9 + t.tv_nsec; }",
    "#define BODY { unsigned long x = sink; for (int i = 0; i < 40; i++) x = x * 6364136223846793005u + 1; sink = x; }",
    "__attribute__((noinline, noclone)) static void twin(void) BODY",
    *(f"__attribute__((noinline, noclone)) void tiny{i}(void) BODY" for i in range(400)),
    "void all(void) {", *(f"tiny{i}();" for i in range(400)), "}",
    "void frame(void) { for (int i = 0; i < 5000; i++) all(); }",
    "int main(void) {", "double start = cpu_now();", "for (int i = 0; i < 2000000; i++) twin();",
    r'printf("%.0f\n", cpu_now() - start);', "frame(); return 0; }"])


@pytest.mark.timing
def test_probes_that_lose_the_cpu_are_no_wait_of_the_program(project: Project) -> None:
    program = project.cc(MANY, select=["--fn", "tiny", "--frame", "frame"])
    with busy_loops(3):
        truth = int(project.command("taskset", "-c", one_cpu(), program).out)
    [frame] = frame_lines(project, "frame")
    assert 0.7 * truth < frame["cpu_ns"] < 1.6 * truth, (truth, frame["wall_ns"], frame["cpu_ns"])
