"""The report of `compare`: what changed from one document to another of the same kind, and what changed too much."""

from __future__ import annotations

from typing import Literal

import msgspec

from stridetool.report.bench import Interval

Change = Literal["faster", "slower", "same"]


class KernelChange(msgspec.Struct, frozen=True, kw_only=True):
    """One kernel on one case. Ratios are new over old: above 1 is slower.

    `ratio` is of times, `peak_ratio` of times in units of the peak of the same rounds, in which the state of the
    machine cancels. A change counts only when both intervals (95 %) leave out 1 on the same side;
    it is beyond the threshold when both intervals are.
    """

    case: str
    kernel: str
    old_seconds: float
    new_seconds: float
    ratio: float
    ratio_interval: Interval
    peak_ratio: float
    peak_ratio_interval: Interval
    change: Change
    beyond_threshold: bool


class NumberChange(msgspec.Struct, frozen=True, kw_only=True):
    """One number of a report, in the unit of its name; `relative` is None where the old one is 0."""

    name: str
    old: int | float
    new: int | float
    relative: float | None
    beyond_threshold: bool


class TensorChange(msgspec.Struct, frozen=True, kw_only=True):
    """One tensor that is not what it was: `what` is dtype, sizes, strides, sharing, …, added or removed."""

    tensor: str
    what: str
    old: str | None
    new: str | None


class CompareReport(msgspec.Struct, frozen=True, kw_only=True):
    """Two documents of the schema `compared`. Which list is filled depends on it."""

    compared: str
    old: str
    new: str
    threshold: float
    kernels: tuple[KernelChange, ...] = ()
    numbers: tuple[NumberChange, ...] = ()
    tensors: tuple[TensorChange, ...] = ()

    @property
    def is_beyond(self) -> bool:
        """Whether anything became worse by more than the threshold."""
        return any(k.beyond_threshold for k in self.kernels) or any(n.beyond_threshold for n in self.numbers)
