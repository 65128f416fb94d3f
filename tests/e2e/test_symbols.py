"""Names of code without symbols."""
from __future__ import annotations

import json

import pytest

from conftest import Project


def test_calls_of_a_stripped_function_have_one_name(project: Project) -> None:
    """From the unwind tables, which are kept: `prog+0xbeginning`, for a call at any place in the function."""
    project.write({"prog.c": """
        #include <stdlib.h>
        static __attribute__((noinline)) int hidden(int n)
        {
            char *volatile a = malloc(1000);
            char *volatile b = malloc(2000 + (size_t)n);
            return a && b;
        }
        int main(int argc, char **argv) { (void)argv; return !hidden(argc); }
    """})
    project.command("cc", "-O2", "-s", "prog.c", "-o", "prog")
    project.piano("record", "--heap=1", "-o", "out.rec", "--", "./prog")
    report = json.loads(project.piano("report", "--heap", "--json", "out.rec").out)
    named = {site["stack"][0]["function"] for site in report["sites"]
             if site["live_bytes"] in (1000, 2001) and site["stack"][0]["module"] == "prog"}
    assert len(named) == 1 and named.pop().startswith("prog+0x"), report["sites"]


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_the_inlined_half_of_a_probe_is_its_function(project: Project, compiler: str) -> None:
    """Half of such a loop's time is spent in the probe; no part of it is shown as a function of the program."""
    program = project.cc("""
        static volatile unsigned sink;
        static unsigned tiny(unsigned x) { return x * 3 + 1; }
        int main(void) { for (int i = 0; i < 100000000; i++) sink += tiny(sink); return 0; }
    """, "-g", select=["--fn", "tiny", "--fn", "main"], compiler=compiler)
    project.piano("record", "--cpu=999", "-o", "out.rec", "--", program)
    report = project.json("report", "--cpu", "--all", "out.rec")
    names = {row["name"]: row for row in report["functions"]}
    assert not [name for name in names if name.startswith(("__piano_begin", "__piano_leave"))], names
    # The number of timed calls, in libpiano.so, depends on the noise of the machine.
    samples = sum(row["samples"] for row in report["functions"] if row["module"] == program.name)
    assert names["tiny"]["samples"] + names["main"]["samples"] > 0.9 * samples > 0
    folded = project.piano("export", "out.rec", "--format", "collapsed").out
    assert "tiny" in folded and "__piano_begin" not in folded
