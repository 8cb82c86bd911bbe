"""`stride-tool inspect`: where bytes live, who shares them, what was copied and why a view is impossible."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from stridetool.cli.options import (
    ColorOption,
    ForceFlag,
    Format,
    JsonFlag,
    OutputPath,
    SortOption,
    TopOption,
    format_option,
)


class Condition(StrEnum):
    """What `--fail-on` can stop at."""

    COPY = "copy"
    OVERLAP = "overlap"
    MISALIGNED = "misaligned"
    WASTE = "waste"


def inspect(
    targets: Annotated[
        list[str] | None,
        typer.Argument(metavar="TARGET…", help="A layout script, a tensor file, or - for stdin.", show_default=False),
    ] = None,
    expressions: Annotated[
        list[str] | None,
        typer.Option(
            "-e",
            "--expr",
            metavar="EXPR",
            help="Evaluate, with the library's names (or those of the script) in scope.",
            show_default=False,
        ),
    ] = None,
    alias_torch: Annotated[bool, typer.Option("--alias-torch", help="Let `import torch` mean stridetool.")] = False,
    tensor: Annotated[
        list[str] | None,
        typer.Option(
            "--tensor", metavar="GLOB", help="Only these tensors; with [slices], only that part.", show_default=False
        ),
    ] = None,
    table: Annotated[bool, typer.Option("--table", help="Index → offset → byte → address, a row an element.")] = False,
    show_copies_only: Annotated[bool, typer.Option("--show-copies-only", help="Only operations that copied.")] = False,
    fail_on: Annotated[
        list[Condition] | None, typer.Option("--fail-on", help="Exit 1 when this is found.", show_default=False)
    ] = None,
    arguments: Annotated[
        str, typer.Option("--args", help="The script's own arguments, quoted as in a shell.", show_default=False)
    ] = "",
    ascii_only: Annotated[bool, typer.Option("--ascii", help="Pictures in ASCII.")] = False,
    sort: SortOption = None,
    top: TopOption = None,
    json: JsonFlag = False,
    format: Annotated[Format | None, format_option("text", "json", "ndjson", "svg", "html")] = None,
    output: OutputPath = None,
    force: ForceFlag = False,
    color: ColorOption = "auto",
) -> None:
    """Show sizes, strides, offsets and storages, and which operation copied and why."""
    from stridetool.cli.inspecting import Inspection, run_inspection
    from stridetool.cli.output import Output

    formats = ("text", "ndjson", "json") if table else ("text", "json", "svg", "html")
    where = Output.choose(formats, json=json, format=format, path=output, force=force, color=color)
    run_inspection(
        Inspection(
            targets=tuple(targets or ()),
            expressions=tuple(expressions or ()),
            alias_torch=alias_torch,
            tensors=tuple(tensor or ()),
            table=table,
            copies_only=show_copies_only,
            fail_on=tuple(fail_on or ()),
            arguments=arguments,
            ascii_only=ascii_only,
            sort=sort,
            top=top,
        ),
        where,
    )
