"""Measures time and memory of `piano report` for a very long run."""
import os
import sys

from common import PIANO, ROOT, Run, fresh, median

LIMIT_S = 2.0
LIMIT_MB = 512.0
GROWTH = 2.2
FUNCTIONS = 8


def run(theme):
    folder = fresh("report")
    frames = 100_000 if theme.quick else 1_000_000
    rows, peaks = [], []
    for count in (frames, 2 * frames):
        path = os.path.join(folder, f"{count}.ndjson")
        theme.say(f"writing {count} frames")
        Run([sys.executable, os.path.join(ROOT, "tools", "make-run.py"), "--frames", count,
             "--functions", FUNCTIONS, "-o", path])
        size = os.path.getsize(path) / 1e6
        Run([PIANO, "report", path])  # loads the file into the page cache, so that the disk is not measured
        runs = [Run([PIANO, "report", path], ahead=True) for _ in range(theme.repetitions)]
        os.unlink(path)
        wall, peak = median(r.wall for r in runs), median(r.rss_mb for r in runs)
        rows.append([f"{count:,}", size, wall, median(r.cpu for r in runs), peak])
        peaks.append(peak)
    theme.table(f"piano report, {FUNCTIONS} functions a frame",
                ["frames", "file MB", "wall s", "CPU s", "peak RSS MB"], rows)
    theme.note("Medians; the file in the page cache. Wall time here, because the reader uses "
               "several CPUs and a person waits for it.")
    # A quick run has a tenth of the frames, and a tenth of the time budget.
    theme.budget(f"wall time, {frames:,} frames", rows[0][2], LIMIT_S * frames / 1_000_000, " s")
    theme.budget(f"peak memory, {frames:,} frames", peaks[0], LIMIT_MB, " MB")
    theme.budget(f"memory of {2 * frames:,} frames against {frames:,}", peaks[1] / peaks[0],
                 GROWTH, "x")
