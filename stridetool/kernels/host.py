"""Which host kernel runs, and the way of a copy that is not between two plain buffers.

The C function is the public `copy_into` itself, so that a small copy costs no Python frame. It hands over to
`_copy_arrays` whatever it does not take: other interfaces, formats that differ in spelling, and everything wrong.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Protocol

from stridetool.core.compiled import extension
from stridetool.errors import ArgumentTypeError, ArgumentValueError, UnavailableError

if TYPE_CHECKING:
    from stridetool.core.layout import Layout

_copy = extension("stridetool.kernels._copy")
TILED = "numpy-tiled"


class CopyInto(Protocol):
    """Copy `src` into `dst`: any two array-likes of the same shape and dtype.

    `threads` is how many may work on it; small copies use one. Raises ArgumentTypeError for what is no array or
    holds Python objects, ArgumentValueError for other shapes, dtypes or byte orders, and for a destination that is
    read-only or overlaps itself.
    """

    def __call__(self, dst: Any, src: Any, *, threads: int = 1) -> None: ...


def available_kernels() -> list[str]:
    """Names of the host kernels that can run here, best first."""
    return [*(_copy.isas() if _copy else ()), TILED]


def kernel_name() -> str:
    """The host kernel that `copy_into` uses: "c-avx512", "c-avx2", "c-portable" or "numpy-tiled"."""
    return (_copy.isa() if _copy else None) or TILED


def use_kernel(name: str) -> None:
    """Use another kernel of `available_kernels()`; for comparisons. UnavailableError when it cannot run here."""
    if name not in available_kernels():
        raise UnavailableError(
            f"kernel '{name}' cannot run here", hint=f"this machine has {', '.join(available_kernels())}"
        )
    if _copy:
        _copy.use(None if name == TILED else name)


def copy_raw(dst_address: int, dst: Layout, src_address: int, src: Layout, itemsize: int, *, threads: int = 1) -> None:
    """Copy between two layouts of the same sizes over raw addresses of their storages (offsets are added here).

    The caller vouches for the memory and that `dst` does not overlap itself.
    """
    dst_strides = tuple(s * itemsize for s in dst.strides)
    src_strides = tuple(s * itemsize for s in src.strides)
    _copy_bytes(
        dst_address + dst.offset * itemsize,
        src_address + src.offset * itemsize,
        itemsize,
        dst.sizes,
        dst_strides,
        src_strides,
        threads,
    )


def _copy_bytes(*call: Any) -> None:
    try:
        _raw_kernel()(*call)
    except (ValueError, OverflowError) as error:
        raise ArgumentValueError(f"cannot copy {call[3]} items of {call[2]} bytes: {error}") from error


def _raw_kernel() -> Any:
    if _copy and _copy.isa():
        return _copy.copy_raw
    from stridetool.kernels import tiled

    return tiled.copy_raw


def _copy_arrays(dst: Any, src: Any, threads: int) -> None:
    """Check two array-likes, with an error for each thing that can be wrong, and copy."""
    if threads < 1:
        raise ArgumentValueError("threads must be at least 1")
    d, s = _as_array(dst, "dst"), _as_array(src, "src")
    _check_dtypes(d.dtype, s.dtype)
    if d.shape != s.shape:
        raise ArgumentValueError(f"cannot copy into dst: its shape is {d.shape}, that of src {s.shape}")
    if not d.flags.writeable:
        raise ArgumentValueError("cannot copy into dst: it is read-only")
    if d.size == 0 or d.itemsize == 0:
        return
    _check_overlap(d)
    _copy_bytes(d.ctypes.data, s.ctypes.data, d.itemsize, d.shape, d.strides, s.strides, threads)


def _as_array(value: Any, name: str) -> Any:
    """A NumPy array over the memory of `value`, never a copy."""
    import numpy as np

    if isinstance(value, np.ndarray):
        return value
    try:
        if hasattr(value, "__array_interface__"):
            return np.asarray(value)
        if _has_buffer(value):
            return np.asarray(memoryview(value))
    except ValueError as error:
        raise ArgumentValueError(f"cannot copy {name}: NumPy cannot take it: {error}") from error
    if hasattr(value, "__dlpack__"):
        try:
            return np.from_dlpack(value)
        except (BufferError, RuntimeError, TypeError) as error:
            raise ArgumentTypeError(
                f"cannot copy {name}: NumPy cannot take it over DLPack: {error}",
                hint="for a dtype that NumPy lacks, view it as integers of the same width",
            ) from error
    raise ArgumentTypeError(
        f"cannot copy {name}: {type(value).__name__} is not an array",
        hint="give an object with the buffer protocol, __array_interface__ or __dlpack__",
    )


def _has_buffer(value: Any) -> bool:
    try:
        memoryview(value)
    except TypeError:
        return False
    return True


def _check_dtypes(dst: Any, src: Any) -> None:
    if dst.hasobject or src.hasobject:
        raise ArgumentTypeError(f"cannot copy {src} into {dst}: Python objects are not bytes to copy")
    if dst == src:
        return
    if dst.newbyteorder("=") == src.newbyteorder("="):
        raise ArgumentValueError(
            f"cannot copy into dst: its byte order is {dst.str}, that of src {src.str}",
            hint="copy_into moves bytes and converts nothing; use byteswap or astype",
        )
    raise ArgumentValueError(
        f"cannot copy into dst: its dtype is {dst}, that of src {src}",
        hint="copy_into moves bytes and converts nothing; use astype or view first",
    )


def _check_overlap(array: Any) -> None:
    from stridetool.core.overlap import has_internal_overlap

    overlaps = has_internal_overlap((*array.shape, array.itemsize), (*array.strides, 1))
    if overlaps is not False:
        how = "overlaps itself" if overlaps else "may overlap itself"
        raise ArgumentValueError(
            f"cannot copy into dst: it {how} (shape {array.shape}, strides {array.strides})",
            hint="copy into a fresh array of the same shape",
        )


def _copy_into(dst: Any, src: Any, *, threads: int = 1) -> None:
    _copy_arrays(dst, src, threads)


def _public() -> Any:
    if _copy is None:
        return _copy_into
    _copy.set_fallback(_copy_arrays)
    return _copy.copy_into


copy_into: CopyInto = _public()
if "STRIDETOOL_KERNEL" in os.environ:
    use_kernel(os.environ["STRIDETOOL_KERNEL"])
