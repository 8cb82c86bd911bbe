"""Layout: where the element of an index lives. Pure integers, no bytes and no NumPy.

A layout is a function: `layout(i, j)` is the offset, in elements, of element (i, j) in its storage. Every view
operator of a tensor is a method here that gives a new layout; results, error classes and messages are those of
torch 2.13. Nothing is canonicalised away: a dimension of size 1 keeps the stride that it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import msgspec

from stridetool.core import formats, overlap, view_rule
from stridetool.core.shapes import (
    Ints,
    contiguous_strides,
    flatten_sizes,
    format_strides,
    infer_shape,
    movedim_order,
    permute_order,
    unflatten_sizes,
    wrap_dim,
    wrap_unique_dims,
)
from stridetool.core.view_rule import Boundary, Run, Runs, ViewBlocker
from stridetool.errors import DimensionError, TensorError

__all__ = ["Boundary", "Layout", "Run", "Runs", "ViewBlocker", "infer_shape", "wrap_dim"]

_NOT_A_VIEW = (
    "view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
    "contiguous subspaces). Use .reshape(...) instead."
)


def _clamp(bound: int, size: int) -> int:
    """The bound of a slice as a number in [0, size]; a negative one counts from the end."""
    if bound < 0:
        bound += size
        return bound if bound > 0 else 0
    return bound if bound < size else size


class Layout(msgspec.Struct, frozen=True, gc=False):
    """Sizes, strides and offset, all in elements. Strides may be negative or 0."""

    sizes: Ints
    strides: Ints
    offset: int = 0

    @classmethod
    def contiguous(cls, sizes: Sequence[int], memory_format: str = "contiguous_format") -> Layout:
        """A fresh layout in C order or in a channels-last order; TensorError when the rank does not fit."""
        return cls(tuple(sizes), format_strides(sizes, memory_format))

    @classmethod
    def dense_like(cls, layout: Layout) -> Layout:
        """A fresh layout as `empty_like` gives with `preserve_format`: the same order in memory, without holes."""
        return cls(layout.sizes, layout.preserve_format_strides())

    def __call__(self, *index: int) -> int:
        """Offset of an element from the start of the storage; negative indices count from the end.

        Raises DimensionError when the index is too short, too long or out of range.
        """
        if len(index) != len(self.sizes):
            raise DimensionError(f"expected {len(self.sizes)} indices, got {len(index)}")
        offset = self.offset
        for dim, (i, size, stride) in enumerate(zip(index, self.sizes, self.strides, strict=True)):
            if not -size <= i < size:
                raise DimensionError(f"index {i} is out of bounds for dimension {dim} with size {size}")
            offset += (i if i >= 0 else i + size) * stride
        return offset

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.sizes)

    @property
    def numel(self) -> int:
        """Number of indices: elements as the tensor counts them, however many places they share."""
        return prod(self.sizes)

    @property
    def extent(self) -> int:
        """Elements from the lowest to the highest that is reached, both included; 0 without elements."""
        low, high = self.reach()
        return high - low

    def reach(self) -> tuple[int, int]:
        """Lowest element reached and one past the highest, from the start of the storage."""
        if 0 in self.sizes:
            return self.offset, self.offset
        low = high = self.offset
        for size, stride in zip(self.sizes, self.strides, strict=True):
            if stride >= 0:
                high += (size - 1) * stride
            else:
                low += (size - 1) * stride
        return low, high + 1

    # Flags

    def is_contiguous(self, memory_format: str = "contiguous_format") -> bool:
        """torch's flag: no hole, and the order of `memory_format`; False for a rank that the format lacks."""
        if memory_format == "contiguous_format":
            return formats.is_contiguous(self.sizes, self.strides)
        return formats.is_channels_last(self.sizes, self.strides, memory_format)

    def suggested_memory_format(self) -> str:
        """What `cat`, convolutions and `to(memory_format=)` treat the tensor as, whatever the flags say."""
        return formats.suggested_format(self.sizes, self.strides)

    def is_non_overlapping_and_dense(self) -> bool:
        """Every element from the lowest to the highest is reached once."""
        return formats.is_non_overlapping_and_dense(self.sizes, self.strides)

    def preserve_format_strides(self) -> Ints:
        """Strides that `empty_like` and `clone` give: the same if dense, else dense in the same order."""
        return formats.preserve_format_strides(self.sizes, self.strides)

    def overlap_code(self) -> int:
        """torch's own, cheaper answer: 0 no overlap, 1 overlap (a stride of 0), 2 "too hard"."""
        if self.is_non_overlapping_and_dense():
            return 0
        return 1 if any(n > 1 and s == 0 for n, s in zip(self.sizes, self.strides, strict=True)) else 2

    def has_internal_overlap(self) -> bool | None:
        """Whether two indices reach the same element, exactly; None when bounded work cannot tell."""
        return overlap.has_internal_overlap(self.sizes, self.strides)

    def distinct_elements(self) -> int | None:
        """How many different elements are reached; None when bounded work cannot tell."""
        return overlap.distinct_elements(self.sizes, self.strides)

    # Other shapes

    def runs(self) -> Runs:
        """The elements as maximal evenly spaced runs; none when there are no elements."""
        empty = 0 in self.sizes
        runs = () if empty else tuple(reversed(view_rule.merge_dims(self.sizes, self.strides)))
        return Runs(self.offset, self.numel, runs)

    def try_view(self, shape: Sequence[int]) -> Layout | None:
        """The layout under another shape (which may hold one -1), or None when only a copy can have that shape.

        Raises TensorError when the shape has another number of elements.
        """
        sizes, strides = self.sizes, self.strides
        numel = prod(sizes)
        new_sizes = infer_shape(shape, numel)
        if numel and sizes and strides[-1] == 1 and formats.is_contiguous(sizes, strides):
            return Layout(new_sizes, contiguous_strides(new_sizes), self.offset)
        new_strides = view_rule.view_strides(sizes, strides, new_sizes)
        return None if new_strides is None else Layout(new_sizes, new_strides, self.offset)

    def view(self, shape: Sequence[int]) -> Layout:
        """The layout under another shape; TensorError when the shape does not fit or needs a copy."""
        layout = self.try_view(shape)
        if layout is None:
            raise TensorError(_NOT_A_VIEW, hint=self._view_hint(shape))
        return layout

    def view_blocker(self, shape: Sequence[int]) -> ViewBlocker | None:
        """Why `view(shape)` is impossible: the runs and the boundaries that the shape does not keep; None if it is."""
        return view_rule.view_blocker(self.sizes, self.strides, infer_shape(shape, self.numel))

    def _view_hint(self, shape: Sequence[int]) -> str | None:
        blocker = self.view_blocker(shape)
        if blocker is None:
            return None
        at = blocker.boundaries[0]
        return (
            f"dimensions {at.outer_dim} and {at.outer_dim + 1} do not merge: stride {at.stride_needed} is needed, "
            f"{at.stride_found} found; reshape would copy {self.numel} elements"
        )

    def flatten_sizes(self, start_dim: int = 0, end_dim: int = -1) -> Ints:
        """Sizes that `flatten` gives; with start == end they are `sizes`, and torch returns the tensor itself."""
        return flatten_sizes(self.sizes, start_dim, end_dim)

    def unflatten_sizes(self, dim: int, sizes: Sequence[int]) -> Ints:
        """Sizes after `unflatten`: one dimension given as `sizes`, which may hold one -1."""
        return unflatten_sizes(self.sizes, dim, sizes)

    # Order of dimensions

    def transpose(self, dim0: int, dim1: int) -> Layout:
        """Two dimensions change places."""
        ndim = len(self.sizes)
        a, b = wrap_dim(dim0, ndim), wrap_dim(dim1, ndim)
        if a == b:
            return self
        sizes, strides = list(self.sizes), list(self.strides)
        sizes[a], sizes[b] = sizes[b], sizes[a]
        strides[a], strides[b] = strides[b], strides[a]
        return Layout(tuple(sizes), tuple(strides), self.offset)

    def permute(self, dims: Sequence[int]) -> Layout:
        """Dimension i of the result is dimension dims[i] of this one."""
        return self._ordered(permute_order(dims, len(self.sizes)))

    def movedim(self, source: Sequence[int], destination: Sequence[int]) -> Layout:
        """Dimensions `source` go to the places `destination`; the others keep their order."""
        return self._ordered(movedim_order(source, destination, len(self.sizes)))

    def _ordered(self, dims: Sequence[int]) -> Layout:
        sizes, strides = self.sizes, self.strides
        return Layout(tuple([sizes[d] for d in dims]), tuple([strides[d] for d in dims]), self.offset)

    # Parts

    def select(self, dim: int, index: int) -> Layout:
        """One index of one dimension, which goes away."""
        sizes, strides = self.sizes, self.strides
        if not sizes:
            raise DimensionError("select() cannot be applied to a 0-dim tensor.")
        d = wrap_dim(dim, len(sizes))
        size = sizes[d]
        if not -size <= index < size:
            raise DimensionError(
                f"select(): index {index} out of range for tensor of size {list(sizes)} at dimension {d}"
            )
        offset = self.offset + (index if index >= 0 else index + size) * strides[d]
        return Layout(sizes[:d] + sizes[d + 1 :], strides[:d] + strides[d + 1 :], offset)

    def slice(self, dim: int, start: int | None = None, stop: int | None = None, step: int = 1) -> Layout:
        """start:stop:step of one dimension, clamped to its size; the offset moves even when nothing is left."""
        sizes, strides = self.sizes, self.strides
        if not sizes:
            raise DimensionError("slice() cannot be applied to a 0-dim tensor.")
        d = wrap_dim(dim, len(sizes))
        if step <= 0:
            raise TensorError("slice step must be positive")
        size, stride = sizes[d], strides[d]
        first = 0 if start is None else _clamp(start, size)
        last = max(first, size if stop is None else _clamp(stop, size))
        return Layout(
            (*sizes[:d], (last - first + step - 1) // step, *sizes[d + 1 :]),
            (*strides[:d], stride * step, *strides[d + 1 :]) if step != 1 else strides,
            self.offset + first * stride,
        )

    def narrow(self, dim: int, start: int, length: int) -> Layout:
        """`length` indices of one dimension from `start` on."""
        if not self.sizes:
            raise TensorError("narrow() cannot be applied to a 0-dim tensor.")
        if length < 0:
            raise TensorError("narrow(): length must be non-negative.")
        size = self.sizes[wrap_dim(dim, len(self.sizes))]
        if not -size <= start <= size:
            raise DimensionError(f"start out of range (expected to be in range of [{-size}, {size}], but got {start})")
        first = start + size if start < 0 else start
        if first > size - length:
            raise TensorError(f"start ({first}) + length ({length}) exceeds dimension size ({size}).")
        return self.slice(dim, first, first + length)

    def diagonal(self, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Layout:
        """A diagonal of two dimensions, appended as the last one; an empty one leaves the offset alone."""
        a, b = wrap_dim(dim1, len(self.sizes)), wrap_dim(dim2, len(self.sizes))
        if a == b:
            raise TensorError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
        length = max(0, min(self.sizes[a] + min(offset, 0), self.sizes[b] - max(offset, 0)))
        moved = max(offset, 0) * self.strides[b] - min(offset, 0) * self.strides[a] if length else 0
        rest = self._ordered([d for d in range(len(self.sizes)) if d not in (a, b)])
        strides = (*rest.strides, self.strides[a] + self.strides[b])
        return Layout((*rest.sizes, length), strides, self.offset + moved)

    def flip(self, dims: Sequence[int]) -> Layout:
        """Dimensions (each wrapped already) walked backwards, as NumPy's `[::-1]`; torch has no such view."""
        offset, strides = self.offset, list(self.strides)
        for d in dims:
            offset += max(self.sizes[d] - 1, 0) * strides[d]
            strides[d] = -strides[d]
        return Layout(self.sizes, tuple(strides), offset)

    # More or fewer dimensions

    def squeeze(self, dims: int | Sequence[int] | None = None) -> Layout:
        """Without the dimensions of size 1, or without those of `dims` that have size 1."""
        sizes = self.sizes
        if dims is None:
            return self._ordered([d for d in range(len(sizes)) if sizes[d] != 1])
        gone = wrap_unique_dims((dims,) if isinstance(dims, int) else dims, len(sizes))
        return self._ordered([d for d in range(len(sizes)) if sizes[d] != 1 or d not in gone])

    def unsqueeze(self, dim: int) -> Layout:
        """With a new dimension of size 1 at `dim`; its stride would step over the dimension after it."""
        sizes, strides = self.sizes, self.strides
        d = wrap_dim(dim, len(sizes) + 1)
        stride = sizes[d] * strides[d] if d < len(sizes) else 1
        return Layout((*sizes[:d], 1, *sizes[d:]), (*strides[:d], stride, *strides[d:]), self.offset)

    def expand(self, sizes: Sequence[int], type_name: str = "torch.FloatTensor") -> Layout:
        """Dimensions of size 1 repeated with a stride of 0, and new ones in front; -1 keeps a size.

        `type_name` is what torch's message about too few sizes calls the tensor.
        """
        new_sizes, new_strides = view_rule.expand(self.sizes, self.strides, sizes, type_name)
        return Layout(new_sizes, new_strides, self.offset)

    def unfold(self, dim: int, size: int, step: int) -> Layout:
        """Windows of `size`, `step` apart, along one dimension; a last dimension runs within the window."""
        sizes, strides = self.sizes, self.strides
        d = wrap_dim(dim, len(sizes))
        length, stride = (sizes[d], strides[d]) if sizes else (1, 1)
        if size < 0:
            raise TensorError(f"size is {size} but must be >= 0")
        if size > length:
            raise TensorError(f"maximum size for tensor at dimension {d} is {length} but size is {size}")
        if step <= 0:
            raise TensorError(f"step is {step} but must be > 0")
        if not sizes:
            return Layout((size,), (1,), self.offset)
        windows = (length - size) // step + 1
        return Layout(
            (*sizes[:d], windows, *sizes[d + 1 :], size),
            (*strides[:d], stride * step, *strides[d + 1 :], stride),
            self.offset,
        )

    # Another size of element

    def view_dtype(self, old_itemsize: int, new_itemsize: int, old_name: str = "old", new_name: str = "new") -> Layout:
        """The same bytes as elements of another size (in bytes); the names are torch's of the two types."""
        if old_itemsize == new_itemsize:
            return self
        differ = f"to view {old_name} as {new_name} (different element sizes)"
        if not self.sizes:
            raise TensorError(f"self.dim() cannot be 0 {differ}")
        if old_itemsize > new_itemsize:
            cast, ratio = view_rule.as_smaller_elements, old_itemsize // new_itemsize
        else:
            cast, ratio = view_rule.as_larger_elements, new_itemsize // old_itemsize
        return Layout(*cast(self.sizes, self.strides, self.offset, ratio, differ))
