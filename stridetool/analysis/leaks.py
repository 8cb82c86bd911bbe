"""What grows from step to step, by the place that asked for it.

Steps are annotations that the recording has; without them, the moments with the least live memory in equal parts
of the history stand for the ends of steps.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

from stridetool.report.alloc import Leak

_PARTS = 8
_LEAST_STEPS = 3
_MOST_STEPS = 24


@dataclass(frozen=True, slots=True)
class Changes:
    """At event `events[i]` (ascending) the place `sites[i]` keeps `nbytes[i]` more, or less: columns, for millions."""

    events: list[int] = field(default_factory=list)
    sites: list[str] = field(default_factory=list)
    nbytes: list[int] = field(default_factory=list)

    def add(self, event: int, site: str, nbytes: int) -> None:
        """One change more."""
        self.events.append(event)
        self.sites.append(site)
        self.nbytes.append(nbytes)


def leaks(changes: Changes, marks: Sequence[int], *, top: int = 10) -> tuple[Leak, ...]:
    """Places whose live bytes never fall from one mark (an event index) to the next, and grow at least twice.

    The first mark is left out where there are enough: programs build their caches in their first step.
    """
    marks = list(marks) or low_points(changes)
    if len(marks) > _LEAST_STEPS + 1:
        marks = marks[1:]
    if len(marks) < _LEAST_STEPS:
        return ()
    marks = marks[:: max(1, len(marks) // _MOST_STEPS)]
    states = _states(changes, marks)
    found = []
    for site in states[-1]:
        course = tuple(state[site] for state in states)
        rises = sum(after > before for before, after in pairwise(course))
        falls = sum(after < before for before, after in pairwise(course))
        if falls == 0 and rises >= max(2, len(course) // 2):
            found.append(Leak(site=site, grown_bytes=course[-1] - course[0], at_steps=course))
    return tuple(sorted(found, key=lambda leak: -leak.grown_bytes)[:top])


def low_points(changes: Changes) -> list[int]:
    """In each of a few equal parts, the event after which least is live."""
    count = len(changes.events)
    if count < _PARTS * 4:
        return []
    live = list(accumulate(changes.nbytes))
    bounds = pairwise(count * part // _PARTS for part in range(_PARTS + 1))
    return [changes.events[live.index(min(live[start:end]), start)] for start, end in bounds]


def step_marks(times_us: Sequence[int], steps: Sequence[tuple[int, str]]) -> list[int]:
    """The entries before which the most frequent annotation began; numbers in names do not tell them apart."""
    if not steps or not times_us:
        return []
    kinds = Counter(_kind(name) for _, name in steps)
    kind, count = kinds.most_common(1)[0]
    if count < _LEAST_STEPS:
        return []
    return sorted({bisect_left(times_us, time) - 1 for time, name in steps if _kind(name) == kind} - {-1})


def _kind(name: str) -> str:
    return "".join("#" if letter.isdigit() else letter for letter in name)


def _states(changes: Changes, marks: Sequence[int]) -> list[dict[str, int]]:
    """The bytes live by place after each mark (an event)."""
    states, current, start = [], dict.fromkeys(changes.sites, 0), 0
    for mark in marks:
        end = bisect_right(changes.events, mark)
        for site, nbytes in zip(changes.sites[start:end], changes.nbytes[start:end], strict=True):
            current[site] += nbytes
        start = end
        states.append(current.copy())
    return states
