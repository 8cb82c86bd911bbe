"""`stride-tool compare`: two reports of the same kind, and whether the new one is worse."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stridetool.cli.options import ColorOption, ForceFlag, Format, JsonFlag, OutputPath, format_option


def compare(
    old: Annotated[
        Path, typer.Argument(help="JSON of the earlier run, a tensor file, or - for stdin.", show_default=False)
    ],
    new: Annotated[
        Path, typer.Argument(help="JSON of the later run, a tensor file, or - for stdin.", show_default=False)
    ],
    threshold: Annotated[str, typer.Option("--threshold", help="Exit 1 when worse by more than this.")] = "5%",
    json: JsonFlag = False,
    format: Annotated[Format | None, format_option("text", "json", "svg", "html")] = None,
    output: OutputPath = None,
    force: ForceFlag = False,
    color: ColorOption = "auto",
) -> None:
    """Compare two reports or tensor files: times with intervals, memory by numbers, tensors by layouts."""
    from stridetool.cli.comparing import run_compare
    from stridetool.cli.output import Output

    where = Output.choose(
        ("text", "json", "svg", "html"), json=json, format=format, path=output, force=force, color=color
    )
    run_compare(old, new, threshold, where)
