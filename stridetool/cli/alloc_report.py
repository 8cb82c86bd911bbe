"""`stride-tool alloc-report`: why the allocator ran out, and which settings would have saved the run."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from stridetool.cli.options import ColorOption, ForceFlag, Format, JsonFlag, OutputPath, TopOption, format_option


def alloc_report(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TARGET…",
            help="Memory snapshots of torch, an allocation trace, a log of RMM, a layout script, or - for stdin. "
            'A trace is JSON lines: {"op": "alloc", "id": 1, "size": 4096, "stream": 0}, {"op": "free", "id": 1}, and '
            "the other events that README lists.",
            show_default=False,
        ),
    ] = None,
    settings: Annotated[
        str | None,
        typer.Option("--settings", metavar="S", help="As PYTORCH_CUDA_ALLOC_CONF; of a snapshot: the recorded ones."),
    ] = None,
    capacity: Annotated[
        str | None, typer.Option("--capacity", metavar="80GiB", help="Memory that the device can give.")
    ] = None,
    fraction: Annotated[
        float | None, typer.Option("--fraction", metavar="F", help="As set_per_process_memory_fraction.")
    ] = None,
    what_if: Annotated[
        list[str] | None,
        typer.Option("--what-if", metavar="S", help="Also under these settings; repeatable.", show_default=False),
    ] = None,
    sweep: Annotated[bool, typer.Option("--sweep", help="Try what torch offers, and rank it.")] = False,
    events: Annotated[bool, typer.Option("--events", help="NDJSON: a line per event, then the report.")] = False,
    device: Annotated[
        str | None, typer.Option("--device", metavar="NAME", help="Capacity of a device: a100-80g, h200, rtx4090, …")
    ] = None,
    address_policy: Annotated[
        Literal["bump", "firstfit"], typer.Option("--address-policy", help="How the device chooses addresses.")
    ] = "bump",
    stream_events: Annotated[
        str, typer.Option("--stream-events", metavar="auto|manual|N", help="When work on streams is finished.")
    ] = "auto",
    policy: Annotated[
        Literal["2.14", "2.11", "fixed"] | None,
        typer.Option("--policy", help="Order of free blocks by release, or 2.14 without its known faults."),
    ] = None,
    message: Annotated[
        str | None, typer.Option("--message", metavar="TEXT", help="Diagnose a pasted out-of-memory message.")
    ] = None,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="N|peak|oom", help="Up to event N, to the peak, or to the last failure."),
    ] = None,
    alias_torch: Annotated[bool, typer.Option("--alias-torch", help="Let `import torch` mean stridetool.")] = False,
    top: TopOption = None,
    json: JsonFlag = False,
    format: Annotated[Format | None, format_option("text", "json", "svg", "html", "perfetto")] = None,
    output: OutputPath = None,
    force: ForceFlag = False,
    color: ColorOption = "auto",
) -> None:
    """Replay allocations through torch's caching allocator: fragmentation, and what other settings would do."""
    from stridetool.analysis.moments import moment_of
    from stridetool.cli.allocating import run_alloc_report
    from stridetool.cli.allocation_request import Request
    from stridetool.cli.output import Output

    formats = ("ndjson",) if events else ("text", "json", "svg", "html", "perfetto")
    where = Output.choose(formats, json=json and not events, format=format, path=output, force=force, color=color)
    run_alloc_report(
        Request(
            targets=tuple(targets or ()),
            settings=settings,
            capacity=capacity,
            fraction=fraction,
            what_if=tuple(what_if or ()),
            sweep=sweep,
            events=events,
            device=device,
            address_policy=address_policy,
            stream_events=stream_events,
            policy=policy,
            message=message,
            at=None if at is None else moment_of(at),
            alias_torch=alias_torch,
            top=top,
        ),
        where,
    )
