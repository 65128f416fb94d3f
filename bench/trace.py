"""The trace: nanoseconds and bytes of an event, what a server loses with everything on, what a thread costs, and how long ten
million events take to report."""
import glob
import os
import struct
import sys

from common import PIANO, ROOT, Missing, Run, fresh, median, need, sources
from pairs import HEAD, NOISE, NOTE, Server, ahead_of_others, free_port, on_cpu, row, side_by_side

PAIRS, QUICK_PAIRS = 4_000_000, 400_000
EVENT_NS, EVENT_BYTES, OFF_NS = 20, 12, 5
KINDS = {"small": "poll begin or end, tasks by small numbers", "pointers": "poll begin or end, tasks by address",
         "wakes": "wake or queue depth", "names": "mark or value, by a name"}
LIB = os.path.join(os.path.dirname(os.path.realpath(PIANO)), "lib")
HEADER, CHUNK, HEADS, EVENTS = 4096, 65536, 24, 7

LOST_PERCENT = 2.0
ALL = ("--heap", "--cpu=99", "--events")
REPORT_S, REPORT_MB = 2.0, 48


# ---- one event ----

def written(path):
    """(bytes, events) of the events in a recording without losses."""
    total = 0
    with open(path, "rb") as file:
        header = file.read(HEADER)
        chunks, = struct.unpack_from("<Q", header, 40)
        events, *lost = struct.unpack_from("<5Q", header, 2480 + 40)
        for number in range(chunks):
            file.seek(HEADER + CHUNK * number)
            kind, ready, _, used = struct.unpack("<IIQQ", file.read(24))
            total += used - HEADS if kind == EVENTS and ready and used >= HEADS else 0
    if any(lost):
        raise Missing(f"events were lost, so bytes mean nothing: {lost}")
    return total, events


class Load:
    def __init__(self, theme, folder):
        self.pairs = QUICK_PAIRS if theme.quick else PAIRS
        self.folder = folder
        self.program = os.path.join(self.folder, "events_load")
        Run(["gcc", "-O2", f"-I{ROOT}/include", "events_load.c", "-o", self.program, f"-L{LIB}", "-lpiano",
             f"-Wl,-rpath,{LIB}"], cwd=self.folder)

    def record(self, kind, pairs):
        """(Run, path of its recording)"""
        path = os.path.join(self.folder, "bench.rec")
        run = Run([self.program, kind, pairs], ahead=True,
                  env={"PIANO_RECORD": path, "PIANO_CHILDREN": "1", "PIANO_EVENTS": "1",
                       "PIANO_EVENTS_MAX": str(1 << 30)})
        file, = glob.glob(path + "*")
        return run, file

    def run(self, kind, recorded):
        """(ns of a counter read, ns of an event, bytes of an event or None)"""
        if not recorded:
            return *map(float, Run([self.program, kind, self.pairs], ahead=True).out.split()), None
        run, file = self.record(kind, self.pairs)
        size, events = written(file)
        os.unlink(file)
        return *map(float, run.out.split()), size / events


def one_event(theme, load):
    rows = []
    for kind, what in KINDS.items():
        theme.say(what)
        on = [load.run(kind, True) for _ in range(theme.repetitions)]
        off = [load.run(kind, False) for _ in range(theme.repetitions)]
        read_ns, event_ns, size = (median(column) for column in zip(*on))
        off_ns = median(ns for _, ns, _ in off)
        rows.append([what, read_ns, event_ns, f"{event_ns / read_ns:.2f}x", size, off_ns])
        if kind == "small":
            theme.budget("a poll begin or end", event_ns, EVENT_NS, " ns")
            theme.budget("a poll begin or end", size, EVENT_BYTES, " bytes")
            theme.budget("a poll begin or end without a recording", off_ns, OFF_NS, " ns")
    theme.table("One event", ["", "counter read, ns", "event, ns", "", "bytes", "not recording, ns"], rows)
    theme.note(f"Medians of {theme.repetitions} runs of {load.pairs} pairs, one thread, CPU time; reads of the counter and "
               "events in turns of 20 000 pairs in the same run. Includes the calls, new chunks and page faults.")


# ---- a server ----

class Redis(Server):
    def __init__(self, folder, way, number):
        self.port = free_port()
        super().__init__(folder, [need("redis-server"), "--port", self.port, "--save", "", "--appendonly", "no", "--dir", folder,
                                  "--bind", "127.0.0.1"], way, f"redis-{number}")
        self.pipeline = 1
        self.await_port(self.port)

    def ask(self, count):
        run = Run([*on_cpu(1), need("redis-benchmark"), "-h", "127.0.0.1", "-p", self.port, "-n", count, "-P", self.pipeline, "-c", 50,
                   "-t", "get", "-d", 16, "-r", 10000, "--csv"])
        return float(run.out.splitlines()[-1].split(",")[1].strip('"'))


class PipelinedRedis(Redis):
    """Gets 16 requests at a time."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.pipeline = 16


def server(theme, folder):
    """Measures many servers, because the random addresses of a server's memory change its speed by some percent."""
    need("redis-benchmark")
    rows = []
    many, few = (1, 1) if theme.quick else (12, 4)
    count, turns = (4_000, 2) if theme.quick else (20_000, 8)
    variants = [(NOISE, None, Redis, many), ("everything", ALL, Redis, many), ("everything, 16 at a time", ALL, PipelinedRedis, few)]
    variants += [] if theme.quick else [("heap", ALL[:1], Redis, few), ("CPU", ALL[1:2], Redis, few), ("events", ALL[2:], Redis, few)]
    for name, way, kind, pairs in variants:
        theme.say(f"redis: {name}")
        with ahead_of_others():
            found = side_by_side(lambda *how, kind=kind: kind(folder, *how), way, pairs, count * (1 if kind is Redis else 8), turns)
        line, lost = row(name, found)
        rows.append(line)
        if name == "everything":
            theme.budget("redis, requests in a second lost with everything on", lost, LOST_PERCENT, " %")
    theme.table("redis-server under redis-benchmark, 50 clients, GET", HEAD, rows)
    theme.note(f"{NOTE} {many} pairs of the first two rows, else {few}, with real-time priority. Everything: heap at 512 KB, CPU at 99 Hz "
               "with times off the CPU, events.")


# ---- a thread ----

def threads(theme, folder):
    program = os.path.join(folder, "threads_load")
    Run(["gcc", "-O2", "threads_load.c", "-o", program, "-pthread"], cwd=folder)
    count = 2_000 if theme.quick else 20_000
    path = os.path.join(folder, "threads.rec")
    ways = {"plain": None, "events": ("--events",), "CPU": ("--cpu=99",), "heap": ("--heap",), "everything": ALL}
    seen = {name: [] for name in ways}
    for _ in range(theme.repetitions):
        for name, flags in ways.items():
            prefix = [] if flags is None else [PIANO, "record", *flags, "-o", path, "--"]
            with ahead_of_others():
                seen[name].append(tuple(map(float, Run([*prefix, program, count]).out.split())))
            if flags is not None:
                os.unlink(path)
    rows = []
    for name, runs in seen.items():
        wall, cpu = (median(column) / 1000 for column in zip(*runs))
        rows.append([name, wall, cpu, f"{wall / rows[0][1]:.2f}x" if rows else "1.00x"])
    theme.table("A thread, made and joined", ["recorded", "us", "CPU us", ""], rows)
    theme.note(f"Medians of {theme.repetitions} alternating runs of {count} threads, one thread at a time.")


# ---- ten million events ----

def report(theme, load):
    rows = []
    millions = 1 if theme.quick else 10
    bare = median(Run([PIANO, "--version"], ahead=True).rss_mb for _ in range(3))
    for times in (1, 2):
        count = times * millions * 1_000_000
        theme.say(f"report of {count} events")
        made = os.path.join(load.folder, "made.rec")
        Run([sys.executable, os.path.join(ROOT, "tools", "make-recording.py"), "--events", count, "--threads", 8, "-o", made])
        _, real = load.record("wakes" if times == 2 else "small", count // 2)
        for what, path in (("8 threads that park, poll and wake", made), ("one thread, 1000 tasks", real)):
            limited = [need("prlimit"), f"--data={REPORT_MB << 20}", PIANO, "report", path, "--polls"]
            Run(limited)  # loads the file into the page cache, so that the disk is not measured
            runs = [Run(limited, ahead=True) for _ in range(theme.repetitions)]
            wall = median(r.wall for r in runs)
            rows.append([what, f"{count:,}", os.path.getsize(path) / 1e6, wall, median(r.cpu for r in runs),
                         median(r.rss_mb for r in runs) - bare])
            os.unlink(path)
            if times == 1:
                # A quick run has a tenth of the events, and a tenth of the time budget.
                theme.budget(f"report of {count:,} events, {what}", wall, REPORT_S * millions / 10, " s")
    theme.table("piano report --polls", ["", "events", "file MB", "wall s", "CPU s", "RSS MB"], rows)
    theme.note(f"Medians; the file in the page cache. RSS at its peak, without the {bare:.0f} MB that the tool and its libraries take "
               f"before it does anything; pages of the file count in it. The process may have {REPORT_MB} MB of memory of its own, "
               "and would fail with more.")


def run(theme):
    if not os.path.exists(os.path.join(LIB, "libpiano.so")):
        raise Missing("there is no libpiano.so")
    folder = fresh("trace")
    sources(folder, "events_load.c", "threads_load.c")
    load = Load(theme, folder)
    one_event(theme, load)
    threads(theme, folder)
    report(theme, load)
    try:
        server(theme, folder)
    except Missing as missing:
        theme.skip("redis", str(missing))
