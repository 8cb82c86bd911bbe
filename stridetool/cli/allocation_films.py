"""What the pictures of `alloc-report` need beyond its report: each device's history, and other settings' courses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stridetool.analysis.conditions import Conditions
from stridetool.analysis.film import courses, film_of_case, film_of_recording
from stridetool.cli.allocation_parts import Part, parts_of
from stridetool.cli.allocation_request import Request
from stridetool.cli.allocation_targets import AllocationTarget
from stridetool.core.memory.recorded import Recording
from stridetool.render.alloc_page import Shown
from stridetool.report.alloc import DeviceReport
from stridetool.report.film import Film

PICTURES = ("svg", "html", "perfetto")


Filmed = tuple[Part, Film | None]


def filmed_parts(target: AllocationTarget, request: Request, conditions: Conditions) -> Iterator[Filmed]:
    """The parts of one target, each with its history where it has one."""
    allocated: list[int] = []  # after each entry, device by device
    parts = list(parts_of(target, request, conditions, lambda line: allocated.append(line.allocated_bytes)))
    first = 0
    for number, part in enumerate(parts):
        lines = part.report.outcome.events if isinstance(part.report, DeviceReport) and part.report.outcome else 0
        yield part, _film(target, number, part, allocated[first : first + lines])
        first += lines


def shown(part: Part, film: Film | None) -> Iterator[Shown]:
    """What is drawn of a part; nothing of a message."""
    if isinstance(part.report, DeviceReport):
        yield Shown(part.report, film, courses(part.case, part.report) if part.case is not None else ())


def _film(target: AllocationTarget, number: int, part: Part, allocated: Sequence[int]) -> Film | None:
    if not isinstance(part.report, DeviceReport) or part.case is None:
        return None
    if isinstance(target.content, Recording):
        device, settings = target.content.devices[number], part.case.conditions.settings
        return film_of_recording(device, part.report, settings, allocated)
    return film_of_case(part.case, part.report, part.sites)
