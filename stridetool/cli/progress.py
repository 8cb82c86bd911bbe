"""Progress on stderr: a bar on a terminal; plain lines elsewhere, for what takes long and where somebody reads them."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Self

from stridetool.cli.output import say
from stridetool.units import format_seconds

_WIDTH = 24
_PATIENCE = 1.0  # seconds; what is done by then needs no word


def progress_bar(done: int, total: int, name: str) -> None:
    """Show that `name` begins after `done` of `total`; with no name the line is cleared."""
    if not sys.stderr.isatty() or total < 2:
        return
    filled = _WIDTH * done // total
    _replace_line(f"[{'#' * filled}{'.' * (_WIDTH - filled)}] {done}/{total} {name}" if name else "")


@contextlib.contextmanager
def announced(text: str, *, quiet: bool, at_once: bool = False) -> Iterator[None]:
    """Say what is being done once it has taken a second, and how long it took.

    On a terminal the line goes when it is done; elsewhere both lines stay, and `quiet` leaves them out. `at_once`
    does not wait: nothing else runs meanwhile, which work that forks needs.
    """
    if quiet and not sys.stderr.isatty():
        yield
        return
    with _Note(text) as note:
        if at_once:
            note.tell()
            yield
        else:
            with _late(note.tell):
                yield


class _Note:
    """What is being done, once it is told; it goes, or is answered, when the block ends."""

    def __init__(self, text: str) -> None:
        self.text, self.is_told = text, False
        self.is_watched, self.started = sys.stderr.isatty(), time.monotonic()

    def tell(self) -> None:
        self.is_told = True
        (_replace_line if self.is_watched else say)(f"{self.text} …")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if not self.is_told:
            return
        if self.is_watched:
            _replace_line("")
        elif kind is None:
            say(f"{self.text}: done in {format_seconds(time.monotonic() - self.started)}")


@contextlib.contextmanager
def _late(tell: Callable[[], None]) -> Iterator[None]:
    """Call it in the midst of the block, if that takes longer than patience."""
    timer = threading.Timer(_PATIENCE, tell)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def _replace_line(text: str) -> None:
    print(f"\r\x1b[2K{text}", end="", file=sys.stderr, flush=True)
