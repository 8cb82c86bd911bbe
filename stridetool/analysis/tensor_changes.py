"""Two reports on tensors: which are new, gone, or laid out, typed, shared or stored in another way."""

from __future__ import annotations

import os.path
from collections import Counter
from collections.abc import Iterator

from stridetool.analysis.wording import some
from stridetool.report.compare import TensorChange
from stridetool.report.inspect import InspectReport, StorageRow, TensorRow

_SHOWN_NAMES = 8


def compare_inspect(old: InspectReport, new: InspectReport) -> tuple[TensorChange, ...]:
    """Changes by tensor, in the order of the old report, then what is new. Tensors are matched by their names.

    A name that stands in several files counts with the name of its file.
    """
    before, after = _by_name(old), _by_name(new)
    old_sharing, new_sharing = _Sharing(old), _Sharing(new)
    changes: list[TensorChange] = []
    for name, tensor in before.items():
        if name not in after:
            changes.append(TensorChange(tensor=name, what="removed", old=_summary(tensor), new=None))
            continue
        facts = zip(_facts(tensor, old_sharing), _facts(after[name], new_sharing), strict=True)
        changes += [
            TensorChange(tensor=name, what=what, old=was, new=now) for (what, was), (_, now) in facts if was != now
        ]
    changes += [
        TensorChange(tensor=name, what="added", old=None, new=_summary(tensor))
        for name, tensor in after.items()
        if name not in before
    ]
    return tuple(changes)


class _Sharing:
    """Storages by id, to say with whom a tensor shares its bytes and how many there are."""

    def __init__(self, report: InspectReport) -> None:
        self._storages = {storage.id: storage for storage in report.storages}

    def storage(self, tensor: TensorRow) -> StorageRow | None:
        return self._storages.get(tensor.storage or "")

    def partners(self, tensor: TensorRow) -> str:
        storage = self.storage(tensor)
        others = sorted(name for name in storage.tensors if name != tensor.name) if storage else []
        return some(others, _SHOWN_NAMES) or "none"


def _by_name(report: InspectReport) -> dict[str, TensorRow]:
    counts = Counter(tensor.name for tensor in report.tensors)
    return {_key(tensor, counts[tensor.name] > 1): tensor for tensor in report.tensors}


def _key(tensor: TensorRow, with_file: bool) -> str:
    return f"{os.path.basename(tensor.source or '')}: {tensor.name}" if with_file else tensor.name


def _facts(tensor: TensorRow, sharing: _Sharing) -> Iterator[tuple[str, str]]:
    storage = sharing.storage(tensor)
    yield "dtype", tensor.dtype
    yield "device", tensor.device
    yield "sizes", str(list(tensor.sizes))
    yield "strides", str(tensor.strides)
    yield "storage_offset", str(tensor.storage_offset)
    yield "bytes", str(tensor.nbytes)
    yield "storage bytes", str(storage.nbytes) if storage else "none"
    yield "shares with", sharing.partners(tensor)
    yield "flags", ", ".join(tensor.flags) or "none"


def _summary(tensor: TensorRow) -> str:
    return f"{tensor.dtype} {list(tensor.sizes)} strides {tensor.strides}, {tensor.nbytes:,} B"
