"""Traps and lessons in a report of `alloc-report`, as findings."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence

from stridetool.core.memory.recorded import DEFAULT_POOL, INACTIVE, HeldSegment, Recording
from stridetool.core.memory.settings import Settings
from stridetool.report.alloc import DeviceReport
from stridetool.report.envelope import Finding, Severity
from stridetool.units import format_bytes

_MUCH = 0.2  # of what is reserved
_PINNED_WASTE = 1.25


def settings_findings(settings: Settings, fraction: float) -> Iterator[Finding]:
    """What torch accepts silently but hardly anybody means."""
    for note in settings.notes:
        yield Finding("settings", "warning", note, "--settings")
    limited = fraction < 1.0 or settings.per_process_memory_fraction < 1.0
    if settings.garbage_collection_threshold and not limited:
        message = "garbage_collection_threshold does nothing without a memory fraction below 1"
        yield Finding("settings", "warning", message, "--settings", "torch.cuda.set_per_process_memory_fraction(0.95)")


def report_findings(report: DeviceReport, name: str) -> Iterator[Finding]:
    """About one device, which the findings call `name`."""
    proof = report.certificate
    if proof is not None and proof.no_setting_helps:
        message = (
            f"no setting helps: {format_bytes(proof.live_bytes)} live and {format_bytes(proof.request_bytes)} asked "
            f"for exceed the {format_bytes(proof.usable_bytes)} that the device can give"
        )
        yield Finding("no-setting-helps", "error", message, name, "less must be live at once")
    if not report.has_history and not report.device.simulated and report.device.name != "cpu":
        message = "the recording has no history of allocations: what happened before it is unknown"
        hint = "torch.cuda.memory._record_memory_history() at the start of the program records it"
        yield Finding("no-history", "warning", message, name, hint)
    yield from _memory(report, name)
    exact = report.exactness
    if exact is not None and exact.total and exact.predicted < exact.total:
        share = exact.predicted / exact.total
        severity: Severity = "warning" if share < 0.95 else "info"
        message = f"{exact.predicted:,} of {exact.total:,} addresses predicted: what-ifs are approximate"
        yield Finding("approximate", severity, message, name)


def _memory(report: DeviceReport, name: str) -> Iterator[Finding]:
    numbers = report.fragmentation
    private = _private_free(report)
    if private:
        message = (
            f"{format_bytes(private)} is free memory of private pools (CUDA graphs, MemPool): only these pools can use "
            "it, and torch's out-of-memory text counts it as allocated"
        )
        yield Finding("private-pools", "warning", message, name)
    if numbers.pinned_free_bytes > _MUCH * numbers.reserved_bytes:
        message = f"{format_bytes(numbers.pinned_free_bytes)} of free memory is pinned by live blocks beside it"
        yield Finding("pinned-memory", "warning", message, name, "the list of pins names the blocks")
    streams = {row.stream for row in report.free_memory if row.free_bytes}
    if len(streams) > 1 and numbers.external_bytes > _MUCH * numbers.reserved_bytes:
        message = f"free memory is split over {len(streams)} streams; a block serves only the stream of its segment"
        yield Finding("stream-memory", "info", message, name)


def _private_free(report: DeviceReport) -> int:
    return sum(
        block.size
        for segment in report.segments
        if tuple(segment.pool_id) != DEFAULT_POOL
        for block in segment.blocks
        if block.state == INACTIVE
    )


def recording_findings(recording: Recording) -> Iterator[Finding]:
    """About the file and the pinned host memory in it."""
    for remark in recording.remarks:
        yield Finding(remark.code, "warning", remark.message, remark.where)
    yield from _pinned(recording.pinned)


def partial_finding(name: str) -> Finding:
    """What can be trusted of a recording that begins in the middle."""
    message = (
        "the recording begins in the middle of the run: peaks, failures and the floor are those of the entries that it "
        "keeps, and older ones are lost"
    )
    hint = "record from the start of the program, with a larger max_entries of _record_memory_history()"
    return Finding("partial-recording", "info", message, name, hint)


def unknown_share_finding(name: str) -> Finding:
    """A share of nobody knows how much."""
    message = "--fraction limits nothing: the recording does not tell how much memory the device has"
    return Finding("unknown-capacity", "warning", message, name, "give --capacity or --device too")


def _pinned(segments: Sequence[HeldSegment]) -> Iterator[Finding]:
    held = sum(segment.size for segment in segments)
    asked = sum(block.requested for segment in segments for block in segment.blocks if block.state != INACTIVE)
    if held > _PINNED_WASTE * asked and held > 1 << 20:
        message = (
            f"{format_bytes(held)} of pinned host memory serves {format_bytes(asked)}: sizes are rounded up to powers "
            "of two and blocks never split"
        )
        yield Finding("pinned-host-memory", "info", message, None, "pinned_max_round_threshold_mb limits the rounding")


def unknown_field_finding(name: str, line: int, known: Sequence[str]) -> Finding:
    """A field of a trace that no event has: perhaps a slip of the pen for one of `known`."""
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]}?" if close else f"fields are {', '.join(known)}"
    return Finding("unknown-field", "warning", f'no event has a field "{name}": it is ignored', f"line {line:,}", hint)


def repaired_finding(ooms: int, repaired: int) -> Finding | None:
    """A failure that a repaired allocator does not have is torch's own fault."""
    if repaired >= ooms:
        return None
    message = f"{ooms - repaired} of {ooms} failures come from known faults of torch (see --policy fixed)"
    hint = "the same request again may succeed: torch does not search its pools again after releasing memory"
    return Finding("known-fault", "warning", message, None, hint)


def outliers(reports: Sequence[DeviceReport]) -> tuple[int, ...]:
    """Devices or ranks that reserve or allocate much more or less than the middle one."""
    if len(reports) < 3:
        return ()
    reserved = [report.fragmentation.reserved_bytes for report in reports]
    allocated = [report.fragmentation.allocated_bytes for report in reports]
    return tuple(sorted({*_apart(reserved), *_apart(allocated)}))


def _apart(values: Sequence[int]) -> Iterable[int]:
    """Indices of values further from the median than 3 typical deviations and a twentieth of it."""
    middle = sorted(values)[len(values) // 2]
    typical = sorted(abs(value - middle) for value in values)[len(values) // 2]
    return (i for i, value in enumerate(values) if abs(value - middle) > max(3 * typical, middle // 20))
