"""The document of `alloc-report`: one report, or several together, and the findings about them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from stridetool.analysis.alloc_findings import outliers, repaired_finding, report_findings, settings_findings
from stridetool.analysis.conditions import Conditions
from stridetool.cli.allocation_parts import Part
from stridetool.cli.allocation_request import Request
from stridetool.errors import InputError, ProgramError
from stridetool.report.alloc import AllocReport, DeviceReport, DevicesReport, MessageReport
from stridetool.report.envelope import Envelope, Finding, envelope

Refused = tuple[str, InputError | ProgramError]  # the name of a target that gives no report, and why


def document_of(
    parts: Sequence[Part], refused: Sequence[Refused], request: Request, conditions: Conditions
) -> Envelope[AllocReport]:
    """The document of at least one part; the targets that give none are findings."""
    several = len(parts) + len(refused) > 1
    report = _together([part.report for part in parts]) if several else parts[0].report
    findings = list(_of_settings(request, conditions))
    findings += [_not_reported(name, error) for name, error in refused]
    for part in parts:
        findings += _of_part(part, several)
    if isinstance(report, DevicesReport):
        findings += _of_outliers(report)
    return envelope("alloc-report", report, tuple(findings))


def _not_reported(name: str, error: InputError | ProgramError) -> Finding:
    """The error, whose text names the target too, as a finding on it."""
    return Finding("not-reported", "error", error.message.replace(f" {name}: ", ": ", 1), name, error.hint)


def _together(reports: Sequence[DeviceReport | MessageReport]) -> DevicesReport:
    devices = tuple(report for report in reports if isinstance(report, DeviceReport))
    messages = tuple(report for report in reports if isinstance(report, MessageReport))
    return DevicesReport(devices=devices, outliers=outliers(devices), messages=messages)


def _of_settings(request: Request, conditions: Conditions) -> Iterator[Finding]:
    yield from settings_findings(conditions.settings, conditions.fraction)
    if request.settings is not None and "cudaMallocAsync" in request.settings:
        message = "cudaMallocAsync is the driver's own allocator; this is what torch's would do"
        yield Finding("backend", "warning", message, "--settings")


def _of_part(part: Part, several: bool) -> Iterator[Finding]:
    report = part.report
    yield from (_at(finding, report.source.name) if several else finding for finding in part.findings)
    if isinstance(report, DeviceReport):
        yield from report_findings(report, _name(report) if several else report.device.name)
        yield from _faults(report, part)


def _of_outliers(report: DevicesReport) -> Iterator[Finding]:
    message = "this rank holds much more or less than the others"
    yield from (Finding("outlier", "warning", message, _name(report.devices[index])) for index in report.outliers)


def _at(finding: Finding, source: str) -> Finding:
    """With several targets a finding names its own."""
    return msgspec.structs.replace(finding, where=source if finding.where is None else f"{source} {finding.where}")


def _name(report: DeviceReport) -> str:
    return f"{report.source.name} {report.device.name}"


def _faults(report: DeviceReport, part: Part) -> Iterator[Finding]:
    """Failures of a trace that a repaired allocator would not have had."""
    if not report.device.simulated or report.outcome is None or part.case is None:
        return
    ooms = len(report.outcome.ooms)
    if ooms and part.case.conditions.policy == "2.14":
        from stridetool.analysis.what_if import failures_when_repaired

        finding = repaired_finding(ooms, failures_when_repaired(part.case))
        if finding is not None:
            yield finding
