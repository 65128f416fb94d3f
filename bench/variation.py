"""Compares piano's figures of functions whose cost changes with the truth that the program prints (programs/variation/).

A section of `bench/run accuracy`. COVERAGE=N in the environment runs each scenario N times to see how often the interval covers the
truth, and N / 2 times to see what `piano diff` says (20 and 10 unless told); GROWTH=N looks N times for a function that was made slower
by 20 %. SCENARIOS=a,b leaves out the others, and the rest of the theme.
"""
import json
import os
import shutil
import subprocess
import tempfile

from common import FOREIGN, PIANO, PROGRAMS, Failed, Run, favoured, median, piano_build, scratch, uftrace_rows

FLAGS = ["-O2", "-pthread", "variation/variation.c", "-lm", "-o"]
QUIET = 0.03  # a run that waited for a larger share of its time was disturbed
SHORT = 20    # scale of the runs for coverage, in percent
PEER = 10     # scale of uftrace's runs, as uftrace writes every call
CLOSE = 0.01  # the truth is known to about one percent
# The function that GROW makes slower, or None.
SCENARIOS = {
    "query40": "query", "asset": "get_asset", "list": "find", "flush": "put", "random": "request", "step": "body",
    "ramp": "cell", "phases": "alpha", "warm": "lookup", "depth": "walk", "threads": "job", "short": "event",
    "miss": "fetch", "own": "item", "callback": "execute",
    "long": "token", "context": "shade", "nested": "leaf", "periodic": "voice", "tail": "drop", "lru": "lru_get",
    "pause": "new_cell", "layers": "texel", "hitch": "read_block", "doubling": "push", "swap": "forth", "decay": "settle",
    "bursts": "packet", "sine": None, "qsort": None, "allocs": None,
}
ALL_TIMED = ("flush", "step", "nested", "qsort", "allocs")


class Truth:
    """The output of a run of the program."""

    def __init__(self, text, call_ns=0.0):
        """CALL_NS is the cost of a call beside its steps. It may belong to the caller, the callee or both."""
        self.self_ns, self.total_ns, self.calls, self.made, self.spikes = {}, {}, {}, {}, []
        self.call_ns = 0.0
        for line in text.splitlines():
            kind, *words = line.split()
            if kind in ("fn", "total"):
                name, calls, *bounds = words[:5]
                low, truth, high = map(float, bounds)
                self.calls[name] = int(calls)
                self.made[name] = int(words[5]) if len(words) > 5 else 0
                high += call_ns * (self.calls[name] + self.made[name]) if len(words) > 5 else 0
                (self.self_ns if kind == "fn" else self.total_ns)[name] = (low, truth, high)
            elif kind == "calls":
                self.calls[words[0]] = int(words[1])
            elif kind == "spent" and int(words[2]):
                self.call_ns = max(0.0, float(words[0]) - float(words[1])) / int(words[2])
            elif kind == "spike":
                self.spikes.append((words[0], int(words[1]), words[2]))


class Watched:
    """Runs the program once under piano, in a new directory, and reads the report."""

    def __init__(self, program, there, scenario, scale, grow=100, timing=None, call_ns=0.0):
        env = {"PIANO_RUNS_DIR": there, **({"PIANO_TIMING": timing} if timing else {})}
        done = Run(favoured([program, scenario, scale, grow]), env=env)
        # Starting the program takes a millisecond or two, in which it does not run.
        self.waited, self.truth = max(0.0, done.wall - done.cpu - 0.003) / done.wall, Truth(done.out, call_ns)
        files = sorted(f for f in os.listdir(there) if f.endswith(".ndjson"))
        if not files:
            raise Failed(f"{scenario}: no run in {there}")
        self.path = os.path.join(there, files[-1])
        report = json.loads(Run([PIANO, "report", self.path, "--json", "--all"]).out)
        self.rows = {row["name"]: row for row in report["functions"]}

    def ns(self, name, key="self_ns"):
        return float(self.rows.get(name, {}).get(key) or 0)

    def interval(self, name):
        """(low, high), or None if the report has none."""
        found = self.rows.get(name, {}).get("self_ci95")
        return tuple(map(float, found)) if found else None

    def blame(self):
        """[(spike, the function with the greatest excess over its median or None)]"""
        if not self.truth.spikes:
            return []
        frames = json.loads(Run([PIANO, "report", self.path, "--frames", "--all", "--json"]).out)["frames"]
        by_root = {}
        for frame in sorted(frames, key=lambda f: f["start_ns"]):
            by_root.setdefault(frame["root"], []).append({f["name"]: f["self_ns"] for f in frame["functions"]})
        usual = {root: {name: median(f.get(name, 0) for f in kept) for name in set().union(*kept)}
                 for root, kept in by_root.items()}
        found = []
        for root, index, name in self.truth.spikes:
            kept = by_root.get(root, [])
            if index >= len(kept):  # merged, or not a frame at all
                found.append(((root, index, name), None))
                continue
            excess = {n: ns - usual[root][n] for n, ns in kept[index].items()}
            found.append(((root, index, name), max(excess, key=excess.get)))
        return found


def call_cost(plain, scenario):
    """The cost of a call in the uninstrumented program, in ns beside its steps: CPU time that the steps do not explain."""
    return median(Truth(Run(favoured([plain, scenario, SHORT])).out).call_ns for _ in range(5))


def disorder(run):
    """Pairs that are in the wrong order by self time, among those whose true times differ by more than a tenth."""
    truth = {n: t[1] for n, t in run.truth.self_ns.items()}
    names = sorted(truth, key=truth.get)
    return [f"{a} above {b}" for i, a in enumerate(names) for b in names[i + 1:]
            if truth[b] > 1.1 * truth[a] and run.ns(b) <= run.ns(a)]


def ms(ns):
    return f"{ns / 1e6:.2f}"


def table_rows(scenario, run, theirs):
    """One row for each function whose truth the program knows."""
    for name, (_, truth, _) in run.truth.self_ns.items():
        said, interval = run.ns(name), run.interval(name)
        between = f"{ms(interval[0])} to {ms(interval[1])}" if interval else "-"
        peer = ms(theirs[name]) if name in theirs else "-"
        yield [scenario, name, f"{run.truth.calls[name]:,}", ms(truth), ms(said), f"{100 * (said / truth - 1):+.1f} %", between, peer]
    for name, (_, truth, _) in run.truth.total_ns.items():
        said = run.ns(name, "total_ns")
        yield [scenario, f"{name}, total", f"{run.truth.calls[name]:,}", ms(truth), ms(said), f"{100 * (said / truth - 1):+.1f} %", "-", "-"]


def peer_of(program, scenario, run):
    """uftrace's self times, scaled to the length of RUN."""
    with scratch() as there:
        data = os.path.join(there, "trace")
        done = Run(favoured(["uftrace", "record", "--no-libcall", "-d", data, program, scenario, PEER]))
        small = Truth(done.out)
        rows = uftrace_rows(data)
    return {name: rows[name][0] * run.truth.self_ns[name][1] / truth[1]
            for name, truth in small.self_ns.items() if name in rows and name in run.truth.self_ns}


def quietest(program, place, scenario, scale, **options):
    """Returns the least disturbed of up to three runs."""
    runs = []
    for _ in range(3):
        runs.append(Watched(program, tempfile.mkdtemp(dir=place), scenario, scale, **options))
        if runs[-1].waited < QUIET:
            break
    return min(runs, key=lambda r: r.waited)


def excuse(theme, runs):
    """Missed budgets prove nothing if one run in twenty was disturbed even in the best of three attempts."""
    waited = sorted(run.waited for run in runs)
    worst = waited[len(waited) * 19 // 20]
    theme.excuse = f"the machine was busy: programs were kept waiting {100 * worst:.1f} % of their time" if worst >= QUIET else None


def one_run_each(theme, names, costs, piano, peer):
    """Writes the table, the ranking and the blame of spikes."""
    rows, runs, wrong, blamed = [], [], [], []
    with scratch() as place:
        for name in names:
            run = quietest(piano, place, name, 20 if theme.quick else 100, call_ns=costs[name])
            runs.append(run)
            rows += table_rows(name, run, peer_of(peer, name, run) if peer else {})
            wrong += [f"{name}: {pair}" for pair in disorder(run)]
            wrong += [f"{name}: a call of {callee} above its only caller" for callee, caller in (("sine_step", "wave"), ("cmp", "sort_all"))
                      if run.ns(callee, "total_ns") > run.ns(caller, "total_ns")]
            mine = run.blame()
            blamed += mine
            right = sum(spike[2] == said for spike, said in mine)
            theme.say(f"{name}: waited {100 * run.waited:.1f} %" + (f", blame right in {right} of {len(mine)} spikes" if mine else ""))
            if mine:
                theme.note(f"{name}: blame right in {right} of {len(mine)} spike frames.")
    theme.table("Variation: self time in all, ms", ["scenario", "function", "calls", "truth", "piano", "off by", "95 % interval", "uftrace"], rows)
    theme.note("Truth: steps that the program counted x what a step took in pieces between the frames, which are not instrumented; of sine, qsort and "
               f"allocs what a twin took. uftrace's figures are of runs of {PEER} % of the length, scaled by truth.")
    excuse(theme, runs)
    theme.require("variation: ranking by self time", not wrong, ", ".join(wrong) or "as in truth")
    right = sum(spike[2] == said for spike, said in blamed)
    theme.require("variation: spike frames blamed rightly", right >= 0.99 * len(blamed), f"{right} of {len(blamed)} (budget 99 %)")


def all_timed(theme, names, costs, piano):
    """With PIANO_TIMING=all, the error of a caller is at most 2 ns for each call that it makes."""
    for name in (n for n in ALL_TIMED if n in names):
        with scratch() as place:
            run = quietest(piano, place, name, SHORT, timing="all", call_ns=costs[name])
        excuse(theme, [run])
        for fn, (low, truth, high) in run.truth.self_ns.items():
            made = 50_000 * run.truth.calls[fn] if fn == "allocates" else run.truth.made[fn]
            if made:
                off = max(low - run.ns(fn), run.ns(fn) - high, 0) / made
                theme.budget(f"variation, every call timed: {name}: error of {fn} per call it makes", off, 2.0 + CLOSE * truth / made, " ns")
        for fn, (low, truth, high) in run.truth.total_ns.items():
            calls = run.truth.calls["cmp"]
            off = max(low - run.ns(fn, "total_ns"), run.ns(fn, "total_ns") - high, 0) / calls
            theme.budget(f"variation, every call timed: {name}: error of the total of {fn} per call", off, 2.0 + CLOSE * truth / calls, " ns")


def covers(run, name):
    """(whether the interval contains the truth, whether it comes within the truth's own uncertainty)"""
    interval, (low, truth, high) = run.interval(name), run.truth.self_ns[name]
    if interval is None:
        return False, False
    return (interval[0] <= truth <= interval[1],
            interval[0] <= (1 + CLOSE) * high and interval[1] >= (1 - CLOSE) * low)


def diff(before, after, *options):
    """(exit status, JSON) of piano diff."""
    around = {k: v for k, v in os.environ.items() if k not in FOREIGN}
    done = subprocess.run([PIANO, "diff", ",".join(before), ",".join(after), "--all", "--json", *options], env=around, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise Failed(f"piano diff: status {done.returncode}\n{done.stderr[-2000:]}")
    return done.returncode, json.loads(done.stdout)


def found(before, after, name):
    """Whether the diff reports NAME as slower."""
    _, said = diff(before, after)
    return any(row["name"] == name and row["significant"] and (row["delta_pct"] or 0) > 0 for row in said["functions"])


def often(theme, names, costs, piano):
    """Coverage, identical pairs, and changes of 20 %."""
    count = int(os.environ.get("COVERAGE") or (4 if theme.quick else 20))
    trials = int(os.environ.get("GROWTH") or max(1, count // 10))
    rows, sums, everything = [], [0] * 7, []
    for name in names:
        with scratch() as place:
            runs = [quietest(piano, place, name, SHORT, call_ns=costs[name]) for _ in range(count)]
            everything += runs
            fns = list(runs[0].truth.self_ns)
            cover = [covers(run, fn) for run in runs for fn in fns]
            pairs = list(zip(runs[::2], runs[1::2]))
            failed = sum(diff([a.path], [b.path], "--fail-above", "20")[0] for a, b in pairs)
            hits = 0
            grown = SCENARIOS[name]
            for trial in range(trials if grown and count >= 3 else 0):
                after = [quietest(piano, place, name, SHORT, grow=120) for _ in range(3)]
                everything += after
                before = [runs[(3 * trial + i) % count].path for i in range(3)]
                hits += found(before, [run.path for run in after], grown)
        tried = trials if grown and count >= 3 else 0
        mine = [sum(s for s, _ in cover), sum(n for _, n in cover), len(cover), failed, len(pairs), hits, tried]
        sums = [a + b for a, b in zip(sums, mine)]
        rows.append([name, f"{mine[0]} of {mine[2]}", f"{mine[1]} of {mine[2]}", f"{failed} of {len(pairs)}", f"{hits} of {tried}" if tried else "-"])
        theme.say(f"{name}: near {mine[1]} of {mine[2]}, identical pairs failed {failed} of {len(pairs)}, changes found {hits} of {tried}")
    theme.table(f"Variation: {count} runs each", ["scenario", "truth in the interval", "within 1 %", "identical pairs that fail --fail-above 20",
                                                 "20 % slower, found with three runs a side"], rows)
    theme.note(f"'Within 1 %': the interval overlaps what truth can be. The lower end of that is the steps as fast as they ever went less {100 * CLOSE:.0f} %, the upper end "
               f"is the steps with every interruption, and the calls, plus {100 * CLOSE:.0f} %. What a call costs beside its steps is found in a run that is "
               "not instrumented: the CPU time that steps do not explain. It may be the caller's or the callee's.")
    excuse(theme, everything)
    _, near, of, failed, pairs, hits, tried = sums
    theme.require("variation: intervals that cover the truth", near >= 0.95 * of, f"{near} of {of} (budget 95 %)")
    theme.require("variation: identical pairs that fail", failed <= 0.05 * pairs, f"{failed} of {pairs} (budget 5 %)")
    if tried:
        theme.require("variation: changes of 20 % found", hits >= 0.95 * tried, f"{hits} of {tried} (budget 95 %)")


def section(theme, folder):
    chosen = os.environ.get("SCENARIOS")
    names = chosen.split(",") if chosen else list(SCENARIOS)
    unknown = set(names) - set(SCENARIOS)
    if unknown:
        raise Failed(f"no scenario {', '.join(sorted(unknown))}; there are {', '.join(SCENARIOS)}")
    if "threads" in names and len(os.sched_getaffinity(0)) < 2:
        names.remove("threads")
        theme.skip("variation: threads", "two threads on one CPU wait for each other")
    shutil.copy(os.path.join(PROGRAMS, "chain.h"), folder)
    shutil.copytree(os.path.join(PROGRAMS, "variation"), os.path.join(folder, "variation"))
    piano, _ = piano_build(folder, [], ["gcc", *FLAGS, "varies"])
    peer = None
    if shutil.which("uftrace"):
        peer = os.path.join(folder, "varies-pg")
        Run(["gcc", "-pg", *FLAGS, peer], cwd=folder)
    plain = os.path.join(folder, "varies-plain")
    Run(["gcc", *FLAGS, plain], cwd=folder)
    costs = {name: call_cost(plain, name) for name in names}
    one_run_each(theme, names, costs, piano, peer)
    all_timed(theme, names, costs, piano)
    often(theme, names, costs, piano)
