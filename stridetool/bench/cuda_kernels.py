"""The kernels of a GPU: memory for a case on the device, and the calls that start a copy there."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from stridetool.bench.backend import PEAK, Skip
from stridetool.bench.cases import Case
from stridetool.bench.host_kernels import OURS, RAW, filled, source_view
from stridetool.bench.sampling import Subject
from stridetool.kernels import cuda


class CudaWorkspace:
    """The memory of one case on the current device; the right result comes from NumPy on the same bytes.

    An element of an unusual size is a row of single bytes: CuPy has no such types.
    """

    def __init__(self, cupy: Any, case: Case, *, fresh: bool = False) -> None:
        self.cupy = cupy
        self.case = case
        self.fresh = fresh
        item = np.dtype(RAW.get(case.itemsize, "u1"))
        rest = () if item.itemsize == case.itemsize else (case.itemsize,)
        extent, first = case.extent()
        host = filled(extent)
        self.memory = cupy.asarray(host)
        start = self.memory[first : first + item.itemsize].view(item) if extent else cupy.empty(1, item)
        sizes, strides = (*case.layout.sizes, *rest), (*case.byte_strides, *(1 for _ in rest))
        self.src = cupy.lib.stride_tricks.as_strided(start, sizes, strides)
        self.dst = cupy.empty(sizes, item)
        self.flat_dst = self.dst.reshape(-1).view(np.uint8)
        self.expected = cupy.asarray(np.ascontiguousarray(source_view(host, case)).reshape(-1).view(np.uint8))

    def is_right(self, call: Callable[[], object]) -> bool:
        """Whether a kernel writes, or returns, what NumPy's copy holds, bit for bit. Each byte starts out wrong."""
        self.cupy.copyto(self.flat_dst, ~self.expected)
        return bool((self.flat(call()) == self.expected).all())

    def copy_and_read(self, call: Callable[[], object]) -> object:
        """The copy, and then a reader of its result."""
        return self.flat(call()).max() if self.case.nbytes else call()

    def flat(self, result: Any) -> Any:
        """The bytes that a call wrote."""
        return self.cupy.asarray(result).reshape(-1).view(np.uint8) if self.fresh else self.flat_dst


def _cupy(work: CudaWorkspace) -> Callable[[], object]:
    return partial(work.src.copy, "C") if work.fresh else partial(work.cupy.copyto, work.dst, work.src)


def _torch(work: CudaWorkspace) -> Callable[[], object]:
    if any(stride < 0 for stride in work.src.strides):
        raise Skip("torch has no negative strides")
    if work.src.dtype.kind == "u" and work.src.itemsize > 1:  # torch has few operators on wide unsigned types
        source, target = (array.view(f"i{array.itemsize}") for array in (work.src, work.dst))
    else:
        source, target = work.src, work.dst
    torch = importlib.import_module("torch")
    if not torch.cuda.is_available():
        raise Skip("this torch has no CUDA")
    src = torch.from_dlpack(source)
    if work.fresh:
        return partial(src.clone, memory_format=torch.contiguous_format)
    return partial(torch.from_dlpack(target).copy_, src)


def _ours(work: CudaWorkspace, variant: str | None) -> Callable[[], object]:
    """One of our kernels, or the best for the plan; checks, plan and arguments are made outside the time."""
    if variant is not None and variant not in cuda.kernel_names(work.dst, work.src):
        raise Skip("it is not for this plan")
    if work.fresh:
        return partial(_fresh_ours, work, variant)
    return cuda.prepared_copy(work.dst, work.src, kernel=variant)


def _fresh_ours(work: CudaWorkspace, variant: str | None) -> object:
    dst = work.cupy.empty(work.src.shape, work.src.dtype)
    cuda.copy_into(dst, work.src, kernel=variant)
    return dst


_LIBRARIES: dict[str, Callable[[CudaWorkspace], Callable[[], object]]] = {"cupy": _cupy, "torch": _torch}
VARIANTS = ("tile_vector", "tile_padded", "rows", "splat", "gather_coalesced", "gather_naive")
"""Our kernels, the ladder from the best to the plainest; a case has those that its plan allows."""


def kernel_names() -> tuple[str, ...]:
    """All kernels that can run here: ours, each of ours by name, and the libraries'."""
    libraries = (name for name in _LIBRARIES if name == "cupy" or importlib.util.find_spec(name))
    return (OURS, *(f"{OURS}:{variant}" for variant in VARIANTS), *libraries)


def subject(name: str, work: CudaWorkspace) -> Subject:
    """The kernel `name` bound to a workspace. Raises Skip when it cannot do the case."""
    base, _, variant = name.partition(":")
    return Subject(name, _ours(work, variant or None) if base == OURS else _LIBRARIES[base](work))


def peak_subjects(work: CudaWorkspace) -> list[Subject]:
    """Contiguous copies on the device: the driver's own, and a kernel's with the widest elements."""
    if work.fresh:
        return [Subject(f"{PEAK}cupy", work.expected.copy)]
    nbytes = work.case.nbytes
    wide = np.complex128 if nbytes % 16 == 0 else np.uint8
    return [
        Subject(f"{PEAK}memcpy", partial(work.flat_dst.data.copy_from_device_async, work.expected.data, nbytes)),
        Subject(f"{PEAK}cupy", partial(work.cupy.copyto, work.flat_dst.view(wide), work.expected.view(wide))),
        Subject(f"{PEAK}{OURS}", cuda.prepared_copy(work.flat_dst, work.expected)),
    ]
