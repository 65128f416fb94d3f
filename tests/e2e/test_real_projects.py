"""Whole SQLite and Lua, all functions chosen, gcc and clang: the same output as without piano.

Their sources come from packages: better-sqlite3 (npm) and lupa (PyPI). Without a
network these tests are skipped with a reason. PIANO_TEST_DOWNLOADS names a directory with the two
archives, for machines without a network.
"""
from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import tarfile
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from conftest import Project, fingerprint, need, npm_pack

BOTH = pytest.mark.parametrize("compiler", ["gcc", "clang"])
NETWORK_S = 20


def shared_dir(factory: pytest.TempPathFactory) -> Path:
    """One directory for all workers of this test run."""
    base = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    place = base / "downloads"
    place.mkdir(exist_ok=True)
    return place


def fetch_sqlite(place: Path) -> Path:
    found = sorted(place.glob("better-sqlite3-*.tgz"))
    return found[-1] if found else npm_pack("better-sqlite3", place)


def package_index() -> str:
    """pip's package index, as pip is configured."""
    ask = ("import os; from pip._internal.models.index import PyPI;"
           "print(os.environ.get('PIP_INDEX_URL') or PyPI.simple_url)")
    done = subprocess.run(["python3", "-c", ask], capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        pytest.skip("pip is not installed, which would know where Lua's source is")
    return done.stdout.strip().rstrip("/")


def fetch_lupa(place: Path) -> Path:
    found = sorted(place.glob("lupa-*.tar.gz"))
    if not found:
        try:
            with urllib.request.urlopen(f"{package_index()}/lupa/", timeout=NETWORK_S) as page:
                text = page.read().decode()
            links = re.findall(r'href="([^"#]*/(lupa-2\.[\d.]+\.tar\.gz))', text)
            if not links:
                pytest.skip("PyPI lists no source archive of lupa (Lua's source)")
            with urllib.request.urlopen(links[-1][0], timeout=NETWORK_S) as archive:
                (place / links[-1][1]).write_bytes(archive.read())
        except (urllib.error.URLError, OSError) as error:
            pytest.skip(f"the PyPI package lupa (Lua's source) cannot be fetched: {error}")
        found = sorted(place.glob("lupa-*.tar.gz"))
    return found[-1]


def fetched(factory: pytest.TempPathFactory, fetch) -> Path:
    given = os.environ.get("PIANO_TEST_DOWNLOADS")
    place = Path(given) if given else shared_dir(factory)
    with open(place / ".lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return fetch(place)


def extract(archive: Path, pattern: str, into: Path) -> int:
    """Copies the files of ARCHIVE whose path matches PATTERN into INTO, without directories."""
    count = 0
    with tarfile.open(archive) as tar:
        for member in tar:
            if member.isfile() and re.search(pattern, member.name):
                source = tar.extractfile(member)
                assert source is not None
                (into / Path(member.name).name).write_bytes(source.read())
                count += 1
    return count


WORKLOAD = r"""
#include <stdio.h>
#include <stdlib.h>
#include "sqlite3.h"
static int row(void *unused, int n, char **values, char **names)
{
    (void)unused;
    for (int i = 0; i < n; i++)
        printf("%s%s=%s", i ? " " : "", names[i], values[i] ? values[i] : "NULL");
    putchar('\n');
    return 0;
}
static void sql(sqlite3 *db, const char *text)
{
    char *error = 0;
    if (sqlite3_exec(db, text, row, 0, &error)) {
        printf("error: %s\n", error);
        sqlite3_free(error);
    }
}
int main(void)
{
    sqlite3 *db;
    if (sqlite3_open(":memory:", &db))
        return 1;
    sql(db, "create table t(id integer primary key, k int, v text, f real)");
    sql(db, "with recursive n(i) as (select 1 union all select i+1 from n where i < 20000)"
            " insert into t select i, (i*7919)%1000, 'value ' || (i%97), i/3.0 from n");
    sql(db, "create index tk on t(k)");
    sql(db, "select count(*), sum(k), round(avg(f),3), max(v) from t");
    sql(db, "select v, count(*) c, sum(k) from t group by v order by c desc, v limit 5");
    sql(db, "select a.id, b.id from t a join t b on a.k = b.k and a.id < b.id"
            " order by 1,2 limit 5");
    sql(db, "update t set v = upper(v) where k between 100 and 200; delete from t where k % 3 = 0");
    sql(db, "select count(*), count(distinct v), group_concat(distinct k%5) from t");
    sql(db, "select id, rank() over (partition by k%10 order by f desc) r from t"
            " order by r, id limit 5");
    sql(db, "select json_extract('{\"a\":[1,2,{\"b\":42}]}', '$.a[2].b') j, like('%x%', 'axb')");
    sql(db, "select * from nowhere");
    sql(db, "begin; delete from t; rollback; select count(*) from t; pragma integrity_check");
    sqlite3_close(db);
    return 0;
}
"""


@BOTH
def test_sqlite_with_every_function(project: Project, compiler: str,
                                    tmp_path_factory: pytest.TempPathFactory) -> None:
    need(compiler)
    archive = fetched(tmp_path_factory, fetch_sqlite)
    assert extract(archive, r"deps/sqlite3/sqlite3\.[ch]$", project.root) == 2
    (project.root / "work.c").write_text(WORKLOAD)
    (project.root / "Makefile").write_text(
        f"CC = {compiler}\nCFLAGS = -O0 -DSQLITE_THREADSAFE=1\n"
        "work: work.o sqlite3.o\n\t$(CC) -o $@ work.o sqlite3.o -lpthread -ldl -lm\n")
    before = fingerprint(project.root)
    program = project.build(limit=120)
    mine = project.command(program, limit=60)
    assert fingerprint(project.root) == before
    project.command("make", limit=120)
    theirs = project.command(project.root / "work")
    assert mine.out == theirs.out and mine.out.count("\n") > 20
    report = project.report()
    rows = [row for row in report.functions if row["file"] == "sqlite3.c"]
    assert len(rows) > 2000
    calls = {row["name"]: row["calls"] for row in rows}
    assert calls["sqlite3VdbeExec"] > 15 and calls["sqlite3_exec"] >= 15
    assert report.row("sql")["calls"] == 12 and report.row("main")["calls"] == 1


SCRIPT = r"""
local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end
print("fib", fib(20))
local t = {}
for i = 1, 20000 do t[i] = (i * 7919) % 10007 end
table.sort(t)
print("sorted", t[1], t[10000], #t)
local s = {}
for w in ("the quick brown fox jumps over the lazy dog "):rep(200):gmatch("%a+") do
    s[w] = (s[w] or 0) + 1
end
local keys = {}
for k in pairs(s) do keys[#keys + 1] = k end
table.sort(keys)
for _, k in ipairs(keys) do io.write(k, "=", s[k], " ") end
print()
-- errors leave by longjmp, coroutines run nested C calls, finalizers run in the collector
local caught = 0
for i = 1, 2000 do
    local ok = pcall(function()
        if i % 2 == 0 then error({code = i}) end
        local x = nil
        return x.y
    end)
    if not ok then caught = caught + 1 end
end
print("caught", caught)
local co = coroutine.wrap(function() for i = 1, 3000 do coroutine.yield(i * 2) end return "end" end)
local sum = 0
for i = 1, 3000 do sum = sum + co() end
print("coroutine", sum, co())
local dead = 0
for i = 1, 500 do setmetatable({}, {__gc = function() dead = dead + 1 end}) end
collectgarbage() collectgarbage()
print("finalized", dead)
print(string.format("%5.2f %q %x", math.pi, "a\nb", 255), utf8 and utf8.char(228, 8364))
print(load("return 1 +")) print(select("#", table.unpack({1, 2, nil, 4}, 1, 4)))
print(os.time{year = 2020, month = 1, day = 1, hour = 12} > 0, tostring(1e15), 7 // 2, 7 % -3)
"""


@BOTH
def test_lua_with_every_function(project: Project, compiler: str,
                                 tmp_path_factory: pytest.TempPathFactory) -> None:
    need(compiler)
    archive = fetched(tmp_path_factory, fetch_lupa)
    assert extract(archive, r"third-party/lua54/l\w+\.[ch]$", project.root) > 50
    for unused in ("ltests.c", "ltests.h", "luac.c", "onelua.c", "lbitlib.c"):
        (project.root / unused).unlink(missing_ok=True)
    (project.root / "script.lua").write_text(SCRIPT)
    (project.root / "Makefile").write_text(
        f"CC = {compiler}\nCFLAGS = -O1 -Wall -Wextra -Werror -DLUA_USE_LINUX -MMD\n"
        "lua: $(patsubst %.c,%.o,$(wildcard *.c))\n\t$(CC) -rdynamic -o $@ $^ -lm -ldl\n"
        "-include $(wildcard *.d)\n")
    before = fingerprint(project.root)
    program = project.build(limit=120)
    mine = project.command(program, "script.lua")
    assert fingerprint(project.root) == before
    project.command("make", "-j2", "CFLAGS=-O0 -DLUA_USE_LINUX", limit=120)
    theirs = project.command(project.root / "lua", "script.lua")
    assert mine.out == theirs.out and "caught\t2000" in mine.out, mine
    report = project.report()
    assert len([row for row in report.functions if row["calls"]]) > 300
    assert report.row("main")["calls"] == 1
    assert report.row("luaD_throw")["calls"] >= 2000, "pcall ends by longjmp"
    assert report.row("lua_resume")["calls"] == 3001
    # a second script through the same program, with piano run
    assert project.piano("run", "--", "-e", "print(1+1)").out == "2\n"


@BOTH
def test_lua_unity_build(project: Project, compiler: str,
                         tmp_path_factory: pytest.TempPathFactory) -> None:
    """The whole interpreter in one unit, as onelua.c makes it."""
    need(compiler)
    archive = fetched(tmp_path_factory, fetch_lupa)
    extract(archive, r"third-party/lua54/l\w+\.[ch]$", project.root)
    if not extract(archive, r"third-party/lua54/onelua\.c$", project.root):
        pytest.skip("this release of lupa carries no onelua.c")
    (project.root / "script.lua").write_text(SCRIPT)
    program = project.build("--fn", "luaV_", "--fn", "luaH_", "--", compiler, "-O1",
                            "-DLUA_USE_POSIX", "onelua.c", "-o", "lua", "-lm", limit=60)
    done = project.command(program, "script.lua")
    assert "caught\t2000" in done.out
    report = project.report()
    assert report.names() and all(n.startswith(("luaV_", "luaH_")) for n in report.names())
    assert report.row("luaV_execute")["calls"] > 100


def test_the_bundled_example(project: Project) -> None:
    """A small `make demo`: copies the game of the repository, profiles it, and finds its spikes."""
    examples = Path(__file__).resolve().parents[2] / "examples"
    games = [path.parent for path in examples.glob("*/Makefile")]
    if not games:
        pytest.skip("the repository has no example with a Makefile yet")
    shutil.copytree(games[0], project.root, dirs_exist_ok=True,
                    ignore=shutil.ignore_patterns(".piano", "*.o"))
    program = project.build(limit=60)
    project.command(program, limit=60)
    report = project.report()
    assert report.frame_count > 10
    assert len(report.called()) > 10
