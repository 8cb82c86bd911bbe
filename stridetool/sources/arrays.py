"""Any array-like of this process → `ArrayFacts`: ours, NumPy's, torch's, CuPy's, JAX's, by their own protocols.

Nothing is imported for it: an object of torch or CuPy can only exist where its library is loaded already.
"""

from __future__ import annotations

import sys
from typing import Any

from stridetool.core.facts import ArrayFacts
from stridetool.core.layout import Layout
from stridetool.sources.sample import first_values


def array_facts(name: str, value: Any) -> ArrayFacts | None:
    """The facts of `value` under `name`, or None when it is no array (a class, a number, a broken protocol)."""
    kind = type(value)  # never value.__class__, which may be anything
    if issubclass(kind, type):
        return None
    try:
        module = str(kind.__module__).partition(".")[0]
        if module in ("stridetool", "torch"):
            return _tensor(name, value, module) if hasattr(value, "untyped_storage") else None
        if _is_numpy_array(value):
            return _numpy(name, value)
        if hasattr(kind, "__cuda_array_interface__"):
            return _interface(name, value, value.__cuda_array_interface__, "cuda:0", module)
        if hasattr(kind, "__array_interface__"):
            return _interface(name, value, value.__array_interface__, "cpu", module)
        if hasattr(kind, "__dlpack__"):
            return _through_dlpack(name, value, module)
    except (AttributeError, BufferError, KeyError, TypeError, ValueError, RuntimeError):
        return None  # it looks like an array and is none: a mock, a lazy proxy, a deleted buffer
    return None


def _is_numpy_array(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and issubclass(type(value), numpy.ndarray)


def _tensor(name: str, value: Any, library: str) -> ArrayFacts:
    storage = value.untyped_storage()
    flags = {
        "requires_grad": value.requires_grad,
        "is_view": value._is_view(),
        "conj": value.is_conj(),
        "neg": value.is_neg(),
    }
    address = storage.data_ptr()
    return ArrayFacts(
        name=name,
        library=library,
        dtype=str(value.dtype).partition(".")[2],
        itemsize=value.element_size(),
        device=str(value.device),
        layout=Layout(tuple(value.shape), tuple(value.stride()), value.storage_offset()),
        unit=value.element_size(),
        storage=address or -id(storage),
        address=address,
        storage_nbytes=storage.nbytes(),
        flags=tuple(flag for flag, is_set in flags.items() if is_set),
        values=first_values(value.detach(), value.shape) if str(value.device) == "cpu" and address else (),
    )


def _numpy(name: str, array: Any) -> ArrayFacts:
    """A NumPy array, with the memory of the array that it is a view of (through any chain of bases)."""
    owner = array
    while _is_numpy_array(owner.base):
        owner = owner.base
    start, end = _byte_bounds(owner.ctypes.data, owner.shape, owner.strides, owner.itemsize)
    return _facts(
        name, "numpy", array.dtype, "cpu", array.shape, array.strides, array.ctypes.data, (start, end),
        readonly=not array.flags.writeable, values=() if array.dtype.hasobject else first_values(array, array.shape),
    )  # fmt: skip


def _interface(name: str, value: Any, interface: dict[str, Any], device: str, library: str) -> ArrayFacts:
    """`__array_interface__` and `__cuda_array_interface__` (version 3): byte strides, None for C order."""
    import numpy as np

    dtype = np.dtype(interface["typestr"])
    shape = tuple(map(int, interface["shape"]))
    given = interface.get("strides")
    strides = tuple(map(int, given)) if given is not None else _c_order(shape, dtype.itemsize)
    address, readonly = interface["data"]
    owner = getattr(getattr(value, "data", None), "mem", None)  # CuPy: the whole allocation
    bounds = (owner.ptr, owner.ptr + owner.size) if owner is not None else None
    bounds = bounds or _byte_bounds(address, shape, strides, dtype.itemsize)
    return _facts(name, library, dtype, device, shape, strides, int(address), bounds, readonly=bool(readonly))


def _through_dlpack(name: str, value: Any, library: str) -> ArrayFacts | None:
    """Arrays that speak DLPack alone: looked at through NumPy's zero-copy import, on the host only."""
    import numpy as np

    kind, _ = value.__dlpack_device__()
    if kind != 1:  # kDLCPU
        return None
    array = np.from_dlpack(value)
    bounds = _byte_bounds(array.ctypes.data, array.shape, array.strides, array.itemsize)
    return _facts(name, library, array.dtype, "cpu", array.shape, array.strides, array.ctypes.data, bounds)


def _facts(
    name: str,
    library: str,
    dtype: Any,
    device: str,
    shape: tuple[int, ...],
    byte_strides: tuple[int, ...],
    address: int,
    bounds: tuple[int, int],
    *,
    readonly: bool = False,
    values: tuple[str, ...] = (),
) -> ArrayFacts:
    start, end = bounds
    itemsize = dtype.itemsize
    shift = address - start if end > start else 0
    whole = itemsize > 0 and all(part % itemsize == 0 for part in (*byte_strides, shift))
    unit = itemsize if whole else 1
    return ArrayFacts(
        name=name,
        library=library,
        dtype=dtype.name if dtype.isnative and dtype.names is None else dtype.str,
        itemsize=itemsize,
        device=device,
        layout=Layout(shape, tuple(stride // unit for stride in byte_strides), shift // unit),
        unit=unit,
        storage=start,
        address=start if end > start else 0,
        storage_nbytes=end - start,
        readonly=readonly,
        values=values,
    )


def _byte_bounds(address: int, shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> tuple[int, int]:
    """[first byte, one past the last byte) of an array, whichever way its strides run."""
    low, high = Layout(shape, strides).reach()
    return address + low, address + (high - 1 + itemsize if low < high else low)


def _c_order(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    return tuple(s * itemsize for s in Layout.contiguous(shape).strides)
