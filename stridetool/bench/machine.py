"""What a time depends on beside the code: processor, caches, clock governor, huge pages, who else is running.

Linux tells it in /proc and /sys; where a file is not there, the fact is not in the report.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from stridetool.analysis.copy_cost import Cache, Machine
from stridetool.errors import UsageError
from stridetool.report.envelope import Fact
from stridetool.units import parse_bytes

_CPU = Path("/sys/devices/system/cpu/cpu0")
_LIBRARIES = ("numpy", "torch", "opencv-python-headless", "opencv-python", "cupy-cuda12x", "cupy-cuda13x")


def host_facts() -> dict[str, Fact]:
    """The environment of a host benchmark, for the report; values are plain."""
    from stridetool.kernels import kernel_name

    facts: dict[str, Fact | None] = {
        "cpu": _processor(),
        "usable_cpus": usable_cpus(),
        "load_average": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "governor": _text(_CPU / "cpufreq/scaling_governor"),
        "huge_pages": _chosen(_text(Path("/sys/kernel/mm/transparent_hugepage/enabled"))),
        "page_bytes": page_bytes(),
        "copy_kernel": kernel_name(),
        **{f"l{cache.level}_bytes": cache.nbytes for cache in caches()},
        **{library.replace("-", "_"): _version(library) for library in _LIBRARIES},
    }
    return {name: value for name, value in facts.items() if value is not None}


def machine() -> Machine:
    """The caches and pages that the explanation of a copy reckons with; ordinary ones where none are told."""
    found = tuple(caches())
    return Machine(caches=found, page_bytes=page_bytes()) if found else Machine(page_bytes=page_bytes())


def caches() -> Iterator[Cache]:
    """The data caches of the first processor, nearest first."""
    for folder in sorted(_CPU.glob("cache/index*")):
        size = _text(folder / "size")
        if _text(folder / "type") == "Instruction" or not size:
            continue
        try:
            yield Cache(
                level=int(_text(folder / "level") or 0),
                nbytes=parse_bytes(size),
                line_bytes=int(_text(folder / "coherency_line_size") or 64),
                ways=int(_text(folder / "ways_of_associativity") or 8),
            )
        except (ValueError, UsageError):
            continue  # a kernel that writes it otherwise


def last_level_bytes() -> int:
    """The largest cache, 32 MiB where none is told."""
    return max((cache.nbytes for cache in caches()), default=32 << 20)


def usable_cpus() -> int:
    """Processors that this process may run on."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def available_bytes() -> int | None:
    """Memory that can be had without swapping; None where the system does not tell."""
    for line in (_text(Path("/proc/meminfo")) or "").splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) << 10
    return None


def page_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


def throttle_count() -> int:
    """How often the processors were slowed down for heat so far; 0 where the system does not tell."""
    counts = Path("/sys/devices/system/cpu").glob("cpu[0-9]*/thermal_throttle/core_throttle_count")
    return sum(int(_text(path) or 0) for path in counts)


def _processor() -> str | None:
    for line in (_text(Path("/proc/cpuinfo")) or "").splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Model"):
            return value.strip()
    return platform.processor() or sys.platform


def _version(library: str) -> str | None:
    try:
        return version(library)
    except PackageNotFoundError:
        return None


def _chosen(text: str | None) -> str | None:
    """`always [madvise] never` → `madvise`."""
    return text.partition("[")[2].partition("]")[0] if text and "[" in text else text


def _text(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return None
