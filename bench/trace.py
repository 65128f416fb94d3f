"""Events of the trace: nanoseconds and bytes of one, beside reads of the processor's counter in the same run."""
import glob
import os
import struct

from common import PIANO, ROOT, Missing, Run, fresh, median, sources

PAIRS, QUICK_PAIRS = 4_000_000, 400_000
EVENT_NS, EVENT_BYTES, OFF_NS = 20, 12, 5
KINDS = {"small": "poll begin or end, tasks by small numbers", "pointers": "poll begin or end, tasks by address",
         "wakes": "wake or queue depth", "names": "mark or value, by a name"}
LIB = os.path.join(os.path.dirname(os.path.realpath(PIANO)), "lib")
HEADER, CHUNK, HEADS, EVENTS = 4096, 65536, 24, 7


def written(path):
    """(bytes, events) of the events in a recording that lost none."""
    total = 0
    with open(path, "rb") as file:
        header = file.read(HEADER)
        chunks, = struct.unpack_from("<Q", header, 40)
        events, *lost = struct.unpack_from("<5Q", header, 2480 + 40)
        for number in range(chunks):
            file.seek(HEADER + CHUNK * number)
            kind, ready, _, used = struct.unpack("<IIQQ", file.read(24))
            total += used - HEADS if kind == EVENTS and ready and used >= HEADS else 0
    if any(lost):
        raise Missing(f"events were lost, so bytes mean nothing: {lost}")
    return total, events


class Load:
    def __init__(self, theme):
        self.pairs = QUICK_PAIRS if theme.quick else PAIRS
        self.folder = fresh("trace")
        sources(self.folder, "events_load.c")
        self.program = os.path.join(self.folder, "events_load")
        Run(["gcc", "-O2", f"-I{ROOT}/include", "events_load.c", "-o", self.program, f"-L{LIB}", "-lpiano",
             f"-Wl,-rpath,{LIB}"], cwd=self.folder)

    def run(self, kind, recorded):
        """(ns of a counter read, ns of an event, bytes of an event or None)"""
        path = os.path.join(self.folder, "bench.rec")
        env = {"PIANO_RECORD": path, "PIANO_CHILDREN": "1", "PIANO_EVENTS": "1",
               "PIANO_EVENTS_MAX": str(1 << 30)} if recorded else {}
        run = Run([self.program, kind, self.pairs], env=env, ahead=True)
        read_ns, event_ns = map(float, run.out.split())
        if not recorded:
            return read_ns, event_ns, None
        file, = glob.glob(path + "*")
        size, events = written(file)
        os.unlink(file)
        return read_ns, event_ns, size / events


def run(theme):
    if not os.path.exists(os.path.join(LIB, "libpiano.so")):
        raise Missing("there is no libpiano.so")
    load = Load(theme)
    rows = []
    for kind, what in KINDS.items():
        theme.say(what)
        on = [load.run(kind, True) for _ in range(theme.repetitions)]
        off = [load.run(kind, False) for _ in range(theme.repetitions)]
        read_ns, event_ns, size = (median(column) for column in zip(*on))
        off_ns = median(ns for _, ns, _ in off)
        rows.append([what, read_ns, event_ns, f"{event_ns / read_ns:.2f}x", size, off_ns])
        if kind == "small":
            theme.budget("a poll begin or end", event_ns, EVENT_NS, " ns")
            theme.budget("a poll begin or end", size, EVENT_BYTES, " bytes")
            theme.budget("the same when nothing is recorded", off_ns, OFF_NS, " ns")
    theme.table("One event", ["", "counter read, ns", "event, ns", "", "bytes", "not recording, ns"], rows)
    theme.note(f"Medians of {theme.repetitions} runs of {load.pairs} pairs, one thread, CPU time; reads of the counter and "
               "events in turns of 20 000 pairs in the same run. The calls, new chunks and page faults are in it.")
