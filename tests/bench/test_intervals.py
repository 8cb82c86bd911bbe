"""Intervals against NumPy's quantiles of the same bootstrap, and their laws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stridetool.analysis.intervals import median_interval, notch, paired_ratios, ratio_interval

samples = st.lists(st.floats(0.1, 10.0), min_size=5, max_size=40)


def numpy_interval(values, seed=3):
    rng = np.random.default_rng(seed)
    medians = np.median(rng.choice(values, (4000, len(values))), axis=1)
    return np.quantile(medians, [0.025, 0.975])


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 1000), st.sampled_from((7, 20, 61)))
def test_the_interval_is_numpys(seed, n):
    values = np.random.default_rng(seed).lognormal(0, 0.3, n)
    low, high = median_interval(values.tolist())
    want_low, want_high = numpy_interval(values)
    ordered = np.sort(values)
    near = np.abs(np.searchsorted(ordered, [low, high]) - np.searchsorted(ordered, [want_low, want_high]))
    assert near.max() <= max(1, n // 15)


@settings(max_examples=20, deadline=None)
@given(samples)
def test_an_interval_holds_the_median_and_is_repeatable(values):
    low, high = median_interval(values)
    assert min(values) <= low <= np.median(values) <= high <= max(values)
    assert median_interval(values) == (low, high)


@settings(max_examples=10, deadline=None)
@given(samples, st.floats(0.1, 10))
def test_a_ratio_scales(values, factor):
    low, high = ratio_interval([factor * value for value in values], values)
    assert low <= factor * (1 + 1e-9)
    assert high >= factor * (1 - 1e-9)


def test_nine_of_ten_intervals_cover_the_truth():
    rng = np.random.default_rng(5)
    covered = 0
    for _ in range(60):
        low, high = median_interval(rng.lognormal(0, 0.2, 25).tolist())
        covered += low <= 1.0 <= high
    assert covered >= 51


def test_ratios_pair_by_round():
    assert paired_ratios({0: 2.0, 1: 9.0, 5: 6.0}, {0: 1.0, 5: 3.0, 7: 1.0}) == [2.0, 2.0]


def test_the_notch_is_the_textbooks():
    values = np.arange(1.0, 102.0)
    assert notch(values.tolist()) == pytest.approx(1.57 * 50 / np.sqrt(101) / 51, rel=0.03)
