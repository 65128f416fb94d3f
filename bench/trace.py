"""The trace: nanoseconds and bytes per event, the slowdown of a server with everything recorded, the cost of a thread, and the
time of a report of ten million events."""
import contextlib
import glob
import os
import signal
import socket
import struct
import subprocess
import sys
import time

from common import FOREIGN, PIANO, ROOT, Failed, Missing, Run, fresh, median, need, sources

PAIRS, QUICK_PAIRS = 4_000_000, 400_000
EVENT_NS, EVENT_BYTES, OFF_NS = 20, 12, 5
KINDS = {"small": "poll begin or end, tasks by small numbers", "pointers": "poll begin or end, tasks by address",
         "wakes": "wake or queue depth", "names": "mark or value, by a name"}
LIB = os.path.join(os.path.dirname(os.path.realpath(PIANO)), "lib")
HEADER, CHUNK, HEADS, EVENTS = 4096, 65536, 24, 7

LOST_PERCENT = 2.0
REST_S = 0.15  # a pause for other processes, so that the kernel does not run them in the middle of a measurement
ALL = ("--heap", "--cpu=99", "--events")
REPORT_S, REPORT_MB = 2.0, 48


@contextlib.contextmanager
def ahead_of_others():
    """Gives real-time priority (round robin) to the processes started in the block, if permitted (root)."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except OSError:
        pass
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


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

def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def on_cpu(number):
    """Pins server and client to different CPUs, if there are two, because migration changes more than what is measured."""
    cpus = sorted(os.sched_getaffinity(0))
    return ("taskset", "-c", str(cpus[number])) if len(cpus) > 1 else ()


class Redis:
    """A redis-server, alone or under `piano record` with FLAGS."""

    def __init__(self, folder, flags=None):
        self.port, self.path = free_port(), None
        words = [*on_cpu(0), need("redis-server"), "--port", self.port, "--save", "", "--appendonly", "no", "--dir", folder,
                 "--bind", "127.0.0.1"]
        if flags is not None:
            self.path = os.path.join(folder, f"redis-{self.port}.rec")
            words = [PIANO, "record", *flags, "-o", self.path, "--", *words]
        around = {k: v for k, v in os.environ.items() if k not in FOREIGN}
        self.process = subprocess.Popen([str(word) for word in words], env=around, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + 20
        self.pid = None
        while self.pid is None:
            self.pid = self.find_pid()
            if self.pid is None and (time.monotonic() > until or self.process.poll() is not None):
                self.end()
                raise Failed("redis-server does not answer")
            time.sleep(0.02)

    def answer(self, *words):
        """Reads redis's answer of one packet."""
        with socket.create_connection(("127.0.0.1", self.port), 5) as s:
            s.sendall(" ".join(words).encode() + b"\r\n")
            return s.recv(65536).decode()

    def find_pid(self):
        try:
            for line in self.answer("info", "server").splitlines():
                if line.startswith("process_id:"):
                    return int(line.split(":")[1])
        except OSError:
            pass
        return None

    def requests(self, count, pipeline):
        """(requests per second, CPU microseconds of the server per request)"""
        before = cpu_seconds(self.pid)
        run = Run([*on_cpu(1), need("redis-benchmark"), "-h", "127.0.0.1", "-p", self.port, "-n", count, "-P", pipeline, "-c", 50, "-t",
                   "get", "-d", 16, "-r", 10000, "--csv"])
        used = cpu_seconds(self.pid) - before
        rate = float(run.out.splitlines()[-1].split(",")[1].strip('"'))
        return rate, used / count * 1e6

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(30)
        if self.path and os.path.exists(self.path):
            os.unlink(self.path)


def cpu_seconds(pid):
    """CPU time of the main thread, which does all of redis's work. Exact, unlike the process's times, which are in ticks."""
    with open(f"/proc/{pid}/schedstat", encoding="utf-8") as stat:
        return int(stat.read().split()[0]) / 1e9


def side_by_side(theme, folder, flags, pipeline, pairs):
    """[(plain requests/s, recorded, plain CPU us, recorded)] of PAIRS of servers: medians of short runs, in turns."""
    count = (4_000 if theme.quick else 20_000) * (1 if pipeline == 1 else 8)
    found = []
    for number in range(pairs):
        plain, recorded = [], []
        # Alternates which one is started first and asked first.
        ways = [(None, plain), (flags, recorded)][::-1 if number % 2 else 1]
        servers = []
        try:
            for way, results in ways:
                servers.append((Redis(folder, way), results))
                servers[-1][0].requests(count, pipeline)
            for turn in range(2 if theme.quick else 8):
                for server_, results in servers[::-1 if turn % 2 else 1]:
                    results.append(server_.requests(count, pipeline))
                time.sleep(REST_S)
        finally:
            for server_, _ in servers:
                server_.end()
        found.append([median(result[what] for result in results) for what in (0, 1) for results in (plain, recorded)])
    return found


def server(theme, folder):
    """Measures many servers, because the random addresses of a server's memory change its speed by some percent."""
    need("redis-benchmark")
    rows = []
    many, few = (1, 1) if theme.quick else (12, 4)
    variants = [("nothing: the noise", None, 1, many), ("everything", ALL, 1, many), ("everything, 16 at a time", ALL, 16, few)]
    variants += [] if theme.quick else [("heap", ALL[:1], 1, few), ("CPU", ALL[1:2], 1, few), ("events", ALL[2:], 1, few)]
    for name, flags, pipeline, pairs in variants:
        theme.say(f"redis: {name}")
        with ahead_of_others():
            found = side_by_side(theme, folder, flags, pipeline, pairs)
        plain, rate, plain_cpu, cpu = (median(column) for column in zip(*found))
        losses = sorted(100 * (1 - row[1] / row[0]) for row in found)
        more = 100 * (median(row[3] / row[2] for row in found) - 1)
        rows.append([name, plain, rate, f"{median(losses):.1f} % ({losses[0]:.1f} to {losses[-1]:.1f})", plain_cpu, cpu,
                     f"{more:+.1f} %"])
        if name == "everything":
            theme.budget("redis, requests per second lost with everything on", median(losses), LOST_PERCENT, " %")
    theme.table("redis-server under redis-benchmark, 50 clients, GET",
                ["recorded", "plain, requests/s", "recorded, requests/s", "lost", "plain, CPU us", "recorded, CPU us", ""], rows)
    theme.note(f"Pairs of servers, {many} in the first two rows, else {few}: one plain, one recorded, measured alternately in short runs. "
               "The figures are medians (least to most) over all pairs of each pair's median. Everything: heap at 512 KB, CPU at 99 Hz with "
               "times off the CPU, events. CPU: CPU time of the server per request. The server has one CPU and the client the other, with "
               "real-time priority; `piano record` runs on both.")


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
