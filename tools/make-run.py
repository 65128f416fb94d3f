#!/usr/bin/env python3
"""Writes a run file of any size, for benchmarks and tests of the reader.

    tools/make-run.py --frames 1000000 --functions 8 --threads 1 -o big.ndjson

The times are made up (fixed seed): a base per function, some noise, a spike in every 500th frame.
"""
import argparse
import json
import random
import sys


def header(args):
    names = [f"function_{i}" for i in range(args.functions)]
    made = {
        "format_version": 2, "run_id": "4711_1740000000123", "timestamp_ms": 1740000000123,
        "functions": names, "places": [f"src/file_{i % 7}.c:{10 + i}" for i in range(args.functions)],
        "pid": 4711, "program": "/tmp/made-up", "clock": "tsc", "tick_hz": 2_000_000_000,
        "bias": {"inner_ps": 3000, "outer_ps": 9000, "count_ps": 700, "alloc_ps": 2000},
    }
    return {**made, "start_mono_ns": args.start_mono_ns} if args.start_mono_ns else made


def frame_line(number, thread, start, rng, functions):
    slow = 5 if number % 500 == 499 else 1
    entries = []
    below = 0
    for i in range(functions - 1, -1, -1):
        own = rng.randrange(20_000, 30_000) * (i + 1) * slow
        below += own
        entries.append(f'{{"id":{i},"calls":{i + 1},"self_ns":{own},"total_ns":{below},"ac":{i},'
                       f'"ab":{i * 64},"fc":{i},"fb":{i * 64},"raw_ns":{own + 13}}}')
    head = (f'{{"frame":{number},"thread":{thread},"depth":0,"root":0,"start_ns":{start},'
            f'"wall_ns":{below + 500},"fns":[')
    return head + ",".join(reversed(entries)) + "]}\n", below + 1000


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--frames", type=int, default=1000)
    parser.add_argument("--functions", type=int, default=8)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--start-mono-ns", type=int, help="joins it to a recording of make-recording.py that starts then")
    parser.add_argument("-o", "--output", default="-")
    args = parser.parse_args()
    rng = random.Random(1)
    out = sys.stdout if args.output == "-" else open(args.output, "w", encoding="ascii")
    out.write(json.dumps(header(args), separators=(",", ":")) + "\n")
    for t in range(1, args.threads + 1):
        parent = "" if t == 1 else ',"parent_thread":1,"parent_fn":0'
        out.write(f'{{"thread":{t},"tid":{4710 + t},"name":"worker-{t}","start_ns":0{parent}}}\n')
    clock = [0] * (args.threads + 1)
    for number in range(args.frames):
        thread = number % args.threads + 1
        line, took = frame_line(number, thread, clock[thread], rng, args.functions)
        clock[thread] += took
        out.write(line)
    out.write(f'{{"end":true,"wall_ns":{max(clock)},"dropped":{{"frames":0,"threads":0,'
              '"functions":0,"depth":0,"write":0,"busy":0}}\n')
    if out is not sys.stdout:
        out.close()


if __name__ == "__main__":
    main()
