"""Where a result goes: stdout or a file that is complete or not there at all, in the format that was asked for."""

from __future__ import annotations

import contextlib
import io
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TextIO

from stridetool.cli.options import PIPE, ColorMode
from stridetool.errors import InputError, UsageError
from stridetool.programs.streams import discard, our_stdout
from stridetool.render.blocks import printable

_SUFFIXES = {
    ".json": "json", ".ndjson": "ndjson", ".jsonl": "ndjson", ".txt": "text", ".svg": "svg", ".html": "html",
    ".csv": "csv", ".md": "markdown",
}  # fmt: skip

_NEWLINES = "\r\n"
_ESCAPED = "backslashreplace"  # what no UTF-8 can hold: half of a surrogate pair in a name


@dataclass(frozen=True, slots=True)
class Output:
    """The chosen format and destination. Make it before the work, so that a bad choice fails at once."""

    format: str
    path: Path | None
    color: bool
    stdout: TextIO  # the one of the start: a program that is run may put another into its place

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
        if path is not None and str(path) != PIPE:
            chosen = chosen or _format_of(path, formats)
            _check_destination(path, force)
        else:
            path = None
        chosen = chosen or formats[0]
        if chosen not in formats:
            raise UsageError(f"cannot write format {chosen}", hint=f"this command writes {', '.join(formats)}")
        return cls(chosen, path, path is None and _wants_color(color), our_stdout())

    def write(self, chunks: Iterable[str]) -> None:
        """Write all of `chunks`. A file appears under its name only when it is complete."""
        if self.path is None:
            _in_utf8(self.stdout, self.format)
            with _told("standard output"):
                for chunk in chunks:
                    self.stdout.write(chunk)
                self.stdout.flush()
            return
        with replaced_file(self.path) as file:
            file.writelines(chunks)
        say(f"wrote {self.path}")


def say(text: str) -> None:
    """A note on stderr, in which nothing can act on the terminal. Where nobody can hear it, it is left out."""
    try:
        print("\n".join(map(printable, text.split("\n"))), file=sys.stderr, flush=True)
    except OSError:
        discard(2)


def say_error(message: str, hint: str | None = None) -> None:
    """The two lines of an error on stderr."""
    say(f"stride-tool: error: {message.strip(_NEWLINES) or 'unknown error'}")
    if hint is not None:
        say(f"  hint: {hint}")


@contextlib.contextmanager
def replaced_file(path: Path) -> Iterator[IO[str]]:
    """A temporary file beside `path`, renamed to it when the block ends well and removed when not.

    A link stays one, and its target is replaced. What is no regular file (a device, a named pipe) is written to.
    """
    with _told(str(path)):
        target = Path(os.path.realpath(path))
        if target.exists() and not target.is_file():
            with target.open("w", encoding="utf-8", errors=_ESCAPED) as file:
                yield file
            return
        with _renamed_file(target) as file:
            yield file


@contextlib.contextmanager
def _renamed_file(path: Path) -> Iterator[IO[str]]:
    import tempfile  # only here: it costs as much as all the rest of a start that writes no file

    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors=_ESCAPED) as file:
            yield file
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


@contextlib.contextmanager
def _told(name: str) -> Iterator[None]:
    """Failures to write to `name` as our error; a reader that has gone is none."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(f"cannot write {name}: {error.strerror}") from error


def _check_destination(path: Path, force: bool) -> None:
    """Fail before the work where a file cannot or may not be written."""
    with _told(str(path)):
        try:
            is_directory = stat.S_ISDIR(os.stat(path).st_mode)  # raises for a name that is too long, a link to itself
        except FileNotFoundError:
            return
    if is_directory:
        raise UsageError(f"cannot write {path}: it is a directory")
    if not force:
        raise UsageError(f"cannot write {path}: it exists", hint="--force overwrites it")


def _in_utf8(stream: TextIO, format: str) -> None:
    """Documents for programs are UTF-8 whatever the terminal's encoding; text for people is in that."""
    if format != "text" and isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(encoding="utf-8")


def terminal_width(default: int = 100) -> int:
    """Columns of the terminal on stdout, or `default` where there is none."""
    try:
        return os.get_terminal_size(our_stdout().fileno()).columns
    except (OSError, ValueError):
        return default


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _format_of(path: Path, formats: tuple[str, ...]) -> str:
    try:
        return _SUFFIXES[path.suffix.lower()]
    except KeyError:
        suffixes = " ".join(suffix for suffix, format in _SUFFIXES.items() if format in formats)
        raise UsageError(
            f"cannot tell the format of {path} from its suffix", hint=f"use --format, or one of {suffixes}"
        ) from None


def _wants_color(mode: ColorMode) -> bool:
    if mode == "auto":
        return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    return mode == "always"
