"""Operators that give several views: split, chunk, tensor_split and kin, unbind."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from stridetool.core.dispatch import operator
from stridetool.core.layout import wrap_dim
from stridetool.core.ops.views import slice_
from stridetool.core.tensor import Tensor, view_of
from stridetool.errors import TensorError

Tensors = tuple[Tensor, ...]


@operator()
def split(self: Tensor, split_size: int | Sequence[int], dim: int = 0) -> Tensors:
    """Parts of `split_size` (the last may be smaller), or of the sizes given."""
    if not isinstance(split_size, int):
        return split_with_sizes(self, split_size, dim)
    if not self._layout.sizes:
        raise TensorError("split expects at least a 1-dimensional tensor")
    if split_size < 0:
        raise TensorError(f"split expects split_size be non-negative, but got split_size={split_size}")
    size = self._layout.sizes[wrap_dim(dim, self.ndim)]
    if split_size == 0 and size:
        raise TensorError(f"split_size can only be 0 if dimension size is 0, but got dimension size of {size}")
    return _split_evenly(self, split_size, dim)


@operator(name="_split", grad="SplitBackward0", method=False)
def _split_evenly(self: Tensor, split_size: int, dim: int) -> Tensors:
    size = self._layout.sizes[wrap_dim(dim, self.ndim)]
    starts = range(0, size, split_size) if size else (0,)
    return tuple([_part(self, dim, start, min(split_size, size - start)) for start in starts])


def _part(self: Tensor, dim: int, start: int, length: int) -> Tensor:
    return view_of(self, self._layout.narrow(dim, start, length))


@operator(grad="SplitWithSizesBackward0")
def split_with_sizes(self: Tensor, split_sizes: Sequence[int], dim: int = 0) -> Tensors:
    """Parts of the sizes given, which must add up."""
    sizes = list(split_sizes)
    if not self._layout.sizes:
        raise TensorError("split expects at least a 1-dimensional tensor")
    size = self._layout.sizes[wrap_dim(dim, self.ndim)]
    parts, start = [], 0
    for length in sizes:
        if length < 0:
            raise TensorError(
                f"split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes={sizes}"
            )
        parts.append(view_of(self, self._layout.slice(dim, start, start + length)))
        start += length
    if start != size:
        raise TensorError(
            f"split_with_sizes expects split_sizes to sum exactly to {size} (input tensor's size at dimension {dim}), "
            f"but got split_sizes={sizes}"
        )
    return tuple(parts)


@operator()
def chunk(self: Tensor, chunks: int, dim: int = 0) -> Tensors:
    """At most `chunks` parts of equal size."""
    if not self._layout.sizes:
        raise TensorError("chunk expects at least a 1-dimensional tensor")
    if chunks <= 0:
        raise TensorError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    size = self._layout.sizes[wrap_dim(dim, self.ndim)]
    each = -(-size // chunks)
    return split(self, each, dim) if each else split_with_sizes(self, [0] * chunks, dim)


@operator()
def tensor_split(self: Tensor, indices_or_sections: int | Sequence[int], dim: int = 0) -> Tensors:
    """That many parts, larger ones first, or parts between the indices given."""
    if not self._layout.sizes:
        raise TensorError("tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims")
    d = wrap_dim(dim, self.ndim)
    if not isinstance(indices_or_sections, int):
        edges = [0, *indices_or_sections, self._layout.sizes[d]]
        return tuple([slice_(self, d, a, b) for a, b in pairwise(edges)])
    sections = indices_or_sections
    if sections <= 0:
        raise TensorError(f"number of sections must be larger than 0, got {sections}")
    size, larger = divmod(self._layout.sizes[d], sections)
    starts = [i * size + min(i, larger) for i in range(sections + 1)]
    return tuple([slice_(self, d, a, b) for a, b in pairwise(starts)])


def _axis_split(self: Tensor, name: str, least: int, dim: int, parts: int | Sequence[int]) -> Tensors:
    ndim = len(self._layout.sizes)
    if ndim < least:
        raise TensorError(
            f"torch.{name} requires a tensor with at least {least} dimension, but got a tensor with {ndim} dimensions!"
        )
    size = self._layout.sizes[dim]
    if isinstance(parts, int) and (parts == 0 or size % parts):
        raise TensorError(
            f"torch.{name} attempted to split along dimension {dim}, but the size of the dimension {size} is not "
            f"divisible by the split_size {parts}!"
        )
    return tensor_split(self, parts, dim)


@operator()
def hsplit(self: Tensor, parts: int | Sequence[int]) -> Tensors:
    """`tensor_split` of the columns (of the only dimension of a 1-d tensor)."""
    return _axis_split(self, "hsplit", 1, 0 if len(self._layout.sizes) < 2 else 1, parts)


@operator()
def vsplit(self: Tensor, parts: int | Sequence[int]) -> Tensors:
    """`tensor_split` of the rows."""
    return _axis_split(self, "vsplit", 2, 0, parts)


@operator()
def dsplit(self: Tensor, parts: int | Sequence[int]) -> Tensors:
    """`tensor_split` of the third dimension."""
    return _axis_split(self, "dsplit", 3, 2, parts)


@operator(grad="UnbindBackward0")
def unbind(self: Tensor, dim: int = 0) -> Tensors:
    """Every index of one dimension."""
    d = wrap_dim(wrap_dim(dim, self.ndim), self.ndim, scalar=False)
    return tuple([view_of(self, self._layout.select(d, i)) for i in range(self._layout.sizes[d])])
