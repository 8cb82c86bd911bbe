"""A GPU as a device to benchmark, through CuPy: times from events, the second-level cache emptied between samples."""

from __future__ import annotations

import importlib.util
import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any

from stridetool.analysis.copy_cost import Cache, Machine
from stridetool.bench.backend import Backend, Measured, Settings, choose, matching
from stridetool.bench.cases import Case
from stridetool.bench.cuda_kernels import CudaWorkspace, kernel_names, peak_subjects, subject
from stridetool.bench.sampling import Subject, Timing, measure
from stridetool.errors import UnavailableError, UsageError
from stridetool.report.envelope import Fact, Finding
from stridetool.units import format_bytes

_MEMORY_SHARE = 0.9  # of what is free
_SECTOR_BYTES = 32  # what a GPU reads from memory at once
_PAGE_BYTES = 2 << 20
_WARP = 32


def cuda_backend() -> Backend:
    """The first GPU. Raises UnavailableError where there is none, or no CuPy to reach it."""
    if importlib.util.find_spec("cupy") is None:
        raise UnavailableError(
            "cannot time copies on a GPU: CuPy is not installed",
            hint="on a machine with an NVIDIA GPU, pip install 'stride-tool[cuda12]' (or cuda13)",
        )
    import cupy

    if not cupy.cuda.is_available():
        raise UnavailableError(
            "cannot time copies on a GPU: CuPy sees none",
            hint="run it on a machine with an NVIDIA GPU and its driver (nvidia-smi shows it)",
        )
    return CudaBackend(cupy)


class EventClock:
    """Times what calls start on the device, not how long it takes to start it."""

    def __init__(self, cupy: Any) -> None:
        self._cuda = cupy.cuda

    def now(self) -> float:
        return perf_counter()

    def time(self, call: Callable[[], object], calls: int) -> Timing:
        start, end = self._cuda.Event(), self._cuda.Event()
        start.record()
        for _ in range(calls):
            call()
        end.record()
        end.synchronize()
        return Timing(self._cuda.get_elapsed_time(start, end) / 1000, 0.0, 0)


class CudaBackend:
    """Device 0. `cupy` is the library, or a stand-in for it."""

    device = "cuda:0"

    def __init__(self, cupy: Any, seed: int = 0) -> None:
        self._cupy = cupy
        self._rng = random.Random(seed)
        self._flush: Callable[[], object] | None = None

    def facts(self) -> dict[str, Fact]:
        return {"gpu": device_properties(self._cupy)["name"].decode(), **device_facts(self._cupy, 0)}

    def machine(self) -> Machine:
        """Sectors of 32 B and the second-level cache: a GPU's first level keeps nothing that a copy would reuse."""
        cache = Cache(2, int(device_properties(self._cupy)["l2CacheSize"]), _SECTOR_BYTES, 16)
        return Machine(caches=(cache,), page_bytes=_PAGE_BYTES, warp=_WARP)

    def check(self, case: Case) -> None:
        """Raises UsageError when the device's memory does not hold the case."""
        free, _ = self._cupy.cuda.runtime.memGetInfo()
        needed = case.extent()[0] + 3 * case.nbytes
        if needed > free * _MEMORY_SHARE:
            raise UsageError(
                f"cannot copy {case.name} on {self.device}: it takes {format_bytes(needed)}, "
                f"{format_bytes(free)} are free"
            )

    def measure(self, case: Case, settings: Settings) -> Measured:
        """The kernels of `settings`, and device-to-device copies, in the same rounds."""
        work = CudaWorkspace(self._cupy, case, fresh=settings.fresh)
        names = () if settings.peak_only else matching(settings.kernels, kernel_names(), kernel_names())
        chosen = choose(names, partial(subject, work=work), work.is_right)
        peaks = peak_subjects(work)
        everyone = [self._in_mode(s, work, settings.mode) for s in (*chosen.subjects, *peaks)]
        return chosen.measured(measure(everyone, settings.limits, EventClock(self._cupy), self._rng))

    def findings(self, settings: Settings) -> list[Finding]:
        return []

    def _in_mode(self, chosen: Subject, work: CudaWorkspace, mode: str) -> Subject:
        if mode == "consumer":
            return replace(chosen, call=partial(work.copy_and_read, chosen.call))
        if mode == "hot":
            return chosen
        if self._flush is None:
            # Long enough that the launch that follows is queued before it ends.
            block = self._cupy.zeros(4 * int(device_properties(self._cupy)["l2CacheSize"]), self._cupy.uint8)
            self._flush = partial(block.fill, 1)
        return replace(chosen, prepare=self._flush, one_call=True)


def device_properties(cupy: Any, index: int = 0) -> Any:
    return cupy.cuda.runtime.getDeviceProperties(index)


def device_facts(cupy: Any, index: int) -> dict[str, Fact]:
    """What a time on a GPU depends on beside the code."""
    properties, runtime = device_properties(cupy, index), cupy.cuda.runtime
    return {
        "compute_capability": f"{properties['major']}.{properties['minor']}",
        "multiprocessors": int(properties["multiProcessorCount"]),
        "l2_bytes": int(properties["l2CacheSize"]),
        "gpu_driver": int(runtime.driverGetVersion()),
        "cuda_runtime": int(runtime.runtimeGetVersion()),
        "cupy": str(cupy.__version__),
    }
