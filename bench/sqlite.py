"""SQLite under a query load: how much slower with 1, 20 and all functions chosen, and to build."""
import contextlib
import glob
import os
import shutil
import tarfile
from concurrent.futures import ThreadPoolExecutor

from common import (WORK, Failed, Missing, Run, fresh, median, need, piano_build, piano_rows, scratch,
                    sources)

PACKAGE = "better-sqlite3@13.0.3"  # carries SQLite's C source; one version, so that results compare
TURNS, QUICK_TURNS, PEER_TURNS = 850, 400, 100  # plain: about 3 s, 0.8 s, 0.1 s
ONE = ["sqlite3BtreeInsert"]
# Functions that a user who examines queries would choose: the stages of a statement, and the B-tree.
TWENTY = """
    sqlite3_exec sqlite3_prepare_v2 sqlite3_step sqlite3RunParser sqlite3Insert sqlite3Select
    sqlite3Update sqlite3WhereBegin sqlite3WhereEnd sqlite3VdbeMakeReady sqlite3VdbeExec
    sqlite3VdbeHalt sqlite3VdbeSorterWrite sqlite3BtreeBeginTrans sqlite3BtreeCursor
    sqlite3BtreeInsert sqlite3BtreeNext sqlite3BtreeTableMoveto balance sqlite3PagerCommitPhaseTwo
""".split()
FEW = {"1 function": ONE, "20 functions": TWENTY}
PLACES = ["sqload.16", "sqload.32", "sqload.48", "sqload.64"]  # see sqload.mk
MAKE = ["make", "-s", "-f", "sqload.mk", "CC=gcc"]
FLAGS = ["-O2", "sqlite3.c", "sqload.c", "-lm", "-ldl", "-lpthread", "-o"]


def source(theme):
    """A directory with SQLite's source in it; fetched once."""
    there = os.path.join(WORK, "sqlite-" + PACKAGE.split("@")[1])
    if not os.path.exists(os.path.join(there, "sqlite3.c")):
        npm = need("npm")
        os.makedirs(there, exist_ok=True)
        theme.say(f"fetching {PACKAGE}")
        try:
            Run([npm, "pack", "--silent", PACKAGE], cwd=there, limit=180)
        except Failed as failed:
            raise Missing(f"npm pack {PACKAGE} failed: {str(failed).splitlines()[-1]}") from None
        package = glob.glob(os.path.join(there, "*.tgz"))[0]
        with tarfile.open(package) as tar:
            for name in ("sqlite3.h", "sqlite3.c"):  # the one looked for above comes last
                member = tar.extractfile(f"package/deps/sqlite3/{name}")
                with open(os.path.join(there, name), "wb") as out:
                    shutil.copyfileobj(member, out)
        os.unlink(package)
    return there


class Builder:
    """Compiles the load in the requested ways, each in a separate directory."""

    def __init__(self, theme, origin):
        self.theme, self.origin = theme, origin

    def folder(self, name):
        folder = fresh("sqlite", name)
        sources(folder, "sqload.c", "sqload.mk", "chain.h")
        for part in ("sqlite3.c", "sqlite3.h"):
            shutil.copy(os.path.join(self.origin, part), folder)
        return folder

    def plain(self, name, *flags):
        self.theme.say(f"compiling {name}")
        folder = self.folder(name)
        run = Run(["gcc", *flags, *FLAGS, "sqload"], cwd=folder)
        return os.path.join(folder, "sqload"), run

    def piano(self, name):
        self.theme.say(f"compiling {name}")
        return piano_build(self.folder(name), [], ["gcc", *FLAGS, "sqload"])

    def plain_places(self):
        """The program at all places."""
        self.theme.say("compiling plain, to be linked at several places")
        folder = self.folder("plain places")
        Run(MAKE, cwd=folder)
        return [os.path.join(folder, place) for place in PLACES]

    def places(self, name, functions):
        self.theme.say(f"compiling {name}")
        select = ["--exact"] + [word for fn in functions for word in ("--fn", fn)]
        program, _ = piano_build(self.folder(name), select, MAKE)
        return [os.path.join(os.path.dirname(program), place) for place in PLACES]


@contextlib.contextmanager
def one_cpu():
    """Pins all processes that this thread starts in the block to one CPU."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def build_all(theme, builder):
    """(plain, all functions). Builds both at the same time on one CPU, so that both suffer equally when the machine is slow for
    some seconds. When built one after the other, the ratio varied between 1.2 and 1.4."""
    times = []
    for _ in range(1 if theme.quick else 3):
        with one_cpu(), ThreadPoolExecutor(2) as pool:
            both = [pool.submit(builder.plain, "plain"), pool.submit(builder.piano, "all functions")]
            (plain, alone), (every, watched) = [one.result() for one in both]
        times.append((alone.cpu, watched.cpu))
    theme.table("Building sqlite3.c and the load, gcc -O2", ["", "CPU s"],
                [[name, median(side)] for name, side in zip(("plain", "piano build, all functions"), zip(*times))])
    theme.note(f"Medians of {len(times)}, both at once on one CPU.")
    theme.budget("build with all functions against plain, CPU time", median(b / a for a, b in times), 1.3, "x")
    return plain, every


def own_cpu(run):
    """CPU ns of the load, measured by the load, so without the recorder."""
    return int(run.err.split()[-2])


def measure(plain, program, turns, prefix):
    """(plain Run, Run, piano's rows by name)"""
    with scratch() as there:
        prefix = [word.replace("{}", there) for word in prefix]
        before = Run([plain, turns])
        after = Run([*prefix, program, turns], env={"PIANO_RUNS_DIR": there}, cwd=there)
        rows = {} if prefix else piano_rows(there)  # fails if nothing was recorded
    return before, after, rows


def measure_places(plain, program, turns, number):
    """Pairs of runs on one CPU, one after the other in alternating order, at half of the places each time. They do not run at the
    same time, as the builds do, because some costs of probes grow with wall time and would double."""
    first = number // 2 % 2
    for place in range(number % 2, len(PLACES), 2):
        with scratch() as there, one_cpu():
            commands = [plain[place], program[place]]
            runs = {side: Run([commands[side], turns], env={"PIANO_RUNS_DIR": there}, cwd=there) for side in (first, 1 - first)}
            yield runs[0], runs[1], piano_rows(there)


def run(theme):
    builder = Builder(theme, source(theme))
    plain, every = build_all(theme, builder)
    plain_places = builder.plain_places()
    few = {name: builder.places(name, functions) for name, functions in FEW.items()}
    turns = QUICK_TURNS if theme.quick else TURNS
    plan = [("all functions", every, turns, ())]
    try:
        record = [need("uftrace"), "record", "-d", "{}/trace"]
        plan.append(("uftrace", builder.plain("uftrace", "-pg")[0], PEER_TURNS, record))
    except Missing as missing:
        theme.skip("uftrace", str(missing))
    seen = {name: [] for name in [*few, *(name for name, *_ in plan)]}
    for number in range(theme.repetitions):
        theme.say(f"turn {number + 1} of {theme.repetitions}")
        for name, program in few.items():
            seen[name] += measure_places(plain_places, program, turns, number)
        for name, program, load, prefix in plan:
            seen[name].append(measure(plain, program, load, prefix))

    slow = {name: median(b.cpu / a.cpu for a, b, _ in runs) for name, runs in seen.items()}
    own = {name: median(own_cpu(b) / own_cpu(a) for a, b, _ in runs) for name, runs in seen.items()}
    theme.table("Slowdown of the load", ["chosen", "plain CPU s", "CPU", "CPU, the load alone", "wall"],
                [[name, median(a.cpu for a, _, _ in runs), f"{slow[name]:.3f}x", f"{own[name]:.3f}x",
                  f"{median(b.wall / a.wall for a, b, _ in runs):.3f}x"]
                 for name, runs in seen.items()])
    theme.note(f"Medians of {theme.repetitions} pairs of runs, with 1 and 20 functions of {len(seen['20 functions'])}: both "
               "programs linked at four places (the place of code changes its speed more than a few probes do), on "
               "one CPU, in alternating order. CPU is that of the process and "
               "of its children, start to end. The load measures its own CPU time: uftrace's "
               "recorder is not in it, and it is this smaller figure that piano's whole cost is held "
               f"against. uftrace does {PEER_TURNS} turns instead of {turns}; so does its plain run.")
    theme.budget("all functions, slowdown", slow["all functions"], 2.5, "x")
    if "uftrace" in own:
        theme.budget(f"all functions, slowdown against a fifth of uftrace's {own['uftrace']:.1f}x",
                     slow["all functions"], own["uftrace"] / 5, "x")
    theme.budget("20 functions, slowdown", slow["20 functions"], 1.05, "x")
    different = [name for name, runs in seen.items() if any(a.out != b.out for a, b, _ in runs)]
    theme.require("same output as plain", not different, ", ".join(different) or "everywhere")
    truth(theme, seen["all functions"][-1])


def truth(theme, last):
    """States sums that must be right for any choice of functions; no budget."""
    alone, watched, rows = last
    calls = sum(row["calls"] for row in rows.values())
    total = sum(row["self_ns"] for row in rows.values())
    least = min(rows.values(), key=lambda row: row["self_ns"])
    theme.note(f"With all {len(rows):,} functions chosen there were {calls:,} calls. Self times add up to "
               f"{total / 1e9:.2f} s; the plain load took {own_cpu(alone) / 1e9:.2f} s and this one "
               f"{own_cpu(watched) / 1e9:.2f} s ({watched.wall:.2f} s by the clock on the wall, which is "
               f"what piano reads). The least self time is that of {least['name']}: "
               f"{least['self_ns'] / 1e6:.1f} ms.")
