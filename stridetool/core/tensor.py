"""Tensor: a storage, a layout, an element type, and what autograd has to remember.

This file holds what a tensor *is*: its facts and how one is made from another. What one can *do* with it (views,
copies, …) stands in `ops/` and is hung on the class when that package is loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stridetool.core import dispatch
from stridetool.core.drivers.device import Device
from stridetool.core.dtype import DType
from stridetool.core.facets import AutogradMeta, Size, Version
from stridetool.core.layout import Layout, wrap_dim
from stridetool.core.options import contiguous_format, preserve_format
from stridetool.core.refusals import missing_attribute
from stridetool.core.storage import Storage, TypedStorage
from stridetool.errors import ArgumentTypeError, TensorError

CONJ, NEG = 1, 2
"""Bits of a tensor whose values are read conjugated, or negated, without being stored so."""

INTERFACES: dict[str, Callable[[Tensor], Any]] = {}
"""Attributes through which other libraries see a tensor, where it has them; each raises AttributeError otherwise."""


class Tensor:
    """A strided array over a shared storage, with torch's names.

    Made by the factories (`tensor`, `empty`, `arange`, …); `Tensor([1, 2])` and `Tensor(2, 3)` are torch's old ways.
    """

    __slots__ = (
        "__weakref__",
        "_autograd",
        "_base",
        "_bits",
        "_dtype",
        "_facts",
        "_keys",
        "_layout",
        "_storage",
        "_version_counter",
    )

    _autograd: AutogradMeta | None
    _base: Tensor | None
    _bits: int
    _dtype: DType
    _facts: Any  # trace.TensorFacts of the last time that it was recorded
    _keys: int
    _layout: Layout
    _storage: Storage
    _version_counter: Version | None

    def __new__(cls, *data: Any) -> Tensor:
        from stridetool.core.ops.factories import legacy_tensor

        return legacy_tensor(*data)

    # Facts

    @property
    def serial(self) -> int:
        """A number that no other tensor of this process has, given when first asked for."""
        from stridetool.core.trace import facts_of

        return facts_of(self).tensor

    @property
    def shape(self) -> Size:
        """Elements in each dimension."""
        return Size(self._layout.sizes)

    def size(self, dim: int | None = None) -> Any:
        """`shape`, or one entry of it."""
        sizes = self._layout.sizes
        return Size(sizes) if dim is None else sizes[wrap_dim(dim, len(sizes), scalar=False)]

    def stride(self, dim: int | None = None) -> Any:
        """Elements from one index to the next in each dimension, or in one."""
        strides = self._layout.strides
        return strides if dim is None else strides[wrap_dim(dim, len(strides), scalar=False)]

    def storage_offset(self) -> int:
        """Elements from the start of the storage to the first element."""
        return self._layout.offset

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self._dtype

    @property
    def device(self) -> Device:
        """Where the bytes are."""
        return self._storage.pointer.device

    @property
    def ndim(self) -> int:
        """How many dimensions there are."""
        return len(self._layout.sizes)

    def dim(self) -> int:
        """How many dimensions there are."""
        return len(self._layout.sizes)

    def numel(self) -> int:
        """How many elements there are."""
        return self._layout.numel

    def nelement(self) -> int:
        """How many elements there are."""
        return self._layout.numel

    def element_size(self) -> int:
        """Bytes of one element."""
        return self._dtype.itemsize

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self._dtype.itemsize

    @property
    def nbytes(self) -> int:
        """`numel() * element_size()`: the logical size, which an expanded tensor does not take in memory."""
        return self._layout.numel * self._dtype.itemsize

    def data_ptr(self) -> int:
        """The address of the first element; 0 without elements or without memory."""
        start = self._storage.pointer.address
        return start + self._layout.offset * self._dtype.itemsize if start and self._layout.numel else 0

    def untyped_storage(self) -> Storage:
        """The bytes below, the same object each time."""
        return self._storage

    def storage(self) -> TypedStorage:
        """The bytes below as elements."""
        return TypedStorage(self._storage, self._dtype)

    def is_contiguous(self, memory_format: str = contiguous_format) -> bool:
        """Whether the elements lie without a hole in the order of `memory_format`."""
        return self._layout.is_contiguous(contiguous_format if memory_format == preserve_format else memory_format)

    def is_non_overlapping_and_dense(self) -> bool:
        """Whether every place from the lowest to the highest element holds one element, in whatever order."""
        return self._layout.is_non_overlapping_and_dense()

    def is_conj(self) -> bool:
        """Whether the values are read conjugated."""
        return bool(self._bits & CONJ)

    def is_neg(self) -> bool:
        """Whether the values are read negated."""
        return bool(self._bits & NEG)

    def is_floating_point(self) -> bool:
        """Whether the element type is real and floating."""
        return self._dtype.is_floating_point

    def is_complex(self) -> bool:
        """Whether the element type is complex."""
        return self._dtype.is_complex

    def is_signed(self) -> bool:
        """Whether the element type can be below zero."""
        return self._dtype.is_signed

    @property
    def is_cuda(self) -> bool:
        """Whether the bytes are on a (real or simulated) CUDA device."""
        return self.device.type == "cuda"

    @property
    def is_cpu(self) -> bool:
        """Whether the bytes are in host memory."""
        return self.device.type == "cpu"

    @property
    def is_meta(self) -> bool:
        """Whether there are no bytes at all."""
        return self.device.type == "meta"

    def get_device(self) -> int:
        """The index of the CUDA device, -1 on the host."""
        return -1 if self.device.type == "cpu" else self.device.index or 0

    def _is_view(self) -> bool:
        """Whether this came from a view operator; detach() and view(dtype) share memory without being one."""
        return self._base is not None

    @property
    def _version(self) -> int:
        if self._version_counter is None:
            raise TensorError("Inference tensors do not track version counter.")
        return self._version_counter.value

    def is_inference(self) -> bool:
        """Whether it was made under inference mode."""
        return self._version_counter is None

    # Autograd

    @property
    def requires_grad(self) -> bool:
        """Whether gradients are wanted with respect to this tensor, or to something that it came from."""
        return self._keys >= dispatch.AUTOGRAD

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        from stridetool.core.autograd import set_requires_grad

        set_requires_grad(self, value)

    @property
    def grad_fn(self) -> Any:
        """The node of the graph that made this tensor; None for a leaf."""
        return self._autograd.grad_fn if self._autograd else None

    @property
    def is_leaf(self) -> bool:
        """Whether no node of a graph made this tensor."""
        return self.grad_fn is None

    @property
    def output_nr(self) -> int:
        """Which output of `grad_fn` this is."""
        return self._autograd.output_nr if self._autograd else 0

    @property
    def grad(self) -> Tensor | None:
        """What was assigned to it: no gradients are computed here."""
        return self._autograd.grad if self._autograd else None

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        self._autograd = self._autograd or AutogradMeta()
        self._autograd.grad = value

    # Python

    __hash__ = object.__hash__

    def __len__(self) -> int:
        if not self._layout.sizes:
            raise ArgumentTypeError("len() of a 0-d tensor")
        return self._layout.sizes[0]

    def __repr__(self) -> str:
        from stridetool.core.printing import tensor_text

        return tensor_text(self)

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec and not self._layout.sizes else repr(self)

    def __getattr__(self, name: str) -> Any:
        if name in INTERFACES:
            return INTERFACES[name](self)
        raise missing_attribute("Tensor", name, [n for n in dir(type(self)) if not n.startswith("__")])


def make_tensor(storage: Storage, layout: Layout, dtype: DType, version: Version | None = None) -> Tensor:
    """A tensor of its own: no view, no graph, no bits, and a fresh version counter unless one is given."""
    t = object.__new__(Tensor)
    t._storage = storage
    t._layout = layout
    t._dtype = dtype
    t._keys = dispatch.register_backend(storage.pointer.device.type)
    t._base = None
    t._bits = 0
    t._autograd = None
    t._facts = None
    t._version_counter = version or Version()
    return t


def view_of(x: Tensor, layout: Layout) -> Tensor:
    """The memory of `x` under another layout: a view in torch's sense, which knows its base."""
    t = object.__new__(Tensor)
    t._storage = x._storage
    t._layout = layout
    t._dtype = x._dtype
    t._keys = x._keys & dispatch.BACKENDS
    base = x._base
    t._base = x if base is None else base
    t._bits = x._bits
    t._autograd = None
    t._facts = None
    t._version_counter = x._version_counter
    return t


def alias_of(x: Tensor, layout: Layout, dtype: DType) -> Tensor:
    """The memory of `x` without being a view of it: what detach() and view(dtype) give."""
    t = view_of(x, layout)
    t._base = None
    t._dtype = dtype
    return t


def bump(x: Tensor) -> None:
    """Count a write to the memory of `x`, or a change of its metadata, that is about to come.

    Raises TensorError for an inference tensor outside inference mode.
    """
    if x._version_counter is not None:
        x._version_counter.value += 1
        return
    from stridetool.core.grad_mode import is_inference_mode_enabled

    if not is_inference_mode_enabled():
        raise TensorError(
            "Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clone to get a "
            "normal tensor before doing inplace update.See https://github.com/pytorch/rfcs/pull/17 for more details."
        )
