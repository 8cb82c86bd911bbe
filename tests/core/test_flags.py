"""Contiguity flags, suggested format, preserved strides and overlap against 3,778 recorded answers of torch 2.13.0."""

import gzip
import json
from pathlib import Path

import pytest

from stridetool.core.layout import Layout
from stridetool.errors import TensorError

ROWS = Path(__file__).parents[1] / "data" / "view_semantics" / "flags.jsonl.gz"
LETTERS = {"c": "contiguous_format", "l": "channels_last", "3": "channels_last_3d"}


@pytest.fixture(scope="module")
def rows():
    with gzip.open(ROWS, "rt") as lines:
        return [json.loads(line) for line in lines]


def flags(layout):
    return "".join(
        letter
        for letter, holds in (
            ("C", layout.is_contiguous()),
            ("L", layout.is_contiguous("channels_last")),
            ("3", layout.is_contiguous("channels_last_3d")),
            ("D", layout.is_non_overlapping_and_dense()),
        )
        if holds
    )


def test_every_column_of_every_recorded_row(rows):
    assert len(rows) == 3_778
    for sizes, strides, letters, suggested, preserved, code, overlaps in rows:
        layout = Layout(tuple(sizes), tuple(strides))
        assert flags(layout) == letters, layout
        assert layout.suggested_memory_format() == LETTERS[suggested], layout
        assert layout.preserve_format_strides() == tuple(preserved), layout
        assert Layout.dense_like(layout).strides == tuple(preserved), layout
        assert layout.overlap_code() == code, layout
        assert layout.has_internal_overlap() is bool(overlaps), layout


@pytest.mark.parametrize(
    ("sizes", "memory_format", "strides"),
    [
        ((2, 0, 3), "contiguous_format", (3, 3, 1)),
        ((), "contiguous_format", ()),
        ((2, 3, 4, 5), "channels_last", (60, 1, 15, 3)),
        ((2, 0, 3, 4), "channels_last", (0, 1, 0, 0)),
        ((2, 3, 0, 4), "channels_last", (0, 1, 12, 3)),
        ((2, 3, 4, 5, 6), "channels_last_3d", (360, 1, 90, 18, 3)),
    ],
)
def test_fresh_strides_let_an_empty_size_count_as_one_only_in_c_order(sizes, memory_format, strides):
    assert Layout.contiguous(sizes, memory_format).strides == strides


@pytest.mark.parametrize(("memory_format", "rank"), [("channels_last", 4), ("channels_last_3d", 5)])
def test_a_format_has_one_rank(memory_format, rank):
    with pytest.raises(TensorError, match=f"required rank {rank} tensor to use {memory_format} format"):
        Layout.contiguous((2, 3), memory_format)
