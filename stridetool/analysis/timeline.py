"""The course of a replay in a few hundred points, whatever its length; its peaks are among them."""

from __future__ import annotations

from stridetool.report.alloc import Timeline

MAX_POINTS = 1000


class Sampler:
    """Takes the state after each event of a history of `events` events, and keeps one point for each stretch."""

    def __init__(self, events: int) -> None:
        self._stride = max(1, -(-events // MAX_POINTS))
        self.end = 0  # of the stretch that is open: an event before it in which nothing rises may be left out
        self._index: list[int] = []
        self._states: list[tuple[int, int]] = []  # (reserved, allocated) bytes

    def add(self, index: int, allocated: int, reserved: int) -> None:
        """The state after event `index`, in bytes."""
        if index >= self.end:
            self.end = index + self._stride
            self._index.append(index)
            self._states.append((reserved, allocated))
        elif (reserved, allocated) > self._states[-1]:
            self._index[-1], self._states[-1] = index, (reserved, allocated)

    def timeline(self) -> Timeline:
        """What was kept."""
        reserved, allocated = zip(*self._states, strict=True) if self._states else ((), ())
        return Timeline(tuple(self._index), allocated, reserved)
