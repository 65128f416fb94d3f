"""The heap profiler across forks, execs and ends of programs, and with scarce resources."""
from __future__ import annotations

import os
import resource
import signal

import pytest

from conftest import Project, need
from heaps import CHURN, compile, figures, read, record, same_with_and_without

# ---- other processes ----

FORKS = CHURN + r"""
    #include <sys/wait.h>
    static void *kept[2000];
    static NOINLINE void child_work(void)
    {
        for (int i = 0; i < 2000; i++) kept[i] = malloc(50);
        for (int i = 0; i < 2000; i += 2) free(kept[i]);
    }
    int main(int argc, char **argv)
    {
        setvbuf(stdout, NULL, _IONBF, 0);
        int good = 0;
        churn_start();
        for (int i = 0; i < 20; i++) {
            pid_t pid = fork();
            if (pid == 0) {
                child_work();
                for (int k = 0; k < 512; k++) free(slots[k]); /* the parent's */
                exit(42);
            }
            int status;
            waitpid(pid, &status, 0);
            good += WIFEXITED(status) && WEXITSTATUS(status) == 42;
        }
        churn_end();
        printf("children %d\n", good);
        return 0;
    }
"""


def test_fork_while_threads_allocate_keeps_the_figures_exact(project: Project) -> None:
    program = compile(project, FORKS)
    done, heap = record(project, program, flags=["--no-children"])
    said = figures(done.out)
    assert said["children"] == (20,)
    assert heap.live("churner") == said["churner"]
    assert heap.through("child_work") == [], "of a child there is nothing"
    assert sorted(p.name for p in project.root.glob("out.rec*")) == ["out.rec"]


def test_children_with_recordings_of_their_own(project: Project) -> None:
    program = compile(project, FORKS)
    done, heap = record(project, program, flags=["--children"])
    said = figures(done.out)
    assert said["children"] == (20,)
    assert heap.live("churner") == said["churner"]
    assert heap.through("child_work") == []
    children = [p for p in project.root.glob("out.rec-*")]
    assert len(children) == 20, children
    for path in children:
        child = read(project, path)
        assert child.live("child_work") == (1000, 50000)
        assert child.made("child_work") == (2000, 100000)
        assert child["run"]["child"] and not child.through("churner"), "what it inherited is not in it"
        assert path.name == f"out.rec-{child['run']['pid']}" and child["run"]["parent_pid"] == heap["run"]["pid"]
        assert child["dropped"]["stale"] == 0


OTHERS = {
    "vfork": 'if (vfork() == 0) { execl("/bin/echo", "echo", "vfork", NULL); _exit(1); }',
    "posix_spawn": 'pid_t p; char *av[] = {"echo", "spawned", NULL}; '
                   'posix_spawn(&p, "/bin/echo", NULL, NULL, av, environ);',
    "system": 'system("echo shell; exit 3");',
    "popen": 'char line[99]; FILE *f = popen("echo piped", "r"); '
             'if (fgets(line, 99, f)) printf("%s", line); pclose(f);',
    "clone": 'char *stack = malloc(65536); '
             'clone(in_clone, stack + 65536, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL); free(stack);',
    "vm_process": 'char *stack = malloc(65536); '
                  'int p = clone(in_clone, stack + 65536, CLONE_VM | SIGCHLD, NULL); waitpid(p, NULL, 0); free(stack);',
    "raw_fork": 'if (syscall(SYS_fork) == 0) { in_raw_child(); syscall(SYS_exit_group, 0); }',
    "raw_fork_exit": 'fflush(stdout); if (syscall(SYS_fork) == 0) { in_raw_child(); exit(0); }',
    "double_fork": 'if (fork() == 0) { in_raw_child(); '
                   'if (fork() == 0) { in_raw_child(); _exit(0); } wait(NULL); _exit(0); }',
}


@pytest.mark.parametrize("way", sorted(OTHERS))
def test_clone_and_vfork_keep_the_figures_exact(project: Project, way: str) -> None:
    """The parent's figures are exact, whatever the child did with its allocator."""
    program = compile(project, r"""
        #include <sched.h>
        #include <spawn.h>
        #include <sys/syscall.h>
        #include <sys/wait.h>
        extern char **environ;
        static NOINLINE void before(void) { for (int i = 0; i < 100; i++) { void *p = malloc(100); KEEP(p); } }
        static NOINLINE void after(void) { for (int i = 0; i < 100; i++) { void *p = malloc(200); KEEP(p); } }
        static void *mine[10];
        static NOINLINE void held(void) { for (int i = 0; i < 10; i++) mine[i] = malloc(300); }
        static NOINLINE void in_raw_child(void)
        {
            for (int i = 0; i < 10; i++) free(mine[i]);
            for (int i = 0; i < 10000; i++) { void *p = malloc(3000); KEEP(p); if (i % 2) free(p); }
        }
        static int in_clone(void *arg) { void *p = malloc(77); free(p); KEEP(p); _exit(0); }
        int main(void)
        {
            before(), held();
            for (int i = 0; i < 10; i++) {
                fflush(stdout);
                { WAY }
                while (wait(NULL) > 0) ;
            }
            after();
            puts("done");
            return 0;
        }
    """.replace("WAY", OTHERS[way]))
    _, heap = same_with_and_without(project, program, rates=("1",))
    assert heap.live("before") == (100, 10000)
    assert heap.live("held") == (10, 3000)
    assert heap.live("after") == (100, 20000)
    assert heap.through("in_raw_child") == []
    assert heap["run"]["end"] == "exited"


def test_fork_in_a_child_of_a_thread_then_exec(project: Project) -> None:
    """--children follows through a shell: each program has its recording."""
    program = compile(project, r"""
        static NOINLINE void leafwork(void) { for (int i = 0; i < 64; i++) { void *p = malloc(100); KEEP(p); } }
        int main(void) { leafwork(); return 0; }
    """)
    record(project, "sh", "-c", f"{program}; {program}; true", flags=["--children"])
    found = [h for h in (read(project, p) for p in project.root.glob("out.rec-*")) if h.through("leafwork")]
    assert [h.live("leafwork") for h in found] == [(64, 6400)] * 2
    assert all(h["run"]["program"] == str(program) for h in found)


def test_each_program_of_an_exec_chain_has_a_recording(project: Project) -> None:
    program = compile(project, r"""
        static NOINLINE void stage(int n) { for (int i = 0; i < n; i++) { void *p = malloc(1000); KEEP(p); } }
        int main(int argc, char **argv)
        {
            int n = atoi(argv[1]);
            char next[9];
            stage(n);
            if (n == 4) { puts("last"); return 0; }
            sprintf(next, "%d", n + 1);
            execl(argv[0], argv[0], next, NULL);
            return 1;
        }
    """)
    done, last = record(project, program, 1)
    assert done.out == "last\n"
    assert last.live("stage") == (4, 4000)
    kept = {p.name: read(project, p).live("stage") for p in project.root.glob("out.rec.*")}
    assert kept == {"out.rec.1": (1, 1000), "out.rec.2": (2, 2000), "out.rec.3": (3, 3000)}
    done, only = record(project, "env", "X=1", "sh", "-c", f"exec {program} 4", into="other.rec", rate="100")
    assert done.out == "last\n" and only["run"]["program"] == str(program)


# ---- changes of the process's environment ----

KEEPS = r"""
    static NOINLINE void keeps(int n) { for (int i = 0; i < n; i++) { void *p = malloc(100 + i % 7); KEEP(p); } }
    static long keeps_bytes(int n) { long sum = 0; for (int i = 0; i < n; i++) sum += 100 + i % 7; return sum; }
"""


def test_a_program_that_closes_all_descriptors(project: Project) -> None:
    """The program opens the same descriptors again: its files contain only its own writes, and the recording continues."""
    program = compile(project, KEEPS + r"""
        #include <fcntl.h>
        int main(void)
        {
            keeps(10);
            for (int fd = 3; fd < 70000; fd++) close(fd);
            int files[40];
            for (int i = 0; i < 40; i++) files[i] = open("mine", O_RDWR | O_CREAT, 0600);
            keeps(20000);
            for (int i = 0; i < 40; i++) { lseek(files[i], 0, SEEK_SET); write(files[i], "whole\n", 6); }
            keeps(20000);
            char text[99] = "";
            printf("%d %zd ", files[0], pread(files[39], text, 98, 0)), printf("%s", text);
            printf("keeps %d %ld\n", 40010, keeps_bytes(10) + 2 * keeps_bytes(20000));
            return 0;
        }
    """)
    alone, heap = same_with_and_without(project, program, rates=("1",))
    assert alone.out.startswith("3 6 whole\n")
    assert heap.live("keeps") == figures(alone.out)["keeps"]
    assert not heap.lost


def test_chroot_and_chdir_do_not_lose_the_recording(project: Project) -> None:
    """After chdir, chroot or setuid the program keeps writing to the recording it opened before."""
    if os.getuid() != 0:
        pytest.skip("chroot needs root")
    program = compile(project, KEEPS + r"""
        #include <sys/stat.h>
        int main(void)
        {
            keeps(10);
            mkdir("empty", 0700);
            if (chroot("empty") || chdir("/") || setgid(65534) || setuid(65534)) return 1;
            keeps(20000);
            printf("keeps %d %ld\n", 20010, keeps_bytes(10) + keeps_bytes(20000));
            return 0;
        }
    """)
    done, heap = record(project, program)
    assert heap.live("keeps") == figures(done.out)["keeps"]
    assert heap["run"]["end"] == "exited" and not heap.lost


ENDS: dict[str, tuple[str, int]] = {
    "kill": ("kill(getpid(), SIGKILL);", 128 + signal.SIGKILL),
    "abort": ("abort();", 128 + signal.SIGABRT),
    "segv": ("*(volatile int *)8 = 1;", 128 + signal.SIGSEGV),
    "_exit": ("_exit(7);", 7),
    "quick_exit": ("quick_exit(8);", 8),
    "exit_group": ("syscall(231, 9);", 9),
    "pthread_exit": ("pthread_exit(NULL);", 0),
}


@pytest.mark.parametrize("end", sorted(ENDS))
def test_recording_is_complete_however_the_program_ends(project: Project, end: str) -> None:
    how, status = ENDS[end]
    program = compile(project, CHURN + KEEPS + r"""
        int main(void)
        {
            setvbuf(stdout, NULL, _IONBF, 0);
            keeps(30000);
            churn_start();
            while (!slots[7]) ;
            churn_end();
            printf("keeps %d %ld\n", 30000, keeps_bytes(30000));
            HOW
            return 0;
        }
    """.replace("HOW", how))
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    done, heap = record(project, program, status=status)
    said = figures(done.out)
    assert {name: heap.live(name) for name in ("keeps", "churner")} == {n: said[n] for n in ("keeps", "churner")}
    run = heap["run"]
    if status > 128:
        assert (run["end"], run["signal"]) == ("killed", status - 128)
    else:
        assert (run["end"], run["exit_status"]) == ("exited", status)
    assert sum(heap["missing"][k] for k in ("gaps", "bad_numbers", "unfinished_chunks")) == 0


# ---- scarce resources ----

def test_program_runs_when_a_mapping_of_the_recording_fails(project: Project) -> None:
    """Address space for N more pieces of the recording and not one more. The program has allocated its memory
    before and does not notice; what was recorded until then is kept, and the rest is counted."""
    program = compile(project, KEEPS + r"""
        #include <malloc.h>
        #include <sys/resource.h>
        enum { N = 15000 };
        int main(int argc, char **argv)
        {
            static char *blocks[N];
            mallopt(M_MMAP_MAX, 0), mallopt(M_TRIM_THRESHOLD, 1 << 30), mallopt(M_ARENA_MAX, 1);
            free(malloc(200 << 20));
            printf("room %s\n", argv[1]);
            long pages = 0;
            FILE *f = fopen("/proc/self/statm", "r");
            fscanf(f, "%ld", &pages);
            struct rlimit limit = {pages * 4096ul + atol(argv[1]), RLIM_INFINITY};
            if (setrlimit(RLIMIT_AS, &limit)) return 1;
            for (int i = 0; i < N; i++) {
                blocks[i] = malloc(100 + i % 50);
                if (!blocks[i]) { puts("no memory"); return 1; }
                memset(blocks[i], i, 100 + i % 50);
            }
            long sum = 0;
            for (int i = 0; i < N; i++) for (int k = 0; k < 100 + i % 50; k++) sum += blocks[i][k] == (char)i;
            for (int i = 0; i < N; i += 3) free(blocks[i]);
            keeps(1000);
            printf("sum %ld\n", sum);
            return 0;
        }
    """)
    lost = []
    for room in [0, 4096, *(65536 * n for n in (1, 2, 3, 4, 6, 8, 12, 20)), 64 << 20]:
        alone = project.command(program, room)
        done, heap = record(project, program, room, flags=["--snapshot-every", "0"])
        assert done.out == alone.out, f"room for {room}"
        lost.append(sum(heap.lost.values()))
        assert heap["live_objects"] >= 0 and heap["live_bytes"] >= 0
    assert lost[-1] == 0 and lost[0] > 0, f"the limits were felt, and said: {lost}"


@pytest.mark.parametrize("limit", ["as", "nofile", "fsize", "memlock", "nproc", "stack", "data"])
def test_program_runs_under_tight_resource_limits(project: Project, limit: str) -> None:
    """Limits that are just enough for the program, and slightly higher ones: right output, and no signal for piano's files."""
    need("prlimit")
    program = compile(project, KEEPS + r"""
        #include <fcntl.h>
        int main(void)
        {
            keeps(3000);
            int fd = open("/dev/null", O_RDWR);
            printf("%d, %ld\n", fd, keeps_bytes(3000));
            return 0;
        }
    """)
    room = {"as": [n << 20 for n in (12, 16, 24, 32, 48, 64, 128)], "nofile": [4, 5, 10],
            "fsize": [0, 1, 4096, 70000, 200000], "memlock": [0], "nproc": [1], "stack": [65536, 200000],
            "data": [2 << 20, 4 << 20, 16 << 20]}[limit]
    for value in room:
        words = ["prlimit", f"--{limit}={value}", program]
        alone = project.command(*words, check=False)
        assert alone.status == 0, repr(alone)
        done = project.piano("record", "--heap=4K", "-o", f"{limit}{value}.rec", "--", *words, check=False)
        assert (done.status, done.out) == (0, alone.out), f"{limit}={value}: {done!r}"


def test_a_limit_on_files_set_by_the_program(project: Project) -> None:
    program = compile(project, KEEPS + r"""
        #include <sys/resource.h>
        int main(void)
        {
            keeps(1000);
            struct rlimit limit = {4096, 4096};
            setrlimit(RLIMIT_FSIZE, &limit);
            keeps(20000);
            puts("fine");
            return 0;
        }
    """)
    done, heap = record(project, program)
    assert done.out == "fine\n"
    assert heap.live("keeps")[0] >= 1000, "what was recorded is kept"
    assert heap.live("keeps")[0] == 21000 or heap.lost


def test_low_descriptors_belong_to_the_program(project: Project) -> None:
    program = compile(project, KEEPS + r"""
        #include <fcntl.h>
        int main(void)
        {
            keeps(5000);
            printf("%d", open("/dev/null", O_RDONLY));
            printf(" %d\n", dup(0));
            dup2(1, 3), dup2(1, 4), dup2(1, 5);
            keeps(5000);
            return 0;
        }
    """)
    _, heap = same_with_and_without(project, program, rates=("1",))
    assert heap.live("keeps")[0] == 10000


@pytest.mark.parametrize("rest", ["SECCOMP_RET_ERRNO | EPERM", "SECCOMP_RET_KILL_PROCESS"])
@pytest.mark.parametrize("rate", ["512K", "1"])
def test_program_with_seccomp_keeps_running(project: Project, rest: str, rate: str) -> None:
    """A seccomp filter allows only the program's own system calls; piano needs no others."""
    program = compile(project, KEEPS + r"""
        #include <linux/filter.h>
        #include <linux/seccomp.h>
        #include <stddef.h>
        #include <sys/prctl.h>
        #include <sys/syscall.h>
        #define ALLOW(nr) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##nr, 0, 1), \
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
        int main(void)
        {
            struct sock_filter filter[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                ALLOW(read), ALLOW(write), ALLOW(close), ALLOW(newfstatat), ALLOW(brk), ALLOW(mmap), ALLOW(munmap),
                ALLOW(mremap), ALLOW(mprotect), ALLOW(madvise), ALLOW(futex), ALLOW(getrandom), ALLOW(clock_gettime),
                ALLOW(exit), ALLOW(exit_group),
                BPF_STMT(BPF_RET | BPF_K, REST)};
            struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
            prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 9;
            keeps(500);
            puts("fine");
            return 0;
        }
    """.replace("REST", rest))
    alone = project.command(program, check=False)
    if alone.status:
        pytest.skip("no seccomp filter can be had here")
    done, heap = record(project, program, rate=rate)
    assert done.out == alone.out == "fine\n"
    if rate == "1":
        assert heap.live("keeps")[0] == 500 or heap.lost
