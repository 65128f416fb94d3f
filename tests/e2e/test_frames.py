"""Frames: which calls they are, their cost, and the limits of their number."""
from __future__ import annotations

import json
from typing import Any

import pytest

from conftest import BURN, Project


def roots(project: Project) -> set[str]:
    return {f["root"] for f in project.frames()}


def test_each_call_of_the_outermost_function(project: Project) -> None:
    report = project.profile_c(BURN + """
        static void physics(void) { BURN(3000); }
        static void update(void) { BURN(3000); physics(); physics(); }
        int main(void) { for (int i = 0; i < 30; i++) update(); return 0; }
    """, select=["--fn", "update", "--fn", "physics"])
    assert report.frame_count == 30 and roots(project) == {"update"}
    frames = project.frames()
    assert [f["frame"] for f in frames] == list(range(30))
    starts = [f["start_ns"] for f in frames]
    assert starts == sorted(starts)
    for f in frames:
        rows = {r["name"]: r["calls"] for r in f["functions"]}
        assert rows == {"update": 1, "physics": 2}
        assert f["wall_ns"] > 0
    ends = [f["start_ns"] + f["wall_ns"] for f in frames]
    assert all(end <= start for end, start in zip(ends, starts[1:])), "frames of a thread overlap"


def test_main_instrumented_too(project: Project) -> None:
    report = project.profile_c(BURN + """
        static void update(void) { BURN(3000); }
        int main(void) { for (int i = 0; i < 25; i++) update(); return 0; }
    """)
    assert report.frame_count == 25 and roots(project) == {"update"}


def test_main_run_tick(project: Project) -> None:
    report = project.profile_c(BURN + """
        static void inner(void) { BURN(500); }
        static void tick(void) { BURN(2000); inner(); inner(); inner(); }
        static void run(void) { for (int i = 0; i < 40; i++) tick(); }
        int main(void) { run(); return 0; }
    """)
    assert report.called() == {"main": 1, "run": 1, "tick": 40, "inner": 120}
    assert report.frame_count == 40 and roots(project) == {"tick"}
    for f in project.frames():
        assert {r["name"]: r["calls"] for r in f["functions"]} == {"tick": 1, "inner": 3}


def test_deep_main_loop(project: Project) -> None:
    report = project.profile_c(BURN + """
        static void frame(void) { BURN(3000); }
        static void e(void) { for (int i = 0; i < 20; i++) frame(); }
        static void d(void) { e(); }
        static void c(void) { d(); }
        static void b(void) { c(); }
        static void a(void) { b(); }
        int main(void) { a(); return 0; }
    """)
    assert report.frame_count == 20 and roots(project) == {"frame"}


def test_initialisation_does_not_count_as_frames(project: Project) -> None:
    report = project.profile_c(BURN + """
        static void load_file(void) { BURN(800); }
        static void init(void) { for (int i = 0; i < 5; i++) load_file(); }
        static void update(void) { BURN(4000); }
        static void shutdown_(void) { BURN(500); }
        int main(void) { init(); for (int i = 0; i < 60; i++) update(); shutdown_(); return 0; }
    """)
    assert report.called() == {"main": 1, "init": 1, "load_file": 5, "update": 60, "shutdown_": 1}
    assert report.frame_count == 60 and roots(project) == {"update"}


def test_frame_option_overrides(project: Project) -> None:
    source = BURN + """
        static void physics(void) { BURN(2000); }
        static void update(void) { BURN(2000); physics(); physics(); }
        int main(void) { for (int i = 0; i < 15; i++) update(); return 0; }
    """
    report = project.profile_c(source, select=["--frame", "physics"])
    assert report.called() == {"main": 1, "update": 15, "physics": 30}
    assert report.frame_count == 30 and roots(project) == {"physics"}


def test_frame_option_takes_a_function_not_otherwise_selected(project: Project) -> None:
    report = project.profile_c(BURN + """
        static void physics(void) { BURN(2000); }
        static void update(void) { BURN(2000); physics(); }
        int main(void) { for (int i = 0; i < 15; i++) update(); return 0; }
    """, select=["--fn", "physics", "--frame", "update"])
    assert report.called() == {"update": 15, "physics": 15}
    assert report.frame_count == 15 and roots(project) == {"update"}


def test_unknown_frame_function_is_an_error(project: Project) -> None:
    project.write({"a.c": "int update(void) { return 0; }\nint main(void) { return update(); }\n"})
    done = project.piano("build", "--frame", "updtae", "--", "gcc", "a.c", "-o", "a", check=False)
    assert done.status == 1
    assert "updtae" in done.err and "update" in done.err


def test_frame_option_with_a_qualified_name(project: Project) -> None:
    report = project.profile_c(BURN + """
        struct World { void tick() { BURN(3000); } };
        struct Other { void tick() { BURN(100); } };
        int main() { World w; Other o; for (int i = 0; i < 9; i++) { w.tick(); o.tick(); } }
    """, compiler="g++", name="prog.cc", select=["--frame", "World::tick"])
    assert report.frame_count == 9 and roots(project) == {"World::tick"}


def test_spikes_are_marked(project: Project) -> None:
    report = project.profile_c(BURN + """
        static void update(int n) { BURN(n); }
        int main(void)
        { for (int i = 0; i < 100; i++) update(i % 25 == 12 ? 400000 : 20000); return 0; }
    """)
    summary = report.data["frames"]
    frames = project.frames()
    assert summary["count"] == 100
    spiked = {f["frame"] for f in frames if f["spike"]}
    assert {12, 37, 62, 87} <= spiked
    assert summary["spikes"] == len(spiked)
    assert 4 <= summary["spikes"] <= 30
    for f in frames:
        assert f["spike"] == (f["wall_ns"] > 2 * summary["p50_ns"]), f
    assert summary["p50_ns"] <= summary["p99_ns"] and summary["avg_ns"] > summary["p50_ns"]
    footer = project.piano("report").out.splitlines()[-1]
    assert "100 frames" in footer and f"{summary['spikes']} spikes" in footer
    table = project.piano("report", "--frames").out
    assert table.count("spike") >= 4


def test_frames_add_up_to_the_functions(project: Project) -> None:
    report = project.profile_c(BURN + """
        #include <stdlib.h>
        static void physics(void) { BURN(2000); free(malloc(10)); }
        static void update(void) { BURN(2000); physics(); free(malloc(5)); }
        int main(void) { for (int i = 0; i < 50; i++) update(); return 0; }
    """)
    sums: dict[str, dict[str, int]] = {}
    for f in project.frames():
        for row in f["functions"]:
            into = sums.setdefault(row["name"], {})
            for key in ("calls", "self_ns", "alloc_count", "alloc_bytes"):
                into[key] = into.get(key, 0) + row[key]
    for name in ("update", "physics"):
        row = report.row(name)
        assert sums[name] == {key: row[key] for key in sums[name]}, name


def test_wall_time_covers_what_is_not_instrumented(project: Project) -> None:
    """A frame's wall time is the clock's, including waits."""
    project.profile_c(BURN + """
        #include <unistd.h>
        static void update(int n) { BURN(1000); if (n == 5) usleep(30000); }
        int main(void) { for (int i = 0; i < 20; i++) update(i); return 0; }
    """)
    frames = project.frames()
    longest = max(frames, key=lambda f: f["wall_ns"])
    assert longest["frame"] == 5 and longest["spike"]
    assert longest["wall_ns"] >= 30_000_000


def test_no_repetition_is_an_aggregate_report(project: Project) -> None:
    report = project.profile_c(BURN + """
        static void second(void) { BURN(1000); }
        static void first(void) { BURN(1000); second(); }
        int main(void) { first(); return 0; }
    """)
    assert report.frame_count == 0
    for row in report.functions:
        assert row["p50_ns"] is None and row["p99_ns"] is None
    text = project.piano("report").out
    assert "frames" not in text and "p99" not in text
    old = list(project.runs.glob("*.json"))
    assert len(old) == 1
    data = json.loads(old[0].read_text())
    assert {"run_id", "timestamp_ms", "functions"} <= set(data)
    rows = {f["name"]: f for f in data["functions"]}
    assert {n: f["calls"] for n, f in rows.items()} == {"main": 1, "first": 1, "second": 1}
    for f in rows.values():
        assert f["self_ms"] >= 0 and f["total_ms"] >= f["self_ms"] * 0.99
    alone = project.home / "alone.json"
    alone.write_text(old[0].read_text())
    assert project.report(str(alone)).called() == {"main": 1, "first": 1, "second": 1}
    assert len(project.json("list")["runs"]) == 1, "two files, one run"


def test_a_run_with_frames_leaves_no_v1_file(project: Project) -> None:
    project.profile_c(BURN + """
        static void update(void) { BURN(2000); }
        int main(void) { for (int i = 0; i < 5; i++) update(); return 0; }
    """)
    assert list(project.runs.glob("*.json")) == []
    assert list(project.runs.glob("*.live")) == []


def test_frames_of_each_thread(project: Project) -> None:
    report = project.profile_c(BURN + """
        #include <pthread.h>
        static void job(void) { BURN(3000); }
        static void *worker(void *p) { for (int i = 0; i < 10; i++) job(); return p; }
        static void tick(void) { BURN(3000); }
        static void *game(void *p) { for (int i = 0; i < 20; i++) tick(); return p; }
        int main(void)
        {
            pthread_t t[4];
            for (int i = 0; i < 4; i++) pthread_create(&t[i], 0, i ? worker : game, 0);
            for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
            return 0;
        }
    """, "-pthread")
    assert report.calls("tick", "job", "worker") == {"tick": 20, "job": 30, "worker": 3}
    by_thread: dict[int, list[dict[str, Any]]] = {}
    for f in project.frames():
        by_thread.setdefault(f["thread"], []).append(f)
    counts = sorted((f[0]["root"], len(f)) for f in by_thread.values())
    assert counts == [("job", 10), ("job", 10), ("job", 10), ("tick", 20)]


def test_percentiles_are_over_the_frames_a_function_appears_in(project: Project) -> None:
    report = project.profile_c(BURN + """
        static void rare(void) { BURN(50000); }
        static void update(int n) { BURN(2000); if (n % 10 == 0) rare(); }
        int main(void) { for (int i = 0; i < 100; i++) update(i); return 0; }
    """)
    row = report.row("rare")
    assert row["calls"] == 10 and row["frames"] == 10
    assert row["p50_ns"] > 5 * report.row("update")["p50_ns"], "frames without it drag it down"


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_runaway_outermost_function_is_bounded(project: Project, compiler: str) -> None:
    """20 million calls of a tiny outermost function: exact count, a file of a few MB."""
    report = project.profile_c("""
        static volatile unsigned sink;
        void tiny(void) { sink++; }
        int main(void) { for (int i = 0; i < 20000000; i++) tiny(); return 0; }
    """, select=["--fn", "tiny"], compiler=compiler)
    assert report.called() == {"tiny": 20_000_000}
    written = sum(p.stat().st_size for p in project.runs.iterdir())
    assert written < 8 << 20


def test_many_real_frames_are_bounded(project: Project) -> None:
    """300 000 frames too long to be tiny: all counted, the file stays small."""
    report = project.profile_c(BURN + """
        static void update(void) { BURN(200); }
        int main(void) { for (int i = 0; i < 300000; i++) update(); return 0; }
    """)
    assert report.row("update")["calls"] == 300_000
    assert sum(p.stat().st_size for p in project.runs.iterdir()) < 64 << 20


LOOP = BURN + """
    #include <time.h>
    static void pause_(long ms)
    { struct timespec t = {0, ms * 1000000}; nanosleep(&t, 0); }
    static void init(void) { BURN(5000); }
    static void poll_(void) { BURN(2000); }
    static void update(void) { BURN(4000); }
    static void autosave(void) { BURN(3000); }
    static void draw(void) { BURN(8000); }
    int main(void)
    {
        init();
        for (int i = 0; i < 60; i++) {
            poll_();
            update();
            if (i % 20 == 5) autosave();
            if (i == 33) pause_(40);
            draw();
            draw();
        }
        init();
        return 0;
    }
"""
LOOP_FNS = ["--fn", "init", "--fn", "poll_", "--fn", "update", "--fn", "autosave", "--fn", "draw"]


@pytest.mark.parametrize("with_main", [False, True])
def test_a_loop_of_several_functions_has_turns(project: Project, with_main: bool) -> None:
    """A loop of poll, update, draw: a frame is a turn, including the time of `main` between the calls."""
    report = project.profile_c(LOOP, select=LOOP_FNS + (["--fn", "main"] if with_main else []))
    groups = report.data["frames"]["by_root"]
    assert [(g["root"], g["kind"], g["count"]) for g in groups] == [("poll_", "turn", 60)]
    assert groups[0]["caller"] == ("main" if with_main else None)
    assert report.row("draw")["calls"] == 120 and report.row("draw")["frames"] == 60
    assert report.row("init")["frames"] == 0 and report.row("autosave")["frames"] == 3
    frames = project.frames()
    for i, f in enumerate(frames):
        calls = {r["name"]: r["calls"] for r in f["functions"]}
        assert calls == {"poll_": 1, "update": 1, "draw": 2, **({"autosave": 1} if i % 20 == 5 else {})}
        assert f["kind"] == "turn" and f["between_ns"] >= 0
        own = sum(r["self_ns"] for r in f["functions"])
        assert abs(f["wall_ns"] - own - f["between_ns"]) < 1000, f
    ends = [f["start_ns"] + f["wall_ns"] for f in frames]
    starts = [f["start_ns"] for f in frames[1:]] + [ends[-1]]
    assert all(end <= start for end, start in zip(ends, starts)), "turns overlap"
    hitch = max(frames, key=lambda f: f["wall_ns"])
    assert hitch["frame"] == 33 and hitch["spike"] and hitch["between_ns"] >= 40_000_000
    if with_main:
        assert report.row("main")["self_ns"] >= 40_000_000
    footer = project.piano("report").out.splitlines()[-1]
    assert "60 frames (turns from poll_)" in footer
    table = project.piano("report", "--frames").out
    assert "between" in table.splitlines()[0]
    assert ("self time of main" if with_main else "not chosen") in table


def test_frame_option_overrides_turns(project: Project) -> None:
    report = project.profile_c(LOOP, select=LOOP_FNS + ["--frame", "update"])
    groups = report.data["frames"]["by_root"]
    assert [(g["root"], g["kind"], g["count"]) for g in groups] == [("update", "call", 60)]


def test_a_helper_called_now_and_then_does_not_make_turns(project: Project) -> None:
    """A number is drawn only every tenth frame: the frames are those of the function that takes the time."""
    report = project.profile_c(BURN + """
        static unsigned state = 1;
        static unsigned draw_number(void) { return state = state * 1103515245 + 12345; }
        static void frame(unsigned more) { BURN(40000 + (more & 1)); }
        int main(void)
        {
            for (int i = 0; i < 200; i++)
                frame(i % 10 == 9 ? draw_number() : 0);
            return 0;
        }
    """)
    groups = {g["root"]: (g["kind"], g["count"]) for g in report.data["frames"]["by_root"]}
    assert groups["frame"] == ("call", 200)


def test_jobs_in_any_order_are_frames_of_their_own(project: Project) -> None:
    report = project.profile_c(BURN + """
        static void job_a(void) { BURN(2000); }
        static void job_b(void) { BURN(4000); }
        static void job_c(void) { BURN(3000); }
        int main(void)
        {
            unsigned random = 1;
            for (int i = 0; i < 90; i++) {
                random = random * 1103515245 + 12345;
                switch ((random >> 16) % 3) {
                case 0: job_a(); break;
                case 1: job_b(); break;
                default: job_c();
                }
            }
            return 0;
        }
    """)
    assert report.frame_count == 90
    assert all(g["kind"] == "call" for g in report.data["frames"]["by_root"])
    assert len(report.data["frames"]["by_root"]) == 3


def test_recursive_outermost_function(project: Project) -> None:
    report = project.profile_c(BURN + """
        static void walk(int n) { BURN(500); if (n) walk(n - 1); }
        int main(void) { for (int i = 0; i < 20; i++) walk(10); return 0; }
    """, select=["--fn", "walk"])
    assert report.called() == {"walk": 220}
    assert report.frame_count == 20, "an inner call of a recursion is no frame"


def test_a_frame_left_by_longjmp_is_a_frame(project: Project) -> None:
    report = project.profile_c(BURN + """
        #include <setjmp.h>
        static jmp_buf env;
        static void fails(void) { BURN(1000); longjmp(env, 1); }
        static void request(int n) { BURN(3000); if (n % 3 == 0) fails(); }
        int main(void)
        { for (volatile int i = 0; i < 60; i++) if (!setjmp(env)) request(i); return 0; }
    """)
    assert report.called() == {"main": 1, "request": 60, "fails": 20}
    assert report.frame_count == 60


def made_run(project: Project, walls_us: list[int]) -> str:
    """A run whose frames of `update` took the given times."""
    lines = ['{"format_version":2,"run_id":"7_1000","timestamp_ms":1000,"functions":["update"]}']
    for i, wall in enumerate(walls_us):
        lines.append(json.dumps({"frame": i, "thread": 1, "depth": 0, "root": 0, "start_ns": i * 10**9,
                                 "wall_ns": wall * 1000,
                                 "fns": [{"id": 0, "calls": 1, "self_ns": wall * 1000}]}))
    project.write({"made.ndjson": "\n".join(lines) + "\n"})
    return "made.ndjson"


def test_a_budget_decides_what_a_spike_is(project: Project) -> None:
    run = made_run(project, [15000] * 20 + [16600, 16601, 17000, 40000] + [15000] * 20)
    assert project.json("report", run)["frames"]["spikes"] == 1
    for budget in ("16.6ms", "16600us", "0.0166s", "16600000ns"):
        data = project.json("report", run, "--budget", budget)
        assert data["frames"]["spikes"] == 3 and data["budget_ns"] == 16_600_000
        frames = project.json("report", run, "--frames", f"--budget={budget}")
        assert [f["frame"] for f in frames["frames"] if f["spike"]] == [21, 22, 23]
        assert frames["budget_ns"] == 16_600_000
    assert "3 spikes (>16.6ms budget)" in project.piano("report", run, "--budget", "16.6ms").out
    table = project.piano("report", run, "--frames", "--budget", "16.6ms").out
    assert table.count("<- spike") == 3 and "(>16.6ms budget)" in table
    assert project.json("report", run)["budget_ns"] is None
    assert "(>2x median)" in project.piano("report", run).out


@pytest.mark.parametrize("command", ["report", "profile"])
@pytest.mark.parametrize("budget", ["16.6", "fast", "-3ms", "0ms", "ms", "nanms", "infs", "1e300s",
                                    "0x10ms", "16.6 parsecs", "0.0001ns"])
def test_a_budget_that_is_no_time_is_an_error(project: Project, command: str, budget: str) -> None:
    done = project.piano(command, "--budget", budget, check=False)
    assert done.status == 2 and "--budget" in done.err and "16.6ms" in done.err, done


def test_a_budget_is_for_frames(project: Project) -> None:
    for other in ("--threads", "--heap", "--cpu", "--polls"):
        done = project.piano("report", other, "--budget", "16.6ms", check=False)
        assert done.status == 2 and "--budget" in done.err, done


def test_profile_takes_a_budget(project: Project) -> None:
    project.write({"a.c": BURN + """
        static void update(void) { BURN(2000); }
        int main(void) { for (int i = 0; i < 30; i++) update(); return 0; }
    """})
    done = project.piano("profile", "--budget", "1ns", "--", "gcc", "-O1", "a.c", "-o", "a")
    assert "30 spikes (>1ns budget)" in done.out


# Frames are merged if there are more per second than the file allows. These are short, so that this also happens on a busy
# machine. All are timed, because functions timed by sample have no frames.
SHORT = {"PIANO_TIMING": "all"}


def four(turns: int, functions: int = 4) -> str:
    names = [f"f{i}" for i in range(functions)]
    return BURN + "".join(f"void {n}(void) {{ BURN({100 + i}); }}\n" for i, n in enumerate(names)) + f"""
        int main(void)
        {{ for (int i = 0; i < {turns}; i++) {{ {" ".join(n + "();" for n in names)} }} return 0; }}
    """


def test_merged_frames_count_for_their_own_function(project: Project) -> None:
    report = project.profile_c(four(6000), env=SHORT)
    summary = report.data["frames"]
    assert summary["merged"] > 0, "not fast enough to be merged: the test shows nothing"
    assert {g["root"]: g["count"] for g in summary["by_root"]} == {f"f{i}": 6000 for i in range(4)}
    assert all(g["kind"] == "call" for g in summary["by_root"])
    for group in summary["by_root"]:
        row = report.row(group["root"])
        assert row["frames"] == 6000
        for key in ("p50_ns", "p99_ns"): # a frame has one function: the two are the same figure
            assert abs(row[key] - group[key]) <= 0.12 * group[key] + 8, (group, row)
    out = project.piano("report")
    assert "to within 6 %" in out.out and "kept as sums" in out.err


def test_more_roots_than_there_is_room_for(project: Project) -> None:
    """Frames of functions without an entry are counted, but for no function."""
    report = project.profile_c(four(800, functions=40), env=SHORT)
    summary = report.data["frames"]
    assert summary["merged"] > 0 and summary["count"] == 40 * 800
    assert sum(g["count"] for g in summary["by_root"]) == summary["count"]
    by_root = {g["root"]: g["count"] for g in summary["by_root"]}
    assert all(count <= 800 for root, count in by_root.items() if root is not None)
    assert sum(count == 800 for count in by_root.values()) >= 8
    assert all(report.row(f"f{i}")["calls"] == 800 and report.row(f"f{i}")["frames"] == 800
               for i in range(40))
    assert sum(p.stat().st_size for p in project.runs.iterdir()) < 16 << 20


def test_merged_frames_survive_a_kill(project: Project) -> None:
    program = project.cc(four(6000).replace("return 0;", "raise(9);").replace(
        "int main", "#include <signal.h>\nint main"))
    project.piano("run", "--", str(program), check=False, env=SHORT)
    summary = project.json("report")["frames"]
    assert summary["merged"] > 0
    assert {g["root"]: g["count"] for g in summary["by_root"]} == {f"f{i}": 6000 for i in range(4)}
    assert all(r["frames"] == 6000 for r in project.report().functions if r["name"] != "main")


def test_a_busy_first_call_does_not_take_the_lines_of_the_loop(project: Project) -> None:
    """Deeper calls have lines too; the loop keeps its lines even if there are many of them."""
    report = project.profile_c(BURN + """
        static void item(void) { BURN(3000); }
        static void poll_(void) { BURN(2000); }
        static void update(int n) { for (int i = 0; i < n; i++) item(); }
        int main(void)
        { for (int i = 0; i < 40; i++) { poll_(); update(i ? 3 : 12000); } return 0; }
    """)
    summary = report.data["frames"]
    assert summary["merged"] == 0
    assert [(g["root"], g["kind"], g["count"]) for g in summary["by_root"]] == [("poll_", "turn", 40)]
    assert report.row("item")["calls"] == 12000 + 39 * 3
