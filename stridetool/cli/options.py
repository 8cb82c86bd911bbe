"""The options that every command shares, declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

PIPE = "-"  # in place of a path: standard input, or standard output after -o
STDIN = "<stdin>"  # the name of what came through the pipe, in reports and errors

ColorMode = Literal["auto", "always", "never"]
Format = Literal["text", "json", "ndjson", "csv", "markdown", "perfetto", "svg", "html"]

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON (the same as --format json).")]


def format_option(*formats: Format) -> Any:
    """The option --format of a command that writes `formats`."""
    return typer.Option("--format", metavar="|".join(formats), help="Output format.", show_default=False)


OutputPath = Annotated[
    Path | None,
    typer.Option("-o", "--output", help="Write to a file; the suffix names the format.", show_default=False),
]
ForceFlag = Annotated[bool, typer.Option("--force", help="Overwrite the file of -o.")]
ColorOption = Annotated[ColorMode, typer.Option("--color", help="Colour in the text.")]
TopOption = Annotated[int | None, typer.Option("--top", min=0, help="Keep the first N rows.", show_default=False)]
SortOption = Annotated[
    str | None, typer.Option("--sort", help="Order of the rows; the command's own keys.", show_default=False)
]
