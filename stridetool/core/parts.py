"""Tensors cut into parts along one dimension: split, chunk, tensor_split, unbind and their kin.

Each gives the layouts of all parts, with torch's results, order of checks and messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from stridetool.core.layout import Layout
from stridetool.core.shapes import wrap_dim
from stridetool.errors import TensorError


def split(layout: Layout, size: int | Sequence[int], dim: int = 0) -> list[Layout]:
    """Parts of `size` indices each, the last one shorter; or one part for each of several sizes."""
    if not layout.sizes:
        raise TensorError("split expects at least a 1-dimensional tensor")
    if not isinstance(size, int):
        return _split_with_sizes(layout, size, dim)
    if size < 0:
        raise TensorError(f"split expects split_size be non-negative, but got split_size={size}")
    length = layout.sizes[wrap_dim(dim, layout.ndim)]
    if size == 0 and length:
        raise TensorError(f"split_size can only be 0 if dimension size is 0, but got dimension size of {length}")
    return [layout.slice(dim, start, start + size) for start in range(0, length or 1, size or 1)]


def _split_with_sizes(layout: Layout, sizes: Sequence[int], dim: int) -> list[Layout]:
    length = layout.sizes[wrap_dim(dim, layout.ndim)]
    if min(sizes, default=0) < 0:
        raise TensorError(
            f"split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes={list(sizes)}"
        )
    if sum(sizes) != length:
        raise TensorError(
            f"split_with_sizes expects split_sizes to sum exactly to {length} (input tensor's size at dimension "
            f"{dim}), but got split_sizes={list(sizes)}"
        )
    return _between(layout, _running_sums(sizes), dim)


def chunk(layout: Layout, chunks: int, dim: int = 0) -> list[Layout]:
    """At most `chunks` parts of equal size, the last one shorter; a dimension of size 0 gives `chunks` empty parts."""
    if not layout.sizes:
        raise TensorError("chunk expects at least a 1-dimensional tensor")
    if chunks <= 0:
        raise TensorError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    length = layout.sizes[wrap_dim(dim, layout.ndim)]
    return split(layout, -(-length // chunks) if length else [0] * chunks, dim)


def tensor_split(layout: Layout, sections: int | Sequence[int], dim: int = 0) -> list[Layout]:
    """Exactly `sections` parts, the first ones one longer; or the parts between indices, as slices clamp them."""
    if not layout.sizes:
        raise TensorError("tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims")
    length = layout.sizes[wrap_dim(dim, layout.ndim)]
    if not isinstance(sections, int):
        return _between(layout, [0, *sections, length], dim)
    if sections <= 0:
        raise TensorError(f"number of sections must be larger than 0, got {sections}")
    least, longer = divmod(length, sections)
    return _between(layout, _running_sums([least + (i < longer) for i in range(sections)]), dim)


_NAMED_SPLITS = {"hsplit": (1, 1), "vsplit": (2, 0), "dsplit": (3, 2)}
"""Least number of dimensions, and the dimension that is cut (hsplit cuts the only one of a 1-d tensor)."""


def named_split(name: str, layout: Layout, sections: int | Sequence[int]) -> list[Layout]:
    """`hsplit`, `vsplit` or `dsplit`: `tensor_split` along a fixed dimension, which must be divisible."""
    least, dim = _NAMED_SPLITS[name]
    ndim = layout.ndim
    if ndim < least:
        raise TensorError(
            f"torch.{name} requires a tensor with at least {least} dimension, but got a tensor with {ndim} dimensions!"
        )
    dim = min(dim, ndim - 1)
    if isinstance(sections, int) and (sections == 0 or layout.sizes[dim] % sections):
        raise TensorError(
            f"torch.{name} attempted to split along dimension {dim}, but the size of the dimension "
            f"{layout.sizes[dim]} is not divisible by the split_size {sections}!"
        )
    return tensor_split(layout, sections, dim)


def unbind(layout: Layout, dim: int = 0) -> list[Layout]:
    """One part for each index of the dimension, which goes away."""
    d = wrap_dim(wrap_dim(dim, layout.ndim), layout.ndim, scalar=False)
    return [layout.select(d, i) for i in range(layout.sizes[d])]


def _between(layout: Layout, borders: Sequence[int], dim: int) -> list[Layout]:
    return [layout.slice(dim, start, stop) for start, stop in pairwise(borders)]


def _running_sums(sizes: Sequence[int]) -> list[int]:
    borders = [0]
    for size in sizes:
        borders.append(borders[-1] + size)
    return borders
