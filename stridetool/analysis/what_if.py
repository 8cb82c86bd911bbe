"""The same requests under other settings: what would have been reserved, what would have failed, what it costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from stridetool.analysis.conditions import Conditions
from stridetool.analysis.packing import floor_bytes
from stridetool.analysis.quick_replay import EVENTS_PER_SECOND, EncodedTrace, ReplayOutcome, encode, quick_replay
from stridetool.analysis.replay import Program, Warm
from stridetool.core.memory.blocks import Block
from stridetool.core.memory.caching import CachingAllocator
from stridetool.core.memory.recorded import Kind, Range
from stridetool.core.memory.restore import install
from stridetool.core.memory.settings import SIZE_MAX, Settings
from stridetool.errors import OutOfMemoryError, UsageError
from stridetool.report.alloc import Recommendation, Untried, WhatIf
from stridetool.units import format_bytes

GRID = (
    "",
    "expandable_segments:True",
    *(f"max_split_size_mb:{size}" for size in (20, 64, 128, 256, 512, 1024)),
    *(f"roundup_power2_divisions:{n}" for n in (2, 4, 8, 16)),
    "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]",
    *(f"large_segment_size_mb:{size}" for size in (40, 64, 128)),
    "garbage_collection_threshold:0.8,per_process_memory_fraction:0.95",
    "garbage_collection_threshold:0.6,per_process_memory_fraction:0.95",
    "expandable_segments:True,roundup_power2_divisions:4",
    "expandable_segments:True,roundup_power2_divisions:8",
    "expandable_segments:True,large_segment_size_mb:64",
    "max_split_size_mb:128,roundup_power2_divisions:8",
    "max_split_size_mb:128,garbage_collection_threshold:0.8,per_process_memory_fraction:0.95",
    "max_split_size_mb:512,roundup_power2_divisions:4",
)
PAGE = 2 << 20  # bytes; the resolution of the smallest capacity
_BISECTED = 5 * EVENTS_PER_SECOND  # events, or as much work, for one smallest capacity at most
_CLOSE = 1.02  # settings whose peaks differ by less are as good as each other
_WORTH = 0.97  # of the peak as it is: less gain is no reason to change anything


@dataclass(frozen=True, slots=True)
class WarmStart:
    """Memory that is held when a trace begins: its ranges, its blocks (address → size, requested) in the order of
    the program's first allocations (those among its first `rows` events), the page size of its mapped memory, and
    where its reserved ranges begin."""

    ranges: tuple[Range, ...]
    live: dict[int, tuple[int, int]]
    order: tuple[int, ...]
    rows: int
    page: int
    reserved: Mapping[Kind, int] = field(default_factory=dict)

    def __call__(self, allocator: CachingAllocator) -> list[Block]:
        """Put it there. Raises OutOfMemoryError when the device is smaller."""
        blocks = install(allocator, self.ranges, self.live, page=self.page, reserved=self.reserved)
        return [blocks[address] for address in self.order]


@dataclass(frozen=True)
class Case:
    """A trace under the conditions that it is tried under; `warm` None: from an empty allocator."""

    program: Program
    conditions: Conditions
    warm: WarmStart | None = None
    stop: bytearray = field(default_factory=lambda: bytearray(1), repr=False)  # set: end what is being tried

    @cached_property
    def encoded(self) -> EncodedTrace | None:
        """The trace for the compiled replay, if there is one."""
        return encode(self.program, {each.stream for each in self.warm.ranges} if self.warm else ())

    @cached_property
    def changes_capacity(self) -> bool:
        """Whether the device itself grows or shrinks in it."""
        return any(event.op == "set_capacity" for event in self.program.events)

    @cached_property
    def floor_bytes(self) -> int:
        """What no allocator can do with less of."""
        return floor_bytes(self.program)


def try_settings(case: Case, settings: Settings) -> tuple[WhatIf, ...] | Untried:
    """One row; two for a recording that begins in the middle and ends differently from a warm and a cold start."""
    try:
        return _tried(case, settings)
    except UsageError as error:  # more pages than are simulated
        return Untried(settings.text or str(settings), error.message)


def _tried(case: Case, settings: Settings) -> tuple[WhatIf, ...]:
    conditions = replace(case.conditions, settings=settings)
    run = _run(case, conditions)
    cold = _row(run, settings, "empty" if case.warm is None else "cold", smallest_capacity(case, settings, run))
    if case.warm is None:
        return (cold,)
    try:
        warm = _row(_run(case, conditions, case.warm), settings, "warm", None)
    except OutOfMemoryError:
        return (cold,)
    same = (warm.peak_reserved_bytes, warm.ooms) == (cold.peak_reserved_bytes, cold.ooms)
    return (cold,) if same else (cold, warm)


def _row(run: ReplayOutcome, settings: Settings, start: str, smallest: int | None) -> WhatIf:
    return WhatIf(
        settings=settings.text or str(settings),
        start=start,
        peak_reserved_bytes=run.peak_reserved_bytes,
        peak_allocated_bytes=run.peak_allocated_bytes,
        ooms=len(run.ooms),
        retries=run.retries,
        device_calls=run.device_calls,
        smallest_capacity_bytes=smallest,
        fits=not run.ooms,
        cost=tuple(cost_of(settings)),
    )


def _run(case: Case, conditions: Conditions, warm: WarmStart | None = None, *, at_oom: bool = False) -> ReplayOutcome:
    start = None if warm is None else Warm(warm, warm.rows)
    return quick_replay(case.program, case.encoded, conditions, warm=start, stop_at_oom=at_oom, stop=case.stop)


def smallest_capacity(case: Case, settings: Settings, run: ReplayOutcome) -> int | None:
    """The least capacity, in steps of 2 MiB, under which nothing fails; `run` is the outcome under the case's own.

    By bisection, in unequal parts, upwards from what is asked for at once, as far as a bounded number of events
    allows: more than the least, then. None when nothing is enough.
    """
    if case.changes_capacity:
        return None
    conditions = replace(case.conditions, settings=settings)
    fitting = run
    if run.ooms or settings.garbage_collection_threshold:
        fitting = _run(case, replace(conditions, capacity=None))
    if fitting.ooms:
        return None
    low, high = case.floor_bytes // PAGE, _enough(fitting, conditions)
    budget = _BISECTED
    probe = high - 1  # often nothing less is enough
    while low < high and budget > 0:
        tight = _run(case, replace(conditions, capacity=max(probe, 1) * PAGE), at_oom=True)
        budget -= tight.work
        if tight.ooms:
            low = probe + 1
        elif settings.garbage_collection_threshold or settings.expandable_segments:
            high = probe
        else:
            high = min(probe, _enough(tight, conditions))
        probe = low + (high - low) // 4  # most failures come early: they cost less than what is followed to its end
    return max(high, 1) * PAGE


def _enough(run: ReplayOutcome, conditions: Conditions) -> int:
    """The pages of a device under which `run` goes the same way: what it got is there, and what it did not get is not.

    Nearly so where more goes by the size of the device: when garbage is collected, and how large the ranges of
    expandable segments are (9/8 of it, which only matters to a pool that outgrows one).
    """
    pages = -(-run.peak_reserved_bytes // PAGE)
    if conditions.settings.large_segment_size % PAGE:
        pages += pages // 8  # a segment of 20 MiB or more takes whole pages: up to a tenth more
    fraction = min(conditions.fraction, conditions.settings.per_process_memory_fraction)
    return pages if fraction == 1.0 else int(pages / fraction) + 2


def cost_of(settings: Settings) -> list[str]:
    """What a setting brings with it beside its effect on memory."""
    cost = []
    split = settings.max_split_size != SIZE_MAX
    if settings.expandable_segments:
        cost.append("not on Windows and WSL; memory shared between processes needs support of the driver")
    if settings.expandable_segments and split:
        cost.append("max_split_size_mb with expandable_segments leaks reserved memory (pytorch#123548)")
    elif split:
        cost.append("large blocks stay whole: more calls of cudaMalloc and cudaFree, which wait for the device")
    if max(settings.roundup_power2_divisions) > 1:
        cost.append("blocks are larger than asked for")
    if settings.garbage_collection_threshold and settings.per_process_memory_fraction < 1.0:
        cost.append("the memory fraction is a limit: requests beyond it fail")
    elif settings.garbage_collection_threshold:
        cost.append("garbage collection does nothing without a memory fraction below 1")
    if settings.large_segment_size > 20 << 20:
        cost.append("small programs reserve more")
    return cost


def ranked(rows: Iterable[WhatIf]) -> list[WhatIf]:
    """Those that avoid running out first, then by peak reserved, then by calls of the device."""
    return sorted(rows, key=lambda row: (row.ooms, row.peak_reserved_bytes, row.device_calls, len(row.settings)))


def recommend(
    rows: Sequence[WhatIf], current: str, *, expandable: bool = True, is_cut: bool = False
) -> Recommendation | None:
    """The simplest settings among the best, if they are better than the current ones by more than a little.

    `is_cut`: the trace ends at a failure, and what would have come behind it is not known.
    """
    start = next((row for row in rows if row.settings == current and row.start != "warm"), None)
    fitting = [row for row in rows if row.fits and row.start != "warm" and _is_safe(row, expandable)]
    if start is None or not fitting:
        return None
    best = min(row.peak_reserved_bytes for row in fitting)
    good = [row for row in fitting if row.peak_reserved_bytes <= best * _CLOSE]
    row = min(good, key=lambda row: (row.settings.count(":"), row.device_calls, row.peak_reserved_bytes))
    if start.fits and row.peak_reserved_bytes >= start.peak_reserved_bytes * _WORTH:
        return None
    if row.settings == current:
        return None
    return Recommendation(row.settings, _why(row, start, is_cut))


def _is_safe(row: WhatIf, expandable: bool) -> bool:
    wants = "expandable_segments:True" in row.settings
    return not (wants and ("max_split_size_mb" in row.settings or not expandable))


def _why(row: WhatIf, start: WhatIf, is_cut: bool) -> str:
    saved = start.peak_reserved_bytes - row.peak_reserved_bytes
    if not start.fits:
        failures = "1 request fails" if start.ooms == 1 else f"{start.ooms} requests fail"
        none = "nothing of what is known fails" if is_cut else "nothing fails"
        return f"{none}, where {failures} as it is; at most {format_bytes(row.peak_reserved_bytes)} reserved"
    share = saved / start.peak_reserved_bytes
    return f"at most {format_bytes(row.peak_reserved_bytes)} reserved, {format_bytes(saved)} ({share:.0%}) less"


def parsed(texts: Iterable[str]) -> list[Settings]:
    """Settings of `--what-if`. Raises UsageError with torch's words, naming the text."""
    found = []
    for text in texts:
        try:
            settings = Settings.parse(text)
        except UsageError as error:
            raise UsageError(f"--what-if {text}: {error.message}", hint=error.hint) from error
        if settings.backend != "native":
            raise UsageError(f"--what-if {text}: cudaMallocAsync is the driver's allocator, not torch's")
        found.append(settings)
    return found


def failures_when_repaired(case: Case) -> int:
    """How many requests fail under the same settings with torch's known faults repaired."""
    return len(_run(case, replace(case.conditions, policy="fixed")).ooms)
