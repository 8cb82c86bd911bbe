"""Which stdout and stderr belong to whom: the interpreter's own to the user's program, private duplicates to us.

A program may close, replace or re-encode its streams, close their descriptors, or go on printing from a thread or at
exit. None of it reaches the report: that is written through duplicates which the program does not know.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO

_FIRST_PRIVATE = 100  # a program that closes "all" descriptors mostly counts up to some tens
_theirs: list[TextIO] = []  # the interpreter's stdout and stderr, once `take_streams` gave us our own

_ours: list[TextIO] = []
_lent: list[bool] = []  # not empty once a program had them


def take_streams() -> None:
    """Make `sys.stdout` and `sys.stderr` ours. For the start of a process that is stride-tool's alone.

    Descriptors 0 to 2 that the caller closed are filled, so that no file which is opened later gets their numbers:
    reading from such a stdin and writing to such a stdout fail as before. What a stream cannot encode is escaped.
    """
    closed = [fd for fd in (0, 1, 2) if not _is_open(fd)]
    for fd in closed:
        _open_as(fd, os.O_WRONLY if fd in (0, 2) else os.O_RDONLY)
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115  as long as the process
    _theirs[:] = [sys.stdout or open(os.devnull, "w"), sys.stderr or open(os.devnull, "w")]  # noqa: SIM115  likewise
    _ours[:] = _duplicate(1, _theirs[0]), _duplicate(2, _theirs[1])
    sys.stdout, sys.stderr = _ours


def our_stdout() -> TextIO:
    """Where results go, whatever `sys.stdout` is by now."""
    return _ours[0] if _ours else sys.stdout


def leave_streams() -> None:
    """The result is out: whatever a program that was run still prints, from a thread or at exit, goes to stderr."""
    if _lent:
        with contextlib.suppress(OSError):
            os.dup2(2, 1)
    for ours in _ours:
        with contextlib.suppress(OSError):
            ours.close()
    sys.stdout, sys.stderr = (_usable(stream, fd) for fd, stream in enumerate(_theirs, start=1))


def discard(fd: int) -> None:
    """Send to nowhere what is still buffered for a descriptor that cannot be written: Python would complain at exit."""
    _open_as(fd, os.O_WRONLY)


@contextlib.contextmanager
def streams_of_the_program() -> Iterator[None]:
    """`sys.stdin`, `sys.stdout` and `sys.stderr` are the program's for the block, and ours again after it."""
    ours = sys.stdin, sys.stdout, sys.stderr
    if _theirs:
        sys.stdout, sys.stderr = _theirs
        _lent.append(True)
    try:
        yield
    finally:
        flush(sys.stdout, sys.stderr, *_theirs)
        sys.stdin, sys.stdout, sys.stderr = ours


def flush(*streams: Any) -> None:
    """Flush streams of the program, whatever it made of them."""
    for stream in streams:
        with contextlib.suppress(Exception):
            stream.flush()


@contextlib.contextmanager
def stdout_to_stderr() -> Iterator[None]:
    """Python's and the operating system's stdout to stderr, so that C code and child processes follow too.

    In a process of ours for good: a thread of the program may print until the end. Results go to `our_stdout()`.
    """
    if _theirs:
        flush(*_theirs)
        sys.stdout = sys.stderr
        with contextlib.suppress(OSError):
            os.dup2(2, 1)
        yield
        return
    sys.stdout.flush()
    try:
        saved = _private(1)
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


def _usable(stream: TextIO, fd: int) -> TextIO:
    """`stream`, or another where the program closed or broke it: Python flushes it at exit."""
    try:
        stream.flush()
    except Exception:
        return open(fd, "w", closefd=False)
    return stream


def _duplicate(fd: int, model: TextIO) -> TextIO:
    return open(
        _private(fd), "w", encoding=model.encoding, errors="backslashreplace", buffering=1 if fd == 2 else -1
    )  # fmt: skip


def _private(fd: int) -> int:
    """A duplicate out of the way, which child processes do not get."""
    try:
        import fcntl

        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _FIRST_PRIVATE)
    except (ImportError, OSError):  # another system, or a low limit on open files
        return os.dup(fd)


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def _open_as(fd: int, mode: int) -> None:
    opened = os.open(os.devnull, mode)
    if opened != fd:
        os.dup2(opened, fd)
        os.close(opened)
