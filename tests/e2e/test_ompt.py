"""OpenMP programs of clang, recorded without changes through the tool interface of LLVM's runtime: threads, parallel regions,
tasks and waits, compared with known counts."""
from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from conftest import LIB, Project, need
from events import API, Event, Recording, compile, environment, load, record, recordings


TOOL = """
#include <unistd.h>
void *ompt_start_tool(unsigned version, const char *runtime) { (void)!write(1, "asked", 5); return 0; }
"""


@pytest.fixture(scope="module")
def missing(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The reason why there can be no events; empty if there can. Ubuntu 22.04 links libomp with -Bsymbolic-functions, so it finds
    only its own tool function, and not that of a preloaded library."""
    need("clang")
    place = tmp_path_factory.mktemp("omp")
    (place / "tool.c").write_text(TOOL)
    (place / "prog.c").write_text("#include <omp.h>\nint main(void) { return omp_get_max_threads() == 0; }\n")
    if subprocess.run(["clang", "-fopenmp", "prog.c", "-o", "prog"], cwd=place, capture_output=True).returncode != 0:
        return "clang finds no omp.h (libomp-dev)"
    subprocess.run(["clang", "-shared", "-fPIC", "tool.c", "-o", "tool.so"], cwd=place, check=True)
    done = subprocess.run(["./prog"], cwd=place, env={**os.environ, "LD_PRELOAD": str(place / "tool.so")}, capture_output=True)
    return "" if b"asked" in done.stdout else "this libomp does not ask a preloaded library for a tool"


@pytest.fixture(autouse=True)
def libomp(missing: str) -> None:
    if missing:
        pytest.skip(missing)


def omp(project: Project, source: str, *flags: str, name: str = "prog") -> Path:
    return compile(project, "#include <omp.h>\n" + source, "-g", "-fopenmp", *flags, compiler="clang", name=name)


class Replay:
    """The activities of each thread, from its events. Also checks the order of events."""

    def __init__(self, r: Recording):
        self.spawned: dict[str, int] = {}
        self.ended: dict[str, int] = {}
        self.polls: list[tuple[str, Event, Event, int]] = []  # name, begin, end, depth
        self.parks: list[tuple[int, Event, Event]] = []  # kind, begin, end
        self.open: list[Event] = []  # parks without an end
        events = sorted(r.events, key=lambda e: e.ticks)
        names: dict[int, str] = {}  # live tasks
        polls: dict[int, list[tuple[str, Event]]] = {}
        parked: dict[int, Event] = {}
        for e in events:
            mine = polls.setdefault(e.tid, [])
            if e.what == "task_spawn":
                names[e.fields[0]] = r.name(e.fields[1]).split("@")[0]
                self.add(self.spawned, names[e.fields[0]])
            elif e.what == "task_end":
                self.add(self.ended, names[e.fields[0]])
            elif e.what == "poll_begin":
                assert e.tid not in parked, "a poll begins in a park"
                mine.append((names[e.fields[0]], e))
            elif e.what == "poll_end":
                assert e.tid not in parked, "a poll ends in a park"
                name, begin = mine.pop()
                self.polls.append((name, begin, e, len(mine)))
            elif e.what == "park":
                assert e.tid not in parked, "a park in a park"
                parked[e.tid] = e
            elif e.what == "unpark":
                begin = parked.pop(e.tid)
                self.parks.append((begin.fields[0], begin, e))
        assert not any(polls.values()), "polls that do not end"
        self.open = list(parked.values())

    @staticmethod
    def add(to: dict[str, int], name: str) -> None:
        to[name] = to.get(name, 0) + 1

    def count(self, name: str, depth: int | None = None) -> int:
        return sum(n == name and depth in (None, d) for n, _, _, d in self.polls)

    def of_kind(self, kind: int) -> list[tuple[int, Event, Event]]:
        return [park for park in self.parks if park[0] == kind]


BARRIER, TASKS, IDLE = 7, 8, 9

IMBALANCE = r"""
int main(void)
{
    int sum = 0;
    for (int round = 0; round < 3; round++) {
        #pragma omp parallel for num_threads(4) schedule(static, 1) reduction(+ : sum)
        for (int i = 0; i < 4; i++) {
            if (i == 3)
                usleep(120000);
            sum += i;
        }
    }
    printf("%d\n", sum);
    return 0;
}
"""


@pytest.mark.timing
def test_the_slow_part_of_a_loop_and_those_who_wait_for_it(project: Project) -> None:
    program = omp(project, IMBALANCE)
    path = project.root / "r.rec"
    path.unlink(missing_ok=True)
    done = project.piano("record", "--events", "-o", path, "--", program)
    assert done.out == "18\n"
    r = load(path)
    replay = Replay(r)
    assert replay.spawned == replay.ended == {"omp parallel": 3} and replay.count("omp parallel", 0) == 12
    waits = replay.of_kind(BARRIER)
    assert len(waits) + sum(e.fields[0] == BARRIER for e in replay.open) == 12
    slow = [poll for poll in replay.polls if poll[2].ns - poll[1].ns > 100e6]
    assert len(slow) == 3 and len({begin.tid for _, begin, _, _ in slow}) == 1
    for _, _, end, _ in slow:
        # The other three threads reached the barrier while it worked, and left it when it was done.
        around = [w for w in waits if w[1].ns < end.ns - 60e6 and w[2].ns >= end.ns and w[1].tid != end.tid]
        assert len(around) == 3
    report = json.loads(project.piano("report", "--polls", "--json", path).out)
    row, = report["tasks"]
    assert row["name"] == f"omp parallel main (prog.c:{line(project, 'pragma')})"
    assert row["polls"] == 12 and row["long"] >= 3 and row["spawned"] == row["ended"] == 3
    assert row["waited_ns"] == 0  # the task that it waits for is not part of the work
    assert report["longest"][0]["thread"].startswith("omp thread ")
    assert sorted(worker["name"] for worker in report["workers"]) == [f"omp thread {i}" for i in range(4)]


def line(project: Project, what: str, which: int = 0, name: str = "prog.c") -> int:
    lines = (project.root / name).read_text().splitlines()
    return [i for i, text in enumerate(lines, 1) if what in text][which]


FIB = r"""
static int fib(int n)
{
    int a, b;
    if (n < 2)
        return n;
    #pragma omp task shared(a) KIND
    a = fib(n - 1);
    #pragma omp task shared(b) KIND
    b = fib(n - 2);
    #pragma omp taskwait
    return a + b;
}
"""

TASKS_PROGRAM = FIB.replace("KIND", "") + r"""
int main(void)
{
    int result = 0, done = 0, loops = 0, after = 0;
    #pragma omp parallel num_threads(3)
    {
        #pragma omp single
        {
            result = fib(12);
            for (int i = 0; i < 40; i++) {
                #pragma omp task if (i % 2) /* every second task runs at once */
                __atomic_fetch_add(&done, 1, __ATOMIC_RELAXED);
            }
            #pragma omp taskgroup
            {
                #pragma omp taskloop num_tasks(8)
                for (int i = 0; i < 64; i++)
                    __atomic_fetch_add(&loops, 1, __ATOMIC_RELAXED);
            }
            #pragma omp task depend(out : after)
            after = 1;
            #pragma omp task depend(in : after)
            __atomic_fetch_add(&done, after, __ATOMIC_RELAXED);
        }
        #pragma omp barrier
    }
    printf("%d %d %d\n", result, done, loops);
    return 0;
}
"""


def calls_of_fib(n: int) -> int:
    return 1 if n < 2 else 1 + calls_of_fib(n - 1) + calls_of_fib(n - 2)


@pytest.mark.parametrize("policy", [{}, {"KMP_BLOCKTIME": 0}, {"OMP_WAIT_POLICY": "active"}, {"KMP_LIBRARY": "serial"}])
def test_every_task_is_spawned_run_and_ended_once(project: Project, policy: dict[str, Any]) -> None:
    program = omp(project, TASKS_PROGRAM)
    r, done = record(project, program, **policy)
    assert done.out == "144 41 64\n" == project.command(program).out
    replay = Replay(r)
    tasks = calls_of_fib(12) - 1 + 40 + 8 + 2
    assert replay.spawned == replay.ended == {"omp parallel": 1, "omp task": tasks}
    threads = 1 if policy.get("KMP_LIBRARY") else 3
    assert replay.count("omp parallel") == threads and replay.count("omp task") == tasks
    assert all(e.fields[0] in (BARRIER, TASKS, IDLE) for e in r.of("park"))
    assert replay.of_kind(TASKS)


def test_tasks_have_the_lines_they_are_in(project: Project) -> None:
    program = omp(project, TASKS_PROGRAM)
    project.piano("record", "--events", "-o", "r.rec", "--", program)
    report = json.loads(project.piano("report", "--polls", "--json", "r.rec").out)
    names = [task["name"] for task in report["tasks"]]
    assert len(set(names)) == len(names)  # one row, however many copies of a line exist
    wanted = [f"omp task fib (prog.c:{line(project, 'omp task', i)})" for i in (0, 1)]
    assert set(wanted) <= set(names), names
    assert f"omp parallel main (prog.c:{line(project, 'omp parallel')})" in names
    # Inside a region, the function is generated by the compiler: the line identifies it.
    assert f"omp task prog.c:{line(project, 'omp task if')}" in names
    assert not any("0x" in name or ".omp" in name for name in names)


# No waits: with libomp 14, programs whose untied tasks wait for others hang at times, also without piano.
UNTIED = r"""
int main(void)
{
    int done = 0;
    #pragma omp parallel num_threads(3)
    #pragma omp single
    for (int i = 0; i < 300; i++) {
        #pragma omp task untied
        {
            __atomic_fetch_add(&done, 1, __ATOMIC_RELAXED);
            #pragma omp taskyield
            __atomic_fetch_add(&done, 1, __ATOMIC_RELAXED);
        }
    }
    printf("%d\n", done);
    return 0;
}
"""


def test_untied_tasks_go_on_elsewhere(project: Project) -> None:
    program = omp(project, UNTIED)
    for _ in range(5):
        r, done = record(project, program)
        assert done.out == "600\n"
        replay = Replay(r)
        assert replay.spawned == replay.ended == {"omp parallel": 1, "omp task": 300}
        assert replay.count("omp parallel") == 3 and replay.count("omp task") >= 300


# A runtime that reports what libomp 14 reports of an untied task: `first` runs the beginning and queues the rest,
# `second` runs that. No event reports its end there, because `first` is the last to leave the task's code.
TELLS = r"""
#include <dlfcn.h>
typedef void function(void);
union data { uint64_t value; void *ptr; };
enum { BEGIN = 1, END, COMPLETE = 1, SWITCH = 7, BARRIER = 1, TASKWAIT = 5, IMPLICIT = 2, EXPLICIT = 4, UNTIED = 0x10000000 };
static function *callbacks[40];
static int set(int event, function *callback) { callbacks[event] = callback; return 5; }
static function *lookup(const char *name) { return strcmp(name, "ompt_set_callback") ? NULL : (function *)set; }
#define CALL(event, ...) ((void (*)())callbacks[event])(__VA_ARGS__)
#define SCHEDULE(from, status, to) CALL(6, from, status, to)
#define WAIT(kind, endpoint, task) CALL(16, kind, endpoint, &region, task, NULL)
#define UNTIL(flag) while (!__atomic_load_n(&flag, __ATOMIC_ACQUIRE)) sched_yield()
static union data region, untied, other;
static char *next;
static int begun, told; /* a semaphore would be recorded as a wait */

static void *second(void *unused)
{
    union data mine = {0};
    CALL(7, BEGIN, &region, &mine, 2, 1, IMPLICIT);
    if (strcmp(next, "create"))
        WAIT(BARRIER, BEGIN, &mine);
    SCHEDULE(&mine, SWITCH, &untied);
    __atomic_store_n(&begun, 1, __ATOMIC_RELEASE); /* and its part has ended */
    UNTIL(told);
    if (!strcmp(next, "create"))
        CALL(5, &mine, NULL, &other, EXPLICIT, 0, NULL);
    if (strcmp(next, "wait")) {
        SCHEDULE(&mine, SWITCH, &other);
        SCHEDULE(&other, COMPLETE, &mine);
    }
    if (strcmp(next, "create"))
        WAIT(BARRIER, END, &mine);
    CALL(7, END, NULL, &mine, 2, 1, IMPLICIT);
    return NULL;
}

int main(int count, char **arguments)
{
    struct { int (*initialize)(void *, int, void *); } *tool =
        ((void *(*)(unsigned, const char *))dlsym(RTLD_DEFAULT, "ompt_start_tool"))(202011, "a runtime");
    union data program = {0}, mine = {0};
    pthread_t thread;
    next = arguments[1];
    CHECK(tool && tool->initialize((void *)lookup, 0, NULL) == 1);
    CALL(3, &program, NULL, &region, 2, 0, NULL);
    CALL(7, BEGIN, &region, &mine, 2, 0, IMPLICIT);
    CALL(5, &mine, NULL, &untied, EXPLICIT | UNTIED, 0, NULL);
    if (!strcmp(next, "task"))
        CALL(5, &mine, NULL, &other, EXPLICIT, 0, NULL);
    WAIT(TASKWAIT, BEGIN, &mine);
    SCHEDULE(&mine, SWITCH, &untied);
    SCHEDULE(&untied, SWITCH, &mine);
    CHECK(pthread_create(&thread, NULL, second, NULL) == 0);
    UNTIL(begun);
    SCHEDULE(&untied, COMPLETE, &mine);
    piano_mark("told");
    __atomic_store_n(&told, 1, __ATOMIC_RELEASE);
    CHECK(pthread_join(thread, NULL) == 0);
    WAIT(TASKWAIT, END, &mine);
    CALL(7, END, NULL, &mine, 2, 0, IMPLICIT);
    CALL(4, &region, &program, 0, NULL);
    return 0;
}
"""


@pytest.mark.parametrize("after", ["wait", "task", "create"])
def test_a_part_whose_end_another_thread_tells(project: Project, after: str) -> None:
    """`after` is the next event of `second`: the end of its wait, a task inside it, or a task that it creates."""
    r, _ = record(project, compile(project, TELLS, *API), after)
    told, = r.of("mark")
    replay = Replay(r)
    tasks = 1 if after == "wait" else 2
    assert replay.spawned == replay.ended == {"omp parallel": 1, "omp task": tasks}
    assert replay.count("omp parallel") == 2 and replay.count("omp task") == 1 + tasks
    first, second = [(begin, end) for name, begin, end, _ in replay.polls if name == "omp task"][:2]
    assert first[0].tid == told.tid != second[0].tid
    assert first[1].ns <= second[0].ns <= second[1].ns <= told.ns  # even if it is detected late
    # The task that it waits for has waited for it since then.
    assert [(b.ns, e.ns > told.ns) for _, b, e in replay.of_kind(BARRIER) if b.ns >= second[1].ns][:1] == \
        ([] if after == "create" else [(second[1].ns, True)])


# `main` has begun a part of an untied task. The rest is queued already. `second` runs it, runs another task in the middle of it,
# and comes back to it while `main` is still in its own part.
EARLY = TELLS.partition("static void *second")[0] + r"""
static void *second(void *unused)
{
    union data mine = {0};
    CALL(7, BEGIN, &region, &mine, 2, 1, IMPLICIT);
    SCHEDULE(&mine, SWITCH, &untied);
    CALL(5, &untied, NULL, &other, EXPLICIT, 0, NULL);
    SCHEDULE(&untied, SWITCH, &other);
    SCHEDULE(&other, COMPLETE, &untied);
    SCHEDULE(&untied, SWITCH, &mine);
    CALL(7, END, NULL, &mine, 2, 1, IMPLICIT);
    return NULL;
}

int main(int count, char **arguments)
{
    struct { int (*initialize)(void *, int, void *); } *tool =
        ((void *(*)(unsigned, const char *))dlsym(RTLD_DEFAULT, "ompt_start_tool"))(202011, "a runtime");
    union data program = {0}, mine = {0};
    union data more[20];
    pthread_t thread;
    int nested = atoi(arguments[1]);
    CHECK(tool && tool->initialize((void *)lookup, 0, NULL) == 1);
    CALL(3, &program, NULL, &region, 2, 0, NULL);
    CALL(7, BEGIN, &region, &mine, 2, 0, IMPLICIT);
    for (int i = 0; i < nested; i++) { /* each in a taskyield of the previous one */
        CALL(5, &mine, NULL, &more[i], EXPLICIT | UNTIED, 0, NULL);
        SCHEDULE(i ? &more[i - 1] : &mine, SWITCH, &more[i]);
    }
    for (int i = nested; i-- > 0;)
        SCHEDULE(&more[i], COMPLETE, i ? &more[i - 1] : &mine);
    CALL(5, &mine, NULL, &untied, EXPLICIT | UNTIED, 0, NULL);
    SCHEDULE(&mine, SWITCH, &untied);
    CHECK(pthread_create(&thread, NULL, second, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    SCHEDULE(&untied, COMPLETE, &mine);
    CALL(7, END, NULL, &mine, 2, 0, IMPLICIT);
    CALL(4, &region, &program, 0, NULL);
    return 0;
}
"""


@pytest.mark.parametrize("nested", [0, 1, 16, 17, 20])
def test_rest_of_a_task_that_begins_before_its_first_part_is_over(project: Project, nested: int) -> None:
    r, _ = record(project, compile(project, EARLY, *API), str(nested))
    replay = Replay(r)
    tasks = 2 + nested
    assert replay.spawned == replay.ended == {"omp parallel": 1, "omp task": tasks}
    assert replay.count("omp parallel") == 2 and replay.count("omp task") == tasks


# The runtime creates several hundred tasks of a loop itself, and untied fib creates them in one thread at once.
LOOPS = FIB.replace("KIND", "untied") + r"""
int main(int argc, char **argv)
{
    int done = 0;
    #pragma omp parallel num_threads(3)
    #pragma omp single
    {
        if (argc > 1)
            done = fib(10);
        #pragma omp taskloop grainsize(1)
        for (int i = 0; i < 500; i++)
            __atomic_fetch_add(&done, 1, __ATOMIC_RELAXED);
        for (int j = 0; j < 3; j++) {
            #pragma omp task
            {
                #pragma omp taskloop grainsize(1)
                for (int i = 0; i < 500; i++)
                    __atomic_fetch_add(&done, 1, __ATOMIC_RELAXED);
            }
        }
    }
    printf("%d\n", done);
    return 0;
}
"""


def test_long_loops_of_tasks(project: Project) -> None:
    program = omp(project, LOOPS)
    for _ in range(3):
        r, done = record(project, program)
        assert done.out == "2000\n"
        replay = Replay(r)
        tasks = replay.spawned["omp task"]  # with tasks that create others
        assert replay.spawned == replay.ended == {"omp parallel": 1, "omp task": tasks} and tasks >= 2003
        assert replay.count("omp parallel") == 3 and replay.count("omp task") == tasks
    r, done = record(project, program, "fib", KMP_LIBRARY="serial")
    assert done.out == "2055\n"
    replay = Replay(r)
    tasks = replay.spawned["omp task"]
    assert replay.spawned == replay.ended == {"omp parallel": 1, "omp task": tasks} and tasks >= calls_of_fib(10) - 1 + 2003
    assert replay.count("omp parallel") == 1 and replay.count("omp task") >= tasks


# libomp asserts that its field for a task that only waits is unchanged.
DEPENDENT = r"""
int main(void)
{
    int sum = 0, data[4] = {0};
    for (int round = 0; round < 5; round++) {
        #pragma omp parallel num_threads(4)
        {
            int mine = omp_get_thread_num();
            #pragma omp task depend(out : data[mine])
            __atomic_fetch_add(&sum, 1, __ATOMIC_RELAXED);
            #pragma omp task if (0) depend(inout : data[mine])
            {
                #pragma omp task depend(out : data[mine])
                __atomic_fetch_add(&sum, 1, __ATOMIC_RELAXED);
                #pragma omp task if (0) depend(in : data[mine])
                __atomic_fetch_add(&sum, 1, __ATOMIC_RELAXED);
            }
        }
    }
    printf("%d\n", sum);
    return 0;
}
"""


def test_tasks_that_depend_on_others_and_are_run_at_once(project: Project) -> None:
    program = omp(project, DEPENDENT)
    if project.command(program, check=False).status != 0:
        # Optimised by clang 11, this crashes in libomp 11, also without piano.
        program = omp(project, DEPENDENT, "-O0")
    r, done = record(project, program)
    assert done.out == "60\n"
    replay = Replay(r)
    assert replay.spawned["omp task"] == replay.ended["omp task"] >= 80 and replay.count("omp parallel") == 20


CANCELLED = r"""
int main(void)
{
    int ran = 0;
    #pragma omp parallel num_threads(3)
    #pragma omp single
    #pragma omp taskgroup
    for (int i = 0; i < 100; i++) {
        #pragma omp task untied
        {
            int nth = __atomic_fetch_add(&ran, 1, __ATOMIC_RELAXED);
            #pragma omp taskyield
            if (nth == 10) {
                #pragma omp cancel taskgroup
            }
            __atomic_fetch_add(&ran, 0, __ATOMIC_RELAXED);
        }
    }
    printf("%d\n", ran > 10);
    return 0;
}
"""


def test_tasks_that_are_cancelled(project: Project) -> None:
    program = omp(project, CANCELLED)
    for _ in range(3):
        r, done = record(project, program, OMP_CANCELLATION="true")
        assert done.out == "1\n"
        replay = Replay(r)
        assert replay.spawned["omp task"] == replay.ended["omp task"] <= 100


NESTED = r"""
int main(void)
{
    int sum = 0;
    omp_set_max_active_levels(2);
    for (int round = 0; round < 5; round++) {
        #pragma omp parallel num_threads(2) reduction(+ : sum)
        {
            #pragma omp parallel num_threads(3) reduction(+ : sum)
            {
                sum++;
                #pragma omp barrier
                sum++;
            }
            #pragma omp parallel if (0) reduction(+ : sum)
            sum += 100;
            #pragma omp barrier
        }
    }
    printf("%d\n", sum);
    return 0;
}
"""


def test_regions_in_regions(project: Project) -> None:
    r, done = record(project, omp(project, NESTED))
    assert done.out == f"{5 * (2 * 3 * 2 + 2 * 100)}\n"
    replay = Replay(r)
    assert replay.spawned == replay.ended == {"omp parallel": 5 * (1 + 2 + 2)}
    # Of six threads in an inner region, two are part of the outer one, and so is a thread that runs a region alone.
    assert replay.count("omp parallel", 0) == 5 * (2 + 4) and replay.count("omp parallel", 1) == 5 * (2 + 2)
    names = {r.name(e.fields[1]) for e in r.of("worker_start")}
    assert names == {f"omp thread {i}" for i in range(len(names))} and len(names) >= 6


DETACHED = r"""
static omp_event_handle_t events[10];
static int ready[10];
int main(void)
{
    int ran = 0;
    #pragma omp parallel num_threads(2)
    #pragma omp single
    {
        for (int i = 0; i < 10; i++) {
            omp_event_handle_t e;
            #pragma omp task detach(e)
            {
                events[i] = e;
                __atomic_fetch_add(&ran, 1, __ATOMIC_RELAXED);
                if (i < 3)
                    omp_fulfill_event(e); /* in itself: early */
                else
                    __atomic_store_n(&ready[i], 1, __ATOMIC_RELEASE);
            }
        }
        #pragma omp task
        for (int i = 3; i < 10; i++) {
            while (!__atomic_load_n(&ready[i], __ATOMIC_ACQUIRE)) {
                #pragma omp taskyield
            }
            omp_fulfill_event(events[i]);
        }
    }
    printf("%d\n", ran);
    return 0;
}
"""


def test_detached_tasks_end_when_their_event_comes(project: Project) -> None:
    r, done = record(project, omp(project, DETACHED))
    assert done.out == "10\n"
    replay = Replay(r)
    assert replay.spawned == replay.ended == {"omp parallel": 1, "omp task": 11}


FORKS = r"""
__attribute__((noinline)) static int region(int threads)
{
    int sum = 0;
    #pragma omp parallel num_threads(threads) reduction(+ : sum)
    sum++;
    return sum;
}
int main(void)
{
    CHECK(region(2) == 2);
    pid_t child = fork();
    if (child == 0) {
        piano_mark("child");
        CHECK(region(3) == 3);
        return 0;
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(region(2) == 2);
    return 0;
}
"""


def test_a_child_has_names_of_its_own(project: Project) -> None:
    program = omp(project, FORKS, f"-L{LIB}", "-lpiano", f"-Wl,-rpath,{LIB}")
    project.command(program, env=environment(project))
    parent, child = (load(path) for path in recordings(project))
    assert child.of("mark") and not parent.of("mark")
    assert Replay(parent).count("omp parallel") == 4 and Replay(child).count("omp parallel") == 3
    assert {parent.name(e.fields[1]) for e in parent.of("task_spawn")} == \
        {child.name(e.fields[1]) for e in child.of("task_spawn")}


def test_a_runtime_that_comes_with_a_plugin(project: Project) -> None:
    omp(project, r"""
        int go(void)
        {
            int sum = 0;
            #pragma omp parallel num_threads(3) reduction(+ : sum)
            sum++;
            return sum;
        }
        """, "-shared", "-fPIC", name="plugin.so")
    program = compile(project, r"""
        #include <dlfcn.h>
        int main(void)
        {
            void *plugin = dlopen("./plugin.so", RTLD_NOW | RTLD_LOCAL);
            CHECK(plugin && ((int (*)(void))dlsym(plugin, "go"))() == 3);
            return 0;
        }
        """)
    r, _ = record(project, program)
    assert Replay(r).count("omp parallel") == 3


# A runtime looks for a tool like this.
ASKS = r"""
#include <dlfcn.h>
struct tool { void *initialize, *finalize; uint64_t data; };
int main(void)
{
    struct tool *(*start)(unsigned, const char *) = dlsym(RTLD_DEFAULT, "ompt_start_tool");
    errno = 77;
    struct tool *tool = start ? start(202011, "a runtime") : NULL;
    puts(!tool ? "none" : tool->data == 7 ? "theirs" : "ours");
    return errno == 77 ? 0 : 1;
}
"""


def test_nothing_is_paid_unless_events_are_recorded_and_other_tools_come_first(project: Project) -> None:
    program = compile(project, ASKS)

    def answer(which: Path = program, **more: Any) -> str:
        done = project.command(which, env={**environment(project), **more})
        for path in recordings(project):
            path.unlink()
        return done.out.strip()

    assert answer() == "ours"
    assert answer(PIANO_EVENTS="0") == "none" and answer(PIANO_RECORD="") == "none"
    assert answer(PIANO_EVENTS="0", PIANO_HEAP="1000") == "none"
    assert answer(OMP_TOOL_LIBRARIES="libother.so") == "none"
    # One of the program's libraries contains a tool.
    project.write({"theirs.c": """
        #include <stdint.h>
        static struct { void *initialize, *finalize; uint64_t data; } tool = {0, 0, 7};
        void *ompt_start_tool(unsigned version, const char *runtime) { return &tool; }
        """})
    project.command("gcc", "-shared", "-fPIC", "-o", "libtheirs.so", "theirs.c")
    with_tool = compile(project, ASKS, "-Wl,--no-as-needed", "-L.", "-ltheirs", "-Wl,-rpath,$ORIGIN", name="with_tool")
    assert answer(with_tool) == "theirs" == answer(with_tool, PIANO_EVENTS="0")


def test_gcc_has_no_such_interface_and_is_recorded_as_any_program(project: Project) -> None:
    need("gcc")
    program = compile(project, "#include <omp.h>\n" + IMBALANCE, "-fopenmp")
    r, done = record(project, program)
    assert done.out == "18\n" and not r.of("task_spawn", "poll_begin")
