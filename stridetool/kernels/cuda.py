"""Strided copies on a real GPU: the kernels of copy.cu, compiled and launched by CuPy.

CuPy is imported when the first copy asks for it. `copy_into` takes the best kernel for the plan, or the one that is
named; `kernel_names` says which can serve, for reports and comparisons.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

from stridetool.core.drivers import cuda as driver
from stridetool.core.overlap import has_internal_overlap
from stridetool.core.plan import plan_bytes
from stridetool.errors import ArgumentTypeError, ArgumentValueError, UnavailableError
from stridetool.kernels.cuda_launch import MAX_DIMS, Launch, launches

SOURCE = Path(__file__).with_name("copy.cu")


def kernel_names(dst: Any, src: Any) -> list[str]:
    """The kernels that can copy `src` into `dst`, best first. UnavailableError without CuPy or a GPU."""
    return list(_launches(_as_array(dst, "dst"), _as_array(src, "src")))


def copy_into(dst: Any, src: Any, *, kernel: str | None = None, stream: Any = None) -> str | None:
    """Copy between two arrays on one device (CuPy, or anything with `__cuda_array_interface__`); asynchronous.

    Returns the name of the kernel that was launched, None when there was nothing to copy. Raises UnavailableError
    without CuPy or a GPU and for a kernel that cannot serve, ArgumentTypeError and ArgumentValueError as the host's
    `copy_into`. Memory that both share is copied through a fresh array.
    """
    d, s = _as_array(dst, "dst"), _as_array(src, "src")
    if d.nbytes and _cupy().may_share_memory(d, s):
        s = s.copy()
    launch = _chosen(d, s, kernel)
    if launch is None:
        return None
    with _cupy().cuda.Device(d.device.id):
        _function(launch.entry)(launch.grid, launch.block, _arguments(launch), stream=stream)
    return launch.kernel


def prepared_copy(dst: Any, src: Any, *, kernel: str | None = None) -> Callable[[], object]:
    """A call that only launches the copy, on the current stream: checks, plan and arguments are made now.

    For timing, and for copies that come again. The arrays must stay alive and share no memory; errors as `copy_into`.
    """
    launch = _chosen(_as_array(dst, "dst"), _as_array(src, "src"), kernel)
    if launch is None:
        return lambda: None
    return partial(_function(launch.entry), launch.grid, launch.block, _arguments(launch))


def _chosen(dst: Any, src: Any, kernel: str | None) -> Launch | None:
    choice = _launches(dst, src)
    if kernel is not None and choice and kernel not in choice:
        raise UnavailableError(f"kernel '{kernel}' cannot run this copy", hint=f"it can be {', '.join(choice)}")
    return choice[kernel or next(iter(choice))] if choice else None


def _launches(dst: Any, src: Any) -> dict[str, Launch]:
    if dst.dtype != src.dtype or dst.shape != src.shape:
        raise ArgumentValueError(
            f"cannot copy {src.dtype} of shape {src.shape} into {dst.dtype} of shape {dst.shape}",
            hint="copy_into moves bytes and converts nothing; shapes and dtypes must be the same",
        )
    if dst.device.id != src.device.id:
        raise ArgumentValueError(f"cannot copy from device {src.device.id} into device {dst.device.id}")
    if dst.size and has_internal_overlap((*dst.shape, dst.itemsize), (*dst.strides, 1)) is not False:
        raise ArgumentValueError(f"cannot copy into dst: it overlaps itself (strides {dst.strides})")
    return launches(plan_bytes(dst.shape, dst.strides, src.strides, dst.itemsize), dst.data.ptr, src.data.ptr)


def _as_array(value: Any, name: str) -> Any:
    cupy = _cupy()
    if isinstance(value, cupy.ndarray):
        return value
    if not hasattr(value, "__cuda_array_interface__"):
        raise ArgumentTypeError(f"cannot copy {name}: {type(value).__name__} is not an array on a CUDA device")
    if name == "dst" and value.__cuda_array_interface__["data"][1]:
        raise ArgumentValueError("cannot copy into dst: it is read-only")
    return cupy.asarray(value)


@cache
def _cupy() -> Any:
    if not driver.is_available():
        raise UnavailableError(
            "CUDA kernels need CuPy and a GPU", hint="pip install 'stride-tool[cuda12]' on a machine with one"
        )
    import cupy

    return cupy


@cache
def _function(entry: str) -> Any:
    return _module().get_function(entry)


@cache
def _module() -> Any:
    return _cupy().RawModule(code=SOURCE.read_text(), options=("--std=c++17",))


def _arguments(launch: Launch) -> tuple[Any, ...]:
    """Two addresses and the walk, a struct that CuPy passes by value."""
    import numpy as np

    walk = np.empty((), np.dtype([("fields", np.int64, 2 + 3 * MAX_DIMS)]))
    walk["fields"] = launch.walk()
    return np.uint64(launch.dst), np.uint64(launch.src), walk
