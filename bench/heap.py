"""The heap profiler: its cost per malloc and free and per sample, and real programs under piano and its peers."""
import glob
import os
import re

from common import (PIANO, ROOT, Failed, Missing, Run, fresh, median, need, sources)

PAIRS, PEER_PAIRS = 2_000_000, 500_000  # a tenth of a second
LIVE, AT_ONCE = 1.08, 1.2
SHORT_RUNS = 4
JUDGED = "piano, 512 KB"
PROGRAM_RUNS = 3
SAMPLE_NS = 1000
LIBRARY = os.path.join(os.path.dirname(os.path.realpath(PIANO)), "lib", "libpiano.so")
WAYS = {1: "counts per page (piano's)", 2: "Bloom filter, repaired", 3: "sampled blocks page-aligned"}


def system_library(pattern):
    found = glob.glob(f"/usr/lib/*/{pattern}") + glob.glob(f"/usr/lib/{pattern}")
    if not found:
        raise Missing(f"{pattern} is not installed")
    return found[0]


def preloaded(library, **env):
    return {"LD_PRELOAD": library, **env}


def recorded(folder, rate=512 * 1024):
    """The environment of `piano record --heap` without the recorder; each run gets a new recording."""
    path = os.path.join(folder, "bench.rec")
    for old in glob.glob(path + "*"):
        os.unlink(old)
    return preloaded(LIBRARY, PIANO_RECORD=path, PIANO_CHILDREN="1", PIANO_HEAP=str(rate))


class Load:
    """Compiles heap_load and the libraries to preload."""

    def __init__(self, theme):
        self.theme = theme
        self.folder = fresh("heap")
        sources(self.folder, "heap_load.c", "forward.c", "free_path.c")
        self.program = os.path.join(self.folder, "heap_load")
        Run(["gcc", "-O2", "-fomit-frame-pointer", "heap_load.c", "-o", self.program, "-pthread"],
            cwd=self.folder)
        self.library("forward")
        for way in WAYS:
            self.library("free_path", way)

    def library(self, name, way=None):
        out = os.path.join(self.folder, f"{name}{way or ''}.so")
        Run(["gcc", "-O2", "-fPIC", "-shared", f"-DWAY={way or 0}", f"{name}.c", "-o", out, "-ldl"],
            cwd=self.folder)

    def ns(self, mode, threads, env=None, pairs=None, prefix=()):
        pairs = pairs or PAIRS
        run = Run([*prefix, self.program, mode, pairs // threads, threads], env=env, ahead=threads == 1,
                  cwd=self.folder)
        return float(re.search(r"^ns (\S+)$", run.out, re.M).group(1))

    def in_turns(self, mode, threads, make_env):
        """(plain ns, ratio): medians of short runs. In each run, every other thousand pairs call glibc directly and bypass the
        preloaded library, because the random place of the heap makes one run up to 1.5 times as fast as the next."""
        plain, ratios = [], []
        for _ in range(SHORT_RUNS * self.theme.repetitions):
            run = Run([self.program, mode, PAIRS // threads, threads, "turns"], env=make_env(), ahead=threads == 1,
                      cwd=self.folder)
            plain.append(float(re.search(r"^plain (\S+)$", run.out, re.M).group(1)))
            ratios.append(float(re.search(r"^ratio (\S+)$", run.out, re.M).group(1)))
        return median(plain), median(ratios)

    def ratio(self, mode, threads, make_env, runs=SHORT_RUNS):
        """The same for other allocators. glibc cannot free their blocks, so it compares whole runs."""
        plain, watched = [], []
        for _ in range(runs * self.theme.repetitions):
            plain.append(self.ns(mode, threads))
            watched.append(self.ns(mode, threads, make_env()))
        return median(plain), median(watched) / median(plain)


def pairs(theme, load):
    rows, found = [], {}
    variants = {"nothing: the noise": lambda: {},
                "empty interposer": lambda: preloaded(os.path.join(load.folder, "forward.so")),
                "piano loaded, not recording": lambda: preloaded(LIBRARY),
                JUDGED: lambda: recorded(load.folder),
                "piano, 64 KB": lambda: recorded(load.folder, 64 * 1024)}
    for mode, threads in (("live", 1), ("live", 2), ("immediate", 1)):
        for name, make_env in variants.items():
            theme.say(f"{mode}, {threads} threads: {name}")
            plain, ratio = load.in_turns(mode, threads, make_env)
            rows.append([f"{mode}, {threads} thread{'s' * (threads > 1)}", name, plain, f"{ratio:.3f}x"])
            found[mode, threads, name] = ratio
    theme.table("malloc and free, a pair", ["load", "", "plain ns", "CPU"], rows)
    theme.note(f"Medians of {SHORT_RUNS * theme.repetitions} runs. In each, every other 4096 pairs call glibc directly: the same "
               "heap at the same time. 16 to 256 bytes; live: 20 000 "
               "blocks of each thread stay, replaced at random; immediate: freed at once. The plain figure contains the loop and 12 "
               "calls around each malloc. piano does not see half of the frees of what it sampled, and looks "
               "up more for that.")
    for (mode, threads, name), ratio in found.items():
        if name == JUDGED:
            theme.budget(f"{mode}, {threads} threads: against plain glibc", ratio,
                         LIVE if mode == "live" else AT_ONCE, "x")


def one_sample(theme, load):
    """The cost of a sample with 16 frames, and of its free: all allocations sampled, compared with none."""
    costs = []
    for _ in range(3 * theme.repetitions):
        none, every = (load.ns("live", 1, recorded(load.folder, rate), pairs=200_000)
                       for rate in (1 << 40, 1))
        costs.append(every - none)
    theme.table("One sample, stack and all, and its free", ["", "ns"], [["16 frames deep", median(costs)]])
    theme.budget("one sample and its free", median(costs), SAMPLE_NS, " ns")


def free_paths(theme, load):
    rows = []
    for way, name in WAYS.items():
        theme.say(f"free path: {name}")
        env = preloaded(os.path.join(load.folder, f"free_path{way}.so"))
        cells = [load.in_turns(mode, 1, lambda: env)[1] for mode in ("live", "immediate")]
        rows.append([name, *(f"{cell:.3f}x" for cell in cells)])
    theme.table("Free paths, each in the smallest interposer", ["", "live", "immediate"], rows)


def peer_environments(load):
    """{name: (env, prefix)} of the profilers for heap_load and the programs; a Missing for one that is not installed."""
    def heaptrack():
        return {}, [need("heaptrack"), "--raw", "-o", os.path.join(load.folder, "heaptrack")]

    def massif():
        return {}, [need("valgrind"), "--tool=massif", "--massif-out-file=/dev/null"]

    def jemalloc(conf):
        return preloaded(system_library("libjemalloc.so.2"), MALLOC_CONF=conf), []

    def tcmalloc(**env):
        return preloaded(system_library("libtcmalloc.so.4"), **env), []

    return {"heaptrack --raw": heaptrack, "massif": massif,
            "jemalloc, not profiling": lambda: jemalloc("prof:false"),
            "jemalloc, prof 2^19": lambda: jemalloc("prof:true,lg_prof_sample:19,prof_prefix:/dev/null"),
            "tcmalloc, not sampling": lambda: tcmalloc(TCMALLOC_SAMPLE_PARAMETER="0"),
            "tcmalloc, 512 KB": lambda: tcmalloc(TCMALLOC_SAMPLE_PARAMETER="524288")}


def peers(theme, load):
    rows = []
    for name, make in peer_environments(load).items():
        theme.say(f"peer: {name}")
        try:
            env, prefix = make()
            few = PEER_PAIRS if prefix else None
            ratios = []
            if not prefix:
                ratios.append(load.ratio("live", 1, lambda: env)[1])
            for _ in range(3 if prefix else 0):
                plain = load.ns("live", 1, pairs=few)
                ratios.append(load.ns("live", 1, env, few, prefix) / plain)
            rows.append([name, f"{median(ratios):.2f}x"])
        except (Missing, Failed) as missing:
            theme.skip(name, str(missing).splitlines()[0])
    theme.table("Peers, live, 1 thread, against plain glibc", ["", "CPU"], rows)
    theme.note("CPU time of the load, measured by the load; it does not include the processes of heaptrack and massif.")


SQL = ("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<300000) "
       "SELECT count(DISTINCT printf('%d-%s', i % 5000, hex(i))), sum(length(group_concat_)) FROM "
       "(SELECT i, hex(i)||'x' AS group_concat_ FROM n);")
PYTHON = ("d={}\nfor i in range(1200000): d[i%5000]=[str(i)]*3\n"
          "print(sum(len(v[0]) for v in d.values()))")


def programs(folder):
    """{name: (its command, its environment)}"""
    data = os.path.join(folder, "data.json")
    with open(data, "w", encoding="utf-8") as out:
        out.write("[" + ",".join('{"id":%d,"name":"n%d","tags":["a","b","c%d"]}' % (i, i, i % 7)
                                 for i in range(120_000)) + "]")
    python = ["/usr/bin/python3", "-c", PYTHON]
    return {"jq": (lambda: [need("jq"), "[.[] | select(.id % 3 == 0) | .tags] | length", data], {}),
            "sqlite3": (lambda: [need("sqlite3"), ":memory:", SQL], {}),
            "python3": (lambda: python, {}),
            "python3, PYTHONMALLOC=malloc": (lambda: python, {"PYTHONMALLOC": "malloc"})}


def real_programs(theme, load):
    rows = []
    overlays = {"piano": lambda: (recorded(load.folder), []), **peer_environments(load)}
    for name, (command, own) in programs(load.folder).items():
        theme.say(f"program: {name}")
        try:
            words = command()
        except Missing as missing:
            theme.skip(name, str(missing))
            continue
        cells = []
        for overlay, make in overlays.items():
            cells.append(slowdown(theme, words, own, make, overlay))
        rows.append([name, *cells])
        if isinstance(cells[0], str) and cells[0].endswith("x"):
            theme.budget(f"{name} under piano, CPU", float(cells[0][:-1]), 1.05, "x")
    theme.table("Real programs, CPU against plain", ["", *overlays], rows)
    theme.note("Ratios below 1.05x are within the noise of this machine. Medians of "
               f"{PROGRAM_RUNS * theme.repetitions} pairs for piano, 5 or 2 for the others, plain right before each.")


def slowdown(theme, words, own, make, overlay):
    judged = overlay == "piano"
    repetitions = PROGRAM_RUNS * theme.repetitions if judged else 2 if overlay in ("massif", "heaptrack --raw") else 5
    try:
        alone, under = [], []
        for _ in range(repetitions):
            env, prefix = make()
            plain = Run(words, env=own)
            watched = Run([*prefix, *words], env={**env, **own})
            if plain.out != watched.out and judged:
                theme.require(f"{words[0]}: same output", False, watched.out[:200])
            alone.append(plain.cpu)
            under.append(watched.cpu)
        return f"{median(under) / median(alone):.2f}x"
    except (Missing, Failed):
        return "-"


def resident(load, pairs, env=None):
    """Peak MB, as the program reports it. The kernel's figure for children includes the parent's memory."""
    run = Run([load.program, "live", pairs, 1], env=env)
    return int(re.search(r"^kb (\d+)$", run.out, re.M).group(1)) / 1024


def footprint(theme, load):
    """Resident memory of the tables in a program with few live samples, and in one with many."""
    small = resident(load, 1000, recorded(load.folder)) - resident(load, 1000)
    busy = resident(load, 4_000_000, recorded(load.folder, 16 * 1024)) - resident(load, 4_000_000)
    theme.table("Resident memory added", ["", "MB"],
                [["1000 allocations, 512 KB", small], ["4 million allocations, 16 KB", busy]])
    theme.budget("a small program", small, 4.0, " MB")
    theme.budget("a busy one", busy, 30.0, " MB")


def run(theme):
    if not os.path.exists(LIBRARY):
        raise Missing(f"there is no {os.path.relpath(LIBRARY, ROOT)}")
    load = Load(theme)
    pairs(theme, load)
    one_sample(theme, load)
    free_paths(theme, load)
    footprint(theme, load)
    peers(theme, load)
    real_programs(theme, load)
