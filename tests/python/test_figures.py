"""Compares the figures with what the script knows about its objects."""
from __future__ import annotations

import pytest
from conftest import Python

SHADOW = """
import json, random, sys
from piano import memprof

# id() of a bytes object is the address of its block, and sys.getsizeof its size: a map to compare with.
random.seed(7)
live = {}
pool = []
def act():
    if pool and random.random() < 0.45:
        pool.pop(random.randrange(len(pool)))
    else:
        pool.append(bytes(random.choice((2, 30, 100, 470, 479, 480, 481, 500, 600, 5000, 200000))))
for _ in range(20000):
    act()
snapshot = memprof.get_snapshot(resolve=False)
expected = {id(b): sys.getsizeof(b) for b in pool if len(b) > 1}
seen = {}
twice = 0
for s in snapshot.samples:
    twice += s.address in seen
    seen[s.address] = s.size
wrong = {k: (v, seen.get(k)) for k, v in expected.items() if seen.get(k) != v}
weights = sum(s.weight != s.size for s in snapshot.samples)
then = snapshot.timestamp_ns   # of what comes later, some has the same addresses
pool.clear()
left = sum(s.address in expected and s.timestamp_ns < then for s in memprof.get_snapshot(resolve=False).samples)
print(json.dumps({"left": left, "objects": len(expected), "wrong": len(wrong), "twice": twice, "weights": weights,
                  "sum": snapshot.estimated_heap_bytes == sum(s.weight for s in snapshot.samples),
                  "counts": snapshot.live_samples == len(snapshot.samples) <= snapshot.total_samples}))
"""


@pytest.mark.parametrize("allocator", ["", "malloc", "debug", "pymalloc_debug"])
def test_every_object_once_and_with_its_size(python: Python, allocator: str) -> None:
    """Samples everything: small objects from arenas, large ones from malloc, and sizes in between."""
    more = {"PYTHONMALLOC": allocator} if allocator else {}
    said = python.sampled(SHADOW, rate=1, **more).json
    assert said["objects"] > 1000
    assert said["twice"] == 0 and said["left"] == 0 and said["sum"] and said["counts"]
    if "debug" in allocator:  # the debug layer adds bytes around each block, so addresses are not those of objects
        return
    assert said["wrong"] == 0 and said["weights"] == 0


@pytest.mark.parametrize("size", [0, 8, 479, 480, 5000])
def test_every_allocation_is_one_sample(python: Python, size: int) -> None:
    """Freed at once, so that only counts can be compared: malloc's hooks must not sample them a second time."""
    said = python.sampled(f"""
    import itertools, json
    from piano import memprof
    def total():
        return memprof.get_stats().total_samples
    def make(n):
        for _ in itertools.repeat(None, n):
            bytearray({size})
    make(10)
    start = total()
    make(0)
    nothing = total()
    make(1000)
    print(json.dumps(total() - nothing - (nothing - start)))
    """).json
    objects = 1 if size == 0 else 2  # an empty one has no buffer
    assert abs(said - 1000 * objects) < 10


GROWTH = """
    from piano import memprof
    def live():
        samples = memprof.get_snapshot(resolve=False).samples
        return sum(s.estimated_bytes for s in samples), len(samples)
    before = live()
    kept = [bytearray(64) for _ in range(20000)] + [{i: i} for i in range(5000)] + [list(range(100)) for _ in range(500)]
    for growing in kept[:1000]:
        growing.extend(b"x" * 1000)
    after = live()
    print([after[0] - before[0], after[1] - before[1]])
"""


@pytest.fixture(scope="module")
def plain_growth(tmp_path_factory: pytest.TempPathFactory) -> list[int]:
    return Python(tmp_path_factory.mktemp("plain")).sampled(GROWTH).json


@pytest.mark.parametrize("allocator", ["malloc", "debug"])
def test_the_same_whatever_the_allocator_is(python: Python, plain_growth: list[int], allocator: str) -> None:
    plain, blocks = plain_growth
    other, others = python.sampled(GROWTH, PYTHONMALLOC=allocator).json
    assert plain > 20000 * (56 + 65) and blocks > 20000 * 2
    assert abs(others - blocks) < 0.01 * blocks
    assert abs(other - plain) < 0.03 * plain  # large blocks of the debug layer have 24 bytes more


@pytest.mark.parametrize("allocator", ["", "malloc"])
def test_hooks_are_only_where_they_are_needed(python: Python, allocator: str) -> None:
    """Python with PYTHONMALLOC=malloc is sampled in malloc, at half the cost."""
    more = {"PYTHONMALLOC": allocator} if allocator else {}
    said = python.sampled("""
    import ctypes, json
    def owner(domain):
        now = (ctypes.c_void_p * 5)()
        ctypes.pythonapi.PyMem_GetAllocator(domain, ctypes.byref(now))
        for line in open("/proc/self/maps"):
            begin, end = (int(word, 16) for word in line.split()[0].split("-"))
            if begin <= now[1] < end:
                return "libpiano" in line
    [bytes(100) for _ in range(1000)]
    print(json.dumps([owner(domain) for domain in range(3)]))
    """, **more).json
    assert said == ([False, False, False] if allocator else [False, True, True])


def test_arenas_are_not_counted_beside_what_is_in_them(python: Python) -> None:
    script = """
    from piano import memprof
    kept = [bytearray(64) for _ in range(100000)]
    print(memprof.get_snapshot(resolve=False).estimated_heap_bytes)
    """
    plain = python.sampled(script).json
    maps = python.sampled(script, PIANO_MAPS="1").json
    assert plain > 100000 * (56 + 65)
    assert plain <= maps < plain + 6_000_000  # its 13 arenas would count once more


def test_small_objects_are_seen_by_a_sampler(python: Python) -> None:
    said = python.run("""
    import json
    from piano import memprof
    memprof.start(64)
    kept = [bytes(31) for _ in range(400000)]   # 64 bytes each
    snapshot = memprof.get_snapshot(resolve=False)
    ids = {id(b) for b in kept}
    mine = [s for s in snapshot.samples if s.address in ids]
    print(json.dumps([sum(s.estimated_bytes for s in mine), sum(s.estimated_objects for s in mine), len(mine),
                      {s.size for s in mine} == {64}]))
    """).json
    assert said[3] and 250 < said[2] < 550
    assert abs(said[0] - 400000 * 64) < 0.25 * 400000 * 64  # 5 standard errors of 391 samples
    assert abs(said[1] - 400000) < 0.25 * 400000


def test_a_mean_over_many_runs_is_the_truth(python: Python) -> None:
    """Each size in a separate process, 60 times: the mean of the estimates is within 4 standard errors of the truth."""
    said = python.run("""
    import json
    from piano import memprof
    memprof.start(64)
    out = {}
    for size, count in ((100, 3000), (4096, 100), (65536, 8), (1000000, 2)):
        estimates, objects = [], []
        for _ in range(60):
            kept = [bytes(size - 33) for _ in range(count)]
            ids = {id(b) for b in kept}
            mine = [s for s in memprof.get_snapshot(resolve=False).samples if s.address in ids]
            estimates.append(sum(s.estimated_bytes for s in mine) / (size * count))
            objects.append(sum(s.estimated_objects for s in mine) / count)
            del kept
        out[size] = estimates, objects
    print(json.dumps(out))
    """).json
    for size, figures in said.items():
        for values in figures:
            mean = sum(values) / len(values)
            error = (sum((v - mean) ** 2 for v in values) / len(values) / (len(values) - 1)) ** 0.5
            assert abs(mean - 1) <= 4 * error + 1e-3, (size, mean, error)


def test_a_large_block_is_what_it_is(python: Python) -> None:
    said = python.run("""
    import json
    from piano import memprof
    memprof.start()
    kept = bytes(1 << 30)
    s = max(memprof.get_snapshot().samples, key=lambda s: s.size)
    print(json.dumps([s.size, s.weight, s.estimated_bytes, s.lifetime_ns]))
    """).json
    assert said == [(1 << 30) + 33] * 3 + [None]


def test_arrays_of_numpy_are_counted(python: Python) -> None:
    pytest.importorskip("numpy", reason="python3-numpy is not installed")
    said = python.run("""
    import json
    import numpy
    from piano import memprof
    memprof.start()
    ones = numpy.ones(1000000)
    zeros = numpy.zeros(4000000)
    snapshot = memprof.get_snapshot()
    found = {s.size: any("numpy" in f.file for f in s.stack) for s in snapshot.samples if s.size in (8000000, 32000000)}
    del ones, zeros
    print(json.dumps([found, memprof.get_stats().estimated_heap_bytes]))
    """).json
    assert said[0] == {"8000000": True, "32000000": True}
    assert said[1] < 8000000


def test_threads_see_all_their_allocations(python: Python) -> None:
    said = python.sampled("""
    import json, threading
    from piano import memprof
    def work(out):
        out.extend(bytes(200) for _ in range(3000))
        for _ in range(2000):
            bytes(300)
    kept = [[] for _ in range(10)]
    threads = [threading.Thread(target=work, args=(k,)) for k in kept]
    [t.start() for t in threads]
    [t.join() for t in threads]
    ids = {id(b) for k in kept for b in k}
    mine = [s for s in memprof.get_snapshot(resolve=False).samples if s.address in ids]
    print(json.dumps([len(ids), len(mine), len({s.thread_id for s in mine}) > 1, {s.size for s in mine} == {233}]))
    """).json
    assert said == [30000, 30000, True, True]


def test_snapshots_while_other_threads_allocate(python: Python) -> None:
    """Every sample belongs to one block: its size and stack are those of the only function that makes such blocks."""
    said = python.run("""
    import hashlib, json, threading, zlib
    from piano import memprof
    memprof.start(1)
    ended = threading.Event()
    data = bytes(100000)
    def free_of_the_gil():
        while not ended.is_set():
            zlib.compress(data), hashlib.sha256(data).hexdigest()
    threads = [threading.Thread(target=free_of_the_gil) for _ in range(4)]
    [t.start() for t in threads]
    stacks = {}
    bad = taken = 0
    for _ in range(40):
        for s in memprof.get_snapshot(resolve=False).samples:
            taken += 1
            bad += not (0 < s.size <= s.weight and s.timestamp_ns > 0 and s.stack)
    ended.set()
    [t.join() for t in threads]
    print(json.dumps([bad, taken > 0]))
    """).json
    assert said == [0, True]


def test_a_profile_is_not_full_of_profiles(python: Python) -> None:
    said = python.run("""
    import json
    from piano import memprof
    memprof.start(1)
    kept = [bytes(1000) for _ in range(3000)]
    before = memprof.get_stats().total_samples
    snapshots = [memprof.get_snapshot() for _ in range(20)]
    print(json.dumps([memprof.get_stats().total_samples - before, len(snapshots[0].samples)]))
    """).json
    assert said[1] > 1000 and said[0] < 50  # 20 of them have 20 000 samples, several megabytes


def test_tracemalloc_and_piano_work_together(python: Python) -> None:
    """All orders of installing and removing hooks: no recursion, and small objects are sampled while piano is active."""
    said = python.run("""
    import json, tracemalloc
    from piano import memprof
    def seen():
        kept = [bytes(200) for _ in range(5000)]
        ids = {id(b) for b in kept}
        return sum(s.estimated_bytes for s in memprof.get_snapshot(resolve=False).samples if s.address in ids) / (5000 * 233)
    out = []
    memprof.start(1)
    tracemalloc.start()          # on top of piano
    out.append(seen())
    memprof.stop(); memprof.start(1)
    out.append(seen())
    tracemalloc.stop()
    out.append(seen())
    memprof.stop()
    tracemalloc.start()
    memprof.start(1)
    out.append(seen())
    tracemalloc.stop()
    memprof.stop(); memprof.start(1)
    out.append(seen())
    print(json.dumps(out))
    """).json
    assert all(0.8 < share < 1.2 for share in said), said


def test_hooks_are_restored_after_tracemalloc_removed_them(python: Python) -> None:
    """It was installed first. Its removal restores the hooks before it, without piano's. The next sample detects that."""
    said = python.run("""
    import json, tracemalloc
    tracemalloc.start()
    from piano import memprof
    memprof.start(1)
    above = [bytes(200) for _ in range(5000)]
    ids = {id(b) for b in above}
    first = sum(s.estimated_bytes for s in memprof.get_snapshot(resolve=False).samples if s.address in ids)
    tracemalloc.stop()
    noticed = [bytes(2000) for _ in range(2000)]
    kept = [bytes(200) for _ in range(5000)]
    ids = {id(b) for b in kept}
    seen = sum(s.estimated_bytes for s in memprof.get_snapshot(resolve=False).samples if s.address in ids)
    print(json.dumps([first / (5000 * 233), seen / (5000 * 233)]))
    """).json
    assert all(0.8 < share < 1.2 for share in said), said


def test_interval_covers_the_truth(python: Python) -> None:
    said = python.run("""
    import json
    from piano import memprof
    memprof.start(16)
    inside = 0
    for _ in range(100):
        kept = [bytes(1000 - 33) for _ in range(2000)]
        ids = {id(b) for b in kept}
        snapshot = memprof.get_snapshot(resolve=False)
        snapshot.samples = [s for s in snapshot.samples if s.address in ids]
        snapshot.estimated_heap_bytes = sum(s.weight for s in snapshot.samples)
        low, high = snapshot.estimated_heap_bytes_ci95
        inside += low <= 2000000 <= high
    print(inside)
    """).json
    assert 86 <= said <= 100  # 95 +- 4 standard errors


def test_samples_are_told_apart_by_gc_epoch(python: Python) -> None:
    said = python.run("""
    import gc, json
    from piano import memprof
    gc.disable()
    with memprof.MemoryProfiler(1, gc_tracking=True) as profiler:
        old = [bytes(5000) for _ in range(200)]
        gc.collect(); gc.collect(0); gc.collect()
        young = [bytes(5000) for _ in range(200)]
        gc.collect()
    snapshot = profiler.snapshot
    ids = {id(b) for b in old}, {id(b) for b in young}
    def of(samples):
        return [len({s.address for s in samples} & i) for i in ids]
    everything = of(snapshot.samples)
    try:
        snapshot.allocations_surviving_gc(0)
    except ValueError as e:
        bad = str(e)
    print(json.dumps([everything, [of(snapshot.allocations_surviving_gc(n)) for n in (1, 2, 3, 4)], snapshot.gc_epoch, bad,
                      len(gc.callbacks)]))
    """).json
    (old, young), survivors, epoch, bad, callbacks = said
    assert old > 180 and young > 180 and epoch == 3 and "1 or more" in bad and callbacks == 0
    assert survivors == [[old, young], [old, 0], [old, 0], [0, 0]]


WRAPPER = r"""
    #include <stddef.h>
    struct allocator {
        void *ctx;
        void *(*malloc)(void *, size_t);
        void *(*calloc)(void *, size_t, size_t);
        void *(*realloc)(void *, void *, size_t);
        void (*free)(void *, void *);
    };
    void PyMem_GetAllocator(int, struct allocator *);
    void PyMem_SetAllocator(int, struct allocator *);
    enum { OBJ = 2 };
    static struct allocator next;
    static long tiny, calls;
    static void *my_malloc(void *ctx, size_t n) { tiny += n == 1; calls++; return next.malloc(next.ctx, n); }
    static void *my_calloc(void *ctx, size_t n, size_t m) { return next.calloc(next.ctx, n, m); }
    static void *my_realloc(void *ctx, void *p, size_t n) { return next.realloc(next.ctx, p, n); }
    static void my_free(void *ctx, void *p) { next.free(next.ctx, p); }
    void install(void)
    {
        struct allocator mine = {NULL, my_malloc, my_calloc, my_realloc, my_free};
        PyMem_GetAllocator(OBJ, &next);
        PyMem_SetAllocator(OBJ, &mine);
    }
    void take_out(void) { PyMem_SetAllocator(OBJ, &next); }
    long tiny_blocks(void) { return tiny; }
    long all_blocks(void) { return calls; }
"""


def test_another_allocator_gets_the_programs_requests_only(python: Python) -> None:
    """A hook that installs and removes itself repeatedly: piano does not call it by itself, there is no cycle of
    hooks, and every object is sampled once."""
    python.write("wrapper.c", WRAPPER)
    python.command(["gcc", "-shared", "-fPIC", "-w", "wrapper.c", "-o", "wrapper.so"])
    said = python.run("""
    import ctypes, json
    from piano import memprof
    wrapper = ctypes.PyDLL("./wrapper.so")
    def seen():
        kept = [bytes(200) for _ in range(5000)]
        ids = {id(b) for b in kept}
        return sum(s.estimated_bytes for s in memprof.get_snapshot(resolve=False).samples if s.address in ids) / (5000 * 233)
    memprof.start(1)
    out = []
    for _ in range(8):
        wrapper.install()
        noticed = [bytes(2000) for _ in range(2000)]
        out.append(seen())
        wrapper.take_out()
        out.append(seen())
    wrapper.install()
    print(json.dumps([out, wrapper.tiny_blocks(), wrapper.all_blocks() > 40000]))
    """).json
    assert all(0.8 < share < 1.2 for share in said[0]), said
    assert said[1:] == [0, True]
