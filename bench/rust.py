"""Rust: piano beside the Rust original of the same name, on the same programs, and what `piano build` adds to cargo's time.

The original is the crate `piano` of the registry; where it cannot be installed, the program that PIANO_RUST_ORIGINAL names."""
import glob
import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor

from accuracy import CHILDREN, PARENTS, disorder, truth_of
from common import (ROOT, WORK, Failed, Missing, Run, cargo_project, fresh, median, piano_build, piano_rows, rust_missing,
                    scratch)
from sqlite import one_cpu

ORIGINAL = "0.15.1"
FRAMES, QUICK_FRAMES = 100_000, 20_000  # of swarm.rs: plain, about 0.1 s for each 10 000
KNOWN_FRAMES = 1_000
GAME_FRAMES = 300
FUNCTIONS = ["body_12ns", "body_30ns", "body_100ns", "body_300ns", "body_1us", "body_3us", "body_10us", "body_100us", "body_1ms",
             "short_call", *PARENTS]
# {function: (allocations, bytes)} of each frame of swarm.rs.
ALLOCATIONS = {"mark": (10, 320), "marks": (1, 80)}
COSTLY, OTHERS = "steer", ["advance", "physics", "frame"]  # of swarm.rs: one has the sine, the others call it
PROJECTS = {"ripgrep": "15.1.0"}  # whose builds are timed, besides the game of examples/


def cargo(*words, folder, limit=1800):
    return Run(["cargo", *words], cwd=folder, env={"CARGO_NET_RETRY": "1", "CARGO_HTTP_TIMEOUT": "15"}, limit=limit)


# ---- the original ----

def original(theme):
    """Its program."""
    place = os.path.join(WORK, "rust-original-" + ORIGINAL)
    program = os.path.join(place, "bin", "piano")
    if os.access(program, os.X_OK):
        return program
    theme.say(f"installing the crate piano {ORIGINAL}")
    os.makedirs(WORK, exist_ok=True)
    try:
        cargo("install", "piano", "--version", "=" + ORIGINAL, "--locked", "--quiet", "--root", place, folder=WORK)
        return program
    except Failed as failed:
        given = os.environ.get("PIANO_RUST_ORIGINAL")
        if given:
            return given
        raise Missing(f"the crate piano {ORIGINAL} cannot be installed from the registry ({str(failed).splitlines()[-1]}), and "
                      "PIANO_RUST_ORIGINAL names no program") from failed


def original_build(program, folder, select):
    run = Run([program, "build", *select], cwd=folder, limit=1800)
    return run.out.strip().splitlines()[-1]


def original_rows(program, folder, runs_dir):
    """{name: row} in the words of piano_rows()."""
    run = Run([program, "report", "--json", "--all"], cwd=folder, env={"PIANO_RUNS_DIR": runs_dir})
    return {row["name"]: {**row, "self_ns": 1e6 * row["self_ms"]} for row in json.loads(run.out)}


class Side:
    """One of the two profilers: how it builds, and what it says of a run."""

    def __init__(self, name, program=None):
        self.name, self.program = name, program

    def build(self, folder, select=()):
        if self.program is None:
            return piano_build(folder, select)[0]
        return original_build(self.program, folder, select)

    def rows(self, folder, runs_dir):
        return original_rows(self.program, folder, runs_dir) if self.program else piano_rows(runs_dir)

    def run(self, folder, command, ahead=False):
        """(Run, rows)"""
        with scratch() as there:
            run = Run(command, env={"PIANO_RUNS_DIR": there}, ahead=ahead)
            return run, self.rows(folder, there)


# ---- functions of known length ----

def turns_of(theme, side):
    """{name: (calls, truth, least, said)}: ns per call, medians of the turns."""
    folder = cargo_project(fresh("rust", f"bodies of {side.name}"), "bodies.rs")
    # Not the twins, nor what calls them.
    program = side.build(folder, ["--exact", *(word for name in ["body_empty", *FUNCTIONS] for word in ("--fn", name))])
    turns = []
    for _ in range(theme.repetitions):
        run, rows = side.run(folder, [program], ahead=True)
        turns.append((truth_of(run), rows))
    return {name: (turns[0][0][name][0], median(truth[name][1] for truth, _ in turns), median(truth[name][2] for truth, _ in turns),
                   median(rows[name]["self_ns"] / rows[name]["calls"] if name in rows else 0.0 for _, rows in turns))
            for name in FUNCTIONS}


def known_lengths(theme, sides):
    found = {side: turns_of(theme, side) for side in sides}
    columns = [f"{what} {side.name}" for side in sides for what in ("truth beside", "said by")]
    theme.table("Self time per call of bodies.rs, ns", ["function", "calls", *columns],
                [[name, f"{found[sides[0]][name][0]:,}"] + [found[side][name][i] for side in sides for i in (1, 3)] for name in FUNCTIONS])
    theme.note(f"Medians of {theme.repetitions} runs. The truth beside a profiler is what twins take in the same process, as in the theme "
               "accuracy.")
    for side in sides:
        calls, truth, least, said = ({name: found[side][name][i] for name in FUNCTIONS} for i in range(4))
        wrong = disorder(FUNCTIONS, calls, truth, said)
        if side.program:
            theme.note(f"Pairs in the wrong order by {side.name}: {', '.join(wrong) or 'none'}.")
            continue
        theme.require("ranking by self time", not wrong, ", ".join(wrong) or "as in truth")
        for name in FUNCTIONS:
            off, calls_inside = max(least[name] - said[name], said[name] - truth[name], 0.0), CHILDREN if name in PARENTS else 1
            theme.budget(f"{name}: error per {PARENTS.get(name, 'call')}", off / calls_inside,
                         max(2.0, truth[name] / 100 / calls_inside), " ns")


# ---- slowdown ----

def load_project(name, folder):
    if name == "swarm":
        return cargo_project(folder, "swarm.rs")
    shutil.copytree(os.path.join(ROOT, "examples", "game-rust"), folder, dirs_exist_ok=True,
                    ignore=shutil.ignore_patterns("target", ".piano", "Cargo.lock"))
    return folder


def slowdowns(theme, sides, name, words):
    """{side: median slowdown}, and where each was built: {side: (folder, program)}."""
    theme.say(f"building {name}")
    plain = load_project(name, fresh("rust", f"{name} plain"))
    cargo("build", "--release", "--quiet", "--offline", folder=plain)
    binary = "program" if name == "swarm" else name
    plain = os.path.join(plain, "target", "release", binary)
    folders = {side: load_project(name, fresh("rust", f"{name} of {side.name}")) for side in sides}
    built = {side: (folders[side], side.build(folders[side])) for side in sides}
    seen, rows, outputs = {side: [] for side in sides}, {}, set()
    for number in range(theme.repetitions):
        theme.say(f"{name}: turn {number + 1} of {theme.repetitions}")
        for side in sides:
            before = Run([plain, *words])
            after, rows[side] = side.run(folders[side], [built[side][1], *words])
            seen[side].append((before.cpu, after.cpu))
            outputs |= {before.out, after.out}
    theme.require(f"{name}: same output as plain", len(outputs) == 1, "everywhere" if len(outputs) == 1 else "no")
    slow = {side: median(b / a for a, b in seen[side]) for side in sides}
    calls = sum(row["calls"] for row in rows[sides[0]].values())
    theme.table(f"Slowdown of {name}, all functions", ["", "plain CPU s", "CPU s", "slowdown", "ns more for each call"],
                [[side.name, median(a for a, _ in seen[side]), median(b for _, b in seen[side]), f"{slow[side]:.2f}x",
                  1e9 * median(b - a for a, b in seen[side]) / calls] for side in sides])
    theme.note(f"Medians of {theme.repetitions} pairs of runs, CPU time of the whole process; {calls:,} calls.")
    return slow, built


def loads(theme, sides):
    frames = QUICK_FRAMES if theme.quick else FRAMES
    for name, words in (("swarm", [frames]), ("game", ["--frames", GAME_FRAMES])):
        slow, built = slowdowns(theme, sides, name, words)
        mine = sides[0]
        for peer in sides[1:]:
            theme.budget(f"{name}: slowdown with all functions against a third of the original's {slow[peer]:.1f}x", slow[mine],
                         slow[peer] / 3, "x")
        if name == "swarm":
            known_figures(theme, sides, built)


def known_figures(theme, sides, built):
    """Of one run of swarm.rs that nothing disturbs."""
    frames = KNOWN_FRAMES
    rows = {side: side.run(folder, [program, frames], ahead=True)[1] for side, (folder, program) in built.items()}
    counted = {side: {n: tuple(rows[side].get(n, {}).get(key, 0) for key in ("alloc_count", "alloc_bytes")) for n in ALLOCATIONS}
               for side in sides}
    truth = {n: (frames * count, frames * size) for n, (count, size) in ALLOCATIONS.items()}
    theme.table("Allocations of swarm", ["function", "truth", *(side.name for side in sides)],
                [[n, truth[n], *(counted[side][n] for side in sides)] for n in ALLOCATIONS])
    theme.require("allocations", counted[sides[0]] == truth, str(counted[sides[0]]))
    for side in sides:
        own = {n: rows[side].get(n, {}).get("self_ns", 0.0) for n in (COSTLY, *OTHERS)}
        order = sorted(own, key=lambda n: -own[n])
        said = ", ".join(f"{n} {own[n] / 1e6:.1f} ms" for n in order)
        if side is sides[0]:
            theme.require(f"swarm: most of the self time is that of {COSTLY}", 2 * own[COSTLY] > sum(own.values()), said)
        else:
            theme.note(f"Self times of swarm by {side.name}: {said}.")


# ---- builds ----

def from_registry(name, version):
    """The directory of the source of a crate."""
    folder = cargo_project(fresh("rust", "fetch"), "swarm.rs")
    with open(os.path.join(folder, "Cargo.toml"), "a", encoding="utf-8") as manifest:
        manifest.write(f'\n[dependencies]\n{name} = "={version}"\n')
    try:
        cargo("fetch", "--quiet", folder=folder, limit=180)
    except Failed as failed:
        raise Missing(f"the registry cannot be reached: {str(failed).splitlines()[-1]}") from failed
    # `cargo metadata` leaves out crates without a library.
    home = os.environ.get("CARGO_HOME") or os.path.expanduser("~/.cargo")
    found, = glob.glob(os.path.join(home, "registry", "src", "*", f"{name}-{version}"))
    return found


def build_times(theme, name, origin):
    """[(plain, piano)] of builds from scratch, and of builds after a change of the root file of the program: CPU seconds."""
    whole, changed = [], []
    for _ in range(1 if theme.quick else 3):
        plain, mine = (os.path.join(fresh("rust", f"{name} {side}"), "p") for side in ("to time", "of piano to time"))
        for folder in (plain, mine):
            shutil.copytree(origin, folder, ignore=shutil.ignore_patterns("target", ".piano"))
        cargo("fetch", "--quiet", folder=plain)
        commands = (lambda: cargo("build", "--release", "--quiet", "--offline", folder=plain), lambda: piano_build(mine, [])[1])
        whole.append(both_at_once(*commands))
        for folder in (plain, mine):
            with open(root_file(folder), "a", encoding="utf-8") as source:
                source.write("// changed\n")
        changed.append(both_at_once(*commands))
    return whole, changed


def root_file(folder):
    """The first that there is."""
    names = ("src/main.rs", "crates/core/main.rs", "src/lib.rs")
    return next(path for path in (os.path.join(folder, name) for name in names) if os.path.exists(path))


def both_at_once(*commands):
    """CPU seconds of each, on one CPU: a machine that is slower for some seconds is so for both."""
    with one_cpu(), ThreadPoolExecutor(len(commands)) as pool:
        return tuple(job.result().cpu for job in [pool.submit(command) for command in commands])


def builds(theme):
    projects = {"game": os.path.join(ROOT, "examples", "game-rust")}
    for name, version in PROJECTS.items():
        try:
            projects[f"{name} {version}"] = from_registry(name, version)
        except Missing as missing:
            theme.skip(f"building {name}", str(missing))
    table = []
    for name, origin in projects.items():
        theme.say(f"building {name}, with cargo and with piano")
        for what, times in zip(("from scratch", "after a change"), build_times(theme, name, origin)):
            ratio = median(b / a for a, b in times)
            table.append([f"{name}, {what}", median(a for a, _ in times), median(b for _, b in times), f"{ratio:.2f}x"])
            theme.budget(f"building {name} {what}, CPU time against cargo's", ratio, 1.5, "x")
    theme.table("Builds, all functions", ["", "cargo, CPU s", "piano build, CPU s", ""], table)
    theme.note("Both at once on one CPU.")


def run(theme):
    why = rust_missing()
    if why:
        raise Missing(why)
    sides = [Side("piano")]
    try:
        sides.append(Side("the original", original(theme)))
    except Missing as missing:
        theme.skip("the Rust original", str(missing))
    known_lengths(theme, sides)
    loads(theme, sides)
    builds(theme)
