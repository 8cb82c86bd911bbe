"""Arrays of other libraries, without a copy where that is possible: NumPy, and the CUDA array interface.

A tensor made from another library's array has a storage of its own object over the same bytes, with offset 0, and
keeps the array alive. Refusals come before anything is touched, in torch's words. DLPack is in `dlpack.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stridetool.core import autograd, elements
from stridetool.core.dispatch import operator
from stridetool.core.drivers.device import CPU
from stridetool.core.dtype import BY_NUMPY, DType
from stridetool.core.layout import Layout
from stridetool.core.ops.factories import empty_tensor
from stridetool.core.options import TensorOptions
from stridetool.core.storage import DataPtr, Storage
from stridetool.core.tensor import Tensor, make_tensor
from stridetool.core.trace import note_copy
from stridetool.errors import ArgumentTypeError, ArgumentValueError, TensorError

_SUPPORTED = (
    "float64, float32, float16, complex64, complex128, int64, int32, int16, int8, uint64, uint32, uint16, uint8, "
    "and bool"
)


def dtype_of_array(array: np.ndarray[Any, Any]) -> DType:
    """The type of an array's elements. Raises ArgumentTypeError for one that no tensor has."""
    found = BY_NUMPY.get(array.dtype.name)
    if found is None:
        kind = "numpy.object_" if array.dtype.hasobject else f"numpy.{array.dtype.type.__name__}"
        raise ArgumentTypeError(f"can't convert np.ndarray of type {kind}. The only supported types are: {_SUPPORTED}.")
    return found


@operator(method=False, keys="none")
def from_numpy(array: Any) -> Tensor:
    """A tensor over the memory of a NumPy array; not resizable.

    Raises ArgumentTypeError for no array or a type that no tensor has, ArgumentValueError for a foreign byte order,
    negative strides, or strides that are no multiple of the item size.
    """
    if not isinstance(array, np.ndarray):
        raise ArgumentTypeError(f"expected np.ndarray (got {type(array).__name__})")
    itemsize = array.dtype.itemsize
    if any(stride < 0 for stride in array.strides):
        raise ArgumentValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative strides are not "
            "currently supported. (You can probably work around this by making a copy of your array  with "
            "array.copy().) "
        )
    if any(stride % itemsize for stride in array.strides if itemsize):
        raise ArgumentValueError(
            "given numpy array strides not a multiple of the element byte size. Copy the numpy array to reallocate "
            "the memory."
        )
    if not array.dtype.isnative:
        raise ArgumentValueError(
            "given numpy array has byte order different from the native byte order. Conversion between byte orders "
            "is currently not supported."
        )
    return _over(array)


def _over(array: np.ndarray[Any, Any]) -> Tensor:
    dtype = dtype_of_array(array)
    strides = tuple([stride // dtype.itemsize for stride in array.strides])
    layout = Layout(array.shape, strides)
    nbytes = layout.reach()[1] * dtype.itemsize if array.size else 0
    address = array.ctypes.data if nbytes else 0
    pointer = DataPtr(address, nbytes, CPU, owner=array)
    return make_tensor(Storage(pointer, resizable=False, writable=array.flags.writeable), layout, dtype)


def from_array_copy(data: Any, options: TensorOptions) -> Tensor:
    """A tensor with the values of anything that NumPy takes."""
    array = np.asarray(data)
    if array.dtype.hasobject or array.dtype.name not in BY_NUMPY:
        dtype_of_array(array)
    source = _over(np.array(array, order="C", copy=True).astype(array.dtype.newbyteorder("="), copy=False))
    out = empty_tensor(source._layout, options.dtype_opt() or source._dtype, options.device())
    elements.copy_elements(out, source)
    note_copy("numpy", 0)
    return out


def numpy(self: Tensor, *, force: bool = False) -> Any:
    """The elements as a NumPy array over the same memory. The storage cannot be resized afterwards.

    Raises ArgumentTypeError or TensorError, in torch's words, where NumPy could not see the same values; `force`
    copies instead.
    """
    if force:
        return elements.read(self.detach().cpu()).copy()
    if self.device.type != "cpu":
        raise ArgumentTypeError(
            f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host "
            "memory first."
        )
    if self.requires_grad and autograd.is_grad_enabled():
        raise TensorError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
    if self.is_conj():
        raise TensorError(
            "Can't call numpy() on Tensor that has conjugate bit set. Use tensor.resolve_conj().numpy() instead."
        )
    if self.is_neg():
        raise TensorError(
            "Can't call numpy() on Tensor that has negative bit set. Use tensor.resolve_neg().numpy() instead."
        )
    if self._dtype.numpy_name is None:
        raise ArgumentTypeError(f"Got unsupported ScalarType {self._dtype.scalar_name}")
    self._storage.resizable = False
    return np.asarray(_Exported(self))


def array_interface(self: Tensor) -> dict[str, Any]:
    """The elements for NumPy: address, sizes, strides in bytes."""
    itemsize = self._dtype.itemsize
    return {
        "data": (self.data_ptr(), not self._storage.writable),
        "shape": tuple(self._layout.sizes),
        "strides": tuple([stride * itemsize for stride in self._layout.strides]),
        "typestr": np.dtype(self._dtype.numpy_name).str,
        "version": 3,
    }


class _Exported:
    """What a NumPy array keeps as its base: the interface, and the pointer that owns the bytes."""

    __slots__ = ("__array_interface__", "pointer")

    def __init__(self, x: Tensor) -> None:
        self.__array_interface__ = array_interface(x)
        self.pointer = x._storage.pointer


def _array(self: Tensor, dtype: Any = None, copy: bool | None = None) -> Any:
    """`numpy.asarray(tensor)`."""
    array = numpy(self)
    return array if dtype is None and not copy else np.array(array, dtype=dtype, copy=copy if copy else None)


def cuda_array_interface(self: Tensor) -> dict[str, Any]:
    """The elements for CuPy, Numba and others; AttributeError on the host, as the protocol asks."""
    if self.device.type != "cuda":
        raise AttributeError(
            f"Can't get __cuda_array_interface__ on non-CUDA tensor type: "
            f"{self._dtype.type_name(self.device.type)} If CUDA data is required use tensor.cuda() to copy tensor to "
            "device memory."
        )
    if self.requires_grad:
        raise TensorError(
            "Can't get __cuda_array_interface__ on Variable that requires grad. If gradients aren't required, use "
            "var.detach() to get Variable that doesn't require grad."
        )
    itemsize = self._dtype.itemsize
    contiguous = self.is_contiguous()
    return {
        "data": (self.data_ptr(), False),
        "shape": tuple(self._layout.sizes),
        "strides": None if contiguous else tuple([stride * itemsize for stride in self._layout.strides]),
        "typestr": np.dtype(self._dtype.numpy_name or self._dtype.raw).str,
        "version": 2,
    }


def _interface(self: Tensor) -> dict[str, Any]:
    if self.device.type != "cpu" or self._dtype.numpy_name is None or self._bits:
        raise AttributeError("__array_interface__")
    return array_interface(self)


Tensor.numpy = numpy  # type: ignore[attr-defined]
Tensor.__array__ = _array  # type: ignore[attr-defined]
Tensor.__array_interface__ = property(_interface)  # type: ignore[attr-defined]
Tensor.__cuda_array_interface__ = property(cuda_array_interface)  # type: ignore[attr-defined]
Tensor.__array_priority__ = 1000  # type: ignore[attr-defined]
