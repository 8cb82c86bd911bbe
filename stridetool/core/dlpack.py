"""DLPack both ways without a copy: the C structs of the standard, through ctypes.

What another library hands over is checked before it becomes a tensor: torch's own import of a negative stride aborts
the whole process. What we hand over lives in a table until the consumer calls the deleter.
"""

from __future__ import annotations

import ctypes
from typing import Any

from stridetool.core.dispatch import operator
from stridetool.core.drivers.device import CPU, Device
from stridetool.core.dtype import DTYPES, DType
from stridetool.core.layout import Layout
from stridetool.core.memory.registry import is_simulated
from stridetool.core.shapes import checked_numel, contiguous_strides
from stridetool.core.storage import DataPtr, Storage
from stridetool.core.tensor import Tensor, make_tensor
from stridetool.errors import ArgumentValueError, InterchangeError, TensorError

_CPU, _CUDA, _CUDA_HOST, _CUDA_MANAGED = 1, 2, 3, 13  # DLDeviceType
_HOST_TYPES = (_CPU, _CUDA_HOST)
_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}  # DLDataTypeCode by kind
_CODE_OF = {
    "bfloat16": 4,
    "float8_e4m3fn": 10,
    "float8_e4m3fnuz": 11,
    "float8_e5m2": 12,
    "float8_e5m2fnuz": 13,
    "float8_e8m0fnu": 14,
}
_READ_ONLY = 1  # bit of DLManagedTensorVersioned.flags
_VERSION = (1, 0)
_INVALID = (
    "from_dlpack received an invalid capsule. Note that DLTensor capsules can be consumed only once, so you might have "
    "already constructed a tensor from it once."
)


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    _fields_ = (("dl_tensor", _DLTensor), ("manager_ctx", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class _ManagedVersioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("dl_tensor", _DLTensor),
    )


_STRUCTS: dict[bytes, type[Any]] = {b"dltensor": _Managed, b"dltensor_versioned": _ManagedVersioned}
_USED = {name: b"used_" + name for name in _STRUCTS}  # a capsule keeps the pointer to its name, not a copy
_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def _c_function(name: str, result: Any, *arguments: Any) -> Any:
    """A capsule function of Python's C interface."""
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_capsule_new = _c_function("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_is_valid = _c_function("PyCapsule_IsValid", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_pointer = _c_function("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
_rename = _c_function("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
# The same two on an object that is being destroyed, which must not be counted again.
_dying_is_valid = _c_function("PyCapsule_IsValid", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
_dying_pointer = _c_function("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)

_exports: dict[int, tuple[Any, ...]] = {}
"""What was handed over, by the address of its struct: all that must stay alive until the deleter is called."""


def _forget(address: int) -> None:
    _exports.pop(address, None)


def _capsule_destroyed(capsule: int) -> None:
    """A capsule that nobody took: give back what it stood for."""
    for name in _STRUCTS:
        if _dying_is_valid(capsule, name):
            _exports.pop(_dying_pointer(capsule, name), None)


# Callable from C, and kept here as long as the module is.
_C_FORGET, _C_DESTROYED = _DELETER(_forget), _DELETER(_capsule_destroyed)


# Out


def dlpack_device(self: Tensor) -> tuple[int, int]:
    """(device type, index) in DLPack's numbers. Raises ArgumentValueError for a device that it does not know."""
    kinds = {"cpu": _CPU, "cuda": _CUDA}
    device = self.device
    if device.type not in kinds:
        raise ArgumentValueError(f"Unknown device type {device.type} for Dlpack")
    return kinds[device.type], device.index or 0


def to_dlpack(
    self: Tensor,
    *,
    stream: Any = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """A capsule over the memory of this tensor, or of a copy. Raises InterchangeError (a BufferError) where the
    other side could not see the same values: a graph, the conj or neg bit, no memory, a simulated device.
    """
    if stream is not None and self.device.type == "cpu":
        raise InterchangeError("stream should be None on cpu.")
    if self.requires_grad:
        raise InterchangeError("Can't export tensors that require gradient, use tensor.detach()")
    if self.is_conj():
        raise InterchangeError("Can't export tensors with the conjugate bit set", hint="resolve_conj() first")
    if self.is_neg():
        raise InterchangeError("Can't export tensors with the negative bit set", hint="resolve_neg() first")
    if self.is_meta:
        raise InterchangeError("Cannot pack tensors on meta")
    if is_simulated(self.device):
        raise InterchangeError("cannot hand over memory of a simulated device: its addresses are not real")
    if dl_device is not None and tuple(dl_device) != dlpack_device(self):
        raise InterchangeError(f"cannot export to DLPack device {tuple(dl_device)}: the tensor is on {self.device}")
    x = self.clone() if copy else self
    return _capsule(x, versioned=max_version is not None and max_version[0] >= 1)


def _capsule(x: Tensor, *, versioned: bool) -> Any:
    name = b"dltensor_versioned" if versioned else b"dltensor"
    managed = _STRUCTS[name]()
    ndim = len(x._layout.sizes)
    shape, strides = (ctypes.c_int64 * ndim)(*x._layout.sizes), (ctypes.c_int64 * ndim)(*x._layout.strides)
    dl = managed.dl_tensor
    dl.data = x.data_ptr()
    dl.device_type, dl.device_id = dlpack_device(x)
    dl.ndim = ndim
    dl.code, dl.bits, dl.lanes = _type_code(x._dtype), x._dtype.itemsize * 8, 1
    dl.shape = ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64))
    dl.strides = ctypes.cast(strides, ctypes.POINTER(ctypes.c_int64))
    managed.deleter = ctypes.cast(_C_FORGET, ctypes.c_void_p).value
    if versioned:
        managed.major, managed.minor = _VERSION
        managed.flags = 0 if x._storage.writable else _READ_ONLY
    address = ctypes.addressof(managed)
    _exports[address] = managed, shape, strides, x._storage.pointer
    return _capsule_new(address, name, ctypes.cast(_C_DESTROYED, ctypes.c_void_p))


def _type_code(dtype: DType) -> int:
    return _CODE_OF.get(dtype.name, _CODES[dtype.kind])


_BY_CODE = {(_type_code(dtype), dtype.itemsize * 8): dtype for dtype in DTYPES.values()}


# In


class _Owner:
    """Keeps the producer's memory alive, and calls its deleter at the end."""

    __slots__ = ("_address", "_deleter")

    def __init__(self, address: int, deleter: int | None) -> None:
        self._address = address
        self._deleter = _DELETER(deleter) if deleter else None

    def __del__(self) -> None:
        if self._deleter is not None:
            self._deleter(self._address)


@operator(method=False, keys="none")
def from_dlpack(ext_tensor: Any) -> Tensor:
    """A tensor over the memory of a capsule, or of anything that has `__dlpack__`.

    Raises TensorError for no capsule or a used one, InterchangeError for negative strides, a type that no tensor has,
    or a device that is not here.
    """
    return _consume(ext_tensor if _is_capsule(ext_tensor) else _ask(ext_tensor))


def _is_capsule(value: object) -> bool:
    return type(value).__name__ == "PyCapsule"


def _ask(producer: Any) -> Any:
    if not hasattr(producer, "__dlpack__"):
        raise TensorError(_INVALID, hint=f"{type(producer).__name__} has no __dlpack__")
    try:
        return producer.__dlpack__(max_version=_VERSION)
    except TypeError:  # a producer from before DLPack 1.0
        return producer.__dlpack__()


def _consume(capsule: Any) -> Tensor:
    name = next((name for name in _STRUCTS if _is_valid(capsule, name)), None)
    if name is None:
        raise TensorError(_INVALID)
    struct = _STRUCTS[name]
    address = _pointer(capsule, name)
    managed = struct.from_address(address)
    if struct is _ManagedVersioned and managed.major != _VERSION[0]:
        raise InterchangeError(f"cannot read DLPack version {managed.major}.{managed.minor}")
    dl = managed.dl_tensor
    dtype, layout, device = _checked_type(dl), _checked_layout(dl), _checked_device(dl)
    _rename(capsule, _USED[name])
    owner = _Owner(address, managed.deleter)
    nbytes = layout.reach()[1] * dtype.itemsize if layout.numel else 0
    start = (dl.data or 0) + dl.byte_offset if nbytes else 0
    writable = not (struct is _ManagedVersioned and managed.flags & _READ_ONLY)
    storage = Storage(DataPtr(start, nbytes, device, owner=owner), resizable=False, writable=writable)
    return make_tensor(storage, layout, dtype)


def _checked_type(dl: Any) -> DType:
    found = _BY_CODE.get((dl.code, dl.bits))
    if found is None or dl.lanes != 1:
        raise InterchangeError(
            f"cannot take a DLPack array of type code {dl.code} with {dl.bits} bits and {dl.lanes} lanes"
        )
    return found


def _checked_layout(dl: Any) -> Layout:
    if not 0 <= dl.ndim <= _MAX_DIMENSIONS:
        raise InterchangeError(f"cannot take a DLPack array of {dl.ndim} dimensions")
    sizes = tuple(dl.shape[: dl.ndim]) if dl.ndim else ()
    checked_numel(sizes)
    if not dl.ndim or not dl.strides:
        return Layout(sizes, contiguous_strides(sizes))
    strides = tuple(dl.strides[: dl.ndim])
    if min(strides) < 0:
        raise InterchangeError(
            f"cannot take a DLPack array with negative strides {strides}", hint="copy it on the other side first"
        )
    return Layout(sizes, strides)


_MAX_DIMENSIONS = 64  # torch's own limit


def _checked_device(dl: Any) -> Device:
    if dl.device_type in _HOST_TYPES:
        return CPU
    if dl.device_type in (_CUDA, _CUDA_MANAGED) and not is_simulated(Device("cuda", dl.device_id)):
        return Device("cuda", dl.device_id)
    raise InterchangeError(f"cannot take an array on DLPack device ({dl.device_type}, {dl.device_id}) here")


Tensor.__dlpack__ = to_dlpack  # type: ignore[attr-defined]  # hung on the class from here, as operators are
Tensor.__dlpack_device__ = dlpack_device  # type: ignore[attr-defined]  # likewise
