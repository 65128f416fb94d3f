"""Known times from wakes to polls: the report agrees with the program's own measurement."""
from __future__ import annotations

import pytest

from conftest import Project
from events import API, compile

MS = 10**6
DELAYS = (1, 3, 8, 20)
ROUNDS = 5

# Two threads pass a number back and forth. Each wake and each poll lies between two clock reads: the latency is at least
# from the end of one to the beginning of the other, and at most from the beginning of the one to the end of the other.
PROGRAM = r"""
enum { ROUNDS = %d };
static const int delays_ms[] = {%s};
static sem_t woken, polled;
static int64_t wake_from, wake_to;

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void *poller(void *arg)
{
    uint64_t task = 0;
    for (int d = 0; d < (int)(sizeof delays_ms / sizeof delays_ms[0]); d++)
        for (int i = 0; i < ROUNDS; i++, task++) {
            sem_wait(&woken);
            while (now() < wake_to + delays_ms[d] * 1000000LL)
                usleep(100);
            int64_t from = now();
            piano_poll_begin(task);
            int64_t to = now();
            piano_poll_end();
            printf("%%llu %%lld %%lld\n", (unsigned long long)task, (long long)(from - wake_to), (long long)(to - wake_from));
            sem_post(&polled);
        }
    return NULL;
}

int main(void)
{
    pthread_t thread;
    uint64_t task = 0;
    sem_init(&woken, 0, 0);
    sem_init(&polled, 0, 0);
    piano_worker_start(1, "waker");
    pthread_create(&thread, NULL, poller, NULL);
    for (int d = 0; d < (int)(sizeof delays_ms / sizeof delays_ms[0]); d++)
        for (int i = 0; i < ROUNDS; i++, task++) {
            char name[32];
            snprintf(name, sizeof name, "late by %%d", delays_ms[d]);
            piano_task_spawn(task, name, "latency.c:1");
            piano_wake(task); /* not the one that counts */
            usleep(4000);
            wake_from = now();
            piano_wake(task);
            wake_to = now();
            sem_post(&woken);
            sem_wait(&polled);
            piano_task_end(task);
        }
    pthread_join(thread, NULL);
    return 0;
}
""" % (ROUNDS, ", ".join(map(str, DELAYS)))


@pytest.mark.timing
@pytest.mark.parametrize("flags", [("--events",), ()], ids=["events", "everything"])
def test_latency_from_wake_to_poll_is_measured(project: Project, flags: tuple) -> None:
    (project.root / "x.rec").unlink(missing_ok=True)
    program = compile(project, PROGRAM, *API)
    done = project.piano("record", *flags, "-o", "x.rec", "--", program)
    measured = {int(task): (int(least), int(most)) for task, least, most in (line.split() for line in done.out.splitlines())}
    assert len(measured) == len(DELAYS) * ROUNDS
    data = project.json("report", "x.rec", "--polls", "--all")
    said = {poll["task_id"]: poll for poll in data["longest"] if poll["task_id"] is not None}
    assert said.keys() == measured.keys()
    for task, (least, most) in measured.items():
        cause = said[task]["cause"]
        assert cause["kind"] == "wake" and cause["worker"] == 1
        assert 0.9 * least <= cause["late_ns"] <= 1.1 * most, (task, least, most, cause)
    tight = [task for task, (least, most) in measured.items() if most < 1.02 * least]
    assert len(tight) > len(measured) / 2, "the program itself was not sure: a busy machine"
    rows = {task["name"]: task for task in data["tasks"]}
    for number, delay in enumerate(DELAYS):
        row = rows[f"late by {delay}"]
        mine = [measured[number * ROUNDS + i] for i in range(ROUNDS)]
        assert row["polls"] == row["woken"] == ROUNDS
        assert 0.9 * sorted(least for least, _ in mine)[ROUNDS // 2] <= row["wake"]["p50_ns"] \
            <= 1.1 * sorted(most for _, most in mine)[ROUNDS // 2]
        assert 0.9 * max(least for least, _ in mine) <= row["wake"]["max_ns"] <= 1.1 * max(most for _, most in mine)
        assert row["late"] == sum(said[number * ROUNDS + i]["cause"]["late_ns"] > 5 * MS for i in range(ROUNDS))
    flag, = (flag for flag in data["flags"] if flag["kind"] == "late-wakes")
    assert flag["count"] == sum(row["late"] for row in rows.values()) >= 2 * ROUNDS
    assert data["wakes"]["late"] == flag["count"]
