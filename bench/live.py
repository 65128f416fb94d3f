"""What it costs to watch: the CPU time of `piano top` and of `piano view --live` beside a recording that is being written,
against the time that passes; and what `piano record --watch` takes more than `piano record`. What recording itself costs is in
heap, trace, servers and tokio."""
import json
import os
import signal
import subprocess
import tempfile
import time
import urllib.request

from common import FOREIGN, PIANO, Failed, Run, fresh, sources, text_of

MOST = 1.0  # per cent of a CPU
# The load, its turns per second, and how many times longer it is watched, because piano rarely reads all polls again.
LOADS = (("calm: 100 turns a second", 100, 1), ("busy: 20,000 turns a second", 20_000, 2), ("storm: as many as it can", 10_000_000, 4))


def environment():
    return {k: v for k, v in os.environ.items() if k not in FOREIGN}


class Recorded:
    """Runs `piano record` with the load until the end of the block."""

    def __init__(self, folder, seconds, events, flags=()):
        self.file = os.path.join(folder, f"load-{events}-{time.monotonic_ns()}.rec")
        self.process = subprocess.Popen([PIANO, "record", *flags, "-o", self.file, os.path.join(folder, "load"), str(seconds), str(events)], cwd=folder,
                                        env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def __enter__(self):
        end = time.monotonic() + 30
        while not (os.path.exists(self.file) and os.path.getsize(self.file) > 65536):
            if time.monotonic() > end or self.process.poll() is not None:
                raise Failed("the load left no recording")
            time.sleep(0.05)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        os.unlink(self.file)


def used(pid):
    """CPU seconds that a process has used."""
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def watch_by_top(recorded, start_s, seconds):
    """(share of a CPU in per cent after START_S, CPU ms of the start, readings)."""
    with tempfile.TemporaryFile() as out:  # a pipe would fill up
        top = subprocess.Popen([PIANO, "top", "--json", "--duration", str(start_s + seconds), recorded.file], env=environment(), stdout=out)
        time.sleep(start_s)
        start = used(top.pid)
        began = time.monotonic()
        time.sleep(seconds - 0.5)
        share = 100 * (used(top.pid) - start) / (time.monotonic() - began)
        if top.wait() != 0:
            raise Failed("piano top failed")
        return share, 1e3 * start, len(text_of(out).splitlines())


def watch_by_page(recorded, start_s, seconds):
    """(share while a page polls, share without a page, CPU ms of the start, answers with new data)."""
    server = subprocess.Popen([PIANO, "view", "--live", "--no-open", recorded.file], env=environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    url = server.stdout.readline().strip()
    number, fresh_data, before, began, cycles = 1, 0, None, time.monotonic(), []
    while (passed := time.monotonic() - began) < start_s + seconds:
        if before is None and passed > start_s:
            before, since = used(server.pid), time.monotonic()
        with urllib.request.urlopen(f"{url}live/{number}") as answer:
            note = json.loads(answer.readline())
            answer.read()
        fresh_data += note["meta_bytes"] > 0
        if before is not None and note["meta_bytes"] > 0:
            cycles.append((time.monotonic(), used(server.pid)))
        number = note["number"] if note["meta_bytes"] > 0 else number
        time.sleep(1)
    cycles = cycles if len(cycles) > 1 else [(since, before), (time.monotonic(), used(server.pid))]
    asked = 100 * (cycles[-1][1] - cycles[0][1]) / (cycles[-1][0] - cycles[0][0])  # whole cycles: from new data to new data
    start = used(server.pid)
    idle_began = time.monotonic()
    time.sleep(3)
    idle = 100 * (used(server.pid) - start) / (time.monotonic() - idle_began)
    server.send_signal(signal.SIGINT)
    server.wait()
    return asked, idle, 1e3 * before, fresh_data


WATCHING = ("--watch", "--on-long-poll", "1000s:snapshot", "--on-growth", "1000000%/min:snapshot")  # nothing of it comes true


def watch_by_record(folder, events, start_s, seconds):
    """(share of the recorder, the same with --watch and conditions), both at the same time."""
    with Recorded(folder, 3600, events) as plain, Recorded(folder, 3600, events, WATCHING) as watching:
        time.sleep(start_s)
        began = time.monotonic()
        before = [used(recorded.process.pid) for recorded in (plain, watching)]
        time.sleep(seconds)
        passed = time.monotonic() - began
        return [100 * (used(recorded.process.pid) - b) / passed for recorded, b in zip((plain, watching), before)]


def record_watch(theme, folder, seconds):
    rows = []
    for name, events, _ in LOADS:
        theme.say(f"--watch, {name}")
        plain, watching = watch_by_record(folder, events, 5, seconds)
        rows.append([name, plain, watching, watching - plain])
        theme.budget(f"piano record --watch more than without, {name}", watching - plain, MOST, "%")
    theme.table("CPU time of `piano record` itself", ["program", "without %", "with --watch and conditions %", "more %"], rows)
    theme.note(f"Shares of one CPU over {seconds} s, of two recordings of the same program at the same time, with everything on.")


def run(theme):
    start_s, seconds = (20, 15) if theme.quick else (30, 60)
    folder = fresh("live")
    sources(folder, "live_load.c")
    Run(["gcc", "-O2", "-pthread", "live_load.c", "-o", "load"], cwd=folder)
    rows = []
    for name, events, times in LOADS:
        with Recorded(folder, 3600, events) as recorded:
            top, start_ms, readings = watch_by_top(recorded, start_s, times * seconds)
            asked, idle, page_ms, answers = watch_by_page(recorded, start_s, times * seconds)
            size = os.path.getsize(recorded.file) / 2**20
        rows.append([name, top, start_ms, readings, asked, page_ms, answers, idle, size])
        if times < 4 or not theme.quick:  # one reading of all polls of a storm is more than 1 % of a minute
            theme.budget(f"piano top, {name}", top, MOST, "%")
            theme.budget(f"piano view --live, {name}", asked, MOST, "%")
        theme.budget(f"piano view --live without a page, {name}", idle, 0.1, "%")
    theme.table("CPU time of the watcher", ["program", "top %", "its start ms", "readings", "page %", "its start ms", "new data", "no page %", "MB"], rows)
    theme.note(f"Shares of one CPU over {seconds} s (busy: twice, storm: four times as long), after {start_s} s for the lookup of names. `piano top` reads every second, or less often if that would "
               "take more than 1 %. The page asks every second, and the server packs as often as 1 % allows.")
    record_watch(theme, folder, seconds)
