"""Tokio: nanoseconds of a poll's events, and what an echo server loses when its tasks are told; dial9 beside piano."""
import glob
import os
import shutil
import subprocess

from common import ROOT, Failed, Missing, Run, fresh, median
from pairs import HEAD, NOISE, NOTE, Server, ahead_of_others, on_cpu, row, side_by_side
from trace import LIB, written

CRATE = os.path.join(ROOT, "integrations", "tokio")
PEER = os.path.join(ROOT, "bench", "programs", "dial9")
POLLS, QUICK_POLLS = 4_000_000, 400_000
BESIDE_POLLS = 5_000_000
CLIENTS = 50
EVENT_NS = 50  # what dial9 states for one of its events
LOST_PERCENT = {"events": 2.0, "events and CPU samples": 3.0}
EVENTS = {"hooks": 2, "wakes": 3}  # of one poll
PRELOAD = {"LD_PRELOAD": os.path.join(LIB, "libpiano.so"), "PIANO_CHILDREN": "1", "PIANO_EVENTS": "1", "PIANO_EVENTS_MAX": str(1 << 30)}


# ---- building ----

def build(crate, target, *which):
    """Where cargo's programs are."""
    cargo = shutil.which("cargo") or shutil.which("cargo", path=os.path.expanduser("~/.cargo/bin"))
    if cargo is None:
        raise Missing("cargo is not installed")
    target = os.path.join(ROOT, "build", target)
    env = {"PATH": os.path.dirname(cargo) + ":" + os.environ["PATH"], "CARGO_NET_RETRY": "1", "CARGO_HTTP_TIMEOUT": "15"}
    try:
        Run([cargo, "fetch"], cwd=crate, env=env, limit=120)
    except Failed as failed:
        raise Missing(f"cargo cannot fetch what {os.path.basename(crate)} needs: {str(failed).splitlines()[-1]}") from failed
    Run([cargo, "build", "--release", "--offline", *which, "--target-dir", target], cwd=crate, env=env)
    return os.path.join(target, "release")


def build_dial9(theme):
    """The program that dial9 watches, or None."""
    try:
        return os.path.join(build(PEER, "dial9"), "dial9-load")
    except (Missing, Failed) as why:
        theme.skip("dial9", f"cannot be had here: {str(why).strip().splitlines()[-1]}")
        return None


# ---- one event ----

def one_event(theme, programs, folder):
    polls = QUICK_POLLS if theme.quick else POLLS
    rows = []
    for kind, what in (("hooks", "polls, by Tokio's hooks"), ("wakes", "polls and wakes, spawned by the crate")):
        theme.say(what)
        found, sizes, unrecorded = [], [], []
        for _ in range(theme.repetitions):
            path = os.path.join(folder, "polls.rec")
            run = Run([os.path.join(programs, "polls"), kind, polls], ahead=True,
                      env={**PRELOAD, "PIANO_RECORD": path})
            found.append(tuple(map(float, run.out.split())))
            file, = glob.glob(path + "*")
            size, events = written(file)
            sizes.append(size / events)
            os.unlink(file)
            unrecorded.append(tuple(map(float, Run([os.path.join(programs, "polls"), kind, polls], ahead=True).out.split())))
        plain, told = (median(column) for column in zip(*found))
        event = median((b - a) / EVENTS[kind] for a, b in found)
        absent = median(b - a for a, b in unrecorded)
        rows.append([what, plain, told, EVENTS[kind], event, median(sizes), absent])
        theme.budget(f"an event of {what}", event, EVENT_NS, " ns")
    theme.table("One poll", ["", "plain, ns", "told, ns", "events", "an event, ns", "bytes", "without piano, ns more"], rows)
    theme.note(f"Medians of {theme.repetitions} runs of {polls} polls of tasks that only yield, one thread, CPU time; a plain runtime and "
               "a traced one in turns of 20 000 polls in the same process. Includes all work of the crate and libpiano for an event.")


# ---- polls of two workers, beside dial9 ----

def polls_of_piano(programs, folder, way, polls):
    """(CPU ns of a poll, wall ns, bytes or None)"""
    path = os.path.join(folder, "beside.rec")
    run = Run([os.path.join(programs, "workers"), way, polls], env={} if way == "plain" else {**PRELOAD, "PIANO_RECORD": path})
    size = None
    for file in glob.glob(path + "*"):
        size = written(file)[0] / polls
        os.unlink(file)
    return *map(float, run.out.split()), size


def polls_of_dial9(program, folder, way, polls):
    traces = os.path.join(folder, "dial9")
    shutil.rmtree(traces, ignore_errors=True)
    os.makedirs(traces)
    run = Run([program, "polls", way, polls, traces])
    size = sum(os.path.getsize(os.path.join(place, name)) for place, _, names in os.walk(traces) for name in names) / polls
    shutil.rmtree(traces)
    return *map(float, run.out.split()), None if way == "plain" else size


def beside(theme, programs, dial9, folder):
    polls = QUICK_POLLS if theme.quick else BESIDE_POLLS
    whose = {"piano": lambda way: polls_of_piano(programs, folder, way, polls)}
    if dial9:
        whose["dial9"] = lambda way: polls_of_dial9(dial9, folder, way, polls)
    found = {(name, way): [] for name in whose for way in ("plain", "hooks", "wakes")}
    theme.say(f"{polls} polls of two workers: {', '.join(whose)}")
    for turn in range(theme.repetitions):
        for name, way in list(found)[::-1 if turn % 2 else 1]:
            found[name, way].append(whose[name](way))
    rows = []
    for (name, way), runs in found.items():
        cpu, wall = (median(run[i] for run in runs) for i in (0, 1))
        plain = median(run[0] for run in found[name, "plain"])
        size = None if way == "plain" else median(run[2] for run in runs)
        rows.append([f"{name}, {way}", cpu, wall, "" if size is None else cpu - plain, "" if size is None else size])
    theme.table("Polls of two workers", ["", "CPU ns of a poll", "wall ns", "CPU ns more than plain", "bytes of a poll"], rows)
    theme.note(f"Medians of {theme.repetitions} runs of {polls} polls of ten tasks that only yield, in turns. CPU time of all threads, the "
               "writer's of dial9 too. Hooks: polls of tasks of Tokio's own `spawn`. Wakes: spawned by the crate, with their wakes. dial9's "
               "bytes are those of its files, piano's those of the events in the recording.")


# ---- an echo server ----

class Echo(Server):
    """An echo server of one worker: plain; traced, and recorded with the flags WAY; or traced where nothing records it."""

    def __init__(self, programs, folder, way, number):
        self.program = os.path.join(programs, "echo")
        self.begin(folder, [self.program, "serve", "plain" if way is None else "traced"], way, f"echo-{number}")

    def begin(self, folder, words, way, name):
        super().__init__(folder, words, way, name, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        line = self.process.stdout.readline().split()
        if len(line) != 2:
            self.end()
            raise Failed("the echo server has no port")
        self.port = int(line[0])

    def ask(self, count):
        return float(Run([*on_cpu(1), self.program, "ask", self.port, CLIENTS, count], limit=120).out)

    def stop(self):
        self.process.stdin.close()

    def end(self):
        super().end()
        self.process.stdout.close()


class WatchedByDial9(Echo):
    """The same under dial9; WAY is what it takes, or None: plain."""

    def __init__(self, programs, dial9, folder, way, number):
        self.program, self.traces = os.path.join(programs, "echo"), os.path.join(folder, f"dial9-{number}")
        os.makedirs(self.traces, exist_ok=True)
        words = [self.program, "serve", "plain"] if way is None else [dial9, "serve", way, self.traces]
        self.begin(folder, words, None, "")

    def end(self):
        super().end()
        shutil.rmtree(self.traces, ignore_errors=True)


def echo(theme, programs, dial9, folder):
    many, few = (1, 1) if theme.quick else (24, 8)  # where a server comes to lie, by chance, makes it 5 % faster or slower
    count, turns = (5_000, 4) if theme.quick else (25_000, 8)
    ours, theirs = (lambda *how: Echo(programs, folder, *how)), (lambda *how: WatchedByDial9(programs, dial9, folder, *how))
    variants = [(NOISE, ours, None, many), ("traced, and not recorded", ours, (), few), ("events", ours, ("--events",), many),
                ("events and CPU samples", ours, ("--events", "--cpu=99"), many)]
    if dial9:
        variants += [("dial9, events", theirs, "events", few), ("dial9, events and CPU samples", theirs, "samples", few)]
    rows = []
    for name, make, way, pairs in variants:
        theme.say(f"echo: {name}")
        with ahead_of_others():
            found = side_by_side(make, way, pairs, count, turns)
        line, lost = row(name, found)
        rows.append(line)
        if name in LOST_PERCENT:
            theme.budget(f"echo server, requests in a second lost with {name}", lost, LOST_PERCENT[name], " %")
    theme.table(f"An echo server, {CLIENTS} clients, 64 bytes", HEAD, rows)
    theme.note(f"{NOTE} {few} pairs of the row without recording and of dial9, else {many}, with real-time priority. The server has one worker. The traced ones tell "
               "spawns, polls, wakes, parks and ends, and Tokio's metrics.")


def run(theme):
    if not os.path.exists(os.path.join(LIB, "libpiano.so")):
        raise Missing("there is no libpiano.so")
    programs = os.path.join(build(CRATE, "tokio", "--examples"), "examples")
    dial9 = build_dial9(theme)
    folder = fresh("tokio")
    one_event(theme, programs, folder)
    beside(theme, programs, dial9, folder)
    echo(theme, programs, dial9, folder)
