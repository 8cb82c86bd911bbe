"""The root command: what the commands are, and how an error becomes two lines and an exit code."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from stridetool._version import __version__
from stridetool.cli import alloc_report, bench, compare, devices, inspect, schema
from stridetool.cli.output import say_error
from stridetool.errors import InputError, StrideToolError
from stridetool.programs.streams import discard, leave_streams, our_stdout, take_streams

INTERNAL_ERROR = 70
_OF_THE_MACHINE = {
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
    errno.ENOSPC,
    errno.EFBIG,
    errno.EDQUOT,
    errno.EIO,
    errno.EBADF,
}


class Root(TyperGroup):
    """Maps our errors, usage errors and a closed pipe to the documented exit codes."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        with _exit_codes():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        with _exit_codes():
            return super().invoke(ctx)


@contextlib.contextmanager
def _exit_codes() -> Iterator[None]:
    try:
        yield
    except StrideToolError as error:
        say_error(error.message, error.hint)
        raise typer.Exit(error.exit_code) from None
    except BrokenPipeError:
        # The reader has what it wanted. Python would complain again when it flushes stdout at exit.
        discard(our_stdout().fileno())
        raise typer.Exit(0) from None
    except MemoryError:
        say_error("cannot go on: out of memory")
        raise typer.Exit(InputError.exit_code) from None
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _OF_THE_MACHINE:
            say_error(f"cannot go on: {error.strerror}")
            raise typer.Exit(InputError.exit_code) from None
        _report_unexpected(error)


def _report_unexpected(error: Exception) -> None:
    """Typer's own usage errors become ours; whatever else arrives here is a bug and says so."""
    if isinstance(error, typer.Exit | typer.Abort):
        raise error
    explain = getattr(error, "format_message", None)
    if explain is not None and getattr(error, "exit_code", None) == 2:
        say_error(explain(), "stride-tool -h, or stride-tool COMMAND -h, lists what there is")
        raise typer.Exit(2) from None
    if "STRIDE_TOOL_TRACEBACK" in os.environ:
        raise error
    say_error(
        f"internal error: {type(error).__name__}: {error}",
        "this is a bug in stride-tool; STRIDE_TOOL_TRACEBACK=1 shows where",
    )
    raise typer.Exit(INTERNAL_ERROR) from None


app = typer.Typer(
    cls=Root,
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(value: bool) -> None:
    if value:
        print(f"stride-tool {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Where does this byte live, why was it copied, and why did the allocator run out?"""


app.command("inspect")(inspect.inspect)
app.command("bench")(bench.bench)
app.command("alloc-report")(alloc_report.alloc_report)
app.command("compare")(compare.compare)
app.command("devices")(devices.devices)
app.command("schema")(schema.schema)


def main() -> None:
    """Run the command line of this process."""
    take_streams()
    try:
        app()
    except SystemExit as end:
        code = end.code
    if not _is_flushed(is_told=bool(code)):
        code = code or InputError.exit_code
    leave_streams()
    sys.exit(code)


def _is_flushed(*, is_told: bool) -> bool:
    """Whether all of stdout arrived (help and version are written without a look at that); says so if not.

    After an error, which may have been this very one, there is no more to say.
    """
    try:
        our_stdout().flush()
    except BrokenPipeError:
        discard(our_stdout().fileno())
    except OSError as error:
        discard(our_stdout().fileno())
        if not is_told:
            say_error(f"cannot write standard output: {error.strerror}")
        return False
    return True
