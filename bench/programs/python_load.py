"""Loads for an interpreter, by name. Prints a result that must be the same under every profiler."""
import sys


def objects(n):
    """Allocates and frees small objects, and keeps some: dicts, lists, strings."""
    kept, total = [], 0
    for i in range(n):
        row = {"id": i, "name": f"user {i}", "tags": [str(i % 7), str(i % 11)], "score": i * 0.5}
        total += len(row["name"]) + len(row["tags"])
        if i % 50 == 0:
            kept.append(row)
    return total + len(kept)


def text(n):
    """Writes JSON and parses it."""
    import json

    rows = [{"id": i, "text": "x" * (i % 40), "list": list(range(i % 12))} for i in range(n // 40)]
    return sum(len(json.dumps(json.loads(json.dumps(rows)))) for _ in range(4))


def calls(n):
    """Functions that call each other and allocate almost nothing."""

    def fib(k):
        return k if k < 2 else fib(k - 1) + fib(k - 2)

    return sum(fib(15) for _ in range(n // 250))


def arrays(n):
    """NumPy, blocks of many sizes."""
    import numpy

    total = 0.0
    for i in range(n // 10):
        total += float(numpy.arange(100 + i % 3000, dtype=numpy.float64).sum())
    return total


if __name__ == "__main__":
    print({"objects": objects, "text": text, "calls": calls, "arrays": arrays}[sys.argv[1]](int(sys.argv[2])))
