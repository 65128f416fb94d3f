"""Trees of processes: what a server of 64 processes loses, and what starting a program costs, when all of them are recorded."""
import glob
import os
import time

from common import PIANO, Run, fresh, median, sources
from pairs import NOISE, REST_S, ahead_of_others

PROCESSES = 64
LOST_PERCENT = 2.0
ALL = ("--heap", "--cpu=99", "--events", "--children")
WAYS = ((NOISE, None), ("events", ("--events", "--children")), ("CPU", ("--cpu=99", "--children")), ("everything", ALL))


class Once:
    """The load once, plain or recorded: what it says, and what `piano record` takes beside it."""

    def __init__(self, folder, way, *words):
        path = os.path.join(folder, "tree.rec")
        prefix = [] if way is None else [PIANO, "record", *way, "-o", path, "--"]
        began = time.monotonic()
        run = Run([*prefix, os.path.join(folder, "tree_load"), *words], limit=300)
        self.wall = time.monotonic() - began
        self.rate, self.cpu_us = map(float, run.out.split())
        files = glob.glob(glob.escape(path) + "*")
        self.files, self.mb = len(files), sum(os.stat(file).st_blocks * 512 for file in files) / 1e6
        for file in files:
            os.unlink(file)


def pairs(folder, way, count, *words):
    """[(plain, other)], in turns."""
    found = []
    for number in range(count):
        with ahead_of_others():
            both = [Once(folder, which, *words) for which in (None, way)[::-1 if number % 2 else 1]]
        time.sleep(REST_S)
        found.append(tuple(both[::-1 if number % 2 else 1]))
    return found


def server(theme, folder):
    requests, count = (2_000, 2) if theme.quick else (30_000, 12)
    rows = []
    for name, way in WAYS:
        theme.say(f"{PROCESSES} processes: {name}")
        found = pairs(folder, way, count, PROCESSES, requests)
        losses = sorted(100 * (1 - other.rate / plain.rate) for plain, other in found)
        more = 100 * (median(other.cpu_us / plain.cpu_us for plain, other in found) - 1)
        rows.append([name, median(plain.rate for plain, _ in found), median(other.rate for _, other in found),
                     f"{median(losses):.1f} % ({losses[0]:.1f} to {losses[-1]:.1f})", median(plain.cpu_us for plain, _ in found), f"{more:+.1f} %",
                     median(other.wall - plain.wall for plain, other in found), found[0][1].files, median(other.mb for _, other in found)])
        if way == ALL:
            theme.budget(f"{PROCESSES} processes, requests in a second lost with everything on", median(losses), LOST_PERCENT, " %")
    theme.table(f"A server of {PROCESSES} processes", ["recorded", "plain, requests/s", "the other, requests/s", "lost", "plain, CPU us", "",
                                                       "longer s", "files", "MB"], rows)
    theme.note(f"{count} pairs of runs of {requests} requests, in turns: the median of the pairs (least to most). The first process sends "
               "requests, and the others answer them with a tenth of a millisecond of work, on all CPUs, with real-time priority; what `piano record` needs itself is taken "
               "from them. Longer: from the start of `piano record` to its end, with names.")


def starts(theme, folder):
    programs, count = (64, 2) if theme.quick else (640, 7)
    rows = []
    for name, way in WAYS:
        theme.say(f"starts: {name}")
        found = pairs(folder, way, count, programs, "start")
        rows.append([name, median(plain.rate for plain, _ in found), median(other.rate for _, other in found),
                     median(plain.cpu_us for plain, _ in found), median(other.cpu_us for _, other in found)])
    theme.table("Starting a program, /bin/true", ["recorded", "plain, us", "the other, us", "plain, CPU us", "the other, CPU us"], rows)
    theme.note(f"{count} pairs of runs of {programs} starts, one after the other. The CPU time is that of the program started.")


def run(theme):
    folder = fresh("tree")
    sources(folder, "tree_load.c")
    Run(["gcc", "-O2", "tree_load.c", "-o", "tree_load"], cwd=folder)
    server(theme, folder)
    starts(theme, folder)
