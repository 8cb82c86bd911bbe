"""Progress on stderr: a bar on a terminal, nothing where nobody watches."""

from __future__ import annotations

import sys

_WIDTH = 24


def progress_bar(done: int, total: int, name: str) -> None:
    """Show that `name` begins after `done` of `total`; with no name the line is cleared."""
    if not sys.stderr.isatty() or total < 2:
        return
    filled = _WIDTH * done // total
    text = f"[{'#' * filled}{'.' * (_WIDTH - filled)}] {done}/{total} {name}" if name else ""
    print(f"\r\x1b[2K{text}", end="", file=sys.stderr, flush=True)
