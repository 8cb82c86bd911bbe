"""From one target of `alloc-report` to its reports: messages, recordings, traces, and scripts that are run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from msgspec.structs import replace as replace_struct

from stridetool.analysis.alloc_findings import (
    partial_finding,
    recording_findings,
    unknown_field_finding,
    unknown_share_finding,
)
from stridetool.analysis.conditions import Conditions
from stridetool.analysis.moments import absent
from stridetool.analysis.what_if import Case
from stridetool.cli.allocation_request import Request
from stridetool.cli.allocation_targets import AllocationTarget
from stridetool.core.memory.oom_message import OomMessage
from stridetool.core.memory.recorded import Recording
from stridetool.errors import InputError, ProgramError, UsageError
from stridetool.report.alloc import DeviceReport, EventLine, MessageReport
from stridetool.report.envelope import Finding
from stridetool.report.inspect import Source
from stridetool.sources.alloc_trace import FIELDS
from stridetool.sources.allocations import Trace

Emit = Callable[[EventLine], None]


@dataclass(frozen=True, slots=True)
class Part:
    """One report, what the tries of other settings start from, and what is to be said of it.

    `expandable` is False where the recording shows that expandable segments are not to be had (Windows); `sites[i]`
    is the place in a script that asked for event i.
    """

    report: DeviceReport | MessageReport
    case: Case | None = None
    findings: tuple[Finding, ...] = ()
    failure: ProgramError | None = None
    expandable: bool = True
    sites: Sequence[str] = ()


def parts_of(target: AllocationTarget, request: Request, conditions: Conditions, emit: Emit | None) -> Iterator[Part]:
    """The parts of one target: one for each device of a recording or a script, else one. Raises InputError where
    none of its histories has the moment of `--at`."""
    parts = list(_parts(target, request, conditions, emit))
    reports = [part.report for part in parts if isinstance(part.report, DeviceReport)]
    if request.at is not None and reports and all(report.at is None for report in reports):
        longest = max(0 if report.outcome is None else report.outcome.events for report in reports)
        raise _about(target.source, absent(request.at, longest))
    yield from parts


def _parts(target: AllocationTarget, request: Request, conditions: Conditions, emit: Emit | None) -> Iterator[Part]:
    content = target.content
    if isinstance(content, OomMessage):
        from stridetool.analysis.oom_diagnosis import diagnose

        report, findings = diagnose(target.source, content)
        yield Part(report, None, findings)
    elif isinstance(content, Recording):
        yield from _naming(target.source, _recording_parts(target.source, content, request, conditions, emit))
    elif isinstance(content, Trace):
        yield from _naming(target.source, _trace_parts(target.source, content, request, conditions, emit))
    else:
        yield from _script_parts(target, request, conditions, emit)


def _naming(source: Source, parts: Iterator[Part]) -> Iterator[Part]:
    """The parts; what a replay refuses is an error about its file."""
    try:
        yield from parts
    except (InputError, UsageError) as error:
        raise _about(source, error) from error


def _about(source: Source, error: InputError | UsageError) -> InputError:
    reason = error.message.removeprefix("cannot replay ")
    return InputError(f"cannot replay {source.name}: {reason}", hint=error.hint)


def _trace_parts(
    source: Source, trace: Trace, request: Request, conditions: Conditions, emit: Emit | None
) -> Iterator[Part]:
    from stridetool.analysis.trace_report import trace_report

    done = trace_report(source, trace.events, conditions, at=request.at, top=request.rows, emit=emit)
    findings = tuple(unknown_field_finding(field.name, field.line, FIELDS) for field in trace.unknown)
    yield Part(done.report, Case(done.program, conditions), findings)


def _recording_parts(
    source: Source, recording: Recording, request: Request, conditions: Conditions, emit: Emit | None
) -> Iterator[Part]:
    from stridetool.analysis.recorded_settings import recorded_settings
    from stridetool.analysis.recording_report import recording_reports

    assumed: tuple[str, ...] = ()
    if request.settings is None:
        settings, assumed = recorded_settings(recording)
        conditions = replace(conditions, settings=settings)
    policies = ("2.14", "2.11") if request.policy is None else (request.policy,)
    done = recording_reports(
        source, recording, conditions, assumed, policies=policies, at=request.at, top=request.rows, emit=emit
    )
    remarks = tuple(recording_findings(recording))
    for each in done:
        exact = each.report.exactness
        capacity = conditions.capacity or each.usable_bytes
        case = Case(
            each.program,
            replace(
                conditions,
                capacity=capacity,
                policy=exact.policy if exact is not None else conditions.policy,
                stream_events="manual",
            ),
            warm=each.warm,
        )
        name = each.report.device.name
        if case.warm is not None:
            remarks += (partial_finding(name),)
        if conditions.fraction < 1.0 and capacity is None:
            remarks += (unknown_share_finding(name),)
        report = replace_struct(each.report, given_bytes=_given_bytes(conditions, capacity))
        yield Part(report, case, remarks, expandable=not each.is_windows)
        remarks = ()


def _given_bytes(conditions: Conditions, capacity: int | None) -> int | None:
    """The memory that a recording is judged under, where that is not its own."""
    if capacity is None or (conditions.capacity is None and conditions.fraction == 1.0):
        return None
    return int(capacity * conditions.fraction)


def _script_parts(
    target: AllocationTarget, request: Request, conditions: Conditions, emit: Emit | None
) -> Iterator[Part]:
    """Run the script once with its allocations recorded, then replay these. Running out of memory is a result."""
    from stridetool.analysis.cpu_report import direct_report
    from stridetool.analysis.trace_report import trace_report
    from stridetool.cli.allocation_scripts import run_recorded

    traces, failure, conditions = run_recorded(target, request, conditions)
    source, rows = target.source, request.rows
    for trace in traces:
        if trace.device == "cpu":
            yield Part(direct_report(source, trace.events, trace.sites, at=request.at, top=rows), None, (), failure)
            continue
        done = trace_report(source, trace.events, conditions, at=request.at, top=rows, emit=emit, names=trace.sites)
        yield Part(done.report, Case(done.program, conditions), (), failure, sites=trace.sites)
