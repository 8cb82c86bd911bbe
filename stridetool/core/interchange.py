"""Arrays of other libraries, without a copy where that is possible: NumPy, and the CUDA array interface.

A tensor made from another library's array has a storage of its own object over the same bytes, with offset 0, and
keeps the array alive. Refusals come before anything is touched, in torch's words. DLPack is in `dlpack.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stridetool.core import elements
from stridetool.core.dispatch import operator
from stridetool.core.drivers.device import CPU
from stridetool.core.dtype import BY_NUMPY, DType
from stridetool.core.grad_mode import is_grad_enabled
from stridetool.core.layout import Layout
from stridetool.core.memory.registry import is_simulated
from stridetool.core.ops.copies import to, to_copy
from stridetool.core.ops.factories import tensor
from stridetool.core.options import TensorOptions
from stridetool.core.storage import DataPtr, Exported, Storage
from stridetool.core.tensor import INTERFACES, Tensor, make_tensor
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
    if any(stride % array.itemsize for stride in array.strides if array.itemsize):
        raise ArgumentValueError(
            "given numpy array strides not a multiple of the element byte size. Copy the numpy array to reallocate "
            "the memory."
        )
    dtype_of_array(array)
    if any(stride < 0 for stride in array.strides):
        raise ArgumentValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative strides are not "
            "currently supported. (You can probably work around this by making a copy of your array  with "
            "array.copy().) "
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
    """A tensor with the values of an array or of anything that has `__array__`, in the same order in memory."""
    source = from_numpy(np.asarray(data))
    return to_copy(source, options.dtype_opt() or source._dtype, options.device(), None)


@operator(method=False, keys="none")
def as_tensor(data: Any, dtype: DType | None = None, device: Any = None) -> Tensor:
    """A tensor over `data` where that needs no copy (a tensor, a NumPy array), else a copy."""
    if isinstance(data, Tensor):
        shared = data
    elif isinstance(data, np.ndarray):
        shared = from_numpy(data)
    else:
        return tensor(data, dtype=dtype, device=device)
    return to(shared, device or shared.device, dtype or shared._dtype)


@operator(method=False, keys="none")
def frombuffer(buffer: Any, *, dtype: DType, count: int = -1, offset: int = 0) -> Tensor:
    """A 1-d tensor over the memory of anything with the buffer protocol, from byte `offset` on."""
    if not len(memoryview(buffer).cast("B")):
        raise ArgumentValueError("both buffer length (0) and count (-1) must not be 0")
    bytes_ = np.frombuffer(buffer, np.uint8)[offset:]
    if count < 0:
        if len(bytes_) % dtype.itemsize:
            raise ArgumentValueError(
                f"buffer length ({len(bytes_)} bytes) after offset ({offset} bytes) must be a multiple of element size "
                f"({dtype.itemsize})"
            )
        count = len(bytes_) // dtype.itemsize
    if count * dtype.itemsize > len(bytes_):
        raise ArgumentValueError(
            f"requested buffer length ({count} * {dtype.itemsize} bytes) after offset ({offset} bytes) must not be "
            f"greater than actual buffer length ({len(bytes_) + offset} bytes)"
        )
    pointer = DataPtr(bytes_.ctypes.data, count * dtype.itemsize, CPU, owner=bytes_)
    storage = Storage(pointer, resizable=False, writable=bytes_.flags.writeable)
    return make_tensor(storage, Layout((count,), (1,)), dtype)


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
    if self.requires_grad and is_grad_enabled():
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
    return np.asarray(Exported(array_interface(self), self._storage.pointer))


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
    if is_simulated(self.device):
        raise AttributeError("the memory of a simulated device has no address that CUDA could follow")
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


Tensor.numpy = numpy  # type: ignore[attr-defined]  # hung on the class from here, as operators are
Tensor.__array__ = _array  # type: ignore[attr-defined]  # likewise
Tensor.__array_priority__ = 1000  # type: ignore[attr-defined]  # likewise
INTERFACES["__array_interface__"] = _interface
INTERFACES["__cuda_array_interface__"] = cuda_array_interface
