"""The course of a replay in a few hundred points, whatever its length; its peaks are among them."""

from __future__ import annotations

from stridetool.report.alloc import Timeline

MAX_POINTS = 1000


class Sampler:
    """Takes the state after each event of a history of `events` events, and keeps one point for each stretch."""

    def __init__(self, events: int) -> None:
        self._stride = max(1, -(-events // MAX_POINTS))
        self._end = 0  # of the stretch that is open
        self._index: list[int] = []
        self._allocated: list[int] = []
        self._reserved: list[int] = []

    def add(self, index: int, allocated: int, reserved: int) -> None:
        """The state after event `index`, in bytes."""
        if index >= self._end:
            self._end = index + self._stride
            self._index.append(index)
            self._allocated.append(allocated)
            self._reserved.append(reserved)
        elif (reserved, allocated) > (self._reserved[-1], self._allocated[-1]):
            self._index[-1], self._allocated[-1], self._reserved[-1] = index, allocated, reserved

    def timeline(self) -> Timeline:
        """What was kept."""
        return Timeline(tuple(self._index), tuple(self._allocated), tuple(self._reserved))
