"""Logical index → element offset → byte → address, a row at a time: memory stays flat however many elements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from stridetool.report.inspect import TensorRow


class IndexRow(msgspec.Struct, frozen=True):
    """One element: where its index leads. `byte` counts from the start of the storage, `address` is hex."""

    tensor: str
    index: tuple[int, ...]
    offset: int
    byte: int
    address: str | None


def index_table(tensors: Iterable[TensorRow]) -> Iterator[IndexRow]:
    """Every element of each tensor, in logical order."""
    for tensor in tensors:
        origin = int(tensor.data_ptr, 16) if tensor.data_ptr and tensor.data_ptr != "0x0" else None
        for index, offset in _elements(tensor):
            byte = offset * tensor.stride_unit_bytes
            first = tensor.storage_offset * tensor.stride_unit_bytes
            address = hex(origin + byte - first) if origin is not None else None
            yield IndexRow(tensor.name, index, offset, byte, address)


def _elements(tensor: TensorRow) -> Iterator[tuple[tuple[int, ...], int]]:
    """(index, offset) in logical order. An odometer: itertools.product would store each dimension first."""
    if tensor.numel == 0:
        return
    sizes, strides = tensor.sizes, tensor.strides
    index, offset = [0] * len(sizes), tensor.storage_offset
    while True:
        yield tuple(index), offset
        for dim in range(len(sizes) - 1, -1, -1):
            index[dim] += 1
            offset += strides[dim]
            if index[dim] < sizes[dim]:
                break
            offset -= sizes[dim] * strides[dim]
            index[dim] = 0
        else:
            return
