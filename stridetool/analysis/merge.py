"""Several reports into one: every target keeps its name, nothing is renumbered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import TypeVar

from stridetool.report.inspect import InspectReport

T = TypeVar("T")


def merged(reports: Sequence[InspectReport]) -> InspectReport:
    """One report over all; a single one as it is. Storage ids must differ between the reports."""
    if len(reports) == 1:
        return reports[0]

    def joined(field: Callable[[InspectReport], Iterable[T]]) -> tuple[T, ...]:
        return tuple(chain.from_iterable(field(report) for report in reports))

    sources = joined(lambda report: report.sources)
    return InspectReport(
        source=sources[0] if sources else None,
        sources=sources,
        tensors=joined(lambda report: report.tensors),
        storages=joined(lambda report: report.storages),
        operations=joined(lambda report: report.operations),
        operations_dropped=sum(report.operations_dropped for report in reports),
        copied_bytes=sum(report.copied_bytes for report in reports),
        simulated=any(report.simulated for report in reports),
        pictures=joined(lambda report: report.pictures),
        files=joined(lambda report: report.files),
    )
