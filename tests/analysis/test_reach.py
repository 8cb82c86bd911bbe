"""Bytes that a layout reaches, against NumPy writing through the same strides."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stridetool.analysis.pictures import picture
from stridetool.analysis.reach import byte_intervals, reached_bytes, total, union
from stridetool.core.layout import Layout

STORAGE = 4096


@st.composite
def layouts(draw):
    """Layouts within `STORAGE` bytes, with negative and zero strides, over items of `unit` bytes."""
    unit = draw(st.sampled_from([1, 2, 4, 8]))
    sizes = draw(st.lists(st.integers(0, 5), max_size=4))
    strides = draw(st.lists(st.integers(-9, 9), min_size=len(sizes), max_size=len(sizes)))
    low = sum((n - 1) * s for n, s in zip(sizes, strides, strict=True) if n and s < 0)
    return Layout(tuple(sizes), tuple(strides), draw(st.integers(0, 20)) - low), unit


def mask(layout, unit):
    """Which bytes of the storage NumPy reaches through the layout."""
    seen = np.zeros(STORAGE, bool)
    if 0 not in layout.sizes:
        view = np.ndarray(
            (*layout.sizes, unit), bool, seen, layout.offset * unit, (*(s * unit for s in layout.strides), 1)
        )
        view[...] = True
    return seen


@given(layouts())
def test_intervals_are_the_bytes_that_numpy_writes(case):
    layout, unit = case
    reached = np.zeros(STORAGE, bool)
    intervals = byte_intervals(layout, unit, unit)
    for first, end in intervals:
        reached[first:end] = True
    assert np.array_equal(reached, mask(layout, unit))
    assert total(intervals) == reached.sum()
    assert intervals == union(intervals)  # sorted, disjoint and not touching


@given(st.lists(layouts(), max_size=4), st.integers(1, 80))
def test_a_picture_shows_the_share_of_each_cell(cases, cells):
    reaches = [byte_intervals(layout, unit, unit) for layout, unit in cases]
    drawn = picture("s0", 1000, [f"t{i}" for i in range(len(cases))], reaches, cells)
    assert len(drawn.shared) <= cells
    assert drawn.bytes_per_cell * len(drawn.shared) >= 1000 > drawn.bytes_per_cell * (len(drawn.shared) - 1)
    for lane, (layout, unit) in zip(drawn.lanes, cases, strict=True):
        seen = mask(layout, unit)[:1000]
        edges = range(0, 1000, drawn.bytes_per_cell)
        assert list(lane) == [round(seen[e : e + drawn.bytes_per_cell].mean(), 4) for e in edges]


def test_a_large_dense_tensor_is_one_interval():
    assert byte_intervals(Layout.contiguous((100_000, 1_000_000)), 4, 4) == [(0, 400_000_000_000)]


def test_too_many_intervals_are_not_listed():
    layout = Layout((1_000_000, 10), (30, 3))
    assert byte_intervals(layout, 4, 4) is None
    assert reached_bytes([[(0, 4)], None]) is None
