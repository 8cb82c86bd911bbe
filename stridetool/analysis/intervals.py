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
_MAX_SAMPLES = 400  # of one series: resampling is RESAMPLES times as many steps

Interval = tuple[float, float]


def median_interval(samples: Sequence[float]) -> Interval:
    """The 95 % bootstrap interval of the median of `samples` (at least one)."""
    values = _thinned(samples)
    return _bootstrap(lambda rng: median(rng.choices(values, k=len(values))))


def ratio_interval(numerator: Sequence[float], denominator: Sequence[float]) -> Interval:
    """The 95 % interval of the ratio of two medians whose samples do not pair."""
    above, below = _thinned(numerator), _thinned(denominator)
    return _bootstrap(lambda rng: median(rng.choices(above, k=len(above))) / median(rng.choices(below, k=len(below))))


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


def _thinned(samples: Sequence[float]) -> list[float]:
    """At most `_MAX_SAMPLES`, evenly taken from the series."""
    step = -(-len(samples) // _MAX_SAMPLES)
    return list(samples[::step])
