"""`stride-tool schema`: the JSON Schema of a document."""

from __future__ import annotations

from typing import Annotated

import typer


def schema(
    name: Annotated[str | None, typer.Argument(help="inspect, bench, alloc-report, …")] = None,
) -> None:
    """Print the JSON Schema of a report, or the names of all."""
    from stridetool.cli.output import Output
    from stridetool.report import documents

    text = documents.json_schema(name) if name else "".join(f"{known}\n" for known in documents.names())
    Output.choose(("text",)).write([text])
