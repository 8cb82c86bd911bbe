"""`--sort`, `--top` and `--show-copies-only`: which rows of a report come first, and how many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from stridetool.errors import UsageError
from stridetool.report.inspect import InspectReport, TensorRow


def arranged(
    report: InspectReport, *, sort: str | None = None, top: int | None = None, copies_only: bool = False
) -> InspectReport:
    """The report with its tensors sorted (`name`, `bytes` or `waste`, the largest first) and cut to `top` rows.

    Raises UsageError for another key.
    """
    tensors, operations = report.tensors, report.operations
    if sort is not None:
        tensors = tuple(sorted(tensors, key=_key(sort, report)))
    if copies_only:
        operations = tuple(operation for operation in operations if operation.copied)
    return msgspec.structs.replace(report, tensors=tensors[:top], operations=operations[:top])


def _key(sort: str, report: InspectReport) -> Callable[[TensorRow], Any]:
    waste = {s.id: s.nbytes - s.reached_bytes if s.reached_bytes is not None else 0 for s in report.storages}
    keys: dict[str, Callable[[TensorRow], Any]] = {
        "name": lambda tensor: tensor.name,
        "bytes": lambda tensor: (-tensor.nbytes, tensor.name),
        "waste": lambda tensor: (-waste.get(tensor.storage or "", 0), tensor.name),
    }
    if sort not in keys:
        raise UsageError(f"cannot sort by {sort!r}", hint=f"sort by {', '.join(keys)}")
    return keys[sort]
