"""Complex numbers as views: real and imaginary parts, and conjugation and negation that are only a bit."""

from __future__ import annotations

from stridetool.core.dispatch import operator
from stridetool.core.layout import Layout
from stridetool.core.ops.views import _matrix_transpose, select
from stridetool.core.tensor import CONJ, NEG, Tensor, view_of
from stridetool.errors import TensorError


@operator()
def conj(self: Tensor) -> Tensor:
    """The conjugate without a copy; a real tensor is returned itself."""
    return _conj(self) if self._dtype.is_complex else self


@operator(name="_conj", grad="ConjBackward0", method=False)
def _conj(self: Tensor) -> Tensor:
    return _flipped(self, self._layout, CONJ)


def _flipped(self: Tensor, layout: Layout, bits: int) -> Tensor:
    out = view_of(self, layout)
    out._bits = self._bits ^ bits
    return out


@operator()
def resolve_conj(self: Tensor) -> Tensor:
    """The tensor itself, or a copy with the conjugation carried out."""
    return self.clone() if self._bits & CONJ else self


@operator()
def resolve_neg(self: Tensor) -> Tensor:
    """The tensor itself, or a copy with the negation carried out."""
    return self.clone() if self._bits & NEG else self


@operator(grad="ViewAsRealBackward0")
def view_as_real(self: Tensor) -> Tensor:
    """Real and imaginary part as a last dimension of 2."""
    if not self._dtype.is_complex:
        raise TensorError("view_as_real is only supported for complex tensors")
    if self._bits & CONJ:
        raise TensorError(
            "view_as_real doesn't work on unresolved conjugated tensors.  To resolve the conjugate tensor so you can "
            "view it as real, use self.resolve_conj(); however, be warned that the resulting tensor will NOT alias "
            "the original."
        )
    return _as_real(self)


def _as_real(self: Tensor) -> Tensor:
    layout = self._layout
    strides = (*(2 * s for s in layout.strides), 1)
    out = view_of(self, Layout((*layout.sizes, 2), strides, 2 * layout.offset))
    out._dtype = self._dtype.to_real()
    out._bits = self._bits & NEG
    return out


@operator(grad="ViewAsComplexBackward0")
def view_as_complex(self: Tensor) -> Tensor:
    """Pairs in the last dimension as complex numbers. Raises TensorError where the layout does not allow it."""
    layout = self._layout
    if self._dtype.name not in ("float16", "float32", "float64"):
        raise TensorError(
            "view_as_complex is only supported for half, float and double tensors, but got a tensor of scalar type: "
            f"{self._dtype.scalar_name}"
        )
    if not layout.sizes:
        raise TensorError("Input tensor must have one or more dimensions")
    if layout.sizes[-1] != 2:
        raise TensorError("Tensor must have a last dimension of size 2")
    out = view_of(self, _halved(layout))
    out._dtype = self._dtype.to_complex()
    return out


def _halved(layout: Layout) -> Layout:
    strides = layout.strides[:-1]
    if layout.strides[-1] != 1:
        raise TensorError("Tensor must have a last dimension with stride 1")
    for size, stride in zip(layout.sizes, strides, strict=False):
        if stride % 2 and size != 1:
            raise TensorError("Tensor must have a stride divisible by 2 for all but last dimension")
    if layout.offset % 2:
        raise TensorError("Tensor must have a storage_offset divisible by 2")
    return Layout(layout.sizes[:-1], tuple([s // 2 for s in strides]), layout.offset // 2)


@operator(attribute=True)
def real(self: Tensor) -> Tensor:
    """The real parts as a view; a real tensor is returned itself."""
    return _part(self, 0) if self._dtype.is_complex else self


@operator(attribute=True)
def imag(self: Tensor) -> Tensor:
    """The imaginary parts as a view, with the neg bit when the tensor has the conj bit."""
    if not self._dtype.is_complex:
        raise TensorError("imag is not implemented for tensors with non-complex dtypes.")
    return _part(self, 1)


def _part(self: Tensor, which: int) -> Tensor:
    out = select(_pairs(self), -1, which)
    if self._bits & CONJ and which == 1:
        out._bits ^= NEG
    return out


@operator(name="_view_as_real_physical", grad="ViewAsRealBackward0", method=False)
def _pairs(self: Tensor) -> Tensor:
    return _as_real(self)


@operator(attribute=True)
def mH(self: Tensor) -> Tensor:  # noqa: N802  torch's name
    """The conjugate transpose of each matrix."""
    return conj(_matrix_transpose(self, "mH"))


@operator(attribute=True)
def H(self: Tensor) -> Tensor:  # noqa: N802  torch's name
    """The conjugate transpose of a matrix."""
    ndim = len(self._layout.sizes)
    if ndim not in (0, 2):
        more = "" if ndim < 2 else " For batches of matrices, consider using tensor.mH"
        raise TensorError(f"tensor.H is only supported on matrices (2-D tensors). Got {ndim}-D tensor.{more}")
    return conj(_matrix_transpose(self, "H"))


@operator()
def adjoint(self: Tensor) -> Tensor:
    """`mH` as a method."""
    return conj(_matrix_transpose(self, "adjoint()"))
