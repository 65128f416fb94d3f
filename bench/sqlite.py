"""SQLite under a query load: how much slower with 1, 20 and all functions chosen, and to build."""
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
# What somebody who wonders about queries would choose: the stages of a statement, and the B-tree.
TWENTY = """
    sqlite3_exec sqlite3_prepare_v2 sqlite3_step sqlite3RunParser sqlite3Insert sqlite3Select
    sqlite3Update sqlite3WhereBegin sqlite3WhereEnd sqlite3VdbeMakeReady sqlite3VdbeExec
    sqlite3VdbeHalt sqlite3VdbeSorterWrite sqlite3BtreeBeginTrans sqlite3BtreeCursor
    sqlite3BtreeInsert sqlite3BtreeNext sqlite3BtreeTableMoveto balance sqlite3PagerCommitPhaseTwo
""".split()
FEW = ("1 function", "20 functions")
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
    """Compiles the load in as many ways as are asked for, each in a directory of its own."""

    def __init__(self, theme, origin):
        self.theme, self.origin = theme, origin

    def folder(self, name):
        folder = fresh("sqlite", name)
        sources(folder, "sqload.c", "chain.h")
        for part in ("sqlite3.c", "sqlite3.h"):
            shutil.copy(os.path.join(self.origin, part), folder)
        return folder

    def plain(self, name, *flags):
        self.theme.say(f"compiling {name}")
        folder = self.folder(name)
        run = Run(["gcc", *flags, *FLAGS, "sqload"], cwd=folder)
        return os.path.join(folder, "sqload"), run

    def piano(self, name, functions):
        self.theme.say(f"compiling {name}")
        select = ["--exact"] + [word for fn in functions for word in ("--fn", fn)] if functions else []
        return piano_build(self.folder(name), select, ["gcc", *FLAGS, "sqload"])


def build_all(theme, builder):
    """{name: program}; the plain and the fully instrumented build are timed, in turns."""
    times = []
    for _ in range(1 if theme.quick else 3):
        plain, alone = builder.plain("plain")
        every, watched = builder.piano("all functions", [])
        times.append((alone, watched))
    cpu = [median(r.cpu for r in side) for side in zip(*times)]
    wall = [median(r.wall for r in side) for side in zip(*times)]
    theme.table("Building sqlite3.c and the load, gcc -O2",
                ["", "CPU s", "wall s"],
                [["plain", cpu[0], wall[0]], ["piano build, all functions", cpu[1], wall[1]]])
    theme.note(f"Medians of {len(times)}, in turns.")
    theme.budget("build with all functions against plain, CPU time", cpu[1] / cpu[0], 1.3, "x")
    return {"plain": plain, "1 function": builder.piano("1 function", ONE)[0],
            "20 functions": builder.piano("20 functions", TWENTY)[0], "all functions": every}


def own_cpu(run):
    """CPU ns of the load by its own clock: without whoever records it."""
    return int(run.err.split()[-2])


def measure(plain, program, turns, prefix):
    """(plain Run, Run, piano's rows by name)"""
    with scratch() as there:
        prefix = [word.replace("{}", there) for word in prefix]
        before = Run([plain, turns])
        after = Run([*prefix, program, turns], env={"PIANO_RUNS_DIR": there}, cwd=there)
        rows = {} if prefix else piano_rows(there)  # fails when nothing was recorded
    return before, after, rows


def measure_beside(plain, program, turns):
    """The same with both at once on one CPU, which goes from one to the other all the time: a machine that is slower for a second
    is so for both. One after the other, two runs of the plain program differ by more than is to be seen here."""
    on_one = [need("taskset"), "-c", str(min(os.sched_getaffinity(0)))]
    with scratch() as there, ThreadPoolExecutor(2) as pool:
        before = pool.submit(Run, [*on_one, plain, turns])
        after = pool.submit(Run, [*on_one, program, turns], env={"PIANO_RUNS_DIR": there}, cwd=there)
        return before.result(), after.result(), piano_rows(there)


def run(theme):
    builder = Builder(theme, source(theme))
    programs = build_all(theme, builder)
    plain = programs.pop("plain")
    turns = QUICK_TURNS if theme.quick else TURNS
    plan = [(name, program, turns, ()) for name, program in programs.items()]
    try:
        record = [need("uftrace"), "record", "-d", "{}/trace"]
        plan.append(("uftrace", builder.plain("uftrace", "-pg")[0], PEER_TURNS, record))
    except Missing as missing:
        theme.skip("uftrace", str(missing))
    seen = {name: [] for name, *_ in plan}
    for number in range(theme.repetitions):
        theme.say(f"turn {number + 1} of {theme.repetitions}")
        for name, program, load, prefix in plan:
            seen[name].append(measure_beside(plain, program, load) if name in FEW else measure(plain, program, load, prefix))

    slow = {name: median(b.cpu / a.cpu for a, b, _ in runs) for name, runs in seen.items()}
    own = {name: median(own_cpu(b) / own_cpu(a) for a, b, _ in runs) for name, runs in seen.items()}
    theme.table("Slowdown of the load", ["chosen", "plain CPU s", "CPU", "CPU, the load alone", "wall"],
                [[name, median(a.cpu for a, _, _ in runs), f"{slow[name]:.3f}x", f"{own[name]:.3f}x",
                  "-" if name in FEW else f"{median(b.wall / a.wall for a, b, _ in runs):.3f}x"]
                 for name, runs in seen.items()])
    theme.note(f"Medians of {theme.repetitions}; with 1 and 20 functions the plain program at the same time on the same CPU, "
               "which goes from one to the other, else right before. CPU is all of the process and "
               "those it waited for, start to end. The load alone is by its own clock: uftrace's "
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
    """Sums that have to be right whatever the functions: stated, not judged."""
    alone, watched, rows = last
    calls = sum(row["calls"] for row in rows.values())
    total = sum(row["self_ns"] for row in rows.values())
    least = min(rows.values(), key=lambda row: row["self_ns"])
    theme.note(f"With all {len(rows):,} functions chosen there were {calls:,} calls. Self times add up to "
               f"{total / 1e9:.2f} s; the plain load took {own_cpu(alone) / 1e9:.2f} s and this one "
               f"{own_cpu(watched) / 1e9:.2f} s ({watched.wall:.2f} s by the clock on the wall, which is "
               f"what piano reads). The least self time is that of {least['name']}: "
               f"{least['self_ns'] / 1e6:.1f} ms.")
