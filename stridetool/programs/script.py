"""Runs the user's own script the way `python script.py` would, and keeps what it left behind.

A script is the user's program: it runs with all their rights. What is ours is that its output cannot mix
with a report, that a child process which it forks does not print a second report, and that an error of
theirs is told with its line instead of a traceback through our files.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import sys
import tokenize
import traceback
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from stridetool.core.refusals import MORE_THAN_LAYOUT
from stridetool.errors import InputError, ProgramError, StrideToolError
from stridetool.programs.interpreter import guarded, run_code
from stridetool.programs.streams import flush, stdout_to_stderr, streams_of_the_program

EXPRESSION_FILE = "<expression>"
STDIN_FILE = "<stdin>"
_MAX_MESSAGE = 10_000  # characters


@dataclass(frozen=True, slots=True)
class Failure:
    """What a script raised: class, message, hint where it was one of our errors, and the line of theirs."""

    type: str
    message: str
    hint: str | None
    where: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a script left: its variables, its failure if it had one, and the status of a `sys.exit`."""

    namespace: dict[str, Any]
    failure: Failure | None
    exit_status: int

    def complaint(self, name: str) -> ProgramError | None:
        """What to say of the program called `name` when it did not end well; it is told and need not be raised."""
        if self.failure is not None:
            failure = self.failure
            text = f"cannot finish {name}: {failure.type}: {failure.message} ({failure.where})"
            return ProgramError(text, hint=failure.hint)
        if self.exit_status:
            return ProgramError(f"cannot finish {name}: it called sys.exit({self.exit_status})")
        return None


def read_script(path: Path, name: str | None = None) -> str:
    """The text of a script, in the encoding that it declares; errors call it `name` where that is not its path.

    Raises InputError when it is unreadable or no text.
    """
    try:
        return _decode(path.read_bytes(), name or str(path))
    except OSError as error:
        raise InputError(f"cannot read {name or path}: {error.strerror}") from error


def _decode(data: bytes, where: str) -> str:
    try:
        if b"\0" in data:
            raise UnicodeError("it holds NUL bytes")
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return data.decode(encoding)
    except (UnicodeError, LookupError, SyntaxError) as error:  # a declared encoding may be none, or none of text
        raise InputError(f"cannot run {where}: it is no Python source ({error})") from error


def compile_script(source: str, filename: str, *, name_last: bool = False) -> types.CodeType:
    """Code of a script; with `name_last`, the value of a final expression becomes the variable `_`.

    Raises InputError with the place of a syntax error.
    """
    try:
        if not name_last:  # a tree of Python objects would take hundreds of bytes for each of the source
            return compile(source, filename, "exec", dont_inherit=True)
        tree = ast.parse(source, filename)
        if tree.body and isinstance(tree.body[-1], ast.Expr):
            last = tree.body[-1]
            assign = ast.Assign([ast.Name("_", ast.Store())], last.value)
            tree.body[-1] = ast.fix_missing_locations(ast.copy_location(assign, last))
        return compile(tree, filename, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise InputError(f"cannot run {filename}: {error.msg} ({filename}:{error.lineno})") from error
    except (ValueError, RecursionError, MemoryError) as error:
        reason = str(error) or "it is nested too deeply"
        raise InputError(f"cannot run {filename}: {reason}") from error


def execute(code: types.CodeType, namespace: dict[str, Any], *, quiet_stdout: bool) -> Outcome:
    """Run `code` in `namespace`; with `quiet_stdout`, all that it prints goes to stderr."""
    parent = os.getpid()
    failure, status = None, 0
    with stdout_to_stderr() if quiet_stdout else contextlib.nullcontext(), streams_of_the_program():
        try:
            run_code(code, namespace)
        except SystemExit as request:
            status = _exit_status(request)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            failure = _failure(error, sys.exc_info()[2], code.co_filename)
        finally:
            if os.getpid() != parent:
                _leave_child(failed=failure is not None or status != 0)
    return Outcome(namespace, failure, status)


@contextlib.contextmanager
def as_main(path: Path | None, arguments: list[str], aliases: dict[str, types.ModuleType]) -> Iterator[dict[str, Any]]:
    """The namespace of a fresh `__main__`, with `sys.argv`, `sys.path[0]` and `aliases` in place.

    Modules are put back; the rest is for `kept_interpreter` around it.
    """
    module = types.ModuleType("__main__")
    if path is not None:
        module.__file__ = str(path)
    kept = {name: sys.modules.get(name) for name in ("__main__", *aliases)}
    sys.modules.update(aliases, __main__=module)
    sys.argv = [str(path) if path is not None else "-c", *arguments]
    sys.path.insert(0, str(path.resolve().parent) if path is not None else "")
    try:
        yield vars(module)
    finally:
        for name, previous in kept.items():
            if previous is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = previous


def _failure(error: BaseException, trace: types.TracebackType | None, filename: str) -> Failure:
    frames = traceback.extract_tb(trace)
    own = [frame for frame in frames if frame.filename == filename] or frames
    where = f"{own[-1].filename}:{own[-1].lineno}" if own else filename
    kind = type(error)  # never error.__class__, which may be anything
    if issubclass(kind, StrideToolError):
        ours = cast(StrideToolError, error)
        torch_class = next((c.__name__ for c in kind.__mro__ if c.__module__ == "builtins"), "Error")
        return Failure(torch_class, ours.message, ours.hint, where)
    hint = _torch_hint(getattr(error, "name", None)) if issubclass(kind, ImportError) else None
    return Failure(type.__dict__["__name__"].__get__(kind), _said(error), hint, where)


def _torch_hint(missing: str | None) -> str | None:
    if missing == "torch":
        return "--alias-torch runs a script about layout without torch"
    if missing is not None and missing.startswith(("torch.", "stridetool")):  # the latter: from torch import nn
        return MORE_THAN_LAYOUT
    return None


def _said(value: object) -> str:
    """What an exception or the argument of `sys.exit` says, cut where nobody reads on."""
    text = guarded(str, value, default="(its str() raises)")
    return text if len(text) <= _MAX_MESSAGE else f"{text[:_MAX_MESSAGE]}… ({len(text):,} characters)"


def _exit_status(request: SystemExit) -> int:
    """The status that `python` itself would exit with; what a program says instead of a number goes to stderr."""
    code = request.code
    if code is None:
        return 0
    if type(code) in (int, bool):
        return int(code)
    with contextlib.suppress(Exception):  # the stream is the program's
        print("".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in _said(code)), file=sys.stderr)
    return 1


def _leave_child(*, failed: bool) -> None:
    """A process that the script forked ends here, as it would at the end of the script, without a report."""
    flush(sys.stdout, sys.stderr)
    os._exit(int(failed))
