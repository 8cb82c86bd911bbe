"""What grows from step to step, by the place that asked for it.

Steps are annotations that the recording has; without them, the moments with the least live memory in equal parts
of the history stand for the ends of steps.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from stridetool.report.alloc import Leak

_PARTS = 8
_LEAST_STEPS = 3
_MOST_STEPS = 24


class Change(NamedTuple):
    """`nbytes` more (or less) that the place `site` keeps, at an event."""

    event: int
    site: str
    nbytes: int


def leaks(changes: Sequence[Change], marks: Sequence[int], *, top: int = 10) -> tuple[Leak, ...]:
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
        course = tuple(state.get(site, 0) for state in states)
        rises = sum(after > before for before, after in pairwise(course))
        falls = sum(after < before for before, after in pairwise(course))
        if falls == 0 and rises >= max(2, len(course) // 2):
            found.append(Leak(site=site, grown_bytes=course[-1] - course[0], at_steps=course))
    return tuple(sorted(found, key=lambda leak: -leak.grown_bytes)[:top])


def low_points(changes: Sequence[Change]) -> list[int]:
    """In each of a few equal parts, the event after which least is live."""
    if len(changes) < _PARTS * 4:
        return []
    points, live, position = [], 0, 0
    for part in range(1, _PARTS + 1):
        least, where = None, 0
        while position < len(changes) * part // _PARTS:
            live += changes[position].nbytes
            if least is None or live < least:
                least, where = live, changes[position].event
            position += 1
        points.append(where)
    return points


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


def _states(changes: Sequence[Change], marks: Sequence[int]) -> list[Counter[str]]:
    states, current, position = [], Counter[str](), 0
    for mark in marks:
        while position < len(changes) and changes[position].event <= mark:
            current[changes[position].site] += changes[position].nbytes
            position += 1
        states.append(Counter(current))
    return states
