"""The files of `HeapSnapshot.save` and the results of `top_allocators`, for snapshots made by hand."""
from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import PACKAGE, without

sys.path.insert(0, str(PACKAGE))
from piano.memprof import AllocationSample, FramePointerHealth, HeapSnapshot, StackFrame  # noqa: E402


def frame(function: str, file: str = "/usr/bin/python3", line: int = 0, is_python: bool = False) -> StackFrame:
    return StackFrame(1, function, file, line, is_python)


def snapshot(*stacks: tuple[int, list[StackFrame]]) -> HeapSnapshot:
    samples = [AllocationSample(i + 1, weight, weight, weight, 0, None, stack) for i, (weight, stack) in enumerate(stacks)]
    return HeapSnapshot(samples, len(samples), len(samples), sum(w for w, _ in stacks), 0,
                        FramePointerHealth(0, len(samples), 3.0, 1, 0.0), 524288)


MIXED = [frame("malloc", "/lib/x86_64-linux-gnu/libc.so.6"), frame("PyMem_Malloc"), frame("array_new", "/x/numpy.so"),
         frame("load", "/app/main.py", 12, True), frame("_PyRun_SimpleFile")]


def test_speedscope_has_bytes_as_weights(tmp_path: Path) -> None:
    s = snapshot((1000, MIXED), (50, MIXED), (7, []))
    s.save(tmp_path / "x.json")
    data = json.loads((tmp_path / "x.json").read_text())
    profile, frames = data["profiles"][0], data["shared"]["frames"]
    assert profile["unit"] == "bytes" and profile["type"] == "sampled"
    assert sum(profile["weights"]) == profile["endValue"] == s.estimated_heap_bytes == 1057
    assert len(profile["samples"]) == len(profile["weights"]) == 3 - (MIXED is MIXED)
    names = [[frames[i]["name"] for i in one] for one in profile["samples"]]
    assert ["_PyRun_SimpleFile", "load", "array_new", "PyMem_Malloc", "malloc"] in names and ["(no stack)"] in names
    assert {"name": "load", "file": "/app/main.py", "line": 12} in frames


def test_empty_snapshot_is_a_valid_file(tmp_path: Path) -> None:
    s = snapshot()
    s.save(str(tmp_path / "x.json"))
    data = json.loads((tmp_path / "x.json").read_text())
    assert data["profiles"][0]["samples"] == [] and data["profiles"][0]["endValue"] == 0
    s.save(tmp_path / "x.txt", format="collapsed")
    assert (tmp_path / "x.txt").read_text() == ""
    assert s.top_allocators() == [] and s.estimated_heap_bytes_ci95 == (0, round(3.7 * 524288))


def test_collapsed_names_do_not_split_lines(tmp_path: Path) -> None:
    odd = [frame("a;b c\nd\te", "/x.py", 1, True), frame("<listcomp>", "/x.py", 2, True), frame("")]
    snapshot((10, odd), (5, [frame("a:b_c_d_e", "/y.py", 9, True), *odd[1:]])).save(tmp_path / "x", "collapsed")
    assert (tmp_path / "x").read_text() == "?;<listcomp>;a:b_c_d_e 15\n"


def test_names_that_are_no_text_are_spelled_out(tmp_path: Path) -> None:
    """Python represents invalid UTF-8 bytes of a file name as surrogates, which a text file cannot contain."""
    s = snapshot((10, [frame("\udc80f", "/x\udcff.py", 3, True)]))
    s.save(tmp_path / "x", "collapsed")
    assert (tmp_path / "x").read_text(encoding="utf-8") == "\\udc80f 10\n"
    s.save(tmp_path / "y")
    named = json.loads((tmp_path / "y").read_text(encoding="utf-8"))["shared"]["frames"]
    assert named == [{"name": "\\udc80f", "file": "/x\\udcff.py", "line": 3}]


def test_unknown_format_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no format 'svg'"):
        snapshot((1, MIXED)).save(tmp_path / "x", "svg")
    assert not (tmp_path / "x").exists()


def test_top_allocators_merges_stacks_of_one_site() -> None:
    native = [frame("malloc", "/lib/libc.so.6"), frame("inner", "/x/lib.so"), frame("outer", "/x/lib.so")]
    only = [frame("malloc", "/lib/libc.so.6")]
    top = snapshot((1, only), (10, native), (100, MIXED), (100, [frame("PyObject_Malloc"), MIXED[3]]), (2, [])).top_allocators(9)
    assert top == [
        {"function": "load", "file": "/app/main.py", "line": 12, "estimated_bytes": 200, "sample_count": 2},
        {"function": "inner", "file": "/x/lib.so", "line": 0, "estimated_bytes": 10, "sample_count": 1},
        {"function": "(no stack)", "file": "", "line": 0, "estimated_bytes": 2, "sample_count": 1},
        {"function": "malloc", "file": "/lib/libc.so.6", "line": 0, "estimated_bytes": 1, "sample_count": 1},
    ]
    assert len(snapshot((1, only), (2, native)).top_allocators(1)) == 1
    assert snapshot((1, only)).top_allocators(0) == []


def test_confidence_follows_the_share_of_truncated_stacks() -> None:
    def of(rate: float) -> str:
        return FramePointerHealth(0, 1, 1.0, 1, rate).confidence
    assert [of(r) for r in (0.0, 0.049, 0.05, 0.2, 0.21, 1.0)] == ["high", "high", "medium", "medium", "low", "low"]


def test_package_passes_mypy_strict(tmp_path: Path) -> None:
    """Checks the package and a program that uses it with mypy --strict."""
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("mypy is not installed")
    import subprocess

    user = tmp_path / "user.py"
    user.write_text(
        "from pathlib import Path\n"
        "from piano import memprof\n"
        "memprof.start(sampling_rate_kb=64)\n"
        "with memprof.MemoryProfiler(gc_tracking=True) as profiler:\n"
        "    pass\n"
        "profiler.snapshot.save(Path('x'), format='collapsed')\n"
        "total: int = sum(s.estimated_bytes for s in memprof.get_snapshot(resolve=False).samples)\n"
        "confidence: str = profiler.snapshot.frame_pointer_health.confidence\n"
        "reveal_type(profiler.snapshot.samples[0].stack[0].line)\n"
    )
    source = Path(__file__).resolve().parents[2] / "python" / "piano"
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), str(source)],
                          stdout=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stdout
    env: dict[str, Any] = {**__import__("os").environ, "MYPYPATH": str(without(":", source.parent))}
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), str(user)],
                          stdout=subprocess.PIPE, text=True, env=env)
    assert done.returncode == 0 and 'Revealed type is "builtins.int"' in done.stdout, done.stdout
