"""Measures how long a program is stopped when piano attaches to it and detaches."""
import os
import re
import subprocess
import time

from common import PIANO, Failed, Run, fresh, median, sources

LIMIT_MS = 20
THREADS = (1, 100)


def attach(folder, program):
    """Attaches and detaches. Returns the longest time that a thread was stopped, and the wall time of both."""
    path = os.path.join(folder, "attach.rec")
    if os.path.exists(path):
        os.unlink(path)
    began = time.monotonic()
    done = subprocess.run([PIANO, "record", "--heap", "--events", "--pid", str(program.pid), "--duration", "0.1", "-o", path],
                          capture_output=True, text=True, check=False)
    stood = re.search(r"for ([\d.]+) ms at most", done.stderr)
    if done.returncode or not stood:
        raise Failed(done.stderr.strip())
    return float(stood.group(1)), time.monotonic() - began


def ask(program):
    program.stdin.write("\n")
    program.stdin.flush()
    return int(program.stdout.readline()) / 1e6


def measure(theme, folder, threads):
    """A row of the table, with the median and the maximum of piano's figure."""
    program = subprocess.Popen([os.path.join(folder, "attach_threads"), str(threads)], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    try:
        program.stdout.readline()
        stood, alone, beside, whole = [], [], [], []
        for _ in range(5 if theme.quick else 30):
            ask(program)
            time.sleep(whole[-1] if whole else 0.3)  # as long as piano takes, without it
            alone.append(ask(program))
            longest, wall = attach(folder, program)
            beside.append(ask(program))
            stood.append(longest)
            whole.append(wall)
    finally:
        program.kill()
        program.communicate()
    return [threads, median(stood), max(stood), median(alone), median(beside), median(whole)], stood


def run(theme):
    folder = fresh("attach")
    sources(folder, "attach_threads.c")
    Run(["gcc", "-O2", "-pthread", "attach_threads.c", "-o", "attach_threads"], cwd=folder)
    rows = []
    for threads in THREADS:
        row, stood = measure(theme, folder, threads)
        rows.append(row)
        theme.budget(f"a thread of {threads} stands still while piano attaches, median of {len(stood)} times", median(stood), LIMIT_MS, " ms")
        theme.budget(f"the same, the longest of {len(stood)} times", max(stood), LIMIT_MS, " ms")
    theme.table("Attaching to a program, and leaving it after 0.1 s",
                ["threads", "one stood still ms", "max ms", "clock gap without ms", "clock gap with ms", "all of it s"], rows)
    theme.note("The second and third columns are what piano prints: from stopping a thread to letting it go. Only one thread is "
               "stopped at a time. A thread that reads the clock all the time saw the largest gaps in the next two; other "
               "programs make these as well.")
