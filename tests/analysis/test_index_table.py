"""The table of elements against the layout as a function, and its first row at once."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from stridetool.analysis.index_table import index_table
from stridetool.analysis.rows import tensor_row
from stridetool.core.facts import ArrayFacts
from stridetool.core.layout import Layout


def row(layout, itemsize=4, address=0x1000):
    facts = ArrayFacts(
        name="x", library="numpy", dtype="float32", itemsize=itemsize, device="cpu", layout=layout, unit=itemsize,
        storage=address, address=address, storage_nbytes=1 << 20,
    )  # fmt: skip
    return tensor_row(facts, "s0")


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(-5, 5)), max_size=4), st.integers(0, 9))
def test_every_element_once_in_logical_order(dims, offset):
    layout = Layout(tuple(n for n, _ in dims), tuple(s for _, s in dims), offset)
    rows = list(index_table([row(layout)]))
    indices = list(itertools.product(*(range(n) for n in layout.sizes)))
    assert [r.index for r in rows] == indices
    assert [r.offset for r in rows] == [layout(*index) for index in indices]
    assert [r.byte for r in rows] == [4 * layout(*index) for index in indices]
    assert [int(r.address, 16) for r in rows] == [0x1000 + 4 * layout(*index) for index in indices]


def test_the_first_row_of_a_billion_comes_at_once():
    first = next(index_table([row(Layout.contiguous((1000, 1000, 1000)))]))
    assert (first.index, first.offset) == ((0, 0, 0), 0)
