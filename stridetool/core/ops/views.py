"""View operators: the same memory under another layout. What a layout may become stands in `core/layout.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stridetool.core.dispatch import operator
from stridetool.core.dtype import DType
from stridetool.core.facets import Version
from stridetool.core.layout import Layout
from stridetool.core.ops.arguments import ints
from stridetool.core.options import contiguous_format
from stridetool.core.storage import refuse_out_of_bounds
from stridetool.core.tensor import Tensor, alias_of, view_of
from stridetool.errors import TensorError

# Shape


@operator()
def view(self: Tensor, *size: Any, dtype: DType | None = None) -> Tensor:
    """The same elements under another shape, or the same bytes as another type; never a copy.

    Raises TensorError when only a copy could have that shape.
    """
    if dtype is not None or (size and type(size[0]) is DType):
        return view_dtype(self, dtype or size[0])
    return _viewed(self, self._layout.view(ints("view", size)))


def view_dtype(self: Tensor, dtype: DType) -> Tensor:
    """The same bytes as elements of `dtype`; not a view in autograd's sense."""
    old = self._dtype
    for bit, what in ((self.is_conj(), "conjugate view tensors"), (self.is_neg(), "tensors with negative bit set")):
        if bit:
            raise TensorError(
                f"torch.Tensor.view is not supported for {what} when converting to a different dtype.",
                hint="resolve_conj() or resolve_neg() first, which copies",
            )
    names = old.scalar_name, dtype.scalar_name
    return alias_of(self, self._layout.view_dtype(old.itemsize, dtype.itemsize, *names), dtype)


@operator()
def view_as(self: Tensor, other: Tensor) -> Tensor:
    """`view(other.size())`."""
    return view(self, other._layout.sizes)


@operator()
def reshape(self: Tensor, *shape: Any) -> Tensor:
    """A view where one is possible, else a copy in C order."""
    return _reshaped(self, ints("reshape", shape))


def _reshaped(self: Tensor, sizes: Sequence[int]) -> Tensor:
    layout = self._layout.try_view(sizes)
    if layout is not None:
        return _viewed(self, layout)
    copy = self.clone(memory_format=contiguous_format)
    return unsafe_view(copy, copy._layout.view(sizes))


@operator(name="_view", grad="ViewBackward0", method=False)
def _viewed(self: Tensor, layout: Layout) -> Tensor:
    return view_of(self, layout)


@operator(grad="UnsafeViewBackward0", method=False)
def unsafe_view(self: Tensor, layout: Layout) -> Tensor:
    """A new tensor under another layout, for memory that nobody else will see."""
    return alias_of(self, layout, self._dtype)


@operator()
def reshape_as(self: Tensor, other: Tensor) -> Tensor:
    """`reshape(other.size())`."""
    return _reshaped(self, other._layout.sizes)


@operator()
def flatten(self: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Dimensions from start to end as one; the tensor itself when that is one dimension already."""
    sizes = self._layout.flatten_sizes(start_dim, end_dim)
    return self if len(sizes) == len(self._layout.sizes) else _reshaped(self, sizes)


@operator()
def unflatten(self: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """One dimension as several."""
    return view(self, self._layout.unflatten_sizes(dim, sizes))


@operator()
def ravel(self: Tensor) -> Tensor:
    """All elements in one dimension: a view of this tensor, or of a contiguous copy of it."""
    return view(self.contiguous(), -1)


# Order of dimensions


@operator(grad="TransposeBackward0")
def transpose(self: Tensor, dim0: int, dim1: int) -> Tensor:
    """Two dimensions change places."""
    return view_of(self, self._layout.transpose(dim0, dim1))


@operator()
def swapaxes(self: Tensor, axis0: int, axis1: int) -> Tensor:
    """`transpose` under NumPy's name."""
    return transpose(self, axis0, axis1)


@operator()
def swapdims(self: Tensor, dim0: int, dim1: int) -> Tensor:
    """`transpose`."""
    return transpose(self, dim0, dim1)


@operator(grad="TBackward0")
def t(self: Tensor) -> Tensor:
    """The transpose of a tensor of at most two dimensions."""
    ndim = len(self._layout.sizes)
    if ndim > 2:
        raise TensorError(f"t() expects a tensor with <= 2 dimensions, but self is {ndim}D", hint="use mT or permute")
    return view_of(self, self._layout.transpose(0, 1) if ndim == 2 else self._layout)


@operator(grad="PermuteBackward0")
def permute(self: Tensor, *dims: Any) -> Tensor:
    """Dimension i of the result is dimension dims[i]."""
    return view_of(self, self._layout.permute(ints("permute", dims)))


@operator(grad="PermuteBackward0", attribute=True)
def T(self: Tensor) -> Tensor:  # noqa: N802  torch's name
    """All dimensions reversed."""
    return view_of(self, self._layout.permute(range(len(self._layout.sizes) - 1, -1, -1)))


@operator(attribute=True)
def mT(self: Tensor) -> Tensor:  # noqa: N802  torch's name
    """The last two dimensions change places; a 0-d tensor is returned itself, as torch still does."""
    return _matrix_transpose(self, "mT")


def _matrix_transpose(self: Tensor, name: str) -> Tensor:
    ndim = len(self._layout.sizes)
    if ndim == 0:
        return self
    if ndim < 2:
        raise TensorError(f"tensor.{name} is only supported on matrices or batches of matrices. Got {ndim}-D tensor.")
    return transpose(self, -2, -1)


@operator()
def movedim(self: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """Dimensions go to other places; the others keep their order."""
    source = (source,) if isinstance(source, int) else source
    destination = (destination,) if isinstance(destination, int) else destination
    return _movedim(self, self._layout.movedim(source, destination))


@operator(name="_movedim", grad="PermuteBackward0", method=False)
def _movedim(self: Tensor, layout: Layout) -> Tensor:
    return view_of(self, layout)


@operator()
def moveaxis(self: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """`movedim` under NumPy's name."""
    return movedim(self, source, destination)


# Parts


@operator(grad="SelectBackward0")
def select(self: Tensor, dim: int, index: int) -> Tensor:
    """One index of one dimension, which goes away."""
    return view_of(self, self._layout.select(dim, index))


@operator(name="slice", grad="SliceBackward0", method=False)
def slice_(self: Tensor, dim: int, start: int | None, stop: int | None, step: int = 1) -> Tensor:
    """start:stop:step of one dimension."""
    return view_of(self, self._layout.slice(dim, start, stop, step))


@operator(grad="SliceBackward0")
def narrow(self: Tensor, dim: int, start: int, length: int) -> Tensor:
    """`length` indices of one dimension from `start` on."""
    return view_of(self, self._layout.narrow(dim, int(start), length))


@operator(grad="DiagonalBackward0")
def diagonal(self: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A diagonal of two dimensions, as the last dimension."""
    return view_of(self, self._layout.diagonal(offset, dim1, dim2))


@operator(grad="UnfoldBackward0")
def unfold(self: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Windows of `size`, `step` apart, along one dimension."""
    return view_of(self, self._layout.unfold(dimension, size, step))


# More or fewer dimensions


def _squeeze_name(args: Sequence[Any]) -> str:
    dims = args[1] if len(args) > 1 else None
    return f"SqueezeBackward{0 if dims is None else 1 if isinstance(dims, int) else 2}"


@operator(grad=_squeeze_name)
def squeeze(self: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """Without dimensions of size 1 (all, or those named)."""
    return view_of(self, self._layout.squeeze(dim))


@operator(grad="UnsqueezeBackward0")
def unsqueeze(self: Tensor, dim: int) -> Tensor:
    """With a new dimension of size 1."""
    return view_of(self, self._layout.unsqueeze(dim))


@operator(grad="ExpandBackward0")
def expand(self: Tensor, *size: Any, implicit: bool = False) -> Tensor:
    """Dimensions of size 1 repeated without a copy: their stride becomes 0."""
    layout, sizes = self._layout, ints("expand", size)
    too_few = len(sizes) < len(layout.sizes)  # the only error that names the type
    name = self._dtype.type_name(self.device.type) if too_few else ""
    return view_of(self, layout.expand(sizes, name))


@operator()
def expand_as(self: Tensor, other: Tensor) -> Tensor:
    """`expand(other.size())`."""
    return expand(self, other._layout.sizes)


@operator()
def broadcast_to(self: Tensor, *size: Any) -> Tensor:
    """`expand` under NumPy's name."""
    return expand(self, *size)


@operator(grad="AsStridedBackward0")
def as_strided(self: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Tensor:
    """Any sizes and strides over the whole storage, not only over this tensor's part of it."""
    return view_of(self, strided_layout(self, size, stride, storage_offset))


def strided_layout(self: Tensor, size: Sequence[int], stride: Sequence[int], offset: int | None) -> Layout:
    """The layout that `as_strided` gives. Raises TensorError when it leaves the storage, in torch's words."""
    sizes, strides = ints("as_strided", size), ints("as_strided", stride)
    start = self._layout.offset if offset is None else offset
    if len(sizes) != len(strides):
        raise TensorError("mismatch in length of strides and shape")
    if min(strides, default=0) < 0:
        raise TensorError(f"as_strided: Negative strides are not supported at the moment, got strides: {list(strides)}")
    if start < 0:
        raise TensorError(f"Tensor: invalid storage offset {start}")
    layout = Layout(sizes, strides, start)
    refuse_out_of_bounds(layout, self._dtype.itemsize, self._storage.pointer.nbytes)
    return layout


@operator(grad="AliasBackward0")
def alias(self: Tensor) -> Tensor:
    """The same view once more."""
    return view_of(self, self._layout)


@operator()
def detach(self: Tensor) -> Tensor:
    """The same memory outside the graph."""
    return alias_of(self, self._layout, self._dtype)


@operator(attribute=True)
def data(self: Tensor) -> Tensor:
    """The same memory outside the graph, with a version counter of its own."""
    out = alias_of(self, self._layout, self._dtype)
    out._version_counter = Version()
    return out
