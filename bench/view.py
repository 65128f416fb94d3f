"""The page of `piano view`: the time to make and to open a large page, the frame rate while panning, and the page's size. One
process with a million frames, five million events and 200,000 samples, in headless Chromium."""
import importlib.util
import json
import os
import random
import struct
import subprocess
import sys

from common import PIANO, ROOT, Failed, Missing, Run, fresh, median, need

FRAMES, EVENTS, SAMPLES, THREADS, FUNCTIONS, STACKS = 1_000_000, 5_000_000, 200_000, 8, 4, 2000
OPEN_S, FRAMES_A_SECOND, FRAME_MS = 3.0, 58, 1000 / 60
START_NS = 5 * 10**9
BROWSER = os.path.join(ROOT, "tests", "browser")
GAPS = 4096  # number of different gaps between two events


def module(name):
    spec = importlib.util.spec_from_file_location(name.replace("-", "_"), os.path.join(ROOT, "tools", name + ".py"))
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def write_run(path, frames):
    Run([sys.executable, os.path.join(ROOT, "tools", "make-run.py"), "--frames", frames, "--functions", FUNCTIONS,
         "--start-mono-ns", START_NS, "-o", path])
    with open(path, "rb") as file:
        file.seek(-400, os.SEEK_END)
        return json.loads(file.read().decode().strip().splitlines()[-1])["wall_ns"]


def write_recording(path, events, samples, length_ns):
    """Writes EVENTS of threads that poll tasks and park, and SAMPLES of these threads, spread over LENGTH_NS."""
    tool = module("make-recording")
    rng = random.Random(1)
    rec = tool.Recording(flags=tool.HAS_EVENTS | tool.HAS_CPU, ticks_per_ns=2.5, start_ns=START_NS,
                         end_ns=START_NS + length_ns)
    rec.module("/tmp/made-up", 0x400000, 0x4000000)
    tasks = [rec.name(f"task-{i}") for i in range(40)]
    gap = length_ns // (events // THREADS)
    gaps = [rng.randrange(gap // 8, 2 * gap - gap // 8) for _ in range(GAPS)]

    def variants(code, fields):
        return [(tool.event(code, round(g * 2.5), *f), g) for g in gaps for f in fields]

    wake, end, park = (variants(c, f) for c, f in ((tool.WAKE, [(100 + i,) for i in range(8)]), (tool.POLL_END, [()]),
                                                   (tool.PARK, [(tool.EPOLL,)])))
    unpark, begin = variants(tool.UNPARK, [(2,)]), variants(tool.POLL_BEGIN, [(100 + i, tasks[i]) for i in range(40)])
    turn = [unpark] + [begin, end, begin, end, wake, begin, end] * 4 + [park]
    chunks = []
    for thread in range(THREADS):
        rec.thread(100 + thread, f"worker-{thread}")
        at, left = START_NS + thread * 17, events // THREADS
        payload, began, size = [], at, 24
        for number in range(left):
            data, took = rng.choice(turn[number % len(turn)])
            if size + len(data) > tool.PAYLOAD:
                chunks.append((began, struct.pack("<QQQ", 100 + thread, rec.ticks(began), began) + b"".join(payload)))
                payload, began, size = [], at, 24
            payload.append(data)
            size += len(data)
            at += took
        chunks.append((began, struct.pack("<QQQ", 100 + thread, rec.ticks(began), began) + b"".join(payload)))
    chunks.sort(key=lambda c: c[0])
    rec.extra_chunks = [(tool.EVENTS, i, len(payload), payload) for i, (_, payload) in enumerate(chunks)]
    rec.trace["events"] = events
    stacks = [rec.stack([0x400000 + 16 * rng.randrange(500) for _ in range(rng.randrange(4, 24))]) for _ in range(STACKS)]
    for number in range(samples):
        tid = 4711 if number % 3 == 0 else 100 + rng.randrange(THREADS)
        rec.cpu(tid, number * length_ns / samples / 1e6, stacks[int(STACKS * rng.random() ** 2)], ms=1.0)
    rec.write(path)


def page(theme, folder, part):
    """Makes a page with 1/PART of all data: (path, seconds to make it, CPU seconds)."""
    run, rec, out = (os.path.join(folder, f"{part}.{end}") for end in ("ndjson", "rec", "html"))
    theme.say(f"writing the run and the recording, 1/{part}")
    length = write_run(run, FRAMES // part)
    write_recording(rec, EVENTS // part, SAMPLES // part, length)
    theme.say(f"piano view of 1/{part}")
    made = Run([PIANO, "view", run, rec, "-o", out])
    size = os.path.getsize(run) + os.path.getsize(rec)
    for path in (run, rec):
        os.unlink(path)
    return out, made, size


def measure(path, repetitions):
    """The results of tests/browser/measure.mjs for a page."""
    done = subprocess.run([need("node"), os.path.join(BROWSER, "measure.mjs"), path, str(repetitions)],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=900,
                          env={**os.environ, "CHROMIUM": need("chromium")})  # the system's browser, as users have it
    if done.returncode != 0:
        raise Failed(f"measure.mjs: {done.stderr[-2000:]}")
    return json.loads(done.stdout)


def run(theme):
    need("chromium")
    setup = subprocess.run([os.path.join(BROWSER, "setup")], stdout=subprocess.PIPE, text=True)
    if setup.returncode != 0:
        raise Missing(setup.stdout.strip() or "tests/browser/setup failed")
    busy = os.getloadavg()[0] - (os.cpu_count() or 1) / 2
    if busy > 0:
        theme.excuse = f"other work was going on (load {os.getloadavg()[0]:.1f})"
    folder = fresh("view")
    most = 10 if theme.quick else 1
    sizes, rows, pans = {}, [], []
    for part in (10 * most, most):
        path, made, size = page(theme, folder, part)
        sizes[part] = os.path.getsize(path)
        theme.say(f"opening 1/{part}")
        found = measure(path, theme.repetitions)
        opened = median(found["open_ms"]) / 1000
        rows.append([f"1/{part}" if part > 1 else "all", f"{FRAMES // part:,}", f"{EVENTS // part:,}", f"{SAMPLES // part:,}",
                     size / 1e6, sizes[part] / 1e6, made.wall, made.rss_mb, opened, *[median(found[k]) / 1000 for k in
                     ("parsed_ms", "inflated_ms", "verified_ms")]])
        for view in found["moves"]:
            pans.append([f"{view['view']}, {view['what']}", rows[-1][0], view["a_second"], view["p50"], view["p99"], view["max"],
                         view["work_p50"], view["work_p99"]])
    theme.table("From a run to a picture", ["", "frames", "events", "samples", "run and recording MB", "page MB", "piano view s",
                                            "its RSS MB", "open s", "parsed s", "inflated s", "all checked s"], rows)
    theme.note("Open: from the start of the navigation to the end of the animation frame that drew the first view, the median "
               f"of {theme.repetitions}; the parts of it are moments since the same start. The page is read from disk.")
    theme.table("While it moves", ["", "part", "frames a second", "p50 ms", "p99 ms", "longest ms", "script p50 ms",
                                   "script p99 ms"], pans)
    theme.note("Milliseconds from one animation frame to the next, while each moves the picture once; at 60 a second they are "
               "16.7. Headless, drawn by the processor: there is no graphics card. Script is what the page itself took of each.")
    theme.budget("open, " + rows[-1][0], rows[-1][8], OPEN_S, " s")
    for row in pans:
        if row[1] == rows[-1][0]:
            theme.require(f"{row[0]}: frames a second", row[2] >= FRAMES_A_SECOND, f"{row[2]:.1f} (at least {FRAMES_A_SECOND})")
            theme.budget(f"{row[0]}: script of 99 % of the frames", row[7], FRAME_MS, " ms")
    theme.require("ten times the run makes a page less than ten times as large", sizes[most] < 10 * sizes[10 * most],
                  f"{sizes[10 * most] / 1e6:.1f} MB, then {sizes[most] / 1e6:.1f} MB")
