"""What `alloc-report` does with its options: targets to reports, and the way these are written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import msgspec
import typer

from stridetool.analysis.alloc_findings import outliers, repaired_finding, report_findings, settings_findings
from stridetool.analysis.conditions import Conditions
from stridetool.cli.allocation_films import PICTURES, Filmed, filmed_parts, shown
from stridetool.cli.allocation_parts import Part, parts_of
from stridetool.cli.allocation_request import Request, conditions_of
from stridetool.cli.allocation_targets import AllocationTarget, open_targets
from stridetool.cli.output import Output, say_error, terminal_width
from stridetool.errors import UsageError
from stridetool.report.alloc import AllocReport, DeviceReport, DevicesReport
from stridetool.report.documents import to_json
from stridetool.report.envelope import Envelope, Finding, envelope

FAILED = 1


def run_alloc_report(request: Request, where: Output) -> None:
    """Report, and end with 1 when a script failed for another reason than memory."""
    conditions = conditions_of(request)
    with ExitStack() as stack:
        targets = open_targets(request.targets, request.message, stack)
        if request.events:
            if len(targets) != 1:
                raise UsageError("--events is for one target")
            where.write(_event_lines(targets[0], request, conditions))
            return
        if where.format in PICTURES:
            filmed = [filmed for target in targets for filmed in filmed_parts(target, request, conditions)]
        else:
            filmed = [(part, None) for target in targets for part in parts_of(target, request, conditions, None)]
        filmed = [(_tried(part, request), film) for part, film in filmed]
    parts = [part for part, _ in filmed]
    document = _document(parts, request, conditions)
    where.write(_pictures(document, filmed, where) if where.format in PICTURES else _text(document, where))
    failures = [part.failure for part in parts if part.failure is not None]
    for failure in failures:
        say_error(failure.message, failure.hint)
    if failures:
        raise typer.Exit(FAILED)


def _tried(part: Part, request: Request) -> Part:
    """The report with other settings tried, where that was asked for."""
    if part.case is None or not (request.what_if or request.sweep) or not isinstance(part.report, DeviceReport):
        return part
    from stridetool.cli.sweeping import tried

    return replace(part, report=tried(part.report, part.case, request.what_if, request.sweep, part.expandable))


def _document(parts: list[Part], request: Request, conditions: Conditions) -> Envelope[Any]:
    findings = list(settings_findings(conditions.settings, conditions.fraction))
    if request.settings is not None and "cudaMallocAsync" in request.settings:
        message = "cudaMallocAsync is the driver's own allocator; this is what torch's would do"
        findings.append(Finding("backend", "warning", message, "--settings"))
    for part in parts:
        findings += part.findings
        if isinstance(part.report, DeviceReport):
            findings += report_findings(part.report)
            findings += _faults(part)
    reports = [part.report for part in parts]
    if len(reports) == 1:
        return envelope("alloc-report", reports[0], tuple(findings))
    devices = tuple(report for report in reports if isinstance(report, DeviceReport))
    if len(devices) != len(reports):
        raise UsageError("out-of-memory messages are reported one at a time, without other targets")
    apart = outliers(devices)
    for index in apart:
        report = devices[index]
        findings.append(
            Finding("outlier", "warning", "this rank holds much more or less than the others", _name(report))
        )
    return envelope("alloc-report", DevicesReport(devices=devices, outliers=apart), tuple(findings))


def _name(report: DeviceReport) -> str:
    return f"{report.source.path or report.source.kind} {report.device.name}"


def _faults(part: Part) -> Iterator[Finding]:
    """Failures of a trace that a repaired allocator would not have had."""
    report, case = part.report, part.case
    if not isinstance(report, DeviceReport) or not report.device.simulated or report.outcome is None or case is None:
        return
    ooms = len(report.outcome.ooms)
    if ooms and case.conditions.policy == "2.14":
        from stridetool.analysis.what_if import failures_when_repaired

        finding = repaired_finding(ooms, failures_when_repaired(case))
        if finding is not None:
            yield finding


def _event_lines(target: AllocationTarget, request: Request, conditions: Conditions) -> Iterator[str]:
    """A line per event, and last the envelope."""
    lines: list[bytes] = []
    encode = msgspec.json.Encoder().encode
    parts = list(parts_of(target, request, conditions, lambda line: lines.append(encode(line))))
    yield from (line.decode() + "\n" for line in lines)
    parts = [_tried(part, request) for part in parts]
    document = msgspec.to_builtins(_document(parts, request, conditions))
    yield encode({"type": "summary", **document}).decode() + "\n"


def _pictures(document: Envelope[AllocReport], filmed: Sequence[Filmed], where: Output) -> Iterable[str]:
    """The document as a drawing or a page, or the histories for a trace viewer."""
    if where.format == "perfetto":
        from stridetool.render.perfetto import trace_events

        return trace_events(film for _, film in filmed if film is not None)
    from stridetool.render.alloc_page import alloc_page, alloc_svg

    drawn = [one for part, film in filmed for one in shown(part, film)]
    return alloc_svg(drawn) if where.format == "svg" else alloc_page(document, drawn)


def _text(document: Envelope[AllocReport], where: Output) -> Iterable[str]:
    """The document in the chosen format, in chunks."""
    if where.format == "json":
        return [to_json(document)]
    from stridetool.cli.present import text_of
    from stridetool.render.alloc_text import alloc_blocks

    return text_of("stride-tool alloc-report", alloc_blocks(document, terminal_width()), where)
