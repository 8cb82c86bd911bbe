"""The row of one tensor in a report, the same for tensors of a script and of a file."""

from __future__ import annotations

from stridetool.analysis.consumers import consumers
from stridetool.analysis.reach import byte_intervals, total
from stridetool.core.facts import ArrayFacts
from stridetool.report.inspect import TensorRow

_FORMATS = ("contiguous_format", "channels_last", "channels_last_3d")


def tensor_row(facts: ArrayFacts, storage: str | None, source: str | None = None) -> TensorRow:
    """Everything that follows from the layout of one array, for the storage row called `storage`."""
    layout = facts.layout
    whole = facts.unit == facts.itemsize
    formats = tuple(name for name in _FORMATS if whole and layout.is_contiguous(name))
    overlap = layout.has_internal_overlap()
    intervals = byte_intervals(layout, facts.unit, facts.itemsize)
    reached = total(intervals) if intervals is not None else None
    if reached is None and overlap is False and whole:
        reached = layout.numel * facts.itemsize
    return TensorRow(
        name=facts.name,
        source=source,
        dtype=facts.dtype,
        device=facts.device,
        sizes=layout.sizes,
        strides=layout.strides,
        stride_unit_bytes=facts.unit,
        storage_offset=layout.offset,
        itemsize=facts.itemsize,
        numel=layout.numel,
        nbytes=layout.numel * facts.itemsize,
        storage=storage,
        is_contiguous=_FORMATS[0] in formats,
        memory_formats=formats,
        suggested_memory_format=layout.suggested_memory_format() if whole else _FORMATS[0],
        is_non_overlapping_and_dense=whole and layout.is_non_overlapping_and_dense(),
        has_internal_overlap=overlap,
        data_ptr=hex(facts.data_address) if facts.address else None,
        reached_bytes=reached,
        library=facts.library,
        flags=facts.flags,
        consumers=consumers(facts),
        values=facts.values,
    )
