"""What a program may change in the interpreter that runs it, put back for the report that follows."""

from __future__ import annotations

import builtins
import contextlib
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any, TypeVar

T = TypeVar("T")


@contextlib.contextmanager
def kept_interpreter() -> Iterator[None]:
    """Import paths, limits, warnings and the working directory are after the block what they were before.

    `os._exit` ends the program alone: without it a script that skips Python's own exit would take its report along.
    """
    finders = [(name, getattr(sys, name), list(getattr(sys, name))) for name in ("path", "meta_path", "path_hooks")]
    limit, argv, leave, folder = sys.getrecursionlimit(), sys.argv, os._exit, _folder()
    os._exit = _ends_program(leave)  # type: ignore[assignment]  # the name of its parameter is not told
    try:
        with warnings.catch_warnings():
            yield
    finally:
        os._exit = leave
        sys.argv = argv
        for name, finder, entries in finders:
            setattr(sys, name, finder)
            finder[:] = entries
        sys.setrecursionlimit(limit)
        if folder is not None:
            with contextlib.suppress(OSError):
                os.chdir(folder)


def run_code(code: CodeType, namespace: dict[str, Any]) -> None:
    """`exec`, after which built-in names and modules are the same again; no trace function of it sees our code."""
    names, kept = vars(builtins), dict(vars(builtins))
    modules, loaded = sys.modules, dict(sys.modules)
    tracer, profiler = sys.gettrace(), sys.getprofile()
    try:
        exec(code, namespace)
    finally:  # nothing but calls of C functions here: those need no built-in name and are not traced
        names.update(kept)
        sys.modules = modules
        modules.update(loaded)
        sys.settrace(tracer)
        sys.setprofile(profiler)


def guarded(call: Callable[..., T], *arguments: Any, default: T) -> T:
    """`call(*arguments)`, or `default` where that ran code of the program (a property, a `repr`) which raised."""
    try:
        return call(*arguments)
    except KeyboardInterrupt:
        raise
    except BaseException:
        return default


def _ends_program(leave: Callable[[int], Any]) -> Callable[[int], None]:
    parent = os.getpid()

    def end(status: int) -> None:
        if os.getpid() == parent and threading.current_thread() is threading.main_thread():
            raise SystemExit(status)
        leave(status)

    return end


def _folder() -> str | None:
    try:
        return os.getcwd()
    except OSError:  # it is gone
        return None
