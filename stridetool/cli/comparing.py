"""What `compare` does with two documents: read them, compare by their kind, write, and say whether it got worse."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import typer

from stridetool.cli.options import PIPE, STDIN
from stridetool.cli.output import Output
from stridetool.cli.present import text_of
from stridetool.errors import InputError, UsageError
from stridetool.render.compare_text import compare_blocks
from stridetool.report.compare import CompareReport
from stridetool.report.documents import from_json, to_json
from stridetool.report.envelope import Envelope, Finding, envelope

WORSE = 1
_MAX_BYTES = 1 << 30


def run_compare(old: Path, new: Path, threshold: str, where: Output) -> None:
    """Compare, write, and end with 1 when something is worse beyond the threshold."""
    limit = _fraction(threshold)
    if str(old) == str(new) == PIPE:
        raise UsageError("cannot compare stdin with itself", hint="one of the two is a file")
    before, after = _read(old), _read(new)
    kind = before.schema.removeprefix("stride-tool/")
    if before.schema != after.schema:
        raise UsageError(f"cannot compare {before.schema} with {after.schema}", hint="both of one kind")
    lists, findings = _compared(kind, before, after, limit)
    report = CompareReport(compared=kind, old=str(old), new=str(new), threshold=limit, **lists)
    document = envelope("compare", report, findings)
    where.write(_text(document, where))
    if report.is_beyond:
        raise typer.Exit(WORSE)


def _text(document: Envelope[CompareReport], where: Output) -> Iterable[str]:
    if where.format == "json":
        return [to_json(document)]
    if where.format in ("svg", "html"):
        from stridetool.render.bench_page import compare_page, compare_svg

        return compare_svg(document) if where.format == "svg" else compare_page(document)
    return text_of("stride-tool compare", compare_blocks(document), where)


def _compared(
    kind: str, old: Envelope[Any], new: Envelope[Any], threshold: float
) -> tuple[dict[str, Any], tuple[Finding, ...]]:
    """The lists of the report that the kind fills, and the findings."""
    if kind == "bench":
        from stridetool.analysis.bench_changes import compare_bench

        kernels, findings = compare_bench(old, new, threshold)
        return {"kernels": kernels}, findings
    if kind == "alloc-report":
        import msgspec

        from stridetool.analysis.number_changes import compare_alloc

        before, after = msgspec.to_builtins(old.report), msgspec.to_builtins(new.report)
        return {"numbers": compare_alloc(before, after, threshold)}, ()
    if kind == "inspect":
        from stridetool.analysis.tensor_changes import compare_inspect

        return {"tensors": compare_inspect(old.report, new.report)}, ()
    raise UsageError(f"cannot compare reports of {kind}", hint="bench, alloc-report and inspect can be compared")


def _read(path: Path) -> Envelope[Any]:
    from stridetool.cli.tensor_reports import tensor_report
    from stridetool.sources.file_bytes import read_stream, read_whole

    if str(path) == PIPE:
        return _document(read_stream(sys.stdin.buffer, _MAX_BYTES), STDIN)
    try:
        if (inspected := tensor_report(path)) is not None:
            return inspected
        if path.is_char_device():  # endless, as /dev/zero is
            raise InputError(f"cannot read {path}: it is no regular file")
        with path.open("rb") as file:
            data = read_whole(file, _MAX_BYTES)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    return _document(data, str(path))


def _document(data: bytes | None, name: str) -> Envelope[Any]:
    if data is None:
        raise InputError(f"cannot read {name}: it is larger than any report")
    return from_json(data, name)


def _fraction(text: str) -> float:
    """`5%` or `0.05`. Raises UsageError for anything else."""
    number, percent = (text[:-1], True) if text.endswith("%") else (text, False)
    try:
        value = float(number) / (100 if percent else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise UsageError(f"cannot read --threshold {text!r}", hint="write it like 5% or 0.05")
    return value
