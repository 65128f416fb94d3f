"""Names of code that has none."""
from __future__ import annotations

import json

from conftest import Project


def test_calls_of_a_stripped_function_have_one_name(project: Project) -> None:
    """By the unwind tables, which stay: `prog+0xbeginning`, from wherever in the function the call is."""
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
