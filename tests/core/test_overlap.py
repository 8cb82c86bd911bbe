"""Exact overlap where enumeration is out of the question: closed forms, and a bound on the work of the rest."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stridetool.core import overlap
from stridetool.core.layout import Layout

HUGE = 2**40


@pytest.mark.parametrize(
    ("layout", "distinct"),
    [
        (Layout.contiguous((HUGE,)).unfold(0, 512, 128), 128 * ((HUGE - 512) // 128) + 512),
        (Layout.contiguous((HUGE,)).unfold(0, 128, 128), HUGE),
        (Layout.contiguous((HUGE,)).unfold(0, 100, 128), 100 * ((HUGE - 100) // 128 + 1)),
        (Layout.contiguous((10**6, 10**6)).unfold(0, 9, 1).unfold(1, 9, 1), 10**12),
        (Layout.contiguous((10**6, 10**6)).slice(1, 0, 10**6, 7), 10**6 * -(-(10**6) // 7)),
        (Layout.contiguous((HUGE, 1)).expand((HUGE, 2**20)), HUGE),
        (Layout((HUGE, HUGE), (1, HUGE)), HUGE * HUGE),
        (Layout((HUGE, HUGE), (2, 3)), HUGE * HUGE - (HUGE - 3) * (HUGE - 2)),
        (Layout((HUGE, 3), (-(10**9), 1)), 3 * HUGE),
        (Layout.contiguous((64, 3, 10**5, 10**5)).transpose(1, 3).narrow(2, 5, 90_000), 64 * 3 * 10**5 * 90_000),
    ],
)
def test_huge_layouts_have_closed_forms(layout, distinct):
    assert layout.distinct_elements() == distinct
    assert layout.has_internal_overlap() is (distinct < layout.numel)


def test_three_strides_beyond_any_bit_set():
    """Strides that cross, too far apart to enumerate: only a search can rule a collision out, or find it."""
    a, b = 10**9 + 7, 10**9 + 9
    apart = Layout((3, 1000, 1000), (10**12 + 1, a, b))
    assert apart.has_internal_overlap() is False
    assert apart.distinct_elements() == apart.numel
    assert Layout((3, 1000, 1000), (500 * a - 3 * b, a, b)).has_internal_overlap() is True
    assert Layout((3, 1000, 1000), (500 * a + 999 * b, a, b)).has_internal_overlap() is True
    assert Layout((3, 1000, 1000), (500 * a + 1000 * b, a, b)).has_internal_overlap() is False
    assert Layout((3, 3, 3), (10**9, 10**9 + 1, 2 * 10**9 + 1)).distinct_elements() == 19


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(-40, 40)), max_size=5))
def test_the_search_alone_is_exact(dims):
    """With no bit set to fall back on, the pair test and the search must still give the exact answer."""
    sizes, strides = tuple(n for n, _ in dims), tuple(s for _, s in dims)
    offsets = [sum(i * s for i, s in zip(index, strides, strict=True)) for index in product(*map(range, sizes))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(overlap, "MAX_SPAN_BITS", 0)
        assert overlap.has_internal_overlap(sizes, strides) is (len(set(offsets)) < len(offsets))
        assert overlap.distinct_elements(sizes, strides) == len(set(offsets))


def test_work_is_bounded_and_then_the_answer_is_not_decided():
    """No two of 50^6 indices meet here, but nothing cheap shows it."""
    layout = Layout((50,) * 6, tuple(10**14 + 10 ** (2 * i) for i in range(6)))
    assert layout.has_internal_overlap() is None
    assert layout.distinct_elements() is None
