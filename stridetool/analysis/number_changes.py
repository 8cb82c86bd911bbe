"""The main numbers of two reports on an allocator, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from stridetool.report.compare import NumberChange

_MORE_IS_WORSE = frozenset(
    ("reserved_bytes", "allocated_bytes", "active_bytes", "requested_bytes", "internal_bytes", "external_bytes",
     "pending_free_bytes", "floor_bytes", "peak_reserved_bytes", "peak_allocated_bytes", "num_ooms",
     "num_alloc_retries")
)  # fmt: skip


def compare_alloc(old: Mapping[str, Any], new: Mapping[str, Any], threshold: float) -> tuple[NumberChange, ...]:
    """Numbers that both reports (as plain dicts) have, in the order of the old one."""
    after = dict(_numbers(new))
    return tuple(_number(name, value, after[name], threshold) for name, value in _numbers(old) if name in after)


def _number(name: str, old: float, new: float, threshold: float) -> NumberChange:
    grew = new > old * (1 + threshold)
    return NumberChange(
        name=name,
        old=old,
        new=new,
        relative=new / old - 1 if old else None,
        beyond_threshold=grew and name.rpartition(".")[2] in _MORE_IS_WORSE,
    )


def _numbers(report: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """The figures of one device, or of each of several under its name."""
    devices = report.get("devices")
    if devices:
        for part in devices:
            prefix = str((part.get("device") or {}).get("name", "device"))
            yield from ((f"{prefix}.{name}", value) for name, value in _numbers(part))
        return
    for name, value in (report.get("fragmentation") or {}).items():
        if isinstance(value, int | float):
            yield name, value
    timeline = report.get("timeline") or {}
    for name in ("allocated_bytes", "reserved_bytes"):
        if timeline.get(name):
            yield f"peak_{name}", max(timeline[name])
    if isinstance(report.get("floor_bytes"), int):
        yield "floor_bytes", report["floor_bytes"]
    for name in ("num_ooms", "num_alloc_retries"):
        if isinstance((report.get("stats") or {}).get(name), int):
            yield name, report["stats"][name]
    yield "segments", len(report.get("segments") or ())
