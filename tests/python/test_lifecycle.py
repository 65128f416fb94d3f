"""The states of the profiler, and the error of each call in a wrong state."""
from __future__ import annotations

import os
import shlex
import subprocess

from conftest import PACKAGE, Python

TELL = """
    import json, os
    from piano import memprof

    def error(call, *args):
        try:
            call(*args)
        except Exception as e:
            return type(e).__name__ + ": " + str(e)
        return None
"""


def test_wrong_rates_are_refused(python: Python) -> None:
    said = python.run(TELL + """
    print(json.dumps([error(memprof.start, rate) for rate in (0, -1, -512, 1 << 60, 1.5, "512", True)]))
    """).json
    assert [s.split(":")[0] for s in said] == ["ValueError"] * 4 + ["TypeError"] * 3
    assert "1 or more, not -512" in said[2]


def test_without_the_library_start_says_what_to_type(python: Python) -> None:
    said = python.run(TELL + """
    print(json.dumps([error(f) for f in (memprof.start, memprof.get_snapshot, memprof.get_stats, memprof.stop)]))
    """, preload=False).json
    assert all(s.startswith("RuntimeError") for s in said)
    assert "python3 -m piano.memprof script.py" in said[0]
    assert said[1] == said[0] and said[2] == said[0]
    # The command in the message works as printed.
    line = next(l for l in said[0].splitlines() if "LD_PRELOAD=" in l)
    python.write("script.py", "from piano import memprof; memprof.start(); print(memprof.get_stats().total_samples >= 0)")
    done = subprocess.run(["sh", "-c", line.strip()], cwd=python.root, stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "PYTHONPATH": str(PACKAGE)})
    assert done.stdout == "True\n", shlex.join([line])


def test_snapshot_before_the_first_start_is_an_error(python: Python) -> None:
    said = python.run(TELL + """
    print(json.dumps([error(f) for f in (memprof.get_snapshot, memprof.get_stats, memprof.stop)]
                     + [memprof.is_active(), memprof.recording_path()]))
    """).json
    assert said == ["RuntimeError: the memory profiler was not started"] * 2 + \
        ["RuntimeError: the memory profiler is not running", False, None]
    assert not (python.root / ".piano").exists()


def test_second_start_and_second_stop_are_errors(python: Python) -> None:
    said = python.run(TELL + """
    memprof.start()
    twice = error(memprof.start)
    memprof.stop()
    print(json.dumps([twice, error(memprof.stop), memprof.is_active(), memprof.get_stats().sampling_rate_bytes]))
    """).json
    assert said == ["RuntimeError: the memory profiler is running already",
                    "RuntimeError: the memory profiler is not running", True, 512 * 1024]


def test_start_after_shutdown_is_an_error(python: Python) -> None:
    said = python.run(TELL + """
    memprof.start()
    path = memprof.recording_path()
    memprof.shutdown()
    memprof.shutdown()
    print(json.dumps([error(f) for f in (memprof.start, memprof.stop, memprof.get_stats, memprof.get_snapshot)]
                     + [os.path.exists(path)]))
    """).json
    assert all(s.startswith("RuntimeError") for s in said[:4]) and "cannot be started again" in said[0]
    assert said[4] is True


def test_shutdown_before_the_first_start_forbids_starting(python: Python) -> None:
    said = python.run(TELL + "    memprof.shutdown(); print(json.dumps(error(memprof.start)))").json
    assert "cannot be started again" in said


def test_after_stop_frees_are_followed_and_nothing_new_is_seen(python: Python) -> None:
    said = python.run("""
    import json
    from piano import memprof
    memprof.start(1)
    kept = [bytes(1000) for _ in range(2000)]
    memprof.stop()
    stopped = memprof.get_stats()
    more = [bytes(1000) for _ in range(2000)]
    later = memprof.get_stats()
    addresses = {id(b) for b in kept}
    del kept
    live = {s.address for s in memprof.get_snapshot().samples}
    print(json.dumps([stopped.live_samples, stopped.total_samples, later.total_samples, len(live & addresses),
                      len(live & {id(b) for b in more})]))
    """).json
    assert said[0] > 500 and said[2] == said[1]
    assert said[3:] == [0, 0]


def test_samples_of_both_rates_count_by_their_own(python: Python) -> None:
    """16 MB at one rate and 16 MB at another: with either rate for both, the sum would be wrong by a third or more."""
    said = python.run("""
    import json
    from piano import memprof
    memprof.start(4)
    first = [bytes(1024) for _ in range(16384)]
    memprof.stop()
    memprof.start(64)
    second = [bytes(1024) for _ in range(16384)]
    snapshot = memprof.get_snapshot()
    mine = {id(b) for b in first}, {id(b) for b in second}
    sums = [sum(s.estimated_bytes for s in snapshot.samples if s.address in ids) for ids in mine]
    print(json.dumps([sums, memprof.get_stats().sampling_rate_bytes]))
    """).json
    true = 16384 * (1024 + 33)
    assert abs(said[0][0] - true) < 0.1 * true  # 4 standard errors are 6 %
    assert abs(said[0][1] - true) < 0.35 * true  # and 25 %
    assert said[1] == 64 * 1024


def test_context_manager_starts_and_stops(python: Python) -> None:
    said = python.run(TELL + """
    with memprof.MemoryProfiler(sampling_rate_kb=1) as profiler:
        early = error(lambda: profiler.snapshot)
        kept = [bytes(1000) for _ in range(1000)]
    after = error(memprof.stop)
    try:
        with memprof.MemoryProfiler(sampling_rate_kb=1) as failed:
            more = [bytes(1000) for _ in range(1000)]
            raise KeyError("mine")
    except KeyError as e:
        raised = str(e)
    counts = [len({s.address for s in p.snapshot.samples} & {id(b) for b in kept}) for p in (profiler, failed)]
    with memprof.MemoryProfiler() as again:
        memprof.stop()
        memprof.start()
    try:
        with memprof.MemoryProfiler():
            memprof.stop()
    except RuntimeError as e:
        stopped = str(e)
    print(json.dumps([early, after, raised, counts, stopped]))
    """).json
    assert said[0].startswith("RuntimeError") and said[1] == "RuntimeError: the memory profiler is not running"
    assert said[2] == "'mine'"
    assert said[3][0] > 400 and said[3][1] == said[3][0]  # the data of both is there
    assert said[4] == "the memory profiler is not running"


def test_ctrl_c_in_a_snapshot_does_not_blind_the_thread(python: Python) -> None:
    """Allocations of a snapshot are not sampled. Sampling must resume even if the snapshot is interrupted right at its start."""
    said = python.run("""
    import json
    from piano import memprof
    memprof.start(1)
    real = memprof._memprof.ignore
    class Interrupting:
        def __getattr__(self, name):
            return getattr(memprof_c, name)
        def ignore(self, on):
            real(on)
            if on:
                raise KeyboardInterrupt
    memprof_c, memprof._memprof = memprof._memprof, Interrupting()
    try:
        memprof.get_snapshot()
    except KeyboardInterrupt:
        memprof._memprof = memprof_c
    kept = [bytes(1000) for _ in range(1000)]
    ids = {id(b) for b in kept}
    print(json.dumps(len({s.address for s in memprof.get_snapshot(resolve=False).samples} & ids)))
    """).json
    assert said > 400


def test_a_block_that_has_no_snapshot_is_stopped_all_the_same(python: Python) -> None:
    said = python.run(TELL + """
    def fail(*args):
        raise MemoryError
    real, memprof._snapshot = memprof._snapshot, fail
    def block():
        with memprof.MemoryProfiler(1):
            pass
    print(json.dumps([error(block), error(memprof.stop), error(memprof.start)]))
    """).json
    assert said == ["MemoryError: ", "RuntimeError: the memory profiler is not running", None]


def test_thousand_starts_do_not_grow_the_process(python: Python) -> None:
    said = python.run("""
    import json, os
    from piano import memprof
    def resident():
        return int(open("/proc/self/statm").read().split()[1]) * 4
    def cycles(n):
        for _ in range(n):
            memprof.start(64)
            garbage = [bytes(100) for _ in range(200)]
            memprof.stop()
    cycles(100)
    before, descriptors = resident(), len(os.listdir("/proc/self/fd"))
    cycles(1000)
    print(json.dumps([resident() - before, len(os.listdir("/proc/self/fd")) - descriptors, len(os.listdir(".piano/runs"))]))
    """).json
    assert said[0] < 1024 and said[1:] == [0, 1]


def test_the_recording_is_for_the_tool(python: Python) -> None:
    path = python.run("""
    from piano import memprof
    memprof.start(1)
    kept = bytearray(1 << 20)
    print(f'"{memprof.recording_path()}"')
    """).json
    report = python.piano("report", "--heap", "--json", path)
    live = __import__("json").loads(report.out)["live_bytes"]
    assert 1 << 20 <= live < 3 << 20  # what the script held at its end, before the interpreter freed its objects


def test_runs_directory_that_cannot_be_made(python: Python) -> None:
    (python.root / "file").write_text("")
    said = python.run(TELL + "    print(json.dumps(error(memprof.start)))", PIANO_RUNS_DIR="file/runs").json
    assert said.startswith("RuntimeError: the memory profiler could not create its recording in file/runs")
