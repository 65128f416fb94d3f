"""Runs a program in this interpreter the way `python3 PROGRAM` does: same `__main__`, arguments, path and tracebacks.

Remaining differences: a few frames of piano call the program's outermost frame, and piano's modules are imported.
"""
from __future__ import annotations

import builtins
import importlib.machinery
import io
import linecache
import os
import pkgutil
import runpy
import sys
import types
import zipfile
from types import CodeType, TracebackType
from typing import Any, Optional


def run(target: list[str]) -> None:
    """Runs TARGET: a file, a directory, an archive, `-m MODULE` or `-c CODE`, followed by its arguments. `__main__` and the
    program's globals stay."""
    main = types.ModuleType("__main__")
    main.__dict__.update(__builtins__=builtins, __annotations__={}, __loader__=importlib.machinery.BuiltinImporter)
    sys.modules["__main__"] = main
    try:
        if target[0] == "-m":
            sys.argv = ["-m", *target[2:]]
            _first_in_path(os.getcwd())
            runpy._run_module_as_main(target[1])  # type: ignore[attr-defined]
        elif target[0] == "-c":
            sys.argv = ["-c", *target[2:]]
            _first_in_path("")
            if sys.version_info >= (3, 13):  # its tracebacks show the lines of -c
                linecache.cache["<string>"] = (len(target[1]), None, target[1].splitlines(True), "<string>")
            exec(compile(target[1], "<string>", "exec", dont_inherit=True), main.__dict__)
        else:
            sys.argv = list(target)
            _run_path(os.path.join(os.getcwd(), target[0]), main)
    except SystemExit:
        raise
    except BaseException as error:
        _tell_as_its_own(error)
        raise


def _first_in_path(folder: str) -> None:
    if not sys.flags.safe_path:  # with safe_path, `-m piano.memprof` added no entry to replace
        sys.path[0] = folder


def _run_path(path: str, main: types.ModuleType) -> None:
    if os.path.isdir(path) or zipfile.is_zipfile(path):
        if sys.flags.safe_path:
            sys.path.insert(0, path)
        else:
            sys.path[0] = path
        runpy._run_module_as_main("__main__", False)  # type: ignore[attr-defined]
        return
    loader = importlib.machinery.SourceFileLoader("__main__", path)
    try:
        code = _code_of(path)
    except OSError as error:
        print(f"{sys.orig_argv[0]}: can't open file {path!r}: [Errno {error.errno}] {error.strerror}", file=sys.stderr)
        sys.exit(2)
    _first_in_path(os.path.dirname(os.path.realpath(path)))
    main.__dict__.update(__file__=path, __cached__=None, __loader__=loader)
    exec(code, main.__dict__)


def _code_of(path: str) -> CodeType:
    with io.open_code(path) as file:
        made: Optional[CodeType] = pkgutil.read_code(file)
    if made is not None:
        return made
    with io.open_code(path) as file:
        text = file.read()
    code: CodeType = compile(text, path, "exec", dont_inherit=True)
    return code


def _tell_as_its_own(error: BaseException) -> None:
    """Removes piano's frames from the traceback that the interpreter prints when it ends with ERROR."""
    hook = sys.excepthook
    own = error.__traceback__
    while own is not None and own.tb_frame.f_code.co_filename == __file__:
        own = own.tb_next

    def tell(kind: type[BaseException], value: BaseException, trace: Optional[TracebackType]) -> Any:
        sys.excepthook = hook
        if value is error:
            trace = sys.last_traceback = own
            value = value.with_traceback(own)
        return hook(kind, value, trace)

    sys.excepthook = tell
