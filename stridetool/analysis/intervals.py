"""Medians and their uncertainty, by resampling: no distribution is assumed, as times have none that is known.

Plain Python, because `compare` uses it and must not load NumPy for two small documents. The random numbers are
seeded, so that the same samples always give the same interval.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from math import sqrt
from statistics import median

RESAMPLES = 1000
_TAIL = 0.025  # on each side of a 95 % interval

Interval = tuple[float, float]


def median_interval(samples: Sequence[float]) -> Interval:
    """The 95 % bootstrap interval of the median of `samples` (at least one)."""
    ordered = sorted(samples)
    return _bootstrap(lambda rng: _resampled_median(ordered, rng))


def ratio_interval(numerator: Sequence[float], denominator: Sequence[float]) -> Interval:
    """The 95 % interval of the ratio of two medians whose samples do not pair."""
    above, below = sorted(numerator), sorted(denominator)
    return _bootstrap(lambda rng: _resampled_median(above, rng) / _resampled_median(below, rng))


def paired_ratios(numerator: Mapping[int, float], denominator: Mapping[int, float]) -> list[float]:
    """The ratio in each round that both have: what disturbs a whole round cancels."""
    return [value / denominator[key] for key, value in sorted(numerator.items()) if key in denominator]


def notch(samples: Sequence[float]) -> float:
    """Half the width of an interval of the median, relative to it, without resampling: cheap enough for each round.

    McGill's notch, 1.57 × interquartile range / sqrt(n): a stop rule, not a result.
    """
    ordered, n = sorted(samples), len(samples)
    spread = ordered[(3 * n) // 4] - ordered[n // 4]
    return float(1.57 * spread / sqrt(n) / median(ordered))


def _bootstrap(statistic: Callable[[random.Random], float]) -> Interval:
    rng = random.Random(0)
    values = sorted(statistic(rng) for _ in range(RESAMPLES))
    return values[int(_TAIL * RESAMPLES)], values[int((1 - _TAIL) * RESAMPLES) - 1]


def _resampled_median(ordered: Sequence[float], rng: random.Random) -> float:
    """The median of n draws with replacement, without drawing n: the middle one of n uniform numbers is Beta."""
    n = len(ordered)
    middle = (n + 1) // 2
    at = rng.betavariate(middle, n - middle + 1)
    low = ordered[min(n - 1, int(n * at))]
    if n % 2:
        return low
    # Of an even number, two are in the middle; the second is the least of the n - middle above the first.
    above = 1 - (1 - at) * rng.random() ** (1 / (n - middle))
    return (low + ordered[min(n - 1, int(n * above))]) / 2
