"""Servers in pairs, one plain and one recorded, asked in turns by short runs: how many requests the second one loses."""
import contextlib
import os
import re
import signal
import socket
import subprocess
import time

from common import FOREIGN, PIANO, Failed, median

HEAD = ["recorded", "plain, requests/s", "the other, requests/s", "lost", "plain, CPU us", "the other, CPU us", ""]
NOISE = "nothing: the noise"
REST_S = 0.15  # for the rest of the machine, which the kernel would else give it in the middle of a run


@contextlib.contextmanager
def ahead_of_others():
    """What is started here goes before all other work on the machine, and among itself in turns, if that is allowed (root)."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except OSError:
        pass
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def on_cpu(number):
    """Server and client each on a CPU of their own, if there are two: where they wander is chance, and more than is measured."""
    cpus = sorted(os.sched_getaffinity(0))
    return ("taskset", "-c", str(cpus[number])) if len(cpus) > 1 else ()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def parents():
    """{pid: pid of its parent} of all processes."""
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as stat:
            found[int(name)] = int(stat.read().rsplit(")", 1)[1].split()[1])
    return found


def descendants(pid):
    """All processes below PID, without itself."""
    above, found = parents(), {pid}
    while more := {child for child, parent in above.items() if parent in found} - found:
        found |= more
    return found - {pid}


def exact_cpu_seconds(pid):
    """Of all threads of a process, if they do not come and go; exact, while the times of the process come in ticks."""
    total = 0
    with contextlib.suppress(FileNotFoundError):
        for tid in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{tid}/schedstat", encoding="utf-8") as stat:
                total += int(stat.read().split()[0])
    return total / 1e9


class Server:
    """A server on the first CPU: plain (WAY is None), or under `piano record` with the flags WAY. Its end is that of the block or
    `end`."""

    def __init__(self, folder, words, way, name, **more):
        self.path = None
        words = [*on_cpu(0), *words]
        if way:
            self.path = os.path.join(folder, name + ".rec")
            words = [PIANO, "record", *way, "-o", self.path, "--", *words]
        around = {k: v for k, v in os.environ.items() if k not in FOREIGN}
        self.process = subprocess.Popen([str(word) for word in words], env=around,
                                        **{"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **more})

    def processes(self):
        """Of the server, without `piano record`."""
        return descendants(self.process.pid) | (set() if self.path else {self.process.pid})

    def await_port(self, port):
        until = time.monotonic() + 20
        while True:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 5).close()
                return
            if time.monotonic() > until or self.process.poll() is not None:
                self.end()
                raise Failed(f"{type(self).__name__} does not answer")
            time.sleep(0.02)

    def cpu_seconds(self):
        return sum(map(exact_cpu_seconds, self.processes()))

    def ask(self, count):
        """Requests answered in a second; what else is needed is in the class."""
        raise NotImplementedError

    def requests(self, count):
        """(requests in a second, CPU microseconds of the server for one)"""
        before = self.cpu_seconds()
        rate = self.ask(count)
        return rate, (self.cpu_seconds() - before) / count * 1e6

    def stop(self):
        self.process.send_signal(signal.SIGTERM)

    def end(self):
        if self.process.poll() is None:
            self.stop()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        if self.path:
            folder, name = os.path.split(self.path)
            for other in os.listdir(folder):  # those of other processes too
                if re.fullmatch(re.escape(name) + r"([-.]\d+)*", other):
                    os.unlink(os.path.join(folder, other))


def side_by_side(make, way, pairs, count, turns):
    """[(plain requests/s, the other's, plain CPU us, the other's)] of PAIRS of servers: medians of short runs, in turns.
    MAKE(way, number) starts a server."""
    found = []
    for number in range(pairs):
        plain, other = [], []
        servers = []
        try:
            # Neither is always the one that was started first, or asked first.
            for which, results in [(None, plain), (way, other)][::-1 if number % 2 else 1]:
                servers.append((make(which, len(servers)), results))
                servers[-1][0].requests(count)
            for turn in range(turns):
                for server, results in servers[::-1 if turn % 2 else 1]:
                    results.append(server.requests(count))
                time.sleep(REST_S)
        finally:
            for server, _ in servers:
                server.end()
        found.append([median(result[what] for result in results) for what in (0, 1) for results in (plain, other)])
    return found


def row(name, found):
    """(a row of the table with HEAD, median of the loss in per cent)"""
    plain, other, plain_cpu, cpu = (median(column) for column in zip(*found))
    losses = sorted(100 * (1 - pair[1] / pair[0]) for pair in found)
    more = 100 * (median(pair[3] / pair[2] for pair in found) - 1)
    lost = median(losses)
    return [name, plain, other, f"{lost:.1f} % ({losses[0]:.1f} to {losses[-1]:.1f})", plain_cpu, cpu, f"{more:+.1f} %"], lost


NOTE = ("Pairs of servers, one plain and one as the row says, asked in turns by short runs: of each pair the medians, and of all pairs the "
        "median (least to most). CPU: of the server for one request. The server has one CPU and the client the other; what `piano "
        "record` needs itself is taken from both.")
