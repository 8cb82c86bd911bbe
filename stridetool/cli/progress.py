"""Progress on stderr: a bar on a terminal; plain lines elsewhere, for what takes long and where somebody reads them."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator

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
    watched = sys.stderr.isatty()
    if quiet and not watched:
        yield
        return
    started, told = time.monotonic(), threading.Event()

    def tell() -> None:
        if watched:
            _replace_line(f"{text} …")
        else:
            say(f"{text} …")
        told.set()

    timer = threading.Timer(_PATIENCE, tell)
    if at_once:
        tell()
    else:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if not at_once:
            timer.join()
        if watched and told.is_set():
            _replace_line("")
    if told.is_set() and not watched:
        say(f"{text}: done in {format_seconds(time.monotonic() - started)}")


def _replace_line(text: str) -> None:
    print(f"\r\x1b[2K{text}", end="", file=sys.stderr, flush=True)
