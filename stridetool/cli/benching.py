"""What `bench` does with its options: cases, a device, a run, and the way each case is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import typer

from stridetool.bench.backend import Backend, Settings
from stridetool.bench.cases import Case
from stridetool.bench.run import Run
from stridetool.bench.sampling import Limits
from stridetool.cli.output import Output
from stridetool.cli.progress import progress_bar
from stridetool.errors import UsageError
from stridetool.programs.streams import our_stdout
from stridetool.report.bench import BenchReport, CaseRow
from stridetool.report.documents import to_json
from stridetool.report.envelope import Envelope, envelope

WRONG = 1
_MAX_THREADS = 256
_SORTS: dict[str, Callable[[CaseRow], Any]] = {
    "case": lambda row: row.case,
    "time": lambda row: -max((kernel.median_seconds for kernel in row.kernels), default=0.0),
    "fraction": lambda row: min((kernel.fraction_of_peak for kernel in row.kernels), default=0.0),
}
"""Keys of `--sort`: by name, the slowest first, the furthest from the peak first."""


@dataclass(frozen=True, slots=True)
class Request:
    """The options of `bench`."""

    targets: tuple[str, ...]
    device: str
    shape: str | None
    permute: str | None
    strides: str | None
    dtype: str | None
    patterns: tuple[str, ...]
    kernels: tuple[str, ...]
    threads: int
    mode: str | None
    quick: bool
    fresh: bool
    sort: str | None
    top: int | None


def run_bench(request: Request, where: Output) -> None:
    """Measure, write, and end with 1 when a kernel wrote something wrong."""
    if not 1 <= request.threads <= _MAX_THREADS:
        raise UsageError(f"cannot use {request.threads} threads", hint=f"1 to {_MAX_THREADS}")
    if request.sort is not None and request.sort not in _SORTS:
        raise UsageError(f"cannot sort by {request.sort!r}", hint=f"one of {', '.join(_SORTS)}")
    cases = _cases(request)
    backend = _backend(request.device)
    run = Run(cases, _settings(request), backend, progress_bar)
    where.write(_streamed(run, backend) if where.format == "ndjson" else _whole(run, backend, request, where))
    if any(finding.severity == "error" for finding in run.findings):
        raise typer.Exit(WRONG)


def _cases(request: Request) -> tuple[Case, ...]:
    from stridetool.cli.copy_targets import case_from_options, cases_of

    if request.shape is None:
        for option in ("permute", "strides", "dtype"):
            if getattr(request, option) is not None:
                raise UsageError(f"cannot use --{option} without --shape", hint="--shape 8,64,128")
        return cases_of(request.targets, request.patterns, quick=request.quick)
    if request.targets or request.patterns:
        raise UsageError("cannot time a shape and named cases in one run", hint="give one or the other")
    return (case_from_options(request.shape, request.permute, request.strides, request.dtype or "float32"),)


def _settings(request: Request) -> Settings:
    """The standard cases take less than a minute in all, the quick ones less than fifteen seconds."""
    return Settings(
        threads=request.threads,
        mode=request.mode or ("cold" if request.device == "cuda" else "hot"),
        fresh=request.fresh,
        kernels=request.kernels,
        limits=Limits(seconds=0.5 if request.quick else 1.0),
        total_seconds=10.0 if request.quick else 45.0,
    )


def _backend(device: str) -> Backend:
    if device == "cpu":
        from stridetool.bench.host import HostBackend

        return HostBackend()
    from stridetool.bench.cuda import cuda_backend

    return cuda_backend()


def _streamed(run: Run, backend: Backend) -> Iterator[str]:
    from stridetool.render.bench_tables import ndjson_case, ndjson_end, ndjson_head

    yield ndjson_head(backend.device, run.peak, envelope("bench", None, (), backend.facts()).environment)
    for row, findings in run:
        our_stdout().flush()
        yield ndjson_case(row, findings)
    yield ndjson_end(run.findings)


def _whole(run: Run, backend: Backend, request: Request, where: Output) -> Iterable[str]:
    for _ in run:
        pass
    report = run.report
    rows = sorted(report.cases, key=_SORTS[request.sort]) if request.sort else report.cases
    report = msgspec.structs.replace(report, cases=tuple(rows[: request.top]))
    return _text(envelope("bench", report, tuple(run.findings), backend.facts()), where)


def _text(document: Envelope[BenchReport], where: Output) -> Iterable[str]:
    from stridetool.render import bench_tables, bench_text

    if where.format == "json":
        return [to_json(document)]
    if where.format == "csv":
        return bench_tables.bench_csv(document)
    if where.format == "markdown":
        return bench_tables.bench_markdown(document)
    if where.format in ("svg", "html"):
        from stridetool.render.bench_page import bench_page, bench_svg

        return bench_svg(document) if where.format == "svg" else bench_page(document)
    from stridetool.cli.present import text_of

    return text_of("stride-tool bench", bench_text.bench_blocks(document), where)
