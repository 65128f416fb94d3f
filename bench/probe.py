"""The cost of one enter+exit pair of a probe, compared with two bare TSC reads and with the peers."""
import os

from common import Failed, Missing, Run, fresh, median, need, piano_build, piano_rows, scratch, sources

PIANO, EVERY, BARE, UFTRACE = "piano", "piano, every call timed", "two bare TSC reads", "uftrace"
SELECT = ["--fn", "leaf", "--fn", "fib", "--fn", "g_", "--fn", "update"]
FLAGS = ["-O2", "probe.c", "-o"]
XRAY = ["-fxray-instrument", "-fxray-instruction-threshold=1"]

# The size of each load: for all variants, and for those that take 100 ns or more per call.
LOADS = {"leaf": (50_000_000, 5_000_000), "fib": (32, 28), "game": (400, 80), "frames": (20_000, 4_000)}
QUICK = {"leaf": (30_000_000, 1_000_000), "fib": (32, 24), "game": (100, 10), "frames": (5_000, 1_000)}
TITLES = {"leaf": "(a) leaf of 4 ns", "fib": "(b) fib",
          "game": "(c) game loop: frames of 1.1 ms, ten functions of 12 ns to 1 us",
          "frames": "(d) the same in frames of 11 us (no budget)"}
CALLS_A_FRAME = 115  # of (d)


class Variant:
    """One way to build and run the program, and the plain build that it is compared with."""

    def __init__(self, name, program, baseline, env=None, prefix=(), heavy=()):
        self.name, self.program, self.baseline = name, program, baseline
        self.env, self.prefix, self.heavy = env or {}, list(prefix), heavy  # loads to do less of
        self.rows = {}

    def measure(self, load, size):
        """(calls, cpu_ns, wall_ns of the loop; Run). Its files go to a temporary directory."""
        with scratch() as there:
            prefix = [word.replace("{}", there) for word in self.prefix]
            done = Run([*prefix, self.program, load, size], cwd=there,
                       env={**self.env, "PIANO_RUNS_DIR": there}, ahead=not self.prefix)
            if self.name in (PIANO, EVERY):
                self.rows = piano_rows(there)
        calls, cpu, wall = map(int, done.out.split())
        return calls, cpu, wall, done


def variants(theme):
    """Builds the variants that can be built on this machine, and skips the others."""
    folder = fresh("probe")
    sources(folder, "probe.c", "chain.h")
    built = []

    def add(name, make):
        theme.say(f"building {name}")
        try:
            built.append(make())
        except (Missing, Failed) as why:
            theme.skip(name, str(why).splitlines()[0])

    def compiled(name, compiler, *flags):
        Run([need(compiler), *flags, *FLAGS, name], cwd=folder)
        return os.path.join(folder, name)

    plain = compiled("plain", "gcc")
    piano, _ = piano_build(folder, SELECT, ["gcc", *FLAGS, "probe"])
    add(BARE, lambda: Variant(BARE, compiled("bare", "gcc", "-DBARE"), plain))
    built.append(Variant(PIANO, piano, plain))
    built.append(Variant(EVERY, piano, plain, {"PIANO_TIMING": "all"}, heavy=("leaf",)))
    add("gprof", lambda: Variant("gprof", compiled("pg", "gcc", "-pg"), plain))
    add(UFTRACE, lambda: Variant(UFTRACE, compiled("pg", "gcc", "-pg"), plain, heavy=LOADS,
                                 prefix=[need("uftrace"), "record", "-d", "{}/trace"]))
    for mode in ("xray-basic", "xray-fdr"):
        options = {"XRAY_OPTIONS": f"patch_premain=true verbosity=0 xray_mode={mode}"}
        add(mode, lambda: Variant(mode, compiled("xray", "clang-14", *XRAY),
                                  compiled("plain-clang", "clang-14"), options, heavy=LOADS))
    return built


def clock_reads(theme):
    """The floor: two clock reads and nothing else."""
    folder = fresh("reads")
    sources(folder, "reads.c", "chain.h")
    try:
        Run(["gcc", "-O2", "reads.c", "-o", "reads"], cwd=folder)
    except Failed as why:
        theme.skip("two clock reads", str(why).splitlines()[0])
        return
    rows = [line.split() for line in Run([os.path.join(folder, "reads")]).out.splitlines()]
    theme.table("Two clock reads around a body, ns",
                ["read at the begin", "read at the end", "pair costs", "too long, 4 steps", "20 steps", "100 steps"],
                [[f"`{way}`" for way in name.replace(";", "; ").split("|")] + figures for name, *figures in rows])
    theme.note("'Too long' is the measured time minus the time of the body, a chain of dependent multiplications. It must be the "
               "same for all bodies, so that it can be subtracted. A fence before the first read keeps earlier work out of the window.")


class Cost:
    """Medians of one variant under one load."""

    def __init__(self, calls, base, own, self_ns):
        pairs = list(zip(base, own))
        self.calls = calls
        self.base_ns = median(b[1] for b in base) / calls
        self.base_wall_ns = median(b[2] for b in base) / calls
        self.pair_ns = median(o[1] - b[1] for b, o in pairs) / calls
        self.slowdown = median(o[1] / b[1] for b, o in pairs)
        self.wall = median(o[2] / b[2] for b, o in pairs)
        self.process = median(o[3].cpu / b[3].cpu for b, o in pairs)
        self.self_ns = median(self_ns) if self_ns else 0.0


def measure(theme, load, built):
    """{name: Cost}. Every turn runs each variant once, and its baseline right before it."""
    sizes = (QUICK if theme.quick else LOADS)[load]
    seen = {v.name: ([], [], []) for v in built}
    for turn in range(theme.repetitions):
        theme.say(f"{load}, turn {turn + 1} of {theme.repetitions}")
        for v in built:
            base, own, self_ns = seen[v.name]
            size = sizes[load in v.heavy]
            base.append(Variant("plain", v.baseline, None).measure(load, size))
            own.append(v.measure(load, size))
            if load in v.rows:
                self_ns.append(v.rows[load]["self_ns"] / v.rows[load]["calls"])
    return {name: Cost(own[0][0], base, own, self_ns) for name, (base, own, self_ns) in seen.items()}


def run(theme):
    built = variants(theme)
    theme.note("ns per enter+exit pair is the CPU time of the loop minus that of the plain build, which runs right before "
               "it, divided by the calls. It does not include start-up, writing at the end and uftrace's "
               "recorder; `process` includes them (from wait4). Medians of "
               f"{theme.repetitions}. Peers that need 100 ns and more a call do fewer calls. Two TSC "
               "reads hide behind the longer bodies of (c) almost entirely; what piano is held "
               "against there is what they cost in (a).")
    clock_reads(theme)
    bare = {}
    for load in LOADS:
        costs = measure(theme, load, built)
        if BARE in costs:
            bare[load] = costs[BARE].pair_ns
        theme.table(TITLES[load],
                    ["variant", "calls", "plain ns per call", "ns per pair", "CPU", "wall", "process CPU"],
                    [[name, f"{c.calls:,}", c.base_ns, c.pair_ns, f"{c.slowdown:.2f}x",
                      f"{c.wall:.2f}x", f"{c.process:.2f}x"] for name, c in costs.items()])
        judge(theme, load, costs, bare)


def judge(theme, load, costs, bare):
    piano = costs[PIANO]
    if load == "frames":
        theme.note(f"piano writes down every frame by itself as long as there is room: "
                   f"{CALLS_A_FRAME * piano.pair_ns:.0f} ns a frame here, probes included.")
        return
    if load in bare:
        bare_ns = max(bare["leaf"], bare[load]) if load == "game" else bare[load]
        theme.budget(f"{load}: ns per pair, against 1.25 x {bare_ns:.1f} of two TSC reads",
                     piano.pair_ns, 1.25 * bare_ns, " ns")
    if UFTRACE in costs:
        theme.budget(f"{load}: ns per pair, against a sixth of uftrace's {costs[UFTRACE].pair_ns:.0f}",
                     piano.pair_ns, costs[UFTRACE].pair_ns / 6, " ns")
    if load == "leaf":
        theme.budget("leaf: a counted call", piano.pair_ns, 1.0, " ns")
    if load == "fib":
        every = costs[EVERY]
        theme.budget(f"fib: slowdown, against a third of {every.slowdown:.1f}x with every call timed",
                     piano.slowdown, every.slowdown / 3, "x")
        plain = piano.base_wall_ns
        theme.budget(f"fib: self time per call, reported {piano.self_ns:.2f} ns, plain {plain:.2f} ns: "
                     "off by", abs(piano.self_ns - plain), 2.0, " ns")
        theme.note(f"fib's self time by piano: {piano.self_ns:.2f} ns per call (every call timed: "
                   f"{every.self_ns:.2f}); plain, by the clock on the wall: {plain:.2f} ns.")
