"""python3 -m piano.memprof: runs a script with piano's library loaded.

Executes the interpreter again in this process with the library preloaded. The script runs as without piano: same arguments, same
`__main__`, same descriptors, same exit status. Only with --save does this module stay loaded, to write a snapshot at the end.
"""
from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from pathlib import Path
from typing import NoReturn, Optional

from .. import __version__, _memprof
from . import _program, get_snapshot, library_path, start, stop
from ._places import make_folder, preloadable

AGAIN = "PIANO_MEMPROF_AGAIN"


def fail(text: str) -> NoReturn:
    print(f"piano: {text}", file=sys.stderr)
    sys.exit(2)


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        prog="python3 -m piano.memprof",
        usage="%(prog)s [options] [SCRIPT | -m MODULE | -c CODE] [ARGS]",
        description="Runs a script and records who holds its memory, for `piano report --heap`. Without a script, "
        "an interactive session.",
    )
    p.add_argument("-r", "--rate", type=int, default=512, metavar="KB",
                   help="one allocation is sampled in KB kilobytes (512)")
    p.add_argument("-o", "--output", metavar="FILE",
                   help="where the recording goes; it must not exist (a new file in .piano/runs)")
    p.add_argument("--maps", action="store_true", help="anonymous mmap too")
    p.add_argument("--children", action="store_true", help="processes it starts have recordings of their own")
    p.add_argument("--save", metavar="FILE", help="write a snapshot of what is live when the script ends")
    p.add_argument("--format", choices=("speedscope", "collapsed"), default="speedscope", help="of --save")
    p.add_argument("-q", "--quiet", action="store_true", help="do not say where the recording is")
    p.add_argument("--library", action="store_true", help="print the path of the library, and no more")
    p.add_argument("--version", action="version", version=f"piano {__version__}")
    return p


def split(words: list[str]) -> tuple[list[str], list[str]]:
    """Splits WORDS into our options and the script with its arguments. The script is the first word that is neither an option
    nor its value."""
    takes_value = {"-r", "--rate", "-o", "--output", "--save", "--format"}
    at = 0
    while at < len(words):
        word = words[at]
        if word == "--":
            return words[:at], words[at + 1 :]
        if word in ("-m", "-c", "-") or not word.startswith("-"):
            break
        at += 2 if word in takes_value else 1
    return words[:at], words[at:]


def interpreter_flags() -> list[str]:
    """The interpreter's flags before `-m piano.memprof`, such as -X dev or -O."""
    before: list[str] = []
    for i, word in enumerate(sys.orig_argv[1:], 1):
        if word == "-mpiano.memprof":
            return before
        if word.startswith("-") and word.endswith("m") and sys.orig_argv[i + 1 : i + 2] == ["piano.memprof"]:
            return before + ([word[:-1]] if word != "-m" else [])
        before.append(word)
    return []


def runs_dir() -> Path:
    """PIANO_RUNS_DIR, or .piano/runs of the nearest directory from here upwards that has .piano, or of this directory."""
    given = os.environ.get("PIANO_RUNS_DIR")
    if given:
        return Path(given).absolute()
    here = Path.cwd()
    root = next((d for d in (here, *here.parents) if (d / ".piano").is_dir()), here)
    return root / ".piano" / "runs"


def recording(options: argparse.Namespace) -> Path:
    if options.output:
        path = Path(options.output).absolute()
        if path.exists() or path.is_symlink():
            fail(f"{path} exists; nothing is overwritten")
        if not path.parent.is_dir():
            fail(f"{path.parent} is no directory")
        return path
    folder = runs_dir()
    try:
        make_folder(folder)
    except OSError as error:
        fail(f"{folder} cannot be made: {error.strerror}")
    return folder / f"{time.time_ns() // 1000000}-{os.getpid()}.rec"


def environment(options: argparse.Namespace, path: Path) -> dict[str, str]:
    library = library_path()
    if not os.path.exists(library):
        fail(f"{library} is missing: the package is not installed as a whole")
    preload = preloadable(library)
    if preload is None:
        fail(f"{library} has a blank or a colon in its path, which LD_PRELOAD does not allow, "
             "and no link to it can be made in $TMPDIR, /tmp or /var/tmp")
    env = dict(os.environ)
    already = env.get("LD_PRELOAD")
    env["LD_PRELOAD"] = f"{preload}:{already}" if already else preload
    env["PIANO_RECORD"] = str(path)
    env["PIANO_RECORD_PID"] = str(os.getpid())
    env.pop("PIANO_HEAP", None)
    env.pop("PIANO_EVENTS", None)
    for name, wanted in (("PIANO_MAPS", options.maps), ("PIANO_CHILDREN", options.children)):
        env.pop(name, None)
        if wanted:
            env[name] = "1"
    if not options.save:
        env["PIANO_HEAP"] = str(options.rate * 1024)
    return env


def run_and_save(options: argparse.Namespace, target: list[str]) -> None:
    if options.children:  # children start their recordings themselves
        os.environ["PIANO_HEAP"] = str(options.rate * 1024)
    start(options.rate)
    try:
        _program.run(target)
    finally:
        save(options)


def save(options: argparse.Namespace) -> None:
    """Writes the snapshot. Prints errors instead of raising them, because they would hide how the script ended."""
    try:
        snapshot = get_snapshot()
        with contextlib.suppress(RuntimeError):
            stop()
        snapshot.save(options.save, options.format)
    except (OSError, RuntimeError) as error:
        print(f"piano: no snapshot is saved: {error}", file=sys.stderr)


def main(words: Optional[list[str]] = None) -> None:
    ours, target = split(sys.argv[1:] if words is None else words)
    options = parser().parse_args(ours)
    if options.library:
        print(preloadable(library_path()) or library_path())
        return
    if not 1 <= options.rate < 1 << 40:
        fail(f"--rate {options.rate}: a number of kilobytes, 1 or more, is wanted")
    if target and target[0] in ("-m", "-c") and len(target) < 2:
        fail(f"{target[0]} wants an argument")
    if options.save and (not target or target[0] == "-"):
        fail("--save wants a script")
    if options.save and (Path(options.save).is_dir() or not Path(options.save).absolute().parent.is_dir()):
        fail(f"--save {options.save}: this is no place for a file")
    if options.save and os.environ.pop(AGAIN, None) == str(os.getpid()):
        if not _memprof.is_loaded():
            fail("the loader did not take piano's library into this interpreter")
        run_and_save(options, target)
        return
    path = recording(options)
    env = environment(options, path)
    if not options.quiet:
        print(f"piano: recording to {path}", file=sys.stderr)
    again = [sys.orig_argv[0], *interpreter_flags()]
    if options.save:
        env[AGAIN] = str(os.getpid())
        again += ["-m", "piano.memprof", *ours, *(["--"] if target[0].startswith("--") else []), *target]
    else:
        again += target
    sys.stderr.flush()
    os.execve(sys.executable, again, env)


if __name__ == "__main__":
    main()
