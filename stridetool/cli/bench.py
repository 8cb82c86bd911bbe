"""`stride-tool bench`: how fast a copy is, how fast it could be, and why."""

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


class Where(StrEnum):
    """Devices that copy."""

    CPU = "cpu"
    CUDA = "cuda"


class Mode(StrEnum):
    """What the caches hold: what the last call left, nothing, or (timed too) what a reader of the result needs."""

    HOT = "hot"
    COLD = "cold"
    CONSUMER = "consumer"


def bench(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="CASE…",
            help="A standard case (or glob), FILE::TENSOR, SCRIPT.py::VARIABLE; none: all standard cases.",
            show_default=False,
        ),
    ] = None,
    device: Annotated[Where, typer.Option("--device", help="Where to copy.")] = Where.CPU,
    shape: Annotated[str | None, typer.Option("--shape", metavar="8,64,128", help="Time this shape.")] = None,
    permute: Annotated[
        str | None, typer.Option("--permute", metavar="0,2,1", help="… of a contiguous tensor, permuted so.")
    ] = None,
    strides: Annotated[
        str | None, typer.Option("--strides", metavar="1,512", help="… with these strides, in elements.")
    ] = None,
    dtype: Annotated[str | None, typer.Option("--dtype", help="… of this type [default: float32].")] = None,
    case: Annotated[
        list[str] | None, typer.Option("--case", metavar="GLOB", help="Only cases of this name.", show_default=False)
    ] = None,
    kernel: Annotated[
        list[str] | None,
        typer.Option(
            "--kernel", metavar="GLOB", help="Only these kernels (numpy, torch, c-avx2, …).", show_default=False
        ),
    ] = None,
    threads: Annotated[int, typer.Option("--threads", help="Threads that a kernel may use.")] = 1,
    mode: Annotated[
        Mode | None,
        typer.Option(
            "--mode", help="Caches warm or emptied, or the result read too [hot; cold on cuda].", show_default=False
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer, smaller cases, in a few seconds.")] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Allocate the result in each call, page faults and all.")
    ] = False,
    sort: SortOption = None,
    top: TopOption = None,
    json: JsonFlag = False,
    format: Annotated[Format | None, format_option("text", "json", "ndjson", "csv", "markdown", "svg", "html")] = None,
    output: OutputPath = None,
    force: ForceFlag = False,
    color: ColorOption = "auto",
) -> None:
    """Time copies beside this machine's own peak, and say why one is slow.

    Keys of --sort: case, time, fraction.
    """
    from stridetool.cli.benching import Request, run_bench
    from stridetool.cli.output import Output

    formats = ("text", "json", "ndjson", "csv", "markdown", "svg", "html")
    where = Output.choose(formats, json=json, format=format, path=output, force=force, color=color)
    request = Request(
        targets=tuple(targets or ()),
        device=device.value,
        shape=shape,
        permute=permute,
        strides=strides,
        dtype=dtype,
        patterns=tuple(case or ()),
        kernels=tuple(kernel or ()),
        threads=threads,
        mode=mode.value if mode else None,
        quick=quick,
        fresh=fresh,
        sort=sort,
        top=top,
    )
    run_bench(request, where)
