"""Columns that make room for each other."""

from hypothesis import given
from hypothesis import strategies as st

from stridetool.render.fitting import RankedColumn, fitting

RANKED = st.lists(st.tuples(st.integers(0, 4), st.integers(1, 12)), max_size=6)


def columns_of(ranked):
    """A column of each (rank, width), a cell as wide as that."""
    return [RankedColumn(rank, "", lambda row, width=width: "x" * width) for rank, width in ranked]


@given(RANKED, st.integers(-5, 60))
def test_what_is_chosen_fits_whatever_the_ranks(ranked, room):
    columns, rows = columns_of(ranked), [None]
    chosen = fitting(columns, rows, room)
    assert [column for column in columns if column.rank == 0] == [column for column in chosen if column.rank == 0]
    always = sum(column.width(rows) for column in chosen if column.rank == 0)
    assert sum(column.width(rows) for column in chosen) <= max(room, always)


def test_of_two_columns_of_one_rank_only_what_fits_stays():
    first, second = columns_of([(1, 8), (1, 9)])
    assert fitting([first, second], [None], 10) == [first]
    assert fitting([first, second], [None], 21) == [first, second]
    assert fitting([second, first], [None], 10) == [first]
