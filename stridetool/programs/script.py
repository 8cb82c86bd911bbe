"""Runs the user's own script the way `python script.py` would, and keeps what it left behind.

A script is the user's program: it runs with all their rights. What is ours is that its output cannot mix
with a report, that a child process which it forks does not print a second report, and that an error of
theirs is told with its line instead of a traceback through our files.
"""

from __future__ import annotations

import ast
import contextlib
import os
import sys
import traceback
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stridetool.errors import InputError, StrideToolError

EXPRESSION_FILE = "<expression>"
STDIN_FILE = "<stdin>"
_ALIAS_HINT = "--alias-torch runs a script about layout without torch"


@dataclass(frozen=True, slots=True)
class Failure:
    """What a script raised: class, message, hint where it was one of our errors, and the line of theirs."""

    type: str
    message: str
    hint: str | None
    where: str

    def text(self, name: str) -> str:
        """What to say of the program called `name`."""
        return f"cannot finish {name}: {self.type}: {self.message} ({self.where})"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a script left: its variables, its failure if it had one, and the status of a `sys.exit`."""

    namespace: dict[str, Any]
    failure: Failure | None
    exit_status: int


def read_script(path: Path) -> str:
    """The text of a script. Raises InputError when it cannot be read or is no text."""
    try:
        return _decode(path.read_bytes(), str(path))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error


def _decode(data: bytes, where: str) -> str:
    try:
        if b"\0" in data:
            raise UnicodeError("it holds NUL bytes")
        return data.decode("utf-8-sig")
    except UnicodeError as error:
        raise InputError(f"cannot run {where}: it is no Python source ({error})") from error


def compile_script(source: str, filename: str, *, name_last: bool = False) -> types.CodeType:
    """Code of a script; with `name_last`, the value of a final expression becomes the variable `_`.

    Raises InputError with the place of a syntax error.
    """
    try:
        tree = ast.parse(source, filename)
        if name_last and tree.body and isinstance(tree.body[-1], ast.Expr):
            last = tree.body[-1]
            assign = ast.Assign([ast.Name("_", ast.Store())], last.value)
            tree.body[-1] = ast.fix_missing_locations(ast.copy_location(assign, last))
        return compile(tree, filename, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise InputError(f"cannot run {filename}: {error.msg} ({filename}:{error.lineno})") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise InputError(f"cannot run {filename}: {error}") from error


def execute(code: types.CodeType, namespace: dict[str, Any], *, quiet_stdout: bool) -> Outcome:
    """Run `code` in `namespace`; with `quiet_stdout`, all that it prints goes to stderr."""
    parent = os.getpid()
    failure, status = None, 0
    with _stdout_to_stderr() if quiet_stdout else contextlib.nullcontext():
        try:
            exec(code, namespace)
        except SystemExit as request:
            status = _exit_status(request)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            failure = _failure(error, code.co_filename)
        finally:
            if os.getpid() != parent:
                _leave_child()
    return Outcome(namespace, failure, status)


@contextlib.contextmanager
def as_main(path: Path | None, arguments: list[str], aliases: dict[str, types.ModuleType]) -> Iterator[dict[str, Any]]:
    """The namespace of a fresh `__main__`, with `sys.argv`, `sys.path[0]` and `aliases` in place meanwhile."""
    module = types.ModuleType("__main__")
    if path is not None:
        module.__file__ = str(path)
    kept = {name: sys.modules.get(name) for name in ("__main__", *aliases)}
    argv, search = sys.argv, sys.path[:]
    sys.modules.update(aliases, __main__=module)
    sys.argv = [str(path) if path is not None else "-c", *arguments]
    sys.path.insert(0, str(path.resolve().parent) if path is not None else "")
    try:
        yield vars(module)
    finally:
        sys.argv, sys.path[:] = argv, search
        for name, previous in kept.items():
            if previous is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = previous


def _failure(error: BaseException, filename: str) -> Failure:
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename == filename] or frames
    where = f"{own[-1].filename}:{own[-1].lineno}" if own else filename
    if isinstance(error, StrideToolError):
        torch_class = next((c.__name__ for c in type(error).__mro__ if c.__module__ == "builtins"), "Error")
        return Failure(torch_class, error.message, error.hint, where)
    hint = _ALIAS_HINT if isinstance(error, ModuleNotFoundError) and error.name == "torch" else None
    return Failure(type(error).__name__, str(error), hint, where)


def _exit_status(request: SystemExit) -> int:
    """The status that `python` itself would exit with."""
    if request.code is None:
        return 0
    if isinstance(request.code, int):
        return request.code
    print(request.code, file=sys.stderr)
    return 1


def _leave_child() -> None:
    """A process that the script forked ends here, as it would at the end of the script, without a report."""
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(0)


@contextlib.contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    """Python's and the operating system's stdout to stderr, so that C code and child processes follow too."""
    sys.stdout.flush()
    try:
        saved = os.dup(1)
        os.dup2(2, 1)
    except OSError:  # no such descriptors: an embedding without a console
        saved = None
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        if saved is not None:
            os.dup2(saved, 1)
            os.close(saved)
