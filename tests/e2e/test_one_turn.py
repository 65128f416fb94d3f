"""An event loop with one long turn: the turn is a poll, whether the program uses epoll, libuv or is node."""
from __future__ import annotations

import subprocess

import pytest

from conftest import Project, need
from samples import compiled

MS = 10**6
BUSY = r"""
    #include <time.h>
    static void busy(void)
    {
        struct timespec from, now;
        clock_gettime(CLOCK_MONOTONIC, &from);
        do
            clock_gettime(CLOCK_MONOTONIC, &now);
        while ((now.tv_sec - from.tv_sec) * 1000000000L + now.tv_nsec - from.tv_nsec < 200000000);
    }
"""
EPOLL = BUSY + r"""
    #include <sys/epoll.h>
    int main(int argc, char **argv)
    {
        struct epoll_event e;
        int fd = epoll_create1(0);
        epoll_wait(fd, &e, 1, 10);
        busy();
        return argc > 1 ? epoll_wait(fd, &e, 1, 10) : 0;
    }
"""
UV = BUSY + r"""
    #include <uv.h>
    static void on_timer(uv_timer_t *t) { busy(); }
    int main(void)
    {
        uv_timer_t t;
        uv_timer_init(uv_default_loop(), &t);
        uv_timer_start(&t, on_timer, 10, 0);
        return uv_run(uv_default_loop(), UV_RUN_DEFAULT);
    }
"""


def polls(project: Project, *command: object) -> dict:
    project.piano("record", "--events", "-o", "x.rec", "--", *command)
    return project.json("report", "--polls", "x.rec")


def check(data: dict, name: str) -> None:
    first = data["longest"][0]
    assert first["task"].startswith(name) and first["duration_ns"] >= 200 * MS, data["longest"]
    assert [flag["kind"] for flag in data["flags"]].count("long-polls") == 1, data["flags"]


@pytest.mark.parametrize("again", [(), ("again",)], ids=["to-the-end", "to-the-next-wait"])
def test_one_turn_of_epoll(project: Project, again: tuple) -> None:
    data = polls(project, compiled(project, EPOLL), *again)
    assert data["polls"] == 1 + len(again)  # the last one begins at the last wait
    check(data, "epoll loop of prog")


def test_one_callback_of_libuv(project: Project) -> None:
    if subprocess.run(["gcc", "-xc", "-E", "-"], input=b"#include <uv.h>\n", capture_output=True).returncode != 0:
        pytest.skip("libuv1-dev is not installed")
    data = polls(project, compiled(project, UV, "-O1", "-Wl,--no-as-needed", "-luv"))
    assert data["polls"] == 1
    check(data, "timer on_timer")


def test_one_turn_of_node(project: Project) -> None:
    """node has libuv in its executable, so piano sees only the waits of its loop."""
    node = need("node")
    project.write({"main.js": "setTimeout(() => { const t = Date.now(); while (Date.now() - t < 250); }, 10);"})
    data = polls(project, node, "main.js")
    main = [thread for thread in data["threads"] if thread["loop"] == "epoll" and thread["polls"] > 0]
    assert main, data["threads"]
    check(data, "epoll loop of")
