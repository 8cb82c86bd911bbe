"""The report on one program: what it left in memory, and the operations that led there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stridetool.analysis.findings import inspect_findings
from stridetool.analysis.operations import operation_rows
from stridetool.analysis.pictures import CELLS
from stridetool.analysis.tables import tables
from stridetool.core.facts import ArrayFacts, HiddenStorage
from stridetool.core.trace import Record
from stridetool.report.envelope import Finding
from stridetool.report.inspect import InspectReport, Source


def program_report(
    source: Source,
    arrays: Sequence[ArrayFacts],
    hidden: Sequence[HiddenStorage],
    records: Sequence[Record],
    *,
    names: Mapping[int, str],
    set_by: Mapping[int, str],
    operations: int,
    copied_bytes: int,
    simulated: bool = False,
    cells: int = CELLS,
    first_storage: int = 0,
) -> tuple[InspectReport, tuple[Finding, ...]]:
    """The report and its findings.

    `names` are those of tensors by serial number; `set_by` says for the index of a failed record which operation
    gave its input the layout that it has; `operations` and `copied_bytes` count all that were run, kept or not.
    """
    found = tables(arrays, [source.path] * len(arrays), hidden, cells, first_storage)
    report = InspectReport(
        source=source,
        sources=(source,),
        tensors=found.tensors,
        storages=found.storages,
        operations=tuple(operation_rows(records, names, set_by)),
        operations_dropped=operations - len(records),
        copied_bytes=copied_bytes,
        simulated=simulated,
        pictures=found.pictures,
    )
    return report, inspect_findings(report)
