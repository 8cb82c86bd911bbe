"""The targets of a command: files, or what comes through a pipe; content decides what each is."""

from __future__ import annotations

import difflib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from stridetool.cli.options import PIPE, STDIN
from stridetool.errors import InputError


@dataclass(frozen=True, slots=True)
class Target:
    """What to inspect: a file, its name when that is not its path, and whether it is to be run."""

    path: Path
    name: str | None
    is_script: bool

    def __str__(self) -> str:
        return self.name or str(self.path)

    @contextmanager
    def named(self) -> Iterator[None]:
        """Errors on the file behind the name as errors on the name."""
        try:
            yield
        except InputError as error:
            raise type(error)(error.message.replace(str(self.path), str(self)), hint=error.hint) from error


def open_target(text: str, stack: ExitStack) -> Target:
    """A path, or `-`: what comes through the pipe, as a file (readers seek) that goes with `stack`.

    Raises InputError when there is no such file, with names that are nearly right.
    """
    if not text:
        raise InputError("cannot read a target without a name", hint="- is what comes through the pipe")
    if text != PIPE:
        path = Path(text)
        try:
            os.stat(text)
        except OSError as error:  # not there, a name that is too long, a link to itself
            raise _unreadable(path, error.strerror or str(error)) from error
        return Target(path, None, _is_script(path))
    file = stack.enter_context(tempfile.NamedTemporaryFile(prefix="stride-tool-"))  # noqa: SIM115  the stack closes it
    try:
        shutil.copyfileobj(sys.stdin.buffer, file)
        file.flush()
    except OSError as error:
        raise InputError(f"cannot read standard input: {error.strerror}") from error
    if not file.tell():
        raise InputError("cannot read standard input: nothing came", hint="- is what comes through the pipe")
    path = Path(file.name)
    return Target(path, STDIN, not _is_tensor_file(path))


def _is_script(path: Path) -> bool:
    """Whether it is to be run: called `.py`, or without a suffix and with a first line that asks for Python.

    A file that is called as tensors are is never run, whatever stands in it: it may come from anyone.
    """
    if path.suffix:
        return path.suffix == ".py" and not _is_tensor_file(path)
    return _has_shebang(path)


def _is_tensor_file(path: Path) -> bool:
    """By content: a tensor file under the name of a script is no script."""
    from stridetool.sources.detect import detect

    return detect(_head(path)) is not None


def _has_shebang(path: Path) -> bool:
    first = _head(path).partition(b"\n")[0]
    return first.startswith(b"#!") and b"python" in first


def _head(path: Path) -> bytes:
    """The first bytes of a file (none of a directory, nor of a named pipe, whose writer may never come)."""
    if path.is_dir() or path.is_fifo():
        return b""
    try:
        with path.open("rb") as file:
            return file.read(512)
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from error


def _unreadable(path: Path, reason: str) -> InputError:
    """The error on a file that cannot be read, with the names beside it that are nearly right."""
    near = [name for name in difflib.get_close_matches(path.name, _names_beside(path), n=3) if name != path.name]
    return InputError(f"cannot read {path}: {reason}", hint=f"did you mean {', '.join(near)}?" if near else None)


def _names_beside(path: Path) -> list[str]:
    try:
        return [entry.name for entry in islice(path.parent.iterdir(), 10_000)]
    except OSError:
        return []
