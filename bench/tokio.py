"""Tokio: nanoseconds per event of a poll, and the slowdown of an echo server whose tasks are recorded."""
import glob
import os
import shutil
import subprocess

from common import FOREIGN, PIANO, ROOT, Failed, Missing, Run, fresh, median
from trace import LIB, on_cpu, written

CRATE = os.path.join(ROOT, "integrations", "tokio")
TARGET = os.path.join(ROOT, "build", "tokio")
POLLS, QUICK_POLLS = 4_000_000, 400_000
CLIENTS = 50
EVENT_NS = 50  # dial9's stated cost of one event
LOST_PERCENT = 2.0
EVENTS = {"hooks": 2, "wakes": 3}  # events per poll


def build():
    """The directory of the programs."""
    cargo = shutil.which("cargo") or shutil.which("cargo", path=os.path.expanduser("~/.cargo/bin"))
    if cargo is None:
        raise Missing("cargo is not installed")
    env = {"PATH": os.path.dirname(cargo) + ":" + os.environ["PATH"], "CARGO_NET_RETRY": "1", "CARGO_HTTP_TIMEOUT": "15"}
    try:
        Run([cargo, "fetch"], cwd=CRATE, env=env, limit=120)
    except Failed as failed:
        raise Missing(f"cargo cannot fetch what Tokio needs: {str(failed).splitlines()[-1]}") from failed
    Run([cargo, "build", "--release", "--offline", "--examples", "--target-dir", TARGET], cwd=CRATE, env=env)
    return os.path.join(TARGET, "release", "examples")


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
                      env={"LD_PRELOAD": os.path.join(LIB, "libpiano.so"), "PIANO_RECORD": path, "PIANO_CHILDREN": "1",
                           "PIANO_EVENTS": "1", "PIANO_EVENTS_MAX": str(1 << 30)})
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


# ---- an echo server ----

class Echo:
    """An echo server with one worker: plain; traced and recorded with FLAGS; or traced without a recording."""

    def __init__(self, programs, folder, way, number):
        self.program, self.path = os.path.join(programs, "echo"), None
        words = [*on_cpu(0), self.program, "serve", "plain" if way is None else "traced"]
        if way:
            self.path = os.path.join(folder, f"echo-{number}.rec")
            words = [PIANO, "record", *way, "-o", self.path, "--", *words]
        around = {k: v for k, v in os.environ.items() if k not in FOREIGN}
        self.process = subprocess.Popen([str(word) for word in words], env=around, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        line = self.process.stdout.readline().split()
        if len(line) != 2:
            self.end()
            raise Failed("the echo server has no port")
        self.port, self.pid = map(int, line)

    def cpu_seconds(self):
        """CPU time of its threads, which live as long as the server. Exact, unlike the process's times, which are in ticks."""
        total = 0
        for path in glob.glob(f"/proc/{self.pid}/task/*/schedstat"):
            with open(path, encoding="utf-8") as stat:
                total += int(stat.read().split()[0])
        return total / 1e9

    def requests(self, count):
        """(requests answered per second, CPU microseconds of the server per request)"""
        before = self.cpu_seconds()
        run = Run([*on_cpu(1), self.program, "ask", self.port, CLIENTS, count], limit=120)
        return float(run.out), (self.cpu_seconds() - before) / count * 1e6

    def end(self):
        self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        if self.path and os.path.exists(self.path):
            os.unlink(self.path)


def side_by_side(theme, programs, folder, way, pairs):
    """[(plain requests/s, the other's, plain CPU us, the other's)] of PAIRS of servers: medians of short runs, in turns."""
    count = 5_000 if theme.quick else 25_000
    found = []
    for number in range(pairs):
        plain, other = [], []
        servers = []
        try:
            # Alternates which one is started first and asked first.
            for which, results in [(None, plain), (way, other)][::-1 if number % 2 else 1]:
                servers.append((Echo(programs, folder, which, len(servers)), results))
                servers[-1][0].requests(count)
            for turn in range(4 if theme.quick else 8):
                for server, results in servers[::-1 if turn % 2 else 1]:
                    results.append(server.requests(count))
        finally:
            for server, _ in servers:
                server.end()
        found.append([median(result[what] for result in results) for what in (0, 1) for results in (plain, other)])
    return found


def echo(theme, programs, folder):
    many, few = (1, 1) if theme.quick else (24, 8)  # random addresses make a server up to 5 % faster or slower
    rows = []
    for name, way, pairs in (("nothing: the noise", None, many), ("traced, and not recorded", (), few),
                             ("events", ("--events",), many), ("events and CPU samples", ("--events", "--cpu=99"), many)):
        theme.say(f"echo: {name}")
        found = side_by_side(theme, programs, folder, way, pairs)
        plain, other, plain_cpu, cpu = (median(column) for column in zip(*found))
        losses = sorted(100 * (1 - row[1] / row[0]) for row in found)
        more = 100 * (median(row[3] / row[2] for row in found) - 1)
        rows.append([name, plain, other, f"{median(losses):.1f} % ({losses[0]:.1f} to {losses[-1]:.1f})", plain_cpu, cpu, f"{more:+.1f} %"])
        if "events" in name:
            theme.budget(f"echo server, requests per second lost with {name}", median(losses), LOST_PERCENT, " %")
    theme.table(f"An echo server, {CLIENTS} clients, 64 bytes",
                ["recorded", "plain, requests/s", "the other, requests/s", "lost", "plain, CPU us", "the other, CPU us", ""], rows)
    theme.note(f"Pairs of servers, {few} in the second row, else {many}: one plain, one as the row says, measured alternately in short runs. "
               "The figures are medians (least to most) over all pairs of each pair's median. The traced servers record spawns, polls, wakes, "
               "parks and ends. CPU: CPU time of the server per request. The server has one worker and one CPU, and the clients have the other; "
               "`piano record` runs on both.")


def run(theme):
    if not os.path.exists(os.path.join(LIB, "libpiano.so")):
        raise Missing("there is no libpiano.so")
    programs = build()
    folder = fresh("tokio")
    one_event(theme, programs, folder)
    echo(theme, programs, folder)
