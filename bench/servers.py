"""Servers of many processes, nginx and postgres, under everything: what they lose. redis, of one process, is in trace."""
import contextlib
import glob
import os
import pwd
import shutil
import subprocess
import tempfile
import time

from common import Failed, Missing, Run, need
from pairs import HEAD, NOISE, NOTE, Server, ahead_of_others, free_port, on_cpu, row, side_by_side

LOST_PERCENT = 2.0
ALL = ("--heap", "--cpu=99", "--events", "--children")
CLIENTS = 50

NGINX = """
daemon off; master_process on; worker_processes 2; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 256; }}
http {{
    access_log off; keepalive_requests 1000000; client_body_temp_path {folder}; proxy_temp_path {folder};
    fastcgi_temp_path {folder}; uwsgi_temp_path {folder}; scgi_temp_path {folder};
    server {{ listen 127.0.0.1:{port} reuseport; location / {{ return 200 "{body}"; }} }}
}}
"""


class Nginx(Server):
    """A master and two workers; small answers, so that as much as possible of a request is nginx's own work."""

    def __init__(self, folder, way, number):
        self.port = free_port()
        self.folder = os.path.join(folder, f"nginx-{number}")
        os.makedirs(self.folder, exist_ok=True)
        config = os.path.join(self.folder, "nginx.conf")
        with open(config, "w", encoding="utf-8") as file:
            file.write(NGINX.format(folder=self.folder, port=self.port, body="x" * 100))
        super().__init__(folder, [need("nginx"), "-e", os.path.join(self.folder, "error.log"), "-p", self.folder, "-c", config], way,
                         f"nginx-{number}")
        self.await_port(self.port)

    def ask(self, count):
        run = Run([*on_cpu(1), need("ab"), "-q", "-k", "-n", count, "-c", CLIENTS, f"http://127.0.0.1:{self.port}/"])
        return next(float(line.split()[3]) for line in run.out.splitlines() if line.startswith("Requests per second"))


def of_postgres(name):
    """The path of one of its programs: Debian keeps them out of PATH."""
    found = sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"), key=lambda path: float(path.split("/")[4]))
    found = found[-1] if found else shutil.which(name)
    if found is None:
        raise Missing(f"{name} of postgres is not installed")
    return found


class Postgres(Server):
    """A postmaster with its backends. It refuses to run as root, so it becomes another user first."""

    def __init__(self, folder, way, number, template, account):
        self.folder = tempfile.mkdtemp(prefix=f"{number}-", dir=folder)
        self.port = free_port()
        data = os.path.join(self.folder, "data")
        shutil.copytree(template, data)
        own(self.folder, account)
        super().__init__(self.folder, [*become(account), of_postgres("postgres"), "-D", data, "-p", self.port,
                                       "-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={self.folder}",
                                       "-c", "fsync=off", "-c", "autovacuum=off"], way, "postgres", cwd=self.folder)
        self.account = account
        self.await_port(self.port)
        self.await_start()

    def await_start(self):
        """It listens before it answers."""
        until = time.monotonic() + 30
        ask = [of_postgres("pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        while subprocess.run(ask, check=False).returncode != 0:
            if time.monotonic() > until:
                self.end()
                raise Failed("postgres does not start")
            time.sleep(0.05)

    def client(self, *words):
        return Run([*become(self.account), *on_cpu(1), of_postgres("pgbench"), "-h", "127.0.0.1", "-p", self.port, "-U",
                    "bench", *words, "postgres"], cwd=self.folder)

    def fill(self):
        self.client("-i", "-q", "-s", 2)

    def cpu_seconds(self):
        """In ticks, of its backends too that have ended: pgbench connects anew each time."""
        total = 0
        for pid in sorted(self.processes(), reverse=True):  # the postmaster last, which has the time of those that end meanwhile
            with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stat:
                total += sum(map(int, stat.read().rsplit(")", 1)[1].split()[11:15]))
        return total / os.sysconf("SC_CLK_TCK")

    def ask(self, count):
        clients = 8
        run = self.client("-n", "-S", "-M", "prepared", "-c", clients, "-j", 1, "-t", count // clients)
        return next(float(line.split()[2]) for line in run.out.splitlines() if line.startswith("tps = "))

    def end(self):
        super().end()
        shutil.rmtree(self.folder, ignore_errors=True)


def other_account():
    """(uid, gid) of a user who may run postgres; None: whoever runs this may."""
    if os.getuid() != 0:
        return None
    names = {entry.pw_name: entry for entry in pwd.getpwall()}
    entry = names.get("postgres") or names.get("nobody")
    if entry is None:
        raise Missing("root may not run postgres, and there is no user postgres or nobody")
    return entry.pw_uid, entry.pw_gid


def become(account):
    return [need("setpriv"), f"--reuid={account[0]}", f"--regid={account[1]}", "--clear-groups"] if account else []


def own(folder, account):
    for place, _, files in os.walk(folder) if account else ():
        for path in [place, *(os.path.join(place, name) for name in files)]:
            os.chown(path, *account)


def prepare_postgres(folder, account):
    """A data directory with the tables of pgbench, of which each server gets a copy."""
    own(folder, account)
    template = os.path.join(folder, "template")
    Run([*become(account), of_postgres("initdb"), "-D", template, "-U", "bench", "-A", "trust", "-N"], cwd=folder)
    server = Postgres(folder, None, 0, template, account)
    try:
        server.fill()
        server.stop()
        server.process.wait(60)
        shutil.rmtree(template)
        shutil.copytree(os.path.join(server.folder, "data"), template)
    finally:
        server.end()
    own(folder, account)
    return template


def measure(theme, make, name, count, turns):
    rows = []
    for way_name, way in ((NOISE, None), ("everything", ALL)):
        theme.say(f"{name}: {way_name}")
        with ahead_of_others():
            found = side_by_side(make, way, 1 if theme.quick else 12, count, turns)
        line, lost = row(way_name, found)
        rows.append(line)
        if way:
            theme.budget(f"{name}, requests in a second lost with everything on", lost, LOST_PERCENT, " %")
    return rows


def nginx(theme, folder):
    need("nginx")
    need("ab")
    count, turns = (4_000, 2) if theme.quick else (20_000, 8)
    rows = measure(theme, lambda *how: Nginx(folder, *how), "nginx", count, turns)
    theme.table(f"nginx, two workers, under ab, {CLIENTS} connections that are kept, 100 bytes", HEAD, rows)


def postgres(theme, folder):
    of_postgres("pgbench")
    account = other_account()
    template = prepare_postgres(folder, account)
    count, turns = (1_600, 2) if theme.quick else (16_000, 6)
    rows = measure(theme, lambda *how: Postgres(folder, *how, template, account), "postgres", count, turns)
    theme.table("postgres under pgbench, 8 connections, SELECT by key", HEAD, rows)
    theme.note("CPU time of postgres comes in ticks of the kernel.")


def run(theme):
    with tempfile.TemporaryDirectory(prefix="piano-servers-", dir="/var/tmp") as folder:
        os.chmod(folder, 0o755)
        for what in (nginx, postgres):
            place = os.path.join(folder, what.__name__)
            os.mkdir(place)
            try:
                what(theme, place)
            except Missing as missing:
                theme.skip(what.__name__, str(missing))
    theme.note(f"{NOTE} {1 if theme.quick else 12} pairs of each row, with real-time priority. Everything: heap at 512 KB, CPU at 99 Hz with "
               "times off the CPU, events, of all processes.")
