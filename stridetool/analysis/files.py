"""Tensor files → the report of `inspect` on them, and its findings."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

import msgspec

from stridetool.analysis.file_account import account
from stridetool.analysis.file_findings import file_findings, note_findings, of_file
from stridetool.analysis.file_rows import Geometries, file_rows
from stridetool.analysis.pictures import CELLS, picture
from stridetool.analysis.reach import Interval
from stridetool.core.tensor_file import TensorFile
from stridetool.errors import UsageError
from stridetool.report.envelope import Finding
from stridetool.report.files import FileAccount
from stridetool.report.inspect import InspectReport, Picture, Source, StorageRow, TensorRow

MAX_PICTURES = 8


class _Part(msgspec.Struct, frozen=True):
    """What one file gives."""

    tensors: list[TensorRow]
    storages: list[StorageRow]
    account: FileAccount
    pictures: list[Picture]
    findings: list[Finding]


def file_report(
    files: Sequence[TensorFile], *, tensors: Sequence[str] = (), cells: int = CELLS, first_storage: int = 0
) -> tuple[InspectReport, list[Finding]]:
    """One report over all files, and its findings.

    `tensors` are patterns of names: only what matches is listed, with the storages behind it; files are accounted
    for as a whole all the same. Storages are numbered from `first_storage` on. Raises UsageError for a pattern
    that names nothing.
    """
    geometries = Geometries()
    parts = list[_Part]()
    for file in files:
        parts.append(_part(file, first_storage, cells, geometries, several=len(files) > 1))
        first_storage += len(file.storages)
    sources = tuple(Source(file.kind, file.path) for file in files)
    report = InspectReport(
        source=sources[0] if sources else None,
        sources=sources,
        tensors=tuple(row for part in parts for row in part.tensors),
        storages=tuple(row for part in parts for row in part.storages),
        pictures=tuple(picture for part in parts for picture in part.pictures),
        files=tuple(part.account for part in parts),
    )
    return _chosen(report, tensors) if tensors else report, [f for part in parts for f in part.findings]


def _part(file: TensorFile, first_storage: int, cells: int, geometries: Geometries, *, several: bool) -> _Part:
    tensors, storages, lanes = file_rows(file, first_storage, geometries)
    accounted = account(file, tensors)
    findings = [*note_findings(file.notes), *file_findings(accounted, tensors, storages)]
    if several:
        findings = [of_file(finding, file.path) for finding in findings]
    return _Part(tensors, storages, accounted, _pictures(storages, lanes, cells), findings)


def _pictures(storages: Sequence[StorageRow], lanes: Sequence[list[list[Interval]]], cells: int) -> list[Picture]:
    """Of the first storages and of the first that several tensors share or that are not fully used."""
    odd = [n for n, s in enumerate(storages) if len(s.tensors) > 1 or s.reached_bytes != s.nbytes]
    chosen = sorted({*range(min(MAX_PICTURES, len(storages))), *odd[:MAX_PICTURES]})
    return [
        picture(storages[n].id, storages[n].nbytes, storages[n].tensors[:MAX_PICTURES], lanes[n][:MAX_PICTURES], cells)
        for n in chosen
        if storages[n].nbytes
    ]


def _chosen(report: InspectReport, patterns: Sequence[str]) -> InspectReport:
    """Only the tensors that match, their storages, and the pictures of these."""
    for pattern in patterns:
        if not any(_matches(tensor, pattern) for tensor in report.tensors):
            names = ", ".join(tensor.name for tensor in report.tensors[:10]) or "none"
            raise UsageError(f"cannot find a tensor {pattern!r}", hint=f"there are: {names}")
    kept = tuple(t for t in report.tensors if any(_matches(t, pattern) for pattern in patterns))
    used = {tensor.storage for tensor in kept}
    return msgspec.structs.replace(
        report,
        tensors=kept,
        storages=tuple(storage for storage in report.storages if storage.id in used),
        pictures=tuple(picture for picture in report.pictures if picture.storage in used),
    )


def _matches(tensor: TensorRow, pattern: str) -> bool:
    return tensor.name == pattern or fnmatchcase(tensor.name, pattern)
