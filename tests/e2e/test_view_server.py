"""`piano view` without -o: serves the page to this machine, and only to clients that know its address."""
from __future__ import annotations

import contextlib
import http.client
import os
import re
import signal
import socket
import stat
import subprocess
import time
from pathlib import Path
from typing import Any, Iterator

import pytest

from conftest import LIMIT_S, PIANO, Project, put_run, update_run
from pages import Page, digest, directives

tool = pytest.mark.tool
MS = 10**6


class Server:
    def __init__(self, process: subprocess.Popen, url: str):
        self.process, self.url = process, url
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)(/[0-9a-f]{32}/)", url)
        assert found, url
        self.port, self.path = int(found.group(1)), found.group(2)

    def ask(self, path: str | None = None, method: str = "GET", **headers: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT_S)
        connection.request(method, path or self.path, headers={k.replace("_", "-"): v for k, v in headers.items()})
        response = connection.getresponse()
        response.body = response.read()  # type: ignore[attr-defined]
        connection.close()
        return response

    def raw(self, data: bytes) -> bytes:
        """The answer to DATA, until the server closes."""
        with socket.create_connection(("127.0.0.1", self.port), LIMIT_S) as s:
            s.sendall(data)
            out = b""
            while chunk := s.recv(65536):
                out += chunk
        return out

    def end(self, how: int = signal.SIGINT) -> tuple[int, str]:
        self.process.send_signal(how)
        _, err = self.process.communicate(timeout=LIMIT_S)
        return self.process.returncode, err


@contextlib.contextmanager
def serving(project: Project, *words: Any, env: dict[str, str] | None = None) -> Iterator[Server]:
    around = {k: v for k, v in project.env.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY")}
    process = subprocess.Popen([PIANO, "view", *map(str, words)], cwd=project.root, env={**around, **(env or {})},
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        line = process.stdout.readline().strip()
        assert line, process.stderr.read() if process.stderr else ""
        yield Server(process, line)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def run(project: Project) -> Path:
    return put_run(project, "1740000000123-77", update_run([5 * MS] * 30 + [50 * MS]))


@tool
def test_server_sends_the_page(project: Project, run: Path) -> None:
    with serving(project) as server:
        response = server.ask()
        assert response.status == 200
        page = Page(response.body.decode())
        assert page.meta["name"] == run.name and len(page.column("frames", "start")) == 31
        assert response.getheader("Content-Type") == "text/html; charset=utf-8"
        for name, value in (("X-Content-Type-Options", "nosniff"), ("Referrer-Policy", "no-referrer"),
                            ("Cache-Control", "no-store"), ("Cross-Origin-Resource-Policy", "same-origin"),
                            ("Connection", "close")):
            assert response.getheader(name) == value
        rules = directives(response.getheader("Content-Security-Policy") or "")
        script, style = page.code()
        assert rules["script-src"] == [digest(script)] and rules["style-src"] == [digest(style)]
        assert rules["default-src"] == ["'none'"] and rules["frame-ancestors"] == ["'none'"]
        assert "Access-Control-Allow-Origin" not in response.headers
        head = server.ask(method="HEAD")
        assert head.status == 200 and head.body == b""
        assert head.getheader("Content-Length") == str(len(response.body))
        assert server.ask(Host=f"localhost:{server.port}").status == 200
        assert server.ask(Origin=f"http://127.0.0.1:{server.port}").status == 200


@tool
def test_foreign_hosts_and_origins_are_refused(project: Project, run: Path) -> None:
    with serving(project, run) as server:
        port = server.port
        for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", f"127.0.0.1:{port + 1}",
                     f"127.0.0.1:{port}.evil.example", f"[::1]:{port}", ""):
            assert server.ask(Host=host).status == 403, host
        for origin in ("null", "http://evil.example", f"https://127.0.0.1:{port}", f"http://127.0.0.1:{port + 1}",
                       f"http://127.0.0.1:{port}.evil.example", "file://"):
            response = server.ask(Origin=origin)
            assert response.status == 403 and b"piano" not in response.body, origin
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "get", "PROPFIND"):
            response = server.ask(method=method)
            assert response.status == 405 and response.getheader("Allow") == "GET, HEAD", method
        other = "/" + "0" * 32 + "/"
        for path in ("/", "/favicon.ico", other, server.path[:-1], server.path + "x", server.path.upper(),
                     server.path + "../", "/../../etc/passwd", "//", f"http://127.0.0.1:{port}{server.path}"):
            response = server.ask(path)
            assert response.status == 404 or path == server.path, path
            assert response.getheader("Content-Security-Policy") and len(response.body) < 100
        assert server.ask("/", Host="evil.example").status == 403, "who is not meant learns nothing about paths"
        assert server.ask().status == 200


@tool
@pytest.mark.parametrize("data,status", [
    (b"\r\n\r\n", 400), (b"GET\r\n\r\n", 400), (b"GET / HTTP/3\r\n\r\n", 400), (b"\x00\x01\x02\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400), (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 3000, 431),
    (b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\n\r\n", 431), (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400)])
def test_bad_requests_are_answered_with_an_error(project: Project, run: Path, data: bytes, status: int) -> None:
    with serving(project, run) as server:
        try:
            answer = server.raw(data)
        except ConnectionResetError:
            answer = b""  # it does not wait for the rest of a refused request
        assert answer.startswith(b"HTTP/1.1 %d " % status) or (status == 431 and answer == b"")
        assert server.ask().status == 200


@tool
def test_paths_and_ports_are_new_every_time(project: Project, run: Path) -> None:
    with serving(project, run) as one, serving(project, run) as two:
        assert one.path != two.path and one.port != two.port
        assert one.ask(two.path).status == 404


@tool
def test_server_listens_on_the_loopback_address_only(project: Project, run: Path) -> None:
    with serving(project, run) as server:
        listening = [line.split()[1] for line in Path("/proc/net/tcp").read_text().splitlines()[1:]
                     if line.split()[3] == "0A" and line.split()[1].endswith(f":{server.port:04X}")]
        assert listening == [f"0100007F:{server.port:04X}"]


@tool
def test_port_option_chooses_the_port(project: Project, run: Path) -> None:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    with serving(project, run, "--port", port) as server:
        assert server.port == port and server.ask().status == 200
        done = project.piano("view", run, "--port", port, "--no-open", check=False)
        assert done.status == 1 and "cannot serve at port" in done.err and done.out == ""
    with serving(project, run, "--port", port) as server:  # at once again
        assert server.ask().status == 200


@tool
def test_slow_clients_do_not_block_others(project: Project, run: Path) -> None:
    with serving(project, run) as server, contextlib.ExitStack() as held:
        slow = []
        for i in range(200):  # more clients than it accepts
            s = held.enter_context(socket.create_connection(("127.0.0.1", server.port), LIMIT_S))
            s.sendall(b"GET / HT" if i % 2 else b"")
            slow.append(s)
            if i % 20 == 0:
                assert server.ask().status == 200
        assert server.ask().status == 200
        # A client that requests the page and never reads it.
        lazy = held.enter_context(socket.socket())
        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        lazy.connect(("127.0.0.1", server.port))
        lazy.sendall(f"GET {server.path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode())
        for _ in range(20):
            assert server.ask().status == 200
        # A client that sends no request is disconnected.
        slow[-1].settimeout(LIMIT_S)
        with contextlib.suppress(ConnectionResetError):
            assert slow[-1].recv(10) == b""
        status, _ = server.end()
        assert status == 0


@tool
def test_request_sent_in_pieces_is_answered(project: Project, run: Path) -> None:
    with serving(project, run) as server:
        text = f"GET {server.path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode()
        with socket.create_connection(("127.0.0.1", server.port), LIMIT_S) as s:
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for byte in text:
                s.sendall(bytes((byte,)))
            assert s.recv(15) == b"HTTP/1.1 200 OK"


@tool
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_ctrl_c_ends_the_server_and_leaves_no_files(project: Project, run: Path, how: int) -> None:
    before = set(project.root.rglob("*"))
    temporary = set(os.listdir("/dev/shm"))
    with serving(project, run) as server:
        assert server.ask().status == 200
        idle = socket.create_connection(("127.0.0.1", server.port))
        status, err = server.end(how)
        idle.close()
        assert status == 0 and "Ctrl-C" in err
        with pytest.raises(OSError):
            socket.create_connection(("127.0.0.1", server.port), 1)
    assert set(project.root.rglob("*")) == before and set(os.listdir("/dev/shm")) <= temporary


@tool
def test_browser_gets_the_address_without_a_shell(project: Project, run: Path, tmp_path: Path) -> None:
    """The browser gets the address as one argument without a shell, and continues after piano."""
    tools, seen = tmp_path / "bin", tmp_path / "seen"
    tools.mkdir()
    opener = tools / "xdg-open"
    opener.write_text(f'#!/bin/sh\nprintf "%s|" "$#" "$1" > {seen}.new\nps -o sid= -p $$ >> {seen}.new\n'
                      f'mv {seen}.new {seen}\n')
    opener.chmod(opener.stat().st_mode | stat.S_IXUSR)
    env = {"PATH": f"{tools}:{os.environ['PATH']}"}

    def opened(server: Server, within: float) -> list[str] | None:
        until = time.monotonic() + within
        while time.monotonic() < until and not seen.exists():
            assert server.ask().status == 200  # the server answers in the meantime
            time.sleep(0.01)
        return seen.read_text().split("|") if seen.exists() else None

    with serving(project, run, env={**env, "DISPLAY": ":77"}) as server:
        words = opened(server, 10)
        assert words and words[:2] == ["1", server.url] and int(words[2]) != os.getsid(server.process.pid)
        seen.unlink()
    for words, more in ((["--no-open"], {"DISPLAY": ":77"}), ([], {}), ([], {"DISPLAY": ""})):
        with serving(project, run, *words, env={**env, **more}) as server:
            assert opened(server, 0.4) is None
    with serving(project, run, env={"PATH": str(tmp_path), "WAYLAND_DISPLAY": "w"}) as server:
        assert server.ask().status == 200
        assert "xdg-open" in server.end()[1]


@tool
def test_view_without_runs_is_an_error(project: Project) -> None:
    done = project.piano("view", check=False)
    assert done.status == 1 and "no runs" in done.err and done.out == ""
    path = project.root / "broken.rec"
    path.write_bytes(b"PIANOREC" + bytes(100))
    done = project.piano("view", path, check=False)
    assert done.status == 1 and done.out == ""
