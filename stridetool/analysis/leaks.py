"""What grows from step to step, by the place that asked for it.

Steps are annotations that the recording has; without them, a step ends where live memory is at a low: between two
lows it rises and falls by a good part of the largest fall there is.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import NamedTuple

from stridetool.report.alloc import Leak, Steps

_LEAST_STEPS = 3
_MOST_ENDS = 8
_SHARES = (2, 4, 8, 16, 32, 64)  # of the largest fall: what is done once at the end may free much more than a step does
_MAX_NAME = 80


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


class Annotated(NamedTuple):
    """Entries before which an annotation of this name begins."""

    ends: list[int]
    name: str


class Growth(NamedTuple):
    """The steps that were looked at, None where there are too few, and what grows over them."""

    steps: Steps | None
    leaks: tuple[Leak, ...]


def growth(changes: Changes, annotated: Annotated | None = None, *, top: int = 10) -> Growth:
    """Places whose live bytes never fall from one end of a step to the next, and go on growing.

    The first end is left out where there are enough: programs build their caches in their first step.
    """
    ends, annotation = annotated or (low_points(changes), None)
    places = _spread(len(ends))
    if len(places) < _LEAST_STEPS:
        return Growth(None, ())
    steps = Steps(ends=tuple(ends[place] for place in places), seen=len(ends), annotation=annotation)
    states = _states(changes, steps.ends)
    courses = {site: tuple(state[site] for state in states) for site in states[-1]}
    found = [_leak(site, course, places) for site, course in courses.items() if _goes_on(course)]
    found.sort(key=lambda leak: (-leak.step_bytes, -leak.grown_bytes))
    return Growth(steps, tuple(found[:top]))


def _spread(count: int) -> list[int]:
    """Which of so many ends are looked at: a few, as a program may not keep something more in every step."""
    first = 1 if count > _LEAST_STEPS else 0
    gaps = min(count - first, _MOST_ENDS) - 1
    return [first + (count - 1 - first) * place // gaps for place in range(gaps + 1)] if gaps > 0 else []


def _goes_on(course: Sequence[int]) -> bool:
    """Whether it never falls, and rises in most of the earlier and most of the later steps: what is made once, over
    however many steps, is flat before or after."""
    rises = [after - before for before, after in pairwise(course)]
    middle = len(rises) // 2
    return min(rises) >= 0 and all(
        2 * sum(rise > 0 for rise in part) > len(part) for part in (rises[:middle], rises[middle:])
    )


def _leak(site: str, course: tuple[int, ...], places: Sequence[int]) -> Leak:
    middle = (len(course) - 1) // 2
    return Leak(
        site=site,
        grown_bytes=course[-1] - course[0],
        step_bytes=(course[-1] - course[middle]) // (places[-1] - places[middle]),
        at_steps=course,
    )


def low_points(changes: Changes) -> list[int]:
    """The events after which live memory is at a low; too few to be steps where it only rises and falls once."""
    live = list(accumulate(changes.nbytes))
    largest = max((top - now for top, now in zip(accumulate(live, max), live, strict=True)), default=0)
    lows: list[int] = []
    for share in _SHARES if live else ():
        lows = _lows(live, max(1, largest // share))
        if len(lows) > _LEAST_STEPS:
            break
    return [changes.events[index] for index in lows]


def _lows(live: Iterable[int], swing: int) -> list[int]:
    """Indices of the last of the least values between rises and falls of at least `swing`, the ends among them."""
    found: list[int] = []
    low, lowest, highest, falls = 0, 0, 0, True
    for index, now in enumerate(live):
        if falls and (now <= lowest or index == 0):
            low, lowest = index, now
        elif falls and now - lowest >= swing:
            found.append(low)
            highest, falls = now, False
        elif not falls and highest - now >= swing:
            low, lowest, falls = index, now, True
        elif not falls:
            highest = max(highest, now)
    return [*found, low] if falls else found


def annotated_steps(times_us: Sequence[int], steps: Sequence[tuple[int, str]]) -> Annotated | None:
    """The entries before which the most frequent annotation began; numbers in names do not tell them apart."""
    if not steps or not times_us:
        return None
    kinds = Counter(_kind(name) for _, name in steps)
    kind, count = kinds.most_common(1)[0]
    if count < _LEAST_STEPS:
        return None
    ends = {bisect_left(times_us, time) - 1 for time, name in steps if _kind(name) == kind} - {-1}
    return Annotated(sorted(ends), kind[:_MAX_NAME])


def _kind(name: str) -> str:
    return "".join("#" if letter.isdigit() else letter for letter in name)


def _states(changes: Changes, ends: Sequence[int]) -> list[dict[str, int]]:
    """The bytes live by place after each of some events."""
    states, current, start = [], dict.fromkeys(changes.sites, 0), 0
    for mark in ends:
        end = bisect_right(changes.events, mark)
        for site, nbytes in zip(changes.sites[start:end], changes.nbytes[start:end], strict=True):
            current[site] += nbytes
        start = end
        states.append(current.copy())
    return states
