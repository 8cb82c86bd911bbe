"""Other settings for a part of `alloc-report`: tried where that was asked for, else the command that would."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import msgspec

from stridetool.analysis.certificate import peak_certificate
from stridetool.analysis.what_if import Case
from stridetool.cli.allocation_parts import Part
from stridetool.cli.allocation_request import Request, run_command, sweep_command
from stridetool.cli.progress import announced
from stridetool.report.alloc import DeviceReport

_TIMES = 6  # that a sweep replays the trace for each setting, about


def tried_part(part: Part, request: Request, quiet: bool) -> Part:
    """The part with its tries, and with the next step where requests fail and no setting is known to help."""
    report, case = part.report, part.case
    if case is None or not isinstance(report, DeviceReport):
        return part
    if report.given_bytes is not None:
        report = _judged(report, case, report.given_bytes)
    if request.what_if or request.sweep or (report.given_bytes is not None and report.has_history):
        report = _tried(report, case, request, part.expandable, quiet)
    return replace(part, report=msgspec.structs.replace(report, next_step=_next_step(report, request)))


def _judged(report: DeviceReport, case: Case, given_bytes: int) -> DeviceReport:
    """With the proof that nothing helps where more was asked for at once than is given, whatever failed as recorded."""
    if report.is_hopeless:
        return report
    proof = peak_certificate(case.program, given_bytes) or report.certificate
    return msgspec.structs.replace(report, certificate=proof)


def _next_step(report: DeviceReport, request: Request) -> str | None:
    if not request.sweep and _is_open(report):
        return sweep_command(request, report.source.name)
    if report.source.kind == "script" and report.recommended is not None and report.is_cut:
        return run_command(request, report.source.name, report.recommended.settings)
    return None


def _tried(report: DeviceReport, case: Case, request: Request, expandable: bool, quiet: bool) -> DeviceReport:
    """Without a history nothing is recommended: all that is known is how things stood."""
    from stridetool.analysis.quick_replay import EVENTS_PER_SECOND
    from stridetool.analysis.what_if import GRID
    from stridetool.cli.sweeping import tried

    events = len(case.program.rows)
    choices = 1 + len(request.what_if) + (len(GRID) if request.sweep else 0)
    saying = announced(f"trying other settings on {events:,} events", quiet=quiet, at_once=True)
    with saying if events * choices > EVENTS_PER_SECOND / _TIMES else nullcontext():
        report = tried(report, case, request.what_if, request.sweep, expandable)
    return report if report.has_history else msgspec.structs.replace(report, recommended=None)


def _is_open(report: DeviceReport) -> bool:
    """Whether requests fail, a setting could help, and none is known that does."""
    if report.recommended is not None or report.is_hopeless:
        return False
    as_it_is = report.cold_try(report.settings)
    return report.certificate is not None if as_it_is is None else not as_it_is.fits
