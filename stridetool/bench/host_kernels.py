"""The kernels of the host: memory for a case, and the calls that copy it.

Every kernel gets the same source and destination, aligned to huge pages. torch and OpenCV take part where they are
installed. With `fresh`, a call allocates its destination, as `x.contiguous()` does in a program.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from stridetool.bench.backend import PEAK, Skip
from stridetool.bench.cases import Case
from stridetool.bench.sampling import Subject
from stridetool.errors import UnavailableError
from stridetool.kernels import available_kernels, copy_into, kernel_name, use_kernel

OURS = "stride-tool"
_HUGE_PAGE = 2 << 20
_PATTERN_BYTES = 4 << 20
_SAME_SIZE = {1: "u1", 2: "i2", 4: "i4", 8: "f8"}  # what OpenCV takes; it only moves bytes

Array = np.ndarray[Any, np.dtype[Any]]


class Workspace:
    """The memory of one case: the source view, a contiguous destination, and the right result."""

    def __init__(self, case: Case, *, threads: int = 1, fresh: bool = False) -> None:
        self.case = case
        self.threads = threads
        self.fresh = fresh
        extent, _ = case.extent()
        self.memory = filled(extent)
        self.src = source_view(self.memory, case)
        item = self.src.dtype
        self.dst: Array = aligned(case.nbytes).view(item).reshape(case.layout.sizes)
        self.flat_dst: Array = self.dst.reshape(-1).view(np.uint8)
        self.expected: Array = aligned(case.nbytes)
        np.copyto(self.expected.view(item).reshape(case.layout.sizes), self.src)
        # The peak reads the memory of the source, as warm as the kernels find it, unless that is too small.
        self.flat_src: Array = self.memory[: case.nbytes] if extent >= case.nbytes else self.expected

    def is_right(self, call: Callable[[], object]) -> bool:
        """Whether a kernel writes, or returns, what NumPy's copy holds, bit for bit. Each byte starts out wrong."""
        np.invert(self.expected, out=self.flat_dst)
        return bool(np.array_equal(self.flat(call()), self.expected))

    def copy_and_read(self, call: Callable[[], object]) -> object:
        """The copy, and then a reader of its result: streamed results have to come back from memory."""
        return self.flat(call()).max(initial=0)

    def flat(self, result: object) -> Array:
        """The bytes that a call wrote."""
        return np.asarray(result).reshape(-1).view(np.uint8) if self.fresh else self.flat_dst

    @staticmethod
    def needed_bytes(case: Case) -> int:
        """What a workspace takes, with a fresh result and what alignment costs."""
        return case.extent()[0] + 3 * case.nbytes + 4 * _HUGE_PAGE


RAW = {1: "u1", 2: "u2", 4: "u4", 8: "u8", 16: "c16"}


def aligned(nbytes: int) -> Array:
    """Bytes that begin on a huge page, so that all buffers of a size are alike; NumPy asks for them from 4 MiB on."""
    raw = np.empty(nbytes + _HUGE_PAGE, np.uint8)
    start = -raw.ctypes.data % _HUGE_PAGE
    return raw[start : start + nbytes]


def source_view(memory: Array, case: Case) -> Array:
    """The source of `case` in `memory`, which is as long as its extent; elements without a NumPy type are opaque."""
    item = np.dtype(RAW.get(case.itemsize, f"V{case.itemsize}"))
    first = case.extent()[1]
    start = memory[first : first + case.itemsize].view(item) if memory.size else np.empty(1, item)
    return as_strided(start, case.layout.sizes, case.byte_strides, writeable=False)


def filled(nbytes: int) -> Array:
    """Aligned bytes without a pattern that a copy could get right by chance."""
    memory = aligned(nbytes)
    pattern = np.random.default_rng(0).integers(0, 256, min(nbytes, _PATTERN_BYTES), np.uint8)
    for start in range(0, nbytes, _PATTERN_BYTES):
        part = memory[start : start + _PATTERN_BYTES]
        part[:] = pattern[: part.size]
    return memory


# --- kernels: a name, and from a workspace to a call (or Skip) --------------------------------------------


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:  # there, but for another Python or without one of its own libraries
        raise Skip(f"{name} cannot be imported: {error}") from error


def _ours(work: Workspace) -> Callable[[], object]:
    if work.fresh:
        return partial(_fresh_ours, work.src, work.threads)
    return _bound(work.dst, work.src, work.threads)


def _bound(dst: Array, src: Array, threads: int) -> Callable[[], object]:
    """The call that a program makes: without `threads` for one, which spares a short call its keyword."""
    return partial(copy_into, dst, src) if threads == 1 else partial(copy_into, dst, src, threads=threads)


def _fresh_ours(src: Array, threads: int) -> Array:
    dst = np.empty(src.shape, src.dtype)
    copy_into(dst, src, threads=threads)
    return dst


def _numpy(work: Workspace) -> Callable[[], object]:
    return partial(work.src.copy, "C") if work.fresh else partial(np.copyto, work.dst, work.src)


def _torch(work: Workspace) -> Callable[[], object]:
    if any(stride < 0 for stride in work.src.strides):
        raise Skip("torch has no negative strides")
    itemsize = work.case.itemsize
    if itemsize not in RAW or any(stride % itemsize for stride in work.src.strides):
        raise Skip("torch has no such element")
    torch = _library("torch")
    torch.set_num_threads(work.threads)
    signed = {1: "u1", 2: "i2", 4: "i4", 8: "i8", 16: "c16"}[itemsize]
    flat = torch.from_numpy(work.memory[: work.memory.size // itemsize * itemsize].view(signed))
    first = work.case.extent()[1]
    if first % itemsize:
        raise Skip("torch has no such element")
    src = flat.as_strided(work.src.shape, [s // itemsize for s in work.src.strides], first // itemsize)
    if work.fresh:
        return partial(src.clone, memory_format=torch.contiguous_format)
    return partial(torch.from_numpy(work.dst.view(signed)).copy_, src)


def _opencv(work: Workspace) -> Callable[[], object]:
    src, itemsize = work.src, work.case.itemsize
    is_transpose = src.ndim == 2 and src.strides[0] == itemsize and src.strides[1] == src.shape[0] * itemsize
    if not is_transpose or itemsize not in _SAME_SIZE or work.fresh or max(src.shape) >= 1 << 31:
        raise Skip("OpenCV is timed on plain 2-d transposes")
    cv2 = _library("cv2")
    cv2.setNumThreads(work.threads)
    kind = _SAME_SIZE[itemsize]
    return partial(cv2.transpose, work.memory.view(kind).reshape(src.shape[::-1]), work.dst.view(kind))


_KERNELS: dict[str, Callable[[Workspace], Callable[[], object]]] = {
    OURS: _ours,
    "numpy": _numpy,
    "torch": _torch,
    "opencv": _opencv,
}
_MODULES = {"torch": "torch", "opencv": "cv2"}


def kernel_names() -> tuple[str, ...]:
    """All kernels that can be asked for here: the standard ones, then the single variants of our own."""
    return (*default_kernels(), *(f"{OURS}:{name}" for name in available_kernels()))


def default_kernels() -> tuple[str, ...]:
    """Those of a run that asks for none: ours, NumPy's, and what is installed beside."""
    return tuple(name for name in _KERNELS if name not in _MODULES or importlib.util.find_spec(_MODULES[name]))


def subject(name: str, work: Workspace) -> Subject:
    """The kernel `name` bound to a workspace. Raises Skip when it cannot do the case, UnavailableError when absent."""
    base, _, variant = name.partition(":")
    if base not in _KERNELS:
        raise UnavailableError(f"kernel {name!r} is not here", hint=f"there are {', '.join(kernel_names())}")
    return Subject(name, _KERNELS[base](work), _use(variant) if base == OURS else None)


def _use(variant: str) -> Callable[[], object]:
    return partial(use_kernel, variant or _standard)


_standard = kernel_name()
"""What `copy_into` uses unless a variant is asked for; `use_kernel` holds for the process, so each sample sets it."""


def peak_subjects(work: Workspace) -> list[Subject]:
    """Contiguous copies of as many bytes as the case has, of which the fastest is the peak.

    NumPy's is libc's memcpy, which keeps stores in the caches up to large sizes; ours streams around them.
    """
    if work.fresh:
        plain: Callable[[], object] = partial(work.flat_src.copy)
        ours: Callable[[], object] = partial(_fresh_ours, work.flat_src, work.threads)
    else:
        plain = partial(np.copyto, work.flat_dst, work.flat_src)
        ours = _bound(work.flat_dst, work.flat_src, work.threads)
    return [Subject(f"{PEAK}memcpy", plain), Subject(f"{PEAK}{OURS}", ours, _use(""))]


# --- what happens around a call ---------------------------------------------------------------------------


def flusher(nbytes: int) -> Callable[[], object]:
    """A call that empties the caches of other data: it reads `nbytes` that nobody else uses."""
    block = np.ones(max(nbytes, 8) // 8, np.uint64)
    return block.sum
