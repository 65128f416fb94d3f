"""All kinds of forks: they harm neither the child nor the parent's recording."""
from __future__ import annotations

import json

from conftest import Python


def test_fork_while_threads_allocate_keeps_the_profile(python: Python) -> None:
    """Threads allocate while others fork; a child allocates, starts a separate profile, and ends. The parent's continues."""
    said = python.run("""
    import json, os, threading
    from piano import memprof
    memprof.start(1)
    ended = threading.Event()
    def load():
        while not ended.is_set():
            [bytes(n) for n in range(400, 600)]
    threads = [threading.Thread(target=load) for _ in range(3)]
    [t.start() for t in threads]
    statuses = []
    for n in range(30):
        child = os.fork()
        if child == 0:
            try:
                fine = not memprof.is_active()
                [bytes(n) for n in range(1000)]
                memprof.start(1)
                kept = [bytes(1000) for _ in range(300)]
                ids = {id(b) for b in kept}
                mine = [s for s in memprof.get_snapshot(resolve=False).samples if s.address in ids]
                fine = fine and 100 < len(mine) <= 300 and str(os.getpid()) in memprof.recording_path()
                memprof.shutdown()
                os._exit(0 if fine else 1)
            finally:
                os._exit(2)
        statuses.append(os.waitpid(child, 0)[1])
    ended.set()
    [t.join() for t in threads]
    before = memprof.get_stats().total_samples
    kept = [bytes(1000) for _ in range(300)]
    ids = {id(b) for b in kept}
    mine = [s for s in memprof.get_snapshot(resolve=False).samples if s.address in ids]
    print(json.dumps([statuses, len(mine), len(os.listdir(".piano/runs"))]))
    """).json
    assert said[0] == [0] * 30
    assert 100 < said[1] <= 300 and said[2] == 31


def test_shut_down_parent_does_not_bind_its_child(python: Python) -> None:
    said = python.run("""
    import json, os
    from piano import memprof
    memprof.start(); memprof.shutdown()
    if os.fork() == 0:
        memprof.start()
        print(json.dumps(memprof.get_stats().sampling_rate_bytes), flush=True)
        os._exit(0)
    os.wait()
    """).json
    assert said == 512 * 1024


def test_vfork_leaves_the_parent_at_work(python: Python) -> None:
    said = python.run("""
    import json, os, subprocess
    from piano import memprof
    memprof.start(1)
    for _ in range(20):
        subprocess.run(["/bin/true"], check=True, close_fds=False)
        os.waitpid(os.posix_spawn("/bin/true", ["true"], os.environ), 0)
    kept = [bytes(1000) for _ in range(500)]
    ids = {id(b) for b in kept}
    print(json.dumps(len({s.address for s in memprof.get_snapshot(resolve=False).samples} & ids)))
    """).json
    assert 200 < said <= 500


def test_workers_of_a_preforking_server_profile_themselves(python: Python) -> None:
    """Like gunicorn: the master imports and forks workers; each profiles itself on demand, and is asked to end."""
    said = python.run("""
    import json, os, signal, socket
    from piano import memprof
    memprof.start(1)                     # the master's own
    shared = [bytes(500) for _ in range(2000)]
    listener = socket.create_server(("127.0.0.1", 0))
    def worker():
        memprof.start(1)
        held = []
        while True:
            connection = listener.accept()[0]
            with connection:
                held.append(bytes(100000))
                ids = {id(b) for b in held}
                mine = {s.address for s in memprof.get_snapshot(resolve=False).samples} & ids
                connection.sendall(json.dumps([os.getpid(), len(held), len(mine)]).encode())
    workers = []
    for _ in range(3):
        child = os.fork()
        if child == 0:
            try:
                worker()
            finally:
                os._exit(1)
        workers.append(child)
    answers = []
    for _ in range(30):
        with socket.create_connection(listener.getsockname()) as c:
            answers.append(json.loads(c.makefile().read()))
    for w in workers:
        os.kill(w, signal.SIGTERM)
    ends = [os.waitpid(w, 0)[1] for w in workers]
    shared_ids = {id(b) for b in shared}
    mine = len({s.address for s in memprof.get_snapshot(resolve=False).samples} & shared_ids)
    print(json.dumps([answers, ends, mine, len(os.listdir(".piano/runs"))]))
    """).json
    answers, ends, mine, recordings = said
    assert all(held == seen for _, held, seen in answers) and len(answers) == 30
    assert ends == [15, 15, 15] and mine > 500 and recordings == 4


def test_children_are_recorded_when_asked_for(python: Python) -> None:
    python.write("pool.py", """
    import multiprocessing as mp
    def work(n):
        return len([bytes(1000) for _ in range(2000)])
    if __name__ == "__main__":
        with mp.get_context("fork").Pool(2) as pool:
            print(sum(pool.map(work, range(8))))
    """)
    import sys
    done = python.command([sys.executable, "-m", "piano.memprof", "-q", "-r", "1", "--children", "-o", "it.rec", "pool.py"])
    assert done.out == "16000\n"
    children = [p for p in python.root.iterdir() if p.name.startswith("it.rec-")]
    assert len(children) >= 2
    samples = [json.loads(python.piano("report", "--heap", "--json", str(p)).out)["samples"] for p in children]
    assert sum(n > 100 for n in samples) >= 2
