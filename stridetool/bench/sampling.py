"""How times are taken: subjects interleaved in random order, round after round, until their medians are known.

    warm up ──▶ round: each subject once, in random order ──▶ … ──▶ Series per subject
    (until two medians agree)     disturbed samples are dropped and counted

What disturbs a whole round (another process, a clock that drops) hits all subjects alike, so ratios within a round
stay true. The clock is a parameter: the tests run on one that they move by hand.
"""

from __future__ import annotations

import itertools
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple, Protocol

from stridetool.analysis.intervals import notch

if sys.platform != "win32":
    import resource

MIN_SAMPLES = 5
_AGREE = 0.05  # two medians of warm-up that differ by less are the same
_BLOCK = 3  # samples in each median of the warm-up
_WARM_BLOCKS = 6
_DISTURBED_SHARE = 0.05  # of the time of a sample spent off the processor
_DISTURBED_SECONDS = 20e-6  # what the clocks themselves and an interrupt may take
_LEAD_SECONDS = 0.02  # what takes longer has lost all that a call before it left in the caches
_SLICE_SECONDS = 1e-3  # the least that a process which takes the processor away keeps it


class Timing(NamedTuple):
    """Of some calls: seconds on the wall, seconds of them that went to other processes, minor page faults."""

    wall: float
    taken: float
    faults: int


class Clock(Protocol):
    """Times calls. A GPU's clock waits for what they started."""

    def now(self) -> float:
        """Seconds since some moment."""
        ...

    def time(self, call: Callable[[], object], calls: int) -> Timing:
        """Call it `calls` times."""
        ...


class HostClock:
    """Wall time of calls that return when they are done.

    With one thread, the time that it was not on a processor went to others. With several, their processor time tells
    nothing of that, and each involuntary switch counts as a slice.
    """

    def __init__(self, threads: int = 1) -> None:
        self._threads = threads

    def now(self) -> float:
        return time.perf_counter()

    def time(self, call: Callable[[], object], calls: int) -> Timing:
        repeats = itertools.repeat(None, calls)
        switches, faults = _usage()
        busy = time.thread_time()
        start = time.perf_counter()
        for _ in repeats:
            call()
        wall = time.perf_counter() - start
        busy = time.thread_time() - busy
        switches, faults = (after - before for after, before in zip(_usage(), (switches, faults), strict=True))
        taken = wall - busy if self._threads == 1 else switches * _SLICE_SECONDS
        return Timing(wall, max(0.0, taken), faults)


def _usage() -> tuple[int, int]:
    """(involuntary switches, minor page faults) of this process."""
    if sys.platform == "win32":
        return 0, 0
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_nivcsw, usage.ru_minflt


@dataclass(frozen=True, slots=True)
class Subject:
    """Something to time. `prepare` runs before each sample, outside its time (it empties caches, picks a kernel)."""

    name: str
    call: Callable[[], object]
    prepare: Callable[[], object] | None = None
    one_call: bool = False  # a sample is a single call, because only the first after `prepare` counts


class Sample(NamedTuple):
    """Seconds of one call, the round it was taken in, the seconds that others took, and page faults of one call."""

    seconds: float
    round: int
    lost: float
    faults: float


@dataclass(slots=True)
class Series:
    """All samples of one subject; `calls` make one sample, after an untimed one where it `leads`."""

    calls: int
    leads: bool
    clean: list[Sample] = field(default_factory=list)
    disturbed: list[Sample] = field(default_factory=list)

    def kept(self) -> list[Sample]:
        """The clean samples, in order; where they are fewer than five, with the least disturbed of the others."""
        missing = max(0, MIN_SAMPLES - len(self.clean))
        best = sorted(self.disturbed, key=lambda sample: sample.lost / sample.seconds)[:missing]
        return sorted([*self.clean, *best], key=lambda sample: sample.round)


@dataclass(frozen=True, slots=True)
class Limits:
    """When to stop: not before `MIN_SAMPLES` rounds, then at `seconds`, or when every median is known to `notch`."""

    seconds: float = 2.0
    sample_seconds: float = 500e-6
    max_rounds: int = 101
    notch: float = 0.01


def measure(subjects: Sequence[Subject], limits: Limits, clock: Clock, rng: random.Random) -> dict[str, Series]:
    """The samples of each subject, by its name.

    A subject whose samples are all disturbed still gets five, in at most twice the time; the report says so.
    """
    started = clock.now()
    # Half of the time at most goes into warming up.
    series = {s.name: _warm_up(s, clock, limits, limits.seconds / 2 / len(subjects)) for s in subjects}
    for number in range(limits.max_rounds):
        for subject in rng.sample(list(subjects), len(subjects)):
            target = series[subject.name]
            sample = _sample(subject, target.calls, clock, number, leads=target.leads)
            (target.disturbed if _is_disturbed(sample, target.calls) else target.clean).append(sample)
        if _is_enough(list(series.values()), number + 1, clock.now() - started, limits):
            break
    return series


def _is_enough(series: Sequence[Series], rounds: int, elapsed: float, limits: Limits) -> bool:
    if rounds < MIN_SAMPLES:
        return False
    if any(len(s.clean) < MIN_SAMPLES for s in series):
        return elapsed > 2 * limits.seconds
    if elapsed > limits.seconds:
        return True
    return rounds % MIN_SAMPLES == 0 and all(notch([x.seconds for x in s.clean]) < limits.notch for s in series)


def _warm_up(subject: Subject, clock: Clock, limits: Limits, seconds: float) -> Series:
    """Call until two consecutive medians agree; the empty series says how many calls make a sample long enough."""
    started = clock.now()
    block = _sample(subject, 1, clock, 0, leads=False).seconds
    is_worth_it = block < seconds / _BLOCK and not subject.one_call
    for _ in range(_WARM_BLOCKS if is_worth_it else 0):
        previous, calls = block, _calls(block, subject, limits)
        block = median(_sample(subject, calls, clock, 0, leads=False).seconds for _ in range(_BLOCK))
        if abs(block - previous) <= _AGREE * block or clock.now() - started > seconds:
            break
    return Series(_calls(block, subject, limits), leads=not subject.one_call and block < _LEAD_SECONDS)


def _calls(seconds: float, subject: Subject, limits: Limits) -> int:
    return 1 if subject.one_call else max(1, round(limits.sample_seconds / max(seconds, 1e-9)))


def _sample(subject: Subject, calls: int, clock: Clock, number: int, *, leads: bool) -> Sample:
    """Time `calls` calls; with `leads` after one that is not timed, so that each subject finds its own caches."""
    if subject.prepare is not None:
        subject.prepare()
    if leads:
        subject.call()
    wall, taken, faults = clock.time(subject.call, calls)
    return Sample(max(wall, 1e-9) / calls, number, taken / calls, faults / calls)


def _is_disturbed(sample: Sample, calls: int) -> bool:
    return sample.lost * calls > max(_DISTURBED_SHARE * sample.seconds * calls, _DISTURBED_SECONDS)
