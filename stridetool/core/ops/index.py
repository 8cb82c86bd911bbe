"""Indexing: `x[...]` with integers, slices, None and ... is a view; with lists, tensors and masks it is a copy."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any

from stridetool.core import dispatch, numeric
from stridetool.core.dispatch import operator
from stridetool.core.elements import copy_elements, raw, read
from stridetool.core.layout import Layout
from stridetool.core.ops.copies import refuse_overlap
from stridetool.core.ops.factories import empty_tensor, fill, tensor
from stridetool.core.ops.views import alias, select, slice_, unsqueeze
from stridetool.core.tensor import Tensor, bump, view_of
from stridetool.core.trace import note_copy
from stridetool.errors import ArgumentTypeError, ArgumentValueError, DimensionError, TensorError

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
                return _gather(self, items)
            break
    if self._keys >= dispatch.AUTOGRAD:
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
    out: list[Any] = []
    advanced = False
    for item in items:
        if isinstance(item, bool | list | tuple | range) or (hasattr(item, "__array__") and _is_array(item)):
            item = item if isinstance(item, Tensor) else tensor(list(item) if isinstance(item, range) else item)
        if isinstance(item, Tensor):
            advanced = advanced or bool(item._layout.sizes) or item._dtype.kind == "b"
            item = item if item._layout.sizes or item._dtype.kind == "b" else int(item.item())
        elif item is not None and item is not ... and not isinstance(item, slice):
            item = _as_index(item)
        out.append(item)
    return tuple(out), advanced


def _is_array(item: Any) -> bool:
    return isinstance(item, Tensor) or bool(getattr(item, "shape", ()))


def _as_index(item: Any) -> int:
    try:
        return index(item)
    except TypeError:
        raise DimensionError(
            "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got "
            f"{type(item).__name__})"
        ) from None


# Advanced indices


def _numpy_index(self: Tensor, items: Sequence[Any]) -> tuple[Any, ...]:
    """The index in NumPy's terms. Raises in torch's words where an index is of a wrong type or out of range."""
    _check_count(self._layout, [item for item in items if not _is_mask(item)])
    for item in items:
        if isinstance(item, Tensor) and item._dtype.kind not in "iub":
            raise DimensionError("tensors used as indices must be long, int, byte or bool tensors")
        if isinstance(item, slice):
            _slice_bounds(item)
    return tuple([read(item) if isinstance(item, Tensor) else item for item in items])


def _is_mask(item: Any) -> bool:
    return isinstance(item, Tensor) and item._dtype.kind == "b"


def _pick(self: Tensor, items: Sequence[Any], array: Any) -> Any:
    try:
        return array[_numpy_index(self, items)]
    except IndexError as error:
        raise _index_error(self, error) from None


def _index_error(self: Tensor, error: IndexError) -> Exception:
    text = str(error)
    if isinstance(error, DimensionError):
        return error
    if "broadcast" in text:
        return DimensionError("shape mismatch: indexing tensors could not be broadcast together")
    if "boolean" in text:
        return DimensionError(
            f"The shape of the mask does not match the shape of the indexed tensor {list(self.shape)}"
        )
    return DimensionError(text)


@operator(name="_gather", method=False, grad="IndexBackward0")
def _gather(self: Tensor, items: Sequence[Any]) -> Tensor:
    picked = _pick(self, items, raw(self))
    out = empty_tensor(Layout.contiguous(picked.shape), self._dtype, self.device)
    out._bits = self._bits
    raw(out)[...] = picked
    note_copy("numpy", out.nbytes)
    return out


@operator(name="__setitem__", grad="CopySlices", keys="all")
def setitem_(self: Tensor, key: Any, value: Any) -> None:
    """Write a number or a tensor, broadcast, into the elements that the index names."""
    items, advanced = _normalised(key if isinstance(key, tuple) else (key,))
    if advanced:
        _scatter(self, items, value)
    else:
        part = view_of(self, basic_layout(self._layout, items))
        if isinstance(value, Tensor):
            _assign(part, value)
        elif isinstance(value, bool | int | float | complex):
            if part._layout.sizes:
                refuse_overlap(part)
            fill(part, value)
        else:
            raise ArgumentTypeError(f"can't assign a {type(value).__name__} to a {_tensor_name(self)}")
    bump(self)


def _tensor_name(self: Tensor) -> str:
    return self._dtype.type_name(self.device.type)


def _assign(part: Tensor, value: Tensor) -> None:
    layout = value._layout
    while len(layout.sizes) > len(part._layout.sizes) and layout.sizes[0] == 1:
        layout = Layout(layout.sizes[1:], layout.strides[1:], layout.offset)
    refuse_overlap(part)
    copy_elements(part, view_of(value, layout.expand(part._layout.sizes)))


def _scatter(self: Tensor, items: Sequence[Any], value: Any) -> None:
    if not isinstance(value, Tensor):
        value = tensor(value, dtype=self._dtype)
    elif value._dtype is not self._dtype:
        raise TensorError(
            "Index put requires the source and destination dtypes match, got "
            f"{self._dtype.scalar_name} for the destination and {value._dtype.scalar_name} for the source."
        )
    values = numeric.encode(read(value), value._dtype)
    try:
        raw(self)[_numpy_index(self, items)] = values
    except IndexError as error:
        raise _index_error(self, error) from None
    except ValueError as error:
        raise TensorError(f"shape mismatch: {error}") from None
    note_copy("numpy", value.nbytes)
