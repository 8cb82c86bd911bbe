"""Indexing by lists, tensors and masks: which elements are meant, and the copy that they become.

The integers, slices and None beside them are applied first, as views; then every remaining index tensor belongs to
one dimension. (NumPy lets an integer take part as an index tensor, so some results are ordered differently there.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from stridetool.core import numeric
from stridetool.core.dispatch import operator
from stridetool.core.elements import raw, read, writable
from stridetool.core.iteration import iteration_strides
from stridetool.core.layout import Layout
from stridetool.core.ops.factories import empty_tensor
from stridetool.core.shapes import contiguous_strides
from stridetool.core.tensor import Tensor
from stridetool.core.trace import note_copy
from stridetool.errors import DimensionError, TensorError


class Picked(NamedTuple):
    """A view, and an array of indices for each of the dimensions `dims` of it, broadcast to each other."""

    part: Tensor
    dims: tuple[int, ...]
    arrays: tuple[Any, ...]

    def adjacent(self) -> bool:
        """Whether the result's index dimensions stay where they are; else they come first."""
        return self.dims[-1] - self.dims[0] == len(self.dims) - 1

    def front(self) -> int:
        """Where the index dimensions stand in the result."""
        return self.dims[0] if self.adjacent() else 0

    def result_sizes(self) -> tuple[int, ...]:
        """Sizes of the result."""
        rest = [n for d, n in enumerate(self.part._layout.sizes) if d not in self.dims]
        return (*rest[: self.front()], *self.arrays[0].shape, *rest[self.front() :])


def picked(part: Tensor, by_dim: Sequence[tuple[int, Tensor]]) -> Picked:
    """Masks become the indices of what they select; all are checked and broadcast.

    Raises DimensionError where an index is no integer or out of range, or shapes do not fit.
    """
    dims: list[int] = []
    arrays: list[Any] = []
    for dim, index in by_dim:
        values = read(index)
        if is_mask(index):
            _check_mask(index, part, dim)
            found = values.nonzero() if values.ndim else (np.zeros(int(values), "i8"),)
            dims += range(dim, dim + len(found))
            arrays += found
        elif index._dtype.kind not in "iu":
            raise DimensionError("tensors used as indices must be long, int, byte or bool tensors")
        else:
            dims.append(dim)
            arrays.append(values)
    shapes = ", ".join(str(list(array.shape)) for array in arrays)
    try:
        together = np.broadcast_arrays(*arrays)
    except ValueError:
        raise DimensionError(
            f"shape mismatch: indexing tensors could not be broadcast together with shapes {shapes}"
        ) from None
    for dim, array in zip(dims, together, strict=True):
        _check_range(array, dim, part._layout.sizes[dim])
    return Picked(part, tuple(dims), tuple(together))


def is_mask(index: Tensor) -> bool:
    """Whether an index says for each element if it is meant: bool, or uint8 as in old programs."""
    return index._dtype.kind == "b" or index._dtype.name == "uint8"


def _check_mask(mask: Tensor, part: Tensor, dim: int) -> None:
    sizes = part._layout.sizes
    for d, n in enumerate(mask._layout.sizes):
        if dim + d >= len(sizes) or sizes[dim + d] != n:
            raise DimensionError(
                f"The shape of the mask {list(mask._layout.sizes)} at index {d} does not match the shape of the "
                f"indexed tensor {list(sizes)} at index {dim + d}"
            )


def _check_range(array: Any, dim: int, size: int) -> None:
    outside = array[(array < -size) | (array >= size)]
    if outside.size:
        raise DimensionError(f"index {outside.ravel()[0]} is out of bounds for dimension {dim} with size {size}")


def _turned(found: Picked, array: Any) -> Any:
    """`array` over the view with the indexed dimensions first."""
    rest = [d for d in range(array.ndim) if d not in found.dims]
    return array.transpose((*found.dims, *rest))


@operator(name="_gather", method=False, grad="IndexBackward0")
def gather(self: Tensor, by_dim: Sequence[tuple[int, Tensor]]) -> Tensor:
    """The elements that index tensors name, in new memory; in the order in which torch's iterator would walk."""
    found = picked(self, by_dim)
    sizes = found.result_sizes()
    out = empty_tensor(Layout(sizes, _result_strides(found, sizes)), self._dtype, self.device)
    out._bits = self._bits
    if out._layout.numel:
        values = _turned(found, raw(self))[found.arrays]
        index_ndim = found.arrays[0].ndim
        raw(out)[...] = np.moveaxis(values, range(index_ndim), range(found.front(), found.front() + index_ndim))
    note_copy("numpy", out.nbytes)
    return out


def _result_strides(found: Picked, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Rest dimensions order by the source's strides, index dimensions by those of the index tensors."""
    layout, front, ndim = found.part._layout, found.front(), found.arrays[0].ndim
    rest = [s for d, s in enumerate(layout.strides) if d not in found.dims]
    source = Layout(sizes, (*rest[:front], *(0,) * ndim, *rest[front:]))
    inner = contiguous_strides(found.arrays[0].shape)
    index = Layout(sizes, (*(0,) * front, *inner, *(0,) * (len(rest) - front)))
    return iteration_strides(sizes, [source, index])


def scatter(part: Tensor, by_dim: Sequence[tuple[int, Tensor]], value: Tensor) -> None:
    """Write `value`, broadcast, into the elements that index tensors name.

    Raises TensorError for another type, or for sizes that do not broadcast.
    """
    if value._dtype is not part._dtype:
        raise TensorError(
            "Index put requires the source and destination dtypes match, got "
            f"{part._dtype.scalar_name} for the destination and {value._dtype.scalar_name} for the source."
        )
    found = picked(part, by_dim)
    sizes = found.result_sizes()
    try:
        values = np.broadcast_to(numeric.encode(read(value), value._dtype), sizes)
    except ValueError:
        raise TensorError(
            f"shape mismatch: value tensor of shape {list(value._layout.sizes)} cannot be broadcast to indexing result "
            f"of shape {list(sizes)}"
        ) from None
    if math.prod(sizes):
        index_ndim = found.arrays[0].ndim
        front = range(found.front(), found.front() + index_ndim)
        _turned(found, writable(part))[found.arrays] = np.moveaxis(values, front, range(index_ndim))
    note_copy("numpy", math.prod(sizes) * part._dtype.itemsize)
