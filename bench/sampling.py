#!/usr/bin/env python3
"""Simulates ways to estimate the time of a tiny function if only few of its calls are timed.

usage: bench/sampling.py [DRAWS]

Prints Markdown tables: the function's share of all self time (truth: almost all), the number of slow frames for which it is
blamed, and the cost of the timed calls. Nothing is measured, so the tables are the same on every machine.
"""
import math
import random
import statistics
import sys

FRAMES, CALLS, SHORT = 300, 3000, 10.0  # calls in a frame, ns
TOTAL = FRAMES * CALLS
PROBE = 70.0      # ns, the cost of a timed call
SHARE = 1 / 256   # of the time of typical calls goes into timed calls, in schemes with one p for the run
CALLER = 150.0    # ns, the caller's self time per frame
PRICED = 64       # the price of a call is the mean of so many samples
BURSTS = 8        # bursts of two timed calls per frame
BETAS = 1 / 64, 1 / 256  # p = BETA x rms of a call / PROBE
LOOKS = 1e6, 250e3  # ns between two looks of the watcher


class Pattern:
    """The cost of each call, and the true sums."""

    def __init__(self, name, cost, spikes=()):
        self.name, self.spikes = name, sorted(spikes)
        self.costs = [cost(call // CALLS, call) for call in range(TOTAL)]
        self.walls = [math.fsum(self.costs[f * CALLS:(f + 1) * CALLS]) + CALLER for f in range(FRAMES)]
        self.wall = math.fsum(self.walls)
        self.mean, self.typical = math.fsum(self.costs) / TOTAL, statistics.median(self.costs)
        self.long = [call for call, c in enumerate(self.costs) if c >= min(LOOKS)]


def patterns():
    dice = random.Random(15)
    rare = {block + dice.randrange(20000) for block in range(0, TOTAL, 20000)}
    half = {block + dice.randrange(20000) for block in range(0, TOTAL, 20000)}
    chance = [dice.random() < 1 / 200 for _ in range(TOTAL)]
    return [
        Pattern("every 37th frame 30x", lambda f, _: SHORT * (30 if f % 37 == 36 else 1), range(36, FRAMES, 37)),
        Pattern("grows with the frame", lambda f, _: SHORT * (1 + f / 30)),
        Pattern("every 113th call 400x", lambda _, i: SHORT * (1 if i % 113 else 400)),
        Pattern("one call in 200, at random, 600x", lambda _, i: SHORT * (600 if chance[i] else 1)),
        Pattern("6x from the middle on", lambda f, _: SHORT * (6 if f >= FRAMES // 2 else 1)),
        Pattern("one call of 20 ms in 20 000", lambda _, i: 20e6 if i in rare else SHORT, {i // CALLS for i in rare}),
        Pattern("one call of 0.4 ms in 20 000", lambda _, i: 0.4e6 if i in half else SHORT, {i // CALLS for i in half}),
        Pattern("the first 100 calls of a frame 20x", lambda _, i: SHORT * (20 if i % CALLS < 100 else 1)),
    ]


class Guess:
    """The function's time per frame, as a scheme estimates it."""

    def __init__(self):
        self.frames, self.timed = [0.0] * FRAMES, 0
        self.recent, self.sum, self.price = [], 0.0, SHORT

    def add(self, call, ns):
        self.frames[call // CALLS] += ns

    def charge(self, begin, end, each):
        """Adds EACH ns for the calls from BEGIN to END."""
        while begin < end:
            until = min(end, (begin // CALLS + 1) * CALLS)
            self.frames[begin // CALLS] += each * (until - begin)
            begin = until

    def learn(self, ns):
        self.recent.append(ns)
        self.sum += ns
        if len(self.recent) > PRICED:
            self.sum -= self.recent.pop(0)
        self.price = self.sum / len(self.recent)


def distance(dice, p):
    """Number of calls up to the next timed one, if each is timed with probability P."""
    return 1 + int(math.log(1 - dice.random()) / math.log(1 - p))


def running_mean(pattern, dice):
    """Bursts of four calls, without the first. Outliers count once and stay out of the mean."""
    guess, call = Guess(), 0
    apart = 4 * PROBE / (SHARE * pattern.typical)
    while True:
        start = call + int(apart * (0.5 + dice.random()))
        guess.charge(call, min(start, TOTAL), guess.price)
        if start + 4 > TOTAL:
            guess.charge(min(start, TOTAL), TOTAL, guess.price)
            return guess
        for at in range(start, start + 4):
            c = pattern.costs[at]
            outlier = c > 16 * guess.price and c > 5000
            guess.add(at, c)
            if at > start and not outlier:
                guess.learn(c)
        guess.timed += 4
        call = start + 4


def inverse(pattern, dice):
    """Horvitz-Thompson: a timed call counts 1 / p."""
    guess, p = Guess(), SHARE * pattern.typical / PROBE
    call = distance(dice, p) - 1
    while call < TOTAL:
        guess.add(call, pattern.costs[call] / p)
        guess.timed += 1
        call += distance(dice, p)
    return guess


def difference(by_gap):
    """All calls at the price; a timed one adds (c - price) x the calls since the previous timed one, or / p."""
    def scheme(pattern, dice):
        guess, p, done = Guess(), SHARE * pattern.typical / PROBE, 0
        call = distance(dice, p) - 1
        while call < TOTAL:
            c = pattern.costs[call]
            guess.charge(done, call + 1, guess.price)
            guess.add(call, (c - guess.price) * (call + 1 - done if by_gap else 1 / p))
            guess.learn(c)
            guess.timed += 1
            done = call + 1
            call += distance(dice, p)
        guess.charge(done, TOTAL, guess.price)
        return guess
    return scheme


def cut_gaps(pattern, dice):
    """The same with gaps, in bursts of two. A gap ends with its frame; the rest of the gap keeps the price."""
    guess, apart = Guess(), CALLS // BURSTS
    for begin in range(0, TOTAL, CALLS):
        done = begin
        while True:
            start = done + dice.randrange(2 * apart - 1)
            if start + 2 > begin + CALLS:
                break
            guess.charge(done, start + 2, guess.price)
            pair = (pattern.costs[start] + pattern.costs[start + 1]) / 2
            guess.add(start, (pair - guess.price) * (start + 2 - done))
            guess.learn(pair)
            guess.timed += 2
            done = start + 2
        guess.charge(done, begin + CALLS, guess.price)
    return guess


def caught(c, look):
    """The probability that two looks fall into a call of C ns."""
    return min(max(c / look - 1, 0.0), 1.0) if look else 0.0


def strata(look=None, beta=None):
    """Cuts a frame into strata of equal numbers of calls and times a random pair of each. With a watcher, calls that contain
    two looks are measured too. With BETA, strata are shorter where the calls' rms is large."""
    def scheme(pattern, dice):
        guess, most, squares, busy = Guess(), CALLS // BURSTS // 2 * 2, SHORT * SHORT, {}
        for begin in range(0, TOTAL, CALLS):
            at, end = begin, begin + CALLS
            while at < end:
                size = most
                if beta:
                    size = min(max(2 * int(PROBE / (beta * math.sqrt(squares))), 8), most)
                stop = min(at + size, end)
                guess.charge(at, stop, guess.price)
                price, first = guess.price, at + 2 * dice.randrange(size // 2)
                for call in range(first, min(first + 2, stop)):
                    c = pattern.costs[call]
                    guess.timed += 1
                    if look and c >= look:
                        continue  # counted below, with the calls that the watcher finds
                    guess.add(call, (c - price) * size / 2)
                    guess.learn(c)
                    squares += (c * c - squares) * min(size / 16384, 0.25)
                if look:
                    busy[at] = (stop, first, size, price)
                at = stop
        if look:
            add_long(pattern, dice, look, guess, busy)
        return guess
    return scheme


def add_long(pattern, dice, look, guess, busy):
    """Long calls: found by a timed pair, by the watcher, or by neither."""
    begins = sorted(busy)
    low = 0
    for call in pattern.long:
        c = pattern.costs[call]
        if c < look:
            continue
        while low + 1 < len(begins) and begins[low + 1] <= call:
            low += 1
        _, first, size, price = busy[begins[low]]
        p, seen = 2 / size, caught(c, look)
        if first <= call < first + 2 or dice.random() < seen:
            guess.add(call, (c - price) / (p + (1 - p) * seen))


SCHEMES = [
    ("A", f"running mean of {PRICED}, outliers left out (bursts of four)", running_mean),
    ("B", "each call with the same p, a timed one counts 1/p", inverse),
    ("C", "all calls at the price, a timed one adds (c - price) x the gap before it", difference(True)),
    ("D", "the same, but (c - price) / p", difference(False)),
    ("E", f"C, gaps cut at frame borders, about {BURSTS} bursts of two a frame", cut_gaps),
    ("F", f"D, of each {CALLS // BURSTS // 2 * 2} calls of a frame one random pair ({BURSTS} strata)", strata()),
    ("G", "F with a watcher that looks every 1 ms", strata(LOOKS[0])),
    ("H", "F with a watcher that looks every 250 us", strata(LOOKS[1])),
    ("I", "H, p = rms / (64 x 70 ns) as it goes, at least 8 strata a frame", strata(LOOKS[1], BETAS[0])),
    ("J", "I with 256 in place of 64", strata(LOOKS[1], BETAS[1])),
]


def blamed(pattern, guess):
    """Slow frames whose excess belongs to the function more than to its caller."""
    usual, wall = statistics.median(guess.frames), statistics.median(pattern.walls)
    return sum(guess.frames[f] - usual > (pattern.walls[f] - wall) / 2 for f in pattern.spikes)


def simulate(pattern, scheme, draws):
    """(mean share %, its standard deviation, % of spikes right or None, cost %)"""
    shares, right, timed = [], 0, 0
    for draw in range(draws):
        guess = scheme(pattern, random.Random(draw))
        shares.append(100 * math.fsum(guess.frames) / pattern.wall)
        right += blamed(pattern, guess)
        timed += guess.timed
    spikes = draws * len(pattern.spikes)
    return (statistics.fmean(shares), statistics.stdev(shares), 100 * right / spikes if spikes else None,
            100 * timed * PROBE / draws / pattern.wall)


def short(value):
    return f"{value:.0f}" if value >= 9.5 else f"{value:.1f}"


def table(rows):
    letters = [letter for letter, *_ in SCHEMES]
    print("| | " + " | ".join(letters) + " |")
    print("| --- |" + " ---: |" * len(letters))
    for name, cells in rows:
        print(f"| {name} | " + " | ".join(cells) + " |")
    print()


def main():
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    done = []
    for pattern in patterns():
        done.append((pattern, [simulate(pattern, scheme, draws) for *_, scheme in SCHEMES]))
        print(pattern.name, file=sys.stderr, flush=True)
    print(f"{FRAMES} frames of {CALLS} calls of {SHORT:.0f} ns, {draws} draws.\n")
    for letter, text, _ in SCHEMES:
        print(f"- {letter}: {text}")
    print("\nShare of self time that the function gets, % ± standard deviation:\n")
    table([(f"{p.name}; truth {100 * p.mean * TOTAL / p.wall:.1f}", [f"{mean:.0f} ± {short(sd)}" for mean, sd, *_ in cells])
           for p, cells in done])
    print("Slow frames blamed rightly, %:\n")
    table([(p.name, [f"{right:.0f}" for _, _, right, _ in cells]) for p, cells in done if p.spikes])
    print(f"Cost of the timed calls at {PROBE:.0f} ns each, % of the time:\n")
    table([(p.name, [f"{cost:.2f}" if cost < 0.995 else f"{cost:.1f}" for *_, cost in cells]) for p, cells in done])


if __name__ == "__main__":
    main()
