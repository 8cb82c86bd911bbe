"""`stride-tool devices`: what tensors can live on here, real or simulated."""

from __future__ import annotations

from typing import Annotated

from stridetool.cli.options import ColorOption, ForceFlag, Format, JsonFlag, OutputPath, format_option


def devices(
    json: JsonFlag = False,
    format: Annotated[Format | None, format_option("text", "json", "html")] = None,
    output: OutputPath = None,
    force: ForceFlag = False,
    color: ColorOption = "auto",
) -> None:
    """List the host and the GPUs; without one, the GPU that is simulated."""
    from stridetool.bench.devices import devices_report
    from stridetool.cli.output import Output
    from stridetool.cli.present import text_of
    from stridetool.render.devices_text import devices_blocks
    from stridetool.report.documents import to_json
    from stridetool.report.envelope import envelope

    where = Output.choose(("text", "json", "html"), json=json, format=format, path=output, force=force, color=color)
    document = envelope("devices", *devices_report())
    blocks = devices_blocks(document)
    where.write([to_json(document)] if where.format == "json" else text_of("stride-tool devices", blocks, where))
