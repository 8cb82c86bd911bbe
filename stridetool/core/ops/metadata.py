"""Operators that change the tensor itself: its layout in place, its storage, its size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stridetool.core import dispatch
from stridetool.core.autograd import refuse_leaf
from stridetool.core.dispatch import operator
from stridetool.core.elements import copy_elements
from stridetool.core.layout import Layout
from stridetool.core.ops.arguments import ints
from stridetool.core.ops.copies import clone
from stridetool.core.ops.views import strided_layout
from stridetool.core.options import preserve_format
from stridetool.core.shapes import checked_numel
from stridetool.core.storage import Storage, TypedStorage, empty_storage
from stridetool.core.tensor import Tensor, bump, view_of
from stridetool.errors import TensorError


def _become(self: Tensor, layout: Layout) -> Tensor:
    bump(self)
    self._layout = layout
    return self


@operator(grad="TransposeBackward1")
def transpose_(self: Tensor, dim0: int, dim1: int) -> Tensor:
    """`transpose` in place."""
    return _become(self, self._layout.transpose(dim0, dim1))


@operator()
def swapaxes_(self: Tensor, axis0: int, axis1: int) -> Tensor:
    """`swapaxes` in place."""
    return transpose_(self, axis0, axis1)


@operator()
def swapdims_(self: Tensor, dim0: int, dim1: int) -> Tensor:
    """`swapdims` in place."""
    return transpose_(self, dim0, dim1)


@operator(grad="TBackward1")
def t_(self: Tensor) -> Tensor:
    """`t` in place."""
    ndim = len(self._layout.sizes)
    if ndim > 2:
        raise TensorError(f"t_() expects a tensor with <= 2 dimensions, but self is {ndim}D")
    return _become(self, self._layout.transpose(0, 1) if ndim == 2 else self._layout)


def _squeeze_name(args: Sequence[Any]) -> str:
    dims = args[1] if len(args) > 1 else None
    return f"SqueezeBackward{3 if dims is None else 4 if isinstance(dims, int) else 5}"


@operator(grad=_squeeze_name)
def squeeze_(self: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """`squeeze` in place. With a conj or neg bit and a dimension named, torch writes the values anew in C order."""
    layout = self._layout.squeeze(dim)
    if dim is None or not self._bits or layout.sizes == self._layout.sizes:
        return _become(self, layout)
    copy = clone(self)
    fresh = Layout(layout.sizes, Layout.contiguous(layout.sizes).strides, layout.offset)
    grow(self._storage, fresh, self._dtype.itemsize)
    _become(self, fresh)
    copy_elements(self, view_of(copy, copy._layout.squeeze(dim)))
    return self


@operator(grad="UnsqueezeBackward1")
def unsqueeze_(self: Tensor, dim: int) -> Tensor:
    """`unsqueeze` in place."""
    return _become(self, self._layout.unsqueeze(dim))


@operator(grad="AsStridedBackward1")
def as_strided_(self: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Tensor:
    """`as_strided` in place."""
    return _become(self, strided_layout(self, size, stride, storage_offset))


@operator()
def detach_(self: Tensor) -> Tensor:
    """Leave the graph."""
    if self._base is not None:
        raise TensorError(
            "Can't detach views in-place. Use detach() instead. If you are using DistributedDataParallel (DDP) for "
            "training, and gradient_as_bucket_view is set as True, gradients are views of DDP buckets, and hence "
            "detach_() cannot be called on these gradients. To fix this error, please refer to the "
            "Optimizer.zero_grad() function in torch/optim/optimizer.py as the solution."
        )
    self._autograd = None
    self._keys &= dispatch.BACKENDS
    return self


@operator()
def resize_(self: Tensor, *sizes: Any, memory_format: str | None = None) -> Tensor:
    """Other sizes in place; the storage grows when they need it, and never shrinks.

    The same sizes keep the strides; others get fresh ones. Raises TensorError for memory of another library.
    """
    new_sizes = ints("resize_", sizes)
    layout = self._layout
    if self.requires_grad:
        raise TensorError("cannot resize variables that require grad")
    if new_sizes == layout.sizes and memory_format is None:
        return self
    if new_sizes != layout.sizes:
        checked_numel(new_sizes)
        layout = Layout(new_sizes, Layout.contiguous(new_sizes).strides, layout.offset)
        grow(self._storage, layout, self._dtype.itemsize)
        self._layout = layout  # torch, too, has the new sizes before it refuses a memory format
    if memory_format == preserve_format:
        raise TensorError("Unsupported memory formatPreserve")
    if memory_format is not None:
        layout = Layout(new_sizes, Layout.contiguous(new_sizes, memory_format).strides, layout.offset)
    return _become(self, layout)


def grow(storage: Storage, layout: Layout, itemsize: int) -> None:
    """Make the storage large enough for a layout."""
    needed = layout.reach()[1] * itemsize if layout.numel else 0
    if needed > storage.nbytes():
        storage.resize_(needed)


@operator()
def set_(
    self: Tensor,
    source: Tensor | Storage | TypedStorage | None = None,
    storage_offset: int = 0,
    size: Sequence[int] | None = None,
    stride: Sequence[int] | None = None,
) -> Tensor:
    """Take the storage of `source` (and its layout, or the one given); too small a storage grows."""
    refuse_leaf(self)
    if isinstance(source, TypedStorage):
        source = source.untyped()
    _refuse_other_kind(self, source)
    if isinstance(source, Tensor):
        self._storage = source._storage
        layout = source._layout
        if size is not None:
            strides = None if stride is None else ints("set_", stride)
            layout = _set_layout(self, source._storage, ints("set_", size), strides, storage_offset)
    else:
        storage = empty_storage(self.device) if source is None else source
        sizes = (storage.nbytes() // self._dtype.itemsize,) if size is None else ints("set_", size)
        strides = None if stride is None else ints("set_", stride)
        layout = _set_layout(self, storage, sizes, strides, storage_offset)
        self._storage = storage
    return _become(self, layout)


def _refuse_other_kind(self: Tensor, source: Tensor | Storage | None) -> None:
    if source is None:
        return
    if source.device.type != self.device.type:
        raise TensorError(
            f'Attempted to set the storage of a tensor on device "{self.device}" to a storage on different device '
            f'"{source.device}".  This is no longer allowed; the devices must match.'
        )
    if isinstance(source, Tensor) and source._dtype is not self._dtype:
        raise TensorError(
            f"Could not set tensor of type {source._dtype.c_name} to a tensor of type {self._dtype.c_name}"
        )


def _set_layout(
    self: Tensor, storage: Storage, sizes: Sequence[int], strides: Sequence[int] | None, offset: int
) -> Layout:
    """The layout that `set_` gives. The storage grows for it, unless sizes and strides stay as they are: then torch
    refuses what does not fit."""
    before, itemsize = self._layout, self._dtype.itemsize
    if strides is not None and len(sizes) != len(strides):
        raise TensorError(f"unequal size length ({len(sizes)}) and stride length ({len(strides)})")
    if offset < 0:
        raise TensorError(f"Tensor: invalid storage offset {offset}")
    checked_numel(sizes)
    if min(strides or (), default=0) < 0:
        raise TensorError(
            f"Storage size calculation overflowed with sizes={list(sizes)} and strides={list(strides or ())}"
        )
    layout = Layout(tuple(sizes), tuple(strides or Layout.contiguous(sizes).strides), offset)
    if before.sizes != layout.sizes or strides not in (None, before.strides):
        grow(storage, layout, itemsize)
        return layout
    needed = layout.reach()[1] * itemsize
    if needed > storage.nbytes() and layout.numel:  # torch names the strides as they were given, maybe none
        raise TensorError(
            f"setStorage: sizes {list(sizes)}, strides {list(strides or ())}, storage offset {offset}, and itemsize "
            f"{itemsize} requiring a storage size of {needed} are out of bounds for storage of size {storage.nbytes()}"
        )
    return Layout(before.sizes, before.strides, offset)
