"""Compares piano's times of functions of known length with the times of uninstrumented twins."""
import os
import shutil

import variation
from common import (Run, cargo_project, fresh, median, piano_build, piano_rows, rust_missing, scratch,
                    sources, uftrace_rows)

CHILDREN = 50_000  # calls that each call of a parent in bodies.c makes
PARENTS = {"parent_of_calls": "call", "parent_of_allocs": "allocation"}
FLAGS = ["-O2", "bodies.c", "-o"]
QUIET = 0.03  # a run that waited for a larger share of its time was disturbed


def truth_of(run):
    """{name: (calls, mean ns, ns in the least disturbed piece)} as the program prints it."""
    rows = [line.split() for line in run.out.splitlines()]
    return {name: (int(calls), float(mean), float(least)) for name, calls, least, mean in rows}


def turn(piano, uftrace):
    """(share of time disturbed, truth, piano, uftrace), ns per call."""
    with scratch() as there:
        watched = Run([piano], env={"PIANO_RUNS_DIR": there}, ahead=True)
        rows = piano_rows(there)
    mine = {name: row["self_ns"] / row["calls"] for name, row in rows.items() if row["calls"]}
    theirs = {}
    if uftrace:
        with scratch() as there:
            data = os.path.join(there, "trace")
            Run(["uftrace", "record", "-d", data, uftrace])
            theirs = {name: ns / calls for name, (ns, calls) in uftrace_rows(data).items()}
    return watched.waited, truth_of(watched), mine, theirs


def quietest(theme, *programs):
    """Repeats until enough turns were undisturbed, within a limit.

    piano measures wall time, and so does the truth. When other programs push this one off the
    processor in the middle of a body and not of its twin, both are right and no longer comparable."""
    turns, tries = [], 0
    while tries < 3 * theme.repetitions and sum(t[0] < QUIET for t in turns) < theme.repetitions:
        tries += 1
        turns.append(turn(*programs))
        theme.say(f"turn {tries}: {100 * turns[-1][0]:.1f} % of the time disturbed")
    turns.sort(key=lambda t: t[0])
    kept = turns[:theme.repetitions]
    worst = f"{100 * kept[-1][0]:.1f} %"
    theme.note(f"Medians of {len(kept)} turns of {tries}: those in which the programs were kept "
               f"waiting least, {worst} of their time at most.")
    if kept[-1][0] >= QUIET:
        theme.excuse = f"the machine was busy: programs were kept waiting {worst} of their time"
        theme.say(theme.excuse)
    return kept


def disorder(names, calls, truth, said):
    """Pairs that are in the wrong order by total self time, among those whose true times differ."""
    wrong = []
    for i, a in enumerate(names):
        for b in names[i + 1:]:
            first, second = (n for n in sorted((a, b), key=lambda n: calls[n] * truth[n]))
            if (calls[second] * truth[second] > 1.1 * calls[first] * truth[first]
                    and calls[second] * said[second] <= calls[first] * said[first]):
                wrong.append(f"{first} above {second}")
    return wrong


def run(theme):
    if not os.environ.get("SCENARIOS"):
        in_c(theme)
        in_rust(theme)
    variation.section(theme, fresh("variation"))


def in_c(theme):
    folder = fresh("accuracy")
    sources(folder, "bodies.c", "chain.h")
    peer = None
    piano, _ = piano_build(folder, [], ["gcc", *FLAGS, "bodies"])
    if shutil.which("uftrace"):
        peer = os.path.join(folder, "pg")
        Run(["gcc", "-pg", *FLAGS, peer], cwd=folder)
    else:
        theme.skip("uftrace's figures", "uftrace is not installed")
    constant(theme, "", piano, peer)


def in_rust(theme):
    why = rust_missing()
    if why:
        theme.skip("the functions in Rust", why)
        return
    piano, _ = piano_build(cargo_project(fresh("accuracy-rust"), "bodies.rs"), [])
    constant(theme, "Rust: ", piano, None)


def constant(theme, language, piano, peer):
    """The errors of functions that always take the same time. PEER: the program for uftrace."""
    turns = quietest(theme, piano, peer)
    names = list(turns[0][1])
    calls = {n: turns[0][1][n][0] for n in names}
    truth = {n: median(t[1][n][1] for t in turns) for n in names}
    least = {n: median(t[1][n][2] for t in turns) for n in names}
    said = {n: median(t[2].get(n, 0.0) for t in turns) for n in names}
    theirs = {n: median(t[3].get(n, 0.0) for t in turns) for n in names}

    def row(name):
        off = said[name] - truth[name]
        return [name, f"{calls[name]:,}", least[name], truth[name], said[name], f"{off:+.2f}",
                f"{100 * off / truth[name]:+.1f} %", theirs[name] if peer else "-"]

    theme.table(f"{language}Self time per call, ns",
                ["function", "calls", "least", "truth", "piano", "off by", "", "uftrace"],
                map(row, names))
    theme.note("The truth is the time of an uninstrumented twin of the function, measured in the same process and alternately with "
               "it: many calls between two clock reads, minus the cost of an empty call. It is a mean over all calls, like self "
               "time / calls. Both contain interruptions by the kernel and the host; the least of a hundred pieces has none. "
               "A sampled function's estimate leaves such interruptions out, so anything between the "
               "least and the mean counts as right.")
    for name in names:
        off = max(least[name] - said[name], said[name] - truth[name], 0.0)
        one_percent = truth[name] / 100
        if name in PARENTS:
            theme.budget(f"{language}{name}: error per {PARENTS[name]}", off / CHILDREN,
                         2.0 + one_percent / CHILDREN, " ns")
        else:
            theme.budget(f"{language}{name}: error per call", off, max(2.0, one_percent), " ns")
    wrong = disorder(names, calls, truth, said)
    theme.require(f"{language}ranking by self time", not wrong, ", ".join(wrong) or "as in truth")
    if peer:
        wrong = disorder(names, calls, truth, theirs)
        theme.note(f"Pairs in the wrong order by uftrace: {', '.join(wrong) or 'none'}.")
