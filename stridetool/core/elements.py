"""The elements of a tensor as a NumPy (or CuPy) array, and the one way in which the core copies them.

`raw` shares memory and has the bytes' type; `read` gives numbers, with conjugation and negation applied.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stridetool.core import numeric
from stridetool.core.dispatch import OPERATORS, operator
from stridetool.core.drivers.device import driver_for
from stridetool.core.layout import Layout
from stridetool.core.storage import Storage, refuse_out_of_bounds
from stridetool.core.tensor import CONJ, NEG, Tensor
from stridetool.core.trace import note_copy
from stridetool.errors import TensorError

Array = Any


def strided(storage: Storage, layout: Layout, raw_type: str) -> Array:
    """The storage's bytes under a layout, as an array that shares them."""
    buffer = storage.buffer()
    itemsize = np.dtype(raw_type).itemsize
    strides = tuple([s * itemsize for s in layout.strides])
    refuse_out_of_bounds(layout, itemsize, storage.nbytes(), hint="the storage was made smaller under this tensor")
    if 0 in layout.sizes:
        return numeric.module_of(buffer).empty(layout.sizes, raw_type)
    if isinstance(buffer, np.ndarray):
        return np.ndarray(layout.sizes, raw_type, buffer, layout.offset * itemsize, strides)
    module = numeric.module_of(buffer)
    return module.ndarray(layout.sizes, raw_type, buffer.data + layout.offset * itemsize, strides)


def raw(x: Tensor) -> Array:
    """The elements as they are stored. Raises TensorError on the meta device."""
    return strided(x._storage, x._layout, x._dtype.raw)


def read(x: Tensor) -> Array:
    """The numbers, conjugated and negated where the tensor's bits say so; may share memory when neither is set."""
    values = numeric.decode(raw(x), x._dtype)
    if x._bits & CONJ:
        values = values.conj()
    return -values if x._bits & NEG else values


def writable(x: Tensor) -> Array:
    """As `raw`, to be written to. Raises TensorError when the memory belongs to a read-only array."""
    if not x._storage.writable:
        raise TensorError("cannot write to a tensor over the memory of a read-only array", hint="clone() it first")
    return raw(x)


def clear(x: Tensor) -> None:
    """Store zeros in a dense tensor. Raises as `writable` does."""
    writable(x)
    itemsize, layout = x._dtype.itemsize, x._layout
    address = x._storage.pointer.address + layout.offset * itemsize
    driver_for(x._storage.device).zero(address, layout.numel * itemsize)


def write(x: Tensor, values: Array) -> None:
    """Store numbers of the value type of `x` (of the same sizes, or to be broadcast)."""
    if x._bits & NEG:
        values = -values
    if x._bits & CONJ:
        values = values.conj()
    writable(x)[...] = numeric.encode(values, x._dtype)


def copy_elements(dst: Tensor, src: Tensor) -> None:
    """Write the values of `src` into `dst`, which has the same sizes, converting between types and devices."""
    if dst.is_meta:
        return
    if src.is_meta:
        src._storage.buffer()  # raises
    writable(dst)
    if dst._dtype is src._dtype and dst._bits == src._bits and dst.device == src.device:
        kernel = OPERATORS["copy_into"].call(dst, src)
    else:
        values = _on_device_of(dst, numeric.convert(read(src), src._dtype, dst._dtype))
        write(dst, values)
        kernel = numeric.module_of(values).__name__
    note_copy(kernel, dst.nbytes)


def _on_device_of(dst: Tensor, values: Array) -> Array:
    """The array where `dst` can take it: NumPy for host and simulated memory, CuPy for a real GPU."""
    module = numeric.module_of(dst._storage.buffer())
    if module is np:
        return values if numeric.module_of(values) is np else values.get()
    return module.asarray(values)


@operator(keys="all", method=False)
def copy_into(dst: Tensor, src: Tensor) -> str:
    """Copy elements of the same type and sizes on one device; the name of the kernel that did it.

    The seam for better kernels: `OPERATORS["copy_into"].register(dispatch.CPU, kernel)`.
    """
    target, source = raw(dst), raw(src)
    target[...] = source
    name: str = numeric.module_of(target).__name__
    return name


def item(x: Tensor) -> Any:
    """The only element as a Python number. Raises TensorError when there are more or none."""
    if x._layout.numel != 1:
        raise TensorError(f"a Tensor with {x._layout.numel} elements cannot be converted to Scalar")
    if x.is_meta:
        raise TensorError("Tensor.item() cannot be called on meta tensors")
    return read(x).item()
