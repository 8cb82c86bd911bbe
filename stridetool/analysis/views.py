"""Why a view is impossible, and the cheapest changes that make one possible.

Every remedy is tried before it is offered. None of those that copy nothing can give the shape asked for with the
elements in the order asked for: that would be the view itself. So one keeps the shape's dimensions apart where the
memory breaks, another takes the elements in the order in which they lie, and the last pays for a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from math import prod
from operator import mul

import msgspec

from stridetool.core.layout import Layout, infer_shape
from stridetool.report.inspect import ViewFailure
from stridetool.units import format_bytes

Ints = tuple[int, ...]


class Remedy(msgspec.Struct, frozen=True):
    """`permute(order)` (unless None), then `view(shape)`; or, when bytes are copied, `reshape(shape)`."""

    shape: Ints
    order: Ints | None = None
    copied_bytes: int = 0

    @property
    def text(self) -> str:
        """The calls, their price, and what differs from the view that was asked for."""
        shape = ", ".join(map(str, self.shape))
        if self.copied_bytes:
            return f"reshape({shape}) copies {format_bytes(self.copied_bytes)}"
        if self.order is None:
            return f"view({shape}) copies nothing: it keeps apart what memory keeps apart"
        return (
            f"{_reordering(self.order)}.view({shape}) copies nothing, but its elements come in memory order, "
            "as from a view taken before the dimensions were reordered"
        )


def why_not_view(layout: Layout, shape: Sequence[int], itemsize: int, set_by: str | None = None) -> ViewFailure | None:
    """What keeps `layout` from being seen as `shape` (which may hold one -1), or None when nothing does.

    `itemsize` is in bytes; `set_by` names the operation that gave the tensor its strides. Raises TensorError when the
    shape has another number of elements.
    """
    blocker = layout.view_blocker(shape)
    if blocker is None:
        return None
    at = blocker.boundaries[0]
    return ViewFailure(
        shape=blocker.shape,
        runs=tuple(run.dims for run in blocker.runs),
        boundary=(at.outer_dim, at.outer_dim + 1),
        stride_needed=at.stride_needed,
        stride_found=at.stride_found,
        set_by=set_by,
        reshape_copied_bytes=layout.numel * itemsize,
        remedies=tuple(remedy.text for remedy in remedies(layout, shape, itemsize)),
    )


def remedies(layout: Layout, shape: Sequence[int], itemsize: int) -> tuple[Remedy, ...]:
    """What works where `view(shape)` does not, cheapest first; the last one is always the copy by reshape."""
    asked = infer_shape(shape, layout.numel)
    apart, order = _kept_apart(layout, asked), _memory_order(layout, asked)
    found = []
    if apart is not None and layout.try_view(apart) is not None:
        found.append(Remedy(apart))
    if order is not None and layout.permute(order).try_view(asked) is not None:
        found.append(Remedy(asked, order))
    return (*found, Remedy(asked, copied_bytes=layout.numel * itemsize))


def _kept_apart(layout: Layout, shape: Ints) -> Ints | None:
    """`shape` with a dimension cut in two at each boundary that it does not keep.

    None when a boundary does not fall on a whole number, or when nothing of the shape asked for is left: all that
    comes out is the tensor as it is.
    """
    blocker = layout.view_blocker(shape)
    inner_numels = {at.inner_numel for at in blocker.boundaries} if blocker else set()
    sizes: list[int] = []
    inner = 1
    for size in reversed(shape):
        cuts = sorted(numel for numel in inner_numels if inner < numel < inner * size)
        borders = [inner, *cuts, inner * size]
        if any(outside % inside for inside, outside in pairwise(borders)):
            return None
        sizes += [outside // inside for inside, outside in pairwise(borders)]
        inner *= size
    apart = tuple(reversed(sizes))
    return None if _without_ones(apart) == _without_ones(layout.sizes) else apart


def _without_ones(sizes: Ints) -> Ints:
    return tuple(size for size in sizes if size != 1)


def _memory_order(layout: Layout, shape: Ints) -> Ints | None:
    """Dimensions put in the order of their strides, but only among those that share a dimension of the new shape."""
    kept = set(accumulate(reversed(shape), mul, initial=1))
    segments: list[list[int]] = [[]]
    for dim, size in enumerate(layout.sizes):
        if size != 1:
            segments[-1].append(dim)
            if prod(layout.sizes[dim + 1 :]) in kept:
                segments.append([])
    order = list(range(layout.ndim))
    for segment in segments:
        for dim, source in zip(segment, sorted(segment, key=lambda d: -abs(layout.strides[d])), strict=True):
            order[dim] = source
    return None if order == list(range(layout.ndim)) else tuple(order)


def _reordering(order: Ints) -> str:
    """The call for a permutation, as a transpose where two dimensions change places."""
    moved = [d for d, source in enumerate(order) if source != d]
    return f"transpose({moved[0]}, {moved[1]})" if len(moved) == 2 else f"permute({', '.join(map(str, order))})"
