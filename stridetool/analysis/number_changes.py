"""The main numbers of two reports on an allocator, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from stridetool.report.compare import NumberChange

_MORE_IS_WORSE = frozenset(
    ("reserved_bytes", "allocated_bytes", "active_bytes", "requested_bytes", "internal_bytes", "external_bytes",
     "pending_free_bytes", "floor_bytes", "peak_reserved_bytes", "peak_allocated_bytes", "ooms", "retries")
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


def _numbers(report: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """The figures of one device, or of each of several under its place in the list and its name."""
    if "devices" in report:
        for place, part in enumerate(report["devices"]):
            prefix = f"[{place}] {part['device']['name']}"
            yield from ((f"{prefix}.{name}", value) for name, value in _numbers(part))
        return
    yield from _integers(report.get("fragmentation") or {})
    yield from _integers({name: value for name, value in report.items() if name.endswith("_bytes")})
    outcome: dict[str, Any] = report.get("outcome") or _peaks(report.get("timeline") or {})
    yield from _integers({**outcome, "ooms": len(outcome["ooms"])} if "ooms" in outcome else outcome)
    if "segments" in report:
        yield "segments", len(report["segments"])


def _integers(values: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    return ((name, value) for name, value in values.items() if isinstance(value, int))


def _peaks(timeline: Mapping[str, Any]) -> dict[str, int]:
    """What a snapshot without a replay shows of its history."""
    return {f"peak_{name}": max(values) for name, values in timeline.items() if name != "index" and values}
