"""Indexing: `x[...]` with integers, slices, None and ... is a view; with lists, tensors and masks it is a copy."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any

from stridetool.core import dispatch
from stridetool.core.dispatch import operator
from stridetool.core.dtype import int64
from stridetool.core.elements import copy_elements
from stridetool.core.layout import Layout
from stridetool.core.ops.advanced import gather, is_mask, scatter
from stridetool.core.ops.copies import refuse_overlap, refuse_partial_overlap
from stridetool.core.ops.factories import fill, tensor
from stridetool.core.ops.views import alias, select, slice_, unsqueeze
from stridetool.core.tensor import Tensor, bump, view_of
from stridetool.errors import ArgumentTypeError, ArgumentValueError, DimensionError

_BASIC = frozenset((int, slice, type(None), type(...)))


@operator(name="__getitem__")
def getitem(self: Tensor, key: Any) -> Tensor:
    """A view for basic indices, a copy for lists, tensors and masks."""
    if type(key) is int:
        if not self._layout.sizes:
            raise DimensionError(
                "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to "
                "convert a 0-dim tensor to a number"
            )
        if self._keys < dispatch.AUTOGRAD:
            return view_of(self, _integer(self._layout, 0, key, 0))
        items: tuple[Any, ...] = (key,)
    else:
        items = key if type(key) is tuple else (key,)
    for item in items:
        if type(item) not in _BASIC:
            items, advanced = _normalised(items)
            if advanced:
                return gather(*_split_advanced(self, items))
            break
    if self._keys >= dispatch.AUTOGRAD:
        if type(key) is slice:  # alone, it is never left out
            basic_layout(self._layout, items)
            return slice_(self, 0, *_slice_bounds(key))
        return _indexed_step_by_step(self, items)
    return view_of(self, basic_layout(self._layout, items))


def basic_layout(layout: Layout, items: Sequence[Any]) -> Layout:
    """The layout that integers, slices, None and ... give, in torch's order of checks."""
    _check_count(layout, items)
    dim = 0
    for position, item in enumerate(items):
        if type(item) is slice:
            layout = layout.slice(dim, *_slice_bounds(item))
            dim += 1
        elif item is None:
            layout = layout.unsqueeze(dim)
            dim += 1
        elif item is ...:
            dim = _after_ellipsis(layout, items, position)
        else:
            layout = _integer(layout, dim, item, position)
    return layout


def _check_count(layout: Layout, items: Sequence[Any]) -> None:
    taken = len(items) - sum([item is None or item is ... for item in items])
    if any(isinstance(item, Tensor) for item in items):
        taken = sum([_takes(item) for item in items])
    if taken > len(layout.sizes):
        raise DimensionError(f"too many indices for tensor of dimension {len(layout.sizes)}")


def _after_ellipsis(layout: Layout, items: Sequence[Any], position: int) -> int:
    """The dimension that the item after ... speaks of."""
    return len(layout.sizes) - sum(1 for item in items[position + 1 :] if item is not None and item is not ...)


def _slice_bounds(item: slice) -> tuple[int | None, int | None, int]:
    start, stop, step = item.start, item.stop, item.step
    step = 1 if step is None else index(step)
    if step == 0:
        raise ArgumentValueError("slice step cannot be zero")
    if step < 0:
        raise ArgumentValueError("step must be greater than zero", hint="flip() makes a reversed copy")
    return None if start is None else index(start), None if stop is None else index(stop), step


def _integer(layout: Layout, dim: int, at: int, position: int) -> Layout:
    """One index; the message counts by position in the index, as torch's does."""
    sizes, strides = layout.sizes, layout.strides
    size = sizes[dim]
    if not -size <= at < size:
        raise DimensionError(f"index {at} is out of bounds for dimension {position} with size {size}")
    offset = layout.offset + (at if at >= 0 else at + size) * strides[dim]
    return Layout(sizes[:dim] + sizes[dim + 1 :], strides[:dim] + strides[dim + 1 :], offset)


def _indexed_step_by_step(self: Tensor, items: Sequence[Any]) -> Tensor:
    """The same as a chain of select, slice and unsqueeze, so that the graph gets torch's nodes."""
    basic_layout(self._layout, items)
    out, dim = self, 0
    for position, item in enumerate(items):
        if item is None:
            out = unsqueeze(out, dim)
            dim += 1
        elif item is ...:
            dim = _after_ellipsis(out._layout, items, position)
        elif isinstance(item, slice):
            if item != slice(None):
                out = slice_(out, dim, *_slice_bounds(item))
            dim += 1
        else:
            out = select(out, dim, item)
    return alias(out) if out is self else out


def _normalised(items: Sequence[Any]) -> tuple[tuple[Any, ...], bool]:
    """Integers of other kinds as int, lists and masks as tensors; and whether the index is an advanced one."""
    out = tuple([item if type(item) in _BASIC else _as_index(item) for item in items])
    return out, any(isinstance(item, Tensor) for item in out)


def _as_index(item: Any) -> Any:
    """One item as an int, slice, None, ... or a tensor of indices or of bool."""
    if isinstance(item, str):
        raise ArgumentTypeError("new(): invalid data type 'str'")
    if not isinstance(item, Tensor) and (isinstance(item, bool) or hasattr(item, "__getitem__")):
        item = _index_tensor(item)
    if isinstance(item, Tensor):
        scalar = not item._layout.sizes and item._dtype.kind in "iu"
        return int(item.item()) if scalar else item
    try:
        return index(item)
    except TypeError:
        raise DimensionError(
            "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got "
            f"{type(item).__name__})"
        ) from None


def _index_tensor(item: Any) -> Tensor:
    made = tensor(item)
    return made if made._layout.numel else made.to(int64)


def _split_advanced(self: Tensor, items: Sequence[Any]) -> tuple[Tensor, list[tuple[int, Tensor]]]:
    """The view that the basic items make, and the index tensors by the dimension of it that they belong to."""
    _check_count(self._layout, items)
    out, dim, tensors = self, 0, []
    for position, item in enumerate(items):
        if isinstance(item, Tensor):
            if not item._layout.sizes:
                out = unsqueeze(out, dim)
            tensors.append((dim, item))
            dim += max(item.ndim, 1) if is_mask(item) else 1
        elif item is None:
            out = unsqueeze(out, dim)
            dim += 1
        elif item is ...:
            dim = out.ndim - sum([_takes(later) for later in items[position + 1 :]])
        elif isinstance(item, slice):
            out = slice_(out, dim, *_slice_bounds(item))
            dim += 1
        else:
            _integer(out._layout, dim, item, position)
            out = select(out, dim, item)
    return out, tensors


def _takes(item: Any) -> int:
    """How many dimensions an item speaks for."""
    if item is None or item is ...:
        return 0
    return item.ndim if isinstance(item, Tensor) and is_mask(item) else 1


def _setitem_name(args: Sequence[Any]) -> str:
    items, advanced = _normalised(args[1] if isinstance(args[1], tuple) else (args[1],))
    return "IndexPutBackward0" if advanced and len(items) == 1 else "CopySlices"


@operator(name="__setitem__", grad=_setitem_name, keys="all")
def setitem_(self: Tensor, key: Any, value: Any) -> None:
    """Write a number or a tensor, broadcast, into the elements that the index names."""
    items, advanced = _normalised(key if isinstance(key, tuple) else (key,))
    if advanced:
        bump(self)
        part, tensors = _split_advanced(self.detach(), items)
        if isinstance(value, Tensor):
            refuse_partial_overlap(part, value, same_too=True)
        scatter(part, tensors, value if isinstance(value, Tensor) else tensor(value, dtype=self._dtype))
    else:
        part = view_of(self, basic_layout(self._layout, items))
        if isinstance(value, Tensor):
            _assign(part, value)
        elif isinstance(value, bool | int | float | complex):
            if part._layout.sizes:
                refuse_overlap(part)
            bump(self)
            fill(part, value)
        else:
            raise ArgumentTypeError(f"can't assign a {type(value).__name__} to a {_tensor_name(self)}")


def _tensor_name(self: Tensor) -> str:
    return self._dtype.type_name(self.device.type)


def _assign(part: Tensor, value: Tensor) -> None:
    layout = value._layout
    while len(layout.sizes) > len(part._layout.sizes) and layout.sizes[0] == 1:
        layout = Layout(layout.sizes[1:], layout.strides[1:], layout.offset)
    refuse_overlap(part)
    source = view_of(value, layout.expand(part._layout.sizes))
    refuse_partial_overlap(part, value)
    bump(part)
    copy_elements(part, source)
