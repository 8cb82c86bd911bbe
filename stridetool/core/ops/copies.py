"""Operators that give new memory, or the tensor itself when it already is what was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stridetool.core import dtype as dtypes
from stridetool.core.dispatch import operator
from stridetool.core.drivers.device import CPU, Device
from stridetool.core.dtype import DType
from stridetool.core.elements import copy_elements
from stridetool.core.iteration import broadcast_sizes, common_device
from stridetool.core.layout import Layout, wrap_dim
from stridetool.core.ops.arguments import ints
from stridetool.core.ops.factories import empty_tensor, refuse_negative
from stridetool.core.ops.views import reshape
from stridetool.core.options import MemoryFormat, as_device, contiguous_format, preserve_format
from stridetool.core.shapes import wrap_unique_dims
from stridetool.core.tensor import Tensor, alias_of, bump, view_of
from stridetool.errors import ArgumentTypeError, ArgumentValueError, TensorError


def layout_like(x: Tensor, memory_format: str | None) -> Layout:
    """The fresh layout that `clone`, `empty_like` and `to` give for a memory format (preserve by default)."""
    if memory_format in (None, preserve_format):
        return Layout.dense_like(x._layout)
    return Layout.contiguous(x._layout.sizes, memory_format)


@operator(grad="CloneBackward0")
def clone(self: Tensor, *, memory_format: str | None = None) -> Tensor:
    """A copy with its own memory, in the same order if that is dense."""
    out = empty_tensor(layout_like(self, memory_format), self._dtype, self.device)
    copy_elements(out, self)
    return out


@operator()
def contiguous(self: Tensor, memory_format: str = contiguous_format) -> Tensor:
    """The tensor itself when it is contiguous in that format, else a copy that is."""
    if self._layout.is_contiguous("contiguous_format" if memory_format == preserve_format else memory_format):
        return self
    if memory_format == preserve_format:
        raise TensorError("preserve memory format is unsupported by the contiguous operator")
    return clone(self, memory_format=memory_format)


@operator(name="_to_copy", grad="ToCopyBackward0", method=False)
def to_copy(self: Tensor, dtype: DType, device: Device, memory_format: str | None) -> Tensor:
    """A copy with another type, device or memory format."""
    out = empty_tensor(layout_like(self, memory_format), dtype, device)
    copy_elements(out, self)
    return out


@operator()
def to(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """`to(dtype)`, `to(device)`, `to(other)`, with copy= and memory_format=; the tensor itself when nothing changes.

    A memory format counts as given when the tensor *suggests* it, not when the flag holds, as in torch.
    """
    dtype, device, copy, memory_format = _to_arguments(self, args, kwargs)
    same = dtype is self._dtype and _same_device(device, self.device)
    if same and not copy and memory_format in (None, preserve_format, self._layout.suggested_memory_format()):
        return self
    return to_copy(self, dtype, device, memory_format)


def _same_device(a: Device, b: Device) -> bool:
    return a == b or (a.type == b.type and (a.index is None or b.index is None) and (a.index or 0) == (b.index or 0))


def _to_arguments(
    self: Tensor, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[DType, Device, bool, MemoryFormat | None]:
    dtype, device = self._dtype, self.device
    flags: list[bool] = []
    for value in (*args, *(kwargs.pop(name, None) for name in ("other", "dtype", "device"))):
        if isinstance(value, DType):
            dtype = value
        elif isinstance(value, Tensor):
            dtype, device = value._dtype, value.device
        elif isinstance(value, bool):
            flags.append(value)
        elif value is not None:
            device = as_device(value)
    copy = kwargs.pop("copy", flags[1] if len(flags) > 1 else False)
    memory_format = kwargs.pop("memory_format", None)
    kwargs.pop("non_blocking", None)
    if kwargs:
        raise TypeError(f"to() got an unexpected keyword argument '{next(iter(kwargs))}'")
    return dtype, device, copy, memory_format


@operator()
def cpu(self: Tensor, memory_format: str | None = None) -> Tensor:
    """On the host: the tensor itself if it is there."""
    return to(self, CPU, memory_format=memory_format)


@operator()
def cuda(self: Tensor, device: Any = None, non_blocking: bool = False, memory_format: str | None = None) -> Tensor:
    """On a CUDA device, real or simulated."""
    return to(self, as_device("cuda" if device is None else device), memory_format=memory_format)


@operator()
def type_as(self: Tensor, other: Tensor) -> Tensor:
    """With the type of another tensor."""
    return to(self, other._dtype)


def _caster(name: str, dtype: DType) -> None:
    def cast(self: Tensor, memory_format: str | None = None) -> Tensor:
        return to(self, dtype, memory_format=memory_format)

    cast.__doc__ = f"With element type {dtype.name}; the tensor itself if it has it."
    operator(name=name)(cast)


for _name, _dtype in {**dtypes.ALIASES, "bool": dtypes.bool_, "byte": dtypes.uint8, "char": dtypes.int8}.items():
    _caster(_name, _dtype)
_caster("bfloat16", dtypes.bfloat16)


_OVERLAP = (
    "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
    "Please clone() the tensor before performing the operation."
)


def refuse_overlap(x: Tensor) -> None:
    """Raise TensorError when torch refuses to write into `x`: a dimension with stride 0 repeats an element."""
    if x._layout.overlap_code() == 1:
        raise TensorError(_OVERLAP)


def refuse_partial_overlap(target: Tensor, source: Tensor, *, same_too: bool = False) -> None:
    """Raise TensorError when reading and writing would meet, as torch does: for dense tensors of one storage only.

    The very same elements on both sides are no obstacle, unless `same_too`.
    """
    if target is source or target._storage is not source._storage:
        return
    if not (target._layout.is_non_overlapping_and_dense() and source._layout.is_non_overlapping_and_dense()):
        return
    (low, high), (other_low, other_high) = (
        [edge * x._dtype.itemsize for edge in x._layout.reach()] for x in (target, source)
    )
    same = (low, high) == (other_low, other_high) and target._layout.strides == source._layout.strides
    if (same_too or not same) and low < other_high and other_low < high:
        raise TensorError(
            "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single "
            "memory location. Please clone() the tensor before performing the operation."
        )


def _refuse_broadcast_of_output(sizes: Sequence[int], source: Sequence[int]) -> None:
    together = broadcast_sizes(sizes, source)
    if together != tuple(sizes):
        raise TensorError(f"output with shape {list(sizes)} doesn't match the broadcast shape {list(together)}")


@operator(grad="CopyBackwards", keys="all")
def copy_(self: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    """Write the values of `src`, broadcast and converted, into this tensor."""
    refuse_overlap(self)
    _refuse_broadcast_of_output(self._layout.sizes, src._layout.sizes)
    refuse_partial_overlap(self, src)
    bump(self)
    if src is not self:
        copy_elements(self, view_of(src, src._layout.expand(self._layout.sizes)))
    return self


@operator(grad="FlipBackward0")
def flip(self: Tensor, *dims: Any) -> Tensor:
    """A copy with dimensions reversed (a tensor has no negative strides, so this is no view)."""
    layout = self._layout
    gone = wrap_unique_dims(ints("flip", dims), len(layout.sizes))
    out = empty_tensor(layout_like(self, None), self._dtype, self.device)
    copy_elements(out, view_of(self, layout.flip(gone) if layout.sizes else layout))
    return out


@operator(grad="RollBackward0")
def roll(self: Tensor, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None) -> Tensor:
    """A copy with elements moved along dimensions, those that leave coming in at the other end."""
    shifts = (shifts,) if isinstance(shifts, int) else tuple(shifts)
    dims = () if dims is None else (dims,) if isinstance(dims, int) else tuple(dims)
    if not shifts:
        raise TensorError("`shifts` required")
    if not dims and len(shifts) == 1:
        flat = reshape(self, -1)
        rolled = _roll(flat, shifts[0], 0)
        return alias_of(rolled, rolled._layout.view(self._layout.sizes), self._dtype)
    if len(shifts) != len(dims):
        raise TensorError(f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}")
    if len(shifts) > 1:
        return roll(roll(self, shifts[0], dims[0]), shifts[1:], dims[1:])
    return _roll(self, shifts[0], dims[0])


def _roll(self: Tensor, shift: int, dim: int) -> Tensor:
    if not self._layout.numel:
        return clone(self, memory_format=preserve_format)
    d = wrap_dim(dim, self.ndim, scalar=False)
    size = self._layout.sizes[d]
    start = (size - shift) % size
    parts = self._layout.slice(d, start, size), self._layout.slice(d, 0, start)
    return cat([view_of(self, layout) for layout in parts], d)


@operator(grad="RepeatBackward0")
def repeat(self: Tensor, *repeats: Any) -> Tensor:
    """A copy that holds the tensor that many times in each dimension."""
    times = ints("repeat", repeats)
    extra = len(times) - len(self._layout.sizes)
    if extra < 0:
        raise TensorError("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
    padded = view_of(self, self._layout.expand((*(1,) * extra, *self._layout.sizes)))
    sizes = tuple([n * r for n, r in zip(padded._layout.sizes, times, strict=True)])
    refuse_negative("repeat", sizes)
    out = empty_tensor(Layout.contiguous(sizes), self._dtype, self.device)
    copy_elements(view_of(out, _tiles(out._layout, padded._layout.sizes, times)), _repeated(padded, times))
    return out


def _tiles(layout: Layout, sizes: Sequence[int], times: Sequence[int]) -> Layout:
    """A dimension of tiles before each dimension within the tile."""
    pairs = [n for count, size in zip(times, sizes, strict=True) for n in (count, size)]
    strides = [s for size, step in zip(sizes, layout.strides, strict=True) for s in (size * step, step)]
    return Layout(tuple(pairs), tuple(strides), layout.offset)


def _repeated(x: Tensor, times: Sequence[int]) -> Tensor:
    layout = x._layout
    sizes = [n for count, size in zip(times, layout.sizes, strict=True) for n in (count, size)]
    strides = [s for step in layout.strides for s in (0, step)]
    return view_of(x, Layout(tuple(sizes), tuple(strides), layout.offset))


@operator(keys="all", method=False, grad="CatBackward0")
def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """One tensor of several, along a dimension that exists; channels-last when all of them suggest it."""
    if not tensors:
        raise ArgumentValueError("torch.cat(): expected a non-empty list of Tensors")
    _require_tensors(tensors)
    parts = [x for x in tensors if x._layout.sizes != (0,)] or list(tensors)
    for position, x in enumerate(tensors):
        if not x._layout.sizes:
            raise TensorError(f"zero-dimensional tensor (at position {position}) cannot be concatenated")
    d = wrap_dim(dim, parts[0].ndim)
    sizes = list(parts[0]._layout.sizes)
    for number, x in enumerate(parts[1:], 1):
        _check_cat(sizes, x._layout.sizes, d, number)
    dtype = parts[0]._dtype
    for x in tensors:
        dtype = dtypes.promote_types(dtype, x._dtype)
    sizes[d] = sum(x._layout.sizes[d] for x in parts)
    suggested = {x._layout.suggested_memory_format() for x in tensors}
    order = suggested.pop() if len(suggested) == 1 else "contiguous_format"
    out = empty_tensor(Layout.contiguous(sizes, order), dtype, common_device(tensors))
    start = 0
    for x in parts:
        length = x._layout.sizes[d]
        copy_elements(view_of(out, out._layout.narrow(d, start, length)), x)
        start += length
    return out


def _require_tensors(tensors: Sequence[Any]) -> None:
    for number, x in enumerate(tensors):
        if not isinstance(x, Tensor):
            raise ArgumentTypeError(f"expected Tensor as element {number} in argument 0, but got {type(x).__name__}")


def _check_cat(first: Sequence[int], other: Sequence[int], dim: int, number: int) -> None:
    if len(first) != len(other):
        raise TensorError(f"Tensors must have same number of dimensions: got {len(first)} and {len(other)}")
    for d, (a, b) in enumerate(zip(first, other, strict=True)):
        if d != dim and a != b:
            raise TensorError(
                f"Sizes of tensors must match except in dimension {dim}. Expected size {a} but got size {b} for "
                f"tensor number {number} in the list."
            )


@operator(keys="all", method=False, grad="StackBackward0")
def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors of equal sizes side by side in a new dimension."""
    if not tensors:
        raise TensorError("stack expects a non-empty TensorList")
    _require_tensors(tensors)
    sizes = tensors[0]._layout.sizes
    for number, x in enumerate(tensors):
        if x._layout.sizes != sizes:
            raise TensorError(
                f"stack expects each tensor to be equal size, but got {list(sizes)} at entry 0 and "
                f"{list(x._layout.sizes)} at entry {number}"
            )
    d = wrap_dim(dim, len(sizes) + 1)
    if d == len(sizes):
        return cat([view_of(x, x._layout.unsqueeze(d)) for x in tensors], d)
    joined = cat(tensors, d)
    return alias_of(joined, joined._layout.view((*sizes[:d], len(tensors), *sizes[d:])), joined._dtype)
