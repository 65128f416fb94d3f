"""The fixed cost of instrumentation: a program that makes one call and exits. Stated, no budget."""
import os

from common import Run, fresh, median, piano_build, scratch, sources


def run(theme):
    folder = fresh("startup")
    sources(folder, "one_call.c")
    compile_it = ["gcc", "-O2", "one_call.c", "-o", "one_call"]
    Run(compile_it, cwd=folder)
    plain = os.path.join(folder, "one_call")
    program, _ = piano_build(folder, [], compile_it)
    pairs = []
    for _ in range(10 if theme.quick else 40):
        before = Run([plain])
        with scratch() as runs:
            pairs.append((before, Run([program], env={"PIANO_RUNS_DIR": runs})))
    rows = []
    for name, which in (("plain", 0), ("piano", 1)):
        runs = [pair[which] for pair in pairs]
        rows.append([name, 1e3 * median(r.wall for r in runs), 1e3 * median(r.cpu for r in runs)])
    rows.append(["difference"] + [b - a for a, b in zip(rows[0][1:], rows[1][1:])])
    theme.table("A program that makes one call", ["", "wall ms", "CPU ms"], rows)
    theme.note(f"Medians of {len(pairs)} alternating runs. piano spends most of the difference on measuring the cost of its "
               "probes on this machine (docs/frames.md).")
    theme.say(f"one call costs {rows[2][1]:.1f} ms more than plain")
