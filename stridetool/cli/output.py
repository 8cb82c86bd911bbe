"""Where a result goes: stdout or a file that is complete or not there at all, in the format that was asked for."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from stridetool.cli.options import ColorMode
from stridetool.errors import InputError, UsageError

_SUFFIXES = {
    ".json": "json", ".ndjson": "ndjson", ".jsonl": "ndjson", ".txt": "text", ".svg": "svg", ".html": "html",
    ".csv": "csv", ".md": "markdown",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Output:
    """The chosen format and destination. Make it before the work, so that a bad choice fails at once."""

    format: str
    path: Path | None
    color: bool

    @classmethod
    def choose(
        cls,
        formats: tuple[str, ...],
        *,
        json: bool = False,
        format: str | None = None,
        path: Path | None = None,
        force: bool = False,
        color: ColorMode = "auto",
    ) -> Output:
        """What the options ask for. `formats` are those that the command offers, its default first.

        Raises UsageError for a format that the command has not, a suffix that names none, options that
        contradict each other, and a file that exists already (without `force`).
        """
        chosen = format or ("json" if json else None)
        if json and format not in (None, "json"):
            raise UsageError(f"cannot print both JSON and {format}")
        if path is not None and str(path) != "-":
            chosen = chosen or _format_of(path)
            if path.exists() and not force:
                raise UsageError(f"cannot write {path}: it exists", hint="--force overwrites it")
        else:
            path = None
        chosen = chosen or formats[0]
        if chosen not in formats:
            raise UsageError(f"cannot write format {chosen}", hint=f"this command writes {', '.join(formats)}")
        return cls(chosen, path, path is None and _wants_color(color))

    def write(self, chunks: Iterable[str]) -> None:
        """Write all of `chunks`. A file appears under its name only when it is complete."""
        if self.path is None:
            for chunk in chunks:
                sys.stdout.write(chunk)
            sys.stdout.flush()
            return
        with replaced_file(self.path) as file:
            file.writelines(chunks)
        print(f"wrote {self.path}", file=sys.stderr)


def say_error(message: str, hint: str | None = None) -> None:
    """The two lines of an error on stderr; nothing in them can act on the terminal."""
    from stridetool.render.blocks import printable

    text = "\n".join(printable(line) for line in message.splitlines()) or "unknown error"
    print(f"stride-tool: error: {text}", file=sys.stderr)
    if hint is not None:
        print(f"  hint: {printable(hint)}", file=sys.stderr)


@contextlib.contextmanager
def replaced_file(path: Path) -> Iterator[IO[str]]:
    """A temporary file beside `path`, renamed to it when the block ends well and removed when not."""
    import tempfile  # only here: it costs as much as all the rest of a start that writes no file

    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from error
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            yield file
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def terminal_width(default: int = 100) -> int:
    """Columns of the terminal on stdout, or `default` where there is none."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError):
        return default


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _format_of(path: Path) -> str:
    try:
        return _SUFFIXES[path.suffix.lower()]
    except KeyError:
        raise UsageError(
            f"cannot tell the format of {path} from its suffix",
            hint=f"use --format, or one of {' '.join(_SUFFIXES)}",
        ) from None


def _wants_color(mode: ColorMode) -> bool:
    if mode == "auto":
        return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    return mode == "always"
