"""A command reads and names a recording once, for all its instruments."""
from __future__ import annotations

from pathlib import Path

import pytest

from conftest import Project, preload_path
from made import make, program, recording

tool = pytest.mark.tool
__all__ = ["program"]

COUNTER = """
    #define _GNU_SOURCE
    #include <dlfcn.h>
    #include <fcntl.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <sys/mman.h>
    #include <unistd.h>
    /* Appends the name of each file that the tool maps to $MAPPED. */
    void *mmap(void *at, size_t len, int prot, int flags, int fd, off_t offset)
    {
        void *(*real)(void *, size_t, int, int, int, off_t) = dlsym(RTLD_NEXT, "mmap");
        char link[64], path[4096];
        ssize_t n = 0;
        if (fd >= 0) {
            snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
            n = readlink(link, path, sizeof(path) - 1);
        }
        int log = n > 0 ? open(getenv("MAPPED"), O_WRONLY | O_APPEND | O_CREAT, 0600) : -1;
        if (log >= 0) {
            path[n] = '\\n';
            if (write(log, path, (size_t)n + 1) < 0)
                abort();
            close(log);
        }
        return real(at, len, prot, flags, fd, offset);
    }
    void *mmap64(void *, size_t, int, int, int, off_t) __attribute__((alias("mmap")));
"""


def three(project: Project, program: Path, name: str) -> Path:
    """A recording with heap, CPU samples and events."""
    rec, s = recording(program, rate=1)
    rec.sample(s.parse, 1000, count=3).sample(s.load, 500)
    stack = rec.stack(s.elf.pcs("parse", "main"), number=make.TOOL_STACK | (len(rec.stacks) + 1))
    rec.cpu(1, 0.0, stack, ms=1, count=20)
    rec.poll(1, 1.0, 4.0, task=7)
    return Path(rec.write(project.root / name))


@tool
@pytest.mark.parametrize("command", [
    ["report", "a.rec"], ["report", "--heap", "a.rec"], ["report", "--cpu", "a.rec"], ["report", "--polls", "a.rec"],
    ["diff", "a.rec", "b.rec"], ["export", "a.rec", "--format", "collapsed"], ["export", "a.rec", "--format", "chrome"],
    ["view", "a.rec", "-o", "page.html"]], ids=" ".join)
def test_each_command_reads_a_recording_once(project: Project, program: Path, command: list[str]) -> None:
    for name in "a.rec", "b.rec":
        three(project, program, name)
    project.write({"counter.c": COUNTER})
    project.command("gcc", "-shared", "-fPIC", "counter.c", "-o", "counter.so", "-ldl")
    mapped = project.root / "mapped"
    project.piano(*command, env={"LD_PRELOAD": preload_path(project.root / "counter.so"), "MAPPED": str(mapped)})
    names = [Path(line).name for line in mapped.read_text().splitlines()]
    recordings = {word for word in command if word.endswith(".rec")}
    looks = command[0] in ("report", "view") or "chrome" in command  # the search for the run of the same process looks at the header
    for name in recordings:
        assert names.count(name) == 1 + looks, names
    assert names.count(program.name) <= len(recordings), names
