#!/usr/bin/env python3
"""Writes recordings with known contents, for tests of everything that reads them.

    tools/make-recording.py --stacks 1000 --snapshots 20 -o big.rec
    tools/make-recording.py --events 10000000 --threads 4 -o big.rec

As a module (tests load it by its path):

    rec = Recording(program="/bin/demo", rate=512 * 1024)
    rec.module("/bin/demo", start=0x400000, end=0x500000, bias=0x400000)
    leaf = rec.stack([0x401010, 0x402020])
    rec.sample(leaf, size=64 * 1024)                    # still live
    rec.sample(leaf, size=100, lived_us=3)              # freed again
    rec.snapshot(at_ms=500)                             # of what there is now
    rec.thread(4711, "main")
    task = rec.name("accept")
    rec.event(4711, 10.0, POLL_BEGIN, 1, task)          # 10 ms after the start
    rec.event(4711, 30.0, POLL_END)
    rec.cpu(4711, 15.0, leaf, ms=10)                    # a sample that stands for 10 ms
    rec.off(4711, 20.0, leaf, ms=5)                     # off the CPU for 5 ms
    rec.symbol("/bin/demo", 0x100F, [("leaf", "demo.c", 12, False)])   # what an address meant
    rec.write("demo.rec")

The format is src/common/recording.h, described in docs/recording-format.md; this is a second, independent
writer of it. Sums are made as the program makes them: a sample of SIZE bytes at a mean of RATE bytes stands
for SIZE/p bytes and 1/p objects, p = 1 - exp(-SIZE/RATE).
"""
import argparse
import math
import re
import struct
import subprocess

MAGIC = b"PIANOREC"
HEADER, CHUNK, CHUNK_HEAD = 4096, 65536, 64
PAYLOAD = CHUNK - CHUNK_HEAD
(MODULES, STACKS, TOTALS, LIVE, SNAPSHOT, THREADS, EVENTS, SAMPLES, NAMES, PYTHON, SYMBOLS,
 DEFINITIONS) = range(1, 13)
PARTS, PART = 16, 4088  # of a chunk of definitions
TEXT, MODULE, ADDRESS, INLINED = 1, 2, 3, 1
(THREAD, WORKER_START, WORKER_STOP, TASK_SPAWN, TASK_END, POLL_BEGIN, POLL_END, PARK, UNPARK, WAKE, QUEUE, MARK,
 VALUE) = range(1, 14)
DEFINING = (WORKER_START, WORKER_STOP, TASK_SPAWN, TASK_END)
API, EPOLL, POLL, SELECT, URING, CONDITION, SEMAPHORE = range(7)
HAS_HEAP, HAS_MAPS, CHILD, HAS_CPU, HAS_EVENTS = 1, 2, 4, 8, 16
CPU, OFF, PREEMPTED, TOOL_STACK = 1, 2, 1, 1 << 31
LOST, FULL, BY_FP, MMAP = 1, 2, 4, 8
STARTING, ACTIVE, STOPPED, TERMINATED, ENDED = range(5)
TOTALS_BYTES, LIVE_BYTES, ENTRIES_PER_PART = 256, 48, 1024
STATS = ("samples freed stacks collisions filter_passes filter_misses stale dropped_live dropped_stacks "
         "dropped_memory dropped_busy walked walked_frames walked_lost walked_full walked_by_fp threads "
         "map_calls map_partial").split()
TRACE = ("start_ticks end_ticks end_mono_ns clocks cpu_hz events dropped_memory dropped_busy dropped_names recycled "
         "samples samples_lost samples_unwound switches threads_missed ring_chunks ring_most overwritten overwritten_ns "
         "definitions_in_ring").split()
TRACE_END = "sampled_ns kernel_ns cpu_error".split()
SECOND = 10**9


def varint(value):
    out = b""
    while value >= 0x80:
        out += bytes((value & 0x7F | 0x80,))
        value >>= 7
    return out + bytes((value,))


def zigzag(value):
    return value << 1 if value >= 0 else ~value << 1 | 1


def event(code, ticks, *fields):
    """The bytes of one event, TICKS after the previous one."""
    body = varint(ticks) + b"".join(varint(field) for field in fields)
    return bytes((code, len(body))) + body


def weight(size, rate):
    """(bytes, objects, variance) that one sample stands for."""
    p = 1.0 if rate <= 1 else -math.expm1(-max(size, 1) / rate)
    return size / p, 1 / p, (size / p) ** 2 * (1 - p)


class Sums:
    """One record of TOTALS."""

    def __init__(self):
        self.samples = self.freed = self.seen_epoch = self.last_ns = 0
        self.allocated = [0.0, 0.0, 0.0]
        self.released = [0.0, 0.0, 0.0]
        self.peak = [0.0, 0.0]
        self.lifetimes = [0] * 32

    def live(self, what=0):
        return self.allocated[what] - self.released[what]

    def remember_peak(self, epoch):
        """Called before a change: stores the current sums as those at the last peak, unless they changed since the peak."""
        if self.seen_epoch != epoch:
            self.seen_epoch, self.peak = epoch, [self.live(0), self.live(1)]

    def pack(self):
        return struct.pack("<QQ8dQQ4Q32I", self.samples, self.freed, *self.allocated, *self.released,
                           *self.peak, self.seen_epoch, self.last_ns, 0, 0, 0, 0, *self.lifetimes)


class Recording:
    def __init__(self, program="/tmp/made-up", command=None, pid=4711, rate=512 * 1024, start_ns=5 * SECOND,
                 end_ns=15 * SECOND, exit_status=1, state=ENDED, flags=None, ticks_per_ns=None, cpu_hz=99, **stats):
        self.program, self.command = program, command or [program]
        self.pid, self.parent, self.rate, self.flags = pid, 1, rate, flags
        self.start_ns, self.end_ns, self.exit_status, self.state = start_ns, end_ns, exit_status, state
        self.real_ns = 1740000000123 * 10**6
        self.modules, self.stacks, self.lives, self.snapshots = [], [], [], []
        self.sums = {}  # by stack number
        self.stats = dict.fromkeys(STATS, 0)
        self.given = stats
        self.peak = [0.0, 0.0]
        self.peak_variance = 0.0
        self.peak_ns = self.peak_epoch = 0
        self.now_ns = start_ns
        self.threads, self.names, self.samples = [], [], []
        self.symbols, self.symbol_texts, self.symbol_modules = [], [], []
        self.events = {}  # by tid: [(at_ns, code, fields)]
        self.ticks_per_ns = ticks_per_ns  # None: no counter, ticks are nanoseconds
        self.trace = dict.fromkeys(TRACE + TRACE_END, 0)
        self.trace["cpu_hz"] = cpu_hz
        self.cpu_source = 1
        self.end_pair = True
        self.events_per_chunk = None  # as many as fit
        self.has_definitions = True  # False: definitions among the events, as piano 0.2.0 wrote them
        self.extra_chunks = []  # (type, index, used, payload), written unchanged
        self.version, self.header_bytes, self.chunk_bytes = 1, HEADER, CHUNK

    def module(self, path, start, end, bias=None, build_id=b"", since=0, until=0xFFFFFFFF):
        self.modules.append((path, start, end, start if bias is None else bias, build_id, since, until))

    def stack(self, pcs, flags=0, generation=0, number=None):
        """Adds a stack of return addresses, innermost first. Returns its number."""
        number = len(self.stacks) + 1 if number is None else number
        self.stacks.append((number, flags, generation, list(pcs)))
        return number

    def _live(self, what):
        return sum(s.live(what) for s in self.sums.values())

    def sample(self, stack, size, lived_us=None, at_ms=None, count=1, rate=None, tid=1, address=None):
        """Adds COUNT samples of SIZE bytes, live or freed after LIVED_US."""
        rate = rate or self.rate
        sums = self.sums.setdefault(stack, Sums())
        for _ in range(count):
            self.now_ns = self.now_ns + 1000 if at_ms is None else self.start_ns + int(at_ms * 10**6)
            w = weight(size, rate)
            sums.remember_peak(self.peak_epoch)
            sums.samples += 1
            sums.last_ns = self.now_ns
            sums.allocated = [a + b for a, b in zip(sums.allocated, w)]
            if self._live(0) > self.peak[0]:
                self.mark_peak()
            if lived_us is None:
                address = address or 0x7F0000000000 + len(self.lives) * 4096
                self.lives.append((address | (1 << 48), size, rate, self.now_ns, stack, tid))
                address = None
            else:
                sums.remember_peak(self.peak_epoch)
                sums.freed += 1
                sums.released = [a + b for a, b in zip(sums.released, w)]
                sums.lifetimes[min(int(lived_us).bit_length(), 31)] += 1
        return self

    def mark_peak(self):
        self.peak = [self._live(0), self._live(1)]
        self.peak_variance = self._live(2)
        self.peak_ns, self.peak_epoch = self.now_ns, self.peak_epoch + 1

    def free(self, stack, size, lived_us, rate=None):
        """Frees one live sample of STACK with SIZE bytes."""
        i = next(i for i, live in enumerate(self.lives) if live[4] == stack and live[1] == size)
        del self.lives[i]
        s, w = self.sums[stack], weight(size, rate or self.rate)
        s.remember_peak(self.peak_epoch)
        s.freed += 1
        s.released = [a + b for a, b in zip(s.released, w)]
        s.lifetimes[min(int(lived_us).bit_length(), 31)] += 1

    def snapshot(self, at_ms, kind=1, resident=0, number=None):
        entries = [(n, s.samples - s.freed, s.live(0), s.live(1), s.allocated[0], s.live(2))
                   for n, s in sorted(self.sums.items()) if s.samples]
        self.snapshots.append((number or len(self.snapshots) + 1, kind, self.start_ns + int(at_ms * 10**6),
                               self._live(0), sum(s.allocated[0] for s in self.sums.values()), resident,
                               entries))

    # The trace ------------------------------------------------------------------------------------

    def thread(self, tid, name, pid=None):
        self.threads.append((tid, self.pid if pid is None else pid, name))
        return tid

    def name(self, text):
        """The number of a name; equal texts have equal numbers."""
        if text not in self.names:
            self.names.append(text)
        return self.names.index(text) + 1

    def symbol(self, path, address, frames, build_id=b""):
        """Adds kept names: FRAMES, (function, file, line, inlined) innermost first, at file address ADDRESS of the module PATH, or
        at an address of the kernel if PATH is None."""
        def number(of, what):
            if what not in of:
                of.append(what)
            return of.index(what) + 1
        module = number(self.symbol_modules, (path, build_id)) if path else 0
        self.symbols.append((module, address, [
            (number(self.symbol_texts, function), number(self.symbol_texts, file) if file else 0, line, INLINED * inlined)
            for function, file, line, inlined in frames]))
        return self

    def moment(self, at_ms):
        return self.start_ns + round(at_ms * 10**6)

    def event(self, tid, at_ms, code, *fields):
        """Adds an event AT_MS after the start, in the order of its thread. Values are not checked."""
        fields = fields if code != VALUE else (fields[0], zigzag(fields[1]))
        self.events.setdefault(tid, []).append((self.moment(at_ms), code, fields))
        return self

    def poll(self, tid, at_ms, ms, task, name=0):
        self.event(tid, at_ms, POLL_BEGIN, task, name)
        return self.event(tid, at_ms + ms, POLL_END)

    def turn(self, tid, at_ms, ms, kind=EPOLL, returned=1):
        """Adds a turn of a loop: its wait ends at AT_MS, and the next one begins MS later."""
        self.event(tid, at_ms, UNPARK, returned + 1)
        return self.event(tid, at_ms + ms, PARK, kind)

    def cpu(self, tid, at_ms, stack, ms=10.0, count=1, pid=None, cpu=0):
        """Adds COUNT samples from AT_MS on, MS apart; each stands for MS of CPU time."""
        for i in range(count):
            self.samples.append((CPU, 0, tid, self.pid if pid is None else pid, self.moment(at_ms + i * ms),
                                 round(ms * 10**6), stack, cpu))
        return self

    def off(self, tid, at_ms, stack, ms=0.0, preempted=False, pid=None, cpu=0):
        """Adds a period off the CPU from AT_MS on for MS; 0: it does not end."""
        self.samples.append((OFF, PREEMPTED if preempted else 0, tid, self.pid if pid is None else pid,
                             self.moment(at_ms), round(ms * 10**6), stack, cpu))
        return self

    def ticks(self, at_ns):
        return at_ns if self.ticks_per_ns is None else 10**12 + round((at_ns - self.start_ns) * self.ticks_per_ns)

    def _is_definition(self, e):
        return self.has_definitions and e[1] in DEFINING

    def _definition_chunks(self):
        """Payloads of chunks that contain parts of several threads."""
        parts = [payload for _, payload in self._event_chunks(self._is_definition, PART - CHUNK_HEAD)]
        for number in range(0, len(parts), PARTS):
            yield b"".join((struct.pack("<IIQQ5Q", DEFINITIONS, 1, number + i, len(part), *[0] * 5) + part).ljust(PART, b"\0")
                           for i, part in enumerate(parts[number:number + PARTS]))

    def _event_chunks(self, chosen, room=PAYLOAD):
        """(time of the first event, payload) of each chunk of the CHOSEN events."""
        for tid, events in self.events.items():
            out, first, count = b"", 0, 0
            for at, code, fields in filter(chosen, events):
                record = event(code, self.ticks(at) - last if out else 0, *fields)
                if out and (len(out) + len(record) > room or count == self.events_per_chunk):
                    yield first, out
                    out = b""
                if not out:
                    first, count = at, 0
                    out = struct.pack("<QQQ", tid, self.ticks(at), at)
                    record = event(code, 0, *fields)
                out += record
                last = self.ticks(at)
                count += 1
            if out:
                yield first, out

    def _trace_header(self):
        t = dict(self.trace)
        counter = self.ticks_per_ns is not None
        t["start_ticks"] = t["start_ticks"] or (self.ticks(self.start_ns) if counter else self.start_ns)
        if self.end_pair and self.end_ns:
            t["end_ticks"], t["end_mono_ns"] = self.ticks(self.end_ns), self.end_ns
        t["clocks"] = int(counter) | (self.cpu_source if self.samples else 0) << 32
        t["events"] = t["events"] or sum(len(events) for events in self.events.values())
        t["samples"] = t["samples"] or sum(s[0] == CPU for s in self.samples)
        t["switches"] = t["switches"] or sum(s[0] == OFF for s in self.samples)
        t["sampled_ns"] = t["sampled_ns"] or sum(s[5] for s in self.samples if s[0] == CPU)
        gap = 30 - len(TRACE) - len(TRACE_END)
        return struct.pack("<30Q", *[t[name] for name in TRACE], *[0] * gap, *[t[name] for name in TRACE_END])

    def _flags(self):
        if self.flags is not None:
            return self.flags
        flags = HAS_EVENTS * bool(self.events) | HAS_CPU * bool(self.samples)
        return flags | HAS_HEAP if self.sums or not flags else flags

    # Bytes ---------------------------------------------------------------------------------------

    def _header(self, chunks):
        total = [sum(s.allocated[i] for s in self.sums.values()) for i in range(3)]
        stats = dict(self.stats, samples=sum(s.samples for s in self.sums.values()),
                     freed=sum(s.freed for s in self.sums.values()), stacks=len(self.stacks), threads=1)
        stats["walked"] = stats["samples"]
        depths = {number: len(pcs) for number, _, _, pcs in self.stacks}
        stats["walked_frames"] = sum(depths.get(n, 0) * s.samples for n, s in self.sums.items())
        stats.update(self.given)
        out = MAGIC + struct.pack("<8I", self.version, self.header_bytes, self.chunk_bytes, 62, self.pid,
                                  self.parent, self._flags(), self.state)
        out += struct.pack("<7Q", chunks, self.start_ns, self.real_ns, self.end_ns, self.rate,
                           self.exit_status, len(self.snapshots))
        out += struct.pack("<8dQQ", self._live(0), self._live(1), total[0], total[1], total[2],
                           self._live(2), *self.peak, self.peak_ns, self.peak_epoch)
        assert len(out) == 176
        out += struct.pack("<32Q", *[stats[name] for name in STATS], *[0] * (32 - len(STATS)))
        words = b"\0".join(w.encode() if isinstance(w, str) else w for w in self.command)
        program = self.program.encode() if isinstance(self.program, str) else self.program
        out += program[:1023].ljust(1024, b"\0") + words[:1023].ljust(1024, b"\0")
        out += self._trace_header()
        out += struct.pack("<d2Qd", 0, 0, 0, self.peak_variance)  # none untracked, no limit, none given up
        return out.ljust(HEADER, b"\0")

    def _records(self):
        """(type, bytes) of every log record."""
        for path, start, end, bias, build_id, since, until in self.modules:
            name = (path.encode() if isinstance(path, str) else path) + b"\0"
            name += bytes(-len(name) % 8)
            yield MODULES, struct.pack("<4I3Q32s", 72 + len(name), since, until, len(build_id), start, end,
                                       bias, build_id) + name
        for number, flags, generation, pcs in self.stacks:
            yield STACKS, struct.pack(f"<4I2Q{len(pcs)}Q", 32 + 8 * len(pcs), number, flags, len(pcs),
                                      generation, hash(tuple(pcs)) & (2**64 - 1), *pcs)
        for number, kind, at, live, allocated, resident, entries in self.snapshots:
            parts = max(1, -(-len(entries) // ENTRIES_PER_PART))
            for part in range(parts):
                mine = entries[part * ENTRIES_PER_PART:(part + 1) * ENTRIES_PER_PART]
                yield SNAPSHOT, struct.pack("<6IQddQ", 56 + 40 * len(mine), number, part, parts, kind,
                                            len(mine), at, live, allocated, resident) + b"".join(
                    struct.pack("<IIdddd", *entry) for entry in mine)
        for tid, pid, name in self.threads:
            text = (name.encode() if isinstance(name, str) else name)[:15]
            yield THREADS, struct.pack("<4IQ16s", 40, tid, pid, 0, self.start_ns, text)
        for number, text in enumerate(self.names, 1):
            text = (text.encode() if isinstance(text, str) else text) + b"\0"
            text += bytes(-len(text) % 8)
            yield NAMES, struct.pack("<II", 8 + len(text), number) + text
        yield from self._symbol_records()
        for kind, flags, tid, pid, at, value, stack, cpu in self.samples:
            yield SAMPLES, struct.pack("<IHHIIQQII", 40, kind, flags, tid, pid, at, value, stack, cpu)

    def _symbol_records(self):
        def padded(text):
            text = (text.encode() if isinstance(text, str) else text) + b"\0"
            return text + bytes(-len(text) % 8)
        for number, text in enumerate(self.symbol_texts, 1):
            text = padded(text)
            yield SYMBOLS, struct.pack("<4I", 16 + len(text), TEXT, number, 0) + text
        for number, (path, build_id) in enumerate(self.symbol_modules, 1):
            path = padded(path)
            yield SYMBOLS, struct.pack("<4I32s", 48 + len(path), MODULE, number, len(build_id), build_id) + path
        for module, address, frames in self.symbols:
            yield SYMBOLS, struct.pack("<4IQ", 24 + 16 * len(frames), ADDRESS, module, len(frames), address) + b"".join(
                struct.pack("<4I", *frame) for frame in frames)

    def _table(self, kind, records, size):
        """Chunks of a table, from {place: bytes}."""
        per = PAYLOAD // size
        for index in sorted({place // per for place in records}):
            payload = bytearray(PAYLOAD)
            for place, record in records.items():
                if place // per == index:
                    payload[place % per * size:(place % per + 1) * size] = record
            yield kind, index, 0, bytes(payload)

    def chunks(self):
        logs = {MODULES: [], STACKS: [], SNAPSHOT: [], THREADS: [], NAMES: [], SYMBOLS: [], SAMPLES: []}
        for kind, record in self._records():
            if not logs[kind] or len(logs[kind][-1]) + len(record) > PAYLOAD:
                logs[kind].append(b"")
            logs[kind][-1] += record
        for kind, payloads in logs.items():
            for index, payload in enumerate(payloads):
                yield kind, index, len(payload), payload
        ring = self._event_chunks(lambda e: not self._is_definition(e))
        for index, (_, payload) in enumerate(sorted(ring, key=lambda c: c[0])):
            yield EVENTS, index, len(payload), payload
        for index, payload in enumerate(self._definition_chunks()):
            yield DEFINITIONS, index, 0, payload
        yield from self._table(TOTALS, {n: s.pack() for n, s in self.sums.items()}, TOTALS_BYTES)
        yield from self._table(LIVE, {i: struct.pack("<4QIIQ", *live, 0) for i, live in
                                      enumerate(self.lives)}, LIVE_BYTES)
        yield from self.extra_chunks

    def bytes(self):
        chunks = list(self.chunks())
        out = [self._header(len(chunks))]
        for kind, index, used, payload in chunks:
            out.append(struct.pack("<IIQQ5Q", kind, 1, index, used, *[0] * 5))
            out.append(payload.ljust(PAYLOAD, b"\0"))
        return b"".join(out)

    def write(self, path):
        with open(path, "wb") as out:
            out.write(self.bytes())
        return path


def functions_of(program):
    """{name: (address, size)} of the functions defined in an ELF file."""
    text = subprocess.run(["nm", "-S", "--defined-only", str(program)], check=True, capture_output=True,
                          text=True).stdout
    found = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 4 and words[2] in "tTwW":
            found[words[3]] = (int(words[0], 16), int(words[1], 16))
    return found


def calls_of(program):
    """{function: address after its first call}."""
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", str(program)], check=True,
                          capture_output=True, text=True).stdout
    found, name, called = {}, None, False
    for line in text.splitlines():
        head = re.match(r"[0-9a-f]+ <(.+)>:", line)
        at = re.match(r" *([0-9a-f]+):\t(\S+)", line)
        if head:
            name, called = head.group(1), False
        elif at and called and name not in found:
            found[name] = int(at.group(1), 16)
        elif at and at.group(2).startswith("call"):
            called = True
    return found


def build_id_of(program):
    text = subprocess.run(["readelf", "-n", str(program)], capture_output=True, text=True).stdout
    return next((bytes.fromhex(line.split(":")[1].strip()) for line in text.splitlines()
                 if "Build ID:" in line), b"")


class Program:
    """Pretends that an ELF file is mapped, so that artificial stacks get real names."""

    def __init__(self, rec, path, base=0x555555554000):
        self.base, self.functions, self.calls = base, functions_of(path), calls_of(path)
        end = base + max(a + s for a, s in self.functions.values()) + 4096
        rec.module(str(path), base, end & ~4095, base, build_id_of(path))

    def pc(self, name, offset=None):
        """A return address in function NAME: OFFSET bytes after its begin, or after its first call."""
        address, size = self.functions[name]
        if offset is None:
            return self.base + self.calls.get(name, address + size - 1)
        return self.base + address + offset

    def pcs(self, *names):
        return [self.pc(name) for name in names]


def write_events(path, count, threads):
    """Adds COUNT events of THREADS that poll four tasks and park, 250 ns apart."""
    rec = Recording(flags=HAS_EVENTS, ticks_per_ns=2.5)
    names = [rec.name(text) for text in ("accept", "read", "write", "timer")]
    turn = event(UNPARK, 625, 2)
    for i in range(12):
        turn += event(POLL_BEGIN, 625, 100 + i % 4, names[i % 4]) + event(POLL_END, 625)
        turn += event(WAKE, 625, 100 + (i + 1) % 4) if i % 3 == 0 else b""
    turn += event(PARK, 625, EPOLL)
    in_turn = 30
    turns = (PAYLOAD - 24) // len(turn)
    chunks = []
    for tid in range(threads):
        rec.thread(100 + tid, f"worker-{tid}")
        at, left = rec.start_ns + tid * 17, count // threads
        while left > 0:
            n = min(turns, -(-left // in_turn))
            head = struct.pack("<QQQ", 100 + tid, rec.ticks(at), at)
            chunks.append((at, head + turn * n))
            at += n * in_turn * 250
            left -= n * in_turn
        rec.end_ns = max(rec.end_ns, at)
    chunks.sort(key=lambda c: c[0])
    rec.extra_chunks = [(EVENTS, i, len(payload), payload) for i, (_, payload) in enumerate(chunks)]
    rec.trace["events"] = count
    rec.write(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--stacks", type=int, default=100)
    parser.add_argument("--depth", type=int, default=12)
    parser.add_argument("--snapshots", type=int, default=5)
    parser.add_argument("--rate", type=int, default=512 * 1024)
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--events", type=int, default=0, help="a trace of so many events instead")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    if args.events:
        write_events(args.output, args.events, args.threads)
        return
    rec = Recording(rate=args.rate)
    rec.module("/tmp/made-up", 0x400000, 0x4000000)
    for n in range(args.stacks):
        number = rec.stack([0x400000 + 16 * (n * args.depth + i) for i in range(args.depth)])
        rec.sums[number] = Sums()
    for turn in range(args.snapshots):
        for number in list(rec.sums):
            w = weight(1000 + number, args.rate)
            s = rec.sums[number]
            s.samples += 1
            s.allocated = [a + b for a, b in zip(s.allocated, w)]
            rec.lives.append((0x7F0000000000 + len(rec.lives) * 16 | 1 << 48, 1000 + number, args.rate,
                              rec.start_ns + turn, number, 1))
        rec.snapshot(at_ms=(turn + 1) * 100)
    rec.mark_peak()
    rec.write(args.output)


if __name__ == "__main__":
    main()
